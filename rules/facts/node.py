"""NodeFacts: what is known of one controller now. Each fact is a value, or unknown; nothing else decides it again.

Rules, remedies, resolved texts, evidence, status, what-if and safe-to-restart read these. Observations that are older
than `Quorum.ages` allow, or from before a gap, are not known here.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from rules.facts import contact
from rules.facts.acceptance import Accepts, accepts
from rules.facts.contact import Contact, Others
from rules.facts.endpoint import (
    CURED_BY_RESTART,
    EndpointDoubt,
    EndpointFault,
    EndpointVerdict,
    certificate_doubt,
    endpoint_doubt,
    endpoint_faults,
    is_unanswered,
    is_unserved,
)
from rules.facts.following import (
    fetched_after_ms,
    fetching_replacement,
    following,
    records_behind,
    same_replica,
    since_caught_up_ms,
    since_last_fetch_ms,
)
from rules.facts.freshness import fresh_poll
from rules.model.ages import REMEMBERED_MS
from rules.model.identifiers import Endpoint, NodeId, ReplicaKey, at_listener
from rules.model.membership import VoterSet
from rules.model.monitoring import ConnectionResult, Probe, ProbeAnswer, Resolution, Vantage
from rules.model.quorum import Quorum
from rules.model.replica import Poll


class Process(StrEnum):
    """The state of a controller's process where the others dial it, as seen from the monitor's host."""

    RUNNING = "running"
    """It fetches, or a node of this cluster answers there."""
    SLOW = "slow"
    """It answers late, or did lately: its disk or its host is slow, not the process."""
    HUNG = "hung"
    """It accepts connections and does not answer: a long pause, a deadlock, a stopped process or a blocked disk."""
    DOWN = "down"
    """Its endpoint refuses connections: no process listens there."""
    NOT_REACHED = "not reached"
    """Connections to it time out or have no route: its host is down or cut off, or it hangs and accepts no more."""
    UNKNOWN = "unknown"
    """Nothing current shows it, the monitor is rejected, or another process answers there."""


@dataclass(frozen=True, kw_only=True)
class NodeFacts(Contact):
    """What is known of one controller: a voter, or a node that registered as one."""

    @cached_property
    def process(self) -> Process:
        """The state of its process. The newest observation counts; one that fetches runs, wherever it listens."""
        probe = self.probe
        if self.fetched_since_probe:
            return Process.RUNNING
        if probe is None:
            return Process.UNKNOWN
        if probe.connection is ConnectionResult.REFUSED:
            return Process.DOWN
        if probe.connection in (ConnectionResult.TIMED_OUT, ConnectionResult.UNREACHABLE):
            return Process.NOT_REACHED if self.vantage is Vantage.INSIDE else Process.UNKNOWN
        if probe.connection is not ConnectionResult.ACCEPTED or self.served_by_another:
            return Process.UNKNOWN
        if (self.answered_late or self.timed_out) and self.vantage is not Vantage.INSIDE:
            # From outside the network the path may be the reason.
            return Process.HUNG if probe.answer is ProbeAnswer.NO_ANSWER else Process.UNKNOWN
        if self.answered_late:
            return Process.SLOW
        if probe.answer is ProbeAnswer.NO_ANSWER or self.timed_out:
            return Process.HUNG
        return Process.RUNNING if probe.answer is ProbeAnswer.THIS_CLUSTER else Process.UNKNOWN

    @cached_property
    def accepts(self) -> Accepts:
        """What it answers there to the requests of the other voters: what it answers to the monitor."""
        return accepts(self)

    @cached_property
    def faults(self) -> tuple[EndpointFault, ...]:
        """What is known to be wrong with its endpoint: the others do not reach it there."""
        return tuple(endpoint_faults(self))

    @cached_property
    def doubt(self) -> EndpointDoubt | None:
        """Why a probe did not show whether the endpoint reaches its node; None also without a probe."""
        return endpoint_doubt(self)

    @cached_property
    def certificate_doubt(self) -> EndpointDoubt | None:
        """Why it is unknown whether other controllers accept the certificate; None if that is known."""
        return certificate_doubt(self)

    @cached_property
    def unserved(self) -> bool:
        """Whether a new connection is not answered, and the path is not to blame: a fault once it has fetched."""
        return is_unserved(self)

    @property
    def is_known(self) -> bool:
        """Whether a probe showed if the endpoint reaches its node."""
        return self.probe is not None and self.doubt is None

    @property
    def endpoint_verdict(self) -> EndpointVerdict:
        """Whether the endpoint reaches its node; down: it refuses, and the voter did not fetch at the newest poll."""
        if self.faults:
            return EndpointVerdict.STALE
        if self.refused and not self.followed.fetches:
            return EndpointVerdict.DOWN
        return EndpointVerdict.OK if self.is_known else EndpointVerdict.UNKNOWN

    @property
    def reachable(self) -> bool:
        """Whether no known fault keeps another voter from reaching it at its endpoint."""
        return not self.faults and not self.refused

    @property
    def can_lead(self) -> bool:
        """Whether other replicas could fetch from it. A controller announces its endpoint when it is elected, wherever
        it is, but it presents the same certificate everywhere.
        """
        return CURED_BY_RESTART.isdisjoint(self.faults)

    @property
    def only_its_restart_helps(self) -> bool:
        """Whether all that is wrong ends with its restart: the other voters need no change."""
        return bool(self.faults) and CURED_BY_RESTART.issuperset(self.faults)

    @property
    def unanswered(self) -> bool:
        """Whether no new connection is answered there, and it is unknown whether the path or the voter is at fault."""
        return not self.faults and self.doubt is not None and self.probe is not None and is_unanswered(self.probe)

    @property
    def unverified(self) -> bool:
        """Whether the monitor does not accept its certificate, and it is unknown whether other controllers do."""
        return self.can_lead and self.certificate_fault is not None

    @property
    def is_down(self) -> bool:
        """Whether no process listens where the others dial it, or at any other address where it answered before."""
        return self.process is Process.DOWN or bool(self.refuses_elsewhere)


class Nodes(Mapping[NodeId, NodeFacts]):
    """What is known of each voter and registered controller now, by node id."""

    def __init__(self, quorum: Quorum) -> None:
        self.quorum = quorum
        self.poll = fresh_poll(quorum)
        """The newest DescribeQuorum answer, if it is current."""
        self.dialled: VoterSet | None = contact.dialled_voters(quorum)
        """The voters with the endpoints at which the others dial them; None if these are not known."""
        keys = _keys(quorum, self.poll)
        self._make = _maker(quorum, self.poll, keys, frozenset() if self.dialled is None else self.dialled.ids)
        self._by_id = {node: self._make(key) for node, key in keys.items()}

    def __getitem__(self, node: NodeId) -> NodeFacts:
        return self._by_id[node]

    def __iter__(self) -> Iterator[NodeId]:
        return iter(self._by_id)

    def __len__(self) -> int:
        return len(self._by_id)

    @cached_property
    def voters(self) -> tuple[NodeFacts, ...]:
        """What is known of each voter of `dialled`, by node id."""
        return tuple(self._by_id[node] for node in sorted(self.dialled.ids)) if self.dialled else ()

    @cached_property
    def polled_voters(self) -> tuple[NodeFacts, ...]:
        """What is known of each voter of the newest poll, with the directory listed there: a majority of the leader's
        latest set commits and elects. None without a current poll in which the leader has a row."""
        keys = sorted(self.poll.voter_keys) if self.poll is not None and self.poll.leader is not None else ()
        known = ((key, self._by_id[key.id]) for key in keys)
        return tuple(voter if voter.key == key else self._make(key) for key, voter in known)

    @cached_property
    def fetching(self) -> Mapping[NodeId, tuple[ReplicaKey, ...]]:
        """By node id: the directories that fetch by the newest poll, of voters, observers and brokers."""
        rows = {} if self.poll is None else self.poll.rows_by_id
        keys = {node: sorted({row.key for row in of_node}) for node, of_node in sorted(rows.items())}
        found = {
            node: tuple(key for key in of_node if following(self.quorum, self.poll, key).fetches)
            for node, of_node in keys.items()
        }
        return {node: of_node for node, of_node in found.items() if of_node}

    def is_shared(self, node: NodeId) -> bool:
        """Returns whether two processes with this node id were seen lately: both fetch, or they registered in turn."""
        since_ms = (self.quorum.newest_timestamp_ms or 0) - REMEMBERED_MS
        registered = (one for one in self.quorum.history.double_registrations if one.timestamp_ms >= since_ms)
        return len(self.fetching.get(node, ())) > 1 or any(one.id == node for one in registered)

    @cached_property
    def at(self) -> Mapping[str, NodeId]:
        """The node at each address, HOST:PORT: the recorded one, or else the one that has answered there."""
        return contact.nodes_by_address(self.quorum)

    @cached_property
    def unresolved_hosts(self) -> tuple[str, ...]:
        """The host names that voters dial and that do not resolve (NXDOMAIN) by the newest probes, sorted."""
        probes = (voter.probe for voter in self.voters)
        lost = (probe for probe in probes if probe is not None and probe.resolution is Resolution.NAME_NOT_FOUND)
        return tuple(sorted({probe.endpoint.host for probe in lost}))

    def process(self, node: NodeId) -> Process:
        """Returns the state of a controller's process; unknown of a node that is none."""
        return self._by_id[node].process if node in self._by_id else Process.UNKNOWN


def _keys(quorum: Quorum, poll: Poll | None) -> Mapping[NodeId, ReplicaKey]:
    """Returns each voter and each registered controller, with the directory with which it votes, or else fetches."""
    listed = {voter.key.id: voter.key for voter in quorum.voters}
    if quorum.poll is not None:
        listed |= {row.key.id: row.key for row in quorum.poll.voters if row.key.id not in listed}
    rows = {} if poll is None else poll.rows_by_id
    return {
        node: listed.get(node) or (rows[node][0].key if node in rows else ReplicaKey(id=node, directory_id=None))
        for node in sorted({*listed, *quorum.controllers})
    }


def _maker(
    quorum: Quorum, poll: Poll | None, keys: Mapping[NodeId, ReplicaKey], dialled: frozenset[NodeId]
) -> Callable[[ReplicaKey], NodeFacts]:
    """Returns what makes the facts of a node: what each shows of the others is found out first."""
    endpoints = {node: contact.dialled_endpoint(quorum, node) for node in keys}
    probes = {node: contact.newest_probe(quorum, node, endpoints[node]) for node in keys}
    known = {node: probe for node, probe in probes.items() if probe is not None and node in dialled}
    answering = {node for node, probe in known.items() if contact.is_answered(probe)}
    verified = {node for node, probe in known.items() if probe.certificate is not None and probe.certificate.verified}
    leader = None if poll is None else poll.leader_id
    led = poll is not None and any(
        following(quorum, poll, keys[row.key.id]).fetches for row in poll.voters if row.key.id != leader
    )
    ahead = contact.leader_ahead_ms(quorum)

    def make(key: ReplicaKey) -> NodeFacts:
        node = key.id
        return _facts(
            quorum,
            poll,
            key,
            endpoint=endpoints[node],
            probe=probes[node],
            peers=Others(
                answer=not answering <= {node}, verified=not verified <= {node}, fetch_from_it=led and node == leader
            ),
            leader_ahead_ms=ahead,
        )

    return make


def _facts(
    quorum: Quorum,
    poll: Poll | None,
    key: ReplicaKey,
    *,
    endpoint: Endpoint | None,
    probe: Probe | None,
    peers: Others,
    leader_ahead_ms: int | None,
) -> NodeFacts:
    rows = () if poll is None else poll.rows_by_id.get(key.id, ())
    row = next((replica for replica in rows if same_replica(replica.key, key)), None)
    place = "" if endpoint is None else str(endpoint)
    view = quorum.leader_views.get(place)
    now, failures = following(quorum, poll, key), contact.failures_at(quorum, place)
    replacement = fetching_replacement(quorum, poll, key)
    age = None if poll is None else since_last_fetch_ms(quorum, poll, key)
    return NodeFacts(
        id=key.id,
        key=key,
        endpoint=endpoint,
        registered=_registered(quorum, key.id, endpoint) if replacement is None else None,
        row=row,
        others=tuple(replica for replica in rows if replica is not row),
        following=now,
        followed=now if poll is not None else following(quorum, quorum.poll, key),
        replacement=replacement,
        last_fetch_age_ms=age,
        lag_ms=None if poll is None else since_caught_up_ms(quorum, poll, key),
        lag=None if poll is None else records_behind(poll, row),
        fetched_after_ms=None if poll is None or age is None or not now.fetches else fetched_after_ms(poll, age),
        probe=probe,
        view=view if view and quorum.is_current(view.observed_at_ms, quorum.ages.view_ms) else None,
        answered_at_ms=view.observed_at_ms if view is not None and view.this_cluster else None,
        failures=failures,
        timed_out=contact.timed_out(quorum, place, failures),
        answered_late=contact.answered_late(quorum, place),
        refused_elsewhere=contact.refused_elsewhere(quorum, key.id, place),
        peers=peers,
        vantage=quorum.vantage,
        anonymous=quorum.access.anonymous,
        now_ms=quorum.now_ms,
        leader_ahead_ms=leader_ahead_ms,
    )


def _registered(quorum: Quorum, node: NodeId, endpoint: Endpoint | None) -> Endpoint | None:
    registration = quorum.controllers.get(node)
    if endpoint is None or registration is None or quorum.is_static:
        return None
    return at_listener(registration.endpoints, endpoint.listener)
