"""What the host of one node saw of the controllers, with that node's own resolver, certificates and login."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from rules.model.ages import SYNCHRONIZED_MS
from rules.model.identifiers import START, DirectoryId, Millis, NodeId

MOST_PEERS = 32
"""More voters than Kafka recommends by far: a row has no more."""


class Reached(StrEnum):
    """Whether a dial reached the voter that listens there, up to the request that only a node may send."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"
    """It was not dialled as the node would, or the voter answered neither yes nor no."""


class DialledBy(StrEnum):
    """Whose TLS and login dialled the others."""

    PYTHON = "python"
    """kraftwatch's own: Python's TLS, and the logins PLAIN and SCRAM."""
    KAFKA = "kafka"
    """Kafka's own tools of that host, with the node's Java; what they cannot show, kraftwatch's own."""


class DialStep(StrEnum):
    """The step of a dial that failed, in order."""

    NAME = "name"
    """The host does not resolve its name."""
    CONNECTION = "connection"
    """No connection is accepted."""
    TLS = "tls"
    """The two do not agree on TLS, or one does not accept the other's certificate."""
    LOGIN = "login"
    PERMISSION = "permission"
    """The authorizer denies CLUSTER_ACTION, which each request of a peer needs."""
    NODE = "node"
    """Another node answers there."""
    ANSWER = "answer"
    """The connection is accepted and then not answered, or closed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerDial:
    """One dial: of a voter, where it is recorded."""

    node: NodeId | None
    """None: an address of the configuration, and nothing says whose it is."""
    endpoint: str
    """HOST:PORT that was dialled."""
    reached: Reached
    step: DialStep | None = None
    """Which step failed, if it was not reached."""
    why: str = ""
    """Why it was not reached, or why that is unknown; never a secret."""
    took_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WitnessRow:
    """What one node's host saw at one time."""

    version: Literal[1] = 1
    """Of this form."""
    node: NodeId
    """The controller or broker with whose properties was dialled."""
    cluster_id: str | None
    """Of its meta.properties."""
    at_ms: Millis
    """When it began to dial, by the clock of its host."""
    observed_at_ms: Millis = START
    """The same by the monitor's clock. Set by replay: not of a row that people give."""
    denied_by: tuple[NodeId, ...] = ()
    """The voters that denied this node when they last answered its host. Set by replay."""
    took_ms: int = 0
    """How long all of it took."""
    every_ms: int | None = None
    """How often it is reported; None: once."""
    login: str
    """How it logs in to the others, such as `PLAIN as User:ctl`; no secret."""
    peers: tuple[PeerDial, ...]
    """The voters but itself, by node id."""
    dialled_by: DialledBy = DialledBy.PYTHON
    """Whose TLS and login dialled them."""
    not_dialled: str = ""
    """Why this host cannot dial as the node does, and what to do; empty if it can."""
    leader_ahead_ms: int | None = None
    """How far the leader's clock is ahead of this host's."""
    directory_id: DirectoryId | None = None
    """Of its meta.properties."""
    listed_directory_ids: tuple[DirectoryId, ...] = ()
    """With which the leader lists this node as a voter."""
    free_bytes: int | None = None
    """Free room on the disk of its metadata log."""
    process_since_ms: Millis | None = None
    """When the process of the node began, by the clock of its host; None: the host sees none."""
    processes_at_ms: tuple[Millis, ...] = ()
    """When the processes began that replaced another one, by the monitor's clock, the newest ones, oldest first: those
    of whose time a row is. Set by replay."""
    ends_start: tuple[str, ...] = ()
    """The files beside its log with which its next start ends."""
    may_end_start: tuple[str, ...] = ()
    """The files beside its log of which it is unknown whether its next start ends."""


_FREE_BYTES = 1024**3
"""One segment of the metadata log (metadata.log.segment.bytes)."""


def wrong(row: WitnessRow) -> list[str]:
    """Returns what is wrong, each as a sentence without its end."""
    found = [
        f"{_peer(peer)} is not reached ({peer.step}): {peer.why}" for peer in row.peers if peer.reached is Reached.NO
    ]
    if row.leader_ahead_ms is not None and abs(row.leader_ahead_ms) > SYNCHRONIZED_MS:
        found.append(f"the leader's clock is {row.leader_ahead_ms} ms ahead of the clock of this host")
    if row.directory_id is not None and row.listed_directory_ids and row.directory_id not in row.listed_directory_ids:
        listed = ", ".join(row.listed_directory_ids)
        found.append(
            f"directory.id is {row.directory_id} in meta.properties, and the leader lists this voter with {listed}"
        )
    if row.free_bytes is not None and row.free_bytes < _FREE_BYTES:
        found.append(f"the disk of the metadata log has {row.free_bytes // 1024**2} MiB left")
    return [*found, *row.ends_start]


def unknown(row: WitnessRow) -> list[str]:
    """Returns what is not known, each as a sentence without its end."""
    found = [row.not_dialled] if row.not_dialled else []
    found += [f"whether {_peer(peer)} is reached is unknown: {peer.why}" for peer in row.peers if _is_unknown(peer)]
    # A leader that answers and lists no other voter has none.
    if not row.peers and not row.not_dialled and row.leader_ahead_ms is None:
        found.append("no other voter is known: no controller that this host reaches reports one")
    return [*found, *row.may_end_start]


def _is_unknown(peer: PeerDial) -> bool:
    return peer.reached is Reached.UNKNOWN


def _peer(peer: PeerDial) -> str:
    return peer.endpoint if peer.node is None else f"controller {peer.node} at {peer.endpoint}"
