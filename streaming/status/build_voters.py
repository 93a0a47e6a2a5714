"""The voters, observers, endpoints and votes of a `ClusterStatus`."""

from collections.abc import Iterable

from rules.analysis.electability import (
    forecast_election,
    restarted_voters,
    without_refusing_voters,
    without_unverified_voters,
)
from rules.analysis.endpoint_status import (
    EndpointStatus,
    endpoint_statuses,
    last_known_endpoint_statuses,
    probe_outcome,
    with_dialled_voters,
)
from rules.analysis.freshness import fresh_poll
from rules.analysis.leadership import leaderless
from rules.analysis.voter_status import moving_voters
from rules.model.following import fetch_age_ms, following, lag_ms, records_behind
from rules.model.identifiers import Endpoint, Millis, ReplicaKey
from rules.model.membership import Voter, VoterSet, majority
from rules.model.quorum import Quorum
from rules.model.replica import Poll, Replica
from streaming.replay.copied import copied
from streaming.status import status_parts as parts
from streaming.status.cluster_status import ClusterState

ENDPOINT_RULE = "stale-voter-endpoint"
"""The rule whose thresholds (`fetch_age`, `poll_age`, `probe_age`) decide who fetches and what is too old."""


def votes(state: ClusterState) -> tuple[int | None, int | None, int | None]:
    """Returns how many voters the committed set has, the votes needed, and how many voters fetch; None if unknown.

    Where the log holds no voter set, the leader's counts.
    """
    quorum = state.quorum
    poll = fresh_poll(quorum)
    keys = quorum.committed.keys if quorum.committed else {row.key for row in poll.voters} if poll else frozenset()
    fetching = None
    if (present := _present_poll(state)) is not None and present.leader is not None:
        fetching = sum(following(quorum, present, key).fetches for key in keys)
    return len(keys) or None, majority(len(keys)) if keys else None, fetching


def _present_poll(state: ClusterState) -> Poll | None:
    """Returns the newest poll; None if it is too old, or if the quorum has lost its leader since."""
    return None if leaderless(state.quorum) else fresh_poll(state.quorum)


def current_voters(poll: Poll | None) -> tuple[parts.VoterEndpoints, ...]:
    """Returns the leader's voter set with the endpoints that DescribeQuorum names."""
    return tuple(_voter_endpoints(row.key, poll.nodes.get(row.key.id, ())) for row in poll.voters) if poll else ()


def committed_voters(quorum: Quorum) -> parts.CommittedVoters | None:
    """Returns the newest committed VotersRecord."""
    committed = quorum.committed
    if committed is None:
        return None
    return parts.CommittedVoters(offset=committed.offset, voters=recorded_voters(committed))


def recorded_voters(recorded: VoterSet) -> tuple[parts.VoterEndpoints, ...]:
    """Returns the voters of a VotersRecord, by node id."""
    voters = sorted(recorded.voters, key=lambda voter: voter.key.id)
    return tuple(_voter_endpoints(voter.key, voter.endpoints) for voter in voters)


def pending_voters(quorum: Quorum) -> parts.PendingVoters | None:
    """Returns how the leader's latest set differs from the committed one; None where one of them is unknown."""
    if quorum.committed is None or quorum.poll is None:
        return None
    latest, committed = {row.key for row in quorum.poll.voters}, quorum.committed.keys
    return parts.PendingVoters(
        added=tuple(sorted(latest - committed)),
        removed=tuple(sorted(committed - latest)),
        moved=tuple(moving_voters(quorum.poll, quorum.committed)),
    )


def possible_voters(state: ClusterState) -> tuple[parts.PossibleVoter, ...]:
    """Returns the observers with a directory id whose node registered as a controller (KIP-853: CouldBeVoters).

    Not a directory that was lost: a leader lists it for five minutes beside the node's other one, which fetches.
    """
    quorum, poll = state.quorum, state.quorum.poll
    if poll is None:
        return ()
    voting = {row.key for row in poll.voters} | (quorum.committed.keys if quorum.committed else frozenset())
    found = []
    for row in poll.observers:
        if row.key.directory_id is None or row.key.id not in quorum.controllers or row.key in voting:
            continue
        live = following(quorum, poll, row.key)
        others = (other.key for other in poll.rows_by_id[row.key.id] if other.key != row.key)
        if not live.fetches and any(following(quorum, poll, other).fetches for other in others):
            continue
        found.append(
            parts.PossibleVoter(
                id=row.key.id, directory_id=row.key.directory_id, following=live, lag_time_ms=lag_ms(poll, row)
            )
        )
    return tuple(found)


def registrations_without_voter(quorum: Quorum) -> tuple[parts.RegistrationWithoutVoter, ...]:
    """Returns the registered controllers that are not in the committed voter set."""
    committed = quorum.committed
    if committed is None:
        return ()
    observers = {row.key.id for row in quorum.poll.observers} if quorum.poll else set()
    return tuple(
        parts.RegistrationWithoutVoter(
            id=node,
            endpoints=_listeners(registration.endpoints),
            offset=registration.at.offset,
            observer=node in observers,
        )
        for node, registration in sorted(quorum.controllers.items())
        if node not in committed.ids
    )


def analysed_endpoints(state: ClusterState) -> tuple[EndpointStatus, ...]:
    """Returns the analysis of the endpoint that each voter is dialled at."""
    quorum = _dialled(state.quorum)
    poll = fresh_poll(quorum)
    if poll is None:
        return last_known_endpoint_statuses(quorum)
    return endpoint_statuses(quorum, poll)


def endpoint_status(endpoint: EndpointStatus) -> parts.VoterEndpointStatus:
    """Returns one voter's endpoint with its verdict."""
    return parts.VoterEndpointStatus(
        id=endpoint.voter.key.id,
        directory_id=endpoint.voter.key.directory_id,
        recorded=None if endpoint.endpoint is None else str(endpoint.endpoint),
        registered=None if endpoint.registered is None else str(endpoint.registered),
        verdict=endpoint.verdict,
        probe_result=probe_outcome(endpoint),
        faults=endpoint.faults,
        following=endpoint.following,
        addresses=tuple(endpoint.probe.addresses) if endpoint.probe else (),
    )


def certificates(quorum: Quorum) -> tuple[parts.CertificateStatus, ...]:
    """Returns the certificate that each probed endpoint presented."""
    return tuple(
        copied(parts.CertificateStatus, probe.certificate, id=probe.node, endpoint=str(probe.endpoint))
        for _, probe in sorted(quorum.probes.items(), key=lambda each: (each[1].node, each[0]))
        if probe.certificate is not None and probe.certificate.expires_at_ms is not None
    )


def electable(quorum: Quorum, endpoints: tuple[EndpointStatus, ...]) -> bool | None:
    """Returns whether a leader could be elected if all controllers restarted now; without a leader, by those that run.

    Without a leader nothing shows that a voter whose endpoint refuses connections lives: it counts as down.
    None if it depends on certificates that only the monitor may not accept, or on voters that only it may not reach.
    """
    voters = restarted_voters(_dialled(quorum), endpoints)
    if leaderless(quorum) is not None:
        voters = without_refusing_voters(voters, endpoints)
    could = forecast_election(voters).electable
    doubtful = (one.voter.key.id for one in endpoints if one.unverified or one.unanswered)
    return could if forecast_election(without_unverified_voters(voters, doubtful)).electable == could else None


def max_follower_lag(state: ClusterState) -> tuple[int | None, Millis | None]:
    """Returns the lag of the voter with the shortest log, in records and in time by the leader's clock.

    Counted as MetadataQuorumCommand counts it. None without a leader or a current poll.
    """
    poll = _present_poll(state)
    leader = None if poll is None else next((row for row in poll.voters if row.key.id == poll.leader_id), None)
    if poll is None or leader is None or leader.log_end_offset is None:
        return None, None
    # The log end offset of a voter that has not fetched from a new leader is -1 there, and is counted as -1.
    last = min(poll.voters, key=lambda row: -1 if row.log_end_offset is None else row.log_end_offset)
    lag = leader.log_end_offset - (-1 if last.log_end_offset is None else last.log_end_offset)
    return lag, lag_ms(poll, last)


def broker_counts(quorum: Quorum) -> parts.BrokerCounts | None:
    """Returns registered and fenced brokers; None while nothing of the log was read."""
    if quorum.last_offset is None:
        return None
    fenced = sorted(broker.id for broker in quorum.brokers.values() if broker.fenced)
    return parts.BrokerCounts(registered=len(quorum.brokers), fenced=tuple(fenced))


def replicas(state: ClusterState) -> tuple[parts.ReplicaStatus, ...]:
    """Returns every replica in the order of `describe --replication`: leader, other voters, observers."""
    poll = state.quorum.poll
    if poll is None:
        return ()
    leaders = [row for row in poll.voters if row.key.id == poll.leader_id]
    followers = [row for row in poll.voters if row.key.id != poll.leader_id]
    role = parts.ReplicaRole
    dialled = _dialled(state.quorum)
    roles = ((leaders, role.LEADER), (followers, role.FOLLOWER), (poll.observers, role.OBSERVER))
    return tuple(_replica(state, poll, row, one, dialled.voter(row.key.id)) for rows, one in roles for row in rows)


def _replica(
    state: ClusterState, poll: Poll, row: Replica, role: parts.ReplicaRole, voter: Voter | None
) -> parts.ReplicaStatus:
    quorum = state.quorum
    return parts.ReplicaStatus(
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
        endpoint=str(voter.endpoints[0]) if voter and voter.key == row.key and voter.endpoints else None,
    )


def _dialled(quorum: Quorum) -> Quorum:
    """Returns the quorum, if it is static with the endpoints that its leader has configured."""
    # Not while the log may still have a VotersRecord.
    dialled = with_dialled_voters(quorum) if quorum.kraft_version == 0 else None
    return dialled or quorum


def _voter_endpoints(key: ReplicaKey, endpoints: Iterable[Endpoint]) -> parts.VoterEndpoints:
    return parts.VoterEndpoints(id=key.id, directory_id=key.directory_id, endpoints=_listeners(endpoints))


def _listeners(endpoints: Iterable[Endpoint]) -> tuple[str, ...]:
    """As Kafka writes them (RaftVoterEndpoint): LISTENER://HOST:PORT, an IPv6 address in brackets."""
    return tuple(f"{one.listener}://{one}" for one in endpoints)
