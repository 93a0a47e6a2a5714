"""The configuration of the relay: the topic of observations, the relay's folder, and how the job reads the topic."""

from collections.abc import Collection, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from pydantic import Field

from connectors.errors import UsageError
from connectors.relay.relay_message import RecordedTopic
from connectors.settings.sections import Bootstrap, LocalFolder, TopicName, TopicSection

BASELINE_EVERY_MS = 3_600_000
"""How often a relay writes each metadata log from its start or snapshot: what a job that starts has to read back."""


class RelaySection(TopicSection):
    """The topic that `kraftwatch relay` writes, and that a job with `source: kafka` reads."""

    bootstrap: Bootstrap
    """HOST:PORT of brokers, preferably of a cluster that is not monitored: it should answer while a quorum fails."""
    topic: TopicName = "kraftwatch-observations"
    """The topic of observations, keyed by cluster."""
    topics: Mapping[str, TopicName] = Field(default_factory=dict)
    """PATTERN: TOPIC, for clusters with a topic of their own; the first pattern that matches their name wins."""
    create: bool = False
    """`true` creates a missing topic with 4 partitions, 7 days of retention and messages of up to 16 MiB."""
    folder: LocalFolder = Path("kraftwatch-relay")
    """Relay: the folder of what the topic lacks, at most 1 GiB. Keep it: a restart continues from it. Each relay has
    its own."""

    def topic_of(self, cluster: str) -> str:
        """Returns the topic of a cluster's rows."""
        return next((topic for pattern, topic in self.topics.items() if fnmatchcase(cluster, pattern)), self.topic)

    def of_one_topic(self, clusters: Collection[str]) -> "RelaySection":
        """Returns the section of a relay of these clusters, whose `topic` is theirs.

        Raises:
            UsageError: they have several topics.
        """
        topics = {self.topic_of(name): name for name in clusters}
        if len(topics) > 1:
            each = ", ".join(f"{name} in {topic}" for topic, name in topics.items())
            raise UsageError(
                f"relay: a relay writes to one topic, and its clusters have several ({each}): start one relay for each "
                "topic, with --only and a --folder of its own"
            )
        return self.model_copy(update={"topic": next(iter(topics), self.topic), "topics": {}})

    def recorded_topics(self, clusters: Mapping[str, str | None]) -> Sequence[RecordedTopic]:
        """Returns the topics with the rows of these clusters; `clusters`: their ids, if they are known, by name."""
        topics = {self.topic_of(name) for name in clusters}
        return [
            RecordedTopic(
                connection=self.with_topic(topic),
                clusters={name: one for name, one in clusters.items() if self.topic_of(name) == topic},
            )
            for topic in sorted(topics)
        ]

    def with_topic(self, topic: str) -> "RelaySection":
        """Returns the section with another topic."""
        return self.model_copy(update={"topic": topic})
