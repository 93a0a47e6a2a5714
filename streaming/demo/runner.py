"""Runs the scenarios one after the other and measures the alerts of each."""

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from streaming.demo.job_process import AlertLine, JobProcessError
from streaming.demo.notification_counter import NotificationCounter, NotificationCounts
from streaming.demo.scenarios import Expectation, Scenario, ScenarioContext, ScenarioOutcome
from streaming.demo.spinner import waiting

INDENT = (0, 0, 0, 6)
FIRES_WITHIN_S = 90.0
"""After the fault, without the hold."""
RESOLVED_WITHIN_S = 180.0
COLOURS = {"critical": "bold white on red", "warning": "black on yellow", "info": "black on cyan"}


@dataclass(slots=True, kw_only=True)
class ScenarioRunner:
    """One run of the demo with its results."""

    context: ScenarioContext
    counter: NotificationCounter
    """Counts what people get."""
    holds: dict[str, float]
    """Each rule's hold in seconds, as the job runs with it."""
    console: Console
    outcomes: list[ScenarioOutcome] = field(default_factory=list)
    false_alerts: list[AlertLine] = field(default_factory=list)
    incidents: dict[str, Sequence[str]] = field(default_factory=dict)
    """The incidents that began in each scenario, by its name."""
    expected_counts: dict[str, NotificationCounts] = field(default_factory=dict)
    _printed_sentences: tuple[str, ...] = ()
    _fault_times: tuple[float, float] = (0.0, 0.0)
    """When the injection of the fault began, and when it was done."""

    def run(self, number: int, of: int, scenario: Scenario) -> None:
        """Runs one scenario: injects the fault, waits for the alerts, fixes it, waits until the alerts resolve."""
        job = self.context.job
        first, earlier = len(job.alerts()), len(self.counter.incidents)
        title = f"Scenario {number} of {of}: {scenario.title}"
        self.console.print()
        self.console.print(Panel(Text(scenario.description), title=title, title_align="left"))
        began_at = time.time()
        scenario.inject(self.context)
        self._fault_times = (began_at, time.time())
        fired = [self._await(expectation, first) for expectation in scenario.expected]
        alerts = [each for each in fired if each is not None]
        fixed = len(alerts) == len(fired) and self._fix(scenario, alerts)
        for expectation, alert in zip(scenario.expected, fired, strict=True):
            self.outcomes.append(
                ScenarioOutcome(
                    scenario=scenario.name,
                    expectation=expectation,
                    alert=alert,
                    after_hold_s=None if alert is None else self._after_hold(alert),
                    after_fault_s=None if alert is None else self._after_fault(alert),
                    resolved=fixed and alert is not None and self._resolved(alert),
                    fixable=scenario.fix is not None,
                )
            )
        if fixed:
            self._await_end(earlier)
        self.incidents[scenario.name] = self.counter.incidents[earlier:]
        self.expected_counts[scenario.name] = scenario.notified
        rules = {expectation.rule for expectation in scenario.expected} | set(scenario.also)
        self.false_alerts += [
            each for each in job.alerts()[first:] if each.state == "firing" and each.rule not in rules
        ]

    def _await_end(self, earlier: int) -> None:
        """Waits until people were notified of the end of the fault; the counts show if they were not."""
        deadline = time.monotonic() + RESOLVED_WITHIN_S
        with waiting(self.console, "waiting for the notification of the end"):
            while not self.counter.all_ended(self.counter.incidents[earlier:]) and time.monotonic() < deadline:
                time.sleep(0.1)

    def _await(self, expectation: Expectation, first: int) -> AlertLine | None:
        hold = self.holds[expectation.rule]
        with waiting(self.console, f"waiting for {expectation.rule} (hold {hold:g} s)"):
            try:
                alert = self.context.job.wait_for(
                    expectation.rule,
                    subject=expectation.subject,
                    severity=expectation.severity,
                    since=first,
                    within_s=hold + FIRES_WITHIN_S,
                )
            except JobProcessError as problem:
                self.console.print(Text(f"  NO ALERT: {problem}", style="bold red"))
                return None
        self._show(alert)
        return alert

    def _show(self, alert: AlertLine) -> None:
        badge = Text("  ").append(f" {alert.severity} ", style=COLOURS[alert.severity])
        self.console.print(badge.append(f" {alert.rule}", style="bold").append(f"  {alert.subject}"))
        self.console.print(Padding(Text(str(alert.line["summary"])), INDENT))
        delays = (
            f"alerted {self._after_hold(alert):.1f} s after the hold expired, "
            f"{self._after_fault(alert):.1f} s after the fault"
        )
        self.console.print(Padding(Text(delays, style="dim"), INDENT))
        sentences = tuple(step for step in alert.remedy if step.startswith("#"))
        if sentences and sentences == self._printed_sentences:
            self.console.print(Padding(Text("remedy: as above", style="italic"), INDENT))
            return
        self._printed_sentences = sentences
        for step in alert.remedy:
            self._print_step(step)

    def _print_step(self, step: str) -> None:
        """Prints one line of a remedy; on a terminal it is not broken, so that it can be copied."""
        text = Text(step, style="italic" if step.startswith("#") else "cyan")
        if self.console.record:
            self.console.print(Padding(text, INDENT))
        else:
            self.console.print(Text("      ").append_text(text), soft_wrap=True)

    def _fix(self, scenario: Scenario, alerts: Sequence[AlertLine]) -> bool:
        self.console.print(Text(f"  fix: {scenario.fix_description}", style="green"))
        if scenario.fix is not None:
            scenario.fix(self.context, alerts)
        return scenario.fix is not None

    def _resolved(self, alert: AlertLine) -> bool:
        with waiting(self.console, f"waiting for {alert.rule} {alert.subject} to resolve"):
            try:
                self.context.job.wait_for(
                    alert.rule,
                    "resolved",
                    subject=alert.subject,
                    since=alert.number + 1,
                    within_s=RESOLVED_WITHIN_S,
                )
            except JobProcessError as problem:
                self.console.print(Text(f"  NOT RESOLVED: {problem}", style="bold red"))
                return False
        self.console.print(Text(f"  resolved: {alert.rule} {alert.subject}", style="bold green"))
        return True

    def _after_fault(self, alert: AlertLine) -> float:
        """Returns the seconds since the fault was complete, or since it began for an alert that came before that."""
        began, done = self._fault_times
        return alert.sent_at - (done if alert.sent_at >= done else began)

    def _after_hold(self, alert: AlertLine) -> float:
        return max(0.0, alert.sent_at - alert.started_at - self.holds[alert.rule])

    @property
    def good(self) -> bool:
        """Every expected alert fired, every fixed fault resolved, and no false alert fired."""
        return all(outcome.good for outcome in self.outcomes) and not self.false_alerts and self.counts_are_right

    @property
    def counts_are_right(self) -> bool:
        """People got one notification when a fault began, one when it got worse, and one when it ended."""
        return all(self.counts(name) == expected for name, expected in self.expected_counts.items())

    def counts(self, scenario: str) -> NotificationCounts:
        """Returns how many notifications people got for the fault of a scenario, until now."""
        return self.counter.counts(self.incidents[scenario])

    def report(self) -> None:
        """Prints the table at the end of the demo."""
        table = Table(title="Alerts", title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column("scenario")
        table.add_column("alert", min_width=max(len(rule) for rule in self.holds))
        for name in ("after hold", "after fault"):
            table.add_column(name, justify="right")
        table.add_column("resolved")
        scenario = ""
        for outcome in self.outcomes:
            alert = outcome.alert
            subject = outcome.expectation.subject if alert is None else alert.subject
            table.add_row(
                "" if outcome.scenario == scenario else outcome.scenario,
                f"{outcome.expectation.rule} {subject}",
                _seconds(outcome.after_hold_s),
                _seconds(outcome.after_fault_s),
                _resolution(outcome),
            )
            scenario = outcome.scenario
        self.console.print()
        self.console.print(table)
        self.console.print(self._notifications())
        delays = [outcome.after_hold_s for outcome in self.outcomes if outcome.after_hold_s is not None]
        if delays:
            self.console.print(
                f"Detection (first observation + hold -> line in the file): "
                f"median {statistics.median(delays):.2f} s, maximum {max(delays):.2f} s"
            )
        for alert in self.false_alerts:
            text = f"FALSE ALERT: {alert.rule} {alert.subject}: {alert.line['summary']}"
            self.console.print(Text(text, style="bold red"))
        for name, expected in self.expected_counts.items():
            if self.counts(name) != expected:
                text = f"WRONG NOTIFICATIONS: {name}: {self.counts(name)}, expected {expected}"
                self.console.print(Text(text, style="bold red"))
        result = ("Every expected alert fired, no false alert fired.", "bold green")
        if not self.good:
            result = ("Not every scenario ended as expected: see above.", "bold red")
        self.console.print(Text(result[0], style=result[1]))

    def _notifications(self) -> Table:
        table = Table(title="Notifications to people", title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column("scenario")
        for name in ("fault begins", "gets worse", "ends", "others"):
            table.add_column(name, justify="right")
        for scenario in self.expected_counts:
            counts = self.counts(scenario)
            table.add_row(scenario, *map(str, (counts.begin, counts.worse, counts.end, counts.other)))
        return table


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f} s"


def _resolution(outcome: ScenarioOutcome) -> str:
    if not outcome.fixable:
        return "still firing"
    return "yes" if outcome.resolved else "NO"
