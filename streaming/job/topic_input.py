"""What the relays' topics have of the clusters, for a job with `source: kafka`."""

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from connectors.errors import UndecodableError
from connectors.observations.observation import Observation
from connectors.relay.relay_message import (
    SurveyedCluster,
    TopicError,
    TopicSurvey,
    UnansweredTopicError,
    append_time_advice,
)
from connectors.settings.sections import TopicSection
from streaming.config import Config
from streaming.config.relay_section import RelaySection
from streaming.job.cluster_identity import ClusterIds, UnavailableClusterError
from streaming.pipeline.checkpoint import Checkpoint
from streaming.pipeline.checkpoint_source import (
    KAFKA,
    CheckpointSource,
    checkpoint_source,
    is_new,
    require_source,
)
from streaming.pipeline.source import BYTES_PER_BATCH
from streaming.pipeline.topic_batch import MessageReader, TopicCluster
from streaming.pipeline.topic_files import TopicState
from streaming.pipeline.topic_source import TopicSource

if TYPE_CHECKING:
    from connectors.relay.topic_follower import TopicFollower

log = logging.getLogger(__name__)

SURVEY_S = 15.0
_SURVEYS_AT_ONCE = 32
_SAY_EVERY_S = 2.0


def identify_in_topics(
    config: Config, checkpoint: Checkpoint, *, new_state: bool = False, say: Callable[[str], None] = log.info
) -> ClusterIds:
    """Returns the clusters' ids and where each one's rows begin. Surveys the topics for what is not recorded yet.

    A topic that cannot be used concerns its own clusters only. Raises UsageError if the checkpoint belongs to another
    source.

    `new_state`: Spark begins with a new state, and so with each cluster's newest baseline. `say` prints progress.
    """
    section = _section(config)
    topics = {cluster.name: section.topic_of(cluster.name) for cluster in config.watched}
    wanted = CheckpointSource(kind=KAFKA, starting_offsets={topic: {} for topic in topics.values()})
    source = require_source(checkpoint, wanted)
    new = new_state or is_new(checkpoint, source)
    if new:
        source = replace(source, starting_offsets={}, baselines={}, uri=None)
    recorded = checkpoint.cluster_ids()
    configured = {cluster.name: cluster.cluster_id for cluster in config.watched}
    begun = source.baselines.keys() & recorded.keys()
    ids = {name: recorded[name] for name, topic in topics.items() if name in begun and topic in source.starting_offsets}
    unavailable: dict[str, UnavailableClusterError] = {}
    wanted_of: dict[str, dict[str, str | None]] = {}
    for name, topic in topics.items():
        if name not in ids:
            wanted_of.setdefault(topic, {})[name] = recorded.get(name) or configured[name]
    for topic, expected, survey in _surveys(section, wanted_of, say):
        added = topic not in source.starting_offsets
        found = {name: _started(section, topic, name, survey) for name in expected}
        clusters = {name: one for name, one in found.items() if isinstance(one, SurveyedCluster)}
        unavailable |= {name: one for name, one in found.items() if isinstance(one, UnavailableClusterError)}
        ids |= {name: cluster.cluster_id for name, cluster in clusters.items()}
        if clusters:
            assert isinstance(survey, TopicSurvey), "it has clusters"
            if added:
                source = replace(source, starting_offsets={**source.starting_offsets, topic: survey.starting_offsets()})
            baselines = _baselines(clusters, begins=added)
            source = replace(source, baselines={**source.baselines, **baselines})
    return ClusterIds(ids=ids, unavailable=unavailable, source=source)


def query_topic(config: Config, checkpoint: Checkpoint) -> TopicSource | None:
    """Returns what the query reads; None for the checkpoint's journal."""
    if config.source != KAFKA:
        return None
    source = checkpoint_source(checkpoint)
    assert source is not None, "it was recorded at the start"
    return _topic_source(config, source, checkpoint.cluster_ids())


def _topic_source(config: Config, source: CheckpointSource, ids: Mapping[str, str]) -> TopicSource:
    section = _section(config)
    return TopicSource(
        connection=section,
        starting_offsets=source.starting_offsets,
        clusters={
            cluster.name: TopicCluster(
                topic=section.topic_of(cluster.name),
                cluster_id=ids[cluster.name],
                baseline=source.baselines[cluster.name],
            )
            for cluster in config.watched
            if cluster.name in source.baselines and cluster.name in ids
        },
    )


class TopicRows:
    """The rows of relays' topics for the understudy, from each cluster's newest baseline on."""

    def __init__(self, config: Config, checkpoint: Checkpoint) -> None:
        """Connects to nothing yet."""
        self._config, self._checkpoint = config, checkpoint
        self._follower: TopicFollower | None = None
        self._row_at: dict[str, float] = {}

    @property
    def topics(self) -> TopicState | None:
        """As `UnderstudyRows.topics`."""
        # The thread that reads may close it meanwhile.
        follower = self._follower
        if follower is None:
            return None
        return TopicState(
            failing=follower.failing, read_to_end_at=follower.read_to_end_at.copy(), row_at=self._row_at.copy()
        )

    def begin(self) -> Mapping[str, bytes]:
        """As `UnderstudyRows.begin`; a topic has no state. Raises KraftwatchError if no topic can be read."""
        # Imported here: other jobs need no library of Kafka's in this process.
        from connectors.relay.topic_follower import TopicFollower

        found = identify_in_topics(self._config, self._checkpoint, new_state=True, say=log.debug)
        if not found.ids:
            raise next(iter(found.unavailable.values()))
        assert found.source is not None, "it was surveyed"
        source = _topic_source(self._config, found.source, found.ids)
        self._reader = MessageReader(source.clusters)
        self._follower = TopicFollower(source.connection, source.starting_offsets)
        self._follower.follow(
            {(topic, number): at for topic, each in source.starting_offsets.items() for number, at in each.items()}
        )
        return {}

    def read(self, timeout_s: float) -> Sequence[Observation]:
        """As `UnderstudyRows.read`; what no relay has written is left to Spark, which puts it into quarantine."""
        assert self._follower is not None, "it has begun"
        rows: list[Observation] = []
        until, size = time.monotonic() + timeout_s, 0
        while size < BYTES_PER_BATCH and (message := self._follower.poll(max(0.0, until - time.monotonic()))):
            size += len(message.value or b"")
            with suppress(UndecodableError):
                if (read := self._reader.read(message)) is not None:
                    rows.append(read.observation)
                    self._row_at[read.observation.cluster] = time.monotonic()
            if self.at_end:
                break
        return rows

    @property
    def at_end(self) -> bool:
        """As `UnderstudyRows.at_end`."""
        return self._follower is None or self._follower.at_end

    def close(self) -> None:
        """As `UnderstudyRows.close`."""
        if self._follower is not None:
            self._follower.close()
            self._follower = None


def _section(config: Config) -> RelaySection:
    assert config.relay is not None, "the configuration requires it with source: kafka"
    return config.relay


def _surveys(
    section: RelaySection, wanted: Mapping[str, Mapping[str, str | None]], say: Callable[[str], None]
) -> Iterator[tuple[str, Mapping[str, str | None], TopicSurvey | TopicError]]:
    """Yields the survey of each topic, in the order of their names; several are surveyed at once."""
    names, said_at = sorted(wanted), time.monotonic()

    def survey(topic: str) -> TopicSurvey | TopicError:
        return _survey(section.with_topic(topic), wanted[topic], say if len(names) == 1 else lambda _: None)

    with ThreadPoolExecutor(_SURVEYS_AT_ONCE, thread_name_prefix="survey") as pool:
        for number, (topic, found) in enumerate(zip(names, pool.map(survey, names), strict=True), 1):
            if time.monotonic() - said_at > _SAY_EVERY_S:
                said_at = time.monotonic()
                say(f"reading topics of relays: {number} of {len(names)}")
            yield topic, wanted[topic], found


def _survey(
    connection: TopicSection, clusters: Mapping[str, str | None], say: Callable[[str], None]
) -> TopicSurvey | TopicError:
    # Imported here: other jobs need no library of Kafka's in this process.
    from connectors.relay.topic_survey import survey_topic

    try:
        survey = survey_topic(connection, clusters, within_s=SURVEY_S, say=say)
    except TopicError as problem:
        return problem
    if survey.append_time is False:
        log.warning("%s", append_time_advice(connection.topic))
    return survey


def _started(
    section: RelaySection, topic: str, name: str, survey: TopicSurvey | TopicError
) -> SurveyedCluster | UnavailableClusterError:
    """Returns what a survey found of a cluster, or why its rows cannot be read."""
    if isinstance(survey, TopicError):
        return UnavailableClusterError(
            f"cluster {name}: relay: {survey}", may_pass=isinstance(survey, UnansweredTopicError)
        )
    found = survey.clusters.get(name)
    if found is None:
        place = f"the topic {topic} at {', '.join(section.bootstrap)}"
        refused = survey.refused.get(name)
        if refused is not None:
            return UnavailableClusterError(
                f"cluster {name}: its rows in {place} are refused: {refused}; correct its relay, or relay.topic"
            )
        return UnavailableClusterError(
            f"cluster {name}: {place} has no recent row of it: start its relay, or correct relay.topic", may_pass=True
        )
    if not found.whole:
        return UnavailableClusterError(
            f"cluster {name}: the topic {topic} no longer has the beginning of its metadata log: set retention.ms of "
            f"the topic above an hour, and send SIGHUP to the relay"
        )
    return found


def _baselines(clusters: Mapping[str, SurveyedCluster], *, begins: bool) -> Mapping[str, int]:
    """Returns the baseline that each cluster's state begins with.

    A query that has passed a cluster's baseline already begins with the next one.
    """
    return {
        name: cluster.baseline.sequence if begins else cluster.newest_baseline + 1 for name, cluster in clusters.items()
    }
