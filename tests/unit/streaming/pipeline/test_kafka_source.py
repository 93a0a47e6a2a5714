"""Messages of a relay's topic become the events of their rows; what is no message becomes a quarantine row."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql.streaming.state import GroupState

from connectors.event import to_json
from connectors.observation import Observation, ObservationKind
from connectors.observation_event import ObservationFailed
from connectors.relay.relay_message import Baseline, RelayMessage
from rules.model.monitoring import ObservationSource, Reason
from streaming.pipeline.frame_rows import decoded_rows
from streaming.pipeline.kafka_source import MessageDecoder, TopicStep, kafka_settings
from streaming.pipeline.packed_events import EventPacker
from streaming.pipeline.step import Step

FAILED = ObservationFailed(source=ObservationSource.QUORUM, endpoint="c1:9093", reason=Reason.NO_LEADER, detail="none")
NOW_MS = 1_800_000_000_000


def message(sequence: int, *, cluster: str = "prod", baseline: int = 10) -> RelayMessage:
    row = Observation(
        cluster=cluster,
        kind=ObservationKind.FAILED,
        observed_at_ms=NOW_MS + sequence,
        payload=to_json(FAILED),
        sequence=sequence,
    )
    return RelayMessage(observation=row, cluster_id="id", baseline=Baseline(sequence=baseline, at_ms=NOW_MS))


def kafka_batch(*messages: RelayMessage | bytes, partition: int = 0) -> pa.RecordBatch:
    """Returns the columns of Spark's Kafka source; bytes are a value that no relay wrote."""
    rows: list[dict[str, Any]] = [
        {
            "key": one.key if isinstance(one, RelayMessage) else b"prod",
            "value": one.value() if isinstance(one, RelayMessage) else one,
            "headers": [{"key": key, "value": value} for key, value in one.headers]
            if isinstance(one, RelayMessage)
            else None,
            "partition": partition,
            "offset": at,
            "at_ms": NOW_MS,
        }
        for at, one in enumerate(messages)
    ]
    return pa.RecordBatch.from_pylist(rows)


def decoded(*batches: pa.RecordBatch, **baselines: int) -> Sequence[dict[str, Any]]:
    decode = MessageDecoder(baselines or {"prod": 10})
    return [row for batch in decode(iter(batches)) for row in batch.to_pylist()]


def test_rows_become_events_with_their_sequence_and_time() -> None:
    events = decoded(kafka_batch(message(11), message(12)))

    assert [(one["cluster"], one["sequence"], one["observed_at_ms"]) for one in events] == [
        ("prod", 11, NOW_MS + 11),
        ("prod", 12, NOW_MS + 12),
    ]


def test_a_row_that_is_in_the_topic_twice_is_read_once() -> None:
    first, again = kafka_batch(message(11), message(12), message(11)), kafka_batch(message(12), message(13))

    assert [one["sequence"] for one in decoded(first, again)] == [11, 12, 13]


def test_rows_of_other_clusters_and_of_older_baselines_are_skipped() -> None:
    batch = kafka_batch(
        message(11),
        message(12, baseline=12),
        message(5, cluster="other"),
        message(6, cluster="later", baseline=3),
    )

    assert [(one["cluster"], one["sequence"]) for one in decoded(batch, prod=12, later=1)] == [
        ("prod", 12),
        ("later", 6),
    ]


def test_unreadable_messages_are_quarantined_and_the_others_are_read() -> None:
    damaged = message(12).value()[:-1] + b"x"
    batch = kafka_batch(message(11), b"hello", damaged, message(13), partition=3)
    packed = pa.Table.from_batches([*EventPacker(MessageDecoder({"prod": 10}))(iter([batch]))]).to_pandas()

    assert [row.sequence for row in decoded_rows([packed[packed.cluster == "prod"]])] == [11, 13]
    frames = iter([packed[packed.cluster != "prod"]])
    state: Any = None  # it is not used
    (output,) = TopicStep(Step({}))(("topic partition 3", 0), frames, state)
    bodies = [json.loads(body) for body in output.body]
    assert output.kind.tolist() == ["quarantine", "quarantine"]
    assert output.name.tolist() == ["offset-1", "offset-2"]
    assert ["cut short" in bodies[0]["reason"], "CRC-32C" in bodies[1]["reason"]] == [True, True]


def test_events_of_a_cluster_are_passed_to_its_step() -> None:
    class Recorder(Step):
        def __call__(
            self, key: tuple[str, int], frames: Iterator[pd.DataFrame], state: GroupState
        ) -> Iterator[pd.DataFrame]:
            yield pd.DataFrame([key])

    state: Any = None  # it is not used
    assert [frame.to_numpy().tolist() for frame in TopicStep(Recorder({}))(("prod", 0), iter([]), state)] == [
        [["prod", 0]]
    ]


def test_large_batches_are_decoded_in_pieces() -> None:
    batch = kafka_batch(*(message(number) for number in range(11, 2_511)))
    pieces = list(MessageDecoder({"prod": 10})(iter([batch])))

    assert [len(piece) for piece in pieces] == [1_000, 1_000, 500]


def test_jars_are_added_to_configured_ones(tmp_path: Any) -> None:
    jar = tmp_path / "a.jar"
    assert kafka_settings([jar], {"spark.jars": "b.jar", "x": "y"})["spark.jars"] == f"b.jar,{jar}"
