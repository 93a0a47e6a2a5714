"""Record bytes as numpy arrays, and the varints in them. Imported only where a payload is large enough for numpy."""

from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from connectors.event_block import UUID_TEXT, Flags, Octets, Positions

PADDING: Final = 8192
"""Zeros after the bytes. A field of the usual shape is shorter, so its reader stays within the array."""

Words: TypeAlias = npt.NDArray[np.uint64]

_BASE64: Final = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", np.uint8)
_TWO_CHARACTERS: Final = np.stack((_BASE64[np.arange(4096) >> 6], _BASE64[np.arange(4096) & 63]), axis=1).view(
    np.uint16
)[:, 0]
"""The characters of each number of twelve bits."""
_SHIFTS: Final = ((0, 52), (0, 40), (0, 28), (0, 16), (0, 4), (0, -8), (1, 44), (1, 32), (1, 20), (1, 8), (1, -4))
"""Where the bits of each two characters are: in the first or second eight bytes, and how far to the left of the end."""
_IN_BOTH_WORDS: Final = 5
_UUID_SIZE: Final = 16


class ByteViews:
    """Bytes as numbers at any position: element i of a view begins at byte i."""

    def __init__(self, chunk: bytes, start: int, end: int) -> None:
        size = end - start
        self.bytes: Octets = np.empty(size + PADDING, np.uint8)
        self.bytes[:size] = np.frombuffer(chunk, np.uint8, size, start)
        self.bytes[size:] = 0
        self.int32 = self._view(">i4", 4)
        self.eight: Words = self._view("<u8", 8)
        self._uuids = self._view(f"V{_UUID_SIZE}", _UUID_SIZE)

    def _view(self, dtype: str, size: int) -> "np.ndarray[Any, Any]":
        return np.ndarray((len(self.bytes) - size + 1,), dtype, self.bytes.data, 0, (1,))

    def rows(self, at: Positions, size: int) -> Octets:
        """Returns `size` bytes from each position on, one row for each position."""
        gathered: Octets = self._view(f"V{size}", size)[at].view(np.uint8).reshape(-1, size)
        return gathered

    def nodes(self, at: Positions, count: int) -> "np.ndarray[Any, Any]":
        """Returns `count` int32 from each position on, one row for each position."""
        gathered = self._view(f"V{4 * count}", 4 * count)[at]
        return gathered.view(">i4").astype(np.int32).reshape(-1, count)

    def uuids(self, at: Positions) -> Octets:
        """Returns the 16 bytes from each position on, one row for each position."""
        gathered: Octets = self._uuids[at].view(np.uint8).reshape(-1, _UUID_SIZE)
        return gathered

    def spans(self, start: Positions, stop: Positions) -> Octets:
        """Returns the bytes from each `start` to each `stop`, one span after the other."""
        spans: Octets = self.bytes[indices_of_spans(start, stop)]
        return spans

    def uvarints(self, at: Positions) -> tuple[Positions, Positions]:
        """Returns the unsigned varint at each position, and the positions after them.

        A varint of more than three bytes, or of more than its value needs, is returned as -1.
        """
        first = self.bytes[at]
        value = first.astype(np.int64)
        after = at + 1
        longer = np.flatnonzero(first >= 0x80)
        if longer.size:
            value[longer] &= 0x7F
            for shift in (7, 14):
                next_byte = self.bytes[after[longer]].astype(np.int64)
                value[longer] |= (next_byte & 0x7F) << shift
                after[longer] += 1
                value[longer[next_byte == 0]] = -1
                longer = longer[next_byte >= 0x80]
            value[longer] = -1
        return value, after


class Cursor:
    """Reads fields of many bodies side by side. A body that is not of the usual shape is marked and no longer read."""

    def __init__(self, views: ByteViews, start: Positions, end: Positions) -> None:
        self.views = views
        self.start = start
        self.at = start
        self.end = end
        self.usual: Flags = np.ones(len(start), np.bool_)

    def require(self, good: Flags) -> None:
        """Marks the bodies for which a check fails, and those whose fields exceed them."""
        good = good & (self.at <= self.end)
        if not good.all():
            self.usual &= good
            self.at = np.where(self.usual, self.at, self.start)

    def byte(self) -> Positions:
        """Reads one byte of each body."""
        value = self.views.bytes[self.at].astype(np.int64)
        self.at = self.at + 1
        return value

    def counted(self, size: int) -> tuple[Positions, Positions]:
        """Skips one array of each body; returns the number of elements and where the first begins.

        An array that is null or has more than 126 elements is not of the usual shape.
        """
        count = self.byte() - 1
        first = self.at
        good = (count >= 0) & (count < 0x7F)
        self.at = first + size * np.maximum(count, 0)
        self.require(good)
        return count, first

    def finished(self) -> Flags:
        """Returns which bodies have the usual shape and end where their fields end."""
        return np.asarray(self.usual & (self.at == self.end))


def indices_of_spans(start: Positions, stop: Positions) -> Positions:
    """Returns each position from each `start` to each `stop`, one span after the other."""
    length = stop - start
    before = np.cumsum(length) - length
    indices: Positions = np.arange(int(length.sum())) + np.repeat(start - before, length)
    return indices


def uuid_texts(raw: Octets) -> Octets:
    """Returns UUIDs of 16 bytes as Kafka prints them, URL-safe base64, in UUID_TEXT bytes each."""
    words = raw.view(np.int64)
    # Adjacent records often share their topic.
    fresh = np.ones(len(raw), np.bool_)
    fresh[1:] = (words[1:, 0] != words[:-1, 0]) | (words[1:, 1] != words[:-1, 1])
    high, low = words[fresh].view(">u8").astype(np.uint64).T
    texts = np.empty((len(high), len(_SHIFTS)), np.uint16)
    for column, (word, shift) in enumerate(_SHIFTS):
        twelve_bits = (high, low)[word] >> shift if shift >= 0 else (high, low)[word] << -shift
        if column == _IN_BOTH_WORDS:
            twelve_bits = twelve_bits | low >> 56
        texts[:, column] = _TWO_CHARACTERS[(twelve_bits & 0xFFF).view(np.int64)]
    whole = texts.view(f"V{UUID_TEXT}").reshape(-1)
    repeated: Octets = whole[np.cumsum(fresh) - 1].view(np.uint8).reshape(-1, UUID_TEXT)
    return repeated
