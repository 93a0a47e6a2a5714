"""The numbers of a quorum that move while nothing happens: times of observations, offsets, times of fetches.

Everything else of a quorum is its fixed part. A field that is not named here is in the fixed part, so a new field of
the model makes every change of it count as a change of the quorum.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from operator import attrgetter
from typing import Any, TypeAlias, get_origin

from rules.model.monitoring import FailedObservation, LeaderView, Probe
from rules.model.poll import Poll, Replica, ReplicaHistory
from rules.model.quorum import Quorum
from rules.recorded_number import Comparisons, RecordedNumber, UnrecordableValue

_MOVING: Mapping[type, tuple[str, ...]] = {
    Quorum: (
        *("now_ms", "log_seen_at_ms", "high_watermark", "high_watermark_since_ms", "last_offset"),
        "newest_timestamp_ms",
    ),
    Poll: ("observed_at_ms", "high_watermark"),
    Replica: ("log_end_offset", "last_fetch_ms", "last_caught_up_ms"),
    ReplicaHistory: ("last_seen_at_ms", "last_log_end_offset", "last_leader_epoch"),
    Probe: ("observed_at_ms",),
    LeaderView: ("observed_at_ms",),
    FailedObservation: ("last_at_ms",),
}
"""The fields that are moving numbers. An instance holds each of them as a whole number or None."""
_ELSEWHERE: Mapping[type, tuple[str, ...]] = {
    Quorum: ("poll", "histories", "probes", "leader_views", "failures", "_derived"),
    Poll: ("voters", "observers"),
    ReplicaHistory: ("samples",),
}
"""Fields that hold objects with moving numbers; and samples, which are not recorded: each poll changes them."""

Values: TypeAlias = tuple[object, ...]


def _values_of(names: tuple[str, ...]) -> Callable[[Any], Values]:
    """Returns the function that returns these attributes of an object as a tuple."""
    get = attrgetter(*names)
    return get if len(names) > 1 else lambda one: (get(one),)


def _fixed_values_of(kind: type) -> Callable[[Any], Values]:
    excluded = {*_MOVING[kind], *_ELSEWHERE.get(kind, ())}
    fixed = [each for each in fields(kind) if each.name not in excluded]
    get = _values_of(tuple(each.name for each in fixed))
    mappings = [each.name for each in fixed if get_origin(each.type) is Mapping]
    # Equal mappings may differ in their order, on which a result may depend.
    return (lambda one: (*get(one), *(tuple(getattr(one, name)) for name in mappings))) if mappings else get


_NUMBERS = {kind: _values_of(names) for kind, names in _MOVING.items()}
_FIXED = {kind: _fixed_values_of(kind) for kind in _MOVING}


def moving_numbers(quorum: Quorum) -> list[int | None]:
    """Returns the moving numbers. Those of two quorums with the same fixed part are in the same order."""
    values: list[Any] = [*_NUMBERS[Quorum](quorum)]
    poll = quorum.poll
    if poll is not None:
        values += _NUMBERS[Poll](poll)
        _add(values, Replica, poll.voters)
        _add(values, Replica, poll.observers)
    _add(values, ReplicaHistory, quorum.histories.values())
    _add(values, Probe, quorum.probes.values())
    _add(values, LeaderView, quorum.leader_views.values())
    _add(values, FailedObservation, quorum.failures)
    return values


def fixed_part(quorum: Quorum) -> Values:
    """Returns everything but the moving numbers and the samples, as one value that can be compared."""
    poll = quorum.poll
    return (
        _FIXED[Quorum](quorum),
        None
        if poll is None
        else (_FIXED[Poll](poll), *_all(Replica, poll.voters), None, *_all(Replica, poll.observers)),
        *(
            (*part, *_all(kind, part.values()))
            for kind, part in (
                (ReplicaHistory, quorum.histories),
                (Probe, quorum.probes),
                (LeaderView, quorum.leader_views),
            )
        ),
        _all(FailedObservation, quorum.failures),
    )


def with_recorded_numbers(quorum: Quorum, comparisons: Comparisons) -> Quorum:
    """Returns the quorum with a RecordedNumber for each of `moving_numbers`, in their order."""
    position = 0

    def recorded(one: Any, **changes: object) -> Any:
        nonlocal position
        for name in _MOVING[type(one)]:
            value = getattr(one, name)
            changes[name] = None if value is None else RecordedNumber(value, ((position, 1),), 0, comparisons)
            position += 1
        return replace(one, **changes)

    whole = recorded(quorum)
    poll = None
    if quorum.poll is not None:
        poll = recorded(quorum.poll)
        poll = replace(poll, voters=tuple(map(recorded, poll.voters)), observers=tuple(map(recorded, poll.observers)))
    result: Quorum = replace(
        whole,
        poll=poll,
        histories={key: recorded(one, samples=UnrecordableValue()) for key, one in quorum.histories.items()},
        probes={key: recorded(one) for key, one in quorum.probes.items()},
        leader_views={key: recorded(one) for key, one in quorum.leader_views.items()},
        failures=tuple(map(recorded, quorum.failures)),
    )
    return result


def _add(values: list[Any], kind: type, part: Iterable[object]) -> None:
    numbers = _NUMBERS[kind]
    for one in part:
        values += numbers(one)


def _all(kind: type, part: Iterable[object]) -> Values:
    return tuple(map(_FIXED[kind], part))
