"""Worlds: what the facts allow. A question about a quorum is asked in the worst and in the best of them.

In the worst world each doubtful part is lost, and a controller that may deny what the others send ends all that ask it;
in the best one it counts. What both worlds answer is known; what they answer differently is unknown, because of the
controllers that decide it. That is enough because each question is monotone in every part.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Generic, TypeVar

from rules.answers.forecast import ElectionForecast, forecast_election
from rules.answers.part import Elector, Electorate, Part
from rules.facts.doubts import Doubt
from rules.formatting import numbered
from rules.model.identifiers import NodeId
from rules.model.membership import majority

_T = TypeVar("_T")
ONE_WAY = (
    "some controllers reach others that do not reach them: whether one is elected that a majority follows depends on "
    "who asks for votes first; let each reach each other one"
)
"""Why it is unknown whether a leader is elected whose votes and followers are different majorities."""
_ENUMERATED = 9
"""So many voters, more than Kafka recommends, are lost in all ways, and each doubt is tried by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Undecided:
    """One controller that decides an answer, because it is not known whether it takes part."""

    node_id: NodeId
    """The controller."""
    why: str
    """Why it is not known whether it takes part."""
    find_out: str
    """The one thing to do to find out."""

    @classmethod
    def by(cls, doubt: Doubt) -> "Undecided":
        """Returns what people read of a doubt."""
        return cls(node_id=doubt.node, why=doubt.clause, find_out=doubt.find_out)


@dataclass(frozen=True, slots=True)
class Answer(Generic[_T]):
    """What is known."""

    value: _T | None
    """None: it is unknown."""
    undecided: tuple[Undecided, ...] = ()
    """If it is unknown: the controllers that decide it, by node id."""
    unobserved: str = ""
    """Why it is unknown, if no doubt about a controller decides it."""
    worst: _T | None = None
    """The answer if each doubt turns out badly; None if nothing can be said."""

    @property
    def decided_by(self) -> tuple[NodeId, ...]:
        """The controllers that decide it, if it is unknown."""
        return tuple(one.node_id for one in self.undecided)

    @property
    def why_unknown(self) -> str:
        """Why it is unknown, and what to do to find out, as a sentence without a full stop; empty if it is known."""
        return self.unobserved or undecided_text(self.undecided)


@dataclass(frozen=True, kw_only=True)
class World:
    """The voters with each doubt resolved. Without slots: the forecast is kept."""

    electors: tuple[Elector, ...]
    """No part of them is doubtful."""
    followers: frozenset[NodeId]
    """The voters of the leader's latest set that acknowledge what it appends, and could vote and lead."""
    denied_by: frozenset[NodeId] = frozenset()
    """The controllers that deny what the others send: each other one that asks one of them ends.

    Each candidate asks every voter, and each controller that starts asks any of them who leads.
    """

    latest: frozenset[NodeId] = frozenset()
    """The voters of the leader's latest set: others than those that vote now while a change of them is pending."""
    apart: bool = False
    """Whether a candidate wins whose votes and followers are two majorities, each by itself."""

    @property
    def has_majority_of_latest(self) -> bool:
        """Whether a majority of the latest set runs and votes: who has its record in the log counts votes by it."""
        known = {one.key.id: Part.LOST not in (one.runs, one.votes) for one in self.electors}
        running = sum(known.get(node, node in self.followers) for node in self.latest)
        return not self.latest or running >= majority(len(self.latest))

    @cached_property
    def forecast(self) -> ElectionForecast:
        """Who would win an election; nobody that needs other votes while a controller denies what it sends, nor
        without a majority of the latest set."""
        if not self.denied_by and self.has_majority_of_latest:
            return forecast_election(self.electors, apart=self.apart)
        return forecast_election(replace(one, reached=Part.LOST, leads=Part.LOST) for one in self.electors)

    def losses_survived(self, leader: NodeId, most: int) -> int:
        """Returns how many of the followers may be lost, whichever they are, the leader with them: others are elected.

        A leader that the others may not reach does not stay while others are lost: then it need not be lost. Of more
        followers than `_ENUMERATED` the least number that is proved: all losses would be too many to try.
        """
        slack = [one.spare for one in self.forecast.candidates]
        # Of more winners than are lost, each with as many votes to spare, one is left that still wins.
        proved = max((left for left in range(most + 1) if sum(one >= left for one in slack) > left), default=0)
        if proved == most or len(self.followers) > _ENUMERATED:
            return proved
        leads = {leader} - {one.key.id for one in self.electors if not one.can_be_followed}
        others = sorted(self.followers - leads)
        for left in range(most, proved, -1):
            losses = (frozenset({*leads, *lost}) for lost in combinations(others, left - len(leads)))
            if all(any(one.wins_without(lost) for one in self.forecast.candidates) for lost in losses):
                return left
        return proved


def world(of: Electorate, counting: Collection[NodeId]) -> World:
    """Returns the world in which the doubts about these nodes turn out well, and all others badly."""
    electors = tuple(one.resolved(Part.COUNTS if one.key.id in counting else Part.LOST) for one in of.electors)
    down = {one.key.id for one in electors if one.runs is Part.LOST}
    return World(
        electors=electors,
        denied_by=of.denying - down - {*counting},
        latest=frozenset(of.followers),
        followers=frozenset(
            node
            for node, part in of.followers.items()
            if part is Part.COUNTS or (part is Part.DOUBTFUL and node in counting)
        ),
    )


def best(of: Electorate) -> World:
    """Returns the world in which every doubt turns out well."""
    return world(of, of.doubts.keys())


def decide(of: Electorate, ask: Callable[[World], _T]) -> Answer[_T]:
    """Returns what the worst and the best world both answer; what they answer differently is unknown."""
    value = ask(best(of))
    worst = ask(world(of, ())) if of.doubts else value
    if any(one.unreached for one in of.electors) and ask(replace(best(of), apart=True)) != value:
        return Answer(None, unobserved=ONE_WAY, worst=worst)
    if worst == value:
        return Answer(value, worst=worst)
    every = frozenset(of.doubts)
    alone = [
        doubt
        for node, doubt in (of.doubts if len(every) <= _ENUMERATED else {}).items()
        if ask(world(of, {node})) != worst or ask(world(of, every - {node})) != value
    ]
    return Answer(None, tuple(map(Undecided.by, alone or of.doubts.values())), worst=worst)


def depends_on(undecided: Iterable[Undecided]) -> str:
    """Returns on which controllers an answer depends, as the end of a sentence."""
    return f"it depends on {numbered('controller', [one.node_id for one in undecided])}"


def undecided_text(undecided: Iterable[Undecided]) -> str:
    """Returns of which controllers something decides that is not known, why, and what to do to find out.

    Those of which the same is not known are named together. Empty without any.
    """
    nodes: dict[tuple[str, str], list[NodeId]] = {}
    for one in undecided:
        nodes.setdefault((one.why, one.find_out), []).append(one.node_id)
    return "; ".join(
        f"whether {numbered('controller', those)} {'takes' if len(those) == 1 else 'take'} part is unknown ({why}); to "
        f"find out, {find_out}"
        for (why, find_out), those in nodes.items()
    )
