"""The interface through which log follower, quorum poll, endpoint probe and leader view poll write observations."""

from typing import Protocol

from connectors.gather.commit_buffer import CommittedRecords
from connectors.gather.redacted_batches import RedactedBatches
from connectors.observations.observation_event import EndpointProbed, LeaderViewPolled, ObservationFailed, QuorumPolled
from rules.model.identifiers import SnapshotId


class ObservationOutput(Protocol):
    """Receives the observations of one cluster in the order they are made."""

    def write_records(self, records: CommittedRecords, batches: RedactedBatches) -> None:
        """Writes committed records, whose content is `batches`; empty if the leader answered without new ones."""

    def write_snapshot_piece(self, snapshot: SnapshotId, number: int, batches: RedactedBatches) -> None:
        """Writes a piece of a snapshot: whole batches; pieces are numbered from 0."""

    def write_poll(self, event: QuorumPolled) -> None:
        """Writes the response to a DescribeQuorum."""

    def write_probe(self, event: EndpointProbed) -> None:
        """Writes the result of an endpoint probe."""

    def write_leader_view(self, event: LeaderViewPolled) -> None:
        """Writes which leader and epoch a controller reported."""

    def write_failure(self, event: ObservationFailed) -> None:
        """Writes a failed poll, probe or fetch."""
