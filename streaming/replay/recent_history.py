"""The past: elections, controllers' starts and forced reconfigurations, as the log tells them, for an hour.

Ages are differences of the log's own time, so that a history replayed in one go keeps what belongs together.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple, TypeVar

from connectors.event import At, ControllerRegistered, LeaderChanged
from rules.model.history import (
    ControllerStart,
    ElectedRecovered,
    Election,
    RecentHistory,
    Reconfiguration,
    UncleanElections,
    VoterSetChange,
)
from rules.model.identifiers import Millis, NodeId, Offset, TopicId
from rules.model.registration import ControllerRegistration
from rules.model.voter_set import VoterSet

REMEMBERED_MS = Millis(3_600_000)
"""How long before the newest record of its kind an entry may lie."""
REMEMBERED = 64
"""How many entries of a kind are kept, the newest ones: a storm of elections must not fill the state."""
PARTITIONS = 20
"""How many partitions of one topic are named."""
_Entry = TypeVar("_Entry", bound=Election | ControllerStart | Reconfiguration | ElectedRecovered)


class UncleanElection(NamedTuple):
    """One partition got a leader from outside those in sync and eligible (KIP-704)."""

    topic_id: TopicId
    topic: str | None
    partition: int
    leader: NodeId | None
    passed_over: tuple[NodeId, ...]
    """Who was in sync, or eligible, before."""
    offset: Offset
    timestamp_ms: Millis


def with_election(past: RecentHistory, event: LeaderChanged) -> RecentHistory:
    """A LeaderChangeMessage: one that is read again never comes here."""
    at = event.at
    one = Election(
        leader_id=event.leader_id, leader_epoch=at.leader_epoch, offset=at.offset, timestamp_ms=at.timestamp_ms
    )
    return replace(past, elections=_bounded(past.elections, one))


def with_start(
    past: RecentHistory, event: ControllerRegistered, known: Mapping[NodeId, ControllerRegistration]
) -> RecentHistory:
    """A RegisterControllerRecord: a start where the incarnation is another one than was registered before."""
    held = known.get(event.id)
    if held is not None and held.incarnation_id == event.incarnation_id:
        return past
    one = ControllerStart(id=event.id, offset=event.at.offset, timestamp_ms=event.at.timestamp_ms)
    return replace(past, starts=_bounded(past.starts, one))


def with_voters(past: RecentHistory, before: VoterSet | None, after: VoterSet, at: At) -> RecentHistory:
    """A VotersRecord: one that adds or removes a single voter, or rewrites endpoints, is what Kafka does by itself."""
    if before is None or {*before.voters} == {*after.voters}:
        return past
    endpoints = {voter.key: voter.endpoints for voter in before.voters}
    change = VoterSetChange(
        added=tuple(sorted(after.keys - before.keys, key=str)),
        removed=tuple(sorted(before.keys - after.keys, key=str)),
        moved=tuple(
            sorted(one.key.id for one in after.voters if endpoints.get(one.key, one.endpoints) != one.endpoints)
        ),
        offset=at.offset,
        leader_epoch=at.leader_epoch,
        timestamp_ms=at.timestamp_ms,
    )
    past = replace(past, voter_changes=(*past.voter_changes, change)[-REMEMBERED:])
    if len(before.keys ^ after.keys) <= 1:
        return past
    one = Reconfiguration(
        before=tuple(sorted(before.keys, key=str)),
        after=tuple(sorted(after.keys, key=str)),
        offset=at.offset,
        leader_epoch=at.leader_epoch,
        timestamp_ms=at.timestamp_ms,
    )
    return replace(past, reconfigurations=_bounded(past.reconfigurations, one))


def with_elected_recovered(past: RecentHistory, one: ElectedRecovered) -> RecentHistory:
    """A PartitionChangeRecord that named another leader and called the partition recovered."""
    return replace(past, elected_recovered=_bounded(past.elected_recovered, one))


def with_unclean(past: RecentHistory, elections: Iterable[UncleanElection]) -> RecentHistory:
    """Unclean elections, summed up by topic: one dead broker may cost a topic thousands of leaders."""
    topics = {one.topic_id: one for one in past.unclean}
    newest = Millis(0)
    for one in elections:
        # The topic with the newest election stands last.
        topics[one.topic_id] = _with_one(topics.pop(one.topic_id, None), one)
        newest = max(newest, one.timestamp_ms)
    recent = [one for one in topics.values() if one.last_timestamp_ms >= newest - REMEMBERED_MS]
    return replace(past, unclean=tuple(recent[-REMEMBERED:]))


def _with_one(held: UncleanElections | None, one: UncleanElection) -> UncleanElections:
    if held is not None and held.last_timestamp_ms < one.timestamp_ms - REMEMBERED_MS:
        held = None
    leaders = () if one.leader is None else (one.leader,)
    return UncleanElections(
        topic_id=one.topic_id,
        topic=one.topic,
        elections=1 + (held.elections if held else 0),
        partitions=tuple(sorted({one.partition, *(held.partitions if held else ())})[:PARTITIONS]),
        leaders=tuple(sorted({*leaders, *(held.leaders if held else ())})),
        passed_over=tuple(sorted({*one.passed_over, *(held.passed_over if held else ())})),
        first_timestamp_ms=held.first_timestamp_ms if held else one.timestamp_ms,
        last_timestamp_ms=one.timestamp_ms,
        last_offset=one.offset,
    )


def _bounded(known: tuple[_Entry, ...], one: _Entry) -> tuple[_Entry, ...]:
    since = one.timestamp_ms - REMEMBERED_MS
    recent = [old for old in known if old.timestamp_ms >= since]
    return tuple([*recent, one][-REMEMBERED:])
