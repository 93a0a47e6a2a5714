"""A moment of the past that somebody asks for: an offset of the metadata log, or a time."""

from dataclasses import dataclass
from typing import TypeAlias

from rules.model.identifiers import Millis, Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class AtOffset:
    """Once the record at this offset was applied, and before the next one."""

    offset: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class AtTime:
    """With everything up to this time, milliseconds since the Unix epoch, itself included."""

    at_ms: Millis


PointInTime: TypeAlias = AtOffset | AtTime
