"""A scenario: one fault of a quorum, the alerts that it must cause, and how it is fixed."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from deploy.lab.lab import Lab
from streaming.demo.job_process import AlertLine, JobProcess
from streaming.demo.notification_counter import NotificationCounts

Print = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioContext:
    """What a scenario works with."""

    lab: Lab
    job: JobProcess
    say: Print
    """Prints each step as it is done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """An alert that must fire."""

    rule: str
    subject: str = ""
    """A part of the alert's subject."""
    severity: str = ""
    """The exact severity; empty for any."""
    within_s: float = 90.0
    """Seconds after the fault, without the hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One fault, described as an operator would meet it."""

    name: str
    """Three words for a table."""
    title: str
    description: str
    """What happens, and what an operator does not notice."""
    inject: Callable[[ScenarioContext], None]
    expected: tuple[Expectation, ...]
    fix_description: str
    """How it is fixed, or why it cannot be."""
    fix: Callable[[ScenarioContext, Sequence[AlertLine]], None] | None
    """Takes the alerts that fired; None if it cannot be fixed."""
    notified: NotificationCounts
    """The notifications that people must get: one when it begins, one when it gets worse, one when it ends."""
    resolved_within_s: float = 180.0
    also: tuple[str, ...] = ()
    """Rules that may fire as well: real consequences, not false alerts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioOutcome:
    """The result of one expected alert."""

    scenario: str
    expectation: Expectation
    alert: AlertLine | None
    after_hold_s: float | None
    """Seconds from the first observation plus the hold to the line in the file."""
    after_fault_s: float | None
    """Seconds from the fault to the line in the file: the physical delay and the hold."""
    resolved_after_s: float | None
    """Seconds from the end of the fix to the resolved line; None if it did not resolve or could not be fixed."""
    fixable: bool

    @property
    def good(self) -> bool:
        """The alert fired, and resolved if the fault was fixed."""
        return self.alert is not None and (not self.fixable or self.resolved_after_s is not None)
