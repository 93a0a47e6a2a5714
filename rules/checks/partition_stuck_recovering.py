"""Partitions do not recover after an unclean leader election.

What it means
    After an unclean election a partition is RECOVERING (KIP-704) until its in-sync replicas change next. Normally
    another replica joins the ISR within seconds. No client, metric or Kafka tool shows this state. Clients are not
    refused: they write to a single copy. There is one alert for each topic. Records that only the ISR (and the ELR,
    KIP-966) before the election acknowledged *may* be lost; the log does not show how many.

    - Critical: a broker that holds a replica is alive and does not join.
    - Warning: no other replica is alive, or one has only just come back.
    - Info: the topic has one replica. Then, by Kafka's design, the state stays until that changes.

    The severity is one step higher for a topic from which Kafka's coordinators load their state, such as
    __transaction_state, if records of other replicas may be lost: a loss there makes consumer groups go back and
    transactions inconsistent.

    If the last leader or the only replica was elected, as after a crash of all brokers that hold the partition, no
    other replica's records are lost: `unclean-election` says what can be.

What to do
    1. A partition that also lost its leader serves no client: bring that leader back first.
    2. Before you start a replica again, copy the directories that the alert names: it truncates its log to the
       leader's, and may hold the only copy of acknowledged records.
    3. Start that replica, or assign a live one to the partition: the state ends when it joins the ISR.

What not to do
    Do not stop the leader: it holds the only in-sync copy. Do not run another unclean election.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from itertools import groupby
from typing import Final

from rules.claims.statement import statement
from rules.facts.needs import Need
from rules.facts.quorum import Facts
from rules.finding import Draft, Finding, Plain, RuleResult, Severity, Threshold, Thresholds, UnknownResult, hold
from rules.formatting import and_join, numbered, plural, topic_text, utc_text
from rules.model.history import Recovery
from rules.model.identifiers import Millis, NodeId
from rules.model.quorum import Quorum
from rules.model.subject import Subject
from rules.remedies.remedy_commands import describe_topic
from rules.remedies.start_conditions import copy_sentence, restored_sentence, start_as_broker, unflushed_sentence
from rules.remedies.step import Act, Action, Ends, Plan, Step, restarts, starts
from rules.rule import Rule

_JOIN_MS: Final = Millis(30_000)
"""How long a live replica may take to join before it counts as not joining: a restarted broker took 19 s with
Kafka's defaults."""
COPY = Threshold(
    name="copy",
    default=3_600.0,
    meaning="how long a live replica that a reassignment added may take to copy the partition before it counts as not "
    "joining: raise it where partitions are big or reassignments throttled",
)
_MAX_LISTED = 20
"""How many partitions are listed; the rest is counted."""
_LOSS_CONSEQUENCE = {
    "__consumer_offsets": "consumer groups may go back to older offsets",
    "__transaction_state": "transactions may be left open or decided twice",
    "__share_group_state": "share groups may deliver records again",
}
"""What a loss means for Kafka's internal topics, from which the coordinators load their state."""


class _ReplicaState(StrEnum):
    """Why a replica is not in the ISR, as alerts print it."""

    NOT_JOINING = "alive, does not join the ISR"
    JOINING = "alive, may be joining"
    COPYING = "alive, newly assigned, may be copying"
    SHUTTING_DOWN = "shutting down"
    FENCED = "fenced"
    UNREGISTERED = "not registered"

    @property
    def down(self) -> bool:
        """Whether the replica's broker must be started before the replica can join."""
        return self in (_ReplicaState.SHUTTING_DOWN, _ReplicaState.FENCED, _ReplicaState.UNREGISTERED)


_LIVE_STATES = (_ReplicaState.NOT_JOINING, _ReplicaState.JOINING, _ReplicaState.COPYING)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    recovery: Recovery
    condition_age_ms: Millis
    others: dict[NodeId, _ReplicaState]
    """The state of each replica outside the ISR."""
    severity: Severity


def evaluate(facts: Facts, thresholds: Thresholds) -> Iterable[RuleResult | Draft]:
    """Returns one finding for each topic that has RECOVERING partitions."""
    quorum = facts.quorum
    newest = quorum.newest_timestamp_ms
    if newest is None:
        yield UnknownResult(why="no timestamp of the metadata log has been read")
        return
    ordered = sorted(
        facts.recoveries, key=lambda each: (topic_text(each.topic, each.topic_id), each.topic_id, each.partition)
    )
    for _, of_topic in groupby(ordered, key=lambda each: each.topic_id):
        cases = [_case(quorum, newest, recovery, thresholds) for recovery in of_topic]
        severity = max((case.severity for case in cases), key=lambda severity: severity.rank)
        subject = Subject("topic", topic_text(cases[0].recovery.topic, cases[0].recovery.topic_id))
        yield Draft(subject=subject, severity=severity, make=partial(_finding, facts, subject, severity, cases))


def _case(quorum: Quorum, newest: Millis, recovery: Recovery, thresholds: Thresholds) -> _Case:
    age = Millis(max(0, newest - recovery.since_timestamp_ms))
    others = _replica_states(quorum, newest, recovery, thresholds)
    if len(recovery.replicas) <= 1 or (
        len(recovery.replicas) - len(recovery.added) <= 1 and {*others.values()} == {_ReplicaState.COPYING}
    ):
        severity = Severity.INFO
    else:
        severity = Severity.CRITICAL if _ReplicaState.NOT_JOINING in others.values() else Severity.WARNING
    if recovery.topic in _LOSS_CONSEQUENCE and not _only_unflushed(recovery):
        # One step above warning; an info never comes here: without another replica no other one's records can be lost.
        severity = Severity.CRITICAL
    return _Case(recovery=recovery, condition_age_ms=age, others=others, severity=severity)


def _replica_states(
    quorum: Quorum, newest: Millis, recovery: Recovery, thresholds: Thresholds
) -> dict[NodeId, _ReplicaState]:
    """Returns the state of each replica that is neither the leader nor in the ISR, by node id."""
    in_sync = {recovery.leader, *recovery.isr}
    nodes = [node for node in sorted(recovery.replicas) if node not in in_sync]
    return {node: _state(quorum, newest, recovery, node, thresholds) for node in nodes}


def _state(quorum: Quorum, newest: Millis, recovery: Recovery, node: NodeId, thresholds: Thresholds) -> _ReplicaState:
    broker = quorum.brokers.get(node)
    if broker is None:
        return _ReplicaState.UNREGISTERED
    if broker.fenced:
        return _ReplicaState.FENCED
    if broker.in_controlled_shutdown:
        return _ReplicaState.SHUTTING_DOWN
    added = recovery.added_timestamp_ms
    if node in recovery.added and added is not None and newest - added < thresholds.ms(COPY.name):
        return _ReplicaState.COPYING
    since = broker.alive_since_timestamp_ms
    age = max(0, newest - recovery.since_timestamp_ms)
    available = age if since is None else newest - since
    if not recovery.at_least:
        # A snapshot does not hold since when the partition recovers: then only the broker's uptime counts.
        available = min(age, available)
    return _ReplicaState.NOT_JOINING if available >= _JOIN_MS else _ReplicaState.JOINING


def _only_unflushed(recovery: Recovery) -> bool:
    """Returns whether no other records can be lost: the last leader or the only replica was elected, with its disk."""
    if recovery.emptied:
        return False
    # A reassignment may have removed the replicas that were in sync before.
    before = {*(recovery.previous_isr or ()), *(recovery.previous_elr or ())}
    only_one = len({*recovery.replicas} - {*recovery.added}) <= 1 and before <= {*recovery.replicas}
    return recovery.last_leader or only_one


def _finding(facts: Facts, subject: Subject, severity: Severity, cases: list[_Case]) -> Finding:
    oldest = max(cases, key=lambda case: case.condition_age_ms)
    topic = cases[0].recovery.topic
    name = topic_text(topic, cases[0].recovery.topic_id)
    others = _by_state([case for case in cases if len(case.recovery.replicas) > 1])
    return Finding(
        subject=subject,
        severity=severity,
        summary=_summary(facts, name, cases, oldest, others),
        evidence={
            "topic": topic,
            "topic_id": cases[0].recovery.topic_id,
            "partitions_recovering": len(cases),
            "oldest": _since(oldest),
            "partitions": [_evidence(case) for case in cases[:_MAX_LISTED]],
            "partitions_not_listed": max(0, len(cases) - _MAX_LISTED),
            "may_be_lost": _may_be_lost(cases),
            "clients_refused": any(case.recovery.leader is None for case in cases),
        },
        remedy=_remedy(facts, name, cases),
        starts=_started(cases),
        condition_age_ms=oldest.condition_age_ms,
    )


def _since(case: _Case) -> str:
    return f"since {'before ' if case.recovery.at_least else ''}{utc_text(case.recovery.since_timestamp_ms)}"


def _by_state(cases: list[_Case]) -> dict[_ReplicaState, list[NodeId]]:
    found: dict[_ReplicaState, set[NodeId]] = {}
    for case in cases:
        for node, state in case.others.items():
            found.setdefault(state, set()).add(node)
    return {state: sorted(nodes) for state, nodes in found.items()}


def _summary(
    facts: Facts, name: str, cases: list[_Case], oldest: _Case, others: dict[_ReplicaState, list[NodeId]]
) -> str:
    which = f"{plural(len(cases), 'partition')} of topic {name} {'has' if len(cases) == 1 else 'have'}"
    what = f"{which} been RECOVERING {_since(oldest)}."
    alive, joining, copying = map(others.get, _LIVE_STATES)
    if alive:
        brokers = f"Broker {alive[0]} is" if len(alive) == 1 else f"Brokers {and_join(alive, 4)} are"
        why = f"{brokers} alive and {'does' if len(alive) == 1 else 'do'} not join the ISR."
    elif copying and not joining:
        was = "was assigned a replica and is copying it"
        if len(copying) > 1:
            was = "were assigned replicas and are copying them"
        why = f"{numbered('Broker', copying, 4)} {was}."
    elif all(len(case.recovery.replicas) <= 1 for case in cases):
        why = "The topic has one replica, so the state stays until that changes."
    elif joining:
        have = "is back and has" if len(joining) == 1 else "are back and have"
        why = f"{numbered('Broker', joining, 4)} {have} not joined the ISR yet."
    else:
        why = "No other replica is alive."
    leaderless = sum(case.recovery.leader is None for case in cases)
    refused = f", except on {plural(leaderless, 'partition')} without a leader" if leaderless else ""
    changes = sum(case.recovery.leader_changes for case in cases)
    elected = f" {plural(changes, 'more leader')} elected since." if changes else ""
    copies = copy_sentence(facts, _started(cases))
    lost = f"{what} {why}{elected} {_lost(facts, name, cases)}"
    return statement(lost, copies, f" Clients are not refused{refused}.")


def _lost(facts: Facts, name: str, cases: list[_Case]) -> str:
    leaders = {case.recovery.leader for case in cases if case.recovery.leader is not None}
    restored = [leader for leader in leaders if facts.emptied.restored(leader, cases[0].recovery.topic_id)]
    if restored and all(_only_unflushed(case.recovery) for case in cases):
        return restored_sentence(leaders)
    if leaders and all(_only_unflushed(case.recovery) for case in cases):
        return unflushed_sentence(leaders, only_replica=all(len(case.recovery.replicas) <= 1 for case in cases))
    consequence = f": {_LOSS_CONSEQUENCE[name]}" if name in _LOSS_CONSEQUENCE else ""
    return f"After the unclean election acknowledged records may be lost{consequence}."


def _evidence(case: _Case) -> dict[str, Plain]:
    recovery = case.recovery
    return {
        "partition": recovery.partition,
        "since_offset": recovery.since_offset,
        "since_timestamp_ms": recovery.since_timestamp_ms,
        "leader": recovery.leader,
        "leader_epoch": recovery.leader_epoch,
        "partition_epoch": recovery.partition_epoch,
        "leader_changes": recovery.leader_changes,
        "isr": [*recovery.isr],
        "replicas": [*recovery.replicas],
        "replicas_not_in_sync": {str(node): state.value for node, state in case.others.items()},
        "previous_isr": None if recovery.previous_isr is None else [*recovery.previous_isr],
        "previous_elr": None if recovery.previous_elr is None else [*recovery.previous_elr],
    }


def _may_be_lost(cases: list[_Case]) -> str:
    if all(_only_unflushed(case.recovery) for case in cases):
        return "only records that the elected broker had not flushed to disk when it crashed"
    if any(case.recovery.emptied for case in cases):
        return "all records, unless the files were moved: the elected broker has another log directory"
    holders: set[NodeId] = set()
    for recovery in (case.recovery for case in cases if case.recovery.previous_isr is not None):
        holders |= {*(recovery.previous_isr or ()), *(recovery.previous_elr or ())} - {*recovery.isr}
    if not holders:
        return "records that the leader did not have when it was elected (the previous ISR is unknown)"
    return f"records that only {numbered('broker', sorted(holders), 6)} acknowledged (ISR or ELR before the election)"


def _remedy(facts: Facts, name: str, cases: list[_Case]) -> tuple[str, ...]:
    led = [case for case in cases if case.recovery.leader is not None and not case.recovery.emptied]
    emptied = [
        recovery for recovery in (case.recovery for case in cases) if recovery.leader is not None and recovery.emptied
    ]
    leaders = sorted({case.recovery.leader for case in led if case.recovery.leader is not None})
    steps = []
    if cases[0].recovery.topic is not None:
        steps.append(describe_topic(facts, name, leaders))
    steps += _leader_first(facts, [case.recovery for case in cases if case.recovery.leader is None])
    with_others = {case.recovery.leader for case in led if len(case.recovery.replicas) > 1}
    kept = [leader for leader in leaders if leader in with_others and leader not in facts.to_be_stopped]
    if kept:
        steps.append(
            Step(
                f"# Keep {numbered('broker', kept)} running: {_hold_only_copies(kept)}",
                Plan(
                    forbids=tuple(Action(Act.STOP, leader) for leader in kept),
                    until=tuple(Action(Act.JOIN, leader) for leader in kept),
                    ends=Ends.SERVICE,
                ),
            )
        )
    if emptied:
        brokers = sorted({recovery.leader for recovery in emptied if recovery.leader is not None})
        they_lead = f"{numbered('Broker', brokers)} {'leads' if len(brokers) == 1 else 'lead'}"
        steps.append(
            f"# {they_lead} {plural(len(emptied), 'partition')} without the records that were in a lost log directory: "
            "the alert broker-disk-replaced says how to get them back"
        )
    # No replica can join a partition without a leader, so these steps are for the partitions that have one.
    others = _by_state(led)
    down = sorted({node for state in others if state.down for node in others[state]})
    steps += _joining(others, down)
    controllers = facts.controllers_only
    steps += [
        restarts(f"# Node {node} {controllers[node]}: to start broker {node}, {start_as_broker(node)}", node)
        for node in _started(cases)
        if node in controllers
    ]
    if down or any(case.severity is Severity.INFO and not case.others for case in led):
        they = "it" if len(down) == 1 else "they"
        when = f"If {they} cannot be started" if down else "To end the state"
        reassign = "assign the partitions a replica on another live broker with kafka-reassign-partitions.sh"
        steps.append(f"# {when}, {reassign}: the state ends when it joins the ISR")
    return tuple(steps)


def _started(cases: list[_Case]) -> tuple[NodeId, ...]:
    states = ((node, state) for case in cases for node, state in case.others.items())
    starting = {node for node, state in states if state.down or state is _ReplicaState.NOT_JOINING}
    starting |= {node for case in cases if case.recovery.leader is None for node in case.recovery.isr}
    return tuple(sorted(starting))


def _leader_first(facts: Facts, leaderless: list[Recovery]) -> Iterable[str]:
    emptied = [recovery for recovery in leaderless if recovery.emptied]
    holders = {recovery.partition: _may_lead(facts, recovery) for recovery in leaderless if not recovery.emptied}
    held = [recovery for recovery in leaderless if holders.get(recovery.partition)]
    unknown = [recovery for recovery in leaderless if not recovery.emptied and not holders[recovery.partition]]
    if emptied:
        yield (
            f"# {_serve_no_client(emptied)}: the records were in a lost log directory, and the alert "
            "broker-disk-replaced says how to get them back"
        )
    if held:
        first = sorted({node for recovery in held for node in holders[recovery.partition]})
        start = f"start {numbered('broker', first)} first, {_hold_only_copies(first)}"
        yield starts(f"# {_serve_no_client(held)}: {start}", *first)
    if unknown:
        yield f"# {_serve_no_client(unknown)}: first start the brokers that --describe lists under Elr or LastKnownElr"


def _may_lead(facts: Facts, recovery: Recovery) -> tuple[NodeId, ...]:
    """Returns the brokers of the replicas that may lead a partition: in the ISR, else eligible as far as is known."""
    return recovery.isr or facts.may_lead.get((recovery.topic_id, recovery.partition), ())


def _hold_only_copies(brokers: Sequence[NodeId]) -> str:
    return "it holds the only in-sync copy" if len(brokers) == 1 else "they hold the only in-sync copies"


def _serve_no_client(leaderless: list[Recovery]) -> str:
    partitions = and_join(recovery.partition for recovery in leaderless)
    if len(leaderless) == 1:
        return f"Partition {partitions} has no leader and serves no client"
    return f"Partitions {partitions} have no leader and serve no client"


def _joining(others: dict[_ReplicaState, list[NodeId]], down: list[NodeId]) -> Iterable[str]:
    not_joining, joining, copying = map(others.get, _LIVE_STATES)
    if joining:
        are, them = ("is", "it") if len(joining) == 1 else ("are", "them")
        yield f"# {numbered('Broker', joining)} {are} back: wait half a minute for {them} to join the ISR"
    if copying:
        copy = "is copying the partition" if len(copying) == 1 else "are copying the partitions"
        yield f"# Wait: {numbered('broker', copying)} {copy}; {_ends(copying)}"
    if not_joining:
        log, do, them = ("log", "it does", "it") if len(not_joining) == 1 else ("logs", "they do", "them")
        yield restarts(
            f"# Check in the {log} of {numbered('broker', not_joining)} why {do} not replicate (disk, quota, network "
            f"to the leader), then restart {them}: {_ends(not_joining)}",
            *not_joining,
        )
    if down:
        yield starts(f"# Start {numbered('broker', down)} again: {_ends(down)}", *down)


def _ends(brokers: Sequence[NodeId]) -> str:
    return f"the state ends when {'it joins' if len(brokers) == 1 else 'they join'} the ISR"


def _resolved(facts: Facts, subject: Subject) -> str:
    lost = "Records that the unclean election lost are not restored."
    if restored := facts.emptied.restored_of(subject.name):
        lost = restored_sentence(one.broker for one in restored)
    return f"No partition of {subject} is RECOVERING. {lost}"


RULE = Rule(
    title="Partitions stay RECOVERING",
    resolved=_resolved,
    hold=hold(60.0, "by the timestamps in the log; normally a replica joins within seconds"),
    further_thresholds=(COPY,),
    needs=(Need.CURRENT_LOG, Need.RECOVERY_STATE),
    records_at_risk=True,
)
