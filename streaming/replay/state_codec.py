"""Memory: what a machine knows, as a versioned blob.

Layout: four bytes, `kwm` and the version, then three sections, each a length of four bytes (big-endian)
and that many bytes: the hot section (deflated JSON of Memory, rewritten whenever anything was applied), the topics
of the log, and the topics of an unfinished snapshot. The topics are the bulk: they stay packed, and cost
nothing but their copying, while no event touches them.

A change of Memory's meaning or shape raises VERSION and adds to MIGRATIONS a function that makes the older JSON
document into the next one. A blob of a newer version is refused: guessing at it would lose state.
"""

import json
import struct
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from connectors.errors import UsageError
from rules.model.identifiers import Epoch, Millis, Offset
from rules.model.voter_set import VoterRemoval
from streaming.replay.contract_violations import Contracts
from streaming.replay.image import Image
from streaming.replay.invariants import Invariants
from streaming.replay.leadership import Leadership
from streaming.replay.log import Log, Transaction
from streaming.replay.partitions import Origin, Partitions
from streaming.replay.poll_history import Polls
from streaming.replay.probe_state import Looks
from streaming.replay.topic_codec import of_version_1

if TYPE_CHECKING:
    from streaming.replay.machine import Machine

MAGIC = b"kwm"
VERSION = 2
MIGRATIONS: Mapping[int, Callable[[dict[str, Any]], dict[str, Any]]] = {1: lambda document: document}
"""From a version, what makes its JSON document one of the next version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogMemory:
    """A Log but for its topics, which are a section of their own."""

    image: Image
    position: Offset
    epoch: Epoch
    origin: Origin | None
    transaction: Transaction | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """The hot section. `shown` is None while the log's own image is what is shown."""

    cluster_id: str | None
    sequence: int
    now_ms: Millis
    undecodable: int
    log: LogMemory
    loading: LogMemory | None
    shown: Image | None
    behind_since_ms: Millis | None
    log_seen_at_ms: Millis | None
    removals: tuple[VoterRemoval, ...]
    leadership: Leadership
    polls: Polls
    looks: Looks
    invariants: Invariants = field(default_factory=Invariants)
    contracts: Contracts = field(default_factory=Contracts)


_EPOCHS_SINCE = 2
"""The version since which the sections with topics tell every partition's epochs and last known ELR."""
_JSON: TypeAdapter[Memory] = TypeAdapter(Memory)


def to_bytes(machine: "Machine") -> bytes:
    """Everything the machine knows."""
    loading = machine.loading
    memory = Memory(
        cluster_id=machine.cluster_id,
        sequence=machine.sequence,
        now_ms=machine.now_ms,
        undecodable=machine.undecodable,
        log=_remembered(machine.log),
        loading=None if loading is None else _remembered(loading),
        shown=None if machine.shown is machine.log.image else machine.shown,
        behind_since_ms=machine.behind_since_ms,
        log_seen_at_ms=machine.log_seen_at_ms,
        removals=machine.removals,
        leadership=machine.leadership,
        polls=machine.polls,
        looks=machine.looks,
        invariants=machine.invariants,
        contracts=machine.contracts,
    )
    hot = zlib.compress(_JSON.dump_json(memory), level=1)
    sections = (hot, machine.log.partitions.pack(), b"" if loading is None else loading.partitions.pack())
    return MAGIC + bytes([VERSION]) + b"".join(struct.pack(">I", len(section)) + section for section in sections)


def restore(machine: "Machine", blob: bytes) -> None:
    """Put what `to_bytes` wrote into a machine that has seen nothing.

    Raises:
        UsageError: the blob is of a newer kraftwatch, of another cluster, or damaged.
    """
    hot, *packed = _sections(machine.cluster, blob)
    version = blob[len(MAGIC)]
    topics, loading_topics = map(of_version_1, packed) if version < _EPOCHS_SINCE else packed
    memory = _read(machine.cluster, version, hot)
    if machine.cluster_id is not None and memory.cluster_id not in (None, machine.cluster_id):
        raise UsageError(
            f"the checkpoint's state of cluster {machine.cluster} is of cluster id {memory.cluster_id}, "
            f"not {machine.cluster_id}: use another checkpoint folder"
        )
    machine.cluster_id = machine.cluster_id or memory.cluster_id
    machine.sequence = memory.sequence
    machine.now_ms = memory.now_ms
    machine.undecodable = memory.undecodable
    machine.log = _recalled(memory.log, topics)
    machine.loading = None if memory.loading is None else _recalled(memory.loading, loading_topics)
    machine.shown = machine.log.image if memory.shown is None else memory.shown
    machine.behind_since_ms = memory.behind_since_ms
    machine.log_seen_at_ms = memory.log_seen_at_ms
    machine.removals = memory.removals
    machine.leadership = memory.leadership
    machine.polls = memory.polls
    machine.looks = memory.looks
    machine.invariants = memory.invariants
    machine.contracts = memory.contracts


def _remembered(log: Log) -> LogMemory:
    return LogMemory(
        image=log.image, position=log.position, epoch=log.epoch, origin=log.origin, transaction=log.transaction
    )


def _recalled(memory: LogMemory, topics: bytes) -> Log:
    return Log(
        image=memory.image,
        partitions=Partitions(recovering=memory.image.recovering, packed=topics),
        position=memory.position,
        epoch=memory.epoch,
        origin=memory.origin,
        transaction=memory.transaction,
    )


def _sections(cluster: str, blob: bytes) -> tuple[bytes, bytes, bytes]:
    start = len(MAGIC) + 1
    if blob[: len(MAGIC)] != MAGIC or len(blob) < start:
        raise _damaged(cluster, "it does not begin as one")
    if blob[len(MAGIC)] > VERSION:
        raise UsageError(
            f"the checkpoint's state of cluster {cluster} has version {blob[len(MAGIC)]}, this kraftwatch knows "
            f"up to {VERSION}: run the newer kraftwatch that wrote it, or start with a new checkpoint folder"
        )
    sections: list[bytes] = []
    for _ in range(3):
        if len(blob) < start + 4:
            raise _damaged(cluster, f"it ends after {len(blob)} bytes")
        end = start + 4 + int.from_bytes(blob[start : start + 4], "big")
        sections.append(blob[start + 4 : end])
        start = end
    if start != len(blob):
        raise _damaged(cluster, f"it has {len(blob)} bytes instead of {start}")
    return sections[0], sections[1], sections[2]


def _read(cluster: str, version: int, hot: bytes) -> Memory:
    try:
        document = zlib.decompress(hot)
        if version < VERSION:
            older: dict[str, Any] = json.loads(document)
            for step in range(version, VERSION):
                older = MIGRATIONS[step](older)
            document = json.dumps(older).encode()
        return _JSON.validate_json(document)
    except (zlib.error, ValueError) as error:
        raise _damaged(cluster, f"{type(error).__name__} while reading it") from error


def _damaged(cluster: str, what: str) -> UsageError:
    return UsageError(
        f"the checkpoint's state of cluster {cluster} is damaged ({what}): start with a new checkpoint folder"
    )
