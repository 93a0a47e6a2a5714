"""The results of a rule (finding, unknown, not applicable), and the thresholds that it is evaluated with."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Final, TypeAlias

from rules.claims.claim import Claim
from rules.model.identifiers import Millis, NodeId
from rules.model.job_state import ClockStep, RefusedRows
from rules.model.monitoring import Reason
from rules.model.plain import Plain as Plain
from rules.model.subject import Subject


class Severity(StrEnum):
    """How soon to act: critical at once, warning today, info when convenient. Most severe first."""

    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"

    @property
    def rank(self) -> int:
        """The order of severities: 0 for info, 1 for warning, 2 for critical."""
        return len(Severity) - 1 - list(Severity).index(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingFacts:
    """What programs read of a finding and, also after a restart, of its alert. Its evidence is for people."""

    failed_nodes: tuple[NodeId, ...] = ()
    """The nodes whose process does not do its part.

    Ids are unique across roles (KIP-500): a controller and a broker with the same id are one process, and one incident.
    """
    clusters: tuple[str, ...] = ()
    """Of a finding about the job: the clusters that it reports. Its alert is routed like theirs."""
    unobserved: tuple[Reason, ...] | None = None
    """Why nothing of the quorum is observed; None: something is, or the finding is about something else."""
    clock_step: ClockStep | None = None
    """How the clock of the job's host was set."""
    refused: RefusedRows | None = None
    """The first of the refused rows."""


NO_FACTS: Final = FindingFacts()


@dataclass(frozen=True, slots=True, kw_only=True)
class PastFailures:
    """That nodes started or failed again and again, so that they may fail again. Announced restarts are none."""

    times: tuple[tuple[NodeId, Millis], ...]
    """Each start or failure: the node, and when, by the clock of the monitor or of the log."""
    enough: int
    """With fewer of one node nothing follows."""
    until: str
    """What ends it, as the end of a sentence."""
    ends_at_ms: Millis | None = None
    """When it ends by itself, if nothing happens until then, by the monitor's clock; None: not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A condition that one rule finds active now."""

    rule: str = ""
    """The rule's id, which `rules.evaluate.evaluate_rule` adds."""
    subject: Subject
    """What the finding is about. It stays the same while the condition lasts: it is part of the alert's identity."""
    severity: Severity
    summary: str
    """One sentence for a phone's lock screen: what is wrong, where, how bad."""
    evidence: Mapping[str, Plain]
    remedy: tuple[str, ...]
    """In order. Each line is one shell command, or one sentence that begins with `#`."""
    facts: FindingFacts = NO_FACTS
    starts: tuple[NodeId, ...] = ()
    """The nodes that the remedy starts or restarts besides those that its `Step` values do: its first steps are then
    those of `start_conditions`."""
    keep_running: frozenset[NodeId] = frozenset()
    """The controllers that must not be restarted while it lasts: `safe-to-restart` says so too."""
    past_failures: "PastFailures | None" = None
    """What `keep_running` follows from, if it follows from the past alone."""
    claims: tuple[Claim, ...] = ()
    """What the summary and the remedy say of the quorum and its nodes; `rules.evaluate.results_of` collects it."""
    condition_age_ms: Millis | None = None
    """How long the condition has lasted by the evidence's own clock; None if only our observations tell."""
    hold_ms: Millis | None = None
    """How long it must last before its alert fires; None for the rule's `hold`."""

    def hold(self, thresholds: "Thresholds") -> Millis:
        """Returns how long it must last before its alert fires. `thresholds`: those of its rule."""
        return thresholds.ms(HOLD) if self.hold_ms is None else self.hold_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownResult:
    """The rule cannot be evaluated now. Its firing alerts keep firing until it can be evaluated again."""

    rule: str = field(default_factory=str)  # a factory, so that the JSON schema shows no default: it is always set
    """Rule id."""
    subject: Subject | None = None
    """The one subject whose state is unknown; without it, all subjects of the rule."""
    why: str
    """One sentence: what is not observed, and since when."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotApplicable:
    """The rule has nothing to evaluate on this cluster, for example on a static quorum. This does not mean healthy."""

    rule: str = field(default_factory=str)  # a factory, so that the JSON schema shows no default: it is always set
    """Rule id."""
    why: str
    """Why it does not apply."""


RuleResult: TypeAlias = Finding | UnknownResult | NotApplicable
"""One result of a rule. A subject without any result was evaluated and is healthy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A finding whose texts are made only if it is reported: of a rule that may have one for each topic or broker."""

    subject: Subject
    severity: Severity
    make: Callable[[], Finding]
    """Returns the finding, about this subject and of this severity."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """One number that a user may change (`--set RULE.NAME=VALUE`), with its default."""

    name: str
    default: float
    unit: str = "s"
    meaning: str
    """What the number decides, and why the default is what it is."""


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """The results of all rules for one quorum at one time, in stable order. No slots: what is unknown is indexed."""

    findings: tuple[Finding, ...] = ()
    unknown: tuple[UnknownResult, ...] = ()
    not_applicable: tuple[NotApplicable, ...] = ()
    failed: Mapping[str, str] = field(default_factory=dict)
    """The rules that raised an exception, with its type and where it was raised. Each is unknown as well."""

    def knows(self, rule: str, subject: str) -> bool:
        """Returns whether the absence of a finding of this rule about this subject means that it is healthy."""
        return not self.unknown_subjects & {(rule, None), (rule, subject)}

    def why_unknown(self, rule: str, subject: str) -> str | None:
        """Returns why it is unknown whether the rule's condition about this subject holds; None if that is known."""
        about = ((rule, subject), (rule, None))
        return next((self._why_unknown[one] for one in about if one in self._why_unknown), None)

    @cached_property
    def _why_unknown(self) -> Mapping[tuple[str, str | None], str]:
        return {
            (result.rule, None if result.subject is None else str(result.subject)): result.why
            for result in self.unknown
        }

    @cached_property
    def unknown_subjects(self) -> frozenset[tuple[str, str | None]]:
        """Rule and subject (None: each of the rule), as text, of what is unknown."""
        return frozenset(self._why_unknown)


HOLD = "hold"
CLEAR = "clear"


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """What is in force for one rule: its numbers, and how the configuration overrides its results."""

    values: Mapping[str, float] = field(default_factory=dict)
    severity: Severity | None = None
    """The severity of every finding of the rule; None: as the rule gives it."""
    enabled: bool = True
    """False: the rule is not evaluated; its only result is `NotApplicable`."""

    def __getitem__(self, name: str) -> float:
        """Returns the value of a threshold, in that threshold's unit."""
        return self.values[name]

    def ms(self, name: str) -> Millis:
        """Returns a threshold that is given in seconds as milliseconds."""
        return Millis(round(self.values[name] * 1000))


def hold(seconds: float, why: str = "") -> Threshold:
    """Returns the threshold for how long a condition must be active before its alert fires, and why so long."""
    meaning = "the condition must last this long before the alert fires" + (f": {why}" if why else "")
    return Threshold(name=HOLD, default=seconds, meaning=meaning)


def window_of(what: str, remembered: str = "At most an hour is remembered") -> Threshold:
    """Returns the threshold for the time over which something in the log is counted."""
    meaning = f"the time over which {what} are counted, by the timestamps in the log. {remembered}"
    return Threshold(name="window", default=900.0, meaning=meaning)


def keep_firing_for(seconds: float, after: str) -> Threshold:
    """Returns the threshold for how long an alert about an event in the log fires."""
    meaning = f"how long the alert fires after {after}, by the timestamps in the log"
    return Threshold(name="keep_firing_for", default=seconds, meaning=meaning)


ALERTS = (
    Threshold(name=CLEAR, default=10.0, meaning="the condition must be absent this long before the alert resolves"),
)
"""What all rules share of their alerts."""
ALERTS_SECTION = "alerts"
"""Their place in the configuration, among the thresholds."""
