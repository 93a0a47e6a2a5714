"""A portrait: one cluster as the job sees it at the end of a micro-batch, as plain data.

It is what the page, the metrics and `/api/clusters` show: the fields of `status --json` and `replication --json`,
the partitions in recovery, and what happened lately. A job looks all the time, so `source` is `live` while a leader
answers and `journal` while none does.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from rules.analysis.freshness import leaderless
from rules.evaluate import evaluate
from rules.finding import Evaluation, Plain, Thresholds
from rules.lifecycle import Book
from rules.model.history import RecentHistory, Recovery
from rules.model.identifiers import Millis
from rules.model.quorum import Quorum
from streaming.status import overview
from streaming.status.cluster_state import Glimpse
from streaming.status.recovering_partitions import recovery

RECOVERING_AT_MOST = 2_000
"""Partitions in recovery that a portrait names; `recovering_partitions` counts all."""
TOPICS_AT_MOST = 200
"""Topics in recovery, and conditions that wait, that a portrait names."""
_LIVE_MS = 10_000
"""A log or a poll that answered within this is being answered now."""


def portrait(
    quorum: Quorum,
    thresholds: Mapping[str, Thresholds],
    evaluation: Evaluation | None = None,
    book: Book | None = None,
) -> dict[str, Plain]:
    """The cluster at the quorum's own now.

    Fields: those of `status`, `replicas` of `replication`, `recovering` of `partitions` (the longest first, at most
    2,000), `elections` and `reconfigurations`, oldest first, as the log told them; `leaderless` (somebody says that
    nobody leads), `registered_at_ms` (by controller: the log's time of its registration), `recoveries` (by topic, at
    most 200: topic, topic_id, partitions, since_ms, at_least), `starts` of controllers and `unclean` elections by
    topic as the log told them, `pending` (conditions that may become alerts: rule, subject, summary, started_at_ms,
    due_at_ms) and `not_applicable` rules, each with why.

    Args:
        quorum: what is known.
        thresholds: by rule id.
        evaluation: what the rules said of this quorum, where they were asked already.
        book: the life of the cluster's conditions, which tells what is pending.
    """
    judged = evaluate(quorum, thresholds) if evaluation is None else evaluation
    glimpse = Glimpse(
        quorum=quorum,
        evaluation=judged,
        thresholds=thresholds,
        taken_at_ms=quorum.now_ms,
        looked_since_ms=Millis(quorum.now_ms - _LIVE_MS),
        recorded_at_ms=quorum.now_ms,
        missing=(),
    )
    longest = overview.longest_recovering(quorum)
    return {
        **overview.status(glimpse),
        "now_ms": quorum.now_ms,
        "described_at_ms": quorum.poll.observed_at_ms if quorum.poll else None,
        "log_seen_at_ms": quorum.log_seen_at_ms,
        "newest_timestamp_ms": quorum.newest_timestamp_ms,
        "leaderless": leaderless(quorum) is not None,
        "registered_at_ms": {str(node): one.timestamp_ms for node, one in quorum.controllers.items()},
        "replicas": overview.replication(glimpse)["replicas"],
        # Each one named costs; what is beyond is counted.
        "recovering": [recovery(quorum, one) for one in longest[:RECOVERING_AT_MOST]],
        "recoveries": _by_topic(longest),
        **_happened(quorum.past),
        "pending": _pending(book) if book else [],
        "not_applicable": [{"rule": one.rule, "why": one.why} for one in judged.not_applicable],
    }


def _happened(past: RecentHistory) -> dict[str, Plain]:
    return {
        "elections": [
            {
                "at_ms": one.timestamp_ms,
                "offset": one.offset,
                "leader_id": one.leader_id,
                "leader_epoch": one.leader_epoch,
            }
            for one in past.elections
        ],
        "reconfigurations": [
            {
                "at_ms": one.timestamp_ms,
                "offset": one.offset,
                "before": [key.id for key in one.before],
                "after": [key.id for key in one.after],
            }
            for one in past.reconfigurations
        ],
        "starts": [{"at_ms": one.timestamp_ms, "offset": one.offset, "id": one.id} for one in past.starts],
        "unclean": [
            {
                "topic": one.topic,
                "topic_id": one.topic_id,
                "elections": one.elections,
                "first_at_ms": one.first_timestamp_ms,
                "last_at_ms": one.last_timestamp_ms,
            }
            for one in past.unclean
        ],
    }


def _by_topic(longest: Sequence[Recovery]) -> list[Plain]:
    held: dict[str, dict[str, Plain]] = {}
    counts: Counter[str] = Counter()
    for one in longest:
        counts[one.topic_id] += 1
        if one.topic_id not in held and len(held) < TOPICS_AT_MOST:
            held[one.topic_id] = {
                "topic": one.topic,
                "topic_id": one.topic_id,
                "since_ms": one.since_timestamp_ms,
                "at_least": one.at_least,
            }
    return [{**each, "partitions": counts[topic_id]} for topic_id, each in held.items()]


def _pending(book: Book) -> list[Plain]:
    waiting = sorted((one for one in book.standings.values() if one.told is None), key=lambda one: one.due_at_ms)
    return [
        {
            "rule": one.rule,
            "subject": one.subject,
            "summary": one.summary,
            "started_at_ms": one.started_at_ms,
            "due_at_ms": one.due_at_ms,
        }
        for one in waiting[:TOPICS_AT_MOST]
    ]
