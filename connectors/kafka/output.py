"""Where what was seen goes: the gatherer's side of the follower, the poll and the probe."""

from typing import Protocol

from connectors.event import EndpointProbed, QuorumPolled, Unseen
from connectors.kafka.messages import SnapshotId
from connectors.kafka.tail import Release


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

    def unseen(self, event: Unseen) -> None:
        """A look that failed."""
