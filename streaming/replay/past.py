"""The past: elections, controllers' starts and forced reconfigurations, as the log tells them, for an hour.

Ages are differences of the log's own time, so that a history replayed in one go keeps what belongs together.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from connectors.event import At, ControllerRegistered, LeaderChanged
from rules.quorum import (
    ControllerRegistration,
    ControllerStart,
    ElectedRecovered,
    Election,
    Millis,
    NodeId,
    Past,
    Reconfiguration,
    VoterSet,
)

REMEMBERED_MS = Millis(3_600_000)
"""How long before the newest record of its kind an entry may lie."""
REMEMBERED = 64
"""How many entries of a kind are kept, the newest ones: a storm of elections must not fill the state."""
_Entry = TypeVar("_Entry", bound=Election | ControllerStart | Reconfiguration | ElectedRecovered)


def with_election(past: Past, event: LeaderChanged) -> Past:
    """A LeaderChangeMessage. The same epoch twice is one election, read again."""
    at = event.at
    if any(one.leader_epoch == at.leader_epoch for one in past.elections):
        return past
    one = Election(
        leader_id=event.leader_id, leader_epoch=at.leader_epoch, offset=at.offset, timestamp_ms=at.timestamp_ms
    )
    return replace(past, elections=_bounded(past.elections, one))


def with_start(past: Past, event: ControllerRegistered, known: Mapping[NodeId, ControllerRegistration]) -> Past:
    """A RegisterControllerRecord: a start where the incarnation is another one than was registered before."""
    held = known.get(event.id)
    if held is not None and held.incarnation_id == event.incarnation_id:
        return past
    one = ControllerStart(id=event.id, offset=event.at.offset, timestamp_ms=event.at.timestamp_ms)
    return replace(past, starts=_bounded(past.starts, one))


def with_voters(past: Past, before: VoterSet | None, after: VoterSet, at: At) -> Past:
    """A VotersRecord: one that adds or removes a single voter, or rewrites endpoints, is what Kafka does by itself."""
    if before is None or len(before.keys ^ after.keys) <= 1:
        return past
    one = Reconfiguration(
        before=tuple(sorted(before.keys, key=str)),
        after=tuple(sorted(after.keys, key=str)),
        offset=at.offset,
        leader_epoch=at.leader_epoch,
        timestamp_ms=at.timestamp_ms,
    )
    return replace(past, reconfigurations=_bounded(past.reconfigurations, one))


def with_elected_recovered(past: Past, one: ElectedRecovered) -> Past:
    """A PartitionChangeRecord that named another leader and called the partition recovered."""
    return replace(past, elected_recovered=_bounded(past.elected_recovered, one))


def _bounded(known: tuple[_Entry, ...], one: _Entry) -> tuple[_Entry, ...]:
    since = one.timestamp_ms - REMEMBERED_MS
    recent = [old for old in known if old.timestamp_ms >= since]
    return tuple([*recent, one][-REMEMBERED:])
