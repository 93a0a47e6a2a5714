"""Rounds of restarts: all brokers, or all controllers, are restarted in turn, round after round."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from rules.facts.lost_lead import lost_lead_text
from rules.model.ages import CONTROLLER_REGISTERS_MS
from rules.model.history import NodeKind
from rules.model.identifiers import Millis, NodeId
from rules.model.membership import majority
from rules.model.quorum import Quorum

PAUSE_MS = 600_000
"""A time without a restart that is longer than this, and than four times what is usual, ends the rounds: the default of
a threshold."""
MANY_ROUNDS = 3
"""So many complete rounds in turn are no plan of a few restarts: settings that change need three, an upgrade two."""
_USUAL = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Restart:
    """One restart: a broker's from its fencing to its unfencing; a controller's ends with its registration."""

    node: NodeId
    began_ms: int
    ended_ms: int
    announced: bool = False
    """Whether a broker left by a controlled shutdown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """The newest rounds of all nodes of one kind that followed each other."""

    kind: NodeKind
    nodes: int
    complete: Sequence[Sequence[Restart]]
    begun: Sequence[Restart]
    longest_pause_ms: int
    """A longer time without a restart ends them."""

    @property
    def newest(self) -> Restart:
        """The last restart."""
        return self.begun[-1]

    def started(self, node: NodeId) -> Sequence[Millis]:
        """Returns when the restarts of a node in the complete rounds ended."""
        return [Millis(one.ended_ms) for each in self.complete for one in each if one.node == node]


def _brokers(quorum: Quorum, newest: Millis) -> tuple[frozenset[NodeId], list[Restart]]:
    """Returns the brokers that are not controllers, without those that are down for long, and their restarts."""
    restarts = [
        Restart(
            node=interruption.id,
            began_ms=interruption.timestamp_ms,
            ended_ms=newest if interruption.ended_timestamp_ms is None else interruption.ended_timestamp_ms,
            announced=interruption.announced,
        )
        for interruption in quorum.history.interruptions
        if interruption.restarted and interruption.id in quorum.brokers and interruption.id not in quorum.controllers
    ]
    alive = {broker.id for broker in quorum.brokers.values() if broker.alive and broker.id not in quorum.controllers}
    return frozenset(alive | {restart.node for restart in restarts}), restarts


def _controllers(quorum: Quorum) -> tuple[frozenset[NodeId], list[Restart]]:
    """Returns the controllers that vote or have started, and their restarts."""
    restarts = [
        Restart(node=start.id, began_ms=start.timestamp_ms - CONTROLLER_REGISTERS_MS, ended_ms=start.timestamp_ms)
        for start in quorum.history.starts
        if start.replaced_incarnation_id is not None and start.id in quorum.controllers
    ]
    return quorum.voting_ids | {restart.node for restart in restarts}, restarts


def rounds_of(
    quorum: Quorum, kind: NodeKind, *, at_least: int = MANY_ROUNDS, pause_ms: int = PAUSE_MS
) -> Rounds | None:
    """Returns the rounds that followed each other up to now, and one that has begun; None if fewer are complete."""
    rounds, newest = _all_rounds(quorum, kind, pause_ms), quorum.newest_timestamp_ms
    if not rounds or newest is None or len(rounds[-1].complete) < max(1, at_least):
        return None
    return rounds[-1] if newest - rounds[-1].newest.ended_ms <= rounds[-1].longest_pause_ms else None


def _all_rounds(quorum: Quorum, kind: NodeKind, pause_ms: int) -> list[Rounds]:
    """Returns the rounds between each two long pauses, oldest first."""
    newest = quorum.newest_timestamp_ms
    if newest is None:
        return []
    nodes, restarts = _brokers(quorum, newest) if kind is NodeKind.BROKER else _controllers(quorum)
    ordered = sorted(restarts, key=lambda one: one.began_ms)
    pauses = sorted(max(0, later.began_ms - restart.ended_ms) for restart, later in pairwise(ordered))
    if not pauses:
        return []
    longest = max(pause_ms, _USUAL * pauses[(len(pauses) - 1) // 2])
    found: list[Rounds] = []
    complete: list[list[Restart]] = []
    begun: list[Restart] = []
    for one, later in zip(ordered, (*ordered[1:], None), strict=True):
        if begun and nodes == {restart.node for restart in begun}:
            complete = [*complete, begun] if _in_turn(begun, len(nodes)) else []
            begun = []
        begun.append(one)
        if later is None or later.began_ms - one.ended_ms > longest:
            found.append(Rounds(kind=kind, nodes=len(nodes), complete=complete, begun=begun, longest_pause_ms=longest))
            complete, begun = [], []
    return found


def _in_turn(restarts: Sequence[Restart], nodes: int) -> bool:
    """Returns whether no majority of the nodes was down at one time."""
    return all(
        len({restart.node for restart in restarts if restart.began_ms <= at.began_ms < restart.ended_ms})
        < majority(nodes)
        for at in restarts
    )


def planned_starts(quorum: Quorum, kind: NodeKind) -> frozenset[tuple[NodeId, int]]:
    """Returns the nodes and times of the starts that are one in each of many rounds in turn, and look planned.

    A broker's is the time of its fencing, before which it left by a controlled shutdown; a controller's that of its
    registration, if the controller does not end each time that it loses the lead.
    """
    return frozenset(
        start
        for rounds in _all_rounds(quorum, kind, PAUSE_MS)
        if len(rounds.complete) >= MANY_ROUNDS
        for start in _planned(quorum, rounds)
    )


def _planned(quorum: Quorum, rounds: Rounds) -> Iterator[tuple[NodeId, int]]:
    nodes = {restart.node for restart in rounds.complete[-1]}
    losing = {node for node in nodes if lost_lead_text(quorum, node, rounds.started(node))}
    for restarts in (*rounds.complete, rounds.begun):
        for node, one in {restart.node: restart for restart in reversed(restarts)}.items():
            if rounds.kind is NodeKind.BROKER and one.announced:
                yield node, one.began_ms
            elif rounds.kind is NodeKind.CONTROLLER and node not in losing:
                yield node, one.ended_ms
