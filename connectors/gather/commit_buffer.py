"""Buffers fetched records until they are committed, and detects lost committed metadata. Pure.

A leader's Fetch response contains records above its high watermark. The log follower fetches from the last offset
*received*; this buffer keeps the uncommitted batches and returns them, as whole batches, once the high watermark covers
them. A committed batch must never change: if a leader's log differs below that point, committed metadata was lost,
which Kafka itself does not report.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from connectors.errors import DamagedLogError
from connectors.gather.fetched_batches import Damage, FetchedBatch, announced_size, fetched_batches
from connectors.kafka.messages import FetchResult
from connectors.kafka.response_limits import MAX_BATCH_BYTES, invalid
from connectors.metadata.batches import HEADER, BadBatch, RecordBatch, TornTail, scan
from rules.model.history import rebuilt_between
from rules.model.identifiers import Epoch, Offset, SnapshotId
from rules.model.monitoring import DamagedBatch

BUFFER_BYTES_MAX = 64 * 1024 * 1024
"""A buffer larger than this is dropped and fetched again later."""
LOSS_CONFIRM_MS = 5_000
"""How long a leader's log must differ from the committed log before the loss is reported. It is longer than a leader
without a majority keeps answering (1.5 times controller.quorum.fetch.timeout.ms, 3 s by default)."""
MOST_DAMAGED = 16
"""Damaged batches of one response that are reported, the first ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchPosition:
    """A position in the log: the offset to fetch next, and the epoch before it."""

    offset: int
    epoch: int
    """Leader epoch of the batch before `offset`; 0 at the start of the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedRecords:
    """Committed records as whole batches. Empty if the leader answered without new ones."""

    base_offset: int
    last_offset: int
    leader_epoch: int
    high_watermark: int | None
    batches: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptResult:
    """What the log follower must do after one response."""

    committed: CommittedRecords | None = None
    snapshot: SnapshotId | None = None
    """The leader no longer has the offset: fetch this snapshot, then call `restart`."""
    lost: str | None = None
    """Description of a loss of committed metadata: report it and call `restart`."""
    pause: bool = False
    """Wait before the next Fetch."""
    damaged: Sequence[Damage] = ()
    """The first damaged batches of the response."""


class CommitBuffer:
    """Holds the batches that are fetched and not committed.

    Invariant: committed_end <= next_offset, and the buffer covers committed_end..next_offset-1 without a gap.
    """

    def __init__(self, start: FetchPosition) -> None:
        self._uncommitted: deque[FetchedBatch] = deque()
        self._uncommitted_bytes = 0
        self._mismatch: tuple[int, int | None] | None = None
        """Since when the leader's log differs, and the first high watermark that it reported since then."""
        self.high_watermark: int | None = None
        self.newest: FetchedBatch | None = None
        """The newest committed batch, of which only the header is kept: it has the checksum of the rest."""
        self.restart(start)

    def restart(self, start: FetchPosition) -> None:
        """Drops the uncommitted batches and continues at this position."""
        self._drop_uncommitted()
        self._mismatch = None
        self.high_watermark = self.newest = None
        self.committed_end = start.offset
        self.committed_epoch = start.epoch

    @property
    def next_offset(self) -> int:
        """The offset to fetch next."""
        return self._uncommitted[-1].last_offset + 1 if self._uncommitted else self.committed_end

    @property
    def last_epoch(self) -> int:
        """Epoch of the batch before `next_offset`: Fetch's LastFetchedEpoch."""
        return self._uncommitted[-1].leader_epoch if self._uncommitted else self.committed_epoch

    def fetch_position(self, leader_epoch: int) -> FetchPosition:
        """Returns the position to fetch from a leader of this epoch: `next_offset` and `last_epoch`.

        A leader with an older epoch rejects a newer LastFetchedEpoch. The position is then the start of the log,
        because the response still contains the leader's high watermark.
        """
        if leader_epoch < self.last_epoch:
            return FetchPosition(offset=0, epoch=0)
        return FetchPosition(offset=self.next_offset, epoch=self.last_epoch)

    def accept(self, response: FetchResult, *, now_ms: int) -> AcceptResult:
        """Processes a leader's Fetch response whose `error` is 0.

        Raises:
            DamagedLogError: the next batch is damaged, and where it ends is not known; the buffer is unchanged.
            ObservationError: INVALID_RESPONSE, if Kafka sends no such response; the buffer is unchanged.
        """
        if response.diverging is not None and self.next_offset == 0:
            # KafkaMetadataLog.validateOffsetAndEpoch: offset 0 is valid, or the answer names a snapshot.
            raise invalid("Fetch: diverging_epoch in the answer to a fetch of offset 0, which no log differs from")
        if response.leader_epoch is not None and response.leader_epoch < self.last_epoch:
            log_end = SnapshotId(end_offset=response.high_watermark or 0, epoch=response.leader_epoch)
            return self._check_mismatch(response, log_end, "does not know that epoch", now_ms=now_ms)
        if response.diverging is not None:
            return self._check_mismatch(response, response.diverging, "has a different log", now_ms=now_ms)
        if response.snapshot is not None:
            if 0 < self.committed_end >= response.snapshot.end_offset and not self._continued_by(response.snapshot):
                return self._check_mismatch(
                    response, response.snapshot, "has a snapshot of another epoch", now_ms=now_ms
                )
            return AcceptResult(snapshot=response.snapshot)
        self._mismatch = None
        damaged = self._append(response)
        self.high_watermark = response.high_watermark
        committed = self._take_committed(response)
        if self._uncommitted_bytes > BUFFER_BYTES_MAX:
            self._drop_uncommitted()
            return AcceptResult(committed=committed, pause=True, damaged=damaged)
        return AcceptResult(committed=committed, damaged=damaged)

    def _continued_by(self, snapshot: SnapshotId) -> bool:
        """Returns whether a quorum of the voters that were left begins where the received log ends."""
        rebuilt = rebuilt_between(Epoch(self.committed_epoch), Epoch(snapshot.epoch))
        return rebuilt and snapshot.end_offset == self.committed_end

    def loss_shown_by(self, response: FetchResult) -> str | None:
        """Returns the loss, if a leader's answer to a Fetch at the newest committed batch has another one there.

        A quorum that is restored from older copies uses its epochs again. As soon as its log is as long as the former
        one, Kafka takes both for one log.
        """
        newest, header = self.newest, response.records[: HEADER.size]
        if newest is None or response.error or response.diverging is not None or len(header) < HEADER.size:
            return None
        if header == newest.content or HEADER.unpack(header)[0] > newest.base_offset:
            return None
        return (
            f"offset {newest.base_offset} of epoch {newest.leader_epoch} was committed; the leader of epoch "
            f"{response.leader_epoch} has another batch there: it uses an epoch again"
        )

    def _check_mismatch(self, response: FetchResult, log_end: SnapshotId, what: str, *, now_ms: int) -> AcceptResult:
        """Handles a leader log that differs from the received one. Only committed records matter: an election may
        truncate uncommitted ones.
        """
        if self._uncommitted:
            self._drop_uncommitted()
            return AcceptResult()
        since_ms, before = self._mismatch or (now_ms, None)
        self._mismatch = since_ms, response.high_watermark if before is None else before
        # A leader whose high watermark advances has a majority; a leader that was cut off and has not noticed has none.
        commits = before is not None and response.high_watermark is not None and response.high_watermark > before
        if not commits and now_ms - since_ms < LOSS_CONFIRM_MS:
            return AcceptResult(pause=True)
        return AcceptResult(
            lost=(
                f"offset {self.committed_end - 1} of epoch {self.committed_epoch} was committed; the leader of epoch "
                f"{response.leader_epoch} {what}: epoch {log_end.epoch} ends at offset {log_end.end_offset}"
            )
        )

    def _append(self, response: FetchResult) -> Sequence[Damage]:
        """Adds the batches; returns the first damaged ones."""
        if not response.records and (response.high_watermark or 0) > self.next_offset:
            # The leader looks for the batch by the headers before it, and one of them hides it.
            why = f"nothing is served at offset {self.next_offset}, and the high watermark is {response.high_watermark}"
            raise DamagedLogError(why, DamagedBatch(offset=Offset(self.next_offset)))
        fetched = fetched_batches(response, offset=self.next_offset, epoch=self.last_epoch)
        self._uncommitted.extend(fetched.batches)
        self._uncommitted_bytes += sum(len(batch.content) for batch in fetched.batches)
        return tuple(fetched.damaged[:MOST_DAMAGED])

    def _take_committed(self, response: FetchResult) -> CommittedRecords:
        # A batch that the high watermark covers only in part stays in the buffer.
        high_watermark = -1 if response.high_watermark is None else response.high_watermark
        batches: list[FetchedBatch] = []
        while self._uncommitted and self._uncommitted[0].last_offset < high_watermark:
            batches.append(self._uncommitted.popleft())
        base = batches[0].base_offset if batches else self.committed_end
        for batch in batches:
            self._uncommitted_bytes -= len(batch.content)
            self.committed_end, self.committed_epoch = batch.last_offset + 1, batch.leader_epoch
        if batches:
            self.newest = replace(batches[-1], content=batches[-1].content[: HEADER.size])
        epoch = self.committed_epoch if batches or response.leader_epoch is None else response.leader_epoch
        return CommittedRecords(
            base_offset=base,
            last_offset=self.committed_end - 1,
            leader_epoch=epoch,
            high_watermark=response.high_watermark,
            batches=b"".join(one.content for one in batches),
        )

    def _drop_uncommitted(self) -> None:
        self._uncommitted.clear()
        self._uncommitted_bytes = 0


MAX_SNAPSHOT_BYTES: Final = 4 * 1024**3
"""A larger snapshot is refused, before it fills the disk of the monitor: a million partitions take about 100 MB."""


class SnapshotBuffer:
    """Buffers the pieces of a `.checkpoint` (KIP-630). A piece may end inside a batch; `receive` returns whole batches.

    A node names the snapshot's size with each piece. Everything is bounded by it, and it by the configuration:
    otherwise a snapshot without end would fill the journal.
    """

    def __init__(self, snapshot: SnapshotId, *, max_bytes: int = MAX_SNAPSHOT_BYTES) -> None:
        """`max_bytes` is the largest accepted size of the whole snapshot."""
        self.snapshot = snapshot
        self.position = 0
        """Bytes received: the position of the next piece."""
        self.written = 0
        """The number of rows with its batches, which the log follower counts."""
        self.damaged: Damage | None = None
        """Why its first damaged batch is one, and which it is."""
        self._max_bytes = max_bytes
        self._size: int | None = None
        self._remainder = b""

    @property
    def done(self) -> bool:
        """True once the whole file was received."""
        return self._size is not None and self.position >= self._size

    def receive(self, *, position: int, size: int, records: bytes) -> bytes:
        """Adds a piece, and returns the batches that are complete now; they may be none.

        Raises:
            DamagedLogError: a batch is damaged so that its end is not known; the buffer is unchanged.
            ObservationError: INVALID_RESPONSE, the piece is not the requested one or exceeds the snapshot's size.
        """
        self._check(position, size, len(records))
        self._size = size
        content, begins = self._remainder + records, position - len(self._remainder)
        end = 0
        for tail in scan(content):
            match tail:
                case TornTail():
                    if (announced := announced_size(tail)) > MAX_BATCH_BYTES:
                        reason = f"a batch of {announced} bytes, Kafka writes at most {MAX_BATCH_BYTES}"
                        raise DamagedLogError(*self._damage(reason, begins + tail.position))
                    break
                case BadBatch():
                    # Returned unchanged: the decoder quarantines it and reports it.
                    end = tail.position + tail.size
                    if tail.header is None and self.damaged is None:
                        self.damaged = self._damage(tail.reason, begins + tail.position)
                case RecordBatch():
                    end = tail.end
        if position + len(records) == size and end < len(content):
            raise DamagedLogError(*self._damage(f"the file of {size} bytes ends inside a batch", begins + end))
        self.position = position + len(records)
        self._remainder = content[end:]
        return content[:end]

    def _damage(self, reason: str, position: int) -> Damage:
        damage = DamagedBatch(snapshot=self.snapshot, position=position)
        return f"snapshot {self.snapshot.end_offset}-{self.snapshot.epoch}: {reason}", damage

    def _check(self, position: int, size: int, received: int) -> None:
        if size > self._max_bytes:
            why = f"size is {size}, at most {self._max_bytes} bytes are accepted"
        elif position != self.position:
            why = f"a piece at byte {position}, requested was byte {self.position}"
        elif self._size not in (None, size):
            why = f"the size changed from {self._size} to {size}"
        elif position + received > size:
            why = f"{received} bytes at {position} of {size}"
        elif not received and position < size:
            why = f"no bytes at {position} of {size}"
        else:
            return
        raise invalid(f"FetchSnapshot: {why}")
