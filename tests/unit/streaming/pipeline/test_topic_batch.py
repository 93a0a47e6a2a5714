"""Messages of a relay's topic become rows of a batch, or are refused; and when a batch is due."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from connectors.observations.observation import Observation, ObservationKind, Urgency, to_json
from connectors.relay.relay_message import Baseline, RefusedPart, RelayMessage, TopicMessage, first_sequence
from rules.model.identifiers import Millis
from rules.model.monitoring import FailedObservation, ObservationSource, Reason
from streaming.pipeline.cluster_processor import ClusterProcessor
from streaming.pipeline.output_rows import observations
from streaming.pipeline.schema import REFUSED
from streaming.pipeline.topic_batch import MOST_S, MOST_WAITING, MessageReader, TopicBatch, TopicCluster

FAILED = FailedObservation(source=ObservationSource.QUORUM, endpoint="c1:9093", reason=Reason.NO_LEADER, detail="none")
NOW_MS = 1_800_000_000_000


def message(
    sequence: int,
    *,
    cluster: str = "prod",
    baseline: int = 10,
    at_ms: int | None = None,
    cluster_id: str = "id",
    urgency: Urgency = Urgency.REGULAR,
    relay: str = "host-1",
) -> RelayMessage:
    row = Observation(
        cluster=cluster,
        kind=ObservationKind.FAILED,
        observed_at_ms=NOW_MS + sequence if at_ms is None else at_ms,
        payload=to_json(FAILED),
        sequence=sequence,
        urgency=urgency,
    )
    return RelayMessage(
        observation=row,
        cluster_id=cluster_id,
        baseline=Baseline(sequence=baseline, at_ms=NOW_MS),
        relay=relay,
    )


def messages_of(
    *messages: RelayMessage | bytes, partition: int = 0, topic: str = "observations", at_ms: int = NOW_MS
) -> list[TopicMessage]:
    """Returns messages as they are in a topic; bytes are a value that no relay wrote."""
    return [
        TopicMessage(
            topic=topic,
            partition=partition,
            offset=at,
            key=one.key if isinstance(one, RelayMessage) else b"prod",
            value=one.value() if isinstance(one, RelayMessage) else one,
            headers=one.headers if isinstance(one, RelayMessage) else None,
            appended_at_ms=at_ms,
        )
        for at, one in enumerate(messages)
    ]


class TopicRun:
    """A batch after the other, on a clock that the test moves."""

    def __init__(self, *, most_rows: int = 1_000, most_bytes: int = 1 << 20, **baselines: int) -> None:
        self.now_s = 0.0
        clusters = {
            name: TopicCluster(topic="observations", cluster_id="id", baseline=baseline)
            for name, baseline in (baselines or {"prod": 10}).items()
        }
        reader = MessageReader(clusters)
        self.batch = TopicBatch(reader, most_rows=most_rows, most_bytes=most_bytes, clock=lambda: self.now_s)

    def due_in_s(self, *messages: RelayMessage | bytes) -> float:
        """Adds messages, and returns in how many seconds the batch is due."""
        for one in messages_of(*messages):
            self.batch.add(one)
        return self.batch.due_in_s

    def planned(self, **quiet_until_ms: int) -> None:
        """Begins the next batch."""
        self.batch.begin({name: Millis(at_ms) for name, at_ms in quiet_until_ms.items()})

    def settled(self) -> None:
        """Reads what a relay writes first, and long enough that its rows may wait from now on."""
        self.due_in_s(message(11), message(16_000))
        self.planned(prod=NOW_MS + 26_000)


def read(
    *batches: Sequence[TopicMessage], **baselines: int
) -> tuple[Mapping[str, Sequence[Observation]], list[dict[str, Any]]]:
    """Returns the rows by cluster, and what the quarantine gets."""
    reading = TopicRun(**baselines)
    for one in chain.from_iterable(batches):
        reading.batch.add(one)
    table = pa.Table.from_batches(reading.batch.take()).to_pandas()
    is_refused = table["group"] == REFUSED
    return observations([table[~is_refused]]), [*refused(table[is_refused])] if is_refused.any() else []


def received(*batches: Sequence[TopicMessage], **baselines: int) -> list[int]:
    """Returns the sequences of the rows."""
    rows, _ = read(*batches, **baselines)
    return [row.sequence for of_cluster in rows.values() for row in of_cluster]


def refused(frame: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Yields the bodies of the quarantine's rows."""
    state: Any = None  # it is not used
    (output,) = ClusterProcessor({})((REFUSED,), iter([frame]), state)
    assert output.kind.tolist() == ["quarantine"] * len(output)
    for row in output.itertuples():
        body: dict[str, Any] = json.loads(str(row.body))
        assert (row.cluster, row.name) == (body["cluster"], f"offset-{body['offset']}")
        yield body


@pytest.mark.parametrize(
    ("batches", "baselines", "read"),
    [
        ([[message(11), message(12), message(11)], [message(12), message(13)]], {}, [11, 12, 13]),
        ([[message(11), message(12, baseline=12), message(5, cluster="other", baseline=5)]], {"prod": 12}, [12]),
        (
            [[message(12), message(5_000), message(13, at_ms=NOW_MS + 30_000)]],
            {},
            [12, 5_000],
        ),
    ],
    ids=["in the topic twice", "of an older baseline, and of another cluster", "of a relay that was replaced"],
)
def test_rows_that_do_not_count_are_skipped(
    batches: list[list[RelayMessage]], baselines: dict[str, int], read: list[int]
) -> None:
    assert received(*(messages_of(*each) for each in batches), **baselines) == read


def test_unreadable_messages_are_quarantined_and_the_others_are_read() -> None:
    damaged = message(12).value()[:-1] + b"x"
    batch = messages_of(message(11), b"hello", damaged, message(13), partition=3)
    rows, bodies = read(batch)

    assert [row.sequence for row in rows["prod"]] == [11, 13]
    assert {body["cluster"] for body in bodies} == {"topic observations partition 3"}
    assert all(part in body["reason"] for part, body in zip(("version 104", "CRC-32C"), bodies, strict=True))
    assert [(one["rows_of"], one["part"], one["offset"]) for one in bodies] == [
        ("prod", "message", 1),
        ("prod", "message", 2),
    ]


MINUTE, YEAR = 60_000, 365 * 86_400_000
FORGED = {
    "time": message(12, at_ms=NOW_MS + MINUTE + 1),
    "time of a year": message(12, at_ms=NOW_MS + YEAR),
    "sequence": message(first_sequence(NOW_MS + MINUTE) + 1, at_ms=NOW_MS),
    "sequence of all": message((1 << 63) - 1, at_ms=NOW_MS),
    "cluster id": message(12, cluster_id="AAAAAAAAAAAAAAAAAAAAAA"),
    "baseline": message(12, baseline=13),
    "baseline of all": message(12, baseline=(1 << 63) - 1),
    "baseline in the future": replace(message(12), baseline=Baseline(sequence=10, at_ms=NOW_MS + YEAR)),
}


@pytest.mark.parametrize("kind", FORGED)
def test_forged_row_is_refused_and_the_rows_of_the_right_relay_are_read(kind: str) -> None:
    rows, (body,) = read(messages_of(message(11), FORGED[kind], message(12), message(13)))

    assert [row.sequence for row in rows["prod"]] == [11, 12, 13]
    assert (body["rows_of"], body["offset"], body["cluster"]) == ("prod", 1, "topic observations partition 0")
    assert body["part"] == next(part for part in RefusedPart if kind.startswith(part.value))


@pytest.mark.parametrize(
    "right",
    [
        message(12, at_ms=NOW_MS + MINUTE),
        message(first_sequence(NOW_MS + MINUTE), at_ms=NOW_MS + MINUTE),
        message(12, baseline=12),
    ],
)
def test_row_within_the_limits_is_read(right: RelayMessage) -> None:
    at_ms = right.observation.observed_at_ms - MINUTE

    assert received(messages_of(right, at_ms=at_ms)) == [right.observation.sequence]


def test_rows_of_a_cluster_in_another_topic_are_refused() -> None:
    rows, (body,) = read(
        messages_of(message(11), message(11, cluster="unknown"), topic="tenant-b"), messages_of(message(12))
    )

    assert [row.sequence for row in rows["prod"]] == [12]
    assert (body["cluster"], body["part"], body["rows_of"]) == ("topic tenant-b partition 0", "topic", "prod")


def test_a_refused_message_names_its_cluster_only_if_it_is_a_monitored_one() -> None:
    _, found = read(messages_of(message(11, cluster_id="wrong"), b"no row"), messages_of(b"no row"), other=1)
    assert {one["rows_of"] for one in found} == {None}
    _, found = read(messages_of(message(11, cluster_id="wrong")))
    assert [one["rows_of"] for one in found] == ["prod"]


def quiet(sequence: int, **fields: Any) -> RelayMessage:
    return message(sequence, urgency=Urgency.QUIET, **fields)


def test_quiet_rows_wait_until_time_may_change_something() -> None:
    reading = TopicRun()
    reading.settled()

    assert reading.due_in_s(quiet(17_000)) == MOST_S
    reading.now_s = 4
    assert reading.due_in_s(quiet(25_999)) == MOST_S - 4
    assert reading.batch.waiting_ms == NOW_MS + 25_999
    assert reading.due_in_s(quiet(26_000)) == 0
    assert len(reading.batch.take()[0]) == 3


def test_quiet_rows_of_many_clusters_make_a_batch_before_it_is_long() -> None:
    reading = TopicRun(most_rows=2 * MOST_WAITING)
    reading.settled()

    assert reading.due_in_s(*(quiet(17_000 + at) for at in range(MOST_WAITING - 1))) == MOST_S
    assert reading.due_in_s(quiet(17_000 + MOST_WAITING)) == 0


@pytest.mark.parametrize(
    "other",
    [
        message(17_001),
        b"no row",
        message(17_001, cluster_id="wrong"),
        quiet(17_001, relay="host-2"),
        quiet(17_001, cluster="other"),
    ],
    ids=["a row that shows something", "no row", "refused", "of another relay", "of a cluster without an evaluation"],
)
def test_every_other_row_makes_a_batch_at_once(other: RelayMessage | bytes) -> None:
    reading = TopicRun(prod=10, other=10)
    reading.settled()

    assert reading.due_in_s(quiet(17_000)) > 0
    assert reading.due_in_s(other) == 0


@pytest.mark.parametrize("fields", [{"relay": "host-2"}, {"urgency": Urgency.URGENT}])
def test_after_a_change_and_a_take_over_rows_wait_when_everything_was_observed_again(fields: dict[str, Any]) -> None:
    reading = TopicRun()
    reading.settled()
    later = {name: value for name, value in fields.items() if name != "urgency"}
    assert reading.due_in_s(message(20_000, **fields)) == 0
    reading.planned(prod=NOW_MS + 100_000)
    assert reading.due_in_s(quiet(34_999, **later)) == 0
    reading.planned(prod=NOW_MS + 100_000)
    assert reading.due_in_s(quiet(35_000, **later)) == MOST_S


def test_messages_without_a_row_that_counts_wait_too_and_move_the_position() -> None:
    reading = TopicRun()
    reading.settled()
    skipped = (message(15_000), message(17_000, cluster="unknown"), message(17_000, baseline=9))

    assert reading.due_in_s(*skipped) == MOST_S
    reading.now_s = MOST_S
    assert reading.due_in_s() == 0


def test_without_messages_no_batch_is_due() -> None:
    reading = TopicRun()
    reading.now_s = 3 * MOST_S
    assert reading.due_in_s() > 0
    reading.settled()
    reading.now_s += 3 * MOST_S
    assert reading.due_in_s(quiet(17_000)) == 0, "the batch before was long ago"


@pytest.mark.parametrize("bounds", [{"most_rows": 3}, {"most_bytes": 3 * len(quiet(17_000).value())}])
def test_a_full_batch_is_due(bounds: dict[str, int]) -> None:
    reading = TopicRun(**bounds)
    reading.settled()

    assert reading.due_in_s(quiet(17_000), quiet(17_001)) > 0
    assert reading.due_in_s(quiet(17_002)) == 0
    assert reading.batch.is_full


def test_a_batch_that_is_read_again_has_the_same_rows() -> None:
    """Whatever was read before, and although a relay that was replaced still writes."""
    written = messages_of(message(500), quiet(501), message(20), b"no row", message(501), quiet(502))
    first, again = TopicRun(), TopicRun()
    again.settled()
    found = []
    for reading in (first, again):
        for one in written:
            reading.batch.add(one)
        found.append(pa.Table.from_batches(reading.batch.take()))
        assert reading.batch.take() == []

    assert found[0].equals(found[1])
    assert found[0].num_rows == 4
