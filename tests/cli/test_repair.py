"""`kraftwatch repair` of a journal of which some rows can be read. tests/spark/test_lost_state.py goes on after it."""

from dataclasses import replace
from pathlib import Path

from typer.testing import Result

from connectors.observations.observation import Observation, ObservationKind
from connectors.store.journal_file import journal_file
from connectors.store.journal_reader import JournalReader
from connectors.store.journal_writer import JournalWriter
from streaming.pipeline.checkpoint import Checkpoint
from tests.cli.program import kraftwatch

ROW = Observation(cluster="prod", kind=ObservationKind.FAILED, observed_at_ms=1)
PAYLOAD = b"<payload of a row>" * 20


def repair(folder: Path, *options: str) -> Result:
    return kraftwatch("repair", "--checkpoint", folder, *options)


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
    assert "***" not in lines[0], "SQLite's first line names the database, not the damage"
    assert lines[1].startswith("  repair: The newest rows that can be read without a gap, ")
    assert len(lines) == 2
    assert path.with_name("observations.db.damaged-1").read_bytes() == content
    assert 0 < JournalReader(checkpoint.journal).first_sequence() < 40
    assert repair(checkpoint.folder).exit_code == 0
