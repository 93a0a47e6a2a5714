"""Whether the quorum has no leader, and which leader only the monitor does not reach: by what each node answers.

There is a leader if a node that does not answer the monitor may lead, and so many may run that a majority follows it. A
node is known by its id, at whichever address it was asked. `rules.answers.leader` asks the question.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from rules.facts.contact import recorded_endpoints, recorded_nodes
from rules.facts.following import same_replica
from rules.facts.freshness import fresh_views
from rules.facts.node import NodeFacts, Nodes, Process
from rules.facts.reported_leaders import last_leader_answer_ms, leaders_of_newest_epoch
from rules.model.ages import LATER_BY_MS
from rules.model.identifiers import Millis, NodeId
from rules.model.membership import majority
from rules.model.monitoring import (
    NO_LEADER_REASONS,
    ConnectionResult,
    FailedObservation,
    LeaderView,
    ObservationSource,
    Reason,
    Vantage,
)

Asked: TypeAlias = NodeId | str
"""A node that was asked who leads; at an address of which no node is known, the address."""
_FIRST_ROUNDS_MS = 2_000
"""So long after a gap in the observations, reports of no leader count only if every controller has answered. In the
first rounds of requests a leader on a busy host may answer too late, and a healthy follower answers that it does not
lead. It ends with the first answers, not with an age."""
_REJECTED_REASONS = frozenset({Reason.NOT_AUTHENTICATED, Reason.TLS_FAILED, Reason.DENIED})
"""What a controller that runs answers to a login, a certificate or a principal that it does not accept."""
_SILENT_REASONS = frozenset({Reason.TIMED_OUT, Reason.UNREACHABLE})
_KNOWN_AT_START = 3
"""So many controllers must be configured and observed if no leader has answered yet: nothing shows that there are no
others, and so many are a majority of up to five voters."""
_UNREACHABLE_REASONS = frozenset(
    {
        *(Reason.UNRESOLVABLE, Reason.RESOLVER_FAILED, Reason.TIMED_OUT, Reason.UNREACHABLE, Reason.CLOSED),
        *(Reason.DENIED, Reason.NOT_AUTHENTICATED, Reason.TLS_FAILED, Reason.WRONG_PROTOCOL),
        *(Reason.WRONG_CLUSTER, Reason.UNSUPPORTED, Reason.UNDECODABLE, Reason.INVALID_RESPONSE),
        Reason.TOO_FEW_DESCRIPTORS,
    }
)
"""Failures with which a controller may still lead. One that refuses connections is down: its followers remember it, and
name it until they hear of a newer epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaderless:
    """By the newest evidence the quorum has no leader."""

    answered: tuple[str, ...]
    """HOST:PORT of the nodes that answered that they know no leader; empty if all controllers refuse connections."""
    refused: tuple[str, ...]
    """HOST:PORT of the controllers that refuse connections."""
    rejecting: tuple[str, ...] = ()
    """HOST:PORT of the voters that started after the last answer of a leader, and reject the monitor's login or TLS."""
    failures: tuple[FailedObservation, ...]
    """The failed observations that are the evidence."""
    never_answered: bool = False
    """Whether all configured controllers refuse connections, and nothing has ever answered there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreachableLeader:
    """A leader that does not answer the monitor, and that other controllers report."""

    id: NodeId
    followers: tuple[str, ...]
    """HOST:PORT of the controllers that report this leader."""
    followed_by_majority: bool
    """Whether a majority of the voters follow it: it leads. Otherwise it may lead, because the voters that it reaches
    may fail to fetch from it."""


class WhoLeads:
    """What the nodes answer to the question who leads, and which of them may lead."""

    def __init__(self, nodes: Nodes) -> None:
        self.nodes = nodes
        self.quorum = nodes.quorum
        self.last_ms: Millis | None = last_leader_answer_ms(nodes.quorum)
        """When a leader last answered the monitor."""

    def at(self, addresses: Iterable[str]) -> set[Asked]:
        """Returns the nodes at these addresses."""
        return {self.nodes.at.get(address, address) for address in addresses}

    def failing(self, reasons: Collection[Reason]) -> set[Asked]:
        """Returns the nodes of which an attempt fails now, for one of these reasons."""
        return self.at(failure.endpoint for failure in self.current if failure.reason in reasons)

    def newer(self, reasons: Collection[Reason]) -> tuple[FailedObservation, ...]:
        """Returns the attempts for the log or a poll that fail since a leader last answered, for these reasons.

        Where the log may not be read, each poll is newer than the failure before it and older than the next one: a
        failure counts only if it is newer by more than that.
        """
        return tuple(
            failure
            for failure in self.current
            if failure.reason in reasons
            and failure.source in (ObservationSource.LOG, ObservationSource.QUORUM)
            and (self.last_ms is None or failure.last_at_ms >= self.last_ms + LATER_BY_MS)
        )

    @cached_property
    def current(self) -> tuple[FailedObservation, ...]:
        """The attempts that fail now."""
        age_ms = self.quorum.ages.answer_ms
        return tuple(one for one in self.quorum.failures if self.quorum.is_current(one.last_at_ms, age_ms))

    @cached_property
    def reporting(self) -> tuple[FailedObservation, ...]:
        """The answers of nodes that they do not lead, since a leader last answered."""
        return self.newer(NO_LEADER_REASONS)

    @cached_property
    def refusing(self) -> tuple[FailedObservation, ...]:
        """The connections that are refused, since a leader last answered."""
        return self.newer({Reason.REFUSED})

    @cached_property
    def silent(self) -> tuple[FailedObservation, ...]:
        """What failed since then at an address where no answer came, and no connection was refused."""
        failures = self.newer({*Reason} - NO_LEADER_REASONS - {Reason.REFUSED})
        return tuple(failure for failure in failures if failure.endpoint)

    @cached_property
    def answered(self) -> set[Asked]:
        """The nodes that answer that they do not lead."""
        return self.at(failure.endpoint for failure in self.reporting)

    @cached_property
    def rejecting(self) -> set[Asked]:
        """The voters that run and reject the monitor's login; every such node if no voters are recorded."""
        found = self.failing({Reason.NOT_AUTHENTICATED}) - self.answered
        return found & self.quorum.voter_ids if self.quorum.voters else found

    @cached_property
    def configured(self) -> set[Asked]:
        """The nodes that the configuration names."""
        return self.at(self.quorum.bootstrap)

    @cached_property
    def controllers(self) -> set[Asked]:
        """The nodes that are configured, or asked since a leader last answered, but for brokers."""
        asked = {failure.endpoint for failure in self.newer({*Reason}) if failure.endpoint}
        return self.at((asked | {*self.quorum.bootstrap}) - self.quorum.broker_addresses)

    @cached_property
    def knows_none(self) -> bool:
        """Whether a node answers that it knows no leader, and not only that it does not lead.

        DescribeQuorum shows only the latter. A node that has heard of a leader names it until it hears of a newer
        epoch.
        """
        return any(one.source is ObservationSource.LOG and one.leader_id is None for one in self.reporting)

    @cached_property
    def number_of_voters(self) -> int:
        """How many voters are recorded, or else listed by the newest poll, or else configured."""
        quorum = self.quorum
        return len(quorum.voters) or (len(quorum.poll.voters) if quorum.poll else len(self.configured))

    @property
    def path_worked(self) -> bool:
        """Whether a leader has answered here before: otherwise the path may be the reason for a time-out."""
        return self.last_ms is not None and self.quorum.vantage is Vantage.INSIDE

    @cached_property
    def recorded(self) -> frozenset[NodeId]:
        """The voters of which it is recorded where they listen."""
        return frozenset(recorded_endpoints(self.quorum))

    @cached_property
    def may_run(self) -> frozenset[NodeId]:
        """The recorded voters that may run and do not answer: they were not asked, reject the monitor, or cannot be
        reached from its host."""
        return frozenset(node for node in self.recorded - self.answered if not self._takes_no_part(self.nodes[node]))

    def may_lead(self, node: NodeId | None = None) -> bool:
        """Returns whether a voter, or this one, may lead that does not answer the monitor: a majority may follow it."""
        if self.recorded:
            # A node that answers at an address of which none is known is one of the voters too, behind a load balancer.
            unknown = sum(isinstance(one, str) for one in self.answered)
            leading = sorted(one for one in self.may_run if not self._cannot_be_followed(self.nodes[one]))[unknown:]
            number = len(self.recorded & self.answered) + len(self.may_run)
            return bool(leading if node is None else node in leading) and number >= majority(len(self.recorded))
        return node is None and self._unrecorded_may_lead()

    def _takes_no_part(self, node: NodeFacts) -> bool:
        """Returns whether a voter is down, hung or late, or answered before and is not reached now."""
        if node.is_down or node.process in (Process.HUNG, Process.SLOW):
            return True
        silent = node.process is Process.NOT_REACHED or node.id in self.failing(_SILENT_REASONS)
        return silent and self.path_worked

    def _cannot_be_followed(self, node: NodeFacts) -> bool:
        """Returns whether no voter can fetch from this one if it is elected.

        It may be elected all the same, by the vote requests that it sends: the voters that granted them then name it as
        the leader. From a voter that led when a leader last answered, the others may fetch over connections that they
        opened before the fault.
        """
        poll = self.quorum.poll
        led = poll is None or poll.leader_id == node.id
        return not led and not node.can_lead

    def _unrecorded_may_lead(self) -> bool:
        """Returns the same where it is not recorded where the voters listen: all of them must be configured."""
        if self.last_ms is None:
            if self._refusing_at_start():
                return False
            if self._named or len(self.configured) == 1:
                # Nothing has shown who votes: the leader may not be configured.
                return True
        silent = self.failing({Reason.REFUSED, *_SILENT_REASONS}) if self.path_worked else set[Asked]()
        return len(self.answered | silent - self.at(self.quorum.broker_addresses)) < self.number_of_voters

    @property
    def _named(self) -> set[NodeId]:
        failed = (failure for failure in self.quorum.failures if failure.reason in NO_LEADER_REASONS)
        return {failure.leader_id for failure in failed if failure.leader_id is not None}

    def _refusing_at_start(self) -> bool:
        """Returns whether the leader refuses connections, where no leader has answered yet and nothing shows who votes.

        It is the one that the others name, where one of them says that it listens. Or it is one of those that are
        configured (`_KNOWN_AT_START`) and do not answer: all of them refuse, or so many that no majority is left if a
        name does not resolve.
        """
        refusing = self.failing({Reason.REFUSED})
        listening = {failure.node for failure in self.current if failure.reason is Reason.REFUSED}
        if self._named and self._named <= listening:
            return True
        others = self.configured - self.answered - refusing
        if not refusing or not others <= self.failing({Reason.UNRESOLVABLE}):
            return False
        known = len(self.answered | refusing)
        few = not others or len(self.answered | others) < majority(known + len(others))
        return few and known >= _KNOWN_AT_START

    def all_refuse(self) -> bool:
        """Returns whether every voter refuses connections where it is recorded.

        A configured address is no evidence: the controllers may listen elsewhere since, or never have listened there.
        Only where no endpoint of a voter is recorded, those from which a leader has answered before count, and until
        one has answered those that are configured (`_KNOWN_AT_START`). Names that do not resolve may be out of date, or
        voters that run: they must be fewer.
        """
        if self.recorded:
            return all(self.nodes[node].is_down for node in self.recorded)
        refused = self.at(failure.endpoint for failure in self.refusing)
        others = self.controllers - refused
        if not others <= self.failing({Reason.UNRESOLVABLE}) or len(others) >= len(refused):
            return False
        if self.last_ms is not None:
            return len(refused) >= self.number_of_voters
        return len(refused) >= _KNOWN_AT_START and self.quorum.vantage is Vantage.INSIDE

    def started_and_rejecting(self) -> tuple[FailedObservation, ...]:
        """Returns what failed at the voters that started after a leader last answered, and reject the monitor since.

        None unless they are a majority: the quorum was without a leader when they were down.
        """
        last_ms = self.last_ms
        if last_ms is None:
            return ()
        starts = {node.id: node.probe.returned_at_ms for node in self.nodes.values() if node.probe}
        started = {node for node in self.quorum.voting_ids & starts.keys() if max(starts[node], default=-1) > last_ms}
        if len(started) < majority(self.number_of_voters):
            return ()
        failures = [one for one in self.newer(_REJECTED_REASONS) if self.nodes.at.get(one.endpoint) in started]
        rejecting = self.at(failure.endpoint for failure in failures)
        return tuple(failures) if len(rejecting) >= majority(self.number_of_voters) else ()

    def first_rounds(self) -> bool:
        """Returns whether a controller has not answered yet since a gap (`_FIRST_ROUNDS_MS`)."""
        if self.quorum.now_ms - self.quorum.watched_since_ms >= _FIRST_ROUNDS_MS:
            return False
        recorded = {voter.key.id for voter in self.quorum.voters if voter.endpoint}
        return not self.controllers | recorded <= self.answered | self.at(one.endpoint for one in self.refusing)

    def one_address_each(self) -> tuple[str, ...]:
        """Returns one address of each node that answers, a recorded one if it is among them, sorted."""
        recorded, addresses = recorded_nodes(self.quorum), {failure.endpoint for failure in self.reporting}
        ordered = sorted(addresses, key=lambda address: (address in recorded, address))
        return tuple(sorted({self.nodes.at.get(address, address): address for address in ordered}.values()))

    @cached_property
    def unreachable_leader(self) -> UnreachableLeader | None:
        """The leader that the answering controllers follow and that does not answer the monitor.

        Followers that hear nothing of their leader for controller.quorum.fetch.timeout.ms elect another one within
        seconds if a majority of the voters reach each other (KIP-595); if not, each follower keeps reporting the old
        leader. So their reports count only if they are a majority without the leader, and only from voters whose
        recorded endpoints accept connections. A voter that rejects the monitor's login runs, and counts with them. One
        report is enough if the leader's process runs where it is recorded, and only rejects the monitor.
        """
        # A controller that is cut off from the others knows no leader, in the same or a later epoch.
        views = fresh_views(self.quorum)
        epoch, leaders = leaders_of_newest_epoch(views, None) or (None, ())
        if len(leaders) != 1 or leaders[0] in self.answered:
            return None
        leader = leaders[0]
        if leader in self.nodes and self.nodes[leader].is_down:
            return None
        refused = {failure.endpoint for failure in self.current if failure.reason is Reason.REFUSED}
        answered = {failure.endpoint for failure in self.reporting} - refused
        following = [
            view
            for view in views
            if view.endpoint in answered
            and (view.leader_epoch, view.leader_id) == (epoch, leader)
            and view.this_cluster
        ]
        if not following:
            return None
        running = self._voting(following) | (self.rejecting - {leader})
        elected = self._is_unreached(leader) and len(running) >= majority(self.number_of_voters)
        if not elected and (self.knows_none or not self.may_lead(leader)):
            return None
        followers = tuple(sorted(view.endpoint for view in following))
        return UnreachableLeader(id=leader, followers=followers, followed_by_majority=elected)

    def _is_unreached(self, leader: NodeId) -> bool:
        quorum = self.quorum
        failures = [
            failure
            for failure in quorum.failures
            if failure.reason in _UNREACHABLE_REASONS and quorum.is_current(failure.last_at_ms, quorum.ages.repeated_ms)
        ]
        failing = self.at(failure.endpoint for failure in failures) - self.answered
        return leader in failing if any(voter.key.id == leader for voter in quorum.voters) else bool(failing)

    def _voting(self, following: Iterable[LeaderView]) -> set[Asked]:
        """Returns the followers that are voters and reachable where the others dial them; all if none are known."""
        if not self.quorum.voters:
            polled = self.quorum.poll.voter_ids if self.quorum.poll else set[NodeId]()
            voters = [view for view in following if not polled or view.node is None or view.node in polled]
            return self.at(view.endpoint for view in voters)
        followers = {view.node for view in following}
        return {voter for voter in self.quorum.voter_ids & followers if self._accepts(self.nodes[voter])}

    def _accepts(self, voter: NodeFacts) -> bool:
        """Returns whether a voter accepts connections where it is recorded, and fetched last with its own directory.

        Whether one that has started since a leader last answered has its own directory is not known: without, nobody
        gives it a vote, and it names the leader that others have named.
        """
        if voter.probe and self.last_ms is not None and max(voter.probe.returned_at_ms, default=-1) > self.last_ms:
            return False
        rows = self.quorum.poll.rows_by_id.get(voter.id, ()) if self.quorum.poll else ()
        newest = max(rows, key=lambda row: row.last_fetch_ms or 0, default=None)
        replaced = newest is not None and not same_replica(newest.key, voter.key)
        return not replaced and (voter.probe is None or voter.probe.connection is ConnectionResult.ACCEPTED)


def leaderless(asked: WhoLeads) -> Leaderless | None:
    """Returns the evidence that the quorum has no leader: a node reports so, or all controllers refuse connections.

    The addresses that are asked are not the cluster. A node that answers that another one leads reports no missing
    leader: that, like a refused connection, counts only for its own voter. There is no leader if no voter is left that
    may lead, where it is recorded. An address at which a node has answered is that node's, whatever is recorded.

    So there is if a majority of the voters started after a leader last answered, and reject the monitor since: nothing
    shows that they accept each other.

    None means: a leader has answered since, or the monitor cannot observe the quorum (time-outs, name resolution,
    permissions), or a majority of the voters reject the monitor's login, or only the leader does not answer the monitor
    (`WhoLeads.unreachable_leader`), or a controller has not answered yet since a gap.
    """
    if rejecting := asked.started_and_rejecting():
        endpoints = tuple(sorted({failure.endpoint for failure in rejecting}))
        return Leaderless(answered=(), refused=(), rejecting=endpoints, failures=rejecting)
    refused = tuple(sorted({failure.endpoint for failure in asked.refusing}))
    if not asked.answered:
        never = asked.last_ms is None and not asked.recorded
        found = Leaderless(answered=(), refused=refused, failures=asked.refusing, never_answered=never)
        return found if refused and asked.all_refuse() else None
    if asked.unreachable_leader is not None or len(asked.rejecting) >= majority(asked.number_of_voters):
        return None
    if (not asked.knows_none and asked.may_lead()) or asked.first_rounds():
        return None
    failures = (*asked.reporting, *asked.refusing)
    return Leaderless(answered=asked.one_address_each(), refused=refused, failures=failures)


def never_accepted(asked: WhoLeads) -> bool:
    """Returns whether no leader has answered yet, and all that are configured reject the monitor's login or TLS.

    It cannot distinguish a wrong login from controllers that reject each other.
    """
    rejecting = asked.failing({Reason.NOT_AUTHENTICATED, Reason.TLS_FAILED})
    return asked.last_ms is None and bool(asked.configured) and asked.configured <= rejecting


def rejecting_voters(asked: WhoLeads) -> tuple[str, ...]:
    """Returns HOST:PORT of the voters that reject the monitor's login or TLS, if a leader answered it before and so
    many do that no majority is left. Controllers that use the same credentials then reject each other too.
    """
    reasons = {Reason.NOT_AUTHENTICATED, Reason.TLS_FAILED}
    # One from before a gap counts until the gatherer has tried again: a page must not change its severity meanwhile.
    since_ms = asked.quorum.now_ms - asked.quorum.ages.answer_ms
    failing = [one for one in asked.quorum.failures if one.reason in reasons and one.last_at_ms >= since_ms]
    found, of = asked.at(failure.endpoint for failure in failing), asked.number_of_voters
    if asked.recorded:
        # At another address, such as a former one, a controller may ask for another login than the others do.
        found, of = {node for node in asked.recorded if {*asked.nodes[node].failures} & {*failing}}, len(asked.recorded)
    if asked.last_ms is None or of - len(found) >= majority(of):
        return ()
    return tuple(sorted({failure.endpoint for failure in failing}))
