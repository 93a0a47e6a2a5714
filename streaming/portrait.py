"""A portrait: one cluster as the job sees it at the end of a micro-batch, as plain data.

It is what the page, the metrics and `/api/clusters` show: the fields of `status --json` and `replication --json`,
the partitions in recovery, and what happened lately. A job looks all the time, so `source` is `live` while a leader
answers and `journal` while none does.
"""

from collections.abc import Mapping

from rules.evaluate import evaluate
from rules.finding import Plain, Thresholds
from rules.quorum import Millis, Quorum
from streaming.oncall import overview
from streaming.oncall.glimpse import Glimpse

RECOVERING_AT_MOST = 2_000
"""Partitions in recovery that a portrait names; `recovering_partitions` counts all."""
_LIVE_MS = 10_000
"""A log or a poll that answered within this is being answered now."""


def portrait(quorum: Quorum, thresholds: Mapping[str, Thresholds]) -> dict[str, Plain]:
    """The cluster at the quorum's own now.

    Fields: those of `status`, `replicas` of `replication`, `recovering` of `partitions` (the longest first, at most
    2,000), and `elections` and `reconfigurations`, oldest first, as the log told them.
    """
    glimpse = Glimpse(
        quorum=quorum,
        judgement=evaluate(quorum, thresholds),
        thresholds=thresholds,
        taken_at_ms=quorum.now_ms,
        looked_since_ms=Millis(quorum.now_ms - _LIVE_MS),
        recorded_at_ms=quorum.now_ms,
        missing=(),
    )
    recovering = overview.partitions(glimpse)["recovering"]
    assert isinstance(recovering, list)
    past = quorum.past
    return {
        **overview.status(glimpse),
        "now_ms": quorum.now_ms,
        "described_at_ms": quorum.poll.observed_at_ms if quorum.poll else None,
        "log_seen_at_ms": quorum.log_seen_at_ms,
        "newest_timestamp_ms": quorum.newest_timestamp_ms,
        "replicas": overview.replication(glimpse)["replicas"],
        "recovering": recovering[:RECOVERING_AT_MOST],
        "elections": [
            {"at_ms": one.timestamp_ms, "leader_id": one.leader_id, "leader_epoch": one.leader_epoch}
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
    }
