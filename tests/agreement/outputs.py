"""Everything that the commands and the page would say of one quorum, made without a process."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rules.alert import Alert
from rules.answers.restart import RestartSafety
from rules.answers.what_if import Change, Controllers, WhatIf, controllers_of_quorum
from rules.evaluate import RULES, evaluate, resolved_text, thresholds_for
from rules.facts.quorum import Facts
from rules.facts.roles import known_controllers
from rules.finding import Evaluation, Finding, Thresholds
from rules.lifecycle import TrackedConditions, advance, firing
from rules.model.identifiers import Millis, NodeId
from rules.model.quorum import Quorum
from rules.model.subject import Subject
from streaming.status.build_status import LIVE_MS, cluster_status
from streaming.status.cluster_status import ClusterState, ClusterStatus
from streaming.status.restart_output import evaluate_restart
from streaming.status.what_if import what_if

_OF_THE_QUORUM = ("no-leader", "failure-tolerance")
_OF_VOTERS = ("stale-voter-endpoint", "voter-lagging")
"""The rules whose resolved texts say more than that a condition is over."""


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """What is said of one quorum at one moment."""

    quorum: Quorum
    evaluation: Evaluation
    alerts: tuple[Alert, ...]
    """What fires with a text that is not that of a finding: its rule is unknown now, or inhibited."""
    status: ClusterStatus
    restarts: Mapping[NodeId, RestartSafety]
    what_ifs: Mapping[str, tuple[NodeId | None, WhatIf]]
    """By the options of the command, with the node that they name."""
    resolved: Mapping[str, str]
    """By rule and subject: what a resolved alert would say now."""

    @property
    def reported(self) -> tuple[Alert | Finding, ...]:
        """What a person reads: the findings (pending or firing), and the other alerts that fire."""
        return (*self.evaluation.findings, *self.alerts)


def outputs_of(
    quorum: Quorum,
    *,
    thresholds: Mapping[str, Thresholds] | None = None,
    firing_alerts: Iterable[Alert] = (),
) -> Outputs:
    """Returns all outputs of a quorum.

    Args:
        quorum: as it is observed.
        thresholds: None: the defaults.
        firing_alerts: what fires with its newest text; what is found now is left out.
    """
    state = cluster_state(quorum, thresholds or thresholds_for({}))
    evaluation = state.evaluation
    found = {(one.rule, str(one.subject)) for one in evaluation.findings}
    nodes = sorted(known_controllers(quorum))
    restarted = sorted({*nodes, *quorum.brokers})
    return Outputs(
        quorum=quorum,
        evaluation=evaluation,
        alerts=tuple(one for one in firing_alerts if (one.rule, one.subject) not in found),
        status=cluster_status(state),
        restarts={node: evaluate_restart(state, node) for node in restarted},
        what_ifs=_what_ifs(controllers_of_quorum(Facts(quorum))),
        resolved=_resolved(quorum, evaluation, nodes),
    )


def cluster_state(quorum: Quorum, thresholds: Mapping[str, Thresholds]) -> ClusterState:
    """Returns the state that the commands make their answers of."""
    return ClusterState(
        facts=(facts := Facts(quorum)),
        evaluation=evaluate(facts, thresholds),
        thresholds=thresholds,
        taken_at_ms=quorum.now_ms,
        queried_since_ms=Millis(quorum.now_ms - LIVE_MS),
        recorded_at_ms=quorum.now_ms,
        missing=(),
    )


def alerts_that_go_on(before: Quorum, now: Quorum) -> tuple[Alert, ...]:
    """Returns what fires now, with its newest text, if everything that was found before had fired."""
    at_once = thresholds_for({f"{rule}.hold": 0.0 for rule in RULES})
    tracked, _ = advance(TrackedConditions(), evaluate(Facts(before), at_once), before, at_once)
    evaluation = evaluate(Facts(now), at_once)
    tracked, _ = advance(tracked, evaluation, now, at_once)
    return firing(tracked, evaluation, now).alerts


def _what_ifs(controllers: Controllers) -> dict[str, tuple[NodeId | None, WhatIf]]:
    everyone = Change(moved={}, lost=frozenset(), restarted=None)
    found: dict[str, tuple[NodeId | None, WhatIf]] = {"what-if": (None, what_if(controllers, everyone))}
    for node in sorted(one.key.id for one in controllers.electorate.electors):
        alone = frozenset({node})
        for options, lost, restarted in (
            (f"--lose {node}", alone, None),
            (f"--restart {node}", frozenset[NodeId](), alone),
            (f"--lose {node} --restart {node}", alone, alone),
        ):
            change = Change(moved={}, lost=lost, restarted=restarted)
            found[f"what-if {options}"] = (node, what_if(controllers, change))
    return found


def _resolved(quorum: Quorum, evaluation: Evaluation, nodes: Iterable[NodeId]) -> dict[str, str]:
    absent = {one.rule for one in evaluation.not_applicable}
    found = {(one.rule, str(one.subject)) for one in evaluation.findings}
    subjects = [
        *((rule, "quorum") for rule in _OF_THE_QUORUM),
        *((rule, f"voter {node}") for rule in _OF_VOTERS for node in nodes),
    ]
    return {
        f"{rule} {subject}": resolved_text(rule, Subject.of(subject), Facts(quorum))
        for rule, subject in subjects
        if rule not in absent and (rule, subject) not in found and evaluation.knows(rule, subject)
    }
