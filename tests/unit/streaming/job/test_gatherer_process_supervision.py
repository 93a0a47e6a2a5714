"""The leash: a real gatherer that is killed, stopped, deaf or cannot be started again. No quorum, no JVM."""

import os
import select
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from connectors.cluster_connection import Cluster
from connectors.event import Audited, BrokenContract, from_json
from connectors.gather.control_messages import Found, from_line
from connectors.journal.reader import Journal
from connectors.observation import Kind
from rules.model.identifiers import Millis
from streaming.job import gatherer_process
from streaming.job.gatherer_process import Gatherer, found_line
from tests.eventually import eventually

NOBODY = Cluster(name="a", bootstrap=(("127.0.0.1", 1),), cluster_id="AAAAAAAAAAAAAAAAAAAAAA")


@pytest.fixture
def gatherer(tmp_path: Path) -> Iterator[Gatherer]:
    gatherer = Gatherer([NOBODY], journal=tmp_path / "journal", logs=tmp_path / "log")
    gatherer.start()
    yield gatherer
    gatherer.stop()
    assert not gatherer.alive


def running(gatherer: Gatherer) -> int:
    assert gatherer.pid is not None
    assert gatherer.alive
    return gatherer.pid


def test_one_that_is_killed_is_started_again(gatherer: Gatherer) -> None:
    first = running(gatherer)
    os.kill(first, signal.SIGKILL)

    eventually(lambda: gatherer.alive and gatherer.pid != first, within_s=20)


def test_one_that_hangs_is_ended_and_started_again(
    gatherer: Gatherer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(gatherer_process, "HANGS_S", 3)
    first = running(gatherer)
    os.kill(first, signal.SIGSTOP)

    eventually(lambda: gatherer.alive and gatherer.pid != first, within_s=20)

    assert "it had recorded nothing for 3 s" in caplog.text
    published = Journal(tmp_path / "journal").published()
    eventually(lambda: Journal(tmp_path / "journal").published() > published, within_s=20)


def test_one_that_does_not_listen_holds_up_nobody(gatherer: Gatherer) -> None:
    os.kill(running(gatherer), signal.SIGSTOP)

    for due in range(5_000):
        gatherer.expect("a", Millis(due))


def test_one_that_cannot_be_started_again_is_tried_again(
    gatherer: Gatherer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = running(gatherer)
    logs, away = tmp_path / "log", tmp_path / "away"
    logs.rename(away)
    os.kill(first, signal.SIGKILL)
    eventually(lambda: "could not be started again" in caplog.text, within_s=20)
    away.rename(logs)

    eventually(lambda: gatherer.alive and gatherer.pid != first, within_s=20)


def test_what_it_says_when_it_gives_up_is_heard(
    gatherer: Gatherer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    # The journal can no longer be written: the gatherer says so and ends.
    first = running(gatherer)
    (tmp_path / "journal" / "published").rename(tmp_path / "published")
    (tmp_path / "journal" / "published").mkdir()

    eventually(lambda: "cannot be written" in caplog.text, within_s=20)
    (tmp_path / "journal" / "published").rmdir()
    (tmp_path / "published").rename(tmp_path / "journal" / "published")
    eventually(lambda: gatherer.alive and gatherer.pid != first, within_s=20)


def verdict(example: str, contracts: int = 1) -> Audited:
    broken = tuple(
        BrokenContract(contract=f"c{at}", promise="p", grave=False, rows=1, example=example, sequence=at)
        for at in range(contracts)
    )
    return Audited(rows=9, first_sequence=0, last_sequence=8, broken=broken)


def test_what_an_audit_found_is_recorded_in_the_journal(gatherer: Gatherer, tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    gatherer.record("a", verdict("row 4"))

    def recorded() -> bytes:
        found = [row.payload for row in journal.read(0, journal.published()) if row.kind is Kind.AUDIT]
        assert found
        return found[0]

    payload = eventually(recorded, within_s=20)
    assert from_json(payload) == verdict("row 4")


def test_what_a_pipe_would_not_take_whole_is_left_out() -> None:
    line = found_line("a", verdict("ü" * 400, contracts=8))

    assert len(line) <= select.PIPE_BUF
    said = from_line(line)
    assert isinstance(said, Found)
    assert [one.contract for one in said.audited.broken] == ["c0", "c1", "c2", "c3"]
