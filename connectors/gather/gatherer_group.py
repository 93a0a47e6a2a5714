"""Gathers with several processes: this one holds the journal, and each of the others gathers a share of the clusters.

A cluster's share follows from its name. A process that hangs or crashes is restarted without an effect on the clusters
of the others: it continues where the journal's rows of its clusters end.
"""

import logging
import os
import selectors
import signal
import threading
import time
from pathlib import Path
from typing import BinaryIO, Final

from connectors.cluster_share import share_of
from connectors.gather.control_messages import from_line
from connectors.gather.gatherer_settings import GathererSettings
from connectors.gather.gatherer_stats import WrittenStats, write_stats
from connectors.gather.group_stats import merged
from connectors.gather.share_messages import MessageKind, UnreadableMessageError, decode_rows
from connectors.gather.share_supervision import Share
from connectors.journal.writer import JournalWriter

_LOG = logging.getLogger(__name__)
_TURN_S: Final = 0.25
_PUBLISH_EVERY_S: Final = 1.0
_SHUTDOWN_TIMEOUT_S: Final = 4.0


class GathererGroup:
    """The journal, and the processes that gather."""

    def __init__(self, settings: GathererSettings, journal: JournalWriter) -> None:
        """Starts no process yet."""
        self._settings = settings
        self._journal = journal
        self._selector = selectors.DefaultSelector()
        self._rows = self._publications = 0
        self._is_publish_due = False
        self._stop_requested = threading.Event()
        self._incomplete_line = b""
        self._publish_at = self._stats_at = 0.0
        self._stats: dict[int, WrittenStats] = {}
        clusters: dict[int, list[str]] = {}
        for cluster in settings.clusters:
            clusters.setdefault(share_of(cluster.name, settings.processes), []).append(cluster.name)
        self._share_of = {name: number for number, names in clusters.items() for name in names}
        self._shares = {
            number: Share(number, settings, frozenset(names), journal) for number, names in sorted(clusters.items())
        }

    def run(self, stdin: BinaryIO) -> None:
        """Runs until stdin closes.

        Raises:
            JournalError: the journal cannot be written any more.
        """
        signal.signal(signal.SIGTERM, lambda *_: self._stop_requested.set())
        # Ctrl-C in a terminal signals the whole process group; the job decides when the gatherer ends.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        os.set_blocking(stdin.fileno(), False)
        self._selector.register(stdin.fileno(), selectors.EVENT_READ, None)
        try:
            while not self._stop_requested.is_set():
                self._supervise()
                for key, _ in self._selector.select(_TURN_S):
                    if isinstance(key.data, Share):
                        self._receive(key.data)
                    else:
                        self._read_commands(stdin)
                self._publish()
        finally:
            self._selector.unregister(stdin.fileno())
            self._end()

    def _read_commands(self, stdin: BinaryIO) -> None:
        piece = stdin.read()
        if piece == b"":
            self._stop_requested.set()
            return
        *lines, self._incomplete_line = (self._incomplete_line + (piece or b"")).split(b"\n")
        for line in lines:
            try:
                cluster = from_line(line).cluster
            except ValueError:
                continue
            number = self._share_of.get(cluster)
            if number is not None:
                self._shares[number].send(line + b"\n")

    def _supervise(self) -> None:
        for share in self._shares.values():
            if share.is_due:
                descriptor = share.start()
                self._selector.register(descriptor, selectors.EVENT_READ, share)
            elif share.hangs:
                self._stop(share, share.kill())

    def _receive(self, share: Share) -> None:
        try:
            self._take_messages(share)
        except EOFError:
            self._stop(share, share.exit_reason())
        except UnreadableMessageError as problem:
            self._stop(share, share.kill(str(problem)))

    def _take_messages(self, share: Share) -> None:
        for kind, content in share.receive():
            match kind:
                case MessageKind.ROWS:
                    rows = [row for row in decode_rows(content) if row.cluster in share.clusters]
                    self._journal.append(rows)
                    self._rows += len(rows)
                case MessageKind.PUBLISH:
                    self._is_publish_due = True
                case MessageKind.STATS:
                    stats = share.stats(content)
                    if stats is not None:
                        self._stats[share.number] = stats

    def _stop(self, share: Share, reason: str) -> None:
        descriptor = share.descriptor
        if descriptor is not None:
            self._selector.unregister(descriptor)
        share.ended()
        _LOG.warning("the process that gathers share %d ended (%s) and is restarted", share.number, reason)

    def _publish(self) -> None:
        now = time.monotonic()
        if self._is_publish_due or now >= self._publish_at:
            self._is_publish_due = False
            self._publish_at = now + _PUBLISH_EVERY_S
            self._publications += 1
            self._journal.publish()
        if now >= self._stats_at and self._settings.stats is not None:
            self._stats_at = now + _PUBLISH_EVERY_S
            running = [share for share in self._shares.values() if share.descriptor is not None]
            stats = merged(
                self._stats,
                turn_at_s=min([now, *(share.turn_at_s for share in running)]),
                rows=self._rows,
                publications=self._publications,
            )
            try:
                write_stats(Path(self._settings.stats), stats)
            except OSError:
                return

    def _end(self) -> None:
        """Ends the processes, and appends the rows that they have sent."""
        deadline = time.monotonic() + _SHUTDOWN_TIMEOUT_S
        running = {share for share in self._shares.values() if share.descriptor is not None}
        for share in running:
            share.close_stdin()
        while running and time.monotonic() < deadline:
            for key, _ in self._selector.select(_TURN_S):
                try:
                    self._take_messages(key.data)
                except (EOFError, UnreadableMessageError):
                    self._selector.unregister(key.fd)
                    running.discard(key.data)
        for share in self._shares.values():
            share.end(deadline)
        self._selector.close()
