"""What a survey finds in a relay's topic, and the error of a topic that cannot be used. Without Kafka's library."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from connectors.errors import KraftwatchError
from connectors.relay.relay_message import Baseline


class TopicError(KraftwatchError):
    """The topic cannot be used now. The sentence holds no secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SurveyedCluster:
    """What the topic has of one cluster."""

    partition: int
    cluster_id: str
    baseline: Baseline
    """That of most of the newest rows."""
    begins_at: int
    """The partition's offset from which on all rows of the baseline follow."""
    whole: bool
    """Whether the topic still has the first rows of the baseline."""
    newest_baseline: int
    """The highest sequence of a baseline of this cluster: a later one has not begun yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSurvey:
    """The surveyed clusters of a topic, by name."""

    partitions: int
    clusters: Mapping[str, SurveyedCluster]
    from_start: bool = True
    """Whether each partition still has its first message."""
    append_time: bool | None = None
    """Whether the brokers set the time of a message; None for a topic without messages."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Why a row was refused, by the cluster that its key names."""

    def starting_offsets(self) -> Mapping[int, int]:
        """Returns the offset to begin at, by partition; -1 (the end) for a partition without a cluster."""
        offsets = dict.fromkeys(range(self.partitions), -1)
        for one in self.clusters.values():
            before = offsets[one.partition]
            offsets[one.partition] = one.begins_at if before < 0 else min(before, one.begins_at)
        return offsets


def append_time_advice(topic: str) -> str:
    """Returns what to do about a topic whose messages have the time of their producer."""
    return (
        f"the topic {topic} takes the times of its messages from their producers, which a job cannot trust: set "
        "message.timestamp.type=LogAppendTime of the topic"
    )
