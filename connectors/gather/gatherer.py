"""The process: settings in, lock, loop, and an end when the leash is let go."""

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
from typing import Any, BinaryIO, TextIO

from connectors.cluster_connection import Cluster
from connectors.errors import JournalError, UsageError
from connectors.gather.cluster_gatherer import Watch
from connectors.gather.commit_buffer import Resume
from connectors.gather.control_messages import Found, Said, Wish
from connectors.gather.control_messages import from_line as said_from_line
from connectors.gather.endpoint_cache import Memory
from connectors.gather.gatherer_settings import Settings, from_line
from connectors.gather.gatherer_stats import Stats
from connectors.gather.log_follower import START
from connectors.gather.observation_writer import wall_ms
from connectors.gather.publisher import Recording
from connectors.journal.writer import Recorder
from connectors.kafka.event_loop import Loop
from connectors.kafka.kafka_python import hush
from connectors.kafka.rate_limiter import Budget

OK, USAGE, NO_JOURNAL = 0, 2, 3
READY = "ready"
_PUBLISH_EVERY_S = 1.0
_LAST_WORDS_S = 5.0


def main(stdin: BinaryIO, stdout: TextIO) -> int:
    """Run until `stdin` ends.

    Args:
        stdin: one line of settings (`connectors.gather.gatherer_settings`), then nothing: its end is ours.
        stdout: gets one line: `ready`, or why not.

    Returns:
        The exit code: 0, 2 for settings that cannot be used, 3 for a journal that cannot be had or written.
    """
    try:
        settings = from_line(stdin.readline())
        logging.basicConfig(level=logging.INFO if settings.verbose else logging.WARNING, stream=sys.stderr)
        hush()
        _allow_many_sockets()
        with _recorder(settings) as recorder:
            gatherer = Gatherer(settings, recorder)
            _say(stdout, READY)
            gatherer.run(stdin)
    except JournalError as problem:
        _say(stdout, str(problem))
        return NO_JOURNAL
    except UsageError as problem:
        _say(stdout, str(problem))
        return USAGE
    return OK


class Gatherer:
    """Every cluster's follower, poll and probe in one loop."""

    def __init__(self, settings: Settings, recorder: Recorder) -> None:
        """Opens nothing yet.

        Raises:
            UsageError: a cluster's options cannot be used.
        """
        self._settings = settings
        self._recorder = recorder
        self._loop = Loop()
        self._memory = Memory(Path(settings.journal))
        self._recording = Recording(recorder, self._loop, failed=self._loop.stop, before=self._remember)
        self._budgets = {cluster.name: Budget() for cluster in settings.clusters}
        self._stats = Stats(settings.stats, recording=self._recording, budgets=self._budgets)
        self._watches = [self._watch(cluster) for cluster in settings.clusters]

    def run(self, leash: BinaryIO) -> None:
        """Gather until the leash is let go or SIGTERM comes.

        Raises:
            JournalError: the journal cannot be written any more.
        """
        threading.Thread(target=_hold, args=(leash, self._loop, self._heard), daemon=True, name="leash").start()
        signal.signal(signal.SIGTERM, lambda *_: self._loop.stop())
        # A Ctrl-C at the terminal reaches the whole group; when to end is the job's to say.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            self._loop.run(self._main)
        finally:
            for watch in self._watches:
                watch.client.close()
            self._loop.close()
        if self._recording.failure is not None:
            raise self._recording.failure

    def _heard(self, said: Said) -> None:
        """Look at a cluster at a moment, and publish what is seen then at once; or record what an audit found."""
        for watch in (watch for watch in self._watches if watch.cluster == said.cluster):
            match said:
                case Wish(at_ms=at_ms):
                    self._recording.wish(said.cluster, at_ms)
                    watch.wish((at_ms - wall_ms()) / 1000)
                case Found(audited=audited):
                    watch.audited(audited)

    def _remember(self) -> None:
        self._memory.keep({watch.cluster: watch.learned for watch in self._watches})

    async def _main(self) -> None:
        for watch in self._watches:
            watch.start()
        self._loop.spawn(self._tick())
        await self._loop.until_stopped()

    async def _tick(self) -> None:
        while True:
            await self._loop.sleep(_PUBLISH_EVERY_S)
            self._recording.publish()
            self._stats.write()

    def _watch(self, cluster: Cluster) -> Watch:
        progress = self._recorder.last(cluster.name)
        resume = self._settings.resume.get(cluster.name)
        if resume is None and progress is not None and progress.next_offset is not None:
            # Without the epoch nobody could tell whether the log is still the same: begin at its start.
            known = progress.last_epoch is not None
            resume = Resume(offset=progress.next_offset, epoch=progress.last_epoch or 0) if known else START
        return Watch(
            cluster,
            loop=self._loop,
            recording=self._recording,
            budget=self._budgets[cluster.name],
            start=resume or START,
            last_seen_ms=None if progress is None else progress.observed_at_ms,
            learned=self._memory.of(cluster.name),
        )


def _recorder(settings: Settings) -> Recorder:
    options: dict[str, Any] = dict(settings.journal_options)
    for name in ("segment_bytes", "keep_bytes"):
        if name in options:
            options[name] = int(options[name])
    try:
        return Recorder(Path(settings.journal), lock_timeout_s=settings.lock_timeout_s, **options)
    except TypeError as problem:
        raise UsageError(f"The gatherer's settings: journal_options: {problem}.") from problem


def _hold(leash: BinaryIO, loop: Loop, heard: Callable[[Said], None]) -> None:
    for line in leash:
        try:
            said = said_from_line(line)
        except ValueError:
            continue
        loop.soon(partial(heard, said))
    loop.stop()
    # Should the loop not come to its end, the leash still holds.
    timer = threading.Timer(_LAST_WORDS_S, os._exit, args=(NO_JOURNAL,))
    timer.daemon = True
    timer.start()


def _allow_many_sockets() -> None:
    """A hundred clusters need more descriptors than the 1024 that a shell gives; more may be had for the asking."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _say(stdout: TextIO, line: str) -> None:
    print(line, file=stdout, flush=True)
