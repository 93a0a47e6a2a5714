"""`kraftwatch checkpoint repair`: texts and exit codes. tests/spark/test_checkpoint_repair.py shows what it does."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from connectors.errors import JournalError, UsageError
from connectors.journal.reader import PUBLISHED, RESTART, JournalReader
from connectors.journal.segment import segment_path
from connectors.journal.writer import JournalWriter
from connectors.observation import Observation, ObservationKind
from connectors.store.tables import job_database
from streaming.cli import app
from streaming.pipeline.checkpoint import Checkpoint
from tests.cli.foreign_checkpoint import owned_by_another_user


def repair(folder: Path, *options: str) -> Result:
    return CliRunner().invoke(app, ["checkpoint", "repair", "--checkpoint", str(folder), *options])


def usage_error(folder: Path, *options: str) -> str:
    result = repair(folder, *options)
    assert isinstance(result.exception, UsageError), result.output
    return str(result.exception)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    """Returns a checkpoint whose position file `published` is missing, and whose cluster ids cannot be read."""
    checkpoint = Checkpoint(folder=tmp_path / "checkpoint")
    with JournalWriter(checkpoint.journal) as writer:
        writer.append([Observation(cluster="prod", kind=ObservationKind.FAILED, observed_at_ms=1)] * 3)
    (checkpoint.journal / PUBLISHED).unlink()
    checkpoint.identity.write_text("{")
    return checkpoint


def test_a_dry_run_says_what_it_would_do_and_changes_nothing(checkpoint: Checkpoint) -> None:
    result = repair(checkpoint.folder)

    assert result.exit_code == 1
    assert result.stdout.splitlines() == [
        f"{checkpoint.identity} cannot be read",
        "  repair: It is moved away; the next start asks each cluster for its id.",
        f"{checkpoint.journal / PUBLISHED}: it is missing beside the journal's segments",
        "  repair: It is written again from the segments: every row that was synced is kept.",
    ]
    assert "nothing was changed; repair it with --apply" in result.stderr
    assert not (checkpoint.journal / PUBLISHED).exists()
    assert checkpoint.identity.read_text() == "{"


def test_apply_repairs_and_keeps_what_it_replaces(checkpoint: Checkpoint) -> None:
    result = repair(checkpoint.folder, "--apply")

    assert result.exit_code == 0, result.output
    assert "  repaired: It is moved away" in result.stdout
    assert "the checkpoint is repaired: start the job" in result.stderr
    assert (checkpoint.folder / "cluster.json.damaged-1").read_text() == "{"
    checkpoint.check_journal()
    assert checkpoint.cluster_ids() == {}

    again = repair(checkpoint.folder)
    assert (again.exit_code, again.stdout) == (0, "")
    assert "no file of the checkpoint is damaged" in again.stderr


def test_a_damaged_restart_position_is_replaced_when_the_logs_are_read_again(checkpoint: Checkpoint) -> None:
    assert repair(checkpoint.folder, "--apply").exit_code == 0
    (checkpoint.journal / RESTART).write_bytes(bytes(600))

    result = repair(checkpoint.folder, "--apply")

    assert result.exit_code == 0, result.output
    assert "the gatherer reads each cluster's metadata log again" in result.stdout
    assert JournalReader(checkpoint.journal).beginning() == 3
    checkpoint.check_journal()


def test_damaged_segment_is_replaced_before_the_logs_are_read_again(tmp_path: Path) -> None:
    checkpoint = Checkpoint(folder=tmp_path)
    with JournalWriter(checkpoint.journal, segment_bytes=100) as writer:
        for at in range(4):
            writer.append([Observation(cluster="prod", kind=ObservationKind.FAILED, observed_at_ms=at)])
            writer.publish()
    damaged = segment_path(checkpoint.journal, 1)
    damaged.write_bytes(damaged.read_bytes()[:-3])
    for log in ("offsets", "commits"):
        (checkpoint.spark / log).mkdir(parents=True)
        (checkpoint.spark / log / "0").write_bytes(b"")
    (checkpoint.spark / "metadata").write_text('{"id": "a"}')
    job_database(checkpoint.folder).create()

    dry, applied = repair(checkpoint.folder), repair(checkpoint.folder, "--apply")

    assert (dry.exit_code, applied.exit_code) == (1, 0), applied.output
    assert applied.stdout == dry.stdout.replace("  repair: ", "  repaired: ")
    assert dry.stdout.splitlines()[:2] == [
        f"{damaged} is damaged",
        "  repair: The journal's segments are moved away, and the numbers of the rows continue.",
    ]
    assert (tmp_path / "journal.damaged-1" / damaged.name).exists()
    assert (tmp_path / "spark.damaged-1" / "offsets" / "0").exists()
    checkpoint.check_journal()
    with JournalWriter(checkpoint.journal) as writer:
        position = writer.follow_progress("prod")
        assert position is not None
        assert (writer.published_end, position.next_offset, position.observed_at_ms) == (4, None, 3)
    assert JournalReader(checkpoint.journal).beginning() == 4
    assert repair(checkpoint.folder).exit_code == 0


def test_spark_is_not_moved_away_if_the_journal_cannot_be_opened(tmp_path: Path) -> None:
    checkpoint = Checkpoint(folder=tmp_path)
    with JournalWriter(checkpoint.journal) as writer:
        writer.append([Observation(cluster="prod", kind=ObservationKind.FAILED, observed_at_ms=1)])
    (checkpoint.journal / RESTART).write_bytes(bytes(600))
    (checkpoint.spark / "offsets").mkdir(parents=True)
    (checkpoint.spark / "offsets" / "0").write_bytes(b"")
    with JournalWriter(checkpoint.journal):
        assert isinstance(repair(checkpoint.folder, "--apply").exception, JournalError)

    assert (checkpoint.spark / "offsets" / "0").exists()


def test_a_lost_database_is_replaced_and_the_logs_are_read_again(checkpoint: Checkpoint) -> None:
    (checkpoint.spark / "commits").mkdir(parents=True)
    (checkpoint.spark / "commits" / "0").write_bytes(b"")
    path = job_database(checkpoint.folder).path
    path.write_bytes(b"x" * 20_000)
    lines = repair(checkpoint.folder).stdout.splitlines()

    assert lines[lines.index(f"{path} is damaged: file is not a database") + 1].startswith("  repair: What can be read")
    assert "the gatherer reads each cluster's metadata log again" in lines[-1]
    assert repair(checkpoint.folder, "--apply").exit_code == 0
    assert path.with_name("kraftwatch.db.damaged-1").read_bytes() == b"x" * 20_000
    assert checkpoint.database_damage() is None
    assert repair(checkpoint.folder).exit_code == 0


def test_root_does_not_repair_what_the_user_of_the_job_could_not_read(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    owned_by_another_user(checkpoint.folder, monkeypatch)

    for options in ((), ("--apply",)):
        assert "who could not read what root writes: run this command as that user" in usage_error(
            checkpoint.folder, *options
        )
    assert not (checkpoint.journal / PUBLISHED).exists()
    assert not (checkpoint.folder / "lock").exists()


def test_json_has_a_line_for_each_finding(checkpoint: Checkpoint) -> None:
    lines = [json.loads(line) for line in repair(checkpoint.folder, "--json").stdout.splitlines()]

    assert [sorted(line) for line in lines] == [["applied", "found", "repair"]] * 2
    assert {line["applied"] for line in lines} == {False}


def test_a_checkpoint_in_use_is_not_repaired(checkpoint: Checkpoint) -> None:
    with checkpoint.held():
        assert "another kraftwatch holds its lock; stop that process first" in usage_error(checkpoint.folder, "--apply")
    assert not (checkpoint.journal / PUBLISHED).exists()


def test_a_folder_that_is_no_checkpoint_is_named(tmp_path: Path) -> None:
    assert usage_error(tmp_path / "none") == (
        f"--checkpoint {tmp_path / 'none'}: no such folder; give the --checkpoint folder of `kraftwatch run`"
    )
    assert usage_error(tmp_path) == (
        f"checkpoint {tmp_path} has neither journal/ nor spark/: there is nothing to repair"
    )


def test_help_says_what_it_does_and_names_the_exit_codes() -> None:
    text = CliRunner().invoke(app, ["checkpoint", "repair", "--help"]).stdout
    for part in ("Stop the job first", "Exit codes: 0 nothing is damaged", "--apply", "No alert is"):
        assert part in text
