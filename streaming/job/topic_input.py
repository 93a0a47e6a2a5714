"""The input of a job with `source: kafka`: what the relay's topic has of the clusters, and no gatherer process."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from connectors.errors import UsageError
from connectors.observation_event import ObservationsAudited
from connectors.relay.surveyed_topic import SurveyedCluster, TopicError, TopicSurvey
from rules.model.identifiers import Millis
from streaming.config import Config
from streaming.config.relay_section import RelaySection
from streaming.job.cluster_identity import ClusterIds, UnavailableClusterError
from streaming.pipeline.checkpoint import Checkpoint
from streaming.pipeline.checkpoint_source import (
    GATHERER,
    KAFKA,
    CheckpointSource,
    checkpoint_source,
    record_source,
    require_source,
    with_baselines,
)
from streaming.pipeline.kafka_source import TopicSource, kafka_settings

SURVEY_S = 15.0


class RelayedInput:
    """Takes the place of `GathererProcess`: the relay gathers, on other machines."""

    alive = True
    pid: int | None = None
    loop_stalled_s: float | None = None

    def start(self) -> None:
        """Starts nothing."""

    def stop(self) -> None:
        """Stops nothing."""

    def request_poll(self, cluster: str, due_ms: Millis) -> None:
        """Requests nothing: the next regular poll follows within a second."""

    def record(self, cluster: str, audited: ObservationsAudited) -> None:
        """Records nothing: there is no journal to audit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicStart:
    """Where a job begins in the topic."""

    ids: ClusterIds
    source: CheckpointSource
    """To be recorded in the checkpoint."""


def topic_start(config: Config, checkpoint: Checkpoint) -> TopicStart:
    """Returns the clusters' ids and where each one's rows begin. Surveys the topic for what is not recorded yet.

    Raises:
        UsageError: the checkpoint belongs to another source or cluster, or the topic cannot be read.
    """
    section = _section(config)
    source = require_source(checkpoint, CheckpointSource(kind=KAFKA, topic=section.topic))
    new = not checkpoint.spark_files.offsets
    if new:
        source = replace(source, starting_offsets={}, baselines={})
    recorded = checkpoint.cluster_ids()
    names = [one.name for one in config.watched]
    unknown = [name for name in names if name not in source.baselines or name not in recorded]
    survey = _survey(section, unknown) if unknown else TopicSurvey(partitions=0, clusters={})
    ids = {name: recorded[name] for name in names if name in source.baselines and name in recorded}
    unavailable: dict[str, UnavailableClusterError] = {}
    for name in unknown:
        if name in survey.clusters:
            ids[name] = _checked_id(config, name, recorded.get(name), survey.clusters[name].cluster_id)
        else:
            unavailable[name] = UnavailableClusterError(
                f"cluster {name}: the topic {section.topic} at {', '.join(section.bootstrap)} has no recent row of it: "
                "start its relay, or correct relay.topic"
            )
    if new:
        _require_whole(section, survey)
        source = replace(source, starting_offsets=survey.starting_offsets())
    source = with_baselines(source, _baselines(survey.clusters, new=new))
    return TopicStart(ids=ClusterIds(ids=ids, unavailable=unavailable), source=source)


def record_topic_start(checkpoint: Checkpoint, start: TopicStart) -> None:
    """Records the source in the checkpoint."""
    record_source(checkpoint, start.source)


def query_topic(config: Config, checkpoint: Checkpoint) -> TopicSource | None:
    """Returns what the query reads; None for the checkpoint's journal.

    Raises:
        UsageError: the checkpoint's source cannot be read.
    """
    if config.source != KAFKA:
        return None
    section, source = _section(config), checkpoint_source(checkpoint)
    assert source is not None, "it was recorded at the start"
    return TopicSource(
        topic=section.connection(),
        rows_per_batch=section.rows_per_batch,
        starting_offsets=source.starting_offsets,
        baselines={one.name: source.baselines[one.name] for one in config.watched if one.name in source.baselines},
    )


def spark_settings(config: Config) -> Mapping[str, str]:
    """Returns Spark's settings; those of its Kafka source where the job reads the relay's topic.

    Raises:
        UsageError: the jars of the source cannot be downloaded, or differ from their checksums.
    """
    settings = {**config.pipeline.spark_settings(), **config.spark}
    if config.source == GATHERER or config.relay is None:
        return settings
    # Imported here: a job with its own gatherer downloads nothing.
    from deploy.lab.lab_errors import LabError
    from deploy.lab.spark_jars import spark_kafka_jars

    try:
        return kafka_settings(spark_kafka_jars(config.relay.jars), settings)
    except LabError as problem:
        raise UsageError(f"source: kafka: {problem}") from None


def _section(config: Config) -> RelaySection:
    assert config.relay is not None, "the configuration requires it with source: kafka"
    return config.relay


def _survey(section: RelaySection, names: Collection[str]) -> TopicSurvey:
    # Imported here: other jobs need no library of Kafka's in this process.
    from connectors.relay.topic_survey import survey_topic

    try:
        return survey_topic(section.connection(), names, within_s=SURVEY_S)
    except TopicError as problem:
        raise UsageError(f"relay: {problem}") from None


def _checked_id(config: Config, name: str, recorded: str | None, surveyed: str) -> str:
    configured = next((one.cluster_id for one in config.watched if one.name == name), None)
    expected = recorded or configured
    if expected is not None and surveyed != expected:
        raise UsageError(
            f"cluster {name}: its relay gathers cluster {surveyed}, but this checkpoint belongs to cluster {expected}; "
            "nothing was changed: correct the relay's addresses, or give a new --checkpoint"
        )
    return surveyed


def _require_whole(section: RelaySection, survey: TopicSurvey) -> None:
    for name, one in survey.clusters.items():
        if not one.whole:
            raise UsageError(
                f"cluster {name}: the topic {section.topic} no longer has the beginning of its metadata log: set "
                f"retention.ms of the topic above relay.restate_every, and send SIGHUP to the relay"
            )


def _baselines(clusters: Mapping[str, SurveyedCluster], *, new: bool) -> Mapping[str, int]:
    """Returns the baseline that each cluster's state begins with.

    A query that has passed a cluster's baseline already begins with the next one.
    """
    return {name: one.baseline.sequence + (0 if new else 1) for name, one in clusters.items()}
