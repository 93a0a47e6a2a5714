"""An Image: everything the log says about the quorum, except the topics, as one frozen value.

Kafka calls it MetadataImage. A change makes a new image, so the image that rules see does not change.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from rules.model.history import RecentHistory, Recovery
from rules.model.identifiers import Endpoint, Epoch, Millis, NodeId, Offset, ReplicaKey
from rules.model.membership import BrokerRegistration, ControllerRegistration, VoterSet


class SnapshotOrigin(NamedTuple):
    """The latest possible position of a snapshot's records: the snapshot's last contained offset."""

    offset: Offset
    leader_epoch: Epoch
    timestamp_ms: Millis


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovedVoter:
    """A replica that a VotersRecord no longer lists, and that record's timestamp (the log's clock)."""

    key: ReplicaKey
    timestamp_ms: Millis


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """The content of the log up to and including `last_offset`."""

    complete: bool = False
    """True if read from the log's first record or from a whole snapshot: what is not in the image does not exist."""
    last_offset: Offset | None = None
    newest_timestamp_ms: Millis | None = None
    kraft_version: int | None = None
    metadata_version: int | None = None
    features: Mapping[str, int] = field(default_factory=dict)
    """The finalized level of each feature (KIP-584)."""
    committed: VoterSet | None = None
    removed_voters: tuple[RemovedVoter, ...] = ()
    """Voters removed since the image was last made visible to the rules."""
    leader_id: NodeId | None = None
    leader_epoch: Epoch | None = None
    controllers: Mapping[NodeId, ControllerRegistration] = field(default_factory=dict)
    brokers: Mapping[NodeId, BrokerRegistration] = field(default_factory=dict)
    recovering: tuple[Recovery, ...] = ()
    history: RecentHistory = field(default_factory=RecentHistory)
    """Events read from the log record by record. A snapshot holds none of them, so they are kept across a snapshot."""

    @property
    def kraft(self) -> int | None:
        """kraft.version. A whole log without a KRaftVersionRecord is version 0, as in Kafka."""
        return 0 if self.kraft_version is None and self.complete else self.kraft_version

    @property
    def endpoints(self) -> set[tuple[NodeId, str]]:
        """Each node with each HOST:PORT that the log lists for it."""
        listed: list[tuple[NodeId, tuple[Endpoint, ...]]] = []
        if self.committed is not None:
            listed += [(voter.key.id, voter.endpoints) for voter in self.committed.voters]
        listed += [(one.id, one.endpoints) for one in self.controllers.values()]
        listed += [(one.id, one.endpoints) for one in self.brokers.values()]
        return {(node, str(endpoint)) for node, endpoints in listed for endpoint in endpoints}
