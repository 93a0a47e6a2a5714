"""Takes the metadata transactions (KIP-868) out of a log: keeps what was committed, without markers.

A snapshot holds no transactions, so what `BeginTransactionRecord` and `EndTransactionRecord` enclose becomes plain
records, and what was aborted is left out (Kafka's `MetadataBatchLoader`).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from connectors.errors import UsageError
from connectors.metadata.batch_writer import RecordContent, write_batch
from connectors.metadata.batches import RecordBatch
from connectors.metadata.record_framing import FRAME_VERSION, framed_records, value_header

BEGIN: Final = 23
END: Final = 24
ABORT: Final = 25
_MARKERS: Final = tuple(bytes((FRAME_VERSION, type_)) for type_ in (BEGIN, END, ABORT))


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedBatch:
    """Records to keep: one whole batch, with any position."""

    content: bytes
    records: int


@dataclass(slots=True, kw_only=True)
class TransactionFilter:
    """The state between the batches of one log."""

    began_at: int | None = None
    """Offset of the open transaction's first record; None if none is open."""
    _held: list[CommittedBatch] = field(default_factory=list)

    def add(self, chunk: bytes, batch: RecordBatch) -> Iterator[CommittedBatch]:
        """Yields the batches that are certain now: those outside of transactions, and all of one that ends here.

        Args:
            chunk: holds the batch.
            batch: a batch of metadata records.

        Raises:
            UsageError: the batch cannot be read, or its transactions do not match those before.
        """
        if not any(marker in chunk[batch.body : batch.end] for marker in _MARKERS):
            yield from self._keep(CommittedBatch(content=chunk[batch.position : batch.end], records=batch.record_count))
            return
        run: list[RecordContent] = []
        for record in framed_records(chunk, batch):
            offset = batch.base_offset + record.delta
            if record.value is None or record.fault is not None:
                raise UsageError(f"the record at offset {offset} cannot be read: {record.fault or 'it has no value'}")
            value = chunk[record.value[0] : record.value[1]]
            type_, _, _ = value_header(value, 0, len(value))
            if type_ not in (BEGIN, END, ABORT):
                run.append(RecordContent(None, value))
                continue
            yield from self._keep_run(run, batch)
            run = []
            yield from self._mark(type_, offset)
        yield from self._keep_run(run, batch)

    def _keep_run(self, run: list[RecordContent], batch: RecordBatch) -> Iterator[CommittedBatch]:
        if run:
            content = write_batch(run, base_offset=0, leader_epoch=0, timestamp_ms=batch.max_timestamp, control=False)
            yield from self._keep(CommittedBatch(content=content, records=len(run)))

    def _keep(self, batch: CommittedBatch) -> Iterator[CommittedBatch]:
        if self.began_at is None:
            yield batch
        else:
            self._held.append(batch)

    def _mark(self, type_: int, offset: int) -> Iterator[CommittedBatch]:
        if (type_ == BEGIN) == (self.began_at is not None):
            state = "while another transaction is open" if type_ == BEGIN else "while no transaction is open"
            name = {BEGIN: "begins", END: "ends", ABORT: "is aborted"}[type_]
            raise UsageError(f"a transaction {name} at offset {offset} {state}: the log is not what Kafka writes")
        if type_ == BEGIN:
            self.began_at = offset
            return
        self.began_at = None
        held, self._held = self._held, []
        if type_ == END:
            yield from held
