"""The relay: the gatherer process and its journal, from which the forwarder sends every row to a Kafka topic.

The gatherer is the one of `kraftwatch run`, with the same supervision. What the brokers do not accept stays in the
journal, up to BUFFER_BYTES. If that is not enough, the rows are given up and every metadata log is read again
from its start: polls of that time are missing then, but no record.

Two relays of the same clusters are a pair: both gather, one writes (`connectors.relay.relayed_cluster`).
"""

import logging
import re
import secrets
import signal
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

from flask import Blueprint

from connectors.errors import JournalError, UsageError
from connectors.kafka.cluster_connection import ClusterConnection
from connectors.kafka.cluster_id_lookup import identify
from connectors.process.signals import STOP, SignalFlag
from connectors.process.wall_clock import wall_ms
from connectors.relay.forwarder import Forwarder
from connectors.relay.relay_message import TopicError
from connectors.relay.topic_client import check_settings
from connectors.store.durable_file import private_files
from connectors.store.journal_reader import JournalReader
from connectors.store.journal_writer import JournalWriter
from rules.firing import AHEAD_MS
from rules.formatting import and_join
from streaming.config import Config, host_port
from streaming.config.relay_section import BASELINE_EVERY_MS, RelaySection
from streaming.job import logging_setup
from streaming.job.cluster_identity import identify_clusters, record_ids
from streaming.job.dependencies import DependencyQuestion
from streaming.job.gatherer_process import GathererProcess
from streaming.metrics.metric_spec import metrics_endpoint
from streaming.metrics.otlp import OtlpExport
from streaming.metrics.relay_metrics import RelayNow, relay_health, relay_registry
from streaming.pipeline.checkpoint import Checkpoint
from streaming.pipeline.checkpoint_source import RELAY, CheckpointSource, record_source, require_source
from streaming.web.application import JobHealth, health_endpoints
from streaming.web.server import Server
from streaming.web.witness_reports import witness_reports

log = logging.getLogger(__name__)

_FORWARD_S = 1.0
_CHECK_S = 5.0
_LAST_ROWS_S = 10.0
_RESTATE_AGAIN_S = 60.0
BUFFER_BYTES = 1024**3
"""Of rows that wait for the brokers: a small disk suffices."""
_KEEP_ACKNOWLEDGED_BYTES = 16 * 1024 * 1024


def run_relay(config: Config, *, say: Callable[[str], None]) -> None:
    """Runs the relay until SIGINT or SIGTERM; `say` prints progress on the terminal."""
    if config.relay is None:
        raise UsageError("relay is missing in the configuration: add relay with the bootstrap and topic to write to")
    section = config.relay.of_one_topic([one.name for one in config.watched])
    try:
        check_settings(section)
    except TopicError as problem:
        raise UsageError(f"relay: {problem}") from None
    target = config.otlp_target()
    if target is not None:
        target.check()
    folder = Checkpoint(folder=section.folder.absolute())
    with ExitStack() as stack:
        stack.enter_context(private_files())
        stop = stack.enter_context(SignalFlag(*STOP))
        stack.enter_context(folder.held())
        wanted = CheckpointSource(kind=RELAY, relay=_new_name())
        source = require_source(folder, wanted)
        folder.check_observations()
        found = _identified(config, folder)
        record_source(folder, source)
        logging_setup.log_to(folder.logs, config.log_format)
        restate = stack.enter_context(SignalFlag(signal.SIGHUP))
        server = None
        if config.listen is not None:
            address, access, since = host_port(config.listen), config.page_access(), time.monotonic()
            waits = partial(_waits_for_clusters, since)
            server = stack.enter_context(Server(address, [health_endpoints(waits)], access=access))
        while not stop.is_set():
            if found.answering:
                relay = Relay(section, folder, found.answering, source.relay, restate)
                _run(relay, config, found, server=server, stop=stop, say=say)
            else:
                stop.wait(_FORWARD_S)
            if found.answers:
                found = _identified(config, folder)


def _waits_for_clusters(since: float) -> JobHealth:
    return JobHealth(since=since, waits_for={"clusters": time.monotonic() - since})


def _run(
    relay: "Relay",
    config: Config,
    found: "_Found",
    *,
    server: Server | None,
    stop: SignalFlag,
    say: Callable[[str], None],
) -> None:
    """Runs a relay until it is to stop, or another cluster answers."""
    with ExitStack() as stack:
        stack.callback(relay.stop)
        exported = relay_registry(relay.now)
        if server is not None:
            server.show([relay_health(relay.now), metrics_endpoint(exported), relay.reports()])
        stack.enter_context(OtlpExport(exported, config.otlp_target, service="kraftwatch-relay"))
        relay.say(say)
        while not stop.is_set() and not found.answers:
            relay.run_once()


class _Found:
    """The clusters of a relay: those with an id, which it relays, and new ones that do not answer yet."""

    def __init__(self, answering: Mapping[str, ClusterConnection], silent: Sequence[ClusterConnection]) -> None:
        self.answering = answering
        self._answer = DependencyQuestion(lambda: and_join([*identify_clusters(silent, {}, identify).ids]) or None)
        self._silent = silent

    @property
    def answers(self) -> bool:
        """Whether one of the silent ones answers now. Never blocks."""
        return bool(self._silent) and self._answer.answer() is not None


def _identified(config: Config, folder: Checkpoint) -> _Found:
    """Returns the clusters with their ids. The folder records the ids: a restart needs no answer of a cluster."""
    clusters = [section.cluster() for section in config.watched]
    recorded = folder.cluster_ids()
    answered = identify_clusters(clusters, recorded, identify)
    answered.require_start(clusters, recorded)
    for name, problem in answered.unavailable.items():
        log.warning("%s: it is relayed once it answers", problem, extra={"cluster": name})
    ids = record_ids(folder, recorded, answered)
    return _Found(
        {one.name: replace(one, cluster_id=ids[one.name]) for one in clusters if one.name in answered.ids},
        [one for one in clusters if one.name in answered.unavailable],
    )


class Relay:
    """The running relay of one folder."""

    def __init__(
        self,
        section: RelaySection,
        folder: Checkpoint,
        clusters: Mapping[str, ClusterConnection],
        name: str,
        restate: SignalFlag,
        *,
        buffer_bytes: int = BUFFER_BYTES,
    ) -> None:
        """Starts the gatherer of these clusters (by name, with their ids)."""
        self._buffer_bytes = buffer_bytes
        self._section = section
        self._folder = folder
        self._clusters = clusters
        with JournalWriter(folder.journal):
            # A reader needs an existing journal.
            self._journal = JournalReader(folder.journal)
        self._ids = {name: connection.cluster_id or "" for name, connection in clusters.items()}
        self._forwarder = Forwarder(self._journal, section, self._ids, name)
        self._gatherer = self._started_gatherer()
        self.restate = restate
        """Makes the next `run_once` read every log again from its start."""
        self._restate_not_before = self._check_at = 0.0
        self._dropped = self._restated = 0

    def say(self, say: Callable[[str], None]) -> None:
        """Prints what is relayed, and where to."""
        topic, bootstrap = self._section.topic, ", ".join(self._section.bootstrap)
        say(f"relaying {', '.join(self._clusters)} to the topic {topic} at {bootstrap}")
        for name, cluster in self._clusters.items():
            say(f"  {name}: cluster id {cluster.cluster_id}")

    def run_once(self) -> None:
        """Forwards what is published, and does what is due: called in a loop."""
        logging_setup.rotate_child_logs(self._folder.logs)
        self._forwarder.forward(_FORWARD_S)
        now = time.monotonic()
        if now < self._check_at and not self._forwarder.needing_baseline and not self.restate.is_set():
            return
        self._check_at = now + _CHECK_S
        if self._journal.takes_more(self._journal.committed_end(), self._buffer_bytes):
            self._give_up(f"the topic has accepted no rows for so long that more than {self._buffer_bytes} bytes wait")
        elif self._forwarder.newest_ms > wall_ms() + AHEAD_MS // 2:
            self._give_up("the clock of this host went back: what waits has times in the future")
        elif (why := self._why_restate()) is not None and now >= self._restate_not_before:
            log.info("every metadata log is read again: %s", why)
            self._restate(give_up=False)

    def _why_restate(self) -> str | None:
        forwarder = self._forwarder
        if forwarder.needing_baseline:
            return f"the topic does not have the whole log of {', '.join(sorted(forwarder.needing_baseline))}"
        if forwarder.gaps:
            missing = ", ".join(f"{offsets} of {name}" for name, offsets in forwarder.gaps.items())
            return f"the topic lacks {missing}"
        if self.restate.is_set():
            return "SIGHUP was received"
        oldest_ms = forwarder.oldest_baseline_ms
        if oldest_ms is not None and wall_ms() - oldest_ms >= BASELINE_EVERY_MS:
            return "the newest baseline is an hour old"
        return None

    def stop(self) -> None:
        """Stops the gatherer and sends its last rows."""
        self._gatherer.stop()
        self._forwarder.close(_LAST_ROWS_S)

    def reports(self) -> Blueprint:
        """Returns the path at which the hosts of nodes report what they see."""
        forwarder = self._forwarder
        # A restart replaces the gatherer.
        return witness_reports(self._ids, lambda: forwarder.written, lambda *row: self._gatherer.report_witness(*row))

    def now(self) -> RelayNow:
        """Returns what /metrics and /healthz show."""
        return RelayNow(
            clusters=tuple(self._clusters),
            forwarder=self._forwarder,
            dropped_rows=self._dropped,
            restated=self._restated,
            gatherer_runs=self._gatherer.alive,
            gatherer_stalled_s=self._gatherer.loop_stalled_s,
        )

    def _started_gatherer(self) -> GathererProcess:
        gatherer = GathererProcess(
            tuple(self._clusters.values()),
            journal=self._folder.journal,
            logs=self._folder.logs,
            keep_bytes=_KEEP_ACKNOWLEDGED_BYTES,
        )
        gatherer.start()
        return gatherer

    def _give_up(self, why: str) -> None:
        log.error("%s: the waiting rows are given up, and every metadata log is read again", why)
        self._restate(give_up=True)

    def _restate(self, *, give_up: bool) -> None:
        """Restarts the gatherer so that it reads every log from its start: a new baseline."""
        self._gatherer.stop()
        if give_up or self._forwarder.drain(_LAST_ROWS_S):
            with JournalWriter(self._folder.journal) as journal:
                end = journal.read_logs_again(now_ms=wall_ms())
            skipped = self._forwarder.begin_baselines(end)
            self._restated += 1
            self.restate.clear()
            if give_up:
                self._dropped += skipped
                self._forwarder.newest_ms = 0
        else:
            self._restate_not_before = time.monotonic() + _RESTATE_AGAIN_S
        try:
            self._gatherer = self._started_gatherer()
        except UsageError as problem:
            raise JournalError(f"the gatherer could not be restarted: {problem}") from problem


def _new_name() -> str:
    host = re.sub(r"[^A-Za-z0-9.-]", "-", socket.gethostname())[:60] or "relay"
    return f"{host}-{secrets.token_hex(4)}"
