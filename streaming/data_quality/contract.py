"""A contract: one promise about every row of a table, with its reason and the severity if it is broken."""

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from rules.finding import Severity


class Suite(StrEnum):
    """What the rows of a table are."""

    OBSERVATIONS = "observations"
    EVENTS = "events"
    STATES = "states"
    ALERTS = "alerts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Present:
    """The column is never empty."""

    column: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Absent:
    """The column is always empty: its text would name the fault of the row."""

    column: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Between:
    """The number, if present, is within inclusive bounds."""

    column: str
    lowest: int
    highest: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OneOf:
    """The text is one of a closed set."""

    column: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Matches:
    """The text, if present, matches a regular expression."""

    column: str
    pattern: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NotBelow:
    """The number is not below the one in another column, if both are present."""

    column: str
    floor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Equal:
    """The column equals another one, if both are present."""

    column: str
    other: str


Check: TypeAlias = Present | Absent | Between | OneOf | Matches | NotBelow | Equal


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """One promise. Its name is the subject of the alert that reports a broken contract."""

    name: str
    suite: Suite
    promise: str
    """One sentence without a full stop: what holds for every row."""
    why: str
    """Why it holds, and what a broken row would mean."""
    source: str
    """The KIP, Kafka class or kraftwatch module that it comes from."""
    severity: Severity
    check: Check


EARLIEST_MS = 1_293_840_000_000
"""2011-01-01: Kafka is not older."""
LATEST_MS = 4_102_444_800_000
"""2100-01-01."""
UUID = r"^[A-Za-z0-9_-]{22}$"
"""A UUID as Kafka prints it (org.apache.kafka.common.Uuid): 16 bytes in URL-safe base64 without padding."""
