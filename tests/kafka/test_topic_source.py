"""The planner's reader of a relay's topic on real brokers: which offsets it plans, and that no broker ends it."""

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AclOperation, NewPartitions
from pyspark.sql.streaming.datasource import ReadMaxRows

from connectors.observations.observation import Observation, ObservationKind, Urgency
from connectors.process.wall_clock import wall_ms
from connectors.relay.relay_message import Baseline, RelayMessage, RowsLostError
from connectors.settings.sections import TopicSection
from rules.model.identifiers import Millis
from streaming.pipeline import topic_source
from streaming.pipeline.output_rows import observations
from streaming.pipeline.topic_batch import TopicCluster
from streaming.pipeline.topic_files import TopicFiles
from streaming.pipeline.topic_source import Offsets, TopicBatchReader, TopicSource, TopicStreamReader
from tests.eventually import eventually
from tests.job.relay_process import RelayProcess
from tests.kafka.conftest import MakeLab
from tests.lab import Lab

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]
LIMIT = ReadMaxRows(1_000)
BEGAN_MS = wall_ms() - 60_000


@pytest.fixture(scope="module")
def topic_lab(shared_lab: MakeLab) -> Lab:
    return shared_lab(controllers=0, combined=1, brokers=0)


class Topic:
    """A topic, what is written to it, and the readers of a job."""

    def __init__(self, lab: Lab, name: str, folder: Path, *, partitions: int = 1) -> None:
        lab.create_topic(name, partitions=partitions, configs={"message.timestamp.type": "LogAppendTime"})
        self.lab, self.name = lab, name
        self.files = TopicFiles(folder)
        self.readers: list[TopicStreamReader] = []
        self._writer = RelayProcess(folder, lab, topic=name, clusters=[])
        self._sequence = 0

    def write(self, number: int = 1, *, quiet: bool = False) -> None:
        """Writes this many rows."""
        rows = []
        for _ in range(number):
            self._sequence += 1
            row = Observation(
                cluster="prod",
                kind=ObservationKind.FAILED,
                observed_at_ms=wall_ms(),
                sequence=self._sequence,
                urgency=Urgency.QUIET if quiet else Urgency.REGULAR,
            )
            baseline = Baseline(sequence=0, at_ms=BEGAN_MS)
            rows.append(RelayMessage(observation=row, cluster_id="id", baseline=baseline, relay="host-1"))
        self._written = rows
        self._writer.write(*rows)

    def repeat(self) -> None:
        """Writes the newest rows again, as a relay after a crash."""
        self._writer.write(*self._written)

    def reader(self, *, rows_per_batch: int = 1_000, **keys: Any) -> TopicStreamReader:
        """Returns the reader of a query that is started now."""
        connection = TopicSection(bootstrap=tuple(self.lab.broker_bootstrap), topic=self.name, **keys)
        source = TopicSource(
            connection=connection,
            rows_per_batch=rows_per_batch,
            starting_offsets={self.name: {0: 0}},
            clusters={"prod": TopicCluster(topic=self.name, cluster_id="id", baseline=0)},
        )
        self.files.begin(topic_source._SOURCE.dump_json(source))
        self.readers.append(TopicStreamReader(self.files))
        return self.readers[-1]


@pytest.fixture
def topic(topic_lab: Lab, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Topic]:
    topic = Topic(topic_lab, request.node.name, tmp_path)
    yield topic
    for reader in topic.readers:
        reader.stop()


def planned(reader: TopicStreamReader, start: Offsets) -> Offsets:
    """Returns the end of the next batch."""

    def found() -> Offsets:
        end = reader.latestOffset(start, LIMIT)
        assert end != start
        return end

    return eventually(found, within_s=60)


def sequences(reader: TopicStreamReader, start: Offsets, end: Offsets) -> list[int]:
    """Returns the sequences of the rows between the offsets."""
    frames = [each.to_pandas() for part in reader.partitions(start, end) for each in reader.read(part)]
    return [row.sequence for of_cluster in observations(frames).values() for row in of_cluster]


def read_rows(reader: TopicStreamReader, start: Offsets, number: int) -> tuple[list[int], Offsets]:
    """Returns the sequences of this many rows, and where they end; a broker may give a part of them to a batch."""
    rows, end = list[int](), start
    while len(rows) < number:
        begin, end = end, planned(reader, end)
        rows += sequences(reader, begin, end)
    return rows, end


def begun(topic: Topic, rows: int = 1) -> tuple[TopicStreamReader, Offsets]:
    """Returns a reader that has read the first rows, and where they end."""
    reader = topic.reader()
    topic.write(rows)
    begin = reader.initialOffset()
    return reader, read_rows(reader, begin, rows)[1]


def test_a_batch_is_read_again_from_its_offsets_after_a_restart(topic: Topic) -> None:
    reader = topic.reader(sasl_plain_password="hunter2")
    assert b"hunter2" in topic.files.source()
    begin = reader.initialOffset()
    assert not [path for path in topic.files.folder.rglob("*") if path.is_file() and b"hunter2" in path.read_bytes()]
    assert reader.latestOffset(begin, LIMIT) == begin, "there is no row"
    topic.write(5)
    rows, first = read_rows(reader, begin, 5)
    topic.write(3)
    further, second = read_rows(reader, first, 3)

    assert rows == [1, 2, 3, 4, 5]
    assert further == [6, 7, 8]
    again = topic.reader()
    topic.write(2)
    assert sequences(again, begin, first) == rows
    assert sequences(again, first, second) == [6, 7, 8]
    assert read_rows(again, second, 2)[0] == [9, 10]
    assert sequences(again, second, second) == []


def test_the_rows_of_all_partitions_are_read_once_as_a_batch_dataframe(topic_lab: Lab, tmp_path: Path) -> None:
    topic = Topic(topic_lab, "recorded", tmp_path, partitions=3)
    topic.write(5)
    topic.repeat()
    topic.reader(rows_per_batch=2)
    recorded = TopicBatchReader(topic.files, BEGAN_MS)
    parts = recorded.partitions()
    frames = [each.to_pandas() for part in parts for each in recorded.read(part)]

    assert len(parts) == 3
    assert [row.sequence for row in observations(frames)["prod"]] == [1, 2, 3, 4, 5]
    later = TopicBatchReader(topic.files, wall_ms() + 120_000)
    assert [each for part in parts for each in later.read(part)] == []


def test_quiet_rows_wait_and_the_driver_says_until_when(topic: Topic) -> None:
    reader, start = begun(topic)
    until_ms = wall_ms() + 20_000
    topic.files.put_quiet_until({"prod": Millis(until_ms)})
    reader._opened._batch._newest["prod"] = replace(reader._opened._batch._newest["prod"], settled_ms=0)
    topic.write(2, quiet=True)

    assert reader.latestOffset(start, LIMIT) == start

    def state_is_known() -> None:
        assert reader.latestOffset(start, LIMIT) == start
        state = topic.files.state()
        assert state.failing is None
        assert 0 < state.waiting_ms < until_ms
        assert 0 <= state.read_to_end_at[topic.name] - state.row_at["prod"] < 30

    eventually(state_is_known, within_s=8)
    topic.write()
    began = time.monotonic()
    end = reader.latestOffset(start, LIMIT)
    assert time.monotonic() - began < 1
    assert sequences(reader, start, end) == [2, 3, 4]


def test_a_batch_has_all_rows_that_came_while_the_one_before_was_evaluated(topic: Topic) -> None:
    """Each answer of the broker ends where the topic ended then: a batch that ended there would never catch up."""
    reader, start = begun(topic)
    for _ in range(3):
        topic.write(4)
        # Longer than a broker waits for further rows: it answers that there is none.
        time.sleep(0.8)

    end = planned(reader, start)
    assert sequences(reader, start, end) == [*range(2, 14)]


def test_partitions_that_are_added_are_read_from_their_start(topic: Topic) -> None:
    reader, start = begun(topic)
    admin = topic.lab.admin
    admin.create_partitions([NewPartitions(topic.name, 3)])[topic.name].result(60)

    def all_read() -> None:
        nonlocal start
        topic.write()
        end = planned(reader, start)
        sequences(reader, start, end)
        start = end
        assert start[topic.name].keys() == {"0", "1", "2"}

    eventually(all_read, within_s=60)


def test_rows_that_are_deleted_unread_end_the_query(topic: Topic) -> None:
    topic.write(5)
    admin = topic.lab.admin
    for future in admin.delete_records([TopicPartition(topic.name, 0, 4)]).values():
        future.result(60)
    reader = topic.reader()

    with pytest.raises(RowsLostError, match=r"no longer has rows .*: partition 0 has no row at offset 0$"):
        eventually(lambda: planned(reader, reader.initialOffset()), within_s=60)


def test_brokers_that_do_not_answer_are_reported_and_waited_for(topic: Topic) -> None:
    reader, start = begun(topic)

    def is_read() -> None:
        reader.latestOffset(start, LIMIT)
        assert topic.files.state().failing is None
        assert topic.name in topic.files.state().read_to_end_at

    eventually(is_read, within_s=60)
    (node,) = topic.lab.brokers
    topic.lab.stop(node)
    try:

        def is_reported() -> None:
            assert reader.latestOffset(start, LIMIT) == start
            assert topic.files.state().failing is not None

        eventually(is_reported, within_s=60)
        read_at = topic.files.state().read_to_end_at[topic.name]
        reader.latestOffset(start, LIMIT)
        assert topic.files.state().read_to_end_at[topic.name] == read_at
    finally:
        topic.lab.start(node)
    topic.write()
    end = planned(reader, start)
    assert sequences(reader, start, end) == [2]
    start = end
    eventually(is_read, within_s=60)


@pytest.mark.long
@pytest.mark.parametrize("again", [False, True], ids=["deleted", "created again"])
def test_a_topic_that_is_deleted_or_created_again_ends_the_query(
    topic_lab: Lab, tmp_path: Path, *, again: bool
) -> None:
    topic = Topic(topic_lab, f"again-{again}", tmp_path)
    reader, start = begun(topic, rows=5)
    admin = topic_lab.admin
    admin.delete_topics([topic.name])[topic.name].result(60)

    def create_again() -> bool:
        with suppress(KafkaException):
            Topic(topic_lab, topic.name, tmp_path / "again").write()
            return True
        return False

    if again:
        eventually(create_again, within_s=60)

    with pytest.raises(RowsLostError, match=f"the topic {topic.name} no longer has rows that were not read"):
        planned(reader, start)
    reader.stop()


@pytest.mark.long
def test_a_password_that_is_replaced_is_read_again(shared_lab: MakeLab, tmp_path: Path) -> None:
    lab = shared_lab(controllers=0, combined=1, brokers=0, users=["reader"])
    lab.allow("reader", AclOperation.READ, AclOperation.DESCRIBE, topics="secured")
    topic, password = Topic(lab, "secured", tmp_path / "files"), tmp_path / "password"
    password.write_text("wrong-secret")
    reader = topic.reader(
        security_protocol="SASL_SSL",
        ssl_cafile=lab.security.ca_file,
        sasl_mechanism="PLAIN",
        sasl_plain_username="reader",
        sasl_plain_password={"file": password},
    )
    begin = reader.initialOffset()

    def is_reported() -> None:
        assert reader.latestOffset(begin, LIMIT) == begin
        failing = topic.files.state().failing
        assert failing is not None
        assert "authentication or TLS failed" in failing
        assert "wrong-secret" not in failing

    eventually(is_reported, within_s=60)
    password.write_text(lab.security.passwords["reader"])

    def is_read() -> None:
        reader.latestOffset(begin, LIMIT)
        state = topic.files.state()
        assert state.failing is None
        assert "secured" in state.read_to_end_at

    eventually(is_read, within_s=60)
    reader.stop()
