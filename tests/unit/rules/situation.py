"""A healthy quorum, and functions that add a fault: each takes a Quorum and returns one with the fault.

Three controllers (or n), of which the highest id leads; two brokers; host names `cN.test`; vantage inside.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from rules.evaluate import BLIND, evaluate, thresholds_for
from rules.finding import Evaluation, Finding
from rules.model.history import (
    ControllerStart,
    DoubleRegistration,
    Election,
    Interruption,
    KRaftUpgrade,
    NodeKind,
    OfflineDirectory,
    OfflinePartitions,
    OpenTransaction,
    Reassignment,
    Recovery,
    TopicPartition,
    UncleanElections,
    Unregistration,
    VoterChange,
    ZkMigration,
    ZkMigrationState,
)
from rules.model.identifiers import DirectoryId, Endpoint, Epoch, Millis, NodeId, Offset, ReplicaKey, TopicId
from rules.model.membership import (
    BrokerRegistration,
    ControllerRegistration,
    FeatureRange,
    RecordPosition,
    Voter,
    VoterRemoval,
    VoterSet,
)
from rules.model.monitoring import (
    Access,
    Answer,
    CertificateFault,
    Connection,
    ContractViolation,
    DamagedBatch,
    FailedObservation,
    Invariant,
    InvariantViolation,
    LeaderLog,
    LeaderView,
    ObservationSource,
    Probe,
    Reason,
    Resolution,
    ServerCertificate,
    Snapshot,
    UnknownRecordType,
)
from rules.model.quorum import LagSample, LogRegression, Outage, Poll, Quorum, Replica, ReplicaHistory

NOW = Millis(1_790_000_000_000)
LOG_END = Offset(10_000)
EPOCH = Epoch(7)
SERVED_AT = Offset(9_500)
"""The high watermark when a damaged batch was served."""
TOPIC = TopicId("dG9waWMtb3JkZXJzAAAAAA")
DAY_MS = 86_400_000


RegistrationT = TypeVar("RegistrationT", ControllerRegistration, BrokerRegistration)
ValueT = TypeVar("ValueT")


def present(value: ValueT | None) -> ValueT:
    """Returns what is not None in the situation of a test."""
    assert value is not None
    return value


def key(node: int, directory: str | None = None) -> ReplicaKey:
    """Returns the key of replica N with a directory id of 22 characters."""
    return ReplicaKey(id=NodeId(node), directory_id=DirectoryId((directory or f"dirOf{node}").ljust(22, "A")))


def endpoint(node: int, host: str | None = None, port: int = 9093) -> Endpoint:
    return Endpoint(listener="CONTROLLER", host=host or f"c{node}.test", port=port)


def healthy(voters: int = 3) -> Quorum:
    """Returns a quorum about which no rule has a finding."""
    ids = range(1, voters + 1)
    rows = tuple(row(key(node)) for node in ids)
    return Quorum(
        cluster="prod",
        cluster_id="Zm9yLXRlc3RzLW9ubHkhIQ",
        now_ms=NOW,
        kraft_version=1,
        metadata_version=27,
        features={"metadata.version": 27, "group.version": 1},
        committed=VoterSet(
            voters=tuple(Voter(key=key(node), endpoints=(endpoint(node),)) for node in ids),
            offset=Offset(40),
            leader_epoch=Epoch(2),
            timestamp_ms=Millis(NOW - 86_400_000),
        ),
        leader_id=NodeId(voters),
        leader_epoch=EPOCH,
        high_watermark=LOG_END,
        high_watermark_since_ms=Millis(NOW - 200),
        last_offset=Offset(LOG_END - 1),
        newest_timestamp_ms=Millis(NOW - 300),
        silent_ms=0,
        log_fetched_at_ms=Millis(NOW - 100),
        poll=Poll(
            observed_at_ms=Millis(NOW - 200),
            leader_id=NodeId(voters),
            leader_epoch=EPOCH,
            high_watermark=LOG_END,
            voters=rows,
            observers=(row(key(101)), row(key(102))),
            nodes={NodeId(node): (endpoint(node),) for node in ids},
        ),
        histories={key(node): history(key(node)) for node in ids},
        controllers={NodeId(node): registration(node) for node in ids},
        brokers={NodeId(node): broker(node) for node in (101, 102)},
        probes=dict(_probe(node) for node in ids),
        leader_views={str(endpoint(node)): view(node, leader=voters) for node in ids},
        addresses={f"c{node}.test": (f"10.0.0.{node}",) for node in ids},
        bootstrap=tuple(str(endpoint(node)) for node in ids),
    )


def row(replica: ReplicaKey, *, lag_ms: int = 0, fetched_ago_ms: int | None = 0, end: int | None = LOG_END) -> Replica:
    """Returns a row of DescribeQuorum; the leader's clock is at NOW."""
    return Replica(
        key=replica,
        log_end_offset=None if end is None else Offset(end),
        last_fetch_ms=None if fetched_ago_ms is None else Millis(NOW - fetched_ago_ms),
        last_caught_up_ms=None if fetched_ago_ms is None else Millis(NOW - max(lag_ms, fetched_ago_ms)),
    )


def history(
    replica: ReplicaKey,
    *,
    lags: Iterable[int] = (0,) * 30,
    end: int = LOG_END,
    epoch: int = EPOCH,
    silent: bool = False,
) -> ReplicaHistory:
    """Returns one sample per second, the newest now; each lag in milliseconds, and as many records."""
    newest_first = enumerate(reversed(tuple(lags)))
    samples = [
        LagSample(
            observed_at_ms=Millis(NOW - 200 - 1_000 * age),
            lag=lag,
            lag_ms=Millis(lag),
            fetch_age_ms=Millis(lag if silent else 300),
        )
        for age, lag in newest_first
    ]
    return ReplicaHistory(
        key=replica,
        first_seen_at_ms=Millis(NOW - 3_600_000),
        last_seen_at_ms=Millis(NOW - 200),
        last_log_end_offset=Offset(end),
        last_leader_epoch=Epoch(epoch),
        samples=tuple(reversed(samples)),
    )


def position(offset: int, ago_ms: int) -> RecordPosition:
    return RecordPosition(offset=Offset(offset), leader_epoch=EPOCH, timestamp_ms=Millis(NOW - ago_ms))


def registration(node: int, at: Endpoint | None = None) -> ControllerRegistration:
    return ControllerRegistration(
        at=position(50 + node, 80_000_000),
        id=NodeId(node),
        incarnation_id=f"incarnation-{node}",
        endpoints=(at or endpoint(node),),
        features=supporting(27),
        features_since_timestamp_ms=Millis(NOW - 6 * DAY_MS),
    )


def supporting(metadata_version: int) -> tuple[FeatureRange, ...]:
    """Returns what a node registers that supports metadata.version up to this level."""
    return (
        FeatureRange(name="group.version", lowest=0, highest=1),
        FeatureRange(name="kraft.version", lowest=0, highest=1),
        FeatureRange(name="metadata.version", lowest=7, highest=metadata_version),
    )


def view(
    node: int, *, leader: int | None = 3, epoch: int = EPOCH, ago_ms: int = 4_000, since_ms: int = 3_600_000
) -> LeaderView:
    """Returns which leader a controller reports; the leader's newest snapshot ends half an hour ago."""
    return LeaderView(
        observed_at_ms=Millis(NOW - ago_ms),
        since_ms=Millis(NOW - since_ms),
        endpoint=str(endpoint(node)),
        node=NodeId(node),
        this_cluster=True,
        leader_id=None if leader is None else NodeId(leader),
        leader_epoch=Epoch(epoch),
        log=leader_log(1_800_000) if leader == node else None,
    )


def leader_log(
    reaches_back_ms: int | None, *, end: int = 6_400, tells_absence: bool = True, begins_ago_ms: int | None = None
) -> LeaderLog:
    """Returns a log whose newest snapshot contains records up to this long ago; None: there is no snapshot."""
    at = None if reaches_back_ms is None else Millis(NOW - 300 - reaches_back_ms)
    snapshot = Snapshot(end_offset=Offset(end), epoch=Epoch(6), last_contained_timestamp_ms=at)
    return LeaderLog(
        start_offset=Offset(0),
        snapshot=None if reaches_back_ms is None else snapshot,
        tells_absence=tells_absence,
        begins_timestamp_ms=None if begins_ago_ms is None else Millis(NOW - 300 - begins_ago_ms),
    )


def broker(node: int, *, fenced: bool = False, alive_for_ms: int | None = 3_600_000) -> BrokerRegistration:
    return BrokerRegistration(
        at=position(60, 80_000_000),
        id=NodeId(node),
        incarnation_id=f"incarnation-{node}",
        endpoints=(Endpoint(listener="PLAINTEXT", host=f"b{node}.test", port=9092),),
        fenced=fenced,
        in_controlled_shutdown=False,
        alive_since_timestamp_ms=None if alive_for_ms is None or fenced else Millis(NOW - 300 - alive_for_ms),
        features=supporting(27),
        features_since_timestamp_ms=Millis(NOW - 6 * DAY_MS),
    )


def _probe(node: int, at: Endpoint | None = None) -> tuple[str, Probe]:
    where = at or endpoint(node)
    return f"{node}@{where}", Probe(
        observed_at_ms=Millis(NOW - 2_000),
        node=NodeId(node),
        endpoint=where,
        resolution=Resolution.RESOLVED,
        addresses=(f"10.0.0.{node}",),
        connection=Connection.ACCEPTED,
        answer=Answer.THIS_CLUSTER,
        answered_by=NodeId(node),
    )


def with_poll(quorum: Quorum, **changes: Any) -> Quorum:
    """The newest poll has these values."""
    return replace(quorum, poll=replace(present(quorum.poll), **changes))


def with_past(quorum: Quorum, **changes: Any) -> Quorum:
    """The recent history in the log has these values."""
    return replace(quorum, history=replace(quorum.history, **changes))


def with_committed(quorum: Quorum, **changes: Any) -> Quorum:
    """The committed voter set has these values."""
    return replace(quorum, committed=replace(present(quorum.committed), **changes))


def with_rows(quorum: Quorum, *nodes: int, **changes: Any) -> Quorum:
    """The rows of these nodes in the newest poll, of voters and observers, have these values."""
    poll = present(quorum.poll)
    voters, observers = (
        tuple(replace(each, **changes) if each.key.id in nodes else each for each in rows)
        for rows in (poll.voters, poll.observers)
    )
    return with_poll(quorum, voters=voters, observers=observers)


def with_row(quorum: Quorum, row: Replica) -> Quorum:
    """The newest poll has this row of a voter."""
    return with_poll(quorum, voters=tuple(row if each.key == row.key else each for each in present(quorum.poll).voters))


def with_history(quorum: Quorum, *histories: ReplicaHistory) -> Quorum:
    """These replicas progressed in this way."""
    return replace(quorum, histories={**quorum.histories, **{one.key: one for one in histories}})


def with_controller(quorum: Quorum, *registrations: ControllerRegistration) -> Quorum:
    """These controllers are registered in this way."""
    return replace(quorum, controllers={**quorum.controllers, **{one.id: one for one in registrations}})


# What can go wrong with an endpoint.


def probed(
    quorum: Quorum,
    node: int,
    *,
    resolution: Resolution = Resolution.RESOLVED,
    connection: Connection = Connection.ACCEPTED,
    answer: Answer = Answer.THIS_CLUSTER,
    answered_by: int | None = None,
    ago_ms: int = 2_000,
) -> Quorum:
    """The newest probe of a voter's recorded endpoint has this result."""
    name, probe = _probe(node)
    seen = replace(
        probe,
        resolution=resolution,
        addresses=("10.0.0.9",) if resolution is Resolution.RESOLVED else (),
        connection=connection,
        answer=answer,
        answered_by=None if answered_by is None else NodeId(answered_by),
        observed_at_ms=Millis(NOW - ago_ms),
    )
    return replace(quorum, probes={**quorum.probes, name: seen})


def with_certificates(
    quorum: Quorum,
    faults: Mapping[int, CertificateFault] | None = None,
    *,
    days: Mapping[int, float] | None = None,
) -> Quorum:
    """Every recorded endpoint presents a certificate; some are not accepted, or expire in this many days."""
    faults, days = faults or {}, days or {}

    def certificate(node: int) -> ServerCertificate:
        fault = faults.get(node)
        left = days.get(node, -1 if fault is CertificateFault.EXPIRED else 300)
        begins = 2 if fault is CertificateFault.NOT_YET_VALID else -60
        return ServerCertificate(
            valid_from_ms=Millis(NOW + begins * DAY_MS),
            expires_at_ms=Millis(NOW + round(left * DAY_MS)),
            fault=fault,
            verified=fault is None,
        )

    def probe(found: Probe) -> Probe:
        if found.connection is not Connection.ACCEPTED:
            return found
        answer = Answer.NOT_ALLOWED if found.node in faults else found.answer
        return replace(found, certificate=certificate(found.node), answer=answer)

    return replace(
        quorum,
        access=Access(protocol="SASL_SSL"),
        probes={name: probe(found) for name, found in quorum.probes.items()},
    )


def leaders_clock(quorum: Quorum, *, ahead_ms: int) -> Quorum:
    """The leader's clock is ahead of the monitor's."""
    rows = present(quorum.poll).voters
    moved = (replace(each, last_fetch_ms=Millis((each.last_fetch_ms or 0) + ahead_ms)) for each in rows)
    return with_poll(quorum, voters=tuple(moved))


def _unresolved(quorum: Quorum, nodes: Iterable[int], resolution: Resolution) -> Quorum:
    for node in nodes:
        quorum = probed(quorum, node, resolution=resolution, connection=Connection.NOT_TRIED, answer=Answer.NOT_ASKED)
    return quorum


def name_not_found(quorum: Quorum, *nodes: int) -> Quorum:
    return _unresolved(quorum, nodes, Resolution.NAME_NOT_FOUND)


def resolver_fails(quorum: Quorum, *nodes: int) -> Quorum:
    return _unresolved(quorum, nodes, Resolution.RESOLVER_FAILED)


def refuses(quorum: Quorum, *nodes: int, ago_ms: int = 2_000) -> Quorum:
    for node in nodes:
        quorum = probed(quorum, node, connection=Connection.REFUSED, answer=Answer.NOT_ASKED, ago_ms=ago_ms)
    return quorum


def came_back(quorum: Quorum, node: int, *ago_ms: int) -> Quorum:
    """The controller's endpoint accepted connections again so long ago, after it had refused them."""
    name = next(name for name, one in quorum.probes.items() if one.node == node)
    times = tuple(Millis(NOW - each) for each in ago_ms)
    return replace(quorum, probes={**quorum.probes, name: replace(quorum.probes[name], returned_at_ms=times)})


def registered_elsewhere(quorum: Quorum, *nodes: int, port: int = 19093) -> Quorum:
    """The controllers started with a new endpoint that is not in the voter set."""
    return with_controller(quorum, *(registration(node, endpoint(node, port=port)) for node in nodes))


def with_protocols(quorum: Quorum, *protocols: str) -> Quorum:
    """The controllers 1, 2, … registered their listener with these security protocols."""
    known = (quorum.controllers[NodeId(node)] for node in range(1, len(protocols) + 1))
    changed = (
        replace(one, endpoints=tuple(replace(each, protocol=protocol) for each in one.endpoints))
        for one, protocol in zip(known, protocols, strict=True)
    )
    return with_controller(quorum, *changed)


# Faults of a replica.


def voter_not_fetching(
    quorum: Quorum, node: int, *, for_ms: int = 120_000, end: int = 9_000, epoch: int = EPOCH
) -> Quorum:
    """A voter stopped fetching this long ago; its log ends at `end`."""
    quorum = with_row(quorum, row(key(node), fetched_ago_ms=for_ms, end=end))
    return with_history(quorum, history(key(node), lags=(for_ms,) * 5, end=end, epoch=epoch, silent=True))


def voters_lagging(quorum: Quorum, *nodes: int, for_ms: int = 120_000, lags: Iterable[int] | None = None) -> Quorum:
    """Voters fetch and have not caught up for this long; their lag stays the same, or developed as in `lags`."""
    for node in nodes:
        quorum = with_row(quorum, row(key(node), lag_ms=for_ms, end=9_000))
        quorum = with_history(quorum, history(key(node), lags=lags or (for_ms,) * 12, end=9_000))
    return quorum


def log_regressed(quorum: Quorum, node: int, *, end: int | None = 40, ago_ms: int = 5_000) -> Quorum:
    """A voter's log ended at offset 3 this long ago, after it had all records below 9,990; it ends at `end` now."""
    (replica,) = (each.key for each in present(quorum.poll).voters if each.key.id == node)
    regression = LogRegression(
        acknowledged_offset=Offset(9_990),
        log_end_offset=Offset(3),
        leader_epoch=EPOCH,
        observed_at_ms=Millis(NOW - ago_ms),
    )
    known = history(replica, end=end or 0)
    changed = replace(known, last_log_end_offset=None if end is None else Offset(end), log_regression=regression)
    behind = row(replica, lag_ms=0 if end is None or end >= 9_990 else 4_000, end=end)
    return with_history(with_row(quorum, behind), changed)


def stalled(quorum: Quorum, *, for_ms: int = 31_000, waiting: int = 60) -> Quorum:
    """The leader's log grows, and the high watermark has not moved for this long."""
    quorum = with_rows(quorum, present(quorum.poll).leader_id, log_end_offset=Offset(LOG_END + waiting))
    return replace(quorum, high_watermark_since_ms=Millis(NOW - for_ms))


def silent(quorum: Quorum, *, for_ms: int = 31_000) -> Quorum:
    """The leader answers, and has appended nothing for this long."""
    return replace(quorum, silent_ms=for_ms)


def observer(
    quorum: Quorum,
    node: int,
    *,
    directory: str | None = None,
    registered: bool = True,
    lags: Iterable[int] = (0,) * 30,
    fetched_ago_ms: int = 0,
) -> Quorum:
    """A replica without a vote fetches the log."""
    replica, lags = key(node, directory), tuple(lags)
    rows = (*present(quorum.poll).observers, row(replica, lag_ms=lags[-1], fetched_ago_ms=fetched_ago_ms))
    quorum = with_history(with_poll(quorum, observers=rows), history(replica, lags=lags))
    return with_controller(quorum, registration(node)) if registered else quorum


def unregistered(quorum: Quorum, node: int) -> Quorum:
    """The registration of this broker was deleted a minute ago."""
    one = Unregistration(
        kind=NodeKind.BROKER, id=NodeId(node), offset=Offset(9_000), timestamp_ms=Millis(NOW - 300 - 60_000)
    )
    return replace(quorum, history=replace(quorum.history, unregistrations=(one,)))


def without_brokers(quorum: Quorum) -> Quorum:
    """No broker is registered, and none fetches."""
    return with_poll(replace(quorum, brokers={}), observers=())


def begun(quorum: Quorum, *, ago_ms: int) -> Quorum:
    """The quorum was created so long ago."""
    since = Millis(NOW - 300 - ago_ms)
    controllers = {node: replace(one, features_since_timestamp_ms=since) for node, one in quorum.controllers.items()}
    return replace(quorum, committed=replace(present(quorum.committed), timestamp_ms=since), controllers=controllers)


def reassigned(quorum: Quorum, *, adding: tuple[int, ...] = (), ago_ms: int, partition: int = 0) -> Quorum:
    """A partition of orders is moved to these replicas, away from broker 102."""
    one = Reassignment(
        topic_id=TOPIC,
        topic="orders",
        partition=partition,
        adding=tuple(map(NodeId, adding)),
        removing=(NodeId(102),),
        since_timestamp_ms=Millis(NOW - 300 - ago_ms),
        at_least=False,
    )
    return replace(quorum, reassignments=(*quorum.reassignments, one))


def shutting_down(quorum: Quorum, node: int, *, ago_ms: int) -> Quorum:
    """The broker began a controlled shutdown so long ago, and its process has not stopped."""
    since = Millis(NOW - 300 - ago_ms)
    one = replace(quorum.brokers[NodeId(node)], in_controlled_shutdown=True, leaving_since_timestamp_ms=since)
    return replace(quorum, brokers={**quorum.brokers, one.id: one})


def migrating(quorum: Quorum, state: ZkMigrationState, *, ago_ms: int) -> Quorum:
    """The migration from ZooKeeper has been in this state for so long."""
    since = Millis(NOW - 300 - ago_ms)
    return replace(quorum, zk_migration=ZkMigration(state=state, since_timestamp_ms=since, at_least=False))


def adding(quorum: Quorum, node: int) -> Quorum:
    """add-controller was accepted and is not committed: the leader's set has one voter more than the log."""
    return registered(with_poll(quorum, voters=(*present(quorum.poll).voters, row(key(node)))), node)


def registered(quorum: Quorum, node: int) -> Quorum:
    """A RegisterControllerRecord of this controller is in the log."""
    return with_controller(quorum, registration(node))


def forced_change(quorum: Quorum, *, before: Iterable[int], after: Iterable[int], ago_ms: int = 60_000) -> Quorum:
    """A VotersRecord replaced one set with the other."""
    one = VoterChange(
        before=tuple(key(node) for node in before),
        after=tuple(key(node) for node in after),
        offset=Offset(9_000),
        leader_epoch=EPOCH,
        timestamp_ms=Millis(NOW - 300 - ago_ms),
    )
    return with_past(quorum, voter_changes=(*quorum.history.voter_changes, one))


def removed_repeatedly(quorum: Quorum, node: int, *, ago_s: tuple[int, ...]) -> Quorum:
    """A voter was removed at these times, oldest first, and was added again each time."""
    changes = [
        VoterChange(
            before=(key(node),),
            after=(),
            offset=Offset(9_000 - 10 * ago),
            leader_epoch=EPOCH,
            timestamp_ms=Millis(NOW - 300 - 1_000 * ago),
        )
        for ago in ago_s
    ]
    with_additions = [each for one in changes for each in (one, replace(one, before=(), after=one.before))]
    return with_past(quorum, voter_changes=tuple(with_additions))


def removed(quorum: Quorum, node: int, *, ago_ms: int, directory: str | None = None) -> Quorum:
    """A voter was removed from the committed set."""
    left = tuple(voter for voter in quorum.voters if voter.key.id != node)
    rows = tuple(each for each in present(quorum.poll).voters if each.key.id != node)
    removal = VoterRemoval(key=key(node, directory), removed_at_ms=Millis(NOW - ago_ms))
    quorum = with_committed(with_poll(quorum, voters=rows), voters=left)
    return replace(quorum, removals=(*quorum.removals, removal))


def configured_voters(quorum: Quorum, *lists: str | None, ago_ms: int = 2_000) -> Quorum:
    """Controllers 1, 2, … of a static quorum have these lists of voters; None: the monitor may not read it."""
    for node, text in enumerate(lists, 1):
        name, _ = _probe(node)
        probe = replace(quorum.probes[name], quorum_voters=text, observed_at_ms=Millis(NOW - ago_ms))
        quorum = replace(quorum, probes={**quorum.probes, name: probe})
    return static(quorum)


# Faults of the quorum, and of its observation.


def failing(
    quorum: Quorum,
    reason: Reason,
    *endpoints: str,
    source: ObservationSource = ObservationSource.LOG,
    detail: str = "",
    ago_ms: int = 0,
) -> Quorum:
    """Attempts at these endpoints have been failing for 20 s."""
    failures = [
        FailedObservation(
            source=source,
            endpoint=each,
            reason=reason,
            detail=detail,
            first_at_ms=Millis(NOW - 20_000),
            last_at_ms=Millis(NOW - ago_ms),
        )
        for each in endpoints
    ]
    return replace(quorum, failures=(*quorum.failures, *failures))


def without_metadata_version(quorum: Quorum) -> Quorum:
    """The whole log was read, and no record of it sets metadata.version."""
    features = {name: level for name, level in quorum.features.items() if name != "metadata.version"}
    return replace(quorum, metadata_version=None, features=features, log_complete=True)


def formatted_again(quorum: Quorum) -> Quorum:
    """All controllers were formatted again five minutes ago, and the cluster is known for longer."""
    quorum = failing(quorum, Reason.METADATA_LOST, str(endpoint(3)), detail="epoch 1 ends at offset 12")
    return with_views(quorum, replace(view(3), log=leader_log(None, begins_ago_ms=300_000)))


def log_damaged(quorum: Quorum, node: int, damage: DamagedBatch | None = None, *, ago_ms: int = 60_000) -> Quorum:
    """A controller has served this batch, or that of offsets 40 to 42, with a wrong checksum."""
    failed = FailedObservation(
        source=ObservationSource.LOG,
        endpoint=str(endpoint(node)),
        reason=Reason.LOG_DAMAGED,
        detail="the CRC-32C does not match: the batch is damaged",
        first_at_ms=Millis(NOW - ago_ms),
        last_at_ms=Millis(NOW - ago_ms),
        damage=damage or DamagedBatch(offset=Offset(40), last_offset=Offset(42), epoch=EPOCH, high_watermark=SERVED_AT),
    )
    return replace(quorum, failures=(*quorum.failures, failed))


def not_observed_for(quorum: Quorum, log_ms: int | None = 14_000, poll_ms: int | None = 14_000) -> Quorum:
    """The log and DescribeQuorum were last answered this long ago; None: unchanged."""
    if log_ms is not None:
        quorum = replace(quorum, log_fetched_at_ms=Millis(NOW - log_ms))
    if poll_ms is not None and quorum.poll is not None:
        quorum = with_poll(quorum, observed_at_ms=Millis(NOW - poll_ms))
    return quorum


def leaderless(quorum: Quorum, *reported_by: int) -> Quorum:
    """These controllers answer that they know no leader; the last leader answered 14 s ago."""
    return failing(not_observed_for(quorum), Reason.NO_LEADER, *(str(endpoint(node)) for node in reported_by))


def all_refuse(quorum: Quorum) -> Quorum:
    """All controllers refuse connections."""
    return failing(not_observed_for(quorum), Reason.REFUSED, *quorum.bootstrap)


def static(quorum: Quorum) -> Quorum:
    """A quorum with controller.quorum.voters: no VotersRecord, no directory ids."""
    return replace(quorum, kraft_version=0, committed=None)


def with_invariant_violation(quorum: Quorum, *invariants: Invariant, ago_ms: int = 20_000) -> Quorum:
    """These invariants of Raft were violated this long ago."""
    violations = [
        InvariantViolation(
            invariant=each,
            epoch=EPOCH,
            detail=f"controller 3 and then controller 1 led epoch {EPOCH}",
            observed_at_ms=Millis(NOW - ago_ms),
        )
        for each in invariants
    ]
    return replace(quorum, invariant_violations=(*quorum.invariant_violations, *violations))


def with_contract_violation(
    quorum: Quorum, contract: str, *, ago_ms: int = 20_000, rows: int = 1, grave: bool = False
) -> Quorum:
    """A data contract was found broken this long ago."""
    violation = ContractViolation(
        contract=contract,
        promise="every row can be applied to the state, and the state evaluated after it"
        if grave
        else "every recorded batch, record and observation can be decoded",
        grave=grave,
        rows=rows,
        first_at_ms=Millis(NOW - ago_ms),
        last_at_ms=Millis(NOW - ago_ms),
        example="KeyError in streaming.replay.log, line 57"
        if grave
        else "offset 180: TopicRecord version 0 ends in the middle of a field",
        sequence=1_042,
    )
    return replace(quorum, contract_violations=(*quorum.contract_violations, violation))


def unknown_records(quorum: Quorum, *types: tuple[str, str | None]) -> Quorum:
    """The log has two records of each of these types: its name, and Kafka's class."""
    unknown = (
        UnknownRecordType(name=name, kafka_class=kafka_class, count=2, first_offset=Offset(180))
        for name, kafka_class in types
    )
    return replace(quorum, unknown_records=tuple(unknown))


# Faults of partitions and brokers.


def recovering(
    quorum: Quorum,
    *partitions: int,
    replicas: tuple[int, ...] = (101, 102),
    leader: int | None = 102,
    for_ms: int = 75_000,
    topic: str | None = "orders",
    topic_id: TopicId = TOPIC,
    at_least: bool = False,
    previous_isr: tuple[int, ...] | None = (101,),
    isr: tuple[int, ...] | None = None,
    last_leader: bool = False,
) -> Quorum:
    """These partitions are RECOVERING after an unclean election."""
    alone = () if leader is None else (leader,)
    in_sync = tuple(NodeId(node) for node in (alone if isr is None else isr))
    added = [
        Recovery(
            topic_id=topic_id,
            topic=topic,
            partition=partition,
            replicas=tuple(NodeId(node) for node in replicas),
            isr=in_sync,
            leader=None if leader is None else NodeId(leader),
            since_offset=Offset(9_500 + partition),
            since_timestamp_ms=Millis(NOW - 300 - for_ms),
            at_least=at_least,
            previous_isr=None if previous_isr is None else tuple(NodeId(node) for node in previous_isr),
            previous_elr=None if previous_isr is None else (),
            last_leader=last_leader,
            leader_epoch=5,
            partition_epoch=8,
        )
        for partition in partitions
    ]
    return replace(quorum, recovering=(*quorum.recovering, *added))


def with_broker(quorum: Quorum, node: int, *, fenced: bool = False, alive_for_ms: int | None = 3_600_000) -> Quorum:
    return replace(
        quorum, brokers={**quorum.brokers, NodeId(node): broker(node, fenced=fenced, alive_for_ms=alive_for_ms)}
    )


def offline(
    quorum: Quorum, *holders: ReplicaKey, partitions: int = 4, ago_ms: int = 90_000, at_least: bool = False
) -> Quorum:
    """So many partitions of orders have no leader; only these replicas may become it."""
    names = tuple(TopicPartition(topic_id=TOPIC, topic="orders", partition=number) for number in range(partitions))
    added = OfflinePartitions(
        holders=holders,
        partitions=partitions,
        since_timestamp_ms=Millis(NOW - 300 - ago_ms),
        at_least=at_least,
        examples=names[:20],
    )
    return replace(quorum, offline=(*quorum.offline, added))


def with_log_dirs(quorum: Quorum, node: int, *directories: str) -> Quorum:
    """The log directories of an alive broker that are online."""
    log_dirs = tuple(present(key(node, directory).directory_id) for directory in directories)
    changed = replace(broker(node), log_dirs=log_dirs)
    return replace(quorum, brokers={**quorum.brokers, NodeId(node): changed})


def offline_directory(quorum: Quorum, node: int, directory: str, replicas: int = 8) -> Quorum:
    """A log directory with replicas is not among those that the broker has registered."""
    of = present(key(node, directory).directory_id)
    added = OfflineDirectory(broker=NodeId(node), directory_id=of, replicas=replicas)
    return replace(quorum, offline_directories=(*quorum.offline_directories, added))


def flapping(quorum: Quorum, node: int, times: int, *, restarted: bool = False) -> Quorum:
    """The broker was fenced this many times, a minute apart and for four seconds each, the last one a minute ago."""
    fencings = tuple(
        Interruption(
            id=NodeId(node),
            offset=Offset(9_900 - 10 * age),
            timestamp_ms=Millis(NOW - 300 - age * 60_000),
            announced=False,
            restarted=restarted,
            ended_offset=Offset(9_901 - 10 * age),
            ended_timestamp_ms=Millis(NOW + 3_700 - age * 60_000),
        )
        for age in range(times, 0, -1)
    )
    return with_past(quorum, interruptions=fencings)


def shut_down(quorum: Quorum, node: int) -> Quorum:
    """The broker left by a controlled shutdown, and is fenced."""
    left = replace(broker(node, fenced=True), in_controlled_shutdown=True)
    return replace(quorum, brokers={**quorum.brokers, NodeId(node): left})


def broker_lagging(
    quorum: Quorum, node: int, *, for_ms: int = 60_000, silent: bool = False, lags: Iterable[int] | None = None
) -> Quorum:
    """A broker that is alive has not caught up with the metadata log for this long, or does not fetch it."""
    slow = row(key(node), lag_ms=for_ms, fetched_ago_ms=for_ms if silent else 0, end=9_000)
    others = tuple(each for each in present(quorum.poll).observers if each.key != key(node))
    quorum = with_poll(quorum, observers=(slow, *others))
    return with_history(quorum, history(key(node), lags=lags or (for_ms,) * 12, end=9_000, silent=silent))


# Faults in the log.


def in_transaction(quorum: Quorum, *, for_ms: int) -> Quorum:
    """A metadata transaction began this long ago; its three records are not applied."""
    opened = OpenTransaction(
        name="Bootstrap records", since_offset=Offset(9_000), since_timestamp_ms=Millis(NOW - 300 - for_ms), records=3
    )
    return replace(quorum, open_transaction=opened)


def elected(quorum: Quorum, *leaders: int, every_ms: int = 60_000, started: tuple[int, ...] = ()) -> Quorum:
    """These controllers won elections one after the other, the last one now; those in `started` started now."""
    elections = [
        Election(
            leader_id=NodeId(node),
            leader_epoch=Epoch(40 - 2 * age),
            offset=Offset(9_900 - age),
            timestamp_ms=Millis(NOW - 300 - age * every_ms),
            previous_leader_id=None if previous is None else NodeId(previous),
        )
        for age, (node, previous) in enumerate(zip(reversed(leaders), reversed((None, *leaders[:-1])), strict=True))
    ]
    starts = tuple(controller_start(node, offset=9_950) for node in started)
    return replace(with_past(quorum, elections=tuple(reversed(elections)), starts=starts), leader_epoch=Epoch(40))


def controller_start(node: int, *, ago_ms: int = 300, offset: int | None = None) -> ControllerStart:
    """A new process of a controller registered this long ago."""
    at = 9_950 - ago_ms // 1_000 if offset is None else offset
    return ControllerStart(
        id=NodeId(node),
        incarnation_id=f"incarnation-{node}-{ago_ms}",
        offset=Offset(at),
        timestamp_ms=Millis(NOW - ago_ms),
        replaced_incarnation_id="former",
    )


def restarting(quorum: Quorum, node: int, times: int, *, every_ms: int = 120_000) -> Quorum:
    """The controller was started again this many times, the last time now."""
    starts = tuple(controller_start(node, ago_ms=300 + age * every_ms) for age in range(times - 1, -1, -1))
    return with_past(quorum, starts=starts)


def registered_twice(quorum: Quorum, node: int, *, kind: NodeKind = NodeKind.CONTROLLER, ago_ms: int = 300) -> Quorum:
    """Two processes of a node have registered in turn, the last time this long ago."""
    one = DoubleRegistration(
        kind=kind,
        id=NodeId(node),
        endpoints=(endpoint(node),),
        other_endpoints=(endpoint(node, "copy.test"),),
        returns=12,
        first_timestamp_ms=Millis(NOW - 60_000),
        offset=Offset(9_990),
        timestamp_ms=Millis(NOW - ago_ms),
    )
    return with_past(quorum, double_registrations=(one,))


def failing_again(quorum: Quorum, node: int, times: int, *, for_ms: int = 60_000, every_ms: int = 100_000) -> Quorum:
    """The voter was not in sync this many times, and is now."""
    begins = [present(quorum.poll).observed_at_ms - age * every_ms for age in range(times, 0, -1)]
    outages = tuple(Outage(since_ms=Millis(at), until_ms=Millis(at + for_ms)) for at in begins)
    return with_history(quorum, replace(quorum.histories[key(node)], outages=outages))


def epoch_jumped(quorum: Quorum, skipped: int, *, after_ms: int = 1_500) -> Quorum:
    """Controller 1 won epoch 40 this many epochs after the one before, and the log stood still this long."""
    quorum = elected(quorum, 1)
    (won,) = quorum.history.elections
    jump = replace(
        won,
        previous_epoch=Epoch(won.leader_epoch - skipped - 1),
        after_ms=Millis(after_ms),
        voter_ids=(NodeId(1), NodeId(2), NodeId(3)),
        granting_voter_ids=(NodeId(1), NodeId(2)),
    )
    return with_past(quorum, elections=(jump,))


def with_views(quorum: Quorum, *reported: LeaderView) -> Quorum:
    """These controllers report these leaders."""
    return replace(quorum, leader_views={**quorum.leader_views, **{each.endpoint: each for each in reported}})


def foreign(reported: LeaderView) -> LeaderView:
    """A node of another cluster answers at that controller's address."""
    return replace(reported, this_cluster=False, leader_id=None, leader_epoch=None, log=None)


def second_quorum(node: int, *, epoch: int = 2, voters: Iterable[ReplicaKey] = ()) -> LeaderView:
    """A controller leads a quorum of its own, or of these voters, that has the same cluster id."""
    led = tuple(voters) or (key(node, f"newDirOf{node}"),)
    return replace(view(node, leader=node, epoch=epoch), log=leader_log(1_800_000), other_voters=led)


def snapshots(quorum: Quorum, log: LeaderLog) -> Quorum:
    """The leader reports this log."""
    return with_views(quorum, *(replace(each, log=log) for each in quorum.leader_views.values() if each.log))


def unclean(
    quorum: Quorum,
    *partitions: int,
    topic: str | None = "orders",
    ago_ms: int = 45_000,
    replicas: int = 2,
    last_leader: bool = False,
) -> Quorum:
    """Broker 102 became leader of these partitions while 101, which was in sync, was down; or it led last."""
    one = UncleanElections(
        topic_id=TOPIC,
        topic=topic,
        elections=len(partitions),
        partitions=partitions,
        leaders=(NodeId(102),),
        passed_over=() if last_leader else (NodeId(101),),
        first_timestamp_ms=Millis(NOW - 300 - ago_ms),
        last_timestamp_ms=Millis(NOW - 300 - ago_ms),
        last_offset=Offset(9_500),
        last_leaders=len(partitions) if last_leader else 0,
        most_replicas=replicas,
    )
    return with_past(quorum, unclean=(*quorum.history.unclean, one))


def upgraded(quorum: Quorum, metadata_version: int, *nodes: int, ago_ms: int = 5 * 3_600_000) -> Quorum:
    """These nodes (all if none is named) have run since then with a version that supports more."""
    chosen = nodes or (*quorum.controllers, *quorum.brokers)
    since = Millis(NOW - 300 - ago_ms)

    def with_new_version(one: RegistrationT) -> RegistrationT:
        new = replace(one, features=supporting(metadata_version), features_since_timestamp_ms=since)
        return new if one.id in chosen else one

    return replace(
        quorum,
        controllers={node: with_new_version(one) for node, one in quorum.controllers.items()},
        brokers={node: with_new_version(one) for node, one in quorum.brokers.items()},
    )


def made_dynamic(quorum: Quorum, *, ago_ms: int, metadata_version: int | None = 33) -> Quorum:
    """kraft.version went from 0 to 1, together with this metadata.version unless it is None."""
    upgrade = KRaftUpgrade(
        version=1, offset=Offset(9_000), timestamp_ms=Millis(NOW - 300 - ago_ms), metadata_version=metadata_version
    )
    return with_past(quorum, kraft_upgrade=upgrade)


# Time.


def later(quorum: Quorum, ms: int = 1_000, *, away: int | None = None) -> Quorum:
    """Every observation was repeated this much later: offsets and times moved; one voter has not fetched since."""
    poll = present(quorum.poll)

    def moved(value: int | None) -> Millis:
        return Millis((value or 0) + ms)

    def two_records(value: int | None) -> Offset:
        return Offset((value or 0) + 2)

    def fetched(row: Replica) -> Replica:
        if row.key.id == away:
            return row
        fetch, caught_up = moved(row.last_fetch_ms), moved(row.last_caught_up_ms)
        end = two_records(row.log_end_offset)
        return replace(row, log_end_offset=end, last_fetch_ms=fetch, last_caught_up_ms=caught_up)

    return replace(
        quorum,
        now_ms=moved(quorum.now_ms),
        log_fetched_at_ms=moved(quorum.log_fetched_at_ms),
        high_watermark=two_records(quorum.high_watermark),
        high_watermark_since_ms=moved(quorum.high_watermark_since_ms),
        last_offset=two_records(quorum.last_offset),
        newest_timestamp_ms=moved(quorum.newest_timestamp_ms),
        poll=replace(
            poll,
            observed_at_ms=moved(poll.observed_at_ms),
            high_watermark=two_records(poll.high_watermark),
            voters=tuple(map(fetched, poll.voters)),
            observers=tuple(map(fetched, poll.observers)),
        ),
        histories={
            key: replace(one, last_seen_at_ms=moved(one.last_seen_at_ms), samples=one.samples[1:])
            for key, one in quorum.histories.items()
        },
        probes={key: replace(one, observed_at_ms=moved(one.observed_at_ms)) for key, one in quorum.probes.items()},
    )


# Evaluation.


def evaluation_of(quorum: Quorum, overrides: Mapping[str, float] | None = None) -> Evaluation:
    """Returns the results of all rules, with their defaults or these thresholds. Fails if a rule raises an error."""
    evaluation = evaluate(quorum, thresholds_for(overrides or {}))
    failed = [each.summary for each in evaluation.findings if each.rule == BLIND and each.subject.startswith("rule ")]
    assert failed == []
    return evaluation


def findings(quorum: Quorum, rule: str) -> list[Finding]:
    """Returns the findings of one rule."""
    return [finding for finding in evaluation_of(quorum).findings if finding.rule == rule]


def finding_lines(quorum: Quorum) -> list[str]:
    """Returns all findings as `severity rule: subject`."""
    return [f"{each.severity} {each.rule}: {each.subject}" for each in evaluation_of(quorum).findings]


def unknown(quorum: Quorum) -> list[tuple[str, str | None]]:
    """Returns all unknown results as (rule, subject)."""
    return [(gap.rule, gap.subject) for gap in evaluation_of(quorum).unknown]


def unknown_reasons(quorum: Quorum, rule: str) -> list[tuple[str | None, str]]:
    """Returns the unknown results of one rule as (subject, why)."""
    return [(gap.subject, gap.why) for gap in evaluation_of(quorum).unknown if gap.rule == rule]
