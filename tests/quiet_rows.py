"""Gives recorded rows the urgency that the gatherer's writer gives them."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from connectors.gather.commit_buffer import CommittedRecords
from connectors.gather.node_directory import NodeDirectory
from connectors.gather.observation_writer import ObservationWriter, redacted_batches
from connectors.gather.publisher import Publisher
from connectors.observations.log_event import LogAdvanced
from connectors.observations.observation import Observation, ObservationKind, Urgency, from_json
from connectors.wall_clock import RowClock
from rules.model.monitoring import FailedObservation, LeaderView, Probe
from rules.model.replica import Poll
from streaming.replay.decoded_row import decode_observation


class _Publisher(Publisher):
    newest: Observation

    def add(self, row: Observation) -> None:
        self.newest = row


class _Writer:
    """The gatherer's writer of one cluster."""

    def __init__(self, cluster: str) -> None:
        self.now_ms = 0
        loop: Any = self
        nodes = NodeDirectory(configured=(), cluster_id=cluster)
        clock = RowClock(wall=lambda: self.now_ms, steady=lambda: self.now_ms)
        self._publisher = _Publisher(loop, loop, on_failure=lambda: None)
        self._writer = ObservationWriter(cluster, self._publisher, nodes, clock=clock, steady=lambda: self.now_ms)

    def urgency(self, row: Observation) -> Urgency:
        """Writes a row, and returns how urgent it is."""
        self.now_ms = row.observed_at_ms
        match None if row.kind in (ObservationKind.RECORDS, ObservationKind.SNAPSHOT) else from_json(row.payload):
            case Poll() as poll:
                self._writer.write_poll(poll)
            case Probe() as probe:
                self._writer.write_probe(probe)
            case LeaderView() as view:
                self._writer.write_leader_view(view)
            case FailedObservation() as failed:
                self._writer.write_failure(failed)
            case _ if row.kind is ObservationKind.SNAPSHOT:
                return Urgency.URGENT
            case _:
                committed = CommittedRecords(
                    base_offset=row.base_offset or 0,
                    last_offset=row.last_offset or 0,
                    leader_epoch=row.leader_epoch or 0,
                    high_watermark=row.high_watermark,
                    batches=row.payload,
                )
                # The batches of a scripted quorum hold several NoOps: the gatherer knows those of Kafka, with one.
                has_records = any(not isinstance(each, LogAdvanced) for each in decode_observation(row))
                batches = replace(redacted_batches(row.payload), has_records=has_records)
                self._writer.write_records(committed, batches)
        return self._publisher.newest.urgency


def with_urgency(rows: Iterable[Observation]) -> Iterator[Observation]:
    """Yields the rows, each with its urgency."""
    writers: dict[str, _Writer] = {}
    for row in rows:
        writer = writers.setdefault(row.cluster, _Writer(row.cluster))
        yield replace(row, urgency=writer.urgency(row))
