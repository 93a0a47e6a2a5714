"""The survey of a relay's topic before a job reads it: which clusters it has, their ids, and where each log begins.

It reads the newest messages of each partition. A relay writes several rows a second for each cluster, so that they have
every cluster whose relay runs.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, Message

from connectors.errors import UndecodableError
from connectors.relay.relay_message import Baseline, SurveyedCluster, TopicSurvey
from connectors.relay.topic_client import Progress, TopicReader, accepted, reading
from connectors.settings.sections import TopicSection
from rules.formatting import plural

_NEWEST_MESSAGES: Final = 5_000
"""How many messages of a partition are read: seconds of a thousand clusters."""
_POLL_S: Final = 0.2


@dataclass(slots=True, kw_only=True)
class _Survey:
    baselines: dict[str, Counter[tuple[int, str, Baseline]]] = field(default_factory=lambda: defaultdict(Counter))
    """By cluster: how many messages have this partition, cluster id and baseline."""
    append_time: bool | None = None
    refused: dict[str, str] = field(default_factory=dict)


def survey_topic(
    topic: TopicSection,
    clusters: Mapping[str, str | None],
    *,
    within_s: float,
    say: Callable[[str], None] = lambda _: None,
) -> TopicSurvey:
    """Surveys clusters; one that has no message among the newest ones within the time is left out.

    A few messages that another program writes do not change the result: the baseline of most rows counts.

    `clusters`: their names, and their ids if they are known: rows of another id do not count. `say` prints progress.

    Raises UsageError if a secret cannot be read, TopicError if the topic cannot be read.
    """
    until, newest, progress = time.monotonic() + within_s, _Survey(), Progress(topic.topic, say)
    with reading(topic, within_s) as reader:
        begins = {number: max(low, high - _NEWEST_MESSAGES) for number, (low, high) in reader.bounds.items()}
        while True:
            for message in reader.messages(begins):
                _count(newest, message, clusters)
                progress(f"it has rows of {len(newest.baselines)} of {len(clusters)} clusters")
            if clusters.keys() <= newest.baselines.keys() or time.monotonic() >= until:
                break
            # A relay that has just been started writes its first rows meanwhile.
            progress(f"waiting for rows of {plural(len(clusters.keys() - newest.baselines.keys()), 'cluster')}")
            begins = {number: high for number, (_, high) in reader.bounds.items()}
            time.sleep(_POLL_S)
            reader.find_bounds()
        found: dict[str, SurveyedCluster] = {}
        for name, counted in newest.baselines.items():
            found[name] = _surveyed(reader, counted)
            progress(f"the first rows of {len(found)} of {len(newest.baselines)} clusters are found")
        return TopicSurvey(
            ends={number: high for number, (_, high) in reader.bounds.items()},
            clusters=found,
            append_time=newest.append_time,
            refused=newest.refused,
        )


def _count(found: _Survey, message: Message, wanted: Mapping[str, str | None]) -> None:
    found.append_time = message.timestamp()[0] == TIMESTAMP_LOG_APPEND_TIME
    name = (message.key() or b"").decode(errors="replace")
    if name not in wanted:
        return
    try:
        read = accepted(message, wanted[name])
    except UndecodableError as problem:
        found.refused[name] = str(problem)
        return
    found.baselines[name][message.partition(), read.cluster_id, read.baseline] += 1


def _surveyed(reader: TopicReader, found: Counter[tuple[int, str, Baseline]]) -> SurveyedCluster:
    """Returns the most frequent baseline that is still whole; the most frequent one if none is."""
    newest = max(baseline.sequence for _, _, baseline in found)
    first: SurveyedCluster | None = None
    for (partition, cluster_id, baseline), _ in found.most_common():
        begins_at, whole = reader.place_of_baseline(partition, baseline)
        one = SurveyedCluster(
            partition=partition,
            cluster_id=cluster_id,
            baseline=baseline,
            begins_at=begins_at,
            whole=whole,
            newest_baseline=newest,
        )
        if whole:
            return one
        first = first or one
    assert first is not None, "a cluster is found with at least one message"
    return first
