"""A step of a remedy as a value: what it does to which node, or what it forbids until something else is done.

The remedies of all findings of a cluster are one plan: no step may do what another one forbids, and none may wait for
itself. The value is made where its text is, from the same facts, as the claims of a `Statement` are.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from rules.claims.claim import NO, YES, Claim, Question, of_each
from rules.claims.statement import Statement, claims_of, statement
from rules.model.identifiers import NodeId

_MOST_CLAIMED = 8
"""Nodes of which a step claims that it restarts them: a text names no more."""


class Act(StrEnum):
    """What a step does to a node. A restart is a stop and a start."""

    START = "start"
    """Its replicas truncate their logs to those of their leaders, and those that are eligible lead."""
    STOP = "stop"
    """What only it has in sync serves no client until it is back; an unclean election meanwhile loses the records."""
    COPY = "copy"
    """Its directories are copied. It ends nothing."""
    MOVE = "move"
    """Its copy of the metadata log is moved away: it fetches the log again. It ends nothing."""
    ELECT = "elect"
    """Another replica of its partitions is elected: what only this node has is truncated when it starts."""
    JOIN = "join"
    """Another replica of its partitions joins the ISR, for which the node must run."""
    MOUNT = "mount"
    """Its log directories are there, as it registered them. It ends nothing."""
    RECOVER = "recover"
    """Its partitions have their records again: the former disk is mounted, or another replica is elected."""
    REASSIGN = "reassign"
    """Its replicas are moved to other brokers: those on it are deleted once it runs."""
    UNREGISTER = "unregister"
    """Its registration is removed, and with it its place in each ISR."""
    FORMAT = "format"
    """Its metadata directory is formatted: what it held is lost."""
    FORBID_UNCLEAN = "forbid unclean elections"
    """unclean.leader.election.enable is false for every topic. It ends nothing."""
    CHANGE_VOTER = "change voter"
    """It is added to the voters, or removed from them: the leader refuses a second change."""
    SETTLE = "settle"
    """The pending change of the voter set is committed or dropped."""
    ASK = "ask the leader"
    """A command that only a leader answers."""
    LEAD = "lead"
    """A controller is elected leader, or commits."""
    FETCH = "fetch"
    """It fetches the metadata log again, for which it must run."""
    ANSWER = "answer"
    """It answers new connections."""
    RESOLVE = "resolve"
    """The names of the recorded endpoints resolve."""
    SNAPSHOT = "snapshot"
    """It has a snapshot past a record that Kafka cannot replay."""


class Ends(StrEnum):
    """What a forbidden step would end."""

    RECORDS = "acknowledged records"
    METADATA = "committed metadata"
    VOTERS = "the voter set"
    SERVICE = "the service of partitions"


class Action(NamedTuple):
    """One act on one node."""

    act: Act
    node: NodeId | None
    """None: any node."""
    directories: frozenset[str] = frozenset()
    """The partitions that it is about; empty: all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What one step says."""

    does: tuple[Action, ...] = ()
    """What it asks for."""
    forbids: tuple[Action, ...] = ()
    """What must not be done."""
    until: tuple[Action, ...] = ()
    """What must be done before it is allowed, all of it; empty: it is forbidden as long as the finding lasts."""
    ends: Ends | None = None
    """What that would end."""
    if_safe: bool = False
    """It asks for that only if `safe-to-restart` permits it, which knows what all others forbid."""


class Step(Statement):
    """One line of a remedy with its value. What edits the text loses it."""

    __slots__ = ("plan",)
    plan: Plan

    def __new__(cls, text: str, plan: Plan, *claims: Claim) -> "Step":
        """Returns the line with its value and its claims."""
        made = super().__new__(cls, text, *claims)
        assert isinstance(made, Step)
        made.plan = plan
        return made

    def __reduce__(self) -> tuple[object, ...]:
        """Returns what makes a copy, also in another process."""
        return type(self), (str(self), self.plan, *self.claims)


def does(text: str, *actions: tuple[Act, Iterable[NodeId | None]]) -> Step:
    """Returns a line that asks for each of these acts on each of its nodes."""
    return _step(text, Plan(does=tuple(Action(act, node) for act, nodes in actions for node in nodes)))


def _step(text: str, plan: Plan) -> Step:
    return Step(text, plan, *claims_of((text,)))


def said_by(rule: str, step: Step) -> Step:
    """Returns a step of the remedy of a rule for another remedy, with the name of its rule."""
    return _step(statement(step, f" ({rule})"), step.plan)


def waits(text: str, *for_: Act) -> Step:
    """Returns a line that waits for what concerns no single node: that a controller leads, that a change ends."""
    return does(text, *((act, (None,)) for act in for_))


def asks_leader(command: str, *changed: NodeId) -> Step:
    """Returns a command that only a leader answers; `changed`: the voters that it adds or removes."""
    return does(command, (Act.ASK, (None,)), (Act.CHANGE_VOTER, changed))


def forbids(
    text: str,
    act: Act,
    nodes: Iterable[NodeId | None],
    *until: tuple[Act, Iterable[NodeId | None]] | Action,
    ends: Ends | None = None,
) -> Step:
    """Returns a line that forbids an act on these nodes until all that is named is done; else while the finding
    lasts."""
    named = ((one,) if isinstance(one, Action) else (Action(one[0], node) for node in one[1]) for one in until)
    after = tuple(action for each in named for action in each)
    return _step(text, Plan(forbids=tuple(Action(act, node) for node in nodes), until=after, ends=ends))


def keeps_running(
    text: Statement, *until: tuple[Act, Iterable[NodeId | None]] | Action, ends: Ends | None = None
) -> Step:
    """Returns a line that forbids to stop the nodes of which it claims that they may not be restarted."""
    kept = (one.node for one in text.claims if one.question is Question.RESTART and one.answer == (NO,))
    return forbids(text, Act.STOP, kept, *until, ends=ends)


def starts(text: str, *nodes: NodeId) -> Step:
    """Returns a line that starts these nodes."""
    return does(text, (Act.START, nodes))


def may_restart(text: str, *nodes: NodeId) -> Step:
    """Returns a line that stops these nodes, and starts them, if a person finds that it is needed or permitted."""
    return does(text, (Act.STOP, nodes), (Act.START, nodes))


def restart_if_safe(text: str, node: NodeId) -> Step:
    """Returns a line that restarts a node if `safe-to-restart` permits it."""
    return _step(text, replace(may_restart(text, node).plan, if_safe=True))


def restarts(text: str, *nodes: NodeId) -> Step:
    """Returns a line that stops these nodes, and starts them: `safe-to-restart` must not forbid that."""
    return Step(text, may_restart(text, *nodes).plan, *of_each(Question.ADVISED, nodes[:_MOST_CLAIMED], YES))


def started(remedy: Iterable[str]) -> tuple[NodeId, ...]:
    """Returns the nodes that the steps of a remedy start, sorted: what must be done before comes first."""
    actions = (action for step in remedy if isinstance(step, Step) for action in step.plan.does)
    return tuple(sorted({action.node for action in actions if action.act is Act.START and action.node is not None}))


def unheeded(steps: Iterable[Step], others: Sequence[Step]) -> Iterator[tuple[Step, Step]]:
    """Yields each step of a remedy with each step of `others` that forbids it, unless a step before it heeds that: it
    forbids the same until at least the same, or what that waits for is done.

    What is done if `safe-to-restart` permits it is forbidden by none.
    """
    done: list[Action] = []
    forbidden: list[tuple[Action, Plan]] = []
    for step in steps:
        for action in () if step.plan.if_safe else step.plan.does:
            for ban in others:
                if not any(_is_one_of(action, each) for each in ban.plan.forbids):
                    continue
                until = _until(ban.plan, action.node)
                heeded = any(_is_one_of(action, each) and _waits_for(plan.until, until) for each, plan in forbidden)
                if not heeded and not (until and _waits_for(done, until)):
                    yield step, ban
            done.append(action)
        forbidden += [(action, step.plan) for action in step.plan.forbids]


def _is_one_of(action: Action, forbidden: Action) -> bool:
    return action.act is forbidden.act and forbidden.node in (None, action.node)


def _until(plan: Plan, node: NodeId | None) -> list[Action]:
    """Returns what a step waits for of this node: it may be about several, each with an ISR or a disk of its own."""
    return [until for until in plan.until if until.act not in (Act.JOIN, Act.FORMAT) or until.node == node]


def _waits_for(own: Sequence[Action], other: Sequence[Action]) -> bool:
    return all(_covers(own, each) for each in other) if other else not own


def _covers(actions: Iterable[Action], one: Action) -> bool:
    return any(
        (each.act, each.node) == (one.act, one.node) and (not each.directories or each.directories >= one.directories)
        for each in actions
    )
