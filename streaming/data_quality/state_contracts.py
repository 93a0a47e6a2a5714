"""Contracts of states: one cluster's quorum as replayed and shown (`streaming.status.cluster_status`)."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from rules.evaluate import BLIND, RULES
from rules.finding import Severity
from rules.model.voter_set import majority
from streaming.data_quality.contract import EARLIEST_MS, LATEST_MS, Absent, Between, Contract, Equal, NotBelow, Suite
from streaming.data_quality.contract_table import Table, malformed, negative, outside

_SEVERITIES = {severity.value for severity in Severity}

_contract = partial(Contract, suite=Suite.STATES)

CONTRACTS: tuple[Contract, ...] = (
    _contract(
        name="state-time-plausible",
        promise="a state is of a time between the years 2011 and 2100",
        why="It is the newest row's time, and every age is computed from it.",
        source="rules.model.quorum.Quorum.now_ms",
        severity=Severity.CRITICAL,
        check=Between(column="now_ms", lowest=EARLIEST_MS, highest=LATEST_MS),
    ),
    _contract(
        name="state-time-never-goes-back",
        promise="no state of a cluster is earlier than the one before it",
        why="Replay applies rows in order; an earlier state was computed from other rows.",
        source="streaming.replay.machine",
        severity=Severity.CRITICAL,
        check=NotBelow(column="now_ms", floor="previous_now_ms"),
    ),
    _contract(
        name="nothing-seen-in-the-future",
        promise="no observation of a state is newer than the state",
        why="Its age would be negative, and stale data would never be detected.",
        source="rules.model.quorum.Quorum",
        severity=Severity.CRITICAL,
        check=NotBelow(column="now_ms", floor="newest_look_ms"),
    ),
    _contract(
        name="state-epoch-possible",
        promise="the leader epoch of a state is 0 or more",
        why="Epochs begin with 0; Kafka's -1 for no epoch is stored as no value.",
        source="KIP-595; org.apache.kafka.raft.QuorumState",
        severity=Severity.WARNING,
        check=Between(column="leader_epoch", lowest=0, highest=2**31 - 1),
    ),
    _contract(
        name="majority-of-the-voters",
        promise="the votes needed are more than half of the voters",
        why="With fewer votes two leaders could be elected; the failure tolerance depends on it.",
        source="KIP-595; org.apache.kafka.raft.VoterSet",
        severity=Severity.CRITICAL,
        check=Equal(column="votes_needed", other="majority"),
    ),
    _contract(
        name="voters-differ",
        promise="no node is listed twice among the committed voters",
        why="Kafka allows one directory id for each id in a voter set: a second one would count as a second vote.",
        source="KIP-853, section VotersRecord; org.apache.kafka.raft.VoterSet",
        severity=Severity.CRITICAL,
        check=Absent(column="voters_twice"),
    ),
    _contract(
        name="state-ids-well-formed",
        promise="node ids are 0 or more and directory ids are UUIDs as Kafka prints them",
        why="Remedies contain them: a command with an invalid id fixes nothing.",
        source="KIP-853, section Voters; org.apache.kafka.raft.ReplicaKey",
        severity=Severity.WARNING,
        check=Absent(column="odd_ids"),
    ),
    _contract(
        name="recovering-isr-within-replicas",
        promise="the ISR and the leader of a recovering partition are among its replicas",
        why="Replay computes partitions from their changes: otherwise a change was missed.",
        source="KIP-704; org.apache.kafka.metadata.PartitionRegistration",
        severity=Severity.WARNING,
        check=Absent(column="outside_replicas"),
    ),
    _contract(
        name="findings-of-known-rules",
        promise="every finding of a state is of a known rule and severity",
        why="Routes and silences match by them.",
        source="rules.evaluate.RULES",
        severity=Severity.WARNING,
        check=Absent(column="odd_findings"),
    ),
    _contract(
        name="every-row-can-be-applied",
        promise="every row can be applied to the state, and the state evaluated after it",
        why="A row that cannot is skipped: the state lacks what it reports.",
        source="streaming.replay.contained_replay",
        severity=Severity.CRITICAL,
        check=Absent(column="not_applied"),
    ),
    _contract(
        name="every-rule-can-be-evaluated",
        promise="every rule can be evaluated on every state",
        why="A rule that fails is unknown: what it would report is not reported.",
        source="rules.evaluate",
        severity=Severity.WARNING,
        check=Absent(column="failed_rules"),
    ),
    _contract(
        name="every-status-can-be-rendered",
        promise="every status and alert can be rendered",
        why="Otherwise the page and /metrics show an older status.",
        source="streaming.status.build_status",
        severity=Severity.WARNING,
        check=Absent(column="not_rendered"),
    ),
)


class StateTable:
    """The table of states; each is compared with the former one, from table to table."""

    def __init__(self) -> None:
        self.table = Table(
            numbers=(
                *("sequence", "now_ms", "previous_now_ms", "newest_look_ms", "leader_epoch", "votes_needed"),
                "majority",
            ),
            texts=(
                *("cluster", "voters_twice", "odd_ids", "outside_replicas", "odd_findings"),
                *("not_applied", "failed_rules", "not_rendered"),
            ),
        )
        self._before_ms: dict[str, int] = {}

    def add(self, status: Mapping[str, Any], sequence: int | None) -> None:
        """Adds a state as JSON. `sequence` is the journal row at which it was computed, if known."""
        voters = (status["committed_voters"] or {"voters": ()})["voters"]
        counted = status["voters"]
        self.table.add(
            {
                "sequence": sequence,
                "cluster": status["cluster"],
                "now_ms": status["now_ms"],
                "previous_now_ms": self._before_ms.get(status["cluster"]),
                "newest_look_ms": max(_present(status["described_at_ms"], status["log_seen_at_ms"]), default=None),
                "leader_epoch": status["leader_epoch"],
                "votes_needed": status["votes_needed"],
                "majority": None if counted is None else majority(counted),
                "voters_twice": _duplicates([one["id"] for one in voters]),
                "odd_ids": _odd_ids([*voters, *status["current_voters"], *status["current_observers"]]),
                "outside_replicas": _outside_replicas(status["recovering"]),
                "odd_findings": _odd_findings(status["findings"]),
                "failed_rules": _failed_rules(status["findings"]),
            }
        )
        self._before_ms[status["cluster"]] = status["now_ms"]

    def add_not_applied(self, cluster: str, sequence: int, reason: str) -> None:
        """Adds a row of the journal that cannot be applied."""
        self.table.add({"sequence": sequence, "cluster": cluster, "not_applied": reason})

    def add_not_rendered(self, cluster: str, sequence: int, reason: str) -> None:
        """Adds a state that cannot be rendered."""
        self.table.add({"sequence": sequence, "cluster": cluster, "not_rendered": reason})


def _present(*values: int | None) -> list[int]:
    return [value for value in values if value is not None]


def _duplicates(ids: Sequence[int]) -> str | None:
    return ", ".join(str(one) for one in sorted(set(ids)) if ids.count(one) > 1) or None


def _odd_ids(replicas: Iterable[Mapping[str, Any]]) -> str | None:
    known = list(replicas)
    return negative(one["id"] for one in known) or malformed(one["directory_id"] for one in known)


def _outside_replicas(recovering: Iterable[Mapping[str, Any]]) -> str | None:
    for one in recovering:
        leader = [] if one["leader"] is None else [one["leader"]]
        if found := outside([*one["isr"], *leader], one["replicas"]):
            return f"{one['topic'] or one['topic_id']}-{one['partition']}: {found}"
    return None


def _odd_findings(findings: Iterable[Mapping[str, Any]]) -> str | None:
    odd = [one["rule"] for one in findings if one["rule"] not in RULES or one["severity"] not in _SEVERITIES]
    return ", ".join(odd) or None


def _failed_rules(findings: Iterable[Mapping[str, Any]]) -> str | None:
    failed = [one["subject"] for one in findings if one["rule"] == BLIND and one["subject"].startswith("rule ")]
    return ", ".join(failed) or None
