"""PointInTime: a past state that a user asks for, by an offset of the metadata log or by a time."""

from dataclasses import dataclass
from typing import TypeAlias

from rules.model.identifiers import Millis, Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class AtOffset:
    """The state after the record at this offset was applied, and before the next one."""

    offset: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class AtTime:
    """The state with everything up to and including this time, milliseconds since the Unix epoch."""

    at_ms: Millis


PointInTime: TypeAlias = AtOffset | AtTime
