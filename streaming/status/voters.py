"""The voters, observers and endpoints of a `ClusterStatus`, and how the quorum shows them."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from rules.facts.endpoint import EndpointFault, EndpointVerdict
from rules.facts.endpoint_text import probe_outcome
from rules.facts.following import Following, fetch_age_ms, following, lag_ms, records_behind
from rules.facts.freshness import fresh_poll
from rules.facts.node import NodeFacts
from rules.facts.quorum import Facts
from rules.facts.voter_changes import moving_voters
from rules.model.identifiers import DirectoryId, Endpoint, Epoch, Millis, NodeId, Offset, ReplicaKey
from rules.model.membership import VoterSet, majority
from rules.model.monitoring import CertificateFault
from rules.model.quorum import Quorum
from rules.model.replica import Poll, Replica


class ReplicaRole(StrEnum):
    """A replica's role as `kafka-metadata-quorum describe --replication` prints it."""

    LEADER = "Leader"
    FOLLOWER = "Follower"
    OBSERVER = "Observer"


@dataclass(frozen=True, slots=True, kw_only=True)
class VoterEndpoints:
    """A voter and its endpoints."""

    id: NodeId
    """Node id."""
    directory_id: DirectoryId | None
    """Directory id as Kafka prints it; null in a static quorum."""
    endpoints: tuple[str, ...]
    """LISTENER://HOST:PORT of each listener, an IPv6 address in brackets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedVoters:
    """The newest committed VotersRecord."""

    offset: Offset
    """Offset of the VotersRecord; -1 for the set that the directory was formatted with."""
    voters: tuple[VoterEndpoints, ...]
    """The voters, by node id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingVoters:
    """The difference between the leader's latest voter set and the committed one."""

    added: tuple[ReplicaKey, ...]
    """Voters of the leader's set that are not committed."""
    removed: tuple[ReplicaKey, ...]
    """Committed voters that the leader's set no longer holds."""
    moved: tuple[NodeId, ...] = ()
    """Voters with other endpoints in the leader's set than in the committed one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VoterEndpointStatus:
    """The endpoint at which the others dial one voter, and what the newest probe found there."""

    id: NodeId
    """Node id."""
    directory_id: DirectoryId | None
    """Directory id as Kafka prints it."""
    recorded: str | None
    """HOST:PORT in the VotersRecord, of the listener that controllers dial; null where it names none. Of a static
    quorum: in controller.quorum.voters of the leader."""
    registered: str | None
    """HOST:PORT of the same listener in the controller's newest registration."""
    verdict: EndpointVerdict
    """ok: the endpoint reaches the voter; stale: it does not; down: it refuses connections and the voter does not
    fetch; unknown: no probe decides it."""
    probe_result: str | None
    """What the newest probe found at the endpoint, as text."""
    faults: tuple[EndpointFault, ...]
    """Why the endpoint is stale."""
    following: Following
    """Whether the voter fetches from the leader."""
    addresses: tuple[str, ...]
    """IP addresses that its host name resolved to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateStatus:
    """The certificate that a controller presents at one endpoint."""

    id: NodeId
    """Node id."""
    endpoint: str
    """HOST:PORT that was probed."""
    expires_at_ms: Millis
    """When it expires."""
    fault: CertificateFault | None
    """Why the monitor does not accept it: expired, not-yet-valid, wrong-host, untrusted; null if it does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrationWithoutVoter:
    """A registered controller that is not a committed voter."""

    id: NodeId
    """Node id."""
    endpoints: tuple[str, ...]
    """LISTENER://HOST:PORT of each listener in the registration."""
    offset: Offset
    """Offset of the registration record."""
    observer: bool
    """Whether the leader lists it as an observer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaStatus:
    """One row of `kafka-metadata-quorum describe --replication`, with liveness and lag as time."""

    node_id: NodeId
    """Node id."""
    directory_id: DirectoryId | None
    """Directory id as Kafka prints it."""
    log_end_offset: Offset | None
    """The offset after the replica's last record, as the leader knows it."""
    log_end_epoch: Epoch | None
    """Leader epoch of the first poll that showed this log end offset."""
    lag: int | None
    """Records of the leader's log that the replica has not fetched."""
    last_fetch_timestamp_ms: Millis | None
    """When the replica last fetched, by the leader's clock."""
    last_caught_up_timestamp_ms: Millis | None
    """When the replica was last caught up, by the leader's clock."""
    status: ReplicaRole
    """Leader, Follower or Observer."""
    fetch_age_ms: Millis | None
    """Time from the replica's last fetch to the poll, by the leader's clock."""
    lag_time_ms: Millis | None
    """Time from when the replica was last caught up to the poll, by the leader's clock."""
    following: Following
    """Whether the replica fetches from the leader."""
    committed_voter: bool | None
    """Whether the committed voter set holds it; null where that set is unknown."""
    endpoint: str | None
    """HOST:PORT that the VotersRecord names for it."""


def votes(facts: Facts) -> tuple[int | None, int | None, int | None]:
    """Returns how many voters the quorum has, the votes needed, and how many voters fetch; None if unknown.

    The leader's latest set commits and elects. Without a current poll of a leader the committed set is counted.
    """
    quorum = facts.quorum
    fetching, present, poll = None, _present_poll(facts), fresh_poll(quorum)
    counted = present or (poll if quorum.committed is None else None)
    keys = {row.key for row in counted.voters} if counted else quorum.committed.keys if quorum.committed else set()
    if present is not None and present.leader is not None:
        fetching = sum(following(quorum, present, key).fetches for key in keys)
    return len(keys) or None, majority(len(keys)) if keys else None, fetching


def _present_poll(facts: Facts) -> Poll | None:
    """Returns the newest poll; None if it is too old, or if the quorum has lost its leader since."""
    return None if facts.leaderless else fresh_poll(facts.quorum)


def current_voters(poll: Poll | None) -> tuple[VoterEndpoints, ...]:
    """Returns the leader's voter set with the endpoints that DescribeQuorum names."""
    return tuple(_voter_endpoints(row.key, poll.nodes.get(row.key.id, ())) for row in poll.voters) if poll else ()


def committed_voters(committed: VoterSet | None) -> CommittedVoters | None:
    """Returns the newest committed VotersRecord."""
    if committed is None:
        return None
    voters = sorted(committed.voters, key=lambda voter: voter.key.id)
    listed = tuple(_voter_endpoints(voter.key, voter.endpoints) for voter in voters)
    return CommittedVoters(offset=committed.offset, voters=listed)


def pending_voters(quorum: Quorum) -> PendingVoters | None:
    """Returns how the leader's latest set differs from the committed one; None where one of them is unknown."""
    if quorum.committed is None or quorum.poll is None:
        return None
    latest, committed = {row.key for row in quorum.poll.voters}, quorum.committed.keys
    return PendingVoters(
        added=tuple(sorted(latest - committed)),
        removed=tuple(sorted(committed - latest)),
        moved=tuple(moving_voters(quorum.poll, quorum.committed)),
    )


def possible_voters(quorum: Quorum) -> tuple[ReplicaKey, ...]:
    """Returns the observers with a directory id whose node registered as a controller (KIP-853: CouldBeVoters).

    Not a directory that was lost: a leader lists it for five minutes beside the node's other one, which fetches.
    """
    poll = quorum.poll
    if poll is None:
        return ()
    voting = {row.key for row in poll.voters} | (quorum.committed.keys if quorum.committed else frozenset())
    found = []
    for row in poll.observers:
        if row.key.directory_id is None or row.key.id not in quorum.controllers or row.key in voting:
            continue
        others = (other.key for other in poll.rows_by_id[row.key.id] if other.key != row.key)
        fetches = following(quorum, poll, row.key).fetches
        if not fetches and any(following(quorum, poll, other).fetches for other in others):
            continue
        found.append(row.key)
    return tuple(found)


def registrations_without_voter(quorum: Quorum) -> tuple[RegistrationWithoutVoter, ...]:
    """Returns the registered controllers that are not in the committed voter set."""
    committed = quorum.committed
    if committed is None:
        return ()
    observers = {row.key.id for row in quorum.poll.observers} if quorum.poll else set()
    return tuple(
        RegistrationWithoutVoter(
            id=node,
            endpoints=_listeners(registration.endpoints),
            offset=registration.at.offset,
            observer=node in observers,
        )
        for node, registration in sorted(quorum.controllers.items())
        if node not in committed.ids
    )


def dialled_nodes(facts: Facts) -> tuple[NodeFacts, ...]:
    """Returns the facts of the voters whose endpoints are known: in a static quorum, those in its leader's list.

    None while the log may still have a VotersRecord.
    """
    return facts.nodes.voters if facts.quorum.committed is not None or facts.quorum.kraft_version == 0 else ()


def endpoint_status(voter: NodeFacts) -> VoterEndpointStatus:
    """Returns one voter's endpoint with its verdict."""
    return VoterEndpointStatus(
        id=voter.id,
        directory_id=voter.key.directory_id,
        recorded=None if voter.endpoint is None else str(voter.endpoint),
        registered=None if voter.registered is None else str(voter.registered),
        verdict=voter.endpoint_verdict,
        probe_result=probe_outcome(voter),
        faults=voter.faults,
        following=voter.followed,
        addresses=voter.probe.addresses if voter.probe else (),
    )


def certificates(quorum: Quorum) -> tuple[CertificateStatus, ...]:
    """Returns the certificate that each probed endpoint presented."""
    return tuple(
        CertificateStatus(id=probe.node, endpoint=str(probe.endpoint), expires_at_ms=expires_at_ms, fault=found.fault)
        for _, probe in sorted(quorum.probes.items(), key=lambda each: (each[1].node, each[0]))
        if (found := probe.certificate) is not None and (expires_at_ms := found.expires_at_ms) is not None
    )


def max_follower_lag(facts: Facts) -> tuple[int | None, Millis | None]:
    """Returns the lag of the voter with the shortest log, in records and in time by the leader's clock.

    Counted as MetadataQuorumCommand counts it. None without a leader or a current poll.
    """
    poll = _present_poll(facts)
    leader = None if poll is None else next((row for row in poll.voters if row.key.id == poll.leader_id), None)
    if poll is None or leader is None or leader.log_end_offset is None:
        return None, None
    # The log end offset of a voter that has not fetched from a new leader is -1 there, and is counted as -1.
    last = min(poll.voters, key=lambda row: -1 if row.log_end_offset is None else row.log_end_offset)
    lag = leader.log_end_offset - (-1 if last.log_end_offset is None else last.log_end_offset)
    return lag, lag_ms(poll, last)


def replicas(facts: Facts) -> tuple[ReplicaStatus, ...]:
    """Returns every replica in the order of `describe --replication`: leader, other voters, observers."""
    quorum = facts.quorum
    poll = quorum.poll
    if poll is None:
        return ()
    leaders = [row for row in poll.voters if row.key.id == poll.leader_id]
    followers = [row for row in poll.voters if row.key.id != poll.leader_id]
    by_role = {ReplicaRole.LEADER: leaders, ReplicaRole.FOLLOWER: followers, ReplicaRole.OBSERVER: poll.observers}
    endpoints = {voter.key: str(voter.endpoint) for voter in dialled_nodes(facts) if voter.endpoint is not None}
    return tuple(
        _replica(quorum, poll, row, role, endpoints.get(row.key)) for role, rows in by_role.items() for row in rows
    )


def _replica(quorum: Quorum, poll: Poll, row: Replica, role: ReplicaRole, endpoint: str | None) -> ReplicaStatus:
    return ReplicaStatus(
        node_id=row.key.id,
        directory_id=row.key.directory_id,
        log_end_offset=row.log_end_offset,
        log_end_epoch=quorum.histories[row.key].last_leader_epoch if row.key in quorum.histories else None,
        lag=records_behind(poll, row),
        last_fetch_timestamp_ms=row.last_fetch_ms,
        last_caught_up_timestamp_ms=row.last_caught_up_ms,
        status=role,
        fetch_age_ms=fetch_age_ms(poll, row),
        lag_time_ms=lag_ms(poll, row),
        following=following(quorum, poll, row.key),
        committed_voter=None if quorum.committed is None else row.key in quorum.committed.keys,
        endpoint=endpoint,
    )


def _voter_endpoints(key: ReplicaKey, endpoints: Iterable[Endpoint]) -> VoterEndpoints:
    return VoterEndpoints(id=key.id, directory_id=key.directory_id, endpoints=_listeners(endpoints))


def _listeners(endpoints: Iterable[Endpoint]) -> tuple[str, ...]:
    """As Kafka writes them (RaftVoterEndpoint): LISTENER://HOST:PORT, an IPv6 address in brackets."""
    return tuple(f"{endpoint.listener}://{endpoint}" for endpoint in endpoints)
