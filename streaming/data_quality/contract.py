"""A contract: one promise about every row of a table, why it holds, and how bad it is when it does not."""

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from rules.finding import Severity


class Suite(StrEnum):
    """What a table's rows are."""

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
    """The column is always empty: it names what is wrong with the row."""

    column: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Between:
    """The number lies within bounds, both included, where there is one."""

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
    """The text has a form, where there is one."""

    column: str
    pattern: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NotBelow:
    """The number is not below the one in another column, where both are there."""

    column: str
    floor: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Equal:
    """The column says the same as another one, where both are there."""

    column: str
    other: str


Check: TypeAlias = Present | Absent | Between | OneOf | Matches | NotBelow | Equal


@dataclass(frozen=True, slots=True, kw_only=True)
class Contract:
    """One promise. Its name is the subject of the alert that says it was broken."""

    name: str
    suite: Suite
    promise: str
    """One sentence, without a full stop: what every row keeps."""
    why: str
    """Why it holds, and what it would mean if it did not."""
    source: str
    """The KIP, Kafka class or module of ours that it comes from."""
    severity: Severity
    check: Check


EARLIEST_MS = 1_293_840_000_000
"""2011-01-01: no Kafka is older."""
LATEST_MS = 4_102_444_800_000
"""2100-01-01."""
UUID = r"^[A-Za-z0-9_-]{22}$"
"""A UUID as Kafka prints it (org.apache.kafka.common.Uuid): 16 bytes in URL-safe base64 without padding."""
