"""The tail: what was received of the log and is not committed yet. Pure: fed with answers, it says what to do.

A leader's answer holds records above its high watermark. We read on from the last offset *received*, hold the
uncommitted tail back and release it, in whole batches, once the high watermark covers it. What was released
must never change: if the leader denies it, committed metadata was lost, which nobody else reports.
"""

from collections import deque
from dataclasses import dataclass

from connectors.errors import UndecodableError
from connectors.kafka.messages import FetchAnswer, SnapshotId
from connectors.metadata.batches import HEADER, BadBatch, Batch, TornTail, scan

HELD_BYTES_MAX = 64 * 1024 * 1024
"""A tail longer than this is dropped and read again later."""
CONFIRM_MS = 5_000
"""How long a leader must deny what was committed before we believe it: longer than a leader that was cut off
from its majority goes on answering (1.5 times controller.quorum.fetch.timeout.ms, 3 s by default)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resume:
    """Where to go on: behind the last released batch."""

    offset: int
    epoch: int
    """Leader epoch of the batch before `offset`; 0 at the beginning of the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Committed records, whole batches. Empty: a leader answered and had nothing new."""

    base_offset: int
    last_offset: int
    leader_epoch: int
    high_watermark: int | None
    batches: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """What one answer came to."""

    release: Release | None = None
    snapshot: SnapshotId | None = None
    """The leader no longer has our offset: fetch this, then call `restart`."""
    lost: str | None = None
    """Committed metadata is gone, and how that shows: call `restart`."""
    pause: bool = False
    """Ask again, but not at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Doubt:
    since_ms: int
    high_watermark: int | None


@dataclass(frozen=True, slots=True)
class _Held:
    base_offset: int
    last_offset: int
    leader_epoch: int
    content: bytes


class Tail:
    """Invariant: released <= next_offset; what is held covers released..next_offset-1 without a gap."""

    def __init__(self, start: Resume) -> None:
        self._held: deque[_Held] = deque()
        self._held_bytes = 0
        self._doubt: _Doubt | None = None
        self.high_watermark: int | None = None
        self.restart(start)

    def restart(self, start: Resume) -> None:
        """Forget the tail and go on here."""
        self._forget()
        self._doubt = None
        self.high_watermark = None
        self.released = start.offset
        self.released_epoch = start.epoch

    @property
    def next_offset(self) -> int:
        """Fetch from here."""
        return self._held[-1].last_offset + 1 if self._held else self.released

    @property
    def last_epoch(self) -> int:
        """Epoch of the batch before `next_offset`: Fetch's LastFetchedEpoch."""
        return self._held[-1].leader_epoch if self._held else self.released_epoch

    def asks(self, leader_epoch: int) -> Resume:
        """What to fetch from a leader of this epoch: `next_offset` and `last_epoch`.

        A leader of an epoch before ours refuses to hear of ours: it is asked for the beginning, for the sake of
        its high watermark.
        """
        if leader_epoch < self.last_epoch:
            return Resume(offset=0, epoch=0)
        return Resume(offset=self.next_offset, epoch=self.last_epoch)

    @property
    def held_bytes(self) -> int:
        """How much waits for the high watermark."""
        return self._held_bytes

    def accept(self, answer: FetchAnswer, *, now_ms: int) -> Accepted:
        """Take in what a leader answered (`answer.error` is 0).

        Raises:
            UndecodableError: the bytes are not the batches that follow; nothing was taken.
        """
        if answer.leader_epoch is not None and answer.leader_epoch < self.last_epoch:
            found = SnapshotId(end_offset=answer.high_watermark or 0, epoch=answer.leader_epoch)
            return self._deny(answer, found, "never heard of that epoch", now_ms=now_ms)
        if answer.diverging is not None:
            return self._deny(answer, answer.diverging, "has another log", now_ms=now_ms)
        if answer.snapshot is not None:
            if answer.snapshot.end_offset <= self.released and self.released > 0:
                return self._deny(answer, answer.snapshot, "has a snapshot that another epoch wrote", now_ms=now_ms)
            return Accepted(snapshot=answer.snapshot)
        self._doubt = None
        self._take(answer.records)
        self.high_watermark = answer.high_watermark
        release = self._release(answer)
        if self._held_bytes > HELD_BYTES_MAX:
            self._forget()
            return Accepted(release=release, pause=True)
        return Accepted(release=release)

    def _deny(self, answer: FetchAnswer, found: SnapshotId, what: str, *, now_ms: int) -> Accepted:
        """The leader's log is not ours. Only what was released is worth a word: an election may cut the rest."""
        if self._held:
            self._forget()
            return Accepted()
        if self._doubt is None:
            self._doubt = _Doubt(since_ms=now_ms, high_watermark=answer.high_watermark)
        before = self._doubt.high_watermark
        if before is None:
            self._doubt = _Doubt(since_ms=self._doubt.since_ms, high_watermark=answer.high_watermark)
        # A leader that commits has a majority behind it; one that was cut off and does not know it yet has none.
        commits = before is not None and answer.high_watermark is not None and answer.high_watermark > before
        if not commits and now_ms - self._doubt.since_ms < CONFIRM_MS:
            return Accepted(pause=True)
        return Accepted(
            lost=(
                f"offset {self.released - 1} of epoch {self.released_epoch} was committed; the leader of epoch "
                f"{answer.leader_epoch} {what}: epoch {found.epoch} ends at offset {found.end_offset}"
            )
        )

    def _take(self, records: bytes) -> None:
        taken: list[_Held] = []
        expected = self.next_offset
        for one in scan(records):
            if isinstance(one, TornTail):
                break
            header = _believed(records, one, expected) if isinstance(one, BadBatch) else one
            if header.last_offset < expected:
                continue
            if header.base_offset > expected:
                raise UndecodableError(f"offset {expected} is missing: a batch begins at {header.base_offset}")
            content = records[header.position : header.end]
            taken.append(_Held(header.base_offset, header.last_offset, header.leader_epoch, content))
            expected = header.last_offset + 1
        self._held.extend(taken)
        self._held_bytes += sum(len(one.content) for one in taken)

    def _release(self, answer: FetchAnswer) -> Release:
        # A batch that straddles the high watermark waits until all of it is covered.
        committed = -1 if answer.high_watermark is None else answer.high_watermark
        batches: list[_Held] = []
        while self._held and self._held[0].last_offset < committed:
            batches.append(self._held.popleft())
        base = batches[0].base_offset if batches else self.released
        for one in batches:
            self._held_bytes -= len(one.content)
            self.released, self.released_epoch = one.last_offset + 1, one.leader_epoch
        epoch = self.released_epoch if batches or answer.leader_epoch is None else answer.leader_epoch
        return Release(
            base_offset=base,
            last_offset=self.released - 1,
            leader_epoch=epoch,
            high_watermark=answer.high_watermark,
            batches=b"".join(one.content for one in batches),
        )

    def _forget(self) -> None:
        self._held.clear()
        self._held_bytes = 0


def _believed(records: bytes, bad: BadBatch, expected: int) -> Batch:
    """The header of a damaged batch, if we can go on behind it: it is recorded as it is, and decode quarantines it.

    Raises:
        UndecodableError: its header does not say where the next batch begins.
    """
    if bad.header is not None:
        return bad.header
    if bad.base_offset == expected and bad.size >= HEADER.size:
        header = Batch(bad.position, *HEADER.unpack_from(records, bad.position))
        if header.size == bad.size and 0 <= header.last_offset_delta <= header.size:
            return header
    raise UndecodableError(f"a batch at or after offset {expected}: {bad.reason}")


class SnapshotTail:
    """A `.checkpoint` on its way: pieces may end anywhere, what is given on ends with a batch."""

    def __init__(self, snapshot: SnapshotId) -> None:
        self.snapshot = snapshot
        self.position = 0
        """Bytes received: ask for the next piece from here."""
        self.pieces = 0
        """Pieces given on."""
        self._size: int | None = None
        self._rest = b""

    @property
    def done(self) -> bool:
        """True when the whole file was received."""
        return self._size is not None and self.position >= self._size

    def receive(self, *, position: int, size: int, records: bytes) -> bytes:
        """Take in a piece.

        Returns:
            The whole batches that are there now, perhaps none.

        Raises:
            UndecodableError: it is not the piece that was asked for, or it holds no batches.
        """
        if position != self.position or (self._size is not None and size != self._size):
            got = f"asked for byte {self.position}, got {position} of {size}"
            raise UndecodableError(f"snapshot {self.snapshot}: {got}")
        self._size = size
        self.position += len(records)
        content = self._rest + records
        end = 0
        for one in scan(content):
            match one:
                case TornTail():
                    break
                case BadBatch():
                    # Passed on as it is: decode quarantines it and says so.
                    end = one.position + one.size
                case Batch():
                    end = one.end
        self._rest = content[end:]
        if self.done and self._rest:
            raise UndecodableError(f"snapshot {self.snapshot} ends inside a batch")
        if not records and not self.done:
            raise UndecodableError(f"snapshot {self.snapshot}: no bytes at {position} of {size}")
        if end:
            self.pieces += 1
        return content[:end]
