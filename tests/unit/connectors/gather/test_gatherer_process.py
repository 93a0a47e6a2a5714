"""The process: one line, an exit code, and an end when the leash is let go."""

import socket
import subprocess
import sys
from pathlib import Path

from connectors.cluster_connection import Cluster
from connectors.event import ObservationFailed, from_json
from connectors.gather.gatherer_settings import Settings, to_line
from connectors.journal.reader import JournalReader
from connectors.journal.writer import JournalWriter
from connectors.observation import Kind
from rules.model.monitoring import ObservationSource, Reason
from tests.eventually import eventually

SECRET = "never-to-be-seen"
COMMAND = (sys.executable, "-m", "connectors.gather")


def nobody() -> tuple[str, int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return "127.0.0.1", port


def settings(folder: Path) -> Settings:
    options = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "sasl_plain_password": SECRET}
    cluster = Cluster(name="a", bootstrap=(nobody(), nobody()), options=options)
    return Settings(clusters=(cluster,), journal=str(folder / "journal"), lock_timeout_s=0.2, verbose=True)


def test_a_cluster_that_is_not_there_is_said_each_second_until_the_leash_is_let_go(tmp_path: Path) -> None:
    told = settings(tmp_path)
    with subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(to_line(told))
        process.stdin.flush()
        assert process.stdout.readline() == b"ready\n"
        journal = JournalReader(tmp_path / "journal")

        def every_endpoint_refuses() -> None:
            rows = list(journal.read(journal.first(), journal.published()))
            assert {row.kind for row in rows} == {Kind.UNSEEN}
            said = {from_json(row.payload) for row in rows}
            for sight in (ObservationSource.LOG, ObservationSource.QUORUM):
                refused = {
                    event.endpoint
                    for event in said
                    if isinstance(event, ObservationFailed) and (event.sight, event.reason) == (sight, Reason.REFUSED)
                }
                assert refused == {f"{host}:{port}" for host, port in told.clusters[0].bootstrap}

        eventually(every_endpoint_refuses, within_s=20)
        process.stdin.close()
        assert process.wait(60) == 0
        assert SECRET.encode() not in process.stderr.read()


def test_a_journal_in_use_is_one_sentence_and_exit_3(tmp_path: Path) -> None:
    with JournalWriter(tmp_path / "journal"):
        ended = subprocess.run(COMMAND, input=to_line(settings(tmp_path)), capture_output=True, timeout=120)
    assert ended.returncode == 3
    assert ended.stdout.count(b"\n") == 1
    assert b"journal" in ended.stdout


def test_settings_that_cannot_be_used_are_one_sentence_and_exit_2(tmp_path: Path) -> None:
    ended = subprocess.run(COMMAND, input=b'{"clusters": 7}\n', capture_output=True, timeout=120)
    assert ended.returncode == 2
    assert ended.stdout.count(b"\n") == 1
    assert b"clusters" in ended.stdout


def test_a_sigterm_is_an_end_in_good_order_though_the_leash_still_holds(tmp_path: Path) -> None:
    with subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(to_line(settings(tmp_path)))
        process.stdin.flush()
        assert process.stdout.readline() == b"ready\n"
        journal = JournalReader(tmp_path / "journal")

        def it_looks() -> None:
            assert journal.published() > 0

        eventually(it_looks, within_s=20)
        process.terminate()

        assert process.wait(60) == 0
        assert process.stderr.read() == b""
