"""`kraftwatch repair`: texts, exit codes and what it keeps. tests/spark/test_lost_state.py goes on after it."""

from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import Result

from connectors.errors import UsageError
from connectors.observations.observation import Observation, ObservationKind
from connectors.store.journal_file import journal_file
from connectors.store.journal_reader import JournalReader
from connectors.store.journal_writer import JournalWriter
from connectors.store.tables import sqlite_database
from streaming.pipeline.checkpoint import Checkpoint
from tests.cli.program import kraftwatch, owned_by_another_user, usage_error

ROW = Observation(cluster="prod", kind=ObservationKind.FAILED, observed_at_ms=1)
NO_DATABASE = b"x" * 20_000
PAYLOAD = b"<payload of a row>" * 20


def repair(folder: Path, *options: str) -> Result:
    return kraftwatch("repair", "--checkpoint", folder, *options)


def refusal(folder: Path | str, *options: str) -> str:
    return usage_error("repair", "--checkpoint", folder, *options)


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
    ]
    assert "nothing was changed; repair it with --apply" in result.stderr
    assert journal_file(checkpoint.journal).read_bytes() == NO_DATABASE
    assert checkpoint.identity.read_text() == "{"


def test_apply_repairs_and_keeps_what_it_replaces(checkpoint: Checkpoint) -> None:
    with pytest.raises(UsageError, match=r"observations\.db is damaged: .*kraftwatch repair"):
        checkpoint.check_observations()

    result = repair(checkpoint.folder, "--apply")

    assert result.exit_code == 0, result.output
    assert "  repaired: It is moved away" in result.stdout
    assert "repaired: start the job" in result.stderr
    assert (checkpoint.folder / "cluster.json.damaged-1").read_text() == "{"
    checkpoint.check_observations()
    assert checkpoint.cluster_ids() == {}

    again = repair(checkpoint.folder)
    assert (again.exit_code, again.stdout) == (0, "")
    assert "nothing is damaged" in again.stderr


def test_rows_behind_the_damage_are_kept(tmp_path: Path) -> None:
    checkpoint = Checkpoint(folder=tmp_path)
    with JournalWriter(checkpoint.journal) as writer:
        for at in range(40):
            writer.append([replace(ROW, observed_at_ms=at, payload=PAYLOAD)])
    path = journal_file(checkpoint.journal)
    content = bytearray(path.read_bytes())
    page = content.index(PAYLOAD) // 4096 * 4096
    content[page : page + 4096] = bytes(4096)
    path.write_bytes(content)

    dry, applied = repair(checkpoint.folder), repair(checkpoint.folder, "--apply")

    assert (dry.exit_code, applied.exit_code) == (1, 0), applied.output
    assert applied.stdout == dry.stdout.replace("  repair: ", "  repaired: ")
    lines = dry.stdout.splitlines()
    assert lines[0].startswith(f"{path} is damaged: ")
    assert lines[1].startswith("  repair: The newest rows that can be read without a gap, ")
    assert len(lines) == 2
    assert path.with_name("observations.db.damaged-1").read_bytes() == content
    assert 0 < JournalReader(checkpoint.journal).first_sequence() < 40
    assert repair(checkpoint.folder).exit_code == 0


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


def test_what_can_be_read_of_a_damaged_database_is_kept(tmp_path: Path) -> None:
    checkpoint = Checkpoint(folder=tmp_path)
    with JournalWriter(checkpoint.journal):
        sqlite_database(tmp_path).path.write_bytes(NO_DATABASE)

    result = repair(tmp_path, "--apply")

    assert result.exit_code == 0, result.output
    assert "What can be read of the database is copied to a new one." in result.output
    assert (tmp_path / "kraftwatch.db.damaged-1").read_bytes() == NO_DATABASE
    assert checkpoint.database_damage() is None
