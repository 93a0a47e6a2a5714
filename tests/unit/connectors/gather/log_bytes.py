"""Record batches for tests that read only the batch headers."""

from struct import Struct

from crc32c import crc32c

_HEADER = Struct(">qiibIhiqqqhii")
_CRC = Struct(">I")


def batch(base_offset: int, count: int, *, epoch: int) -> bytes:
    """Returns a batch of `count` records with a valid CRC; its content is not valid records."""
    body = b"x" * count
    header = _HEADER.pack(base_offset, 49 + len(body), epoch, 2, 0, 0, count - 1, 1, 1, -1, -1, -1, count)
    whole = bytearray(header + body)
    _CRC.pack_into(whole, 17, crc32c(memoryview(whole)[21:]))
    return bytes(whole)


def torn_batch(*, length: int) -> bytes:
    """Returns the first 100 bytes of a batch whose length field announces more."""
    return _HEADER.pack(1, length, 1, 2, 0, 0, 0, 1, 1, -1, -1, -1, 1) + bytes(100 - _HEADER.size)
