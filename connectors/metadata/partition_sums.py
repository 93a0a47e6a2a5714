"""PartitionSums: the partitions that a log or snapshot leaves, as sums that can be compared between programs.

It applies records as Kafka's MetadataDelta does: a change of the leader increments the leader epoch, each change the
partition epoch, a removed topic takes its partitions away, and an aborted transaction has no effect (KIP-868).
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from connectors.event_columns import PARTITION_CHANGED, PARTITION_SET, EventColumns
from connectors.metadata.batches import MOST_BYTES, RecordBatch, scan
from connectors.metadata.decoder import decode_records, decode_snapshot_piece

_LEADER, _LEADER_EPOCH, _PARTITION_EPOCH, _ISR, _ELR, _LAST_KNOWN_ELR, _RECOVERING = range(7)
_NO_LEADER: Final = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSums:
    """Sums over all partitions."""

    topics: int
    partitions: int
    recovering: int
    """Partitions whose leader was elected uncleanly and is not yet recovered (KIP-704)."""
    with_elr_or_last_known_elr: int
    no_leader: int
    sum_leader_epoch: int
    sum_partition_epoch: int
    sum_leader: int
    """A partition without a leader adds -1."""
    sum_isr_len: int

    def as_json(self) -> dict[str, int]:
        """Returns the sums by name."""
        return asdict(self)


class PartitionStates:
    """The state of each partition, as far as the sums need it."""

    def __init__(self) -> None:
        self._topics: dict[str, dict[int, list[Any]]] = {}
        self._names: dict[str, str] = {}
        """Names of existing topics, by topic id."""
        self._transaction: list[Sequence[Any]] | None = None
        """The events of an open transaction."""

    def apply(self, events: EventColumns) -> None:
        """Applies the events of consecutive records, in order."""
        for part in events.parts():
            rows = part if isinstance(part, list) else part.rows(PARTITION_SET, PARTITION_CHANGED)
            for row in rows:
                self._apply_or_hold(row)

    def sums(self) -> PartitionSums:
        """Returns the sums."""
        states = [state for partitions in self._topics.values() for state in partitions.values()]
        return PartitionSums(
            topics=len(self._names),
            partitions=len(states),
            recovering=sum(state[_RECOVERING] for state in states),
            with_elr_or_last_known_elr=sum(bool(state[_ELR] or state[_LAST_KNOWN_ELR]) for state in states),
            no_leader=sum(state[_LEADER] == _NO_LEADER for state in states),
            sum_leader_epoch=sum(state[_LEADER_EPOCH] for state in states),
            sum_partition_epoch=sum(state[_PARTITION_EPOCH] for state in states),
            sum_leader=sum(state[_LEADER] for state in states),
            sum_isr_len=sum(state[_ISR] for state in states),
        )

    def _apply_or_hold(self, row: Sequence[Any]) -> None:
        type_ = row[0]
        if type_ == "transaction-began":
            self._transaction = []
        elif type_ == "transaction-ended":
            held, self._transaction = self._transaction or [], None
            if not _body(row)["aborted"]:
                for each in held:
                    self._apply_row(each)
        elif self._transaction is not None:
            self._transaction.append(row)
        else:
            self._apply_row(row)

    def _apply_row(self, row: Sequence[Any]) -> None:
        type_ = row[0]
        if type_ == PARTITION_CHANGED:
            self._change(row)
        elif type_ == PARTITION_SET:
            _, _, _, _, _, topic, partition, _, isr, elr, last_known, leader, _, epoch, partition_epoch, state, _ = row
            self._topics.setdefault(topic, {})[partition] = [
                _NO_LEADER if leader is None else leader,
                epoch,
                partition_epoch,
                len(isr),
                bool(elr),
                bool(last_known),
                state,
            ]
        elif type_ == "topic-created":
            event = _body(row)
            self._names[event["topic_id"]] = event["name"]
        elif type_ == "topic-removed":
            topic = _body(row)["topic_id"]
            self._names.pop(topic, None)
            self._topics.pop(topic, None)
        elif type_ == "elr-cleared":
            self._clear_elr(_body(row)["topic"])

    def _change(self, row: Sequence[Any]) -> None:
        _, _, _, _, _, topic, partition, _, isr, elr, last_known, leader, leader_set, _, _, recovering, _ = row
        state = self._topics.get(topic, {}).get(partition)
        if state is None:
            return
        state[_PARTITION_EPOCH] += 1
        if leader_set:
            state[_LEADER] = _NO_LEADER if leader is None else leader
            state[_LEADER_EPOCH] += 1
        if isr is not None:
            state[_ISR] = len(isr)
        if elr is not None:
            state[_ELR] = bool(elr)
        if last_known is not None:
            state[_LAST_KNOWN_ELR] = bool(last_known)
        if recovering is not None:
            state[_RECOVERING] = recovering

    def _clear_elr(self, name: str | None) -> None:
        for topic, partitions in self._topics.items():
            if name is None or self._names.get(topic) == name:
                for state in partitions.values():
                    state[_ELR] = state[_LAST_KNOWN_ELR] = False


def _body(row: Sequence[Any]) -> Mapping[str, Any]:
    body: Mapping[str, Any] = json.loads(row[-1])
    return body


def partition_sums(segment: bytes, *, snapshot: bool) -> PartitionSums:
    """Returns the sums over the partitions that the readable records of a file leave."""
    states = PartitionStates()
    for piece in _pieces(segment):
        states.apply(_events(piece, snapshot=snapshot))
    return states.sums()


def _events(piece: bytes, *, snapshot: bool) -> EventColumns:
    if snapshot:
        return decode_snapshot_piece(piece, end_offset=0, epoch=0)
    return decode_records(piece, base_offset=None, last_offset=None, leader_epoch=None, high_watermark=None)


def _pieces(segment: bytes) -> Iterator[bytes]:
    """Yields the file in pieces of whole batches, so that not all events are in memory at once."""
    start = 0
    for item in scan(segment):
        if isinstance(item, RecordBatch) and item.end - start >= MOST_BYTES:
            yield segment[start : item.end]
            start = item.end
    yield segment[start:]
