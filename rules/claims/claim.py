"""A claim: what is said of a quorum or of one node, as a value.

Findings, resolved texts, safe-to-restart, what-if and the status carry claims. Programs read them, and
`tests/agreement` compares those of all outputs of one moment: no two of them may contradict each other.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, TypeAlias

from rules.model.identifiers import Millis, NodeId
from rules.model.subject import NO_NODE, Subject

Value: TypeAlias = str | int
"""An answer: a word, a number of voters, or the id of a node."""
NOBODY: Final = "nobody"
"""The answer that no controller leads."""
YES: Final = "yes"
NO: Final = "no"


class Question(StrEnum):
    """What a claim answers. N is the node that it is about."""

    CONDITION = "condition"
    """Does what the alert is about last? The rule says what it is; N is the node that the alert is about."""
    VOTER = "voter"
    """Is node N a voter?"""
    LEADER = "leader"
    """Which node leads?"""
    REACHED = "voters-reached"
    """How many voters can be reached?"""
    RUNNING = "voters-running"
    """How many voters run?"""
    ACTIVE = "voters-fetching"
    """How many voters fetch?"""
    IN_SYNC = "voters-in-sync"
    """How many voters are in sync?"""
    FAILURES = "failures-left"
    """How many more voters may fail? None may where it is 0 or less."""
    COMMITS = "commits"
    """Are metadata changes possible?"""
    ELECTABLE = "electable"
    """Could a leader be elected if all controllers restarted now?"""
    WON = "election-won"
    """Does a candidate win the elections that are held?"""
    LISTS = "one-voter-list"
    """Do all voters count votes by one list?"""
    LEADS_AFTER = "leader-after-change"
    """Is there a leader after the change that `what-if` was asked about?"""
    WITHOUT = "electable-without"
    """Could a leader be elected without node N if all controllers restarted now?"""
    FAILS = "leader-if-it-fails"
    """Is there a leader after node N fails now?"""
    RESTARTED = "leader-if-it-restarts"
    """Is there a leader after node N restarts now?"""
    RESTART = "may-restart"
    """May node N, or any controller, be restarted now?"""
    ADVISED = "restart-advised"
    """Does a remedy say to restart node N?"""
    ENDPOINT = "endpoint"
    """What answers the monitor where the others dial node N? See `At`."""
    REACHES = "reached"
    """Do the others reach node N there, as far as the monitor sees it?"""
    VOTES = "takes-part"
    """Can node N vote and lead?"""
    FOLLOWS = "follows"
    """How does node N follow the leader? See `Follows`."""
    DIRECTORY = "second-directory"
    """Why does node N have a second directory? See `Directory`."""
    CHANGE = "may-change-voter"
    """May node N be added or removed as a voter now?"""


class Follows(StrEnum):
    """How a voter follows the leader."""

    IN_SYNC = "in sync"
    LAGGING = "lagging"
    NOT_FETCHING = "not fetching"


class At(StrEnum):
    """What answers at an endpoint."""

    LISTENS = "a controller listens"
    HANGS = "it accepts connections and does not answer"
    REFUSES = "connections are refused"
    UNREACHED = "connections time out"
    OTHER = "another process answers"
    UNRESOLVED = "the name does not resolve"


class Directory(StrEnum):
    """Why a node has a second directory."""

    COPY = "a copy of the node runs"
    REPLACED = "its directory id changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One claim."""

    question: Question
    """What it answers."""
    node: NodeId | None = None
    """The node that it is about; None: the quorum."""
    answer: tuple[Value, ...]
    """The answer. If it is not known more exactly, each value that it may be: one that fetches is in sync or lags.
    Empty: it is unknown."""
    of: int | None = None
    """Of how many voters it counts some."""
    observed_at_ms: Millis | None = field(default=None, compare=False)
    """When the observation that proves it was made; None: it rests on several, or on none of the monitor's clock.
    The same claim of a later observation is the same one: what is stored with it is not written again."""
    undecided: tuple[NodeId, ...] = ()
    """If it is unknown: the controllers that decide it."""


def claim(
    question: Question,
    *answer: Value,
    node: NodeId | None = None,
    of: int | None = None,
    observed_at_ms: Millis | None = None,
) -> Claim:
    """Returns a claim."""
    return Claim(question=question, answer=answer, node=node, of=of, observed_at_ms=observed_at_ms)


NONE_MAY_FAIL: Final = claim(Question.FAILURES, 0)
"""What is claimed where no majority would be left without one more voter."""


def condition_claim(subject: Subject, *answer: Value, observed_at_ms: Millis | None = None) -> Claim:
    """Returns the claim whether the condition of an alert about this lasts; without an answer that it is unknown."""
    node = None if subject.node == NO_NODE else subject.node
    return claim(Question.CONDITION, *answer, node=node, observed_at_ms=observed_at_ms)


def of_each(question: Question, nodes: Iterable[NodeId], *answer: Value) -> tuple[Claim, ...]:
    """Returns the same claim about each of these nodes, sorted."""
    return tuple(claim(question, *answer, node=node) for node in sorted({*nodes}))


def yes_or_no(value: bool | None) -> tuple[Value, ...]:  # noqa: FBT001 - it is the answer
    """Returns the answer; empty if it is unknown."""
    return () if value is None else (YES if value else NO,)
