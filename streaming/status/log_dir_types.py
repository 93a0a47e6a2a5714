"""One controller's log directory in a cluster status (`--log-dir`)."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from rules.model.identifiers import DirectoryId, Epoch, NodeId, Offset
from streaming.status.voter_types import UtcTime, VoterEndpoints


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumStateFile:
    """The file `quorum-state`: the node's last election."""

    version: int
    """Version of the file format."""
    leader_epoch: Epoch
    """The newest leader epoch that the node knows."""
    leader_id: NodeId | None
    """The leader of that epoch; null where the node knows none."""
    voted_id: NodeId | None
    """The candidate that the node voted for; null where it did not vote."""
    voted_directory_id: DirectoryId | None
    """Directory id of that candidate."""
    static_voters: tuple[NodeId, ...]
    """Voters by the node's configuration; empty in a dynamic quorum."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VotersRecordStatus:
    """A voter set that the directory holds."""

    offset: Offset
    """Offset of the VotersRecord; -1 for the set that the directory was formatted with."""
    leader_epoch: Epoch | None
    """Leader epoch of its batch."""
    written_at_ms: Annotated[UtcTime | None, Field(alias="written_at")]
    """When it was written, by the controllers' clock."""
    file: str
    """The segment or snapshot that holds it."""
    in_snapshot: bool
    """Whether that file is a snapshot."""
    voters: tuple[VoterEndpoints, ...]
    """The voters, by node id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreadBytes:
    """Bytes of a torn or damaged file."""

    file: str
    """File name."""
    position: int
    """Byte at which the damage begins."""
    size: Annotated[int, Field(alias="bytes")]
    """Number of bytes that were not read."""
    reason: str
    """What is wrong, as text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirStatus:
    """What a metadata log directory holds beside the quorum's state."""

    folder: str
    """Path of the directory."""
    node_id: NodeId | None
    """node.id in meta.properties."""
    directory_id: DirectoryId | None
    """directory.id in meta.properties."""
    quorum_state: QuorumStateFile | None
    """The file `quorum-state`; null where it cannot be read."""
    snapshot: str | None
    """The snapshot that the state was read from, before the log."""
    committed_below: Offset | None
    """Records below this offset are committed, by that snapshot; null where the state was read from the log alone."""
    first_offset: Offset
    """Offset of the first record that was read from the log."""
    log_end_offset: Offset
    """The offset after the last record that was read."""
    last_epoch: Epoch | None
    """Leader epoch of the last record that was read."""
    whole: bool
    """The state includes everything since the log's beginning."""
    voter_sets: tuple[VotersRecordStatus, ...]
    """Every voter set in the directory, oldest first."""
    not_read: tuple[UnreadBytes, ...]
    """Where files are torn or damaged."""
