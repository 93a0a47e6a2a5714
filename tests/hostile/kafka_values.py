"""What Kafka can write in the fields of an event, stated a second time, apart from the decoder's own checks."""

from collections.abc import Iterator, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from connectors.observations.log_event import VotersReplaced
from rules.model.membership import Voter
from rules.model.replica import Poll, Replica

_INT32, _YEAR_10000_MS, _OFFSET = 2**31, 253_402_300_800_000, 2**62
_ID_LISTS = frozenset({"voter_ids", "replicas", "isr", "elr", "last_known_elr"})
_RANGES = {
    **dict.fromkeys(("id", "leader_id", "leader", "node", "answered_by", "partition"), range(_INT32)),
    **dict.fromkeys(
        ("offset", "end_offset", "last_offset", "high_watermark", "log_end_offset", "start_offset"),
        range(-1, _OFFSET + 1),
    ),
    **dict.fromkeys(
        ("leader_epoch", "epoch", "partition_leader_epoch", "partition_epoch", "kraft_version"), range(-1, _INT32)
    ),
    **dict.fromkeys(("level", "version", "lowest", "highest"), range(2**15)),
    "port": range(2**16),
}
"""What Kafka can write, by the name of a field; a time is named `..._ms`."""
_VOTERS = 100


def impossible_value(event: object) -> str | None:
    """Returns the first value of an event that Kafka cannot have written, with its field; None if there is none."""
    return next(_impossible(event, ""), None)


def _impossible(value: Any, name: str) -> Iterator[str]:
    if is_dataclass(value):
        for field in fields(value):
            yield from _impossible(getattr(value, field.name), field.name)
        if isinstance(value, VotersReplaced | Poll):
            yield from _voters(value.voters)
        return
    if isinstance(value, tuple):
        if name in _ID_LISTS:
            yield from (f"{name} {value}" for _ in range(1) if len(set(value)) < len(value))
            yield from (f"{name} holds {each}" for each in value if not 0 <= each < _INT32)
            return
        for each in value:
            yield from _impossible(each, f"each of {name}")
        return
    if isinstance(value, int) and not isinstance(value, bool) and not _possible(name, value):
        yield f"{name} {value}"


def _possible(name: str, value: int) -> bool:
    possible = range(-1, _YEAR_10000_MS) if name.endswith("_ms") else _RANGES.get(name)
    return possible is None or value in possible


def _voters(voters: Sequence[Voter | Replica]) -> Iterator[str]:
    if len(voters) > _VOTERS:
        yield f"{len(voters)} voters"
    ids = [voter.key.id for voter in voters]
    if len(set(ids)) < len(ids):
        yield f"voter ids {ids}"
