"""How the job shows a cluster to pages and metrics."""

import json
from dataclasses import replace
from typing import Any

from rules.evaluate import evaluate, thresholds_for
from rules.lifecycle import Book, advance
from rules.model.history import Election, RecentHistory
from rules.model.identifiers import Epoch, Millis, NodeId, Offset
from rules.model.quorum import Quorum
from streaming.status.cluster_status import RECOVERING_AT_MOST, portrait
from tests.unit.rules.situation import NOW, TOPIC, healthy, leaderless, recovering, silent


def shown(quorum: Quorum) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(json.dumps(portrait(quorum, thresholds_for({}))))
    return plain


def test_a_healthy_cluster_is_live_and_says_who_leads_who_votes_and_what_can_fail() -> None:
    seen = shown(healthy())
    assert (seen["source"], seen["leader_id"], seen["failures_left"]) == ("live", 3, 1)
    assert [row["status"] for row in seen["replicas"]][:3] == ["Leader", "Follower", "Follower"]
    assert seen["now_ms"] == NOW


def test_a_cluster_that_nobody_answers_for_is_shown_as_last_seen() -> None:
    seen = shown(replace(leaderless(healthy()), now_ms=Millis(NOW + 60_000)))
    assert (seen["source"], seen["now_ms"] - seen["described_at_ms"] >= 60_000) == ("journal", True)


def test_elections_are_shown_oldest_first() -> None:
    won = Election(leader_id=NodeId(2), leader_epoch=Epoch(8), offset=Offset(70), timestamp_ms=Millis(NOW - 9_000))
    seen = shown(replace(healthy(), past=RecentHistory(elections=(won,))))
    assert seen["elections"] == [{"at_ms": NOW - 9_000, "offset": 70, "leader_id": 2, "leader_epoch": 8}]


def test_thousands_of_recovering_partitions_are_counted_and_the_longest_are_named() -> None:
    quorum = recovering(healthy(), 0)
    many = tuple(replace(quorum.recovering[0], partition=number) for number in range(RECOVERING_AT_MOST + 5))
    seen = shown(replace(quorum, recovering=many))
    assert (seen["recovering_partitions"], len(seen["recovering"])) == (RECOVERING_AT_MOST + 5, RECOVERING_AT_MOST)
    assert seen["recoveries"] == [
        {"topic": "orders", "topic_id": TOPIC, "since_ms": NOW - 75_300, "at_least": False, "partitions": 2_005}
    ]


def test_what_waits_for_its_hold_is_pending() -> None:
    quorum, thresholds = silent(healthy(), 1), thresholds_for({})
    evaluation = evaluate(quorum, thresholds)
    book, _ = advance(Book(), evaluation, quorum, thresholds)
    seen = portrait(quorum, thresholds, evaluation, book)
    pending: Any = seen["pending"]
    assert ("failure-tolerance", 120_000) in [
        (each["rule"], each["due_at_ms"] - each["started_at_ms"]) for each in pending
    ]
