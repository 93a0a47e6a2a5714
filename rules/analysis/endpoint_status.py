"""The status of each voter's recorded endpoint: whether it still reaches that voter.

An endpoint is *stale* if one of these holds: its host name does not resolve (NXDOMAIN); another node, another cluster
or no Kafka answers there; the controller registered another endpoint; it presents a certificate that no other
controller accepts; or it refuses or does not serve new connections while the voter fetches, that is while the voter
runs. An endpoint that refuses while the voter does not fetch is *down*. A resolver failure, a time-out or a refused
login is no fault of the endpoint: the monitor cannot observe it then.

A voter does not serve new connections if one is accepted and not answered, or if it times out while an older one is
answered; and if another voter's endpoint answers, so that it is not the path from the monitor's host. It may have no
file descriptor left, or no thread. It fetches over its own connections, but gives no vote and cannot be followed.

A certificate that the monitor does not accept is the voter's fault if the monitor accepts another voter's: its own
truststore is right. An expired one, or one that is not yet valid, is the voter's fault also by the leader's clock. If
no certificate is accepted, the monitor's truststore or clock may be wrong, and the endpoint's state is unknown. So it
is if only the monitor is known not to trust the authority of a voter that fetches: authorities are replaced one
controller after the other, and the controllers may trust the new one already.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from rules.analysis.freshness import fresh_poll, fresh_probe
from rules.analysis.replica_lag import fetching_replacement
from rules.formatting import utc_text
from rules.model.following import Following, following
from rules.model.identifiers import Endpoint, Offset, at_listener
from rules.model.membership import Voter, VoterSet
from rules.model.monitoring import Answer, CertificateFault, Connection, Probe, Resolution, Vantage
from rules.model.node_facts import fetched_since
from rules.model.quorum import Quorum
from rules.model.replica import Poll
from rules.model.subject import Subject

_SEVERAL, _RESTARTED_MS = 2, 600_000
"""How often and how long ago the process of an endpoint that refuses connections may have started."""
_OLDER_MS = 15_000
"""So long before a probe that times out an answer over an older connection may be: each controller answers every 10 s.
An answer from before a network failure is older soon."""
_NOT_IN_LOG = Offset(-1)


class EndpointFault(StrEnum):
    """Why an endpoint is stale."""

    NAME_NOT_FOUND = "name-gone"
    OTHER_RESPONDER = "leads-elsewhere"
    REGISTRATION_DIFFERS = "registration-differs"
    REFUSED_WHILE_FETCHING = "refused-while-fetching"
    CERTIFICATE = "certificate"
    NOT_SERVING = "not-serving"
    """It accepts new connections and does not answer them, or drops them."""

    @property
    def found_by_probe(self) -> bool:
        """Whether a probe from the monitor's vantage point found it, and not the log."""
        return self is not EndpointFault.REGISTRATION_DIFFERS


CURED_BY_RESTART = frozenset({EndpointFault.CERTIFICATE, EndpointFault.NOT_SERVING})
"""Faults of the process, wherever it listens: no replica can fetch from it, and its own restart ends them."""


class EndpointVerdict(StrEnum):
    """Whether a voter's recorded endpoint reaches that voter."""

    OK = "ok"
    STALE = "stale"
    DOWN = "down"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointStatus:
    """What is known of one voter's recorded endpoint."""

    voter: Voter
    endpoint: Endpoint | None
    """The endpoint that other voters dial; None if the VotersRecord names none."""
    registered: Endpoint | None = None
    """The endpoint of the same listener in the controller's newest registration."""
    probe: Probe | None = None
    """The newest probe; None if it is too old."""
    following: Following
    faults: tuple[EndpointFault, ...] = ()
    unserved: bool = False
    """Whether a new connection is not answered, and the path is not to blame: a fault, once the voter has fetched."""
    unknown_reason: str | None
    """Why the endpoint's state is unknown; None if it is known."""

    @property
    def refused(self) -> bool:
        """Whether the endpoint refuses connections: no process listens there."""
        return self.probe is not None and self.probe.connection is Connection.REFUSED

    @property
    def verdict(self) -> EndpointVerdict:
        """Whether the endpoint reaches the voter."""
        if self.faults:
            return EndpointVerdict.STALE
        if self.refused and not self.following.fetches:
            return EndpointVerdict.DOWN
        return EndpointVerdict.OK if self.unknown_reason is None else EndpointVerdict.UNKNOWN

    @property
    def reachable(self) -> bool:
        """Whether no known fault keeps another voter from reaching this voter at the endpoint."""
        return not self.faults and not self.refused

    @property
    def can_lead(self) -> bool:
        """Whether other replicas could fetch from this voter. A controller announces its endpoint when it is elected,
        wherever it is, but it presents the same certificate everywhere.
        """
        return CURED_BY_RESTART.isdisjoint(self.faults)

    @property
    def announced_in_vain(self) -> bool:
        """Whether the voter runs, has registered no other endpoint, and is not reached at this one: no replica could
        fetch from it if it led. One that has moved announces its new endpoint.
        """
        moved = EndpointFault.REGISTRATION_DIFFERS in self.faults
        return bool(self.faults) and not moved and self.following is not Following.NOT_FETCHING

    @property
    def only_its_restart_helps(self) -> bool:
        """Whether all that is wrong ends with a restart of this voter: the other voters need no change."""
        return bool(self.faults) and CURED_BY_RESTART.issuperset(self.faults)

    @property
    def answered(self) -> bool:
        """Whether a node of this cluster answers a new connection."""
        return self.probe is not None and _answered(self.probe)

    @property
    def unanswered(self) -> bool:
        """Whether no new connection is answered here, and it is unknown whether the path or the voter is at fault."""
        return (
            not self.faults and self.unknown_reason is not None and self.probe is not None and _unanswered(self.probe)
        )

    @property
    def unverified(self) -> bool:
        """Whether the monitor does not accept its certificate, and it is unknown whether other controllers do."""
        return self.can_lead and self.probe is not None and certificate_fault(self.probe) is not None

    @property
    def subject(self) -> Subject:
        """The subject of findings about this voter: it stays the same when the directory id changes."""
        return Subject("voter", self.voter.key.id)


def in_dial_order(endpoints: tuple[Endpoint, ...], registered: Iterable[Endpoint]) -> tuple[Endpoint, ...]:
    """Returns a controller's endpoints with the one that other controllers dial first.

    Controllers dial the first of `controller.listener.names`. A registration lists its listeners in that order (Kafka's
    ListenerInfo). VotersRecord and DescribeQuorum list them in any order (the HashMap in Kafka's Endpoints). So does a
    registration in a snapshot (the HashMap in ControllerRegistration), which therefore does not give the order.

    `registered`: the endpoints of its newest registration, or of another controller's if it has none.
    """
    if len(endpoints) < 2:
        return endpoints
    order = {each.listener.lower(): index for index, each in enumerate(registered)}
    return tuple(sorted(endpoints, key=lambda each: order.get(each.listener.lower(), len(order))))


def with_dialled_voters(quorum: Quorum) -> Quorum | None:
    """Returns the quorum with a voter set that has the endpoints that its voters dial; None if they are not known.

    The log of a static quorum has none: each voter dials the endpoints of its own controller.quorum.voters. From Kafka
    3.9 on DescribeQuorum has those of the leader.
    """
    return quorum if quorum.committed is not None else quorum.derived(_with_configured_voters)


def _with_configured_voters(quorum: Quorum) -> Quorum | None:
    poll = quorum.poll
    if poll is None or not all(poll.nodes.get(row.key.id) for row in poll.voters):
        return None
    voters = tuple(Voter(key=row.key, endpoints=poll.nodes[row.key.id]) for row in poll.voters)
    configured = VoterSet(voters=voters, offset=_NOT_IN_LOG, leader_epoch=None, timestamp_ms=None)
    return replace(quorum, committed=configured)


def is_static(quorum: Quorum) -> bool:
    """Returns whether the voters are those of controller.quorum.voters; a log before Kafka 3.9 has no kraft.version."""
    return not quorum.kraft_version


def endpoint_kind(quorum: Quorum) -> str:
    """Returns what the endpoints are that voters dial: recorded in the log, or configured."""
    return "configured" if is_static(quorum) else "recorded"


def endpoint_statuses(quorum: Quorum, poll: Poll | None) -> tuple[EndpointStatus, ...]:
    """Returns the endpoint status of each committed voter, in order of node id; a fresh poll gives which fetch."""
    ordered = sorted(quorum.voters, key=lambda voter: voter.key.id)
    return tuple(endpoint_status(quorum, poll, voter) for voter in ordered)


def endpoints_now(quorum: Quorum) -> tuple[EndpointStatus, ...]:
    """Returns the status of the endpoint that each voter is dialled at, by the current poll. Read it by `derived`."""
    return endpoint_statuses(with_dialled_voters(quorum) or quorum, fresh_poll(quorum))


def last_known_endpoint_statuses(quorum: Quorum) -> tuple[EndpointStatus, ...]:
    """Returns the endpoint statuses; without a current poll each with how its voter followed at the newest one."""
    poll = fresh_poll(quorum)
    if poll is not None:
        return endpoint_statuses(quorum, poll)
    return tuple(
        replace(status, following=following(quorum, quorum.poll, status.voter.key))
        for status in endpoint_statuses(quorum, None)
    )


def endpoint_status(quorum: Quorum, poll: Poll | None, voter: Voter) -> EndpointStatus:
    """Returns the endpoint status of one committed voter: see `endpoint_statuses`."""
    endpoint = voter.endpoint
    alive = following(quorum, poll, voter.key)
    if endpoint is None:
        return EndpointStatus(
            voter=voter,
            endpoint=None,
            following=alive,
            unknown_reason="the VotersRecord names no endpoint for it",
        )
    probe = fresh_probe(quorum, voter)
    refused = probe is not None and probe.connection is Connection.REFUSED
    unserved = probe is not None and _unserved(quorum, probe)
    silent = refused or unserved
    fetches_still = silent and alive.fetches and fetched_since(quorum, poll, voter.key, probe)
    others_answer = unserved and any(_answers(quorum, one) for one in quorum.voters if one is not voter)
    replaced = fetching_replacement(quorum, poll, voter.key) is not None
    # The list of a static quorum may name a controller otherwise than its registration does.
    compared = not replaced and not is_static(quorum)
    registration = quorum.controllers.get(voter.key.id) if compared else None
    registered = at_listener(registration.endpoints, endpoint.listener) if registration else None
    unverified = None if probe is None else _unverified(quorum, probe, alive)
    faults = _faults(endpoint, registered, probe, fetched_since=fetches_still)
    if unverified is None and probe is not None and certificate_fault(probe) is not None:
        faults = (*faults, EndpointFault.CERTIFICATE)
    if fetches_still and others_answer:
        faults = (*faults, EndpointFault.NOT_SERVING)
    return EndpointStatus(
        voter=voter,
        endpoint=endpoint,
        registered=registered,
        probe=probe,
        following=alive,
        faults=faults,
        unserved=unserved and others_answer,
        unknown_reason=_unobserved(probe, quorum.vantage)
        or unverified
        or _undecided(probe, alive, fetched_since=fetches_still)
        or (_unknown_silence(probe, alive, others_answer=others_answer) if not faults else None),
    )


def _unanswered(probe: Probe) -> bool:
    """Returns whether a new connection got no answer: it was not accepted, or accepted and then closed or ignored."""
    if probe.connection is Connection.ACCEPTED:
        return probe.answer is Answer.NO_ANSWER
    return probe.connection in (Connection.TIMED_OUT, Connection.UNREACHABLE)


def _unserved(quorum: Quorum, probe: Probe) -> bool:
    """Returns whether the process at this endpoint leaves a new connection unanswered, unless the path does."""
    if probe.connection is Connection.ACCEPTED:
        return _unanswered(probe)
    return probe.connection is Connection.TIMED_OUT and any(
        view.endpoint == str(probe.endpoint)
        and view.this_cluster
        and probe.observed_at_ms - view.observed_at_ms <= _OLDER_MS
        for view in quorum.leader_views.values()
    )


def _answers(quorum: Quorum, voter: Voter) -> bool:
    probe = fresh_probe(quorum, voter)
    return probe is not None and _answered(probe)


def _answered(probe: Probe) -> bool:
    return probe.connection is Connection.ACCEPTED and probe.answer is Answer.THIS_CLUSTER


def _unknown_silence(probe: Probe | None, alive: Following, *, others_answer: bool) -> str | None:
    """Returns why it is unknown what keeps an accepted connection unanswered; None if it is answered."""
    if probe is None or probe.connection is not Connection.ACCEPTED or not _unanswered(probe):
        return None
    if alive is Following.NOT_FETCHING:
        return None
    why = "it is not known yet whether the voter still fetches" if others_answer else "no other voter answers either"
    return f"{probe.endpoint} accepts connections and does not answer, and {why}"


def _faults(
    endpoint: Endpoint, registered: Endpoint | None, probe: Probe | None, *, fetched_since: bool
) -> tuple[EndpointFault, ...]:
    faults = []
    if registered and not registered.same_address(endpoint):
        faults.append(EndpointFault.REGISTRATION_DIFFERS)
    if probe is None:
        return tuple(faults)
    if probe.resolution is Resolution.NAME_NOT_FOUND:
        faults.append(EndpointFault.NAME_NOT_FOUND)
    if probe.connection is Connection.REFUSED and fetched_since and not _restarts(probe):
        faults.append(EndpointFault.REFUSED_WHILE_FETCHING)
    if other_responder(probe):
        faults.append(EndpointFault.OTHER_RESPONDER)
    return tuple(faults)


def _restarts(probe: Probe) -> bool:
    """Returns whether its process started twice or more lately: it is there, and no other endpoint is its own."""
    return sum(probe.observed_at_ms - at_ms <= _RESTARTED_MS for at_ms in probe.returned_at_ms) >= _SEVERAL


def certificate_fault(probe: Probe) -> CertificateFault | None:
    """Returns why the monitor does not accept the certificate that is presented at this endpoint."""
    return None if probe.certificate is None else probe.certificate.fault


def _unverified(quorum: Quorum, probe: Probe, alive: Following) -> str | None:
    """Returns why it is unknown whether other controllers accept this certificate; None if it is known, or accepted."""
    fault = certificate_fault(probe)
    if fault is None:
        return None
    if fault is CertificateFault.UNTRUSTED and alive.fetches:
        return (
            f"the certificate at {probe.endpoint} is not of an authority in ssl_cafile, and the voter takes part in "
            "the quorum: compare the issuers"
        )
    by_leader = _fault_lasts_by_leaders_clock(quorum, probe)
    if by_leader is False:
        return (
            f"the certificate at {probe.endpoint} {certificate_text(probe)}, but not by the leader's clock: check the "
            "clock of the monitor's host"
        )
    if by_leader or any(_accepted(quorum, voter) for voter in quorum.voters if voter.key.id != probe.node):
        return None
    return (
        f"the certificate at {probe.endpoint} {certificate_text(probe)}, and the monitor accepts no other voter's "
        "certificate either: check ssl_cafile, and the clock of the monitor's host"
    )


def _accepted(quorum: Quorum, voter: Voter) -> bool:
    probe = fresh_probe(quorum, voter)
    return probe is not None and probe.certificate is not None and probe.certificate.verified


def _fault_lasts_by_leaders_clock(quorum: Quorum, probe: Probe) -> bool | None:
    """Returns whether the dates of a certificate are wrong by the leader's clock too; None if its dates do not show it.

    The leader's own row has the current time of its clock (KIP-836).
    """
    certificate, poll = probe.certificate, quorum.poll
    leader = poll.leader if poll else None
    if certificate is None or poll is None or leader is None or leader.last_fetch_ms is None:
        return None
    begins, ends = certificate.valid_from_ms, certificate.expires_at_ms
    ahead = leader.last_fetch_ms - poll.observed_at_ms
    if certificate.fault is CertificateFault.EXPIRED and ends is not None and quorum.now_ms >= ends:
        return quorum.now_ms + ahead >= ends
    if certificate.fault is CertificateFault.NOT_YET_VALID and begins is not None and quorum.now_ms < begins:
        return quorum.now_ms + ahead < begins
    return None


def certificate_text(probe: Probe) -> str:
    """Returns what is wrong with the presented certificate, as the rest of a sentence about it."""
    certificate = probe.certificate
    begins = certificate.valid_from_ms if certificate else None
    ends = certificate.expires_at_ms if certificate else None
    match certificate_fault(probe):
        case CertificateFault.EXPIRED:
            # An expired certificate authority in its chain has the same verify code.
            own = ends is not None and ends <= probe.observed_at_ms
            return f"expired at {utc_text(ends)}" if own and ends is not None else "has expired, or its issuer's"
        case CertificateFault.NOT_YET_VALID:
            return "is not yet valid" if begins is None else f"is not valid before {utc_text(begins)}"
        case CertificateFault.WRONG_HOST:
            return f"is not for {probe.endpoint.host}"
        case CertificateFault.UNTRUSTED:
            return "is not trusted"
        case None:
            return "is accepted"


def other_responder(probe: Probe) -> str | None:
    """Returns what answers at this endpoint instead of its voter; None if nothing else is known to answer."""
    match probe.answer:
        case Answer.OTHER_CLUSTER:
            return "a node of another cluster"
        case Answer.OTHER_NODE:
            return "another node" if probe.answered_by is None else f"node {probe.answered_by}"
        case Answer.NOT_KAFKA:
            return "something that does not speak Kafka"
        case Answer.THIS_CLUSTER:
            other = probe.answered_by is not None and probe.answered_by != probe.node
            return f"node {probe.answered_by}" if other else None
        case Answer.NO_ANSWER | Answer.NOT_ALLOWED | Answer.NOT_ASKED:
            return None


def probe_outcome(status: EndpointStatus) -> str:
    """Returns what the newest probe of a voter's recorded endpoint found."""
    probe = status.probe
    if probe is None:
        return "not probed recently"
    if probe.resolution is Resolution.NAME_NOT_FOUND:
        return "the name does not resolve (NXDOMAIN)"
    if probe.resolution is Resolution.RESOLVER_FAILED:
        return "the resolver of the monitor's host failed"
    if probe.connection is Connection.ACCEPTED:
        hung = "accepts connections and does not answer" if probe.answer is Answer.NO_ANSWER else "accepts connections"
        if certificate_fault(probe) is not None:
            return f"its certificate {certificate_text(probe)}"
        return f"{other_responder(probe)} answers" if other_responder(probe) else hung
    return {
        Connection.REFUSED: "refuses connections",
        Connection.TIMED_OUT: "the connection timed out",
        Connection.UNREACHABLE: "unreachable",
    }.get(probe.connection, "not tried")


def faults_text(status: EndpointStatus) -> str:
    """Returns all that is wrong with an endpoint, as the rest of a sentence about it, without a full stop."""
    return ". The endpoint ".join(fault_text(each, status) for each in status.faults)


def fault_text(fault: EndpointFault, status: EndpointStatus) -> str:
    """Returns what is wrong with an endpoint, as the rest of a sentence about it."""
    match fault:
        case EndpointFault.NAME_NOT_FOUND:
            return "does not resolve"
        case EndpointFault.OTHER_RESPONDER:
            other = other_responder(status.probe) if status.probe else "another node"
            return f"is served by another process: {other}"
        case EndpointFault.REGISTRATION_DIFFERS:
            return f"is outdated: the controller registered {status.registered}"
        case EndpointFault.REFUSED_WHILE_FETCHING:
            return "refuses connections although the voter fetches"
        case EndpointFault.NOT_SERVING:
            return "serves no new connection although the voter fetches"
        case EndpointFault.CERTIFICATE:
            assert status.probe is not None
            return f"presents a certificate that {certificate_text(status.probe)}"


def _undecided(probe: Probe | None, alive: Following, *, fetched_since: bool) -> str | None:
    """Returns why a refusal is neither stale (the voter fetches) nor down (it does not fetch); None if it is one."""
    if probe is None or probe.connection is not Connection.REFUSED or fetched_since or alive is Following.NOT_FETCHING:
        return None
    return f"{probe.endpoint} refuses connections, and it is not known yet whether the voter still fetches"


def _unobserved(probe: Probe | None, vantage: Vantage) -> str | None:
    if probe is None:
        return "its endpoint was not probed recently"
    if probe.resolution is Resolution.RESOLVER_FAILED:
        return f"the resolver of the monitor's host failed on {probe.endpoint.host}"
    if probe.connection is Connection.TIMED_OUT and vantage is Vantage.INSIDE:
        return f"a connection from the monitor's host to {probe.endpoint} timed out"
    if probe.connection is Connection.UNREACHABLE and vantage is Vantage.INSIDE:
        return f"{probe.endpoint} is unreachable from the monitor's host"
    # From outside the network a connection is not expected to succeed: only the name resolution counts.
    return None
