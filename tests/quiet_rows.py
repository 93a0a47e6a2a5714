"""Gives rows the urgency that the gatherer's writer gives them."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from connectors.gather.commit_buffer import CommittedRecords
from connectors.gather.node_directory import NodeDirectory
from connectors.gather.observation_writer import ObservationWriter, RedactedBatches
from connectors.gather.publisher import Publisher
from connectors.observations.log_event import LogAdvanced
from connectors.observations.observation import Observation, ObservationKind, Urgency
from connectors.observations.partition_run import DecodedItem
from connectors.process.wall_clock import RowClock
from rules.model.monitoring import FailedObservation, LeaderView, Probe
from rules.model.replica import Poll
from rules.model.witness import WitnessRow
from streaming.replay.decoded_row import decode_observation


class _Publisher(Publisher):
    newest: Observation

    def add(self, row: Observation) -> None:
        self.newest = row


COMMITTED = CommittedRecords(base_offset=0, last_offset=0, leader_epoch=0, high_watermark=0, batches=b"")


def write_row(writer: ObservationWriter, events: Sequence[DecodedItem]) -> None:
    """Writes a row of these events: one that is no record, or records."""
    match events:
        case [Poll() as poll]:
            writer.write_poll(poll)
        case [Probe() as probe]:
            writer.write_probe(probe)
        case [LeaderView() as view]:
            writer.write_leader_view(view)
        case [WitnessRow() as row]:
            writer.write_witness(row)
        case [FailedObservation() as failed]:
            writer.write_failure(failed)
        case _:
            # The batches of a scripted quorum hold several NoOps: the gatherer knows those of Kafka, with one.
            records = any(not isinstance(each, LogAdvanced) for each in events)
            writer.write_records(COMMITTED, RedactedBatches(pieces=(), has_records=records, endpoints=()))


class RowUrgency:
    """Finds how urgent the rows of one cluster are, in their order, by the gatherer's own writer."""

    def __init__(self) -> None:
        self._now_ms = 0
        loop: Any = self
        nodes = NodeDirectory(configured=(), cluster_id="cluster")
        clock = RowClock(wall=lambda: self._now_ms, steady=lambda: self._now_ms)
        self._publisher = _Publisher(loop, loop, on_failure=lambda: None)
        self._writer = ObservationWriter("cluster", self._publisher, nodes, clock=clock, steady=lambda: self._now_ms)

    def of(self, events: Sequence[DecodedItem], at_ms: int) -> Urgency:
        """Returns the urgency of the next row, which has these events and this time."""
        self._now_ms = at_ms
        write_row(self._writer, events)
        return self._publisher.newest.urgency

    def is_quiet(self, events: Sequence[DecodedItem], at_ms: int) -> bool:
        """Returns whether the next row shows nothing new but that time passes."""
        return self.of(events, at_ms) is Urgency.QUIET


def with_urgency(rows: Iterable[Observation]) -> Iterator[Observation]:
    """Yields the rows, each with its urgency."""
    writers: dict[str, RowUrgency] = {}
    for row in rows:
        writer = writers.setdefault(row.cluster, RowUrgency())
        snapshot = row.kind is ObservationKind.SNAPSHOT
        urgency = Urgency.URGENT if snapshot else writer.of([*decode_observation(row)], row.observed_at_ms)
        yield replace(row, urgency=urgency)
