"""MachineState: what is known about one cluster; and its codec, which makes a versioned blob of it.

Layout: four bytes, `kwm` and the version, then three sections, each a length of four bytes (big-endian) and that many
bytes: the hot section (deflated JSON of StoredState, rewritten whenever an observation was applied), the partitions of
the log, and those of an unfinished snapshot, as `stored_topics` stores them. Their large parts are pages outside the
blob, if `MachineState.pages` keeps them. A blob of another version is refused: reading it would lose state.
"""

import struct
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

from pydantic import TypeAdapter

from connectors.errors import UsageError
from rules.model.identifiers import Epoch, Millis, Offset
from rules.model.membership import VoterRemoval
from streaming.replay.cluster_settings import ClusterSettings
from streaming.replay.contract_violations import ContractViolations
from streaming.replay.image import Image, SnapshotOrigin
from streaming.replay.leadership_state import Invariants, Leadership
from streaming.replay.log import Log, Transaction
from streaming.replay.log_clock import LogClock
from streaming.replay.partitions import Partitions
from streaming.replay.poll_history import PollHistory
from streaming.replay.probe_state import ProbeState
from streaming.replay.stored_topics import PageStore, deflated, table_references

MAGIC = b"kwm"
VERSION = 1


class DamagedStateError(UsageError):
    """A stored state that is not as kraftwatch wrote it: it cannot be read."""


class MachineState:
    """The configuration of one cluster, and what its observations have shown, as plain attributes.

    Invariant: `sequence` is the newest observation applied; it and everything before it are never applied again.
    """

    def __init__(self, settings: ClusterSettings, pages: PageStore | None = None) -> None:
        """Creates the state before the first observation.

        Args:
            pages: keeps the large parts of the stored state; None: they are in it.
        """
        self.settings = settings
        self.cluster = settings.name
        self.cluster_id = settings.cluster_id or None
        self.bootstrap = settings.bootstrap
        self.vantage = settings.vantage
        self.access = settings.access
        self.pages = pages
        self.sequence = -1
        self.now_ms = Millis(0)
        self.undecodable = 0
        """The number of records, batches and rows that could not be decoded."""
        self.log = Log()
        self.log_clock = LogClock()
        self.loading: Log | None = None
        """The snapshot that is being read."""
        self.visible_image = Image()
        """The newest image of the log that rules see."""
        self.behind_since_ms: Millis | None = None
        """Since when the log has been read less far than its high watermark."""
        self.log_seen_at_ms: Millis | None = None
        self.removals: tuple[VoterRemoval, ...] = ()
        self.leadership = Leadership()
        self.poll_history = PollHistory()
        self.probe_state = ProbeState()
        self.invariants = Invariants()
        self.contract_violations = ContractViolations()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredLog:
    """A Log without its topics, which are a section of their own."""

    image: Image
    position: Offset
    epoch: Epoch
    origin: SnapshotOrigin | None
    transaction: Transaction | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredState:
    """The hot section. `visible_image` is None if it is the log's own image."""

    cluster_id: str | None
    sequence: int
    now_ms: Millis
    undecodable: int
    log: StoredLog
    log_clock: LogClock
    loading: StoredLog | None
    visible_image: Image | None
    behind_since_ms: Millis | None
    log_seen_at_ms: Millis | None
    removals: tuple[VoterRemoval, ...]
    leadership: Leadership
    poll_history: PollHistory
    probe_state: ProbeState
    invariants: Invariants
    contract_violations: ContractViolations


_JSON: TypeAdapter[StoredState] = TypeAdapter(StoredState)


def to_bytes(state: MachineState) -> bytes:
    """Returns the state as a blob."""
    loading = state.loading
    stored = StoredState(
        cluster_id=state.cluster_id,
        sequence=state.sequence,
        now_ms=state.now_ms,
        undecodable=state.undecodable,
        log=_stored_log(state.log),
        log_clock=state.log_clock,
        loading=None if loading is None else _stored_log(loading),
        visible_image=None if state.visible_image is state.log.image else state.visible_image,
        behind_since_ms=state.behind_since_ms,
        log_seen_at_ms=state.log_seen_at_ms,
        removals=state.removals,
        leadership=state.leadership,
        poll_history=state.poll_history,
        probe_state=state.probe_state,
        invariants=state.invariants,
        contract_violations=state.contract_violations,
    )
    hot = deflated(_JSON.dump_json(stored))
    loaded = b"" if loading is None else loading.partitions.pack(state.pages)
    sections = (hot, state.log.partitions.pack(state.pages), loaded)
    return MAGIC + bytes([VERSION]) + b"".join(struct.pack(">I", len(section)) + section for section in sections)


def restore(state: MachineState, blob: bytes) -> None:
    """Sets a new state to what `to_bytes` wrote; its configuration is kept.

    Raises:
        UsageError: the blob is of another version of kraftwatch or of another cluster.
        DamagedStateError: it is damaged.
    """
    hot, topics, loading_topics = _sections(state.cluster, blob)
    stored = _read(state.cluster, hot)
    _check_pages(state, (topics, loading_topics))
    if state.cluster_id is not None and stored.cluster_id not in (None, state.cluster_id):
        raise UsageError(
            f"the checkpoint's state of cluster {state.cluster} is of cluster id {stored.cluster_id}, "
            f"not {state.cluster_id}: use another checkpoint folder"
        )
    state.cluster_id = state.cluster_id or stored.cluster_id
    state.sequence = stored.sequence
    state.now_ms = stored.now_ms
    state.undecodable = stored.undecodable
    state.log = _restored_log(stored.log, topics, state.pages)
    state.log_clock = stored.log_clock
    state.loading = None if stored.loading is None else _restored_log(stored.loading, loading_topics, state.pages)
    state.visible_image = state.log.image if stored.visible_image is None else stored.visible_image
    state.behind_since_ms = stored.behind_since_ms
    state.log_seen_at_ms = stored.log_seen_at_ms
    state.removals = stored.removals
    state.leadership = stored.leadership
    state.poll_history = stored.poll_history
    state.probe_state = stored.probe_state
    state.invariants = stored.invariants
    state.contract_violations = stored.contract_violations


def _stored_log(log: Log) -> StoredLog:
    return StoredLog(
        image=log.image, position=log.position, epoch=log.epoch, origin=log.origin, transaction=log.transaction
    )


def _restored_log(stored: StoredLog, topics: bytes, pages: PageStore | None) -> Log:
    return Log(
        image=stored.image,
        partitions=Partitions(recovering=stored.image.recovering, packed=topics, pages=pages),
        position=stored.position,
        epoch=stored.epoch,
        origin=stored.origin,
        transaction=stored.transaction,
    )


def _sections(cluster: str, blob: bytes) -> tuple[bytes, bytes, bytes]:
    start = len(MAGIC) + 1
    if blob[: len(MAGIC)] != MAGIC or len(blob) < start:
        raise _damaged(cluster, "its header is missing")
    if blob[len(MAGIC)] != VERSION:
        raise UsageError(
            f"the checkpoint's state of cluster {cluster} has version {blob[len(MAGIC)]}, this kraftwatch reads "
            f"{VERSION}: run the kraftwatch that wrote it, or start with a new checkpoint folder"
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


def page_references(cluster: str, blob: bytes) -> Iterator[bytes]:
    """Yields the references of the pages that a stored state needs.

    Raises:
        UsageError: as `restore`.
        ValueError: the blob is damaged.
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
