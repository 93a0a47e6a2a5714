"""Partitions whose leader was elected outside the in-sync replicas have not recovered.

What it means
    After an unclean election a partition is RECOVERING (KIP-704) until its in-sync replicas change next, normally
    seconds later, when another replica joins. No client, metric or Kafka tool shows this state; clients are not
    refused meanwhile: they write to a single copy. It lasts when no other replica joins.

    - Critical: a broker that holds a replica is alive and does not join.
    - Warning: no other replica is alive (or one has only just come back).
    - Info: the topic has one replica, and then the state stays until that changes, by Kafka's design.

    A topic that Kafka's coordinators rebuild their state from, such as __transaction_state, weighs one step more: what
    is lost there makes groups go back and transactions inconsistent.

Evidence
    One alert a topic, with its partitions: leader, epochs, in-sync replicas, the other replicas and how they are;
    since which record, for how long by the log's own clock, and how often the leader changed since; who was in sync
    before (and eligible, KIP-966): records that only those acknowledged *may* be lost. How many the log does not tell.

What to do
    1. A partition that lost its leader as well serves nobody: bring that leader back first.
    2. Copy the directory of a replica that is to come back, if its records matter: it cuts its log to the leader's.
    3. Bring that replica back, or give the partition one that lives: its joining ends the state.

What not to do
    Do not stop the leader: it holds the only in-sync copy. Do not hold another unclean election.

Thresholds
    hold (60 s, by the log's clock) and clear (10 s). join (30 s): how long a live replica may take to join before
    it counts as not joining. copy (1 h): the same for a replica that a reassignment added meanwhile, which has all of
    the partition to copy first. seen_age (10 s): without the log the rule cannot tell.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby

from rules.analysis.freshness import SEEN_AGE
from rules.analysis.log_freshness import unread
from rules.finding import Finding, Plain, Rule, RuleResult, Severity, Threshold, Thresholds, UnknownResult, clear, hold
from rules.formatting import counted, listed, spelled
from rules.internal_topics import HOLDS
from rules.model.history import Recovery
from rules.model.identifiers import Millis, NodeId
from rules.model.quorum import Quorum
from rules.remedy_commands import describe_topic

ID = "partition-stuck-recovering"
JOIN = Threshold(
    name="join",
    default=30.0,
    unit="s",
    meaning="how long a live replica may take to join before it counts as not joining: a restarted broker took 19 s "
    "with Kafka's defaults",
)
COPY = Threshold(
    name="copy",
    default=3_600.0,
    unit="s",
    meaning="how long a live replica that a reassignment added may take to copy the partition before it counts as not "
    "joining: raise it where partitions are big or reassignments throttled",
)
_SHOWN = 20
"""Partitions listed one by one; the rest is counted."""
_WORSE = (Severity.INFO, Severity.WARNING, Severity.CRITICAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """One partition, judged."""

    recovery: Recovery
    standing_ms: Millis
    others: dict[NodeId, str]
    """The replicas that could join, and how each is."""
    severity: Severity


ALIVE = "alive, does not join"
JOINING = "alive, may be joining"
COPYING = "alive, new here, may be copying"
LEAVING = "shutting down"
FENCED = "fenced"
UNREGISTERED = "not registered"


def evaluate(quorum: Quorum, thresholds: Thresholds) -> Iterable[RuleResult]:
    """One finding a topic that has partitions in RECOVERING."""
    hindrance, newest = unread(ID, quorum, thresholds), quorum.newest_timestamp_ms
    if hindrance is not None or newest is None:
        yield hindrance or UnknownResult(rule=ID, subject=None, why="the metadata log has not told its time")
        return
    ordered = sorted(quorum.recovering, key=lambda each: (_name(each), each.topic_id, each.partition))
    for _, of_topic in groupby(ordered, key=lambda each: each.topic_id):
        yield _finding(quorum, [_case(quorum, newest, each, thresholds) for each in of_topic])


def _name(recovery: Recovery) -> str:
    return recovery.topic or f"with id {recovery.topic_id}"


def _case(quorum: Quorum, newest: Millis, recovery: Recovery, thresholds: Thresholds) -> _Case:
    standing = Millis(max(0, newest - recovery.since_timestamp_ms))
    in_sync = {recovery.leader, *recovery.isr}
    others = {
        node: _state(quorum, newest, recovery, node, thresholds)
        for node in sorted(recovery.replicas)
        if node not in in_sync
    }
    if len(recovery.replicas) <= 1 or (
        len(recovery.replicas) - len(recovery.added) <= 1 and {*others.values()} == {COPYING}
    ):
        severity = Severity.INFO
    else:
        severity = Severity.CRITICAL if ALIVE in others.values() else Severity.WARNING
    if recovery.topic in HOLDS:
        severity = _WORSE[min(_WORSE.index(severity) + 1, len(_WORSE) - 1)]
    return _Case(recovery=recovery, standing_ms=standing, others=others, severity=severity)


def _state(quorum: Quorum, newest: Millis, recovery: Recovery, node: NodeId, thresholds: Thresholds) -> str:
    broker = quorum.brokers.get(node)
    if broker is None:
        return UNREGISTERED
    if broker.fenced:
        return FENCED
    if broker.in_controlled_shutdown:
        return LEAVING
    added = recovery.added_timestamp_ms
    if node in recovery.added and added is not None and newest - added < thresholds.ms(COPY.name):
        return COPYING
    since = broker.alive_since_timestamp_ms
    standing = max(0, newest - recovery.since_timestamp_ms)
    had = standing if since is None else newest - since
    if not recovery.at_least:
        # From a snapshot it stands for longer than we know: then the broker's own life counts alone.
        had = min(standing, had)
    return ALIVE if had >= thresholds.ms(JOIN.name) else JOINING


def _finding(quorum: Quorum, cases: list[_Case]) -> Finding:
    severity = max((case.severity for case in cases), key=_WORSE.index)
    oldest = max(cases, key=lambda case: case.standing_ms)
    name = _name(cases[0].recovery)
    others = _by_state([case for case in cases if len(case.recovery.replicas) > 1])
    return Finding(
        rule=ID,
        subject=f"topic {name}",
        severity=severity,
        summary=_summary(name, cases, oldest, others),
        evidence={
            "topic": cases[0].recovery.topic,
            "topic_id": cases[0].recovery.topic_id,
            "partitions_recovering": len(cases),
            "oldest": _stood(oldest),
            "partitions": [_evidence(case) for case in cases[:_SHOWN]],
            "partitions_not_listed": max(0, len(cases) - _SHOWN),
            "may_be_lost": _may_be_lost(cases),
            "clients_refused": any(case.recovery.leader is None for case in cases),
        },
        remedy=_remedy(quorum, name, cases),
        standing_ms=oldest.standing_ms,
    )


def _stood(case: _Case) -> str:
    return f"{'at least ' if case.recovery.at_least else ''}{spelled(case.standing_ms)}"


def _by_state(cases: list[_Case]) -> dict[str, list[NodeId]]:
    """The other replicas of all these partitions, by how they are."""
    found: dict[str, set[NodeId]] = {}
    for case in cases:
        for node, state in case.others.items():
            found.setdefault(state, set()).add(node)
    return {state: sorted(nodes) for state, nodes in found.items()}


def _summary(name: str, cases: list[_Case], oldest: _Case, others: dict[str, list[NodeId]]) -> str:
    which = f"{counted(len(cases), 'partition')} of topic {name}"
    what = f"{which} RECOVERING for {_stood(oldest)} after an unclean election"
    alive, joining, copying = others.get(ALIVE), others.get(JOINING), others.get(COPYING)
    if alive:
        why = f"broker {listed(alive, 4)} is alive and does not join"
    elif copying and not joining:
        why = f"broker {listed(copying, 4)} was given a replica and copies it"
    elif all(len(case.recovery.replicas) <= 1 for case in cases):
        why = "with one replica the state stays until that changes"
    elif joining:
        why = f"broker {listed(joining, 4)} is back and has not joined yet"
    else:
        why = "no other replica is alive"
    leaderless = sum(case.recovery.leader is None for case in cases)
    but = f" but for {counted(leaderless, 'partition')} without a leader, which serves nobody" if leaderless else ""
    changes = sum(case.recovery.leader_changes for case in cases)
    again = f"; {counted(changes, 'more leader')} elected since" if changes else ""
    follows = f": {HOLDS[name]}" if name in HOLDS else ""
    return f"{what}: {why}{again}; acknowledged records may be lost{follows}, clients are not refused{but}"


def _evidence(case: _Case) -> dict[str, Plain]:
    recovery = case.recovery
    return {
        "partition": recovery.partition,
        "for": _stood(case),
        "since_offset": recovery.since_offset,
        "since_timestamp_ms": recovery.since_timestamp_ms,
        "leader": recovery.leader,
        "leader_epoch": recovery.leader_epoch,
        "partition_epoch": recovery.partition_epoch,
        "leader_changes": recovery.leader_changes,
        "isr": [*recovery.isr],
        "replicas": [*recovery.replicas],
        "others": {str(node): state for node, state in case.others.items()},
        "previous_isr": None if recovery.previous_isr is None else [*recovery.previous_isr],
        "previous_elr": None if recovery.previous_elr is None else [*recovery.previous_elr],
    }


def _may_be_lost(cases: list[_Case]) -> str:
    known = [case.recovery for case in cases if case.recovery.previous_isr is not None]
    holders = sorted(
        {
            node
            for recovery in known
            for node in (*(recovery.previous_isr or ()), *(recovery.previous_elr or ()))
            if node not in recovery.isr
        }
    )
    if not holders:
        return "records that the leader did not have when it was elected: the log no longer tells who was in sync"
    return f"records that only broker {listed(holders, 6)} acknowledged: in sync, or eligible, before the election"


def _remedy(quorum: Quorum, name: str, cases: list[_Case]) -> tuple[str, ...]:
    led = [case for case in cases if case.recovery.leader is not None]
    leaders = sorted({case.recovery.leader for case in led if case.recovery.leader is not None})
    steps = []
    if cases[0].recovery.topic is not None:
        steps.append(describe_topic(quorum, name, leaders))
    steps += _leader_first([case.recovery for case in cases if case.recovery.leader is None])
    if leaders:
        steps.append(f"# Keep broker {listed(leaders)} running meanwhile: it holds the only in-sync copy")
    # Without a leader nobody can join: what is said of the other replicas is for the partitions that have one.
    others = _by_state(led)
    dead = sorted({node for state in _DEAD for node in others.get(state, ())})
    steps += _joining(others, dead)
    if dead or any(case.severity is Severity.INFO and not case.others for case in led):
        steps.append(_another_replica(dead))
    return tuple(steps)


_DEAD = (FENCED, UNREGISTERED, LEAVING)


def _leader_first(leaderless: list[Recovery]) -> Iterable[str]:
    """A partition whose leader died while it was the only one in sync."""
    if not leaderless:
        return
    which = f"Partition {listed(each.partition for each in leaderless)} has no leader and serves nobody"
    holders = sorted({node for each in leaderless for node in each.isr})
    if holders:
        yield f"# {which}: start broker {listed(holders)} first, which holds the only in-sync copy"
    if any(not each.isr for each in leaderless):
        yield f"# {which}: start first the brokers that --describe names under Elr or LastKnownElr"


def _joining(others: dict[str, list[NodeId]], dead: list[NodeId]) -> Iterable[str]:
    """What the replicas that are not in sync need, by how they are."""
    if others.get(JOINING):
        yield f"# Broker {listed(others[JOINING])} is back: give it half a minute to join"
    if others.get(COPYING):
        yield f"# Broker {listed(others[COPYING])} copies a replica it was given: wait, its joining ends the state"
    if others.get(ALIVE):
        yield (
            f"# See in the log of broker {listed(others[ALIVE])} why it does not replicate (disk, quota, network to "
            "the leader), then restart it: its joining ends the state"
        )
    if dead:
        yield (
            f"# If the records that only broker {listed(dead)} holds matter, copy its directories of these partitions "
            "before it starts: when it is back it cuts them to the leader's log"
        )
        yield f"# Start broker {listed(dead)} again: its joining ends the state"


def _another_replica(dead: list[NodeId]) -> str:
    when = "If it never returns" if dead else "If the state is to end"
    return (
        f"# {when}, give the partitions a replica on another live broker with kafka-reassign-partitions.sh: "
        "its joining ends the state"
    )


RULE = Rule(
    id=ID,
    title="Partitions stay RECOVERING",
    text=__doc__ or "",
    thresholds=(hold(60.0), clear(), JOIN, COPY, SEEN_AGE),
    evaluate=evaluate,
    inhibited_by=("no-leader",),
)
