"""What a rule consists of: what its file declares, and how its results are computed."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from rules.facts.needs import Need
from rules.facts.quorum import Facts
from rules.finding import Draft, RuleResult, Severity, Threshold, Thresholds
from rules.model.job_state import JobState
from rules.model.subject import Subject

NO_LEADER = "no-leader"
"""The rule about a total outage: its finding explains those of most others (`Rule.without_leader`)."""


def _no_results(_observed: Facts | JobState, _thresholds: Thresholds) -> Iterable[RuleResult]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredRule:
    """What the file of a rule declares; `rules.evaluate` adds what the file itself is: `id` and `text`."""

    id: str = ""
    """The file's name with dashes."""
    title: str
    text: str = ""
    """The operator's page: the module's docstring."""
    hold: Threshold
    """Made by `hold`."""
    further_thresholds: tuple[Threshold, ...] = ()
    needs: tuple[Need, ...] = ()
    """What must be observed; while a need is not met, the rule's only result is unknown or not applicable."""
    without_leader: bool = False
    """Whether its findings are true, and of use, while no controller leads: otherwise `no-leader` inhibits it too."""
    inhibited_by: tuple[str, ...] = ()
    """Rules whose finding is the root cause of this rule's findings: while one is active, this result is unknown."""
    grouped_with: tuple[str, ...] = ()
    """Rules whose finding often has the same cause: both fire, and one notification reports both as one incident."""
    about_observation: bool = False
    """Whether a finding says what kraftwatch does not observe: the health is then unknown, and not worse by it."""
    records_at_risk: bool = False
    """Whether a finding, of any severity, means that acknowledged records may be lost."""
    looks_back: bool = False
    """Whether it counts what happened: its alert fires on when that is over, and what is true now is said before it."""
    outlives_cause: bool = False
    """Whether a finding that is left when the last alert of `inhibited_by` resolves belongs to the same incident.

    It then fires at once instead of after its hold, unless it is critical: such a finding may pass while the quorum
    recovers.
    """

    @property
    def thresholds(self) -> tuple[Threshold, ...]:
        """Every threshold: `hold`, `clear`, and those that only this rule reads."""
        return (self.hold, *self.further_thresholds)


def urgency(rule: DeclaredRule | None, severity: Severity) -> tuple[int, bool, bool]:
    """Sorts findings and alerts: the worst first, a total outage before others, what is true now before what happened.

    `rule`: None for one that no longer exists.
    """
    return -severity.rank, rule is None or rule.id != NO_LEADER, rule is not None and rule.looks_back


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule(DeclaredRule):
    """A rule about a cluster's quorum."""

    evaluate: Callable[[Facts, Thresholds], Iterable[RuleResult | Draft]] = _no_results
    """The module's function of that name, which is pure: the same arguments give the same results in the same order.

    It may assume that every need is met; callers therefore use `rules.evaluate.evaluate_rule`.
    """
    resolved: Callable[[Facts, Subject], str] | str = ""
    """What is true when its alert resolves: a sentence, or a function of the facts now and the alert's subject.

    There may be no finding for several reasons: the fault was fixed, the subject was removed, or what is remembered has
    expired. The sentence says which one holds.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRule(DeclaredRule):
    """A rule about the job itself."""

    evaluate: Callable[[JobState, Thresholds], Iterable[RuleResult]] = _no_results
    """As `Rule.evaluate`."""
    resolved: Callable[[JobState, Subject], str] | str = ""
    """As `Rule.resolved`."""
