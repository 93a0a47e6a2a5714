"""A checkpoint belongs to one source, and the other one is refused in one sentence."""

from dataclasses import replace
from pathlib import Path

import pytest

from connectors.errors import UsageError
from connectors.store.postgres import close_connections
from connectors.store.tables import job_database, sqlite_database
from streaming.pipeline.checkpoint import Checkpoint
from streaming.pipeline.checkpoint_source import (
    CheckpointSource,
    checkpoint_source,
    is_new,
    record_source,
    require_source,
)
from tests.postgres_server import PostgresServer, needs_postgres

TOPIC = CheckpointSource(kind="kafka", starting_offsets={"observations": {0: 7, 1: -1}}, baselines={"a": 5})


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    return Checkpoint(folder=tmp_path)


def test_a_new_checkpoint_takes_any_source(checkpoint: Checkpoint) -> None:
    assert checkpoint_source(checkpoint) is None
    assert require_source(checkpoint, TOPIC) == TOPIC
    assert require_source(checkpoint, CheckpointSource()) == CheckpointSource()


def test_sparks_files_elsewhere_belong_to_the_folder_that_has_recorded_them(tmp_path: Path) -> None:
    place = Checkpoint(folder=tmp_path, uri="s3a://bucket/first")
    source = replace(TOPIC, uri="s3a://bucket/first")
    sqlite_database(tmp_path).create()

    assert is_new(place, TOPIC)
    assert not is_new(place, source)
    assert is_new(replace(place, uri="s3a://bucket/second"), source)

    sqlite_database(tmp_path).path.unlink()
    assert is_new(place, source), "the alerts are lost"


def test_the_recorded_source_is_returned(checkpoint: Checkpoint) -> None:
    record_source(checkpoint, replace(TOPIC, baselines={**TOPIC.baselines, "b": 9}))

    wanted = CheckpointSource(kind="kafka", starting_offsets={"observations": {}, "of-a-new-relay": {}})
    assert require_source(checkpoint, wanted) == replace(TOPIC, baselines={**TOPIC.baselines, "b": 9})


def test_a_checkpoint_of_a_gatherer_has_no_file_and_refuses_a_topic(checkpoint: Checkpoint) -> None:
    record_source(checkpoint, CheckpointSource())
    assert list(checkpoint.folder.iterdir()) == []
    checkpoint.journal.mkdir()

    with pytest.raises(
        UsageError, match=r"belongs to source: gatherer, not to source: kafka, topic observations; noth"
    ):
        require_source(checkpoint, TOPIC)


@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [
        (CheckpointSource(), "belongs to source: kafka, topic observations, not to source: gatherer"),
        (CheckpointSource(kind="kafka", starting_offsets={"other": {}}), "not to source: kafka, topic other"),
        (CheckpointSource(kind="relay"), "not to kraftwatch relay; .* give a new relay.folder"),
    ],
)
def test_a_checkpoint_of_a_topic_refuses_other_sources(
    wanted: CheckpointSource, sentence: str, checkpoint: Checkpoint
) -> None:
    record_source(checkpoint, TOPIC)

    with pytest.raises(UsageError, match=sentence):
        require_source(checkpoint, wanted)


def test_a_damaged_file_is_named(checkpoint: Checkpoint) -> None:
    (checkpoint.folder / "source.json").write_text("{")

    with pytest.raises(UsageError, match=r"source\.json cannot be read"):
        checkpoint_source(checkpoint)


@needs_postgres
def test_the_ids_and_the_source_of_files_elsewhere_survive_the_folder_in_a_store(tmp_path: Path) -> None:
    with PostgresServer() as server:
        store = server.database("kraftwatch")
        job_database(store).create()
        place = Checkpoint(folder=tmp_path / "first", uri="s3a://bucket/first", store=store)
        source = replace(TOPIC, uri="s3a://bucket/first")
        assert checkpoint_source(place) is None
        record_source(place, source)
        place.record_cluster_ids({"a": "kP1x"})
        place.record_cluster_ids({"a": "kP1x", "b": "Zq2y"})

        elsewhere = replace(place, folder=tmp_path / "second")
        assert (checkpoint_source(elsewhere), elsewhere.cluster_ids()) == (source, {"a": "kP1x", "b": "Zq2y"})
        assert (is_new(elsewhere, source), is_new(replace(elsewhere, uri="s3a://bucket/second"), TOPIC)) == (
            False,
            True,
        )
        assert list(tmp_path.iterdir()) == []
        close_connections()
