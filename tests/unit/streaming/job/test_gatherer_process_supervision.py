"""A real gatherer process that is killed, hangs, ignores its stdin, or cannot be restarted. No quorum, no JVM."""

import os
import resource
import signal
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from connectors.errors import ProcessEndedError
from connectors.kafka.cluster_connection import ClusterConnection
from connectors.observations.observation import Event, Observation, ObservationKind, from_json
from connectors.store.journal_file import journal_file
from connectors.store.journal_reader import JournalReader
from rules.model.identifiers import Millis, NodeId
from rules.model.witness import DialStep, PeerDial, Reached, WitnessRow
from streaming.job import gatherer_process
from streaming.job.gatherer_process import GathererProcess
from tests.eventually import eventually

UNREACHABLE = ClusterConnection(name="a", bootstrap=(("127.0.0.1", 1),), cluster_id="AAAAAAAAAAAAAAAAAAAAAA")


@pytest.fixture
def gatherer(tmp_path: Path) -> Iterator[GathererProcess]:
    gatherer = GathererProcess([UNREACHABLE], journal=tmp_path / "journal", logs=tmp_path / "log")
    gatherer.start()
    yield gatherer
    gatherer.stop()
    assert not gatherer.alive


def running(gatherer: GathererProcess) -> int:
    assert gatherer.pid is not None
    assert gatherer.alive
    return gatherer.pid


def test_a_killed_gatherer_is_restarted(gatherer: GathererProcess) -> None:
    first = running(gatherer)
    os.kill(first, signal.SIGKILL)

    eventually(lambda: gatherer.alive and gatherer.pid != first, within_s=20)


def test_rows_that_a_full_disk_does_not_take_are_passed_on_and_stored_once_it_has_room(tmp_path: Path) -> None:
    unwritten: list[Observation] = []
    gatherer = GathererProcess(
        [UNREACHABLE], journal=tmp_path / "journal", logs=tmp_path / "log", on_unwritten=unwritten.append
    )
    gatherer.start()
    first, journal = running(gatherer), JournalReader(tmp_path / "journal")
    eventually(lambda: journal.published_end() > 0, within_s=60)

    # It can write to no file.
    _, hard = resource.prlimit(first, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    eventually(lambda: len(unwritten) >= 3, within_s=60)
    resource.prlimit(first, resource.RLIMIT_FSIZE, (hard, hard))
    eventually(lambda: journal.published_end() > unwritten[-1].sequence, within_s=60)

    passed_on = unwritten[:]
    stored = {row.sequence: row for row in journal.read(0, journal.published_end())}
    assert [stored[row.sequence] for row in passed_on] == passed_on
    assert running(gatherer) == first
    gatherer.stop()


def test_what_a_host_reports_is_an_observation_also_if_the_pipe_takes_it_in_parts(
    gatherer: GathererProcess, tmp_path: Path
) -> None:
    peer = PeerDial(node=NodeId(2), endpoint="c2:9093", reached=Reached.NO, step=DialStep.TLS, why="x" * 200)
    rows = [
        WitnessRow(node=NodeId(1), cluster_id="x", at_ms=Millis(at), login="", peers=(peer,) * 32) for at in range(20)
    ]
    first = running(gatherer)
    os.kill(first, signal.SIGSTOP)
    taken = [row for row in rows if gatherer.report_witness("a", row)]
    os.kill(first, signal.SIGCONT)
    assert 0 < len(taken) < len(rows)

    def observed() -> list[Event]:
        journal = JournalReader(tmp_path / "journal")
        found = journal.read(0, journal.published_end())
        return [from_json(row.payload) for row in found if row.kind is ObservationKind.WITNESS]

    eventually(lambda: observed() == taken, within_s=20)
    assert running(gatherer) == first


def test_a_gatherer_that_is_killed_while_it_starts_is_no_invalid_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 2 would tell the supervisor not to restart the job."""
    monkeypatch.setattr(sys, "executable", "/bin/false")
    gatherer = GathererProcess([UNREACHABLE], journal=tmp_path / "journal", logs=tmp_path / "log")

    with pytest.raises(ProcessEndedError, match=r"as if it had been killed .*: start kraftwatch again; see "):
        gatherer.start()


def test_a_hanging_gatherer_is_killed_and_restarted(
    gatherer: GathererProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    first, journal = running(gatherer), JournalReader(tmp_path / "journal")
    # On a busy machine it takes long to its first row: a short limit would end it before that.
    eventually(lambda: journal.created and journal.published_end() > journal.first_sequence(), within_s=20)
    # First: with the short limit, one that has just paused for so long would be killed.
    os.kill(first, signal.SIGSTOP)
    monkeypatch.setattr(gatherer_process, "HANGS_S", 3)

    eventually(lambda: "killed: it recorded nothing for 3 s" in caplog.text, within_s=20)
    # On a busy machine the next one may take longer to its first row.
    monkeypatch.setattr(gatherer_process, "HANGS_S", 600)
    eventually(lambda: gatherer.alive and gatherer.pid != first, within_s=20)
    published = journal.published_end()
    eventually(lambda: journal.published_end() > published, within_s=20)


def test_a_gatherer_that_does_not_read_never_blocks_the_job(gatherer: GathererProcess) -> None:
    os.kill(running(gatherer), signal.SIGSTOP)

    for due in range(5_000):
        gatherer.request_polls({"a": (Millis(due), Millis(0))})


def test_a_failed_restart_is_retried(
    gatherer: GathererProcess, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = running(gatherer)
    logs, away = tmp_path / "log", tmp_path / "away"
    logs.rename(away)
    os.kill(first, signal.SIGKILL)
    eventually(lambda: "could not be restarted" in caplog.text, within_s=20)
    away.rename(logs)

    eventually(lambda: gatherer.alive and gatherer.pid != first, within_s=20)


def test_the_reason_a_gatherer_prints_before_it_exits_is_logged(
    gatherer: GathererProcess, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    # The journal can no longer be written: the gatherer prints so and exits.
    first = running(gatherer)
    with closing(sqlite3.connect(journal_file(tmp_path / "journal"))) as database:
        database.execute("ALTER TABLE progress RENAME TO elsewhere")

        eventually(lambda: "observations.db cannot be used: no such table: progress" in caplog.text, within_s=20)
        database.execute("ALTER TABLE elsewhere RENAME TO progress")
    eventually(lambda: gatherer.alive and gatherer.pid != first, within_s=20)
