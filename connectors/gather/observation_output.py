"""Where what was seen goes: the gatherer's side of the follower, the poll, the probe and the views."""

from typing import Protocol

from connectors.event import EndpointProbed, LeaderViewPolled, ObservationFailed, QuorumPolled
from connectors.gather.commit_buffer import Release
from connectors.kafka.messages import SnapshotId


class Output(Protocol):
    """One cluster's rows, in the order they are seen."""

    def release(self, release: Release) -> None:
        """Committed records, or an answer that brought nothing new."""

    def piece(self, snapshot: SnapshotId, number: int, batches: bytes) -> None:
        """A piece of a snapshot: whole batches, numbered from 0."""

    def polled(self, event: QuorumPolled) -> None:
        """An answered DescribeQuorum."""

    def probed(self, event: EndpointProbed) -> None:
        """A look at an endpoint."""

    def viewed(self, event: LeaderViewPolled) -> None:
        """What a controller said of who leads."""

    def unseen(self, event: ObservationFailed) -> None:
        """A look that failed."""
