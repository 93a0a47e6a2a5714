"""The job's audit on a real journal: a separate process audits the newest rows, and its result is recorded.

That the logs were read again after a repair is no violation, and a later one is found.
"""

import os
import sqlite3
import time
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from typer.testing import CliRunner

from connectors.errors import UnavailableStoreError
from connectors.observations.observation import Observation, ObservationKind, ObservationsAudited
from connectors.store.audit_results import AuditResults
from connectors.store.journal_file import journal_file
from connectors.store.journal_reader import JournalReader
from connectors.store.journal_writer import JournalWriter
from connectors.store.tables import job_database
from streaming.cli import app
from streaming.data_quality.daily_audit import INTERVAL_S, AuditSource, DailyAudit, audit_sample
from tests.unit.streaming.data_quality.test_every_contract import failed_observation, records

# The process of an audit has a low priority: where 18 processes share two cores, it has needed more than five minutes.
pytestmark = pytest.mark.timeout(3_600)


def write(journal: Path, *rows: Observation, again: bool = False) -> None:
    with JournalWriter(journal) as writer:
        if again:
            writer.read_logs_again()
        writer.append(list(rows))


@dataclass
class Job:
    """What the job passes to its audit."""

    folder: Path
    every_s: float = INTERVAL_S
    journal: str = "journal"
    unavailable: bool = False
    found: dict[str, ObservationsAudited] = field(default_factory=dict)

    def recorded(self, *rows: Observation) -> None:
        write(self.folder / "journal", *rows)

    def daily_audit(self) -> DailyAudit:
        return DailyAudit(
            self.folder,
            source=self.source,
            results=self.results,
            record=self.found.__setitem__,
            every_s=lambda: self.every_s,
        )

    def source(self) -> AuditSource:
        if self.unavailable:
            raise UnavailableStoreError("the store does not answer")
        return AuditSource(journal=self.folder / self.journal, store=self.folder)

    @property
    def results(self) -> AuditResults:
        return AuditResults(job_database(self.folder))

    def last_audit(self, ago_s: float) -> None:
        at = time.time() - ago_s
        (self.folder / "last-audit").touch()
        os.utime(self.folder / "last-audit", (at, at))


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path)


def test_a_violation_is_reported_for_its_cluster_and_each_contract_is_a_row_of_the_store(job: Job) -> None:
    misfiled = failed_observation("prod", kind=ObservationKind.PROBE)
    job.recorded(failed_observation("prod"), misfiled, failed_observation("lab"))

    job.daily_audit().audit()

    assert (job.found["lab"].broken, job.found["lab"].rows) == ((), 3)
    (broken,) = job.found["prod"].broken
    assert (broken.contract, broken.rows, broken.sequence) == ("observation-is-of-its-kind", 1, 1)
    assert broken.example == "row 1, misfiled observation-failed"
    newest = {one.contract: one for one in job.results.newest()}
    stored = newest["observation-is-of-its-kind"]
    assert (stored.suite, stored.checked_rows, stored.broken_rows, stored.clusters) == ("observations", 3, 1, ("prod",))
    assert stored.example == broken.example
    assert newest["offsets-ascend"].broken_rows == 0, "a kept contract is a row too"
    assert {one.suite for one in newest.values()} == {"observations", "events"}, "no alert was sent"


def test_what_is_audited_may_change_while_the_job_runs(job: Job, caplog: pytest.LogCaptureFixture) -> None:
    job.recorded(failed_observation("prod"))
    job.journal = "of-no-job"
    audits = job.daily_audit()
    audits.audit()
    assert "the daily audit failed: SubprocessError" in caplog.text
    assert "holds no journal" in caplog.text
    job.journal, job.unavailable = "journal", True
    audits.audit()
    assert job.found == {}
    assert "the daily audit failed: UnavailableStoreError: the store does not answer" in caplog.text

    job.unavailable = False
    audits.audit()
    assert [*job.found] == ["prod"]


@pytest.mark.parametrize(
    ("ago_s", "every_s", "due"),
    [
        (None, 1, False),
        (INTERVAL_S - 60, 1, False),
        (INTERVAL_S + 1, 1, True),
        (2 * INTERVAL_S, 0, False),
    ],
    ids=["new checkpoint", "audited today", "audited yesterday", "turned off"],
)
def test_audits_are_a_day_apart_across_restarts(job: Job, ago_s: float | None, every_s: float, *, due: bool) -> None:
    job.every_s = every_s
    if ago_s is not None:
        job.last_audit(ago_s)

    assert [job.daily_audit().due() for _ in range(2)] == [due, False]


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """Returns a journal whose logs were read again from offset 0, where the epoch is lower."""
    folder = tmp_path / "journal"
    begin, end = records("prod", 0, 9, epoch=1), records("prod", 10, 19, epoch=2)
    write(folder, begin, end, records("lab", 0, 3, epoch=1))
    write(folder, begin, records("prod", 10, 24, epoch=2), again=True)
    return folder


def violated(journal: Path) -> set[str]:
    """Returns the contracts that the job's sample and the command find violated; both find the same."""
    sampled = audit_sample(AuditSource(journal=journal, store=journal.parent)).clusters["prod"].broken
    ended = CliRunner().invoke(app, ["audit", "--journal", str(journal)])
    found = {one.contract for one in sampled}
    assert {name for name in found if name in ended.stdout} == found
    assert ended.exit_code == (1 if found else 0), ended.output
    return found


def test_logs_that_are_read_again_violate_no_contract(journal: Path) -> None:
    assert violated(journal) == set()


def test_a_log_that_goes_back_without_a_repair_violates_contracts(journal: Path) -> None:
    with closing(sqlite3.connect(journal_file(journal))) as database, database:
        database.execute("UPDATE journal SET restarted_at = NULL")

    assert violated(journal) == {"offsets-ascend", "log-epoch-never-falls"}


def test_a_log_that_goes_back_after_the_repair_violates_contracts(journal: Path) -> None:
    assert JournalReader(journal).beginning() == 3
    write(journal, records("prod", 5, 6, epoch=2))

    assert violated(journal) == {"offsets-ascend"}
