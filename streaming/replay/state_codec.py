"""MachineState: what is known about one cluster; and the stored form of it and of a ClusterMonitor, a versioned blob.

Layout: four bytes, `kww` and the version, then four sections, each a length of four bytes (big-endian) and that many
bytes: the tracked conditions, and those of the machine. These are the hot section (deflated JSON of StoredState,
rewritten whenever an observation was applied), the partitions of the log, and those of an unfinished snapshot, as
`stored_topics` stores them. Their large parts are pages outside the blob, if `MachineState.pages` keeps them. A blob of
another version is refused: reading it would lose state.
"""

import json
import struct
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from itertools import chain

from pydantic import TypeAdapter

from connectors.errors import UsageError
from rules.lifecycle import TrackedConditions
from rules.model.identifiers import Epoch, Millis, Offset
from rules.model.membership import VoterRemoval
from rules.model.quorum import START
from streaming.replay.cluster_settings import ClusterSettings
from streaming.replay.contract_violations import ContractViolations
from streaming.replay.copied import copied
from streaming.replay.image import Image, SnapshotOrigin
from streaming.replay.leadership_state import Invariants, Leadership
from streaming.replay.log import Log, Transaction
from streaming.replay.log_clock import LogClock
from streaming.replay.partitions import Partitions
from streaming.replay.poll_history import PollHistory
from streaming.replay.probe_state import ProbeState
from streaming.replay.stored_topics import PageStore, deflated, table_references

MAGIC = b"kww"
VERSION = 2
_HEADER_BYTES = len(MAGIC) + 1


class DamagedStateError(UsageError):
    """A stored state that is not as kraftwatch wrote it: it cannot be read."""


@dataclass(kw_only=True, eq=False)
class ObservedState:
    """What the observations of one cluster have shown, except its logs: in memory as it is stored.

    Invariant: `sequence` is the newest observation applied; it and everything before it are never applied again.
    """

    cluster_id: str | None = None
    sequence: int = -1
    now_ms: Millis = START
    undecodable: int = 0
    """The number of records, batches and rows that could not be decoded."""
    log_clock: LogClock = field(default_factory=LogClock)
    behind_since_ms: Millis | None = None
    """Since when the log has been read less far than its high watermark."""
    log_seen_at_ms: Millis | None = None
    removals: tuple[VoterRemoval, ...] = ()
    leadership: Leadership = field(default_factory=Leadership)
    poll_history: PollHistory = field(default_factory=PollHistory)
    probe_state: ProbeState = field(default_factory=ProbeState)
    invariants: Invariants = field(default_factory=Invariants)
    contract_violations: ContractViolations = field(default_factory=ContractViolations)


class MachineState(ObservedState):
    """The configuration of one cluster, and what its observations have shown, as plain attributes."""

    def __init__(self, settings: ClusterSettings, pages: PageStore | None = None) -> None:
        """Creates the state before the first observation.

        Args:
            pages: keeps the large parts of the stored state; None: they are in it.
        """
        super().__init__(cluster_id=settings.cluster_id or None)
        self.settings = settings
        self.cluster = settings.name
        self.pages = pages
        self.log = Log()
        self.loading: Log | None = None
        """The snapshot that is being read."""
        self.visible_image = Image()
        """The newest image of the log that rules see."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredLog:
    """A Log without its topics, which are a section of their own."""

    image: Image
    position: Offset
    epoch: Epoch
    origin: SnapshotOrigin | None
    transaction: Transaction | None


@dataclass(kw_only=True, eq=False)
class StoredState(ObservedState):
    """The hot section. `visible_image` is None if it is the log's own image."""

    log: StoredLog
    loading: StoredLog | None
    visible_image: Image | None


_JSON: TypeAdapter[StoredState] = TypeAdapter(StoredState)
_TRACKED: TypeAdapter[TrackedConditions] = TypeAdapter(TrackedConditions)


def monitor_to_bytes(conditions: TrackedConditions, machine: bytes) -> bytes:
    """Returns the stored form of a monitor; `machine`: that of its machine."""
    tracked = deflated(json.dumps(_TRACKED.dump_python(conditions), separators=(",", ":")).encode())
    return MAGIC + bytes([VERSION]) + _joined(tracked) + machine


def monitor_parts(cluster: str, blob: bytes) -> tuple[TrackedConditions, bytes]:
    """Returns the tracked conditions and the bytes of the machine.

    Raises:
        UsageError: the blob is of another version of kraftwatch.
        DamagedStateError: it is damaged.
    """
    tracked, machine = _tracked_and_machine(cluster, blob)
    try:
        return _TRACKED.validate_python(json.loads(zlib.decompress(tracked))), machine
    except (zlib.error, ValueError) as error:
        raise _damaged(cluster, f"{type(error).__name__} while reading its alerts") from error


def readable_conditions(cluster: str, damaged: bytes, initial: bytes | None = None) -> TrackedConditions:
    """Returns the tracked conditions of a damaged state, so that its alerts keep firing.

    If they cannot be read either, those of `initial`: the alerts that are firing in the ledger.
    """
    try:
        return monitor_parts(cluster, damaged)[0]
    except Exception as error:
        if isinstance(error, MemoryError):
            raise
        return TrackedConditions() if initial is None else monitor_parts(cluster, initial)[0]


def stored_references(cluster: str, blob: bytes) -> frozenset[bytes]:
    """Returns the references of the pages that a stored monitor needs.

    Raises:
        UsageError: the blob is of another version of kraftwatch.
        DamagedStateError, ValueError: it is damaged.
    """
    _, machine = _tracked_and_machine(cluster, blob)
    return frozenset(page_references(cluster, machine))


def to_bytes(state: MachineState) -> bytes:
    """Returns the sections of a machine."""
    loading = state.loading
    stored = copied(
        StoredState,
        state,
        log=copied(StoredLog, state.log),
        loading=None if loading is None else copied(StoredLog, loading),
        visible_image=None if state.visible_image is state.log.image else state.visible_image,
    )
    loaded = b"" if loading is None else loading.partitions.pack(state.pages)
    return _joined(deflated(_JSON.dump_json(stored)), state.log.partitions.pack(state.pages), loaded)


def restore(state: MachineState, blob: bytes) -> None:
    """Sets a new state to what `to_bytes` wrote; its configuration is kept.

    Raises:
        UsageError: the blob is of another cluster.
        DamagedStateError: it is damaged.
    """
    hot, topics, loading_topics = _sections(state.cluster, blob)
    stored = _read(state.cluster, hot)
    _check_pages(state, (topics, loading_topics))
    configured = state.cluster_id
    if configured is not None and stored.cluster_id not in (None, configured):
        raise UsageError(
            f"the checkpoint's state of cluster {state.cluster} is of cluster id {stored.cluster_id}, "
            f"not {configured}: use another checkpoint folder"
        )
    for each in fields(ObservedState):
        setattr(state, each.name, getattr(stored, each.name))
    state.cluster_id = configured or stored.cluster_id
    state.log = _restored_log(stored.log, topics, state.pages)
    state.loading = None if stored.loading is None else _restored_log(stored.loading, loading_topics, state.pages)
    state.visible_image = state.log.image if stored.visible_image is None else stored.visible_image


def _restored_log(stored: StoredLog, topics: bytes, pages: PageStore | None) -> Log:
    partitions = Partitions(recovering=stored.image.recovering, packed=topics, pages=pages)
    return copied(Log, stored, partitions=partitions)


def _joined(*sections: bytes) -> bytes:
    return b"".join(struct.pack(">I", len(section)) + section for section in sections)


def _tracked_and_machine(cluster: str, blob: bytes) -> tuple[bytes, bytes]:
    if blob[: len(MAGIC)] != MAGIC or len(blob) < _HEADER_BYTES:
        raise _damaged(cluster, "its header is missing")
    if (version := blob[len(MAGIC)]) != VERSION:
        raise UsageError(
            f"the checkpoint's state of cluster {cluster} has version {version}, this kraftwatch reads "
            f"{VERSION}: run the kraftwatch that wrote it, or start with a new checkpoint folder"
        )
    tracked, end = _section(cluster, blob, _HEADER_BYTES)
    return tracked, blob[end:]


def _section(cluster: str, blob: bytes, start: int) -> tuple[bytes, int]:
    """Returns the section that begins there, and where it ends."""
    if len(blob) < start + 4:
        raise _damaged(cluster, f"it ends after {len(blob)} bytes")
    end = start + 4 + int.from_bytes(blob[start : start + 4], "big")
    return blob[start + 4 : end], end


def _sections(cluster: str, blob: bytes) -> list[bytes]:
    sections, start = [], 0
    for _ in range(3):
        section, start = _section(cluster, blob, start)
        sections.append(section)
    if start != len(blob):
        raise _damaged(cluster, f"it has {len(blob)} bytes instead of {start}")
    return sections


def page_references(cluster: str, blob: bytes) -> Iterator[bytes]:
    """Yields the references of the pages that a stored machine needs.

    Raises:
        DamagedStateError, ValueError: the blob is damaged.
    """
    return chain.from_iterable(map(table_references, _sections(cluster, blob)[1:]))


def _check_pages(state: MachineState, packed: Iterable[bytes]) -> None:
    """Reads every page, because the partitions are restored only when an event needs them."""
    if state.pages is None:
        return
    try:
        for reference in chain.from_iterable(map(table_references, packed)):
            state.pages.get(reference)
    except ValueError as error:
        raise _damaged(state.cluster, str(error)) from error


def _read(cluster: str, hot: bytes) -> StoredState:
    try:
        return _JSON.validate_json(zlib.decompress(hot))
    except (zlib.error, ValueError) as error:
        raise _damaged(cluster, f"{type(error).__name__} while reading it") from error


def _damaged(cluster: str, what: str) -> DamagedStateError:
    return DamagedStateError(
        f"the checkpoint's state of cluster {cluster} is damaged ({what}): start with a new checkpoint folder"
    )
