"""A claim: what one output says of a quorum, as a set of values that can be compared with what another output says."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

Value: TypeAlias = str | int
_MOST = 64
"""More than a quorum has voters."""
NOBODY = "nobody"
YES, NO = "yes", "no"


class About(StrEnum):
    """What a claim is about. `N` is the node of the claim."""

    VOTER = "node N is a voter"
    LEADER = "the leader"
    REACHED = "voters that can be reached"
    RUNNING = "voters that run"
    ACTIVE = "voters that fetch"
    IN_SYNC = "voters in sync"
    FAILURES = "further failures tolerated"
    COMMITS = "metadata changes are possible"
    ELECTABLE = "a leader can be elected if all controllers restart now"
    WON = "an election is won"
    LISTS = "all voters count votes by one list"
    WITHOUT = "a leader can be elected without node N if the others restart now"
    FAILS = "there is a leader after node N fails now"
    RESTARTED = "there is a leader after node N restarts now"
    RESTART = "node N may be restarted now"
    ADVISED = "an alert says to restart node N"
    ENDPOINT = "what answers at node N's endpoint"
    REACHES = "other voters reach node N at its endpoint"
    VOTES = "node N can vote and lead"
    FOLLOWS = "how node N follows"
    DIRECTORY = "why node N has a second directory"
    CHANGE = "node N may be added or removed now"


class Follows(StrEnum):
    """How a voter follows the leader."""

    IN_SYNC = "in sync"
    LAGGING = "lagging"
    NOT_FETCHING = "not fetching"


class Answers(StrEnum):
    """What answers at an endpoint."""

    LISTENS = "a controller listens"
    HANGS = "it accepts connections and does not answer"
    REFUSES = "connections are refused"
    UNREACHED = "connections time out"
    OTHER = "another process answers"
    UNRESOLVED = "the name does not resolve"


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One claim. What an output calls unknown makes none."""

    about: About
    node: int | None = None
    of: int | None = None
    """Of how many voters it counts some; claims about sets of different size are not compared."""
    values: frozenset[Value]
    """Each value that agrees with what is said: a fetching voter may be in sync or lag."""
    output: str
    """Which output says it: `no-leader quorum`, `status`, `safe-to-restart 1`."""
    said: str
    """The sentence, or the field and its value."""

    @property
    def subject(self) -> str:
        """What it is about, with its node."""
        return self.about.replace("node N", f"node {self.node}")

    @property
    def denies(self) -> bool:
        """Whether it says no."""
        return self.values == {NO}

    @property
    def affirms(self) -> bool:
        """Whether it says yes."""
        return self.values == {YES}

    @property
    def lowest(self) -> int:
        """The lowest number that agrees with it."""
        return min((one for one in self.values if isinstance(one, int)), default=-_MOST)

    @property
    def highest(self) -> int:
        """The highest number that agrees with it."""
        return max((one for one in self.values if isinstance(one, int)), default=_MOST)


def one_of(*values: Value) -> frozenset[Value]:
    """Returns the values that agree with a claim."""
    return frozenset(values)


def at_most(number: int) -> frozenset[Value]:
    """Returns the numbers up to this one."""
    return frozenset(range(-_MOST, number + 1))


def at_least(number: int) -> frozenset[Value]:
    """Returns the numbers from this one on."""
    return frozenset(range(number, _MOST + 1))


def yes_or_no(value: bool | None) -> frozenset[Value] | None:
    """Returns the answer; None if it is unknown."""
    return None if value is None else one_of(YES if value else NO)


def of_nodes(claims: Iterable[Claim], about: About) -> dict[int, Claim]:
    """Returns by node the first claim about it that says no."""
    found: dict[int, Claim] = {}
    for one in claims:
        if one.about is about and one.denies and one.node is not None:
            found.setdefault(one.node, one)
    return found
