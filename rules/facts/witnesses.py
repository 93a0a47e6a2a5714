"""Witnesses: which controller reaches which, as their own hosts see it, with their own properties.

A dial counts while its row is current, and only if neither of the two controllers has started or changed its
certificate since, and the endpoint is the one that is dialled now. What no row shows is unknown, as without witnesses.
Who is not reached by a controller gives it no vote, and cannot be followed by it: a candidate dials each voter, and a
follower the leader (KafkaRaftClient, KIP-595).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from rules.facts.contact import leader_ahead_ms
from rules.facts.node import Nodes
from rules.formatting import numbered, utc_text
from rules.model.ages import CLOCKS_DIFFER_MS
from rules.model.identifiers import START, Millis, NodeId
from rules.model.membership import majority
from rules.model.quorum import Quorum
from rules.model.witness import DialStep, PeerDial, Reached, WitnessRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """Whether one controller reaches another one, as its own host sees it."""

    by: NodeId
    """The controller whose host dialled, with that controller's properties."""
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
    """What the rows of the controllers' hosts show now."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        quorum, voters = nodes.quorum, {voter.id for voter in nodes.voters}
        self._leader_ahead_ms = leader_ahead_ms(quorum) or 0
        of_voters = (
            row
            for row in sorted(quorum.witnesses, key=self._at_ms)
            if row.node in voters
            and quorum.cluster_id is not None
            and row.cluster_id == quorum.cluster_id
            and self._at_ms(row) - quorum.now_ms <= _counts_ms(quorum, row)
        )
        self.newest: Mapping[NodeId, WitnessRow] = {row.node: row for row in of_voters}
        """The newest row of each voter's host, of any age."""
        self.rows: Mapping[NodeId, WitnessRow] = {
            node: row
            for node, row in self.newest.items()
            if quorum.now_ms - self._at_ms(row) <= _counts_ms(quorum, row)
        }
        """Those that are current."""

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
        """Returns how one controller dialled another one, if that is known now."""
        row, endpoint = self.rows.get(by), self._nodes[of].endpoint if of in self._nodes else None
        if row is None or endpoint is None or self._at_ms(row) <= max(self._changed_at_ms(by), self._changed_at_ms(of)):
            return None
        return next((peer for peer in row.peers if peer.node == of and peer.endpoint == str(endpoint)), None)

    def _changed_at_ms(self, node: NodeId) -> int:
        """Returns when a controller last started or changed its certificate, by the monitor's clock, and a little
        later: the clocks of hosts differ."""
        quorum, probe = self._nodes.quorum, self._nodes[node].probe if node in self._nodes else None
        newest_ms = quorum.newest_timestamp_ms
        starts = [] if newest_ms is None else [one for one in quorum.history.starts if one.id == node]
        changes = [quorum.now_ms - ((newest_ms or 0) - one.timestamp_ms) for one in starts]
        if probe is not None:
            changes += [*probe.returned_at_ms, *filter(None, (probe.certificate_since_ms,))]
        return max(changes, default=0) + CLOCKS_DIFFER_MS

    @cached_property
    def unreached(self) -> Mapping[NodeId, Mapping[NodeId, PeerDial]]:
        """By controller, the voters that it does not reach; one that reaches all that is known is not in it."""
        found = {
            by: {of: dial for of, dial in self._dials(by).items() if dial.reached is Reached.NO} for by in self.rows
        }
        return {by: dials for by, dials in found.items() if dials}

    @cached_property
    def reaches(self) -> tuple[Reach, ...]:
        """Whether each voter reaches each other one; empty if no host of a voter was a witness."""
        voters = [voter.id for voter in self._nodes.voters] if self.newest else []
        return tuple(self._reach(by, of) for by in voters for of in voters if by != of)

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
            return f"no row of controller {by}'s host is known"
        seen = utc_text(self.seen_at_ms(by))
        if by not in self.rows:
            return f"the newest row of controller {by}'s host is of {seen}"
        endpoint = self._nodes[of].endpoint
        if endpoint is None:
            return f"the endpoint of controller {of} is not known"
        if all(peer.node != of or peer.endpoint != str(endpoint) for peer in row.peers):
            return row.not_dialled or f"controller {by}'s host did not dial {endpoint} at {seen}"
        one, other = sorted((by, of))
        return f"controller {one} or {other} started, or changed its certificate, after the row of {seen}"

    @property
    def outdated(self) -> Mapping[NodeId, str]:
        """Why it is unknown now whether a voter is reached that was not reached: by the voter."""
        return {
            dial.node: f"controller {by} did not reach it, and {self._why_unknown(by, dial.node)}"
            for by, row in self.newest.items()
            for dial in row.peers
            if dial.node is not None and dial.node in self._nodes
            if dial.reached is Reached.NO and self.dial(by, dial.node) is None
        }

    def unreached_by(self, of: NodeId) -> Mapping[NodeId, PeerDial]:
        """Returns the dials of one voter that failed, by the controller whose host dialled."""
        return {by: dials[of] for by, dials in sorted(self.unreached.items()) if of in dials}

    @cached_property
    def denied(self) -> Mapping[NodeId, tuple[NodeId, ...]]:
        """The controllers that a voter denied when it last answered their hosts, and does not answer now: by the voter.

        A controller that is denied ends (KafkaRaftClient), so it may be why neither of them runs.
        """
        found: dict[NodeId, tuple[NodeId, ...]] = {}
        for by, row in sorted(self.newest.items()):
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
        voters = [voter.id for voter in self._nodes.voters]
        return frozenset(
            of for of in voters if len(voters) > 1 and all(self._reaches(by, of) for by in voters if by != of)
        )

    @property
    def seen_from(self) -> str:
        """From whose hosts it is seen, `controllers 1, 2 and 3`, if each voter is shown to reach each other one."""
        voters = [voter.id for voter in self._nodes.voters]
        return numbered("controller", voters) if voters and len(self.reached_by_all) == len(voters) else ""

    def _dials(self, by: NodeId) -> Mapping[NodeId, PeerDial]:
        known = {voter.id: self.dial(by, voter.id) for voter in self._nodes.voters if voter.id != by}
        return {of: dial for of, dial in known.items() if dial is not None}

    def _reaches(self, by: NodeId, of: NodeId) -> bool:
        """Returns whether that is shown. A row whose host's clock is not compared with the leader's may be older."""
        dial = self.dial(by, of)
        row = self.rows.get(by)
        compared = row is not None and (row.leader_ahead_ms is not None or _is_reported(row))
        return compared and dial is not None and dial.reached is Reached.YES


def _is_reported(row: WitnessRow) -> bool:
    """Returns whether the monitor received it, and so knows when it was made."""
    return row.observed_at_ms > START


def _counts_ms(quorum: Quorum, row: WitnessRow) -> int:
    """Returns for how long a row counts: until the next one and two lost ones are missing."""
    return quorum.ages.witness_ms if row.every_ms is None else 3 * row.every_ms


def unreached_text(witnesses: Witnesses, of: NodeId) -> str:
    """Returns which controllers do not reach one, why, and when that was seen: two sentences; empty if none is."""
    dials = witnesses.unreached_by(of)
    if not dials:
        return ""
    whys = {by: f"{dial.step}, {dial.why}" for by, dial in dials.items()}
    # Once, where it is the same for all.
    same = len({*whys.values()}) == 1
    why = next(iter(whys.values())) if same else "; ".join(f"from {by} {one}" for by, one in whys.items())
    do, hosts = ("does", "its own host") if len(dials) == 1 else ("do", "their own hosts")
    seen = utc_text(min(witnesses.seen_at_ms(by) for by in dials))
    return f"{numbered('Controller', dials)} {do} not reach controller {of}: {why}. Seen from {hosts} at {seen}."
