"""Checks the remedies of alerts against each other as one plan, in the order in which a person sees the alerts.

A remedy is actions on nodes: start, stop, "do not ... before", keep running, add or remove a voter, and commands that
only a leader answers. Two remedies conflict if a person who follows one breaks the other, and all of them do if a step
waits for itself. What a step about a broker does is its value (`rules.remedies.step`); a step about a controller is
read.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TypeAlias

from rules.alert import Alert, AlertState
from rules.claims.claim import NOBODY, Question, claim
from rules.finding import Finding
from rules.model.identifiers import Millis, NodeId
from rules.remedies.step import Act, Action, Plan, Step

_ROLE = r"(?:controllers?|brokers?)"
_NODES = rf"{_ROLE} (\d+(?:(?:, | and )(?:{_ROLE} )?\d+)*)"
_START = re.compile(rf"\b(?:(?:re)?start|upgrade) {_NODES}", re.IGNORECASE)
_NEGATED = re.compile(r"\b(?:do|does|did) not (?:only )?(?:re)?start\b[^:;]*", re.IGNORECASE)
_PRONOUN = re.compile(r"\b(?:re)?start (?:it|them)\b", re.IGNORECASE)
_NEEDS_LEADER = re.compile(r"^kafka-(?:metadata-quorum|features)\.sh ")
_VOTER_CHANGE = re.compile(r"\b(?:add-controller|remove-controller)\b")
_COPY_FIRST = re.compile(r"\bcopy\b.* before (?:you start|it starts)")
_COPIED = re.compile(r"you have copied (.*) from its log\.dirs")
_EVERY_NODE = re.compile(r"any (?:node|controller)\b|anything is restarted")
_ANY_CONTROLLER = range(1, 10)
_Node: TypeAlias = tuple[Act, NodeId | None]
"""An act on a node, which may have to wait."""


@dataclass(kw_only=True)
class Advice:
    """What one remedy says, step by step."""

    name: str
    subject: str
    started: list[tuple[int, int, bool]] = field(default_factory=list)
    """(step, node, whether it runs and is restarted) of each node that is started or restarted."""
    not_before: dict[int, list[tuple[int, str]]] = field(default_factory=dict)
    """By node: the steps that forbid its start until something is done."""
    no_node_before: list[tuple[int, str]] = field(default_factory=list)
    """The steps that forbid the start of any node until something is done."""
    kept_running: set[int] = field(default_factory=set)
    kept_off: set[int] = field(default_factory=set)
    voter_changes: list[int] = field(default_factory=list)
    forbids_voter_change: bool = False
    waits_for_change: int | None = None
    """The step that waits for the pending change of the voter set."""
    waits_for_leader: bool = False
    needs_leader: list[int] = field(default_factory=list)
    """The commands that need a leader, unless a step before them waits for one."""
    plans: list[tuple[int, str, Plan]] = field(default_factory=list)
    """The steps about brokers: their place, text and value."""

    def read(self, step: int, line: str) -> None:
        """Adds one step of the remedy."""
        if isinstance(line, Step):
            self._add(step, line, line.plan)
        elif line.startswith(("# Do not ", "# Keep ")):
            self._prohibit(step, line)
        elif _COPY_FIRST.search(line):
            self._forbid_start(step, line)
        elif line.startswith("#"):
            asked = _NEGATED.sub("", line)
            again = "restart" in asked or "Upgrade" in asked
            self.started += [(step, node, again) for node in _started(asked, self.subject)]
            self.waits_for_change = step if "pending change of the voter set" in line else self.waits_for_change
            self.waits_for_leader |= line.startswith("# Wait")
        else:
            self.voter_changes += [step] if _VOTER_CHANGE.search(line) else []
            self.needs_leader += [step] if _NEEDS_LEADER.match(line) and not self.waits_for_leader else []

    def _add(self, step: int, line: str, plan: Plan) -> None:
        self.plans.append((step, line, plan))
        stopped = {action.node for action in plan.does if action.act is Act.STOP}
        nodes = [action.node for action in plan.does if action.act is Act.START and action.node is not None]
        self.started += [(step, node, node in stopped) for node in nodes]
        for act, node, _ in plan.forbids:
            if act is Act.START and node is None:
                self.no_node_before.append((step, line))
            elif act is Act.START and node is not None:
                self.not_before.setdefault(node, []).append((step, line))
            elif act is Act.STOP and node is not None:
                self.kept_running.add(node)

    def conditions(self, node: int) -> list[tuple[int, str]]:
        """Returns the steps that forbid the start of this node until something is done."""
        return [*self.not_before.get(node, []), *self.no_node_before]

    def _prohibit(self, step: int, line: str) -> None:
        self.forbids_voter_change |= "another change of the voter set" in line
        if _EVERY_NODE.search(line):
            self.no_node_before.append((step, line))
        elif " start " in line:
            self._forbid_start(step, line)
        elif re.match(r"# Keep .* off ", line):
            self.kept_off |= _named(line)
        elif re.match(r"# Keep .* running|# Do not (?:stop or )?restart ", line):
            self.kept_running |= _named(re.split(":| until | before ", line)[0])

    def _forbid_start(self, step: int, line: str) -> None:
        for node in _named(line.partition(":")[0].partition(" before ")[0]):
            self.not_before.setdefault(node, []).append((step, line))


def conflicts(reported: Sequence[Alert | Finding], *, at_ms: Millis | None = None) -> list[str]:
    """Returns one sentence for each pair of remedies that cannot both be followed; empty if all agree.

    `at_ms`: the time of the newest alerts; None if all are of one moment.
    """
    ordered = in_reading_order(reported)
    advice = [_advice(each) for each in ordered]
    others = [_advice(_lasting(each, at_ms)) for each in ordered]
    found = [sentence for each in advice for sentence in _starts_too_early(each, others)]
    found += [sentence for each in advice for sentence in _stops_the_only_copy(each, others)]
    found += [sentence for each in advice for sentence in _changes_voters_twice(each, advice)]
    found += [sentence for each in advice for sentence in _does_what_is_forbidden(each, others)]
    found += _waits_for_itself(others)
    nobody = claim(Question.LEADER, NOBODY)
    lost = next((each for each in reported if nobody in each.claims), None)
    if lost is not None:
        # What fired while there was a leader is read after no-leader, which is critical and waits for a leader.
        later = [_advice(each) for each in reported if _observed_at(each) >= _observed_at(lost)]
        found += [
            f"{one.name}, step {step + 1}: the command needs a leader" for one in later for step in one.needs_leader
        ]
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
    return any(until.act in (Act.START, Act.STOP, Act.JOIN, Act.RECOVER) for until in plan.until)


def in_reading_order(reported: Iterable[Alert | Finding]) -> list[Alert | Finding]:
    """Returns the most severe first, as the page and every notification list them."""
    return sorted(reported, key=lambda each: (-each.severity.rank, each.rule, str(each.subject)))


def _observed_at(one: Alert | Finding) -> int:
    return one.observed_at_ms if isinstance(one, Alert) else 0


def _advice(one: Alert | Finding) -> Advice:
    advice = Advice(name=f"{one.rule} {one.subject}", subject=str(one.subject))
    for step, line in enumerate(one.remedy):
        advice.read(step, line)
    return advice


def _named(text: str) -> set[int]:
    return {int(number) for match in re.finditer(_NODES, text) for number in re.findall(r"\d+", match.group(1))}


def _started(line: str, subject: str) -> set[int]:
    found = {int(number) for match in _START.finditer(line) for number in re.findall(r"\d+", match.group(1))}
    if "the controllers one by one" in line:
        found.update(_ANY_CONTROLLER)
    if not found and _PRONOUN.search(line):
        found = _named(line) or {int(number) for number in re.findall(r"(?<=\s)\d+", subject)}
    return found


def _starts_too_early(one: Advice, others: Sequence[Advice]) -> Iterator[str]:
    """A person may read only this alert: it must say itself, first, what comes before a start."""
    for step, node, again in one.started:
        own = one.conditions(node)
        for other in others:
            for _, line in other.conditions(node):
                applies = again or not line.startswith("# Do not restart")
                if applies and not any(at < step and _contains(said, line) for at, said in own):
                    yield f"{one.name} starts {node}, and {other.name} says: {line}"
            if node in other.kept_off and not any(at < step for at, _ in own):
                yield f"{one.name} starts {node}, and {other.name} keeps it off"


def _contains(said: str, line: str) -> bool:
    """Returns whether a step says at least what the other one says: the same, or to copy the same and more."""
    copied, expected = _COPIED.search(said), _COPIED.search(line)
    if copied is None or expected is None:
        return said == line
    return {*re.split(", | and ", expected.group(1))} <= {*re.split(", | and ", copied.group(1))}


def _stops_the_only_copy(one: Advice, others: Sequence[Advice]) -> Iterator[str]:
    for _, node, again in one.started:
        for other in others:
            if again and node in other.kept_running and node not in one.kept_running:
                yield f"{one.name} restarts {node}, and {other.name} keeps it running"


def _changes_voters_twice(one: Advice, others: Sequence[Advice]) -> Iterator[str]:
    for other in others:
        if other is not one and other.forbids_voter_change:
            for step in one.voter_changes:
                if one.waits_for_change is None or one.waits_for_change > step:
                    yield f"{one.name} changes the voter set, and {other.name} says not to"


def _does_what_is_forbidden(one: Advice, others: Sequence[Advice]) -> Iterator[str]:
    """A person may read only this alert: it must forbid first what another one forbids, until at least the same."""
    done: list[Action] = []
    forbidden: list[tuple[Action, Plan]] = []
    for _, line, plan in one.plans:
        for action in plan.does:
            for other in others:
                for _, said, prohibition in other.plans:
                    if not any(_is_one_of(action, each) for each in prohibition.forbids):
                        continue
                    until = _until(prohibition, action.node)
                    own = any(_is_one_of(action, each) and _waits_for(said_.until, until) for each, said_ in forbidden)
                    if not own and not (until and _waits_for(done, until)):
                        yield f"{one.name} says: {line}, and {other.name} says: {said}"
        done += plan.does
        forbidden += [(action, plan) for action in plan.forbids]


def _is_one_of(action: Action, forbidden: Action) -> bool:
    return action.act is forbidden.act and forbidden.node in (None, action.node)


def _until(plan: Plan, node: NodeId | None) -> list[Action]:
    """Returns what a step waits for of this node: it may be about several, each with an ISR of its own."""
    return [until for until in plan.until if until.act is not Act.JOIN or until.node == node]


def _waits_for(own: Sequence[Action], other: Sequence[Action]) -> bool:
    return all(_covers(own, each) for each in other) if other else not own


def _covers(actions: Iterable[Action], one: Action) -> bool:
    return any(
        (each.act, each.node) == (one.act, one.node) and (not each.directories or each.directories >= one.directories)
        for each in actions
    )


def _waits_for_itself(advice: Sequence[Advice]) -> Iterator[str]:
    """For another replica to join the ISR, the brokers must start that wait until this one is stopped."""
    waits: dict[_Node, set[_Node]] = {}
    for plan in (plan for each in advice for _, _, plan in each.plans):
        for forbidden in plan.forbids:
            waits.setdefault(forbidden[:2], set()).update(until[:2] for until in plan.until)
    for (act, node), until in [*waits.items()]:
        for before, leader in until if act is Act.START else ():
            if before is Act.STOP:
                waits.setdefault((Act.JOIN, leader), set()).add((act, node))
    for act, node in waits:
        if act is not Act.JOIN and (act, node) in _reached(waits, (act, node)):
            yield f"to {act} {node} waits for itself"


def _reached(waits: Mapping[_Node, set[_Node]], begin: _Node) -> set[_Node]:
    found, left = set[_Node](), [begin]
    while left:
        new = waits.get(left.pop(), set()) - found
        found |= new
        left += new
    return found
