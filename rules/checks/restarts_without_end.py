"""All brokers, or all controllers, are restarted in turn, round after round, without an end.

What it means
    Something restarts every node, one after the other, and begins again: a script, a scheduler, or an operator that
    finds a difference at each pass, such as a setting that is written otherwise each time. Each restart may be clean,
    so that no other rule finds a fault. For as long, partitions move and clients reconnect.

    Three rounds are complete and the next one has begun. A round is over when each broker has started, or each
    controller. A node that is both counts as a controller. These do not fire:

    - Up to three rolling restarts in a row: settings that change in three rolls need no more.
    - Rolling restarts with pauses: a pause ends the count that is longer than ten minutes and than four times what is
      usual between these restarts.
    - The whole cluster restarted at once, however often, as by hand or after a power failure. The log shows it: a
      majority of the brokers is fenced at the same time, and controllers register once a majority of them runs, so that
      a majority registers within seconds.

    If a person restarts all nodes in turn four times without a pause, the alert fires too: the log does not tell this
    from what an operator does.

    The log's starts of the last day are counted, 32 of each node and 1,024 of all brokers: three rounds must fit in. It
    has no starts of controllers below metadata.version 3.7.

    The alert resolves when no node was restarted for as long as such a pause.

What to do
    1. Find out what restarts the nodes: the operator's log, the events of the pods, the scheduler, the configuration
       management.
    2. Pause it between two restarts, when all nodes run.
    3. Find out what it wants to change, and why that is not reached, before it goes on.

What not to do
    Do not stop the operator while a node is down: start that node first.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from rules.analysis.lost_lead import lost_lead_text
from rules.finding import Finding, Need, Plain, Rule, RuleResult, Severity, Threshold, Thresholds, hold
from rules.formatting import and_join, ms_text, numbered, plural, utc_text
from rules.model.history import NodeKind
from rules.model.identifiers import Millis, NodeId
from rules.model.membership import majority
from rules.model.quorum import Quorum
from rules.model.subject import Subject
from rules.remedies.remedy_commands import describe_status

ROUNDS = Threshold(
    name="rounds",
    default=3.0,
    unit="rounds",
    meaning="after this many complete rounds the next restart is reported. Settings that change in three rolling "
    "restarts, such as a listener, need three; two are enough for an upgrade",
)
PAUSE = Threshold(
    name="pause",
    default=600.0,
    meaning="a time without a restart that is longer than this, and than four times what is usual between these "
    "restarts, ends the count. Operators compare every few minutes",
)
_USUAL = 4
_REGISTERS_MS = 10_000
"""The controllers that register within this time were down together: each does so once there is a leader."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Restart:
    """One restart of a node: a broker's from its fencing to its unfencing."""

    node: NodeId
    began_ms: int
    ended_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rounds:
    """The newest rounds of all nodes of one kind that followed each other."""

    kind: NodeKind
    nodes: int
    complete: Sequence[Sequence[_Restart]]
    newest: _Restart

    def __str__(self) -> str:
        """Returns `all 3 brokers 4 times since 2026-09-21 12:00:00 UTC`."""
        since = utc_text(Millis(self.complete[0][0].began_ms))
        nodes = f"{'both' if self.nodes == 2 else f'all {self.nodes}'} {self.kind}s"
        return f"{nodes} {plural(len(self.complete), 'time')} since {since}"


def evaluate(quorum: Quorum, thresholds: Thresholds) -> Iterable[RuleResult]:
    """Returns one finding about the nodes if all of a kind are restarted in turn without an end."""
    newest = quorum.newest_timestamp_ms
    if newest is None:
        return
    kinds = ((NodeKind.BROKER, _brokers(quorum, newest)), (NodeKind.CONTROLLER, _controllers(quorum)))
    found = [rounds for kind, each in kinds if (rounds := _rounds(kind, *each, newest, thresholds)) is not None]
    if found:
        yield _finding(quorum, found)


def _brokers(quorum: Quorum, newest: Millis) -> tuple[frozenset[NodeId], list[_Restart]]:
    """Returns the brokers that are not controllers, without those that are down for long, and their restarts."""
    restarts = [
        _Restart(
            node=one.id,
            began_ms=one.timestamp_ms,
            ended_ms=newest if one.ended_timestamp_ms is None else one.ended_timestamp_ms,
        )
        for one in quorum.history.interruptions
        if one.restarted and one.id in quorum.brokers and one.id not in quorum.controllers
    ]
    alive = {one.id for one in quorum.brokers.values() if one.alive and one.id not in quorum.controllers}
    return frozenset(alive | {one.node for one in restarts}), restarts


def _controllers(quorum: Quorum) -> tuple[frozenset[NodeId], list[_Restart]]:
    """Returns the controllers that vote or have started, and their restarts."""
    restarts = [
        _Restart(node=one.id, began_ms=one.timestamp_ms - _REGISTERS_MS, ended_ms=one.timestamp_ms)
        for one in quorum.history.starts
        if one.replaced_incarnation_id is not None and one.id in quorum.controllers
    ]
    return quorum.voting_ids | {one.node for one in restarts}, restarts


def _rounds(
    kind: NodeKind, nodes: frozenset[NodeId], restarts: list[_Restart], newest: Millis, thresholds: Thresholds
) -> _Rounds | None:
    """Returns the rounds that followed each other up to now; None if they are few."""
    ordered = sorted(restarts, key=lambda one: one.began_ms)
    pauses = sorted(max(0, later.began_ms - one.ended_ms) for one, later in pairwise(ordered))
    if not pauses:
        return None
    longest = max(thresholds.ms(PAUSE.name), _USUAL * pauses[(len(pauses) - 1) // 2])
    complete: list[list[_Restart]] = []
    begun: list[_Restart] = []
    for before, one in zip((None, *ordered), ordered, strict=False):
        if before is not None and one.began_ms - before.ended_ms > longest:
            complete, begun = [], []
        if begun and nodes == {each.node for each in begun}:
            complete = [*complete, begun] if _in_turn(begun, len(nodes)) else []
            begun = []
        begun.append(one)
    if len(complete) < max(1, round(thresholds[ROUNDS.name])) or newest - ordered[-1].ended_ms > longest:
        return None
    return _Rounds(kind=kind, nodes=len(nodes), complete=complete, newest=ordered[-1])


def _in_turn(restarts: Sequence[_Restart], nodes: int) -> bool:
    """Returns whether no majority of the nodes was down at one time."""
    return all(
        len({one.node for one in restarts if one.began_ms <= at.began_ms < one.ended_ms}) < majority(nodes)
        for at in restarts
    )


def _finding(quorum: Quorum, found: Sequence[_Rounds]) -> Finding:
    last = max((rounds.newest for rounds in found), key=lambda one: one.ended_ms)
    kind = next(rounds.kind for rounds in found if rounds.newest is last)
    return Finding(
        subject=Subject("nodes"),
        severity=Severity.WARNING,
        summary=f"Restarts in turn do not come to an end: {and_join([*map(str, found)])}, and a further round has "
        f"begun. The last was {kind} {last.node} at {utc_text(Millis(last.ended_ms))}.{_lost_leads(quorum, found)}",
        evidence={f"{rounds.kind}s": _evidence(rounds) for rounds in found},
        remedy=(
            "# Find out what restarts the nodes: the log of the operator (Kubernetes: kubectl get events "
            "--sort-by=.lastTimestamp), a scheduler, the configuration management",
            "# Pause it when all nodes run (Strimzi: kubectl annotate kafka CLUSTER "
            "strimzi.io/pause-reconciliation=true)",
            "# Find out what it wants to change, and why it finds the same difference again: a setting that is written "
            "otherwise each time, a certificate that is renewed each time, a readiness probe that never succeeds",
            describe_status(quorum),
        ),
    )


def _lost_leads(quorum: Quorum, found: Iterable[_Rounds]) -> str:
    """Returns which controllers end when they lose the lead; it begins with a space, and is empty without any."""
    restarts = [
        one for rounds in found if rounds.kind is NodeKind.CONTROLLER for each in rounds.complete for one in each
    ]
    started: dict[NodeId, list[Millis]] = {}
    for one in restarts:
        started.setdefault(one.node, []).append(Millis(one.ended_ms))
    losing = sorted(node for node, times in started.items() if lost_lead_text(quorum, node, times))
    if not losing:
        return ""
    nodes = numbered("controller", losing).capitalize()
    return f" {nodes} had led until just before each start: each ends while it leads, or when it loses the lead."


def _evidence(rounds: _Rounds) -> dict[str, Plain]:
    return {
        "nodes": rounds.nodes,
        "complete_rounds": len(rounds.complete),
        "rounds": [
            {
                "since": utc_text(Millis(each[0].began_ms)),
                "lasted": ms_text(Millis(each[-1].ended_ms - each[0].began_ms)),
                "order": and_join([node for node, _ in groupby(one.node for one in each)], 8),
            }
            for each in rounds.complete[-4:]
        ],
    }


RULE = Rule(
    title="Restarts in turn do not come to an end",
    resolved="No node is restarted any more, or a pause has ended the rounds of restarts.",
    hold=hold(0.0, "the restarts have already happened"),
    further_thresholds=(ROUNDS, PAUSE),
    needs=(Need.CURRENT_LOG,),
    grouped_with=("node-restarting", "broker-flapping", "epoch-churn"),
)
