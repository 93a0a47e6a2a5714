"""Divides a leader's Fetch response into batches, and finds damaged ones. Pure.

A leader sends its log as it is on its disk: Kafka checks no batch when it reads it (`LogSegment.read`). Damaged bytes
end where the next sound batch begins; they become one batch with the offsets that are missing, and reading goes on.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from connectors.errors import DamagedLogError
from connectors.kafka.messages import FetchResult
from connectors.kafka.response_limits import MAX_BATCH_BYTES, invalid
from connectors.metadata.batches import (
    FRAME,
    HEADER,
    MAGIC,
    BadBatch,
    RecordBatch,
    ScanItem,
    TornTail,
    has_valid_crc,
    scan,
)
from connectors.metadata.damaged_bytes import SoundBatchSearch, in_place_of
from rules.model.identifiers import Epoch, Offset
from rules.model.monitoring import DamagedBatch

_EPOCHS_END = 2**31
Damage: TypeAlias = tuple[str, DamagedBatch]
"""Why a batch is damaged, and which it is."""


@dataclass(frozen=True, slots=True)
class FetchedBatch:
    """One batch as the leader sent it, or damaged bytes with the offsets that are missing."""

    base_offset: int
    last_offset: int
    leader_epoch: int
    content: bytes


@dataclass(frozen=True, slots=True)
class FetchedBatches:
    """The batches of a response: consecutive offsets."""

    batches: Sequence[FetchedBatch]
    damaged: Sequence[Damage]


def fetched_batches(response: FetchResult, *, offset: int, epoch: int) -> FetchedBatches:
    """Returns the batches of a response to a Fetch at `offset`, before which the log has this epoch.

    They end before a batch that is cut off, and before damaged bytes whose end is not in the response: the next Fetch
    begins there.

    Raises:
        DamagedLogError: the response begins with damaged bytes and does not show where they end.
        ObservationError: INVALID_RESPONSE, if Kafka sends no such response.
    """
    reading = _BatchReading(response, offset, epoch)
    while reading.read():
        pass
    return FetchedBatches(reading.batches, reading.damaged)


class _BatchReading:
    def __init__(self, response: FetchResult, offset: int, epoch: int) -> None:
        self.batches: list[FetchedBatch] = []
        self.damaged: list[Damage] = []
        self._records = response.records
        self._search = SoundBatchSearch(response.records)
        self._high_watermark = response.high_watermark
        self._expected = offset
        self._start = 0
        """Where the batch with this offset begins."""
        leader_epoch = response.leader_epoch
        self._epochs = range(epoch, _EPOCHS_END if leader_epoch is None else leader_epoch + 1)

    def read(self) -> bool:
        """Reads up to and with the next damaged bytes; returns whether more may follow."""
        for tail in scan(self._records, start=self._start):
            header = tail if isinstance(tail, RecordBatch) else tail.header if isinstance(tail, BadBatch) else None
            if header is None or (reason := self._fault(header)) is not None:
                return self._skip_damage(tail, _reason(tail) if header is None else reason or "")
            if header.last_offset >= self._expected:
                content = self._records[header.position : header.end]
                self._add(FetchedBatch(header.base_offset, header.last_offset, header.leader_epoch, content))
            self._start = header.end
        return False

    def _fault(self, batch: RecordBatch) -> str | None:
        """Returns why a batch with a valid CRC is not the next one: the CRC covers neither offset nor epoch."""
        # Only the first batches of a response may begin before the requested offset.
        if batch.base_offset > self._expected or (batch.base_offset < self._expected and self.batches):
            return f"a batch has base offset {batch.base_offset}, expected {self._expected}"
        if batch.last_offset_delta < 0:
            return f"a batch has the last offset delta {batch.last_offset_delta}"
        if batch.last_offset >= self._expected and batch.leader_epoch not in self._epochs:
            expected = f"{self._epochs.start} to {self._epochs.stop - 1}"
            return f"a batch has leader epoch {batch.leader_epoch}, expected {expected}"
        return None

    def _add(self, batch: FetchedBatch) -> None:
        self.batches.append(batch)
        self._expected = batch.last_offset + 1
        if batch.leader_epoch > self._epochs.start:
            self._epochs = range(batch.leader_epoch, self._epochs.stop)

    def _skip_damage(self, one: ScanItem, reason: str) -> bool:
        """Adds the bytes up to the next sound batch; returns whether reading goes on after them."""
        sound = self._search.next(
            self._start, expected=self._expected, high_watermark=self._high_watermark, epochs=self._epochs
        )
        header = self._header(one)
        # Kafka compares the checksum of a batch of any later magic as of magic 2.
        later = header is not None and header.magic > MAGIC and has_valid_crc(self._records, header)
        unchecked = later or isinstance(one, RecordBatch) or (isinstance(one, BadBatch) and one.header is not None)
        if sound is not None:
            self._add_damaged(
                sound.position, sound.base_offset - 1, sound.leader_epoch, header, reason, outside_checksum=unchecked
            )
        elif header is not None:
            self._add_damaged(header.end, header.last_offset, None, header, reason, outside_checksum=unchecked)
        elif isinstance(one, TornTail) and one.position == 0:
            if (announced := announced_size(one)) > MAX_BATCH_BYTES:
                raise invalid(f"Fetch: a batch of {announced} bytes, at most {MAX_BATCH_BYTES} are accepted")
            raise invalid("Fetch: the response ends inside its first batch, which Kafka always sends whole")
        elif not self.batches and not isinstance(one, TornTail):
            damage = DamagedBatch(offset=Offset(self._expected))
            raise DamagedLogError(f"the batch at offset {self._expected}: {reason}", damage)
        else:
            return False
        return True

    def _header(self, one: ScanItem) -> RecordBatch | None:
        """Returns the header of a damaged batch if it can be that of the next batch: then it shows its end."""
        if not isinstance(one, BadBatch) or one.base_offset != self._expected or one.size < HEADER.size:
            return None
        header = RecordBatch(one.position, *HEADER.unpack_from(self._records, one.position))
        fits = header.size == one.size and 0 <= header.last_offset_delta <= header.size
        return header if fits and one.position == self._start else None

    def _add_damaged(
        self,
        end: int,
        last_offset: int,
        epoch_after: int | None,
        header: RecordBatch | None,
        reason: str,
        *,
        outside_checksum: bool,
    ) -> None:
        """Adds the bytes up to `end`; `epoch_after`: of the sound batch that follows there, if one does."""
        first, content = self._expected, self._records[self._start : end]
        epochs = self._epochs if epoch_after is None else range(self._epochs.start, epoch_after + 1)
        # Of two possible epochs the later one: a leader that is asked with the other one answers that it differs.
        epoch, known = epochs.start if epoch_after is None else epoch_after, len(epochs) == 1
        if (
            header is not None
            and (header.end, header.last_offset) == (end, last_offset)
            and header.leader_epoch in epochs
        ):
            epoch, known = header.leader_epoch, True
        if header is None or header.magic == MAGIC:
            content = in_place_of(content, base_offset=first, last_offset=last_offset, leader_epoch=epoch)
        damage = DamagedBatch(
            offset=Offset(first),
            last_offset=Offset(last_offset),
            epoch=Epoch(epoch) if known else None,
            outside_checksum=outside_checksum,
        )
        self.damaged.append((f"offsets {first} to {last_offset}: {reason}", damage))
        self._add(FetchedBatch(first, last_offset, epoch, content))
        self._start = end


def _reason(one: ScanItem) -> str:
    match one:
        case BadBatch():
            return one.reason.removesuffix(": the rest is skipped")
        case TornTail():
            return f"invalid batch length {one.size + (one.missing or 0) - FRAME}"
        case RecordBatch():
            raise AssertionError("a record batch has a header")


def announced_size(torn: TornTail) -> int:
    """Returns how large an incomplete batch is by its header: one larger than any batch would never be complete."""
    return torn.size + (torn.missing or 0)
