"""Contact: what was observed of one controller. What was asked of it at an address is attributed to its node id here.

Facts of one controller that depend on others are given as plain values: whether another one answers, is trusted, or
fetches from it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from rules.facts.following import Following
from rules.model.ages import LATE_MS
from rules.model.identifiers import Endpoint, Millis, NodeId, Offset, ReplicaKey
from rules.model.membership import Voter, VoterSet
from rules.model.monitoring import (
    CertificateFault,
    ConnectionResult,
    FailedObservation,
    LeaderView,
    ObservationSource,
    Probe,
    ProbeAnswer,
    Reason,
    Resolution,
    Vantage,
)
from rules.model.quorum import Quorum
from rules.model.replica import Replica

_NOT_IN_LOG = Offset(-1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Others:
    """What the other controllers show of one: it is asked in their place, and from the same host as they are."""

    answer: bool
    """Whether another voter answers new connections: the path from the monitor's host is not to blame."""
    verified: bool
    """Whether the monitor accepts the certificate of another voter."""
    fetch_from_it: bool
    """Whether it leads, and another voter fetches from it now: each Fetch is authorized."""


@dataclass(frozen=True, kw_only=True)
class Contact:
    """What was observed of one controller: a voter, or a node that registered as one.

    Without slots: what `NodeFacts` derives is kept.
    """

    id: NodeId
    key: ReplicaKey
    """The directory with which it votes, or else fetches; without a directory id if none is known."""
    endpoint: Endpoint | None
    """Where the others dial it: recorded, configured, or else registered."""
    registered: Endpoint | None
    """The endpoint of the same listener in its newest registration; None if its directory was replaced.

    None also of a static quorum: its list may name a controller otherwise than the registration does.
    """
    row: Replica | None
    """Its row in the newest poll, if that is current."""
    others: tuple[Replica, ...]
    """The rows of its other directories there."""
    following: Following
    """How it follows the leader with the directory `key`; unknown without a current poll."""
    followed: Following
    """How it followed at the newest poll, however old that is."""
    replacement: ReplicaKey | None
    """Another directory of its node that fetches now, without a vote."""
    last_fetch_age_ms: Millis | None
    """How long before the newest poll it last fetched, by the leader's clock; None if that is not known."""
    lag_ms: Millis | None
    """How long before the newest poll it had last caught up, by the leader's clock; None if that is not known."""
    lag: int | None
    """How many records its log ends before the leader's; None if one of both ends is unknown."""
    fetched_after_ms: Millis | None
    """After when it sent its last fetch, by the newest poll and the monitor's clock; None if it does not fetch, or that
    is unknown."""
    probe: Probe | None
    """What is there by the newest observation of that endpoint, if it is current: see `newest_probe`."""
    view: LeaderView | None
    """What it answers there who leads, if that is current."""
    answered_at_ms: Millis | None
    """When it last answered there who leads, however long ago."""
    failures: tuple[FailedObservation, ...]
    """The attempts at that endpoint that fail now, each repeated lately."""
    timed_out: bool
    """Whether one of them, for the log or a poll, timed out within the age of probes, and none was answered since."""
    answered_late: bool
    """Whether it answered late within the age of what is repeated, or its process did alone, and is not silent now. One
    that hangs answers nothing."""
    refused_elsewhere: tuple[str, ...]
    """HOST:PORT of the other addresses at which it answered, if all of them refuse connections now."""
    peers: Others
    vantage: Vantage
    anonymous: bool
    """Whether every client of the listener is the same user."""
    now_ms: Millis
    leader_ahead_ms: int | None
    """By how much the leader's clock is ahead of the monitor's, by the newest poll; None if it is not known."""

    @property
    def log_end_offset(self) -> Offset | None:
        """Where its log ends, as the leader knows it."""
        return self.row.log_end_offset if self.row else None

    @property
    def fetched_since_probe(self) -> bool:
        """Whether the node fetched after its endpoint was probed: what was found does not keep it from running."""
        probe, fetched_ms = self.probe, self.fetched_after_ms
        return probe is not None and fetched_ms is not None and fetched_ms > probe.observed_at_ms

    @property
    def refused(self) -> bool:
        """Whether the node's endpoint refuses connections: no process listens there."""
        return self.probe is not None and self.probe.connection is ConnectionResult.REFUSED

    @property
    def answered(self) -> bool:
        """Whether a node of this cluster answers a new connection to its endpoint."""
        return self.probe is not None and is_answered(self.probe)

    @property
    def answers_monitor(self) -> bool:
        """Whether it currently answers the monitor's Fetch."""
        viewed = self.view is not None and self.view.this_cluster
        return viewed or (self.probe is not None and self.probe.answer is ProbeAnswer.THIS_CLUSTER)

    @property
    def served_by_another(self) -> bool:
        """Whether another process answers where the others dial it."""
        return self.probe is not None and self.probe.served_by_another

    @property
    def is_unobserved(self) -> bool:
        """Whether nothing current shows what is at its endpoint: its name is not resolved or it is not reached."""
        return self.probe is None or self.probe.connection not in (ConnectionResult.ACCEPTED, ConnectionResult.REFUSED)

    @property
    def refuses_elsewhere(self) -> tuple[str, ...]:
        """HOST:PORT of the other addresses at which it answered, if all of them refuse connections, and its endpoint
        cannot be observed: it is down."""
        return self.refused_elsewhere if self.is_unobserved else ()

    @property
    def certificate_fault(self) -> CertificateFault | None:
        """Why the monitor does not accept the certificate that it presents."""
        return None if self.probe is None else self.probe.certificate_fault


def is_answered(probe: Probe) -> bool:
    """Returns whether a node of this cluster answered a new connection."""
    return probe.connection is ConnectionResult.ACCEPTED and probe.answer is ProbeAnswer.THIS_CLUSTER


def dialled_voters(quorum: Quorum) -> VoterSet | None:
    """Returns the voters with the endpoints at which the others dial them; None if these are not known.

    The log of a static quorum has none: each voter dials the endpoints of its own controller.quorum.voters. From Kafka
    3.9 on DescribeQuorum has those of the leader.
    """
    poll = quorum.poll
    if quorum.committed is not None or poll is None or not all(poll.nodes.get(row.key.id) for row in poll.voters):
        return quorum.committed
    voters = tuple(Voter(key=row.key, endpoints=poll.nodes[row.key.id]) for row in poll.voters)
    return VoterSet(voters=voters, offset=_NOT_IN_LOG, leader_epoch=None, timestamp_ms=None)


def dialled_endpoint(quorum: Quorum, node: NodeId) -> Endpoint | None:
    """Returns where the others dial a node: by the VotersRecord, else by the newest poll, else by its registration."""
    voter = quorum.voter(node)
    if voter is not None:
        return voter.endpoint
    polled = quorum.poll.nodes.get(node, ()) if quorum.poll else ()
    registered = quorum.controllers[node].endpoints if node in quorum.controllers else ()
    return next(iter(polled or registered), None)


def recorded_endpoints(quorum: Quorum) -> Mapping[NodeId, tuple[Endpoint, ...]]:
    """Returns where each voter listens, the endpoint that others dial first: by the VotersRecord, else by the newest
    poll, else by its registration. Empty if that is recorded of none.
    """
    if quorum.committed is not None:
        return {voter.key.id: voter.endpoints for voter in quorum.voters}
    nodes = {node: registration.endpoints for node, registration in quorum.controllers.items()}
    if quorum.poll is None:
        return nodes
    nodes |= quorum.poll.nodes
    return {row.key.id: nodes[row.key.id] for row in quorum.poll.voters if nodes.get(row.key.id)}


def recorded_nodes(quorum: Quorum) -> Mapping[str, NodeId]:
    """Returns the node at each address that is recorded of a controller."""
    recorded = {
        str(endpoint): node for node, registration in quorum.controllers.items() for endpoint in registration.endpoints
    }
    return recorded | {str(endpoint): node for node, all_ in recorded_endpoints(quorum).items() for endpoint in all_}


def nodes_by_address(quorum: Quorum) -> Mapping[str, NodeId]:
    """Returns the node at each address: the recorded one, or else the one that has answered there.

    A controller may have other names, and be configured by them.
    """
    answered = {view.endpoint: view.node for view in quorum.leader_views.values() if view.node is not None}
    failed = {failure.endpoint: failure.node for failure in quorum.failures if failure.node is not None}
    return {**answered, **failed, **recorded_nodes(quorum)}


def newest_probe(quorum: Quorum, node: NodeId, endpoint: Endpoint | None) -> Probe | None:
    """Returns what is at an endpoint of a node now: its newest probe, with what later requests to it met.

    A probe is made every five seconds, and identifies the node every half minute. A request that is refused later, or
    that a node of another cluster answers, shows more. None if nothing current is known.
    """
    if endpoint is None:
        return None
    probe, place = quorum.probe(node, endpoint), str(endpoint)
    if probe is not None and not quorum.is_current(probe.observed_at_ms, quorum.ages.probe_ms):
        probe = None
    view = quorum.leader_views.get(place)
    other = view is not None and not view.this_cluster and quorum.is_current(view.observed_at_ms, quorum.ages.view_ms)
    if other and probe is not None and probe.connection not in (ConnectionResult.REFUSED, ConnectionResult.NOT_TRIED):
        probe = replace(probe, connection=ConnectionResult.ACCEPTED, answer=ProbeAnswer.OTHER_CLUSTER)
    refused = [failure for failure in quorum.failures if failure.endpoint == place and failure.reason is Reason.REFUSED]
    at_ms = max(
        (failure.last_at_ms for failure in refused if failure.source is not ObservationSource.PROBE), default=None
    )
    if at_ms is None or not quorum.is_current(at_ms, quorum.ages.probe_ms):
        return probe
    if probe is not None and probe.observed_at_ms > at_ms:
        return probe
    if probe is None:
        probe = Probe(
            node=node,
            endpoint=endpoint,
            resolution=Resolution.RESOLVED,
            addresses=quorum.addresses.get(endpoint.host, ()),
            connection=ConnectionResult.REFUSED,
            answer=ProbeAnswer.NOT_ASKED,
        )
    return replace(
        probe,
        observed_at_ms=at_ms,
        # A name that was not found before resolves by now: something refuses.
        resolution=Resolution.RESOLVED,
        connection=ConnectionResult.REFUSED,
        answer=ProbeAnswer.NOT_ASKED,
    )


def failures_at(quorum: Quorum, place: str) -> tuple[FailedObservation, ...]:
    """Returns the attempts at an address that fail now."""
    return tuple(
        failure
        for failure in quorum.failures
        if failure.endpoint == place and quorum.is_current(failure.last_at_ms, quorum.ages.repeated_ms)
    )


def answered_late(quorum: Quorum, place: str) -> bool:
    """Returns whether a node answered late there within the age of what is repeated, and has not been silent since for
    longer than an answer may take a slow one."""
    late_ms, since_ms = quorum.late_answers.get(place), quorum.unanswered_since.get(place)
    if late_ms is None or not quorum.is_current(late_ms, quorum.ages.repeated_ms):
        return False
    return since_ms is None or quorum.now_ms - since_ms <= quorum.ages.answer_ms


def timed_out(quorum: Quorum, place: str, failures: Iterable[FailedObservation]) -> bool:
    """Returns whether one of these attempts, for the log or a poll, timed out within the age of probes, and nothing has
    been answered there since, for as long as an answer may take."""
    since_ms = quorum.unanswered_since.get(place)
    return (
        since_ms is not None
        and quorum.now_ms - since_ms >= LATE_MS
        and any(
            failure.reason is Reason.TIMED_OUT
            and failure.source is not ObservationSource.PROBE
            and quorum.is_current(failure.last_at_ms, quorum.ages.probe_ms)
            for failure in failures
        )
    )


def refused_elsewhere(quorum: Quorum, node: NodeId, place: str) -> tuple[str, ...]:
    """Returns the other addresses of a node at which it answered, if all of them refuse connections now."""
    failed = [
        failure
        for failure in quorum.failures
        if failure.node == node
        and failure.endpoint != place
        and failure.source in (ObservationSource.LOG, ObservationSource.QUORUM)
        and quorum.is_current(failure.last_at_ms, quorum.ages.probe_ms)
    ]
    if {failure.reason for failure in failed} != {Reason.REFUSED}:
        return ()
    return tuple(sorted({failure.endpoint for failure in failed}))


def leader_ahead_ms(quorum: Quorum) -> int | None:
    """Returns by how much the leader's clock is ahead of the monitor's: its own row has its current time (KIP-836)."""
    poll = quorum.poll
    leader = poll.leader if poll else None
    return (
        None
        if poll is None or leader is None or leader.last_fetch_ms is None
        else (leader.last_fetch_ms - poll.observed_at_ms)
    )
