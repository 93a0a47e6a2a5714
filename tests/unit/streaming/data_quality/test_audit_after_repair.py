"""The audit of a journal whose logs were read again after a repair: that is no violation, and a later one is found."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from connectors.observations.observation import Observation
from connectors.store.journal_file import journal_file
from connectors.store.journal_reader import JournalReader
from connectors.store.journal_writer import JournalWriter
from streaming.cli import app
from streaming.data_quality.daily_audit import AuditSource, audit_sample
from tests.unit.streaming.data_quality.test_every_contract import records


def write(journal: Path, *rows: Observation, again: bool = False) -> None:
    with JournalWriter(journal) as writer:
        if again:
            writer.read_logs_again()
        writer.append(list(rows))


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
