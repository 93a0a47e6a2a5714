"""The gatherer process: its first line, exit codes, and the end when stdin closes."""

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from connectors.gather.gatherer_input import GathererSettings, settings_to_line
from connectors.kafka.cluster_connection import ClusterConnection
from connectors.observations.observation import ObservationFailed, ObservationKind, from_json
from connectors.store.journal_reader import JournalReader
from connectors.store.journal_writer import JournalWriter
from rules.model.monitoring import ObservationSource, Reason
from tests.eventually import eventually

SECRET = "secret-password"
COMMAND = (sys.executable, "-m", "connectors.gather")


def unused_address() -> tuple[str, int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return "127.0.0.1", port


def settings(folder: Path) -> GathererSettings:
    options = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "sasl_plain_password": SECRET}
    cluster = ClusterConnection(name="a", bootstrap=(unused_address(), unused_address()), options=options)
    return GathererSettings(clusters=(cluster,), journal=str(folder / "journal"), lock_timeout_s=0.2)


@contextmanager
def started(settings: GathererSettings) -> Iterator["subprocess.Popen[bytes]"]:
    """Starts a gatherer, and kills it if the block leaves it running."""
    with subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(settings_to_line(settings))
        process.stdin.flush()
        try:
            assert process.stdout.readline() == b"ready\n"
            yield process
        finally:
            process.kill()


def ended(process: "subprocess.Popen[bytes]", *, close: bool = True) -> bytes:
    """Closes the gatherer's stdin, waits until it ends without an error, and returns what it logged."""
    assert process.stdin is not None
    assert process.stderr is not None
    if close:
        process.stdin.close()
    assert process.wait(60) == 0
    return process.stderr.read()


def test_unreachable_cluster_is_recorded_until_stdin_closes(tmp_path: Path) -> None:
    configured = settings(tmp_path)
    with started(configured) as process:
        journal = JournalReader(tmp_path / "journal")

        def every_endpoint_refuses() -> None:
            rows = list(journal.read(journal.first_sequence(), journal.published_end()))
            assert {row.kind for row in rows} == {ObservationKind.FAILED}
            events = {from_json(row.payload) for row in rows}
            for source in (ObservationSource.LOG, ObservationSource.QUORUM):
                refused = {
                    event.endpoint
                    for event in events
                    if isinstance(event, ObservationFailed) and (event.source, event.reason) == (source, Reason.REFUSED)
                }
                assert refused == {f"{host}:{port}" for host, port in configured.clusters[0].bootstrap}

        eventually(every_endpoint_refuses, within_s=20)
        assert SECRET.encode() not in ended(process)


def test_journal_in_use_is_reported_in_one_sentence_with_exit_code_3(tmp_path: Path) -> None:
    with JournalWriter(tmp_path / "journal"):
        refused = subprocess.run(COMMAND, input=settings_to_line(settings(tmp_path)), capture_output=True, timeout=120)
    assert refused.returncode == 3
    assert refused.stdout.count(b"\n") == 1
    assert b"journal" in refused.stdout


def test_invalid_settings_are_reported_in_one_sentence_with_exit_code_2(tmp_path: Path) -> None:
    refused = subprocess.run(COMMAND, input=b'{"clusters": 7}\n', capture_output=True, timeout=120)
    assert refused.returncode == 2
    assert refused.stdout.count(b"\n") == 1
    assert b"clusters" in refused.stdout


def test_sigterm_ends_the_gatherer_cleanly_while_stdin_is_open(tmp_path: Path) -> None:
    with started(settings(tmp_path)) as process:
        journal = JournalReader(tmp_path / "journal")

        def rows_are_published() -> None:
            assert journal.published_end() > 0

        eventually(rows_are_published, within_s=20)
        process.terminate()

        assert ended(process, close=False) == b""
