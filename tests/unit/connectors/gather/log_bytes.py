"""Record batches for tests that read only the batch headers."""

from struct import Struct

from crc32c import crc32c

_HEADER = Struct(">qiibIhiqqqhii")
_CRC = Struct(">I")


def batch(base_offset: int, count: int, *, epoch: int, filler: bytes = b"x") -> bytes:
    """Returns a batch of `count` records with a valid CRC; its content is not valid records."""
    body = filler * count
    header = _HEADER.pack(base_offset, 49 + len(body), epoch, 2, 0, 0, count - 1, 1, 1, -1, -1, -1, count)
    whole = bytearray(header + body)
    _CRC.pack_into(whole, 17, crc32c(memoryview(whole)[21:]))
    return bytes(whole)
