"""Start-up in phases: open the sinks, identify the clusters, prepare the checkpoint; then the job starts.

Each phase either completes or raises a UsageError before anything in the checkpoint is overwritten.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from connectors.errors import UnavailableStoreError, UnwritableStoreError, UsageError
from connectors.kafka.cluster_id_lookup import identify
from connectors.process.signals import SignalFlag
from connectors.sinks.sink import Sink
from connectors.sinks.sink_config import SinkSection
from connectors.store.database import Database
from streaming.config import Config
from streaming.config.sentences import shown
from streaming.job.cluster_identity import ClusterIds, UnavailableClusterError, identify_clusters, record_ids
from streaming.job.dependencies import Dependencies, Dependency
from streaming.job.running import Effective, JobSpec, OpenSinks
from streaming.job.spark_state import set_state_aside
from streaming.job.topic_input import identify_in_topics
from streaming.pipeline.checkpoint import Checkpoint
from streaming.pipeline.checkpoint_source import KAFKA, CheckpointSource, require_source

_RETRY_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StartUp:
    """What the phases before the start have established."""

    effective: Effective
    set_aside: str | None
    """Why Spark begins with a new state, as a sentence; None: it continues, or begins for the first time."""
    silent: Sequence[str] = ()
    """Of each new cluster that does not answer yet, and is monitored without an id: the sentence that says so."""
    waiting: Sequence[str] = ()
    """The new clusters whose relay has sent nothing yet: they are configured, and not monitored."""
    unavailable: Sequence[str] = ()
    """For each of these: the sentence that says so."""


def prepare(
    config: Config, checkpoint: Checkpoint, *, may_wait: bool, stop: SignalFlag, dependencies: Dependencies
) -> StartUp:
    """Runs the phases before the start; the checkpoint is locked by this process.

    `may_wait`: a new cluster whose relay has sent nothing may be left out and added by a later reload of the
    configuration, provided that another cluster is available.
    """
    spec = JobSpec.of(config)
    sinks = open_sinks(config, ())
    recorded = checkpoint.cluster_ids()
    _check_files(config, checkpoint)
    why = checkpoint.why_no_state(config.pipeline.partitions)
    silent: Sequence[str] = ()
    unavailable: Mapping[str, UnavailableClusterError] = {}
    if config.source != KAFKA:
        answered = identify_clusters(spec.clusters, recorded, identify)
        answered.require_start(spec.clusters, recorded)
        silent = [str(problem) for problem in answered.unavailable.values()]
    else:
        answered = _found_in_topics(
            config,
            checkpoint,
            new_state=why is not None,
            may_start_with_some=may_wait and bool(recorded),
            stop=stop,
            dependencies=dependencies,
        )
        if unavailable := answered.unavailable:
            # One unavailable cluster is no reason to stop monitoring all others: nobody may be present at a restart.
            config = config.without(unavailable)
            spec = JobSpec.of(config)
    identified = spec.with_ids(record_ids(checkpoint, recorded, answered))
    # Last: what refuses the start must not cost the state.
    set_aside = None if why is None else set_state_aside(checkpoint, why)
    return StartUp(
        effective=Effective(config=config, open_sinks=sinks, spec=spec, identified=identified),
        set_aside=set_aside,
        silent=silent,
        waiting=[*unavailable],
        unavailable=[str(problem) for problem in unavailable.values()],
    )


def _found_in_topics(
    config: Config,
    checkpoint: Checkpoint,
    *,
    new_state: bool,
    may_start_with_some: bool,
    stop: SignalFlag,
    dependencies: Dependencies,
) -> ClusterIds:
    """Returns what the relays' topics have of the clusters; waits for all, or for one if it may start with some."""
    while True:
        answered = identify_in_topics(config, checkpoint, new_state=new_state, say=dependencies.say)
        if not answered.unavailable or (may_start_with_some and answered.ids):
            dependencies.found(Dependency.TOPIC)
            return answered
        if answered.mistakes:
            raise answered.mistakes[0]
        first = next(iter(answered.unavailable.values()))
        dependencies.missing(Dependency.TOPIC, str(first))
        if stop.wait(_RETRY_S):
            raise first


def _check_files(config: Config, checkpoint: Checkpoint) -> None:
    """Raises UsageError if the checkpoint belongs to another source, or one of its databases is damaged."""
    if config.store is None:
        checkpoint.check_database()
    if config.source != KAFKA:
        require_source(checkpoint, CheckpointSource())
        checkpoint.check_observations()


def open_sinks(config: Config, opened: OpenSinks) -> OpenSinks:
    """Returns the configured sinks; one that is in `opened`, and whose configuration is unchanged, stays open.

    Raises UsageError if a sink cannot be opened: the sentence begins with its position, such as `sinks.0`.
    """

    def sink(at: int, section: SinkSection) -> Sink:
        known = next((one for *before, one in opened if before == [section, config.links]), None)
        try:
            return known or section.open(config.links, config.store_place)
        except UsageError as problem:
            raise UsageError(f"sinks.{at}: {shown(str(problem))}") from None
        except Exception as problem:
            why = f"{section.kind} cannot be opened ({type(problem).__name__}): correct its keys"
            raise UsageError(f"sinks.{at}: {why}") from problem

    return [(entry.section, config.links, sink(at, entry.section)) for at, entry in enumerate(config.sinks)]


def created(database: Database, stop: SignalFlag, dependencies: Dependencies) -> Database:
    """Returns the database with its tables; waits while its server does not answer and the job does not stop."""
    while True:
        try:
            database.create()
        except UnwritableStoreError:
            raise
        except UnavailableStoreError as problem:
            dependencies.missing(Dependency.STORE, str(problem))
            if stop.wait(_RETRY_S):
                raise
        else:
            dependencies.found(Dependency.STORE)
            return database
