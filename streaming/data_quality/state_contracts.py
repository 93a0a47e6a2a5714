"""States: one cluster's quorum as replayed and as the page shows it (`streaming.status.cluster_status`)."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from rules.evaluate import RULES
from rules.finding import Plain, Severity
from streaming.data_quality.contract import EARLIEST_MS, LATEST_MS, Absent, Between, Contract, Equal, NotBelow, Suite
from streaming.data_quality.contract_table import Table, impossible, malformed, outside

_SEVERITIES = {severity.value for severity in Severity}

_contract = partial(Contract, suite=Suite.STATES)

CONTRACTS: tuple[Contract, ...] = (
    _contract(
        name="state-time-plausible",
        promise="a state is of a moment after Kafka was born and before the year 2100",
        why="It is the newest row's time, and every age is counted from it.",
        source="rules.model.quorum.Quorum.now_ms",
        severity=Severity.CRITICAL,
        check=Between(column="now_ms", lowest=EARLIEST_MS, highest=LATEST_MS),
    ),
    _contract(
        name="state-time-never-goes-back",
        promise="a cluster's state is never of an earlier moment than the one before it",
        why="Replay applies rows in their order; a state that goes back was made of other rows.",
        source="streaming.replay.machine",
        severity=Severity.CRITICAL,
        check=NotBelow(column="now_ms", floor="previous_now_ms"),
    ),
    _contract(
        name="nothing-seen-in-the-future",
        promise="no look of a state is newer than the state",
        why="Its age would be negative, and what is stale would never become so.",
        source="rules.model.quorum.Quorum",
        severity=Severity.CRITICAL,
        check=NotBelow(column="now_ms", floor="newest_look_ms"),
    ),
    _contract(
        name="state-epoch-possible",
        promise="the leader epoch of a state is 0 or more",
        why="Epochs begin with 0; -1 is Kafka's word for none, and is none here.",
        source="KIP-595; org.apache.kafka.raft.QuorumState",
        severity=Severity.WARNING,
        check=Between(column="leader_epoch", lowest=0, highest=2**31 - 1),
    ),
    _contract(
        name="majority-of-the-voters",
        promise="the votes that are needed are more than half of the voters",
        why="Fewer and two leaders could be elected; every word on failure tolerance rests on it.",
        source="KIP-595; org.apache.kafka.raft.VoterSet",
        severity=Severity.CRITICAL,
        check=Equal(column="votes_needed", other="majority"),
    ),
    _contract(
        name="voters-differ",
        promise="no node is two of the committed voters",
        why="Kafka allows one directory id for each id in a voter set: twice the same would count as two votes.",
        source="KIP-853, section VotersRecord; org.apache.kafka.raft.VoterSet",
        severity=Severity.CRITICAL,
        check=Absent(column="voters_twice"),
    ),
    _contract(
        name="state-ids-well-formed",
        promise="node ids are 0 or more and directory ids are UUIDs as Kafka prints them",
        why="The remedies name them: a command with a broken id mends nothing.",
        source="KIP-853, section Voters; org.apache.kafka.raft.ReplicaKey",
        severity=Severity.WARNING,
        check=Absent(column="odd_ids"),
    ),
    _contract(
        name="recovering-isr-within-replicas",
        promise="the ISR and the leader of a recovering partition are among its replicas",
        why="Replay holds partitions as the sum of their changes: outside, a change was missed.",
        source="KIP-704; org.apache.kafka.metadata.PartitionRegistration",
        severity=Severity.WARNING,
        check=Absent(column="outside_replicas"),
    ),
    _contract(
        name="findings-of-known-rules",
        promise="every finding of a state is of a known rule and severity",
        why="Sinks route and silence by them.",
        source="rules.evaluate.RULES",
        severity=Severity.WARNING,
        check=Absent(column="odd_findings"),
    ),
)


class States:
    """The table of states; each is held against the one before it, from table to table."""

    def __init__(self) -> None:
        self.table = Table(
            numbers=(
                *("sequence", "now_ms", "previous_now_ms", "newest_look_ms", "leader_epoch", "votes_needed"),
                "majority",
            ),
            texts=("cluster", "voters_twice", "odd_ids", "outside_replicas", "odd_findings"),
        )
        self._before_ms: dict[str, int] = {}

    def add(self, portrait: Mapping[str, Plain], sequence: int | None) -> None:
        """One state. `sequence` is the journal's row that it was taken at, where that is known."""
        told: Mapping[str, Any] = portrait
        voters = (told["committed_voters"] or {"voters": ()})["voters"]
        counted = told["voters"]
        self.table.add(
            {
                "sequence": sequence,
                "cluster": told["cluster"],
                "now_ms": told["now_ms"],
                "previous_now_ms": self._before_ms.get(told["cluster"]),
                "newest_look_ms": max(_there(told["described_at_ms"], told["log_seen_at_ms"]), default=None),
                "leader_epoch": told["leader_epoch"],
                "votes_needed": told["votes_needed"],
                "majority": None if counted is None else counted // 2 + 1,
                "voters_twice": _twice([one["id"] for one in voters]),
                "odd_ids": _odd_ids([*voters, *told["current_voters"], *told["current_observers"]]),
                "outside_replicas": _outside_replicas(told["recovering"]),
                "odd_findings": _odd_findings(told["findings"]),
            }
        )
        self._before_ms[told["cluster"]] = told["now_ms"]


def _there(*values: int | None) -> list[int]:
    return [value for value in values if value is not None]


def _twice(ids: Sequence[int]) -> str | None:
    return ", ".join(str(one) for one in sorted(set(ids)) if ids.count(one) > 1) or None


def _odd_ids(replicas: Iterable[Mapping[str, Any]]) -> str | None:
    known = list(replicas)
    return impossible(one["id"] for one in known) or malformed(one["directory_id"] for one in known)


def _outside_replicas(recovering: Iterable[Mapping[str, Any]]) -> str | None:
    for one in recovering:
        leader = [] if one["leader"] is None else [one["leader"]]
        if found := outside([*one["isr"], *leader], one["replicas"]):
            return f"{one['topic'] or one['topic_id']}-{one['partition']}: {found}"
    return None


def _odd_findings(findings: Iterable[Mapping[str, Any]]) -> str | None:
    odd = [one["rule"] for one in findings if one["rule"] not in RULES or one["severity"] not in _SEVERITIES]
    return ", ".join(odd) or None
