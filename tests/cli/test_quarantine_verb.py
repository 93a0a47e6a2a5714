"""`kraftwatch quarantine`: what a person types, and what comes of it, on a journal with rows that do not decode."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from connectors.decode_observation import decode_observation
from connectors.errors import UsageError
from connectors.event import Event
from connectors.journal.reader import JournalReader
from connectors.journal.writer import JournalWriter
from connectors.metadata.redaction import redact
from connectors.observation import Observation, ObservationKind
from rules.model.identifiers import Millis
from streaming.cli import app
from streaming.pipeline.checkpoint import Checkpoint
from streaming.pipeline.deliver import Quarantine
from streaming.pipeline.step import _quarantined
from streaming.replay.cluster_monitor import Row
from tests.unit.connectors.metadata.metadata_bytes import batch, data, noop, text

NOW = 1_800_000_000_000
TOPIC = data(2, 0, text("orders") + bytes(range(16)) + b"\0")
UNKNOWN = data(99, 0, text("from a newer Kafka") + b"\0")
BLANK = data(2, 0, bytes(24))
"""A TopicRecord as it is recorded by a kraftwatch that does not know TopicRecords."""


def quarantine(checkpoint: Path, *words: str) -> Result:
    return CliRunner().invoke(app, ["quarantine", *words, "--checkpoint", str(checkpoint)])


def refused(checkpoint: Path, *words: str) -> str:
    result = quarantine(checkpoint, *words)
    assert isinstance(result.exception, UsageError), result.output
    return str(result.exception)


def records(base: int, *values: bytes) -> Observation:
    damaged = b"".join(batch([value], base_offset=base + at) for at, value in enumerate(values))
    return Observation(
        cluster="prod",
        kind=ObservationKind.RECORDS,
        observed_at_ms=NOW,
        base_offset=base,
        last_offset=base + len(values) - 1,
        leader_epoch=1,
        high_watermark=1_000,
        payload=redact(damaged),
    )


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """What a job leaves: row 0 has two records that do not decode, row 1 a look."""
    place = Checkpoint(folder=tmp_path)
    rows = (
        records(10, noop(), UNKNOWN, TOPIC),
        Observation(cluster="prod", kind=ObservationKind.QUORUM, observed_at_ms=NOW, payload=b"{"),
        records(20, TOPIC, BLANK),
    )
    with JournalWriter(place.journal) as recorder:
        recorder.append(list(rows))
        recorder.publish()
    kept = Quarantine(place.quarantine)
    for row in JournalReader(place.journal).read(0, 3):
        events: tuple[Event, ...] = tuple(decode_observation(row).events())
        for _, cluster, name, body in _quarantined("prod", [Row(row.sequence, Millis(NOW), events)]):
            kept.put(f"{cluster}-{name}", body)
    return tmp_path


def put(checkpoint: Path, sequence: int, offset: int) -> None:
    """As a kraftwatch that knew less quarantined it."""
    told = {
        "cluster": "prod",
        "sequence": sequence,
        "observed_at_ms": NOW,
        "offset": offset,
        "length": 40,
        "reason": "record type 2 version 0 is not known to any Kafka up to 3.3.2",
    }
    Quarantine(Checkpoint(folder=checkpoint).quarantine).put(f"prod-{sequence}-0", json.dumps(told))


def test_what_did_not_decode_is_listed_with_its_reasons(checkpoint: Path) -> None:
    listed = quarantine(checkpoint, "list")
    told = [json.loads(line) for line in quarantine(checkpoint, "list", "--json").stdout.splitlines()]

    assert listed.exit_code == 0
    assert [(one["id"], one["offset"]) for one in told[:2]] == [("prod-0-0", 11), ("prod-1-0", None)]
    assert "record type 99 version 0 is not known to" in " ".join(listed.stdout.split())
    assert "1 times: a quorum row is no event" in listed.stderr


def test_the_list_is_bounded_and_of_one_cluster(checkpoint: Path) -> None:
    few = quarantine(checkpoint, "list", "--limit", "1")

    assert "prod-0-0" not in few.stdout
    assert "older ones are not shown: --limit" in few.stderr
    assert "nothing is in quarantine" in quarantine(checkpoint, "list", "--cluster", "lab").stderr


def test_one_is_explained(checkpoint: Path) -> None:
    shown = quarantine(checkpoint, "show", "prod-0-0")

    assert shown.exit_code == 0
    assert "offset 11 of cluster prod" in shown.stdout
    assert "the row: records, offsets 10 to 12" in shown.stdout
    assert "a Kafka newer than this kraftwatch wrote it: upgrade" in shown.stdout
    assert "from a newer" not in shown.stdout


def test_decoded_again_what_is_known_decodes_and_what_is_not_does_not(checkpoint: Path) -> None:
    put(checkpoint, 2, 20)
    again = quarantine(checkpoint, "replay", "--json")
    told = {one["id"]: (one["now"], one["why"]) for one in map(json.loads, again.stdout.splitlines())}

    assert again.exit_code == 1
    assert told["prod-2-0"] == ("decodes", "topic-created")
    assert told["prod-0-0"][0] == "does not decode"
    assert quarantine(checkpoint, "replay", "prod-2-0").exit_code == 0


def test_a_body_that_was_blanked_is_said_to_be_blank(checkpoint: Path) -> None:
    for entry in (checkpoint / "quarantine").glob("prod-2-*"):
        entry.unlink()
    put(checkpoint, 2, 21)

    (told,) = [json.loads(line) for line in quarantine(checkpoint, "replay", "prod-2-0", "--json").stdout.splitlines()]

    assert (told["now"], told["why"]) == ("blanked", "TopicRecord")


def test_what_the_journal_no_longer_holds_is_gone(checkpoint: Path) -> None:
    put(checkpoint, 7_000, 20)

    gone = quarantine(checkpoint, "replay", "prod-7000-0")

    assert gone.exit_code == 1
    assert "gone: the journal holds rows 0 to 2" in gone.stdout


def test_mistakes_are_one_sentence(checkpoint: Path, tmp_path: Path) -> None:
    assert refused(checkpoint, "show", "prod-9-9") == (
        f"nothing called prod-9-9 is in the quarantine of {checkpoint}: kraftwatch quarantine list shows what is"
    )
    assert "no such folder" in refused(tmp_path / "nowhere", "list")
    (tmp_path / "empty").mkdir()
    assert "has no journal" in refused_of_a_bare_folder(tmp_path / "empty")
    assert quarantine(tmp_path / "empty", "list").exit_code == 0


def refused_of_a_bare_folder(folder: Path) -> str:
    put(folder, 0, 0)
    said = refused(folder, "replay")
    (folder / "quarantine" / "prod-0-0.json").unlink()
    return said
