"""Buffers the pieces of a snapshot (KIP-630) and returns whole batches. Pure.

A node names the snapshot's size with each piece. Everything is bounded by it, and it by the configuration: otherwise a
snapshot without end would fill the journal.
"""

from typing import Final

from connectors.gather.commit_buffer import require_batch_size
from connectors.kafka.response_limits import invalid
from connectors.metadata.batches import BadBatch, RecordBatch, TornTail, scan
from rules.model.identifiers import SnapshotId

MAX_SNAPSHOT_BYTES: Final = 4 * 1024**3
"""The default of `max_snapshot_bytes`: a million partitions take about 100 MB."""


class SnapshotBuffer:
    """Buffers the pieces of a `.checkpoint`. A piece may end inside a batch; `receive` returns whole batches."""

    def __init__(self, snapshot: SnapshotId, *, max_bytes: int = MAX_SNAPSHOT_BYTES) -> None:
        """`max_bytes` is the largest accepted size of the whole snapshot."""
        self.snapshot = snapshot
        self.position = 0
        """Bytes received: the position of the next piece."""
        self.pieces = 0
        """Number of non-empty results of `receive`."""
        self._max_bytes = max_bytes
        self._size: int | None = None
        self._remainder = b""

    @property
    def done(self) -> bool:
        """True once the whole file was received."""
        return self._size is not None and self.position >= self._size

    def receive(self, *, position: int, size: int, records: bytes) -> bytes:
        """Adds a piece.

        Returns:
            The batches that are complete now; may be empty.

        Raises:
            ObservationError: INVALID_RESPONSE, if the piece is not the requested one, exceeds the snapshot's size or a
                bound, or does not contain batches.
        """
        self._check(position, size, len(records))
        self._size = size
        content = self._remainder + records
        received = position + len(records)
        end = 0
        for one in scan(content):
            match one:
                case TornTail():
                    self._check_torn(one, received - one.size)
                    break
                case BadBatch():
                    # Returned unchanged: the decoder quarantines it and reports it.
                    end = one.position + one.size
                case RecordBatch():
                    end = one.end
        if received == size and end < len(content):
            raise invalid(f"FetchSnapshot: the snapshot of {size} bytes ends inside a batch")
        self.position = received
        self._remainder = content[end:]
        if end:
            self.pieces += 1
        return content[:end]

    def _check(self, position: int, size: int, received: int) -> None:
        if size > self._max_bytes:
            why = f"size is {size}, at most {self._max_bytes} bytes are accepted (max_snapshot_bytes)"
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

    def _check_torn(self, torn: TornTail, begins: int) -> None:
        """Checks a batch that begins at this byte of the snapshot and is not complete yet."""
        require_batch_size(torn, "FetchSnapshot")
        ends = begins + torn.size + (torn.missing or 0)
        assert self._size is not None
        if ends > self._size:
            raise invalid(f"FetchSnapshot: a batch ends at byte {ends} of {self._size}")
