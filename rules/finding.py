"""What a rule says: a Finding with its evidence and its remedy, and what a rule is."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeAlias

from rules.model.identifiers import Millis
from rules.model.quorum import Quorum

if TYPE_CHECKING:
    Plain: TypeAlias = "str | int | float | bool | list[Plain] | dict[str, Plain] | None"
    """What evidence is made of: exactly what JSON can say."""
else:
    # Readers of annotations (pydantic) cannot follow an alias that names itself.
    Plain = Any


class Severity(StrEnum):
    """What to do about it: get up now, look today, know about it."""

    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A condition that stands now, as one rule sees it."""

    rule: str
    subject: str
    """What it is about, stable while the condition lasts: it is part of the alert's identity."""
    severity: Severity
    summary: str
    """One sentence for a phone's lock screen: what, where, how bad."""
    evidence: Mapping[str, Plain]
    remedy: tuple[str, ...]
    """In order. Each is one shell command, or one sentence that begins with `#`."""
    standing_ms: Millis | None = None
    """How long it has stood by the evidence's own clock, where that is better than when we first saw it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownResult:
    """The rule cannot judge now: not healthy, not ill. What it told before stands until it can judge again."""

    rule: str
    subject: str | None
    """The one subject it cannot judge; None for all it has."""
    why: str
    """One sentence: what is not seen, and since when."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotApplicable:
    """The rule has nothing to judge on this cluster, a static quorum for one: an answer of its own, never "ok"."""

    rule: str
    why: str


RuleResult: TypeAlias = Finding | UnknownResult | NotApplicable
"""What a rule may answer. No verdict at all about a subject means: judged, and well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """One number a user may change (`--set RULE.NAME=VALUE`), with its reasoned default."""

    name: str
    default: float
    unit: str
    meaning: str
    """What the operator gets by changing it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """Everything the rules say of one quorum at one moment, in stable order."""

    findings: tuple[Finding, ...] = ()
    unknown: tuple[UnknownResult, ...] = ()
    not_applicable: tuple[NotApplicable, ...] = ()

    def knows(self, rule: str, subject: str) -> bool:
        """Whether the absence of a finding of this rule on this subject means that all is well with it."""
        return not any(gap.rule == rule and gap.subject in (None, subject) for gap in self.unknown)


HOLD = "hold"
CLEAR = "clear"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule: its id is its file's name with dashes.

    `judge` is pure: the same quorum and thresholds give the same findings in the same order.
    """

    id: str
    title: str
    text: str
    """The operator's page: the module's docstring."""
    thresholds: tuple[Threshold, ...]
    evaluate: Callable[[Quorum, "Thresholds"], Iterable[RuleResult]]
    inhibited_by: tuple[str, ...] = ()
    """Rules whose finding is the root cause of what this one would say: while one stands, this one cannot tell."""
    grouped_with: tuple[str, ...] = ()
    """Rules whose finding often has the same cause: both stand, and people are told them as one incident."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """The numbers in force for one rule: its defaults, overridden by the configuration."""

    values: Mapping[str, float] = field(default_factory=dict)

    def __getitem__(self, name: str) -> float:
        """The value of a threshold, in that threshold's unit."""
        return self.values[name]

    def ms(self, name: str) -> Millis:
        """A threshold given in seconds, as milliseconds."""
        return Millis(round(self.values[name] * 1000))


def hold(seconds: float) -> Threshold:
    """How long the condition must stand before the alert fires."""
    return Threshold(
        name=HOLD, default=seconds, unit="s", meaning="the condition must stand this long before the alert fires"
    )


def clear(seconds: float = 10.0) -> Threshold:
    """How long the condition must be gone before the alert resolves."""
    return Threshold(
        name=CLEAR, default=seconds, unit="s", meaning="the condition must be gone this long before the alert resolves"
    )
