"""The relay: the gatherer process and its journal, from which the forwarder sends every row to a Kafka topic.

The gatherer is the one of `kraftwatch run`, with the same supervision. What the brokers do not accept stays in the
journal, up to `relay.buffer_bytes`. If that is not enough, the rows are given up and every metadata log is read again
from its start: polls of that time are missing then, but no record.
"""

import logging
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace

from connectors.errors import JournalError, UsageError
from connectors.kafka.cluster_connection import ClusterConnection
from connectors.kafka.cluster_id_lookup import identify
from connectors.observations.observation import Observation
from connectors.relay import relay_positions
from connectors.relay.forwarder import Forwarder
from connectors.relay.relay_message import AHEAD_MS, RelayMessage, TopicError
from connectors.relay.relay_positions import Numberings
from connectors.relay.topic_producer import check_settings
from connectors.store.durable_file import private_files
from connectors.store.journal_reader import JournalReader
from connectors.store.journal_writer import JournalWriter
from connectors.wall_clock import wall_ms
from streaming.config import Config, host_port
from streaming.config.relay_section import RelaySection
from streaming.job import logging_setup
from streaming.job.cluster_identity import LateClusters, identify_clusters
from streaming.job.gatherer_process import GathererProcess
from streaming.job.signals import StopSignal
from streaming.job.start_up import record_ids
from streaming.metrics.relay_metrics import RelaySources, relay_endpoints
from streaming.pipeline.checkpoint import Checkpoint
from streaming.pipeline.checkpoint_source import RELAY, CheckpointSource, record_source, require_source
from streaming.web.server import Server

log = logging.getLogger(__name__)

_FORWARD_S = 1.0
_CHECK_S = 5.0
_LAST_ROWS_S = 10.0
_KEEP_ACKNOWLEDGED_BYTES = 16 * 1024 * 1024


def run_relay(config: Config, *, say: Callable[[str], None]) -> None:
    """Runs the relay until SIGINT or SIGTERM.

    Args:
        config: the configuration, with a relay section.
        say: prints progress on the terminal.

    Raises:
        UsageError: an input is invalid; nothing was overwritten.
        JournalError: the relay's folder cannot be written.
    """
    if config.relay is None:
        raise UsageError("relay is missing in the configuration: add relay with the bootstrap and topic to write to")
    section = config.relay.of_one_topic([one.name for one in config.watched])
    try:
        check_settings(section.connection())
    except TopicError as problem:
        raise UsageError(f"relay: {problem}") from None
    folder = Checkpoint(folder=section.folder.absolute())
    with ExitStack() as stack:
        stack.enter_context(private_files())
        stop = stack.enter_context(StopSignal())
        stack.enter_context(folder.held())
        require_source(folder, CheckpointSource(kind=RELAY))
        folder.check_observations()
        logs_to_files = False
        while not stop.is_set():
            clusters, late = _identified(config, folder)
            record_source(folder, CheckpointSource(kind=RELAY))
            if not logs_to_files:
                logging_setup.log_to(folder.logs)
                stack.enter_context(logging_setup.rotated_child_logs(folder.logs))
                logs_to_files = True
            _relay(config, section, folder, clusters, late, stop=stop, say=say)


def _relay(
    config: Config,
    section: RelaySection,
    folder: Checkpoint,
    clusters: Mapping[str, ClusterConnection],
    late: Sequence[ClusterConnection],
    *,
    stop: StopSignal,
    say: Callable[[str], None],
) -> None:
    """Relays these clusters until the stop signal, or until one of the late clusters answers."""
    with ExitStack() as stack:
        relay = Relay(section, folder, clusters)
        stack.callback(relay.stop)
        if config.listen is not None:
            address, access = host_port(config.listen), config.page_access()
            stack.enter_context(Server(address, [relay_endpoints(relay.sources())], access=access))
        former = signal.signal(signal.SIGHUP, lambda *_: relay.restate_soon())
        stack.callback(signal.signal, signal.SIGHUP, former)
        say(f"relaying {', '.join(clusters)} to the topic {section.topic} at {', '.join(section.bootstrap)}")
        for name, cluster in clusters.items():
            say(f"  {name}: cluster id {cluster.cluster_id}")
        others = stack.enter_context(LateClusters(late))
        while not stop.is_set() and not others.answered:
            relay.run_once()


def _identified(
    config: Config, folder: Checkpoint
) -> tuple[Mapping[str, ClusterConnection], Sequence[ClusterConnection]]:
    """Returns the clusters with their ids, and the new ones that do not answer yet.

    The folder records the ids: a restart needs no answer of a cluster. A new folder needs one of each.

    Raises:
        UsageError: a cluster cannot be identified.
    """
    clusters = [section.cluster() for section in config.watched]
    recorded = folder.cluster_ids()
    answered = identify_clusters(clusters, recorded, identify)
    if not (recorded and answered.ids):
        answered.require_all()
    for problem in answered.unavailable.values():
        log.warning("%s; the other clusters are relayed", problem)
    ids = record_ids(folder, recorded, answered)
    available = {each.name: replace(each, cluster_id=ids[each.name]) for each in clusters if each.name in answered.ids}
    return available, [each for each in clusters if each.name in answered.unavailable]


class Relay:
    """The running relay of one folder."""

    def __init__(self, section: RelaySection, folder: Checkpoint, clusters: Mapping[str, ClusterConnection]) -> None:
        """Starts the gatherer of these clusters (by name, with their ids).

        Raises:
            UsageError: the gatherer cannot open the journal, or relay.json cannot be read.
            JournalError: the journal is damaged or cannot be written.
        """
        self._section = section
        self._folder = folder
        self._clusters = clusters
        self._positions = folder.folder / "relay.json"
        self._numberings = self._prepared()
        self._journal = JournalReader(folder.journal)
        self._forwarder = Forwarder(self._journal, section.connection(), self._message)
        self._gatherer = self._started_gatherer()
        self._restate_at = time.monotonic() + section.restate_every
        self._check_at = 0.0
        self._newest_ms = 0
        """The time of the newest row that was sent."""
        self._dropped = self._restated = 0

    def run_once(self) -> None:
        """Forwards what is published, and does what is due: called in a loop.

        Raises:
            JournalError: the journal cannot be read or written.
        """
        self._forwarder.forward(_FORWARD_S)
        now = time.monotonic()
        if now >= self._check_at:
            self._check_at = now + _CHECK_S
            if self._journal.takes_more(self._journal.committed_end(), self._section.buffer_bytes):
                self._give_up(
                    f"the topic has accepted no rows for so long that more than buffer_bytes "
                    f"({self._section.buffer_bytes}) wait"
                )
                return
            if self._clock_went_back():
                self._give_up("the clock of this host went back: what waits has times in the future")
                return
        if now >= self._restate_at:
            self._restate(give_up=False)

    def stop(self) -> None:
        """Stops the gatherer and sends its last rows."""
        self._gatherer.stop()
        self._forwarder.close(_LAST_ROWS_S)

    def restate_soon(self) -> None:
        """Makes the next `run_once` read every log again from its start."""
        self._restate_at = 0.0

    def sources(self) -> RelaySources:
        """Returns what /metrics and /healthz read."""
        return RelaySources(
            clusters=tuple(self._clusters),
            counts=self._forwarder.counts,
            waiting_rows=lambda: self._forwarder.waiting_rows,
            dropped_rows=lambda: self._dropped,
            restated=lambda: self._restated,
            gatherer_runs=lambda: self._gatherer.alive,
            gatherer_stalled_s=lambda: self._gatherer.loop_stalled_s,
        )

    def _prepared(self) -> Numberings:
        """Returns the numberings, stored before the first row that needs them is written."""
        now_ms = wall_ms()
        before = relay_positions.usable(relay_positions.load(self._positions, self._section.topic), now_ms)
        with JournalWriter(self._folder.journal) as journal:
            added = [name for name in self._clusters if name not in before]
            if any(journal.follow_progress(name) is not None for name in added):
                # Another relay may have had the cluster meanwhile.
                journal.read_logs_again(now_ms=now_ms)
            end = journal.publish()
        after = relay_positions.with_clusters(before, self._clusters, end=end, now_ms=now_ms)
        relay_positions.save(self._positions, self._section.topic, after)
        return after

    def _message(self, row: Observation) -> RelayMessage | None:
        numbering, cluster = self._numberings.get(row.cluster), self._clusters.get(row.cluster)
        numbered = None if numbering is None else numbering.numbered(row.sequence)
        if numbered is None or cluster is None:
            return None
        sequence, baseline = numbered
        self._newest_ms = max(self._newest_ms, row.observed_at_ms)
        return RelayMessage(
            observation=replace(row, sequence=sequence), cluster_id=cluster.cluster_id or "", baseline=baseline
        )

    def _started_gatherer(self) -> GathererProcess:
        gatherer = GathererProcess(
            tuple(self._clusters.values()),
            journal=self._folder.journal,
            logs=self._folder.logs,
            journal_options={"keep_bytes": _KEEP_ACKNOWLEDGED_BYTES},
        )
        gatherer.start()
        return gatherer

    def _clock_went_back(self) -> bool:
        """Whether rows are in the future, or are numbered from a time there: no job accepts them."""
        if self._newest_ms > wall_ms() + AHEAD_MS // 2:
            return True
        return len(relay_positions.usable(self._numberings, wall_ms())) < len(self._numberings)

    def _give_up(self, why: str) -> None:
        log.error("%s: the waiting rows are given up, and every metadata log is read again", why)
        self._restate(give_up=True)

    def _restate(self, *, give_up: bool) -> None:
        """Restarts the gatherer so that it reads every log from its start: a new baseline.

        Raises:
            JournalError: the journal cannot be written.
        """
        self._gatherer.stop()
        with JournalWriter(self._folder.journal) as journal:
            now_ms = wall_ms()
            end = journal.read_logs_again(now_ms=now_ms)
            if give_up:
                self._dropped += self._forwarder.skip_to(end)
                self._newest_ms = 0
        kept = relay_positions.restated(relay_positions.usable(self._numberings, now_ms), end=end, now_ms=now_ms)
        self._numberings = relay_positions.with_clusters(kept, self._clusters, end=end, now_ms=now_ms)
        relay_positions.save(self._positions, self._section.topic, self._numberings)
        self._restated += 1
        self._restate_at = time.monotonic() + self._section.restate_every
        try:
            self._gatherer = self._started_gatherer()
        except UsageError as problem:
            raise JournalError(f"the gatherer could not be restarted: {problem}") from problem
