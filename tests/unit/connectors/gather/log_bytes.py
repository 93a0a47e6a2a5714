"""Record batches for tests of the follower: only their frames matter there."""

from struct import Struct

from crc32c import crc32c

_HEADER = Struct(">qiibIhiqqqhii")
_CRC = Struct(">I")


def batch(base_offset: int, count: int, *, epoch: int, filler: bytes = b"x") -> bytes:
    """A batch of `count` records with the right CRC; what is inside is no record."""
    body = filler * count
    header = _HEADER.pack(base_offset, 49 + len(body), epoch, 2, 0, 0, count - 1, 1, 1, -1, -1, -1, count)
    whole = bytearray(header + body)
    _CRC.pack_into(whole, 17, crc32c(memoryview(whole)[21:]))
    return bytes(whole)
