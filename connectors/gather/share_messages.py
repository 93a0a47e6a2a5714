"""What a process that gathers a share of the clusters sends to the process that writes the journal: a stream of bytes.

A message is its kind, the length of its content and the content, big-endian. Rows are encoded as in a segment of the
journal, with sequence 0: the writer of the journal numbers them.
"""

import io
import struct
from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import IntEnum

from connectors.errors import KraftwatchError
from connectors.journal import frame
from connectors.observation import Observation

_HEAD = struct.Struct(">BI")
MAX_MESSAGE_BYTES = 512 * 1024 * 1024


class UnreadableMessageError(KraftwatchError):
    """A process sent bytes that are no message."""


class MessageKind(IntEnum):
    """What a message holds."""

    ROWS = 1
    """Rows, in order."""
    PUBLISH = 2
    """Nothing: the rows so far are to be published at once."""
    STATS = 3
    """`connectors.gather.gatherer_stats.WrittenStats` as JSON. It shows that the event loop runs."""


def message(kind: MessageKind, content: bytes = b"") -> bytes:
    """Returns one message."""
    return _HEAD.pack(kind, len(content)) + content


def encode_rows(rows: Sequence[Observation]) -> bytes:
    """Returns the content of a ROWS message.

    Raises:
        ValueError: a row is too large for a frame.
    """
    return b"".join(frame.encode(replace(row, sequence=0)) for row in rows)


def decode_rows(content: bytes) -> Sequence[Observation]:
    """Returns the rows of a ROWS message.

    Raises:
        UnreadableMessageError: the bytes are not whole rows.
    """
    file, position, rows = io.BytesIO(content), 0, []
    try:
        while (found := frame.read(file, position)) is not None:
            row, position = found
            rows.append(row)
    except frame.BadFrameError as problem:
        raise UnreadableMessageError(f"a process of the gatherer sent rows that cannot be read: {problem}") from problem
    return rows


class MessageReader:
    """Assembles the messages of one process from the bytes that arrive."""

    def __init__(self) -> None:
        self._received = bytearray()

    def receive(self, piece: bytes) -> Iterator[tuple[MessageKind, bytes]]:
        """Yields the messages that are complete now.

        Raises:
            UnreadableMessageError: the bytes are no messages.
        """
        self._received += piece
        while len(self._received) >= _HEAD.size:
            kind, size = _HEAD.unpack_from(self._received)
            if kind not in set(MessageKind) or size > MAX_MESSAGE_BYTES:
                raise UnreadableMessageError("a process of the gatherer sent bytes that are no message")
            end = _HEAD.size + size
            if len(self._received) < end:
                return
            content = bytes(memoryview(self._received)[_HEAD.size : end])
            del self._received[:end]
            yield MessageKind(kind), content
