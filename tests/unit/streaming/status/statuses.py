"""Cluster states and statuses for tests."""

import json
from collections.abc import Iterator
from typing import Any

from rules.evaluate import evaluate, thresholds_for
from rules.facts.following import Following
from rules.facts.quorum import Facts
from rules.model.identifiers import Millis, NodeId, Offset
from rules.model.quorum import Quorum
from streaming.status.build_status import cluster_status, job_cluster_status
from streaming.status.cluster_status import ClusterState, ClusterStatus, partitions_json, replication_json, status_json
from streaming.status.voters import ReplicaRole, ReplicaStatus
from tests.situation.situation import NOW

NO_OBSERVATION: ClusterStatus = job_cluster_status(
    Facts(Quorum(cluster="prod", cluster_id=None, now_ms=Millis(0))), thresholds_for({})
)
"""The status of a cluster without any observation: tests replace the fields they need."""


def state_of(quorum: Quorum, *, recorded_ago_ms: int | None = None, live: bool = True) -> ClusterState:
    """The quorum as a query returns it; with `recorded_ago_ms` as a journal holds it."""
    thresholds = thresholds_for({})
    return ClusterState(
        facts=(facts := Facts(quorum)),
        evaluation=evaluate(facts, thresholds),
        thresholds=thresholds,
        taken_at_ms=NOW,
        queried_since_ms=Millis(NOW - 3_000) if live else None,
        recorded_at_ms=None if recorded_ago_ms is None else Millis(NOW - recorded_ago_ms),
        missing=(),
    )


def status(quorum: Quorum) -> dict[str, Any]:
    """The fields of `status --json`."""
    return status_json(cluster_status(state_of(quorum)))


def replication(quorum: Quorum) -> dict[str, Any]:
    """The fields of `replication --json`."""
    return replication_json(cluster_status(state_of(quorum)))


def partitions(quorum: Quorum) -> dict[str, Any]:
    """The fields of `partitions --json`."""
    return partitions_json(cluster_status(state_of(quorum)))


def job_status(quorum: Quorum) -> dict[str, Any]:
    """The fields of a job's status."""
    plain: dict[str, Any] = json.loads(json.dumps(status_json(job_cluster_status(Facts(quorum), thresholds_for({})))))
    return plain


def values_text(fields: dict[str, Any]) -> str:
    """A status in lines `name value`, its lists of objects as tables; a time in milliseconds as its distance to NOW."""
    return "\n".join(line for name, value in fields.items() for line in _lines(name, value))


def _lines(name: str, value: object) -> Iterator[str]:
    if isinstance(value, dict) and value:
        for part, of_part in value.items():
            yield from _lines(f"{name}.{part}", of_part)
    elif isinstance(value, list) and value and all(isinstance(row, dict) for row in value):
        yield name
        rows = [[*value[0]], *([_cell(cell) for cell in row.values()] for row in value)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        yield from ("  " + "  ".join(map(str.ljust, row, widths)) for row in rows)
    else:
        yield f"{name} {_cell(value)}"


def _cell(value: object) -> str:
    if isinstance(value, dict) and value:
        return "-".join(map(_cell, value.values()))
    if isinstance(value, list):
        return f"[{', '.join(map(_cell, value))}]"
    if isinstance(value, int) and value > NOW // 2:
        return f"NOW{value - NOW:+}"
    return value if isinstance(value, str) else json.dumps(value)


def replica(node: int, *, end: int, lag: int, lag_time_ms: int, leader: bool = False) -> ReplicaStatus:
    """A voter's row of DescribeQuorum."""
    return ReplicaStatus(
        node_id=NodeId(node),
        directory_id=None,
        log_end_offset=Offset(end),
        log_end_epoch=None,
        lag=lag,
        last_fetch_timestamp_ms=None,
        last_caught_up_timestamp_ms=None,
        status=ReplicaRole.LEADER if leader else ReplicaRole.FOLLOWER,
        fetch_age_ms=None,
        lag_time_ms=Millis(lag_time_ms),
        following=Following.IN_SYNC,
        committed_voter=None,
        endpoint=None,
    )
