"""The gatherer process: reads its settings, locks the journal and runs the event loop until stdin closes."""

import gc
import logging
import os
import resource
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final, TextIO

from connectors.errors import JournalError, UsageError
from connectors.gather.cluster_gatherer import ClusterGatherer
from connectors.gather.commit_buffer import FetchPosition
from connectors.gather.gatherer_input import (
    ControlMessage,
    GathererSettings,
    LogPause,
    PollRequest,
    ReportedRow,
    message_from_line,
    settings_from_line,
)
from connectors.gather.gatherer_stats import LoopHeartbeat, current_stats, write_stats
from connectors.gather.log_follower import START
from connectors.gather.node_directory import KnownEndpoints, endpoints_json, stored_endpoints
from connectors.gather.publisher import TOGETHER, Publisher
from connectors.gather.unwritten_rows import UnwrittenRows
from connectors.kafka.cluster_connection import ClusterConnection
from connectors.kafka.event_loop import EventLoop
from connectors.kafka.request_pacing import RateLimiter
from connectors.process.freed_memory import keep_freed_memory
from connectors.store.journal_writer import JournalWriter

OK, USAGE, NO_JOURNAL = 0, 2, 3
READY = "ready"
_PUBLISH_EVERY_S = 1.0
_START_EVERY_S = 0.015
"""Between the starts of two clusters. Those that start together are polled together from then on, each of them late."""
_SHUTDOWN_TIMEOUT_S = 5.0
_YOUNG_OBJECTS: Final = 20_000
_CONNECTED_S: Final = 30.0
"""Until all clusters are connected."""


def main(stdin: BinaryIO, stdout: TextIO) -> int:
    """Runs the gatherer until `stdin`, which holds the lines of `gatherer_input`, closes.

    Writes one line to `stdout`, `ready` or the error, and later those of `unwritten_rows`. Returns the exit code: 0; 2
    for invalid settings; 3 if the journal cannot be locked or written.
    """
    try:
        settings = settings_from_line(stdin.readline())
        logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
        _allow_many_sockets()
        limit = {} if settings.keep_bytes is None else {"keep_bytes": settings.keep_bytes}
        with JournalWriter(Path(settings.journal), lock_timeout_s=settings.lock_timeout_s, **limit) as journal:
            journal.keep_progress_of([cluster.name for cluster in settings.clusters])
            gatherer = Gatherer(settings, journal, stdout)
            print(READY, file=stdout, flush=True)
            gatherer.run(stdin)
    except JournalError as problem:
        print(problem, file=stdout, flush=True)
        return NO_JOURNAL
    except UsageError as problem:
        print(problem, file=stdout, flush=True)
        return USAGE
    return OK


class Gatherer:
    """The gatherers of all clusters on one event loop."""

    def __init__(self, settings: GathererSettings, journal: JournalWriter, stdout: TextIO) -> None:
        """Opens no connection yet."""
        self._settings = settings
        self._journal = journal
        self._loop = EventLoop()
        self._publisher = Publisher(
            journal,
            self._loop,
            on_failure=self._loop.stop,
            before_publish=self._note_endpoints,
            on_full_disk=UnwrittenRows(journal, stdout).write,
        )
        self._noted: dict[str, KnownEndpoints] = {}
        self._rate_limiters = {cluster.name: RateLimiter() for cluster in settings.clusters}
        self._heartbeat = LoopHeartbeat(self._loop)
        self._gatherers = [self._cluster_gatherer(cluster) for cluster in settings.clusters]

    def run(self, stdin: BinaryIO) -> None:
        """Runs until stdin closes or SIGTERM arrives.

        Raises:
            JournalError: the journal cannot be written any more.
        """
        threading.Thread(
            target=_read_messages, args=(stdin, self._loop, self._handle_message), daemon=True, name="stdin"
        ).start()
        signal.signal(signal.SIGTERM, lambda *_: self._loop.stop())
        # Ctrl-C in a terminal signals the whole process group; the job decides when the gatherer ends.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            self._loop.run(self._run)
            self._publisher.publish()
        finally:
            for gatherer in self._gatherers:
                gatherer.client.close()
            self._loop.close()
        if self._publisher.failure is not None:
            raise self._publisher.failure

    def _handle_message(self, message: ControlMessage) -> None:
        """Schedules a requested poll whose row is published at once, pauses a log, or writes a reported row."""
        for gatherer in (gatherer for gatherer in self._gatherers if gatherer.cluster == message.cluster):
            match message:
                case PollRequest(at_ms=at_ms, quiet_until_ms=quiet_until_ms):
                    self._publisher.let_wait(message.cluster, quiet_until_ms)
                    if at_ms is not None and self._publisher.publish_first_row_from(message.cluster, at_ms):
                        gatherer.poll_at(at_ms)
                case LogPause(pause_ms=pause_ms):
                    gatherer.pause_log(pause_ms / 1_000)
                case ReportedRow(row=row):
                    gatherer.writer.write_witness(row)

    def _note_endpoints(self) -> None:
        known = {gatherer.cluster: gatherer.nodes.known_endpoints for gatherer in self._gatherers}
        changed = {
            cluster: endpoints for cluster, endpoints in known.items() if self._noted.get(cluster) is not endpoints
        }
        if changed:
            self._journal.note_endpoints(
                {cluster: endpoints_json().dump_json(endpoints).decode() for cluster, endpoints in changed.items()}
            )
            self._noted |= changed

    async def _run(self) -> None:
        keep_freed_memory()
        self._loop.spawn(self._start_all())
        self._loop.spawn(self._heartbeat.run())
        self._loop.spawn(self._publish_periodically())
        self._loop.spawn(_exclude_long_lived_objects(self._loop))
        await self._loop.wait_stopped()

    async def _start_all(self) -> None:
        for gatherer in self._gatherers:
            gatherer.start()
            await self._loop.sleep(_START_EVERY_S)

    async def _publish_periodically(self) -> None:
        while True:
            await self._loop.sleep(_PUBLISH_EVERY_S)
            self._publisher.publish_regularly()
            if self._settings.stats is not None:
                with suppress(OSError):  # the next second tries again
                    stats = current_stats(self._publisher, self._rate_limiters, self._heartbeat)
                    write_stats(Path(self._settings.stats), stats)

    def _cluster_gatherer(self, cluster: ClusterConnection) -> ClusterGatherer:
        progress = self._journal.follow_progress(cluster.name)
        start, reads_again = START, progress is not None and progress.lacks_known_records
        if reads_again:
            self._journal.read_log_again(cluster.name)
            progress = self._journal.follow_progress(cluster.name)
        # Without the epoch a changed log could not be detected.
        if progress is not None and progress.next_offset is not None and progress.last_epoch is not None:
            start = FetchPosition(offset=progress.next_offset, epoch=progress.last_epoch)
        return ClusterGatherer(
            cluster,
            loop=self._loop,
            publisher=self._publisher,
            rate_limiter=self._rate_limiters[cluster.name],
            start=start,
            reads_again=reads_again,
            last_observed_ms=None if progress is None else progress.observed_at_ms,
            known_endpoints=stored_endpoints(self._journal.endpoints(cluster.name)),
            one_of_many=len(self._settings.clusters) > TOGETHER,
        )


def _read_messages(stdin: BinaryIO, loop: EventLoop, handle: Callable[[ControlMessage], None]) -> None:
    for line in stdin:
        try:
            message = message_from_line(line)
        except ValueError:
            continue
        loop.call_soon(partial(handle, message))
    loop.stop()
    # Ends the process even if the event loop does not stop.
    timer = threading.Timer(_SHUTDOWN_TIMEOUT_S, os._exit, args=(NO_JOURNAL,))
    timer.daemon = True
    timer.start()


def _allow_many_sockets() -> None:
    """Raises the file descriptor limit to its hard limit: 100 clusters need more than a shell's default of 1024."""
    _, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard_limit, hard_limit))


async def _exclude_long_lived_objects(loop: EventLoop) -> None:
    """Excludes the objects that exist soon after the start from garbage collection.

    A request that waits for a second reaches Python's oldest generation. With 1,000 clusters that generation is then
    collected every few seconds, a million objects of which none can be freed: a third of the CPU time.
    """
    gc.set_threshold(_YOUNG_OBJECTS, 10, 10)
    await loop.sleep(_CONNECTED_S)
    gc.collect()
    gc.freeze()
