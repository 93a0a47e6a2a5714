"""Checks the remedies of alerts against each other as one plan, in the order in which a person sees the alerts.

What a step does, what it forbids and until when is its value (`rules.remedies.step`); no text is read. Two remedies
conflict if a person who follows one breaks the other, and all of them do if a step waits for itself.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TypeAlias

from rules.alert import Alert, AlertState
from rules.claims.claim import NOBODY, Question, claim
from rules.finding import Finding
from rules.model.identifiers import Millis, NodeId
from rules.remedies.step import Act, Plan, Step, forbids, unheeded

_NEEDS_LEADER = forbids("the command needs a leader", Act.ASK, (None,), (Act.LEAD, (None,)))
"""What forbids a command while no controller leads."""
_Node: TypeAlias = tuple[Act, NodeId | None]
"""An act on a node, which may have to wait."""


@dataclass(frozen=True, kw_only=True)
class Advice:
    """What one remedy says, step by step."""

    name: str
    steps: tuple[Step, ...]
    """Those that have a value."""


def conflicts(reported: Sequence[Alert | Finding], *, at_ms: Millis | None = None) -> list[str]:
    """Returns one sentence for each pair of remedies that cannot both be followed; empty if all agree.

    `at_ms`: the time of the newest alerts; None if all are of one moment.
    """
    ordered = in_reading_order(reported)
    advice = [_advice(each) for each in ordered]
    others = [_advice(_lasting(each, at_ms)) for each in ordered]
    found = [sentence for each in advice for sentence in _does_what_is_forbidden(each, others)]
    found += _waits_for_itself(others)
    nobody = claim(Question.LEADER, NOBODY)
    lost = next((each for each in reported if nobody in each.claims), None)
    if lost is not None:
        # What fired while there was a leader is read after no-leader, which is critical and waits for a leader.
        later = [_advice(each) for each in reported if _observed_at(each) >= _observed_at(lost)]
        outage = [Advice(name="an outage", steps=(_NEEDS_LEADER,))]
        found += [sentence for each in later for sentence in _does_what_is_forbidden(each, outage)]
    return found


def found_conflicts(transitions: Iterable[Alert]) -> list[str]:
    """Returns the conflicts between alerts that were active at once, from all transitions, oldest first."""
    active: dict[str, Alert] = {}
    found: list[str] = []
    for at_ms, of_moment in groupby(transitions, key=lambda each: each.observed_at_ms):
        for alert in of_moment:
            if alert.state is AlertState.FIRING:
                active[alert.fingerprint] = alert
            else:
                active.pop(alert.fingerprint, None)
        found += [f"{at_ms}: {each}" for each in conflicts([*active.values()], at_ms=at_ms)]
    return found


def _lasting(alert: Alert | Finding, at_ms: Millis | None) -> Alert | Finding:
    """Returns an alert without the steps of an older text that wait for what is observed: a newer text says if it is
    not done yet."""
    if isinstance(alert, Finding) or at_ms in (None, alert.observed_at_ms):
        return alert
    lasts = (step for step in alert.remedy if not (isinstance(step, Step) and _is_observed(step.plan)))
    return replace(alert, remedy=tuple(lasts))


def _is_observed(plan: Plan) -> bool:
    return any(until.act in (Act.START, Act.STOP, Act.JOIN, Act.RECOVER, Act.ANSWER) for until in plan.until)


def in_reading_order(reported: Iterable[Alert | Finding]) -> list[Alert | Finding]:
    """Returns the most severe first, as the page and every notification list them."""
    return sorted(reported, key=lambda each: (-each.severity.rank, each.rule, str(each.subject)))


def _observed_at(one: Alert | Finding) -> int:
    return one.observed_at_ms if isinstance(one, Alert) else 0


def _advice(one: Alert | Finding) -> Advice:
    steps = tuple(step for step in one.remedy if isinstance(step, Step))
    return Advice(name=f"{one.rule} {one.subject}", steps=steps)


def _does_what_is_forbidden(one: Advice, others: Sequence[Advice]) -> Iterator[str]:
    """A person may read only this alert: it must forbid first what another one forbids, until at least the same."""
    for other in others:
        for step, ban in unheeded(one.steps, other.steps):
            yield f"{one.name} says: {step}, and {other.name} says: {ban}"


def _waits_for_itself(advice: Sequence[Advice]) -> Iterator[str]:
    """For another replica to join the ISR, the brokers must start that wait until this one is stopped; a node that
    fetches again must start."""
    waits: dict[_Node, set[_Node]] = {}
    for plan in (step.plan for each in advice for step in each.steps):
        for forbidden in plan.forbids:
            waits.setdefault(forbidden[:2], set()).update(until[:2] for until in plan.until)
    for (act, node), until in [*waits.items()]:
        for before, leader in until if act is Act.START else ():
            if before is Act.STOP:
                waits.setdefault((Act.JOIN, leader), set()).add((act, node))
    for _, node in [one for until in waits.values() for one in until if one[0] is Act.FETCH]:
        waits.setdefault((Act.FETCH, node), set()).add((Act.START, node))
    for act, node in waits:
        if act not in (Act.JOIN, Act.FETCH) and (act, node) in _reached(waits, (act, node)):
            yield f"to {act} {node} waits for itself"


def _reached(waits: Mapping[_Node, set[_Node]], begin: _Node) -> set[_Node]:
    found, left = set[_Node](), [begin]
    while left:
        new = waits.get(left.pop(), set()) - found
        found |= new
        left += new
    return found
