"""Witnesses: which node reaches which controller, as their own hosts see it, with their own properties.

A dial counts while its row is current, and only if neither of the two nodes has started or changed its certificate
since, and the endpoint is the one that is dialled now; in a static quorum each node dials that of its own
controller.quorum.voters. What no row shows is unknown, as without witnesses. Who is not reached by a voter gives it no
vote, and cannot be followed by it: a candidate dials each voter, and a follower the leader (KafkaRaftClient, KIP-595).
A broker, or a controller without a vote, dials the leader alone, and any voter may lead: a broker sends its heartbeats
there (NodeToControllerChannelManager), and is fenced without them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from rules.facts.contact import leader_ahead_ms
from rules.facts.node import Nodes
from rules.formatting import and_join, numbered, utc_text
from rules.model.ages import CLOCKS_DIFFER_MS
from rules.model.identifiers import START, Millis, NodeId
from rules.model.membership import majority
from rules.model.quorum import Quorum
from rules.model.witness import DialStep, PeerDial, Reached, WitnessRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """Whether a node reaches a controller, as its own host sees it."""

    by: NodeId
    """The node whose host dialled, with that node's properties: a voter, or a broker or observer that has a witness."""
    of: NodeId
    """The voter that was dialled."""
    reached: Reached
    """yes, no or unknown."""
    step: DialStep | None
    """Which step of the dial failed; null if it was reached, or if that is unknown."""
    why: str
    """Why it was not reached, or why that is unknown."""
    seen_at_ms: Millis | None
    """When the newest row of that host was made, by the monitor's clock; null without one."""


class Witnesses:
    """What the rows of the nodes' hosts show now."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        quorum, voters = nodes.quorum, {voter.id for voter in nodes.voters}
        self._leader_ahead_ms = leader_ahead_ms(quorum) or 0
        known = _known_nodes(nodes) if quorum.witnesses else frozenset[NodeId]()
        of_known = (
            row
            for row in sorted(quorum.witnesses, key=self._at_ms)
            if row.node in known
            and quorum.cluster_id is not None
            and row.cluster_id == quorum.cluster_id
            and self._at_ms(row) - quorum.now_ms <= _counts_ms(quorum, row)
        )
        self.newest: Mapping[NodeId, WitnessRow] = {row.node: row for row in of_known}
        """The newest row of each known node's host, of any age."""
        self.rows: Mapping[NodeId, WitnessRow] = {
            node: row
            for node, row in self.newest.items()
            if quorum.now_ms - self._at_ms(row) <= _counts_ms(quorum, row)
        }
        """Those that are current."""
        self._of_voters = {*self.newest} & voters

    def _at_ms(self, row: WitnessRow) -> int:
        """Returns when a row's dials began at the latest, by the monitor's clock.

        The leader's clock, as both hosts see it, compares the two. A row that is reported is no newer than its arrival,
        and may have been kept for a while.
        """
        ahead_ms = row.leader_ahead_ms
        at_ms = row.at_ms if ahead_ms is None else row.at_ms + ahead_ms - self._leader_ahead_ms
        return min(at_ms, row.observed_at_ms) if _is_reported(row) else at_ms

    def seen_at_ms(self, by: NodeId) -> Millis:
        """Returns when the newest row of a host was made, by the monitor's clock."""
        return Millis(self._at_ms(self.newest[by]))

    def dial(self, by: NodeId, of: NodeId) -> PeerDial | None:
        """Returns how a node dialled a controller, if that is known now."""
        row = self.rows.get(by)
        if row is None or self._at_ms(row) <= max(self._changed_at_ms(by), self._changed_at_ms(of)):
            return None
        return self._dial_of(row, of)

    def _dial_of(self, row: WitnessRow, of: NodeId) -> PeerDial | None:
        """Returns the dial of a controller at the endpoint at which this node dials it now."""
        endpoint = self._nodes[of].endpoint if of in self._nodes else None
        if endpoint is None:
            return None
        # What a static quorum's leader reports is its own list.
        own = self._nodes.quorum.kraft_version == 0
        return next((peer for peer in row.peers if peer.node == of and (own or peer.endpoint == str(endpoint))), None)

    def _changed_at_ms(self, node: NodeId) -> int:
        """Returns when a controller last started or changed its certificate, by the monitor's clock, and a little
        later: the clocks of hosts differ."""
        quorum, probe = self._nodes.quorum, self._nodes[node].probe if node in self._nodes else None
        newest_ms = quorum.newest_timestamp_ms
        starts = [] if newest_ms is None else [one for one in quorum.history.starts if one.id == node]
        changes = [quorum.now_ms - ((newest_ms or 0) - one.timestamp_ms) for one in starts]
        row = self.newest.get(node)
        if row is not None and row.process_since_ms is not None:
            # It may not have registered since.
            changes.append(self._at_ms(row) - (row.at_ms - row.process_since_ms))
        if probe is not None:
            changes += [*probe.returned_at_ms, *filter(None, (probe.certificate_since_ms,))]
        return max(changes, default=0) + CLOCKS_DIFFER_MS

    @cached_property
    def unreached(self) -> Mapping[NodeId, Mapping[NodeId, PeerDial]]:
        """By voter, the other voters that it does not reach; one that reaches all that is known is not in it."""
        return {by: dials for by, dials in self._unreached.items() if by in self._of_voters}

    @cached_property
    def unreached_by_others(self) -> Mapping[NodeId, Mapping[NodeId, PeerDial]]:
        """The same of each broker and observer."""
        return {by: dials for by, dials in self._unreached.items() if by not in self._of_voters}

    @cached_property
    def _unreached(self) -> Mapping[NodeId, Mapping[NodeId, PeerDial]]:
        found = {
            by: {of: dial for of, dial in self._dials(by).items() if dial.reached is Reached.NO} for by in self.rows
        }
        return {by: dials for by, dials in found.items() if dials}

    def unreached_from(self, by: NodeId) -> Mapping[NodeId, PeerDial]:
        """Returns the voters that one node does not reach."""
        return self._unreached.get(by, {})

    @cached_property
    def reaches(self) -> tuple[Reach, ...]:
        """Whether each voter reaches each other one, if the host of one was a witness; then whether each broker and
        observer that has a witness reaches each voter."""
        voters = [voter.id for voter in self._nodes.voters]
        hosts = [*(voters if self._of_voters else ()), *sorted({*self.newest} - self._of_voters)]
        return tuple(self._reach(by, of) for by in hosts for of in voters if by != of)

    def _reach(self, by: NodeId, of: NodeId) -> Reach:
        row, dial = self.newest.get(by), self.dial(by, of)
        seen_at_ms = None if row is None else self.seen_at_ms(by)
        if dial is None:
            why = self._why_unknown(by, of)
            return Reach(by=by, of=of, reached=Reached.UNKNOWN, step=None, why=why, seen_at_ms=seen_at_ms)
        return Reach(by=by, of=of, reached=dial.reached, step=dial.step, why=dial.why, seen_at_ms=seen_at_ms)

    def _why_unknown(self, by: NodeId, of: NodeId) -> str:
        """Returns why no dial counts, as a clause."""
        row = self.newest.get(by)
        if row is None:
            return f"no row of {self.named(by)}'s host is known"
        seen = utc_text(self.seen_at_ms(by))
        if by not in self.rows:
            return f"the newest row of {self.named(by)}'s host is of {seen}"
        endpoint = self._nodes[of].endpoint
        if endpoint is None:
            return f"the endpoint of controller {of} is not known"
        if self._dial_of(row, of) is None:
            return row.not_dialled or f"{self.named(by)}'s host did not dial {endpoint} at {seen}"
        one, other = sorted((by, of))
        both = f"controller {one} or {other}" if self._is_controller(by) else f"controller {of} or {self.named(by)}"
        return f"{both} started, or changed its certificate, after the row of {seen}"

    @property
    def outdated(self) -> Mapping[NodeId, str]:
        """Why it is unknown now whether a voter is reached that was not reached: by the voter."""
        return {
            dial.node: f"{self.named(by)} did not reach it, and {self._why_unknown(by, dial.node)}"
            for by, row in self.newest.items()
            for dial in row.peers
            if dial.node is not None and dial.node in self._nodes
            if dial.reached is Reached.NO and self.dial(by, dial.node) is None
        }

    def unreached_by(self, of: NodeId) -> Mapping[NodeId, PeerDial]:
        """Returns the dials of one voter that failed, by the voter whose host dialled."""
        return {by: dials[of] for by, dials in sorted(self.unreached.items()) if of in dials}

    def unreached_by_all(self, of: NodeId) -> Mapping[NodeId, PeerDial]:
        """Returns the same, followed by those of brokers and observers."""
        others = {by: dials[of] for by, dials in sorted(self.unreached_by_others.items()) if of in dials}
        return {**self.unreached_by(of), **others}

    def named(self, *nodes: NodeId) -> str:
        """Returns `controllers 1 and 2 and broker 101`."""
        controllers = [node for node in nodes if self._is_controller(node)]
        kinds = {"controller": controllers, "broker": [node for node in nodes if node not in controllers]}
        return and_join(numbered(noun, ids) for noun, ids in kinds.items() if ids)

    def _is_controller(self, node: NodeId) -> bool:
        return node in self._nodes or node not in self._nodes.quorum.brokers

    @cached_property
    def denied(self) -> Mapping[NodeId, tuple[NodeId, ...]]:
        """The controllers that a voter denied when it last answered their hosts, and does not answer now: by the voter.

        A controller that is denied ends (KafkaRaftClient), so it may be why neither of them runs.
        """
        found: dict[NodeId, tuple[NodeId, ...]] = {}
        for by in sorted(self._of_voters):
            row = self.newest[by]
            for peer in row.peers:
                of, denies = peer.node, peer.step is DialStep.PERMISSION
                if of is None or of not in self._nodes:
                    continue
                if self._nodes[of].is_down if denies else of in row.denied_by:
                    found[of] = (*found.get(of, ()), by)
        return found

    @cached_property
    def cut_off(self) -> frozenset[NodeId]:
        """The voters that so many others do not reach that no majority is left with them."""
        voters = self._nodes.voters
        return frozenset(
            voter.id for voter in voters if len(voters) - len(self.unreached_by(voter.id)) < majority(len(voters))
        )

    @cached_property
    def reached_by_all(self) -> frozenset[NodeId]:
        """The voters that every other voter is shown to reach: they accept each other there."""
        return self._of_each_other(self._reaches)

    @cached_property
    def dialled_by_all(self) -> frozenset[NodeId]:
        """The voters of which each other voter's host shows whether it reaches them: which pairs do not is known."""
        return self._of_each_other(lambda by, of: self._reaches(by, of) or of in self.unreached_from(by))

    def _of_each_other(self, holds: Callable[[NodeId, NodeId], bool]) -> frozenset[NodeId]:
        """Returns the voters of which something holds by each other voter."""
        voters = [voter.id for voter in self._nodes.voters]
        return frozenset(of for of in voters if len(voters) > 1 and all(holds(by, of) for by in voters if by != of))

    @property
    def seen_from(self) -> str:
        """From whose hosts it is seen, `controllers 1, 2 and 3`, if each voter is shown to reach each other one."""
        voters = [voter.id for voter in self._nodes.voters]
        return numbered("controller", voters) if voters and len(self.reached_by_all) == len(voters) else ""

    def _dials(self, by: NodeId) -> Mapping[NodeId, PeerDial]:
        known = {voter.id: self.dial(by, voter.id) for voter in self._nodes.voters if voter.id != by}
        return {of: dial for of, dial in known.items() if dial is not None}

    def _reaches(self, by: NodeId, of: NodeId) -> bool:
        """Returns whether that is shown. A row whose host's clock is not compared with the leader's may be older, and
        so may one that seems to be of a later time."""
        dial, row = self.dial(by, of), self.rows.get(by)
        if row is None or dial is None or dial.reached is not Reached.YES:
            return False
        compared = row.leader_ahead_ms is not None or _is_reported(row)
        return compared and self._at_ms(row) <= self._nodes.quorum.now_ms + CLOCKS_DIFFER_MS


def _known_nodes(nodes: Nodes) -> frozenset[NodeId]:
    """Returns the nodes of the cluster: voters, registered controllers, brokers, and who fetches without a vote."""
    quorum = nodes.quorum
    observers = () if quorum.poll is None else (row.key.id for row in quorum.poll.observers)
    return frozenset({*nodes, *quorum.brokers, *observers})


def _is_reported(row: WitnessRow) -> bool:
    """Returns whether the monitor received it, and so knows when it was made."""
    return row.observed_at_ms > START


def _counts_ms(quorum: Quorum, row: WitnessRow) -> int:
    """Returns for how long a row counts: until the next one and two lost ones are missing."""
    return quorum.ages.witness_ms if row.every_ms is None else 3 * row.every_ms


def unreached_text(witnesses: Witnesses, of: NodeId, dials: Mapping[NodeId, PeerDial]) -> str:
    """Returns which nodes do not reach a controller, why, and when that was seen: two sentences; empty if none is."""
    if not dials:
        return ""
    do, hosts = ("does", "its own host") if len(dials) == 1 else ("do", "their own hosts")
    seen, who = utc_text(min(witnesses.seen_at_ms(by) for by in dials)), witnesses.named(*dials)
    return (
        f"{who[0].upper()}{who[1:]} {do} not reach controller {of}: {why_unreached(dials)}. "
        f"Seen from {hosts} at {seen}."
    )


_MOST_WHYS = 8


def why_unreached(dials: Mapping[NodeId, PeerDial]) -> str:
    """Returns at which step dials fail, and why: once, where it is the same for all."""
    whys = {by: f"{dial.step}, {dial.why}" for by, dial in dials.items()}
    if len({*whys.values()}) == 1:
        return next(iter(whys.values()))
    return "; ".join(f"from {by} {why}" for by, why in [*whys.items()][:_MOST_WHYS])
