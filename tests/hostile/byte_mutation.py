"""Mutations of bytes without knowledge of their format."""

from random import Random

SPECIAL_NUMBERS = (
    0,
    1,
    -1,
    -2,
    127,
    128,
    255,
    2**15 - 1,
    -(2**15),
    2**16,
    2**31 - 1,
    -(2**31),
    2**32,
    2**62,
    2**63 - 1,
)
_SIZES = (1, 2, 4, 8)


def mutated(content: bytes, rng: Random, *, times: int = 1) -> bytes:
    """Returns the bytes after some random mutations."""
    out = bytearray(content)
    for _ in range(times):
        _mutate(out, rng)
    return bytes(out)


def special_number(rng: Random, size: int) -> bytes:
    """Returns a special number as a big-endian integer of this many bytes."""
    number = rng.choice(SPECIAL_NUMBERS) % (1 << (8 * size))
    return number.to_bytes(size, "big")


def _mutate(out: bytearray, rng: Random) -> None:
    if not out:
        out += rng.randbytes(rng.randrange(1, 32))
        return
    at = rng.randrange(len(out))
    length = min(rng.choice((1, 2, 4, 8, 16, 64, 512)), len(out) - at)
    match rng.randrange(8):
        case 0:
            out[at] ^= 1 << rng.randrange(8)
        case 1:
            size = rng.choice(_SIZES)
            out[at : at + size] = special_number(rng, size)
        case 2:
            out[at : at + length] = rng.randbytes(length)
        case 3:
            del out[at : at + length]
        case 4:
            out[at:at] = out[at : at + length]
        case 5:
            out[at:at] = rng.randbytes(length)
        case 6:
            del out[at:]
        case _:
            other = rng.randrange(len(out))
            out[at : at + length] = out[other : other + length]
