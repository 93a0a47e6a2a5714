"""`python -m connectors.gather.share_process`: gathers a share of the clusters for the process that holds the journal.

It reads its settings and control messages from stdin, as the gatherer does, and writes rows and statistics to stdout
(`connectors.gather.share_messages`). It ends when stdin closes or stdout cannot be written.
"""

import logging
import os
import sys
from collections.abc import Sequence
from typing import BinaryIO

from connectors.errors import JournalError
from connectors.gather.gatherer import Gatherer, allow_many_sockets
from connectors.gather.gatherer_settings import GathererSettings, from_line
from connectors.gather.gatherer_stats import stats_json
from connectors.gather.share_messages import MessageKind, encode_rows, message
from connectors.journal.follow_position import FollowPosition
from connectors.kafka.kafka_python import limit_kafka_logging
from connectors.observation import Observation


class SentJournal:
    """The journal, held by another process: rows are sent to it."""

    def __init__(self, settings: GathererSettings, output: BinaryIO) -> None:
        self._positions = settings.positions
        self._output = output
        self._buffer = bytearray()

    def follow_position(self, cluster: str) -> FollowPosition | None:
        """As `JournalWriter.follow_position`, at the start of this process."""
        return self._positions.get(cluster)

    def append(self, observations: Sequence[Observation]) -> None:
        """Buffers rows until `publish`, or until there are many.

        Raises:
            JournalError: the other process has ended.
            ValueError: a row is too large for a frame.
        """
        self._buffer += encode_rows(observations)
        if len(self._buffer) >= _SEND_BYTES:
            self._send()

    def publish(self) -> int:
        """Sends the rows, to be published at once."""
        self._send(message(MessageKind.PUBLISH))
        return 0

    def send_stats(self, content: bytes) -> None:
        """Sends the statistics."""
        self._send(message(MessageKind.STATS, content))

    def _send(self, more: bytes = b"") -> None:
        rows = message(MessageKind.ROWS, bytes(self._buffer)) if self._buffer else b""
        self._buffer.clear()
        left = memoryview(rows + more)
        try:
            while left:
                left = left[self._output.write(left) :]
        except OSError as problem:
            raise JournalError(f"the process that writes the journal has ended: {problem.strerror}") from problem


_SEND_BYTES = 1024 * 1024


class ShareGatherer(Gatherer):
    """A gatherer whose journal and statistics are in another process."""

    def __init__(self, settings: GathererSettings, journal: SentJournal) -> None:
        super().__init__(settings, journal)
        self._sent_journal = journal

    def _write_stats(self) -> None:
        try:
            self._sent_journal.send_stats(stats_json(self._stats.read()))
        except JournalError:
            self._loop.stop()


def main(stdin: BinaryIO, output: BinaryIO) -> int:
    """Gathers until stdin closes; returns the exit code."""
    settings = from_line(stdin.readline())
    logging.basicConfig(level=logging.INFO if settings.verbose else logging.WARNING, stream=sys.stderr)
    limit_kafka_logging()
    allow_many_sockets()
    try:
        ShareGatherer(settings, SentJournal(settings, output)).run(stdin)
    except JournalError as problem:
        logging.getLogger(__name__).warning("%s", problem)
        return 3
    return 0


def _main() -> None:
    output = os.fdopen(os.dup(sys.stdout.fileno()), "wb", buffering=0)
    # What a library prints must not be taken for rows.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    code = main(sys.stdin.buffer, output)
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    _main()
