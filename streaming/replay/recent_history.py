"""Recent history: elections, interruptions and so on of the last hour, and the starts of a day, read from the log.

Ages are differences of the log's own time, so that a log replayed at once keeps the same entries.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple, TypeAlias, TypeVar

from connectors.observations.log_event import FeatureLevelSet, KRaftVersionSet, LeaderChanged
from rules.model.history import (
    ControllerStart,
    DoubleRegistration,
    ElectedRecovered,
    Election,
    Interruption,
    KRaftUpgrade,
    NodeKind,
    RecentHistory,
    RewriteCause,
    Rewrites,
    TopicPartition,
    UncleanElections,
    Unregistration,
    VoterChange,
)
from rules.model.identifiers import Millis, NodeId, Offset, TopicId
from rules.model.membership import BrokerRegistration, ControllerRegistration, RecordPosition, VoterSet
from streaming.replay.image import Image

REMEMBERED_MS = Millis(3_600_000)
"""The maximum age of an entry, measured from the newest record of its kind."""
STARTS_REMEMBERED_MS = Millis(86_400_000)
"""The same for the starts of controllers and the interruptions of brokers: a node may start once in some hours."""
REMEMBERED = 64
"""The maximum number of entries of a kind, the newest ones: many elections must not fill the state."""
STARTS = 256
"""The maximum number of starts of all controllers."""
INTERRUPTIONS = 1_024
"""The maximum number of interruptions of all nodes: enough for all brokers of a large cluster to be interrupted."""
TOPICS = 1_024
"""The maximum number of topics whose unclean elections are remembered: a failed broker elects in all of its topics."""
EPISODE_MS = Millis(600_000)
"""An unclean election that is later than this after the one before of its topic is another matter."""
OF_A_NODE = 32
"""The maximum number of starts and of interruptions of one node: they must not displace those of the others."""
PARTITIONS = 20
"""The maximum number of partitions that are listed for one topic."""
NODES = 100
"""The maximum number of leaders, and of replicas that were passed over, that are listed for one topic."""
REWRITES = 64
"""The maximum number of partitions and nodes whose records are counted."""
_ONE_REQUEST, _ONE_REQUEST_MS = 32, 1_000
"""How far apart in the log the records of one request to upgrade features may be: Kafka writes kraft.version first and
then one record for each feature, in the same millisecond or a few later."""
_Entry = TypeVar(
    "_Entry", bound=Election | ControllerStart | Interruption | Unregistration | DoubleRegistration | ElectedRecovered
)


class UncleanElection(NamedTuple):
    """One partition got a leader that was neither in sync nor eligible (KIP-704)."""

    topic_id: TopicId
    topic: str | None
    partition: int
    leader: NodeId | None
    passed_over: tuple[NodeId, ...]
    """The replicas that were in sync or eligible before."""
    last_leader: bool
    """Whether the leader had led last, or is the only replica: if it passed over none, no other's records are lost."""
    replicas: tuple[NodeId, ...]
    offset: Offset
    timestamp_ms: Millis


def with_leader_change(image: Image, event: LeaderChanged) -> RecentHistory:
    """Adds a LeaderChangeMessage to the history of the image before it; the caller skips re-read ones."""
    at, previous_ms = event.at, image.newest_timestamp_ms
    one = Election(
        leader_id=event.leader_id,
        leader_epoch=at.leader_epoch,
        offset=at.offset,
        timestamp_ms=at.timestamp_ms,
        voter_ids=event.voter_ids,
        granting_voter_ids=event.granting_voter_ids,
        previous_leader_id=image.leader_id,
        previous_epoch=image.leader_epoch,
        after_ms=None if previous_ms is None else Millis(max(0, at.timestamp_ms - previous_ms)),
    )
    return replace(image.history, elections=_bounded(image.history.elections, one))


def with_controller_start(image: Image, event: ControllerRegistration) -> RecentHistory:
    """Adds a RegisterControllerRecord: a start if its incarnation was not registered before."""
    history, previous = image.history, image.controllers.get(event.id)
    one = start_of(event, previous)
    if one is None:
        return with_rewrites(history, [Rewrite(RewriteCause.CONTROLLER, event.at.timestamp_ms, (event.id,))])
    of_node = [index for index, old in enumerate(history.starts) if old.id == event.id]
    newest = history.starts[of_node[-1]] if of_node else None
    if newest and previous and newest.incarnation_id == event.incarnation_id and newest.offset > previous.at.offset:
        # It registered after that one, in a transaction that was aborted.
        return history
    known_ids = {each for index in of_node for each in _incarnation_ids(history.starts[index])}
    if previous is not None and event.incarnation_id in known_ids:
        return _with_return(history, NodeKind.CONTROLLER, event, previous, event.at)
    return replace(history, starts=_bounded(_without_oldest(history.starts, of_node), one, most=STARTS))


def start_of(event: ControllerRegistration, previous: ControllerRegistration | None) -> ControllerStart | None:
    """Returns the start that a registration shows; None if the same process was registered before."""
    if previous is not None and previous.incarnation_id == event.incarnation_id:
        return None
    return ControllerStart(
        id=event.id,
        incarnation_id=event.incarnation_id,
        offset=event.at.offset,
        timestamp_ms=event.at.timestamp_ms,
        replaced_incarnation_id=None if previous is None else previous.incarnation_id,
    )


def _incarnation_ids(start: ControllerStart) -> tuple[str | None, str | None]:
    return start.incarnation_id, start.replaced_incarnation_id


def _with_return(
    history: RecentHistory,
    kind: NodeKind,
    event: ControllerRegistration | BrokerRegistration,
    replaced: ControllerRegistration | BrokerRegistration,
    at: RecordPosition,
) -> RecentHistory:
    """Adds that a process registered again after the one that had replaced it."""
    place = (kind, event.id)
    before = next(
        (
            registration
            for registration in history.double_registrations
            if (registration.kind, registration.id) == place
        ),
        None,
    )
    one = DoubleRegistration(
        kind=kind,
        id=event.id,
        endpoints=event.endpoints,
        other_endpoints=replaced.endpoints,
        returns=1 + (before.returns if before else 0),
        first_timestamp_ms=before.first_timestamp_ms if before else at.timestamp_ms,
        offset=at.offset,
        timestamp_ms=at.timestamp_ms,
    )
    others = tuple(other for other in history.double_registrations if (other.kind, other.id) != place)
    return replace(history, double_registrations=_bounded(others, one))


def with_broker(
    history: RecentHistory, before: BrokerRegistration | None, after: BrokerRegistration, at: RecordPosition
) -> RecentHistory:
    """Adds the fencing of a broker that was alive, or what a later record says of it: a new process, the unfencing."""
    if before is None:
        return history
    changed, known = before.incarnation_id != after.incarnation_id, history.interruptions
    returned = changed and any(
        (old.id, old.replaced_incarnation_id) == (after.id, after.incarnation_id) for old in known
    )
    if returned:
        history = _with_return(history, NodeKind.BROKER, after, before, at)
    restarted = changed and not returned
    replaced = before.incarnation_id if changed else None
    open_ = (
        at for at, interruption in enumerate(known) if interruption.id == after.id and interruption.ended_offset is None
    )
    index = max(open_, default=None) if before.fenced else None
    if after.fenced and (before.alive or (restarted and index is None)):
        # The log may not show when a broker was fenced: it never served, or a snapshot had it as fenced.
        one = Interruption(
            id=after.id,
            offset=at.offset,
            timestamp_ms=at.timestamp_ms,
            announced=before.in_controlled_shutdown or after.in_controlled_shutdown,
            restarted=restarted,
            replaced_incarnation_id=replaced,
        )
        of_node = [index for index, old in enumerate(known) if old.id == one.id]
        return replace(history, interruptions=_bounded(_without_oldest(known, of_node), one, most=INTERRUPTIONS))
    if index is not None and (after.alive or changed):
        one = known[index]
        if restarted and one.restarted:
            one = replace(one, further_starts=(*one.further_starts, (at.offset, at.timestamp_ms))[-OF_A_NODE:])
        if changed:
            one = replace(one, restarted=one.restarted or restarted, replaced_incarnation_id=replaced)
        if after.alive:
            one = replace(one, ended_offset=at.offset, ended_timestamp_ms=at.timestamp_ms)
        return replace(history, interruptions=(*known[:index], one, *known[index + 1 :]))
    return history


def with_unregistration(history: RecentHistory, kind: NodeKind, node: NodeId, at: RecordPosition) -> RecentHistory:
    """Adds the end of a registration."""
    one = Unregistration(kind=kind, id=node, offset=at.offset, timestamp_ms=at.timestamp_ms)
    return replace(history, unregistrations=_bounded(history.unregistrations, one))


def with_voters(history: RecentHistory, before: VoterSet | None, after: VoterSet, at: RecordPosition) -> RecentHistory:
    """Adds a VotersRecord that changes voters or their endpoints."""
    if before is None or {*before.voters} == {*after.voters}:
        return history
    endpoints = {voter.key: voter.endpoints for voter in before.voters}
    change = VoterChange(
        before=tuple(sorted(before.keys)),
        after=tuple(sorted(after.keys)),
        moved=tuple(
            sorted(
                voter.key.id for voter in after.voters if endpoints.get(voter.key, voter.endpoints) != voter.endpoints
            )
        ),
        offset=at.offset,
        leader_epoch=at.leader_epoch,
        timestamp_ms=at.timestamp_ms,
    )
    return replace(history, voter_changes=(*history.voter_changes, change)[-REMEMBERED:])


def with_kraft_version(image: Image, record: KRaftVersionSet) -> RecentHistory:
    """Adds a KRaftVersionRecord that makes a static quorum dynamic; a new quorum has no metadata.version yet."""
    if image.kraft != 0 or not record.version or image.metadata_version is None:
        return image.history
    at = record.at
    upgrade = KRaftUpgrade(version=record.version, offset=at.offset, timestamp_ms=at.timestamp_ms)
    return replace(image.history, kraft_upgrade=upgrade)


def with_metadata_version(history: RecentHistory, record: FeatureLevelSet) -> RecentHistory:
    """Adds the metadata.version that one request finalized together with kraft.version."""
    upgrade, at = history.kraft_upgrade, record.at
    if upgrade is None or upgrade.metadata_version is not None:
        return history
    if at.offset - upgrade.offset > _ONE_REQUEST or at.timestamp_ms - upgrade.timestamp_ms > _ONE_REQUEST_MS:
        return history
    return replace(history, kraft_upgrade=replace(upgrade, metadata_version=record.level))


_RewriteKey: TypeAlias = tuple[RewriteCause, tuple[NodeId, ...] | tuple[TopicId, int] | None]
"""What is counted together."""


class Rewrite(NamedTuple):
    """A record was written again: its cause, and as of Rewrites."""

    cause: RewriteCause
    timestamp_ms: Millis
    nodes: tuple[NodeId, ...]
    partition: TopicPartition | None = None


def _rewrite_key(one: Rewrite | Rewrites) -> _RewriteKey:
    match one.cause:
        case RewriteCause.PARTITION:
            return one.cause, None if one.partition is None else (one.partition.topic_id, one.partition.partition)
        case RewriteCause.PRODUCER_IDS:
            return one.cause, None
        case RewriteCause.BROKER | RewriteCause.CONTROLLER:
            return one.cause, one.nodes


def with_rewrites(history: RecentHistory, rewrites: Iterable[Rewrite]) -> RecentHistory:
    """Adds records that were written again: what shows for how long each cause has written them without a pause.

    While REWRITES are kept, the records of others are not counted: a failed broker changes thousands of ISRs at once,
    and these are dropped when the pause after them is over.
    """
    kept = {_rewrite_key(rewrite): rewrite for rewrite in history.rewrites}
    for one in rewrites:
        key = _rewrite_key(one)
        known = kept.pop(key, None)
        if known is None and len(kept) >= REWRITES:
            kept = {at: old for at, old in kept.items() if not old.is_over(one.timestamp_ms)}
        if known is not None or len(kept) < REWRITES:
            kept[key] = _with_rewrite(known, one)
    newest_ms = max((one.timestamp_ms for one in kept.values()), default=Millis(0))
    return replace(history, rewrites=tuple(one for one in kept.values() if not one.is_over(newest_ms)))


def _with_rewrite(known: Rewrites | None, one: Rewrite) -> Rewrites:
    records, since_ms, nodes = 1, one.timestamp_ms, one.nodes
    if known is not None and not known.is_over(one.timestamp_ms):
        records, since_ms = known.records + 1, known.since_timestamp_ms
        if one.cause is RewriteCause.PRODUCER_IDS:
            nodes = tuple(sorted({*known.nodes, *one.nodes})[:NODES])
    return Rewrites(
        cause=one.cause,
        partition=one.partition,
        nodes=nodes,
        records=records,
        since_timestamp_ms=since_ms,
        timestamp_ms=one.timestamp_ms,
    )


def with_elected_recovered(history: RecentHistory, one: ElectedRecovered) -> RecentHistory:
    """Adds a PartitionChangeRecord that set another leader and ended the recovery."""
    return replace(history, elected_recovered=_bounded(history.elected_recovered, one))


def with_unclean(history: RecentHistory, elections: Iterable[UncleanElection]) -> RecentHistory:
    """Adds unclean elections, summed by topic: one failed broker may cause thousands of them in a topic.

    An election more than EPISODE_MS after the one before is not added to it: people know of that one by now.
    """
    ended: list[UncleanElections] = []
    topics: dict[TopicId, UncleanElections] = {}
    for known in history.unclean:
        if (former := topics.pop(known.topic_id, None)) is not None:
            ended.append(former)
        topics[known.topic_id] = known
    newest = Millis(0)
    for election in elections:
        # The topic with the newest election is last.
        previous = topics.pop(election.topic_id, None)
        if previous is not None and previous.last_timestamp_ms < election.timestamp_ms - EPISODE_MS:
            ended.append(previous)
            previous = None
        topics[election.topic_id] = _with_election(previous, election)
        newest = max(newest, election.timestamp_ms)
    recent = [one for one in (*ended, *topics.values()) if abs(one.last_timestamp_ms - newest) <= REMEMBERED_MS]
    return replace(history, unclean=tuple(recent[-TOPICS:]))


def with_read_times(history: RecentHistory, since_ms: Millis, read_ms: Millis) -> RecentHistory:
    """Adds when the rules first see the unclean elections and emptied replicas from `since_ms` on.

    Then the log ended for them before.
    """
    unclean = tuple(
        replace(election, read_timestamp_ms=read_ms)
        if election.read_timestamp_ms is None and election.last_timestamp_ms >= since_ms
        else election
        for election in history.unclean
    )
    emptied = tuple(
        replace(replicas, read_timestamp_ms=read_ms)
        if replicas.read_timestamp_ms is None and replicas.timestamp_ms >= since_ms
        else replicas
        for replicas in history.emptied
    )
    return replace(history, unclean=unclean, emptied=emptied)


def _with_election(previous: UncleanElections | None, one: UncleanElection) -> UncleanElections:
    leaders = () if one.leader is None else (one.leader,)
    return UncleanElections(
        topic_id=one.topic_id,
        topic=one.topic,
        elections=1 + (previous.elections if previous else 0),
        partitions=tuple(sorted({one.partition, *(previous.partitions if previous else ())})[:PARTITIONS]),
        leaders=tuple(sorted({*leaders, *(previous.leaders if previous else ())})[:NODES]),
        passed_over=tuple(sorted({*one.passed_over, *(previous.passed_over if previous else ())})[:NODES]),
        first_timestamp_ms=previous.first_timestamp_ms if previous else one.timestamp_ms,
        last_timestamp_ms=one.timestamp_ms,
        last_offset=one.offset,
        last_leaders=(one.last_leader and not one.passed_over) + (previous.last_leaders if previous else 0),
        most_replicas=max(len(one.replicas), previous.most_replicas if previous else 0),
        others=tuple(sorted({*_further(one), *(previous.others if previous else ())})[:NODES]),
    )


def _further(one: UncleanElection) -> Iterable[NodeId]:
    """Returns the replicas that were neither elected nor passed over; none if the elected one has every record."""
    return {*one.replicas} - {one.leader, *one.passed_over} if one.passed_over else ()


def _without_oldest(known: tuple[_Entry, ...], of_node: list[int]) -> tuple[_Entry, ...]:
    """Returns the entries without the oldest one of a node that has as many as are remembered, by their indices."""
    return known if len(of_node) < OF_A_NODE else known[: of_node[0]] + known[of_node[0] + 1 :]


def _bounded(known: tuple[_Entry, ...], one: _Entry, most: int = REMEMBERED) -> tuple[_Entry, ...]:
    kept_ms = STARTS_REMEMBERED_MS if isinstance(one, (ControllerStart, Interruption)) else REMEMBERED_MS
    # Also at most as much later: one false timestamp in the future would stay.
    recent = [old for old in known if abs(old.timestamp_ms - one.timestamp_ms) <= kept_ms]
    return tuple([*recent, one][-most:])
