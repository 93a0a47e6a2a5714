"""A checkpoint: its folder, what is refused in one sentence, and the one source that it belongs to."""

import json
import os
import shutil
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from connectors.errors import StoreError, UsageError
from connectors.observations.observation import Observation, ObservationKind
from connectors.store.journal_reader import JournalReader
from connectors.store.journal_writer import JournalWriter
from connectors.store.postgres import close_connections
from connectors.store.tables import job_database
from streaming.pipeline.checkpoint import Checkpoint
from streaming.pipeline.checkpoint_source import (
    CheckpointSource,
    checkpoint_source,
    is_new,
    record_source,
    require_source,
)
from tests.postgres_server import PostgresServer, needs_postgres


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    return Checkpoint(folder=tmp_path)


def test_executors_share_the_folder_of_sparks_files_unless_those_are_remote(tmp_path: Path) -> None:
    remote = Checkpoint(folder=tmp_path, uri="s3a://bucket/kraftwatch")
    beside = Checkpoint(folder=tmp_path, uri="file:///mnt/spark")
    local = Checkpoint(folder=tmp_path)

    assert (remote.location, remote.shared_folder, remote.pages) == ("s3a://bucket/kraftwatch", None, None)
    assert (beside.location, beside.shared_folder) == ("file:///mnt/spark", Path("/mnt/spark/executors"))
    assert (local.location, local.shared_folder) == (f"file://{tmp_path}/spark", tmp_path / "log" / "executors")


def test_files_of_a_spark_folder_are_not_those_of_a_checkpoint_elsewhere(tmp_path: Path) -> None:
    planned(Checkpoint(folder=tmp_path), journal="any", sequence=3)
    (tmp_path / "spark" / "metadata").unlink(missing_ok=True)
    remote = Checkpoint(folder=tmp_path, uri="s3a://bucket/kraftwatch")

    assert remote.why_no_state(7) is None


def test_an_error_on_a_full_disk_is_no_invalid_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint = Checkpoint(folder=tmp_path / "checkpoint")
    with pytest.raises(UsageError, match=r"^Spark does not start$"), checkpoint.held():
        raise UsageError("Spark does not start")

    full = os.statvfs_result((4096, 4096, 1_000, 100, 0, 1_000, 900, 900, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda _: full)
    with pytest.raises(StoreError, match=r"^Spark does not start: no space is left on the disk"), checkpoint.held():
        raise UsageError("Spark does not start")


def test_a_checkpoint_is_accessible_to_its_owner_alone(tmp_path: Path) -> None:
    checkpoint = Checkpoint(folder=tmp_path / "checkpoint")
    checkpoint.folder.mkdir(mode=0o755)
    with checkpoint.held():
        checkpoint.record_cluster_ids({"prod": "A"})

    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (checkpoint.folder, *checkpoint.folder.iterdir())}
    assert modes == {"checkpoint": 0o700, "lock": 0o600, "cluster.json": 0o600}


def test_a_checkpoint_of_another_user_is_used_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.chmod(0o777)

    def not_the_owner(*_: object, **__: object) -> None:
        raise PermissionError(1, os.strerror(1))

    monkeypatch.setattr(os, "chmod", not_the_owner)
    with Checkpoint(folder=tmp_path).held():
        assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o777


def test_a_checkpoint_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")

    refusal = pytest.raises(UsageError, match=r"checkpoint .*file/below: not a directory")
    with refusal, Checkpoint(folder=tmp_path / "file" / "below").held():
        raise AssertionError("made below a file")


@pytest.mark.parametrize(
    ("journal", "sequence", "why"),
    [
        (None, 4, "journal/ does not have row 4, which comes next"),
        ("another", 3, "journal/ is not the one that it has read"),
    ],
    ids=["ends before", "another"],
)
def test_spark_cannot_continue_on_a_journal_that_it_has_not_read(
    checkpoint: Checkpoint, journal: str | None, sequence: int, why: str
) -> None:
    recorded = record(checkpoint.journal, rows=3)
    planned(checkpoint, journal=recorded, sequence=3)
    assert checkpoint.why_no_state() is None
    shutil.rmtree(checkpoint.spark)
    planned(checkpoint, journal=journal or recorded, sequence=sequence)

    assert checkpoint.why_no_state() == why


def test_spark_cannot_continue_without_the_journal(checkpoint: Checkpoint) -> None:
    planned(checkpoint, journal="lost", sequence=3)
    assert checkpoint.why_no_state() == "journal/ is not the one that it has read"


@pytest.mark.parametrize("torn", ["v1\n", 'v1\n{}\n{"journal":"ab', "v1\n{}\n{}", "v1\n{}\n[]"])
def test_an_offset_that_is_none_is_passed_over(checkpoint: Checkpoint, torn: str) -> None:
    planned(checkpoint, journal=record(checkpoint.journal, rows=3), sequence=3)
    (checkpoint.spark / "offsets" / "2").write_text(torn)

    assert checkpoint.spark_files.newest_planned_end() is not None


def test_a_trimmed_journal_without_a_state_is_not_enough(checkpoint: Checkpoint) -> None:
    """The journal no longer has the log's beginning: a new start from it would never know the voters."""
    record(checkpoint.journal, rows=9)
    JournalReader(checkpoint.journal).commit(8)
    with JournalWriter(checkpoint.journal, keep_bytes=0):
        pass
    assert JournalReader(checkpoint.journal).first_sequence() > 0

    assert checkpoint.why_no_state() == "it has no offsets, and journal/ lacks its first rows"


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        *((damaged, r"cluster\.json cannot be read: restore it") for damaged in ("{", "[]", "7", "null", '"prod"')),
        ('{"prod": "A"}', "written by another version of kraftwatch: use that one, or give a new folder, with a copy"),
    ],
)
def test_a_damaged_or_older_identity_is_refused(checkpoint: Checkpoint, content: str, sentence: str) -> None:
    checkpoint.identity.write_text(content)

    with pytest.raises(UsageError, match=sentence):
        checkpoint.cluster_ids()


def record(folder: Path, *, rows: int) -> str:
    with JournalWriter(folder) as recorder:
        recorder.append([Observation(cluster="prod", kind=ObservationKind.FAILED, observed_at_ms=1)] * rows)
        recorder.publish()
        return recorder.journal_id


def planned(checkpoint: Checkpoint, *, journal: str, sequence: int) -> None:
    offsets = checkpoint.spark / "offsets"
    offsets.mkdir(parents=True)
    line = json.dumps({"journal": journal, "sequence": sequence})
    (offsets / "0").write_text(f'v1\n{{"batchWatermarkMs":0}}\n{line}')
    (checkpoint.spark / "metadata").write_text('{"id": "a"}')


TOPIC = CheckpointSource(kind="kafka", starting_offsets={"observations": {0: 7, 1: -1}}, baselines={"a": 5})


def test_a_new_checkpoint_takes_any_source(checkpoint: Checkpoint) -> None:
    assert checkpoint_source(checkpoint) is None
    assert require_source(checkpoint, TOPIC) == TOPIC
    assert require_source(checkpoint, CheckpointSource()) == CheckpointSource()


def test_sparks_files_elsewhere_belong_to_the_folder_that_has_recorded_them(tmp_path: Path) -> None:
    place = Checkpoint(folder=tmp_path, uri="s3a://bucket/first")
    source = replace(TOPIC, uri="s3a://bucket/first")

    assert is_new(place, TOPIC)
    assert not is_new(place, source)
    assert is_new(replace(place, uri="s3a://bucket/second"), source)


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
