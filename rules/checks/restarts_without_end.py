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
    - The whole cluster restarted at once, however often.

    If a person restarts all nodes in turn four times without a pause, the alert fires too. The log's starts of the last
    day are counted; it has no starts of controllers below metadata.version 3.7. The alert resolves when no node was
    restarted for as long as such a pause.

What to do
    1. Find out what restarts the nodes: the operator's log, the events of the pods, the scheduler, the configuration
       management.
    2. Pause it between two restarts, when all nodes run.
    3. Find out what it wants to change, and why that is not reached, before it goes on.

What not to do
    Do not stop the operator while a node is down: start that node first.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby

from rules.facts.lost_lead import lost_lead_text
from rules.facts.needs import Need
from rules.facts.quorum import Facts
from rules.facts.restart_rounds import MANY_ROUNDS, PAUSE_MS, Rounds, rounds_of
from rules.finding import Finding, Plain, RuleResult, Severity, Threshold, Thresholds, hold
from rules.formatting import and_join, ms_text, numbered, plural, utc_text
from rules.model.history import NodeKind
from rules.model.identifiers import Millis
from rules.model.quorum import Quorum
from rules.model.subject import Subject
from rules.remedies.remedy_commands import describe_status
from rules.rule import Rule

ROUNDS = Threshold(
    name="rounds",
    default=float(MANY_ROUNDS),
    unit="rounds",
    meaning="after this many complete rounds the next restart is reported. Settings that change in three rolling "
    "restarts, such as a listener, need three; two are enough for an upgrade",
)
PAUSE = Threshold(
    name="pause",
    default=PAUSE_MS / 1_000,
    meaning="a time without a restart that is longer than this, and than four times what is usual between these "
    "restarts, ends the count. Operators compare every few minutes",
)


def evaluate(facts: Facts, thresholds: Thresholds) -> Iterable[RuleResult]:
    """Returns one finding about the nodes if all of a kind are restarted in turn without an end."""
    limits = {"at_least": round(thresholds[ROUNDS.name]), "pause_ms": thresholds.ms(PAUSE.name)}
    found = [rounds for kind in NodeKind if (rounds := rounds_of(facts.quorum, kind, **limits)) is not None]
    if found:
        yield _finding(facts, found)


def _finding(facts: Facts, found: Sequence[Rounds]) -> Finding:
    quorum = facts.quorum
    last = max((rounds.newest for rounds in found), key=lambda one: one.ended_ms)
    kind = next(rounds.kind for rounds in found if rounds.newest is last)
    return Finding(
        subject=Subject("nodes"),
        severity=Severity.WARNING,
        summary=f"Restarts in turn do not come to an end: {and_join([*map(_text, found)])}, and a further round has "
        f"begun. The last was {kind} {last.node} at {utc_text(Millis(last.ended_ms))}.{_lost_leads(quorum, found)}",
        evidence={f"{rounds.kind}s": _evidence(rounds) for rounds in found},
        remedy=(
            "# Find out what restarts the nodes: the log of the operator (Kubernetes: kubectl get events "
            "--sort-by=.lastTimestamp), a scheduler, the configuration management",
            "# Pause it when all nodes run (Strimzi: kubectl annotate kafka CLUSTER "
            "strimzi.io/pause-reconciliation=true)",
            "# Find out what it wants to change, and why it finds the same difference again: a setting that is written "
            "otherwise each time, a certificate that is renewed each time, a readiness probe that never succeeds",
            describe_status(facts),
        ),
    )


def _text(rounds: Rounds) -> str:
    """Returns `all 3 brokers 4 times since 2026-09-21 12:00:00 UTC`."""
    nodes = f"{'both' if rounds.nodes == 2 else f'all {rounds.nodes}'} {rounds.kind}s"
    since = utc_text(Millis(rounds.complete[0][0].began_ms))
    return f"{nodes} {plural(len(rounds.complete), 'time')} since {since}"


def _lost_leads(quorum: Quorum, found: Iterable[Rounds]) -> str:
    """Returns which controllers end when they lose the lead; it begins with a space, and is empty without any."""
    controllers = [rounds for rounds in found if rounds.kind is NodeKind.CONTROLLER]
    nodes = {restart.node: rounds for rounds in controllers for each in rounds.complete for restart in each}
    losing = sorted(node for node, rounds in nodes.items() if lost_lead_text(quorum, node, rounds.started(node)))
    if not losing:
        return ""
    names = numbered("controller", losing).capitalize()
    return f" {names} had led until just before each start: each ends while it leads, or when it loses the lead."


def _evidence(rounds: Rounds) -> dict[str, Plain]:
    return {
        "nodes": rounds.nodes,
        "complete_rounds": len(rounds.complete),
        "rounds": [
            {
                "since": utc_text(Millis(each[0].began_ms)),
                "lasted": ms_text(Millis(each[-1].ended_ms - each[0].began_ms)),
                "order": and_join([node for node, _ in groupby(restart.node for restart in each)], 8),
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
    without_leader=True,
)
