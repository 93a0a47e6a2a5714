"""Record batches for tests that read only the batch headers."""

from struct import Struct

from tests.unit.connectors.metadata.metadata_bytes import batch_of

_HEADER = Struct(">qiibIhiqqqhii")


def batch(base_offset: int, count: int, *, epoch: int) -> bytes:
    """Returns a batch of `count` records with a valid CRC; its content is not valid records."""
    return batch_of(b"x" * count, count, base_offset=base_offset, epoch=epoch)


def torn_batch(*, length: int) -> bytes:
    """Returns the first 100 bytes of a batch whose length field announces more."""
    return _HEADER.pack(1, length, 1, 2, 0, 0, 0, 1, 1, -1, -1, -1, 1) + bytes(100 - _HEADER.size)
