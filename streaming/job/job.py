"""The main job: gatherer and recorder on a leash, the journal as a Spark stream, decode, step, deliver.

A changed configuration is put in force while it runs. What the driver alone knows (sinks, maintenance) is swapped
there; what the step or the gatherer were given goes to a query or a gatherer that is started again where the one
before it left off: Spark's session, the checkpoint and the ledger stay.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack

from pyspark.sql import SparkSession

from connectors.delivery.dispatcher import Delivery
from connectors.delivery.ledger import Ledger
from connectors.delivery.silence_store import SilenceFile
from connectors.errors import UsageError
from connectors.kafka.cluster_id_lookup import identify
from connectors.sinks.sink import Sink
from connectors.sinks.sink_config import Wanted
from connectors.sinks.sink_factory import open_sink
from rules.model.identifiers import Millis
from rules.notifications.route import OWN
from rules.notifications.silence import Silence
from streaming.config import Config, host_port
from streaming.config.maintenance_window import AUTHOR, in_force
from streaming.config.reload import ConfigFile, refuse_fixed
from streaming.data_quality.audit_scheduler import Sampler
from streaming.job import logging_setup
from streaming.job.cluster_identity import call_roll
from streaming.job.gatherer_process import Gatherer
from streaming.job.job_spec import Watched
from streaming.job.signals import StopSignal
from streaming.metrics.batch_stats import Witness
from streaming.metrics.exporter import metrics
from streaming.metrics.heartbeat import Heartbeat, Rhythm
from streaming.metrics.job_metrics import Sources
from streaming.pipeline.checkpoint import Checkpoint
from streaming.pipeline.deliver import Deliver, Quarantine
from streaming.pipeline.query import JobError, Query, quietly
from streaming.pipeline.spark_session import session
from streaming.pipeline.step import Step
from streaming.status.status_store import Fleet
from streaming.web.api import api
from streaming.web.fleet_view import Dossiers
from streaming.web.health import Pulse, health
from streaming.web.pages import pages
from streaming.web.server import Server

Say = Callable[[str], None]
"""Tells the person at the terminal what happens, on stderr."""


def run(config: Config, *, say: Say, file: ConfigFile | None = None) -> None:
    """Watch until told to stop (SIGINT, SIGTERM). Returns when stopped in good order.

    Args:
        config: what is in force at first.
        say: for the person at the terminal.
        file: where a new configuration comes from while the job runs, if from anywhere.

    Raises:
        UsageError: something given cannot be; nothing was overwritten.
        JobError: the query failed.
    """
    checkpoint = Checkpoint(folder=config.checkpoint.absolute())
    with ExitStack() as stack:
        stop = stack.enter_context(StopSignal())
        stack.enter_context(checkpoint.held())
        if file is not None:
            stack.enter_context(file)
        job = Job(config, checkpoint, stack, file)
        say(f"gathering from {_names(job.config)}; starting Spark")
        pulse = Pulse(last_batch_at=lambda: job.deliver.last_batch_at, gathers=lambda: job.gatherer.alive)
        heartbeat = stack.enter_context(Heartbeat(job.heartbeat, well=lambda: pulse.well))
        stack.enter_context(job.sampler())
        if config.listen is not None:
            shown = Dossiers(fleet=job.fleet, silences=job.silences_of_watched)
            served = [health(pulse), metrics(job.sources(pulse, heartbeat, file)), pages(shown), api(shown)]
            stack.enter_context(Server(host_port(config.listen), served, also=job.page_url))
        spark = session(master=config.master, logs=checkpoint.logs, settings=config.spark)
        stack.callback(quietly, spark.stop)
        # Spark's context took SIGINT for itself.
        stop.arm()
        job.watch(spark)
        say(f"watching {_names(job.config)}")
        while not stop.is_set():
            try:
                job.query.wait(1)
                if file is not None:
                    file.look(job.change)
            except JobError:
                # Told to stop as a group, Java may be gone before us.
                if stop.is_set():
                    return
                raise
        job.query.stop()


class Job:
    """What is in force, and everything that runs by it."""

    query: Query
    """There once it watches."""

    def __init__(self, config: Config, checkpoint: Checkpoint, stack: ExitStack, file: ConfigFile | None) -> None:
        """Open everything but Spark; `stack` closes it.

        A checkpoint that knows clusters already waits for none that is new: it comes in by the file's next look.

        Raises:
            UsageError: something given cannot be; nothing was overwritten.
        """
        self._checkpoint = checkpoint
        watched = Watched.of(config)
        # Opened before anything is written: a sink that cannot be is a mistake in the configuration.
        self._sinks = self._opened(config, ())
        recorded = checkpoint.cluster_ids()
        checkpoint.check_journal()
        called = call_roll(watched.clusters, recorded, identify)
        if file is None or not (recorded and called.ids):
            called.complete()
        if called.absent:
            # The trouble of one is no reason to leave all others unwatched: nobody sits before it at a restart.
            config = config.without(called.absent)
            watched = Watched.of(config)
        self.config = config
        """What is in force."""
        ids = {**recorded, **called.ids}
        checkpoint.record_cluster_ids(ids)
        self._asked = watched
        self._watched = watched.identified(ids)
        logging_setup.direct(checkpoint.logs)
        stack.enter_context(logging_setup.bounded(checkpoint.logs))
        if called.absent and file is not None:
            file.wait_for("; ".join(map(str, called.absent.values())), meanwhile="the others are watched")
        self.gatherer = self._gathering()
        stack.callback(lambda: self.gatherer.stop())
        self.ledger = Ledger(checkpoint.ledger)
        stack.callback(self.ledger.close)
        self.fleet = Fleet([section.name for section in config.watched])
        self.witness = Witness(firing=self.ledger.firing)
        self._silences = SilenceFile(checkpoint.silences)
        self._delivery = Delivery(self.ledger, _sinks(self._sinks), silences=self.silences)
        self.deliver = Deliver(
            self._delivery,
            Quarantine(checkpoint.quarantine),
            fleet=self.fleet,
            # The gatherer of the moment: a change of clusters brings another.
            expect=lambda cluster, due_ms: self.gatherer.expect(cluster, due_ms),
            ended=self.witness.take,
            history=self.ledger.history,
        )

    def sampler(self) -> Sampler:
        """Holds samples of what is recorded against the data contracts, as often as is configured now."""
        return Sampler(
            journal=self._checkpoint.journal,
            ledger=self._checkpoint.ledger,
            portraits=self.fleet.portraits,
            record=lambda cluster, audited: self.gatherer.record(cluster, audited),
            every_s=lambda: self.config.audit_every,
        )

    def page_url(self) -> str | None:
        """How people reach the page, where that is configured."""
        return self.config.page_url

    def heartbeat(self) -> Rhythm | None:
        """The dead-man heartbeat that is configured now."""
        section = self.config.heartbeat
        return None if section is None else section.rhythm()

    def sources(self, pulse: Pulse, heartbeat: Heartbeat, file: ConfigFile | None) -> Sources:
        """Where /metrics looks."""
        checkpoint = self._checkpoint
        return Sources(
            fleet=self.fleet,
            witness=self.witness,
            well=lambda: pulse.well,
            gathers=pulse.gathers,
            journal=checkpoint.journal,
            quarantine=checkpoint.quarantine,
            stats=checkpoint.logs / "gather-stats.json",
            beats=lambda: heartbeat.beats,
            config=file,
        )

    def silences(self, now_ms: Millis) -> Sequence[Silence]:
        """What people need not be told now: as below, and of clusters no longer watched.

        For the thread that delivers: the ledger is its alone.
        """
        firing = {alert.cluster for alert in self.ledger.firing()}
        gone = firing - {section.name for section in self.config.watched} - {OWN}
        return (*self.silences_of_watched(now_ms), *(_unwatched(cluster, now_ms) for cluster in sorted(gone)))

    def silences_of_watched(self, now_ms: Millis) -> Sequence[Silence]:
        """By `kraftwatch silence` and in maintenance; for any thread."""
        return (*self._silences.newest(), *in_force(self.config.windows(), now_ms))

    def watch(self, spark: SparkSession) -> None:
        """Start the query.

        Raises:
            JobError: Spark does not start it.
        """
        self.query = Query(spark, self._checkpoint, self.deliver)
        self.query.start(Step(self._watched.settings))

    def change(self, config: Config) -> Sequence[str]:
        """Put another configuration in force; which of its keys differ. What it leaves as it was runs on untouched.

        Raises:
            UsageError: something in it cannot be; the one before it stays in force, whole.
            JobError: what has to be started again does not start.
        """
        before = self.config
        refuse_fixed(before, config)
        asked = Watched.of(config)
        recorded = self._checkpoint.cluster_ids()
        ids = {**recorded, **call_roll(asked.besides(self._asked), recorded, identify).complete()}
        sinks = self._opened(config, self._sinks)
        with self.deliver.between_batches():
            self._delivery.tell_these(_sinks(sinks))
        # From here on nothing is refused, except by the machine.
        self._checkpoint.record_cluster_ids(ids)
        self.config, self._asked, self._sinks = config, asked, sinks
        self.fleet.watch([section.name for section in config.watched])
        self._watch_these(asked.identified(ids))
        return [key for key in Config.model_fields if getattr(before, key) != getattr(config, key)]

    def _watch_these(self, watched: Watched) -> None:
        before, self._watched = self._watched, watched
        step_changes = watched.settings != before.settings
        if step_changes:
            self.query.stop()
        if watched.clusters != before.clusters:
            self.gatherer.stop()
            try:
                self.gatherer = self._gathering()
            except UsageError as problem:
                raise JobError(f"the gatherer does not start again: {problem}") from problem
        if step_changes:
            self.query.start(Step(watched.settings))

    def _opened(self, config: Config, opened: Sequence[tuple[Wanted, Sink]]) -> Sequence[tuple[Wanted, Sink]]:
        """Each sink beside what wants it; one that is wanted as before stays the same."""

        def sink(wanted: Wanted) -> Sink:
            known = next((one for before, one in opened if before == wanted), None)
            return known or open_sink(wanted, memory=self._checkpoint.folder)

        return [(wanted, sink(wanted)) for wanted in config.wanted()]

    def _gathering(self) -> Gatherer:
        gatherer = Gatherer(self._watched.clusters, journal=self._checkpoint.journal, logs=self._checkpoint.logs)
        gatherer.start()
        return gatherer


def _unwatched(cluster: str, now_ms: Millis) -> Silence:
    """Its alerts go on when it is watched again; until then nobody can know whether they are still true."""
    return Silence(
        id=f"not-watched-{cluster}",
        cluster=cluster,
        starts_at_ms=now_ms,
        ends_at_ms=Millis(now_ms + 60_000),
        author=AUTHOR,
        comment="this cluster is no longer watched",
    )


def _sinks(opened: Sequence[tuple[Wanted, Sink]]) -> Sequence[Sink]:
    return [sink for _, sink in opened]


def _names(config: Config) -> str:
    names = [section.name for section in config.watched]
    return ", ".join(names) if len(names) <= 5 else f"{len(names)} clusters"
