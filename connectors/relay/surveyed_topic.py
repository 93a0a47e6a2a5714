"""What a survey finds in a relay's topic, and the error of a topic that cannot be used. Without Kafka's library."""

from collections.abc import Mapping
from dataclasses import dataclass

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
    """The newest one."""
    begins_at: int
    """The partition's offset from which on all rows of the baseline follow."""
    whole: bool
    """Whether the topic still has the first rows of the baseline."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSurvey:
    """The surveyed clusters of a topic, by name."""

    partitions: int
    clusters: Mapping[str, SurveyedCluster]

    def starting_offsets(self) -> Mapping[int, int]:
        """Returns the offset to begin at, by partition; -1 (the end) for a partition without a cluster."""
        offsets = dict.fromkeys(range(self.partitions), -1)
        for one in self.clusters.values():
            before = offsets[one.partition]
            offsets[one.partition] = one.begins_at if before < 0 else min(before, one.begins_at)
        return offsets
