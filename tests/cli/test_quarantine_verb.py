"""`kraftwatch data quarantine`: its verbs on a journal with rows that cannot be decoded."""

import json
from pathlib import Path

import pytest
from typer.testing import Result

from connectors.metadata.redaction import redact
from connectors.observations.observation import Observation, ObservationKind
from connectors.store.collection import quarantine_of
from connectors.store.journal_reader import JournalReader
from connectors.store.journal_writer import JournalWriter
from connectors.store.tables import job_database
from streaming.data_quality.quarantine_report import STATUS_TEXTS
from streaming.pipeline.checkpoint import Checkpoint
from streaming.pipeline.output_rows import quarantined_rows
from streaming.replay.cluster_monitor import ClusterMonitor
from streaming.replay.cluster_settings import ClusterSettings
from tests.cli.program import json_lines, kraftwatch, usage_error
from tests.unit.connectors.metadata.metadata_bytes import batch, data, noop, text
from tests.unit.connectors.store import journal_rows

NOW = 1_800_000_000_000
TOPIC = data(2, 0, text("orders") + bytes(range(16)) + b"\0")
DAMAGED = data(2, 0, text("secret topic"))
"""A TopicRecord that ends after its name."""
BLANK = data(2, 0, bytes(24))
"""A TopicRecord as recorded by a kraftwatch that does not know TopicRecord: the body is blanked."""


def quarantine(checkpoint: Path, *words: str) -> Result:
    return kraftwatch("data", "quarantine", *words, "--checkpoint", checkpoint)


def refusal(checkpoint: Path, *words: str) -> str:
    return usage_error("data", "quarantine", *words, "--checkpoint", checkpoint)


def records(base: int, *values: bytes) -> Observation:
    damaged = b"".join(batch([value], base_offset=base + at) for at, value in enumerate(values))
    return journal_rows.records(redact(damaged), base=base, last=base + len(values) - 1, at_ms=NOW, cluster="prod")


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Returns a job's checkpoint: rows 0 and 2 have records that do not decode, row 1 is an invalid poll."""
    job = Checkpoint(folder=tmp_path)
    rows = (
        records(10, noop(), DAMAGED, TOPIC),
        Observation(cluster="prod", kind=ObservationKind.QUORUM, observed_at_ms=NOW, payload=b"{"),
        records(20, TOPIC, BLANK),
    )
    with JournalWriter(job.journal) as writer:
        writer.append(list(rows))
        writer.publish()
    store = quarantine_of(job_database(job.folder))
    for row in JournalReader(job.journal).read(0, 3):
        for refused in ClusterMonitor(ClusterSettings(name="prod")).apply((row,)).undecodable:
            ((_, cluster, name, body),) = quarantined_rows("prod", [refused])
            store.put({f"{cluster}-{name}": json.loads(body)})
    return tmp_path


def put(checkpoint: Path, sequence: int, offset: int) -> None:
    """Adds an item as an older kraftwatch, which knew fewer records, quarantined it."""
    item = {
        "cluster": "prod",
        "sequence": sequence,
        "observed_at_ms": NOW,
        "offset": offset,
        "length": 40,
        "reason": "record type 2 version 0 is not known to any Kafka up to 3.3.2",
    }
    quarantine_of(job_database(checkpoint)).put({f"prod-{sequence}-0": item})


def test_items_are_listed_with_their_reasons(checkpoint: Path) -> None:
    listed = quarantine(checkpoint, "list")
    items = [json.loads(line) for line in quarantine(checkpoint, "list", "--json").stdout.splitlines()]

    assert listed.exit_code == 0
    assert [(one["id"], one["offset"]) for one in items[:2]] == [("prod-0-0", 11), ("prod-1-0", None)]
    assert "TopicRecord version 0 did not match its schema and was blanked" in " ".join(listed.stdout.split())
    assert "1 time: a quorum row is no event" in listed.stderr


def test_configuration_names_the_checkpoint(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    config = tmp_path_factory.mktemp("config") / "kraftwatch.yaml"
    config.write_text(f"clusters: [{{name: prod, bootstrap: [c1:9093]}}]\ncheckpoint: {checkpoint}\n")
    for words in (["list"], ["show", "prod-0-0"], ["replay"]):
        found = kraftwatch("data", "quarantine", *words, "--config", config)
        assert found.output == quarantine(checkpoint, *words).output
        assert found.output


def test_list_is_limited_and_filtered_by_cluster(checkpoint: Path) -> None:
    few = quarantine(checkpoint, "list", "--limit", "1")

    assert "prod-0-0" not in few.stdout
    assert "older items are not listed: --limit" in few.stderr
    assert "the quarantine is empty" in quarantine(checkpoint, "list", "--only", "lab").stderr


def test_show_explains_one_item(checkpoint: Path) -> None:
    shown = quarantine(checkpoint, "show", "prod-0-0")

    assert shown.exit_code == 0
    assert "offset 11 of cluster prod" in shown.stdout
    assert "the row: records, offsets 10 to 12" in shown.stdout
    assert "it does not have Kafka's format" in shown.stdout
    assert "secret topic" not in shown.stdout


def test_show_explains_an_item_of_a_kraftwatch_that_knew_fewer_records(checkpoint: Path) -> None:
    put(checkpoint, 2, 20)

    assert "a Kafka newer than this kraftwatch wrote it: upgrade" in quarantine(checkpoint, "show", "prod-2-0").stdout


def test_replay_decodes_known_records_and_not_damaged_ones(checkpoint: Path) -> None:
    put(checkpoint, 2, 20)
    put(checkpoint, 7_000, 20)
    again = quarantine(checkpoint, "replay", "--json")
    results = {one["id"]: (one["now"], one["why"]) for one in map(json.loads, again.stdout.splitlines())}

    assert again.exit_code == 1
    assert results["prod-2-0"] == ("decodes", "topic-created")
    assert results["prod-0-0"][0] == "blanked"
    assert results["prod-1-0"][0] == "does not decode"
    assert results["prod-7000-0"][1].startswith("the journal holds rows 0 to 2")
    assert quarantine(checkpoint, "replay", "prod-2-0").exit_code == 0
    put(checkpoint, 2, 21)
    (blanked,) = json_lines(quarantine(checkpoint, "replay", "prod-2-0", "--json"), exit_code=1)
    assert (blanked["now"], blanked["why"]) == ("blanked", "TopicRecord")


def test_usage_error_is_one_sentence(checkpoint: Path, tmp_path: Path) -> None:
    assert refusal(checkpoint, "show", "prod-9-9") == (
        f"no item prod-9-9 in the quarantine of {checkpoint}: `kraftwatch data quarantine list` lists the ids"
    )
    (tmp_path / "empty").mkdir()
    assert quarantine(tmp_path / "empty", "list").exit_code == 0
    put(tmp_path / "empty", 0, 0)
    assert "has no journal" in refusal(tmp_path / "empty", "replay")


def test_the_documentation_explains_each_printed_result() -> None:
    page = (Path(__file__).parents[2] / "docs" / "data-contracts.md").read_text()

    assert [text for text in STATUS_TEXTS.values() if f"- `{text}`: " not in page] == []
