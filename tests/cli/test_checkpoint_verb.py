"""`kraftwatch checkpoint repair`: texts and exit codes. tests/spark/test_checkpoint_repair.py shows what it does."""

from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import Result

from connectors.errors import JournalError, UsageError
from connectors.observations.observation import Observation, ObservationKind
from connectors.store.journal_file import journal_file
from connectors.store.journal_reader import JournalReader
from connectors.store.journal_writer import JournalWriter
from connectors.store.tables import sqlite_database
from streaming.pipeline.checkpoint import Checkpoint
from streaming.pipeline.checkpoint_source import CheckpointSource, checkpoint_source, record_source
from tests.cli.program import kraftwatch, owned_by_another_user, usage_error

ROW = Observation(cluster="prod", kind=ObservationKind.FAILED, observed_at_ms=1)
NO_DATABASE = b"x" * 20_000
PAYLOAD = b"<payload of a row>" * 20
READ_AGAIN = (
    "Spark starts with a new state, and the gatherer reads each cluster's metadata log again. Firing alerts are in the "
    "ledger: they are not sent again, and they resolve when their condition is over. Rows that were recorded but not "
    "evaluated are not evaluated."
)


def repair(folder: Path, *options: str) -> Result:
    return kraftwatch("checkpoint", "repair", "--checkpoint", folder, *options)


def refusal(folder: Path | str, *options: str) -> str:
    return usage_error("checkpoint", "repair", "--checkpoint", folder, *options)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    """Returns a checkpoint whose journal is no database, and whose cluster ids cannot be read."""
    checkpoint = Checkpoint(folder=tmp_path / "checkpoint")
    with JournalWriter(checkpoint.journal) as writer:
        writer.append([ROW] * 3)
    journal_file(checkpoint.journal).write_bytes(NO_DATABASE)
    checkpoint.identity.write_text("{")
    return checkpoint


def test_a_dry_run_says_what_it_would_do_and_changes_nothing(checkpoint: Checkpoint) -> None:
    result = repair(checkpoint.folder)

    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        f"{checkpoint.identity} cannot be read",
        "  repair: It is moved away; the next start asks each cluster for its id.",
        f"{journal_file(checkpoint.journal)} is damaged: file is not a database",
        "  repair: None of its rows can be read: a new one begins, and the numbers of the rows continue.",
        f"{checkpoint.spark} has no offsets, and journal/ lacks its first rows",
        f"  repair: {READ_AGAIN}",
    ]
    assert "nothing was changed; repair it with --apply" in result.stderr
    assert journal_file(checkpoint.journal).read_bytes() == NO_DATABASE
    assert checkpoint.identity.read_text() == "{"


def test_apply_repairs_and_keeps_what_it_replaces(checkpoint: Checkpoint) -> None:
    with pytest.raises(UsageError, match=r"observations\.db is damaged: .*kraftwatch checkpoint repair"):
        checkpoint.check_observations()

    result = repair(checkpoint.folder, "--apply")

    assert result.exit_code == 0, result.output
    assert "  repaired: It is moved away" in result.stdout
    assert "the checkpoint is repaired: start the job" in result.stderr
    assert (checkpoint.folder / "cluster.json.damaged-1").read_text() == "{"
    checkpoint.check_observations()
    assert checkpoint.cluster_ids() == {}

    again = repair(checkpoint.folder)
    assert (again.exit_code, again.stdout) == (0, "")
    assert "no file of the checkpoint is damaged" in again.stderr


def test_rows_behind_the_damage_are_kept_and_the_logs_are_read_again_without_a_state(tmp_path: Path) -> None:
    checkpoint = Checkpoint(folder=tmp_path)
    with JournalWriter(checkpoint.journal) as writer:
        for at in range(40):
            writer.append([replace(ROW, observed_at_ms=at, payload=PAYLOAD)])
    path = journal_file(checkpoint.journal)
    content = bytearray(path.read_bytes())
    page = content.index(PAYLOAD) // 4096 * 4096
    content[page : page + 4096] = bytes(4096)
    path.write_bytes(content)
    for log in ("offsets", "commits"):
        (checkpoint.spark / log).mkdir(parents=True)
        (checkpoint.spark / log / "0").write_bytes(b"")
    (checkpoint.spark / "metadata").write_text('{"id": "a"}')
    sqlite_database(checkpoint.folder).create()

    dry, applied = repair(checkpoint.folder), repair(checkpoint.folder, "--apply")

    assert (dry.exit_code, applied.exit_code) == (1, 0), applied.output
    assert applied.stdout == dry.stdout.replace("  repair: ", "  repaired: ")
    lines = dry.stdout.splitlines()
    assert lines[0].startswith(f"{path} is damaged: ")
    assert lines[1].startswith("  repair: The newest rows that can be read without a gap, ")
    assert "reads each cluster's metadata log again" in lines[3]
    assert path.with_name("observations.db.damaged-1").read_bytes() == content
    assert (tmp_path / "spark.damaged-1" / "offsets" / "0").exists()
    journal = JournalReader(checkpoint.journal)
    assert 0 < journal.first_sequence() < journal.beginning() == 40
    assert repair(checkpoint.folder).exit_code == 0


def test_spark_is_not_moved_away_if_the_journal_cannot_be_opened(tmp_path: Path) -> None:
    checkpoint = Checkpoint(folder=tmp_path)
    with JournalWriter(checkpoint.journal) as writer:
        writer.append([ROW])
    JournalReader(checkpoint.journal).commit(1)
    with JournalWriter(checkpoint.journal, keep_bytes=0):
        pass
    (checkpoint.spark / "offsets").mkdir(parents=True)
    (checkpoint.spark / "offsets" / "0").write_bytes(b"")
    with JournalWriter(checkpoint.journal):
        assert isinstance(repair(checkpoint.folder, "--apply").exception, JournalError)

    assert (checkpoint.spark / "offsets" / "0").exists()


def test_root_does_not_repair_what_the_user_of_the_job_could_not_read(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    owned_by_another_user(checkpoint.folder, monkeypatch)

    for options in ((), ("--apply",)):
        assert "who could not read what root writes: run this" in refusal(checkpoint.folder, *options)
    assert journal_file(checkpoint.journal).read_bytes() == NO_DATABASE
    assert not (checkpoint.folder / "lock").exists()


def test_a_checkpoint_in_use_is_not_repaired(checkpoint: Checkpoint) -> None:
    with checkpoint.held():
        assert "another kraftwatch holds its lock; stop that process first" in refusal(checkpoint.folder, "--apply")
    assert journal_file(checkpoint.journal).read_bytes() == NO_DATABASE


def test_a_folder_of_a_remote_checkpoint_without_its_database_gives_up_sparks_state(tmp_path: Path) -> None:
    folder = Checkpoint(folder=tmp_path)
    source = CheckpointSource(kind="kafka", starting_offsets={"observations": {0: 7}}, uri="s3a://bucket/kraftwatch")
    record_source(folder, source)
    sqlite_database(tmp_path).path.write_bytes(NO_DATABASE)

    result = repair(tmp_path, "--apply")

    assert result.exit_code == 0, result.output
    assert "no longer belongs to Spark's state in s3a://bucket/kraftwatch: give the job another place" in result.output
    assert checkpoint_source(folder) == replace(source, uri=None)
