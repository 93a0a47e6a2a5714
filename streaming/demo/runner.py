"""Runs the scenarios one after the other and measures the alerts of each."""

import statistics
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from streaming.demo.fault import ExpectedAlert
from streaming.demo.job_process import JobProcessError, JsonlLine
from streaming.demo.notification_counter import NotificationCounter
from streaming.demo.scenarios import Scenario, ScenarioContext

INDENT = (0, 0, 0, 6)
RESOLVED_WITHIN_S = 180.0
COLOURS = {"critical": "bold white on red", "warning": "black on yellow", "info": "black on cyan"}
REASONS = {"firing": "fault begins", "changed": "gets worse", "resolved": "ends"}


@dataclass(slots=True, kw_only=True)
class ScenarioRunner:
    """One run of the demo with its results."""

    context: ScenarioContext
    counter: NotificationCounter
    """Counts what people get."""
    holds: dict[str, float]
    """Each rule's hold in seconds, as the job runs with it."""
    console: Console
    outcomes: list[tuple[str, ...]] = field(default_factory=list)
    """The rows of the table of expected alerts."""
    delays_s: list[float] = field(default_factory=list)
    """Of each alert, from the first observation plus the hold to the line in the file."""
    problems: list[str] = field(default_factory=list)
    """What did not end as expected."""
    incidents: dict[str, Sequence[str]] = field(default_factory=dict)
    """The incidents that began in each scenario, by its name."""
    _printed_sentences: tuple[str, ...] = ()
    _fault: tuple[float, float] = (0.0, 0.0)
    """When the newest fault began, and when it was complete."""

    def run(self, number: int, of: int, scenario: Scenario) -> None:
        """Runs one scenario: injects the fault, waits for the alerts, fixes it, waits until the alerts resolve."""
        job, name = self.context.job, scenario.name
        first, earlier = len(job.alerts()), len(self.counter.incidents)
        title = f"Scenario {number} of {of}: {scenario.title}"
        self.console.print()
        self.console.print(Panel(Text(scenario.description), title=title, title_align="left"))
        nodes, began_at = scenario.fault.nodes(self.context.lab), time.time()
        self.context.say(scenario.said.format(node=nodes[0]))
        scenario.fault.inject(self.context.lab, nodes)
        if scenario.then is not None:
            scenario.then(self.context, first)
        self._fault = (began_at, time.time())
        expected = [alert for alert in scenario.fault.expected(nodes) if alert.rule == scenario.rule]
        fired = [self._await(expectation, first) for expectation in expected]
        alerts = [line for line in fired if line is not None]
        fixed = scenario.fix is not None and len(alerts) == len(fired)
        if len(alerts) == len(fired):
            self.console.print(Text(f"  fix: {scenario.fix_description}", style="green"))
            if scenario.fix is not None:
                scenario.fix(self.context, nodes, alerts[0].remedy)
        for expectation, alert in zip(expected, fired, strict=True):
            resolved = fixed and alert is not None and self._resolved(alert)
            self._add_outcome(scenario, expectation, alert, resolved=resolved)
        if fixed:
            self._await_end(earlier)
        self.incidents[name] = self.counter.incidents[earlier:]
        rules = {alert.rule for alert in scenario.fault.alerts}
        self.problems += [
            f"FALSE ALERT: {line.rule} {line.subject}: {line.line['summary']}"
            for line in job.alerts()[first:]
            if line.state == "firing" and line.rule not in rules
        ]
        counts, right = self.counter.counts(self.incidents[name]), Counter(scenario.notified)
        if counts != right:
            self.problems.append(f"WRONG NOTIFICATIONS: {name}: {dict(counts)}, expected {dict(right)}")

    def _await(self, expectation: ExpectedAlert, first: int) -> JsonlLine | None:
        hold = self.holds[expectation.rule]
        with self.console.status(Text(f"waiting for {expectation.rule} (hold {hold:g} s)")):
            try:
                alert = self.context.job.wait_for(
                    expectation.rule,
                    subject=expectation.subject,
                    severity=expectation.severity,
                    since=first,
                    within_s=hold + expectation.within_s,
                )
            except JobProcessError as problem:
                self.console.print(Text(f"  NO ALERT: {problem}", style="bold red"))
                return None
        self._show(alert)
        summary = str(alert.line["summary"])
        self.problems += expectation.problems(severity=alert.severity, summary=summary, remedy=alert.remedy)
        return alert

    def _show(self, alert: JsonlLine) -> None:
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
            text = Text(step, style="italic" if step.startswith("#") else "cyan")
            if self.console.record:
                self.console.print(Padding(text, INDENT))
            else:
                # On a terminal a command is not broken, so that it can be copied.
                self.console.print(Text("      ").append_text(text), soft_wrap=True)

    def _resolved(self, alert: JsonlLine) -> bool:
        with self.console.status(Text(f"waiting for {alert.rule} {alert.subject} to resolve")):
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

    def _await_end(self, earlier: int) -> None:
        """Waits until people were notified of the end of the fault; the counts show if they were not."""
        deadline = time.monotonic() + RESOLVED_WITHIN_S
        with self.console.status("waiting for the notification of the end"):
            while time.monotonic() < deadline:
                begun = self.counter.incidents[earlier:]
                if self.counter.counts(begun)["resolved"] >= len(begun):
                    return
                time.sleep(0.1)

    def _add_outcome(
        self, scenario: Scenario, expectation: ExpectedAlert, alert: JsonlLine | None, *, resolved: bool
    ) -> None:
        name = "" if any(row[0] == scenario.name for row in self.outcomes) else scenario.name
        end = "still firing" if scenario.fix is None else "yes" if resolved else "NO"
        if alert is None:
            self.outcomes.append((name, f"{expectation.rule} {expectation.subject}", "-", "-", end))
        else:
            after_hold_s = self._after_hold(alert)
            self.delays_s.append(after_hold_s)
            delays = (f"{after_hold_s:.1f} s", f"{self._after_fault(alert):.1f} s")
            self.outcomes.append((name, f"{alert.rule} {alert.subject}", *delays, end))
        if alert is None or (scenario.fix is not None and not resolved):
            self.problems.append(f"{'NO ALERT' if alert is None else 'NOT RESOLVED'}: {self.outcomes[-1][1]}")

    def _after_hold(self, alert: JsonlLine) -> float:
        return max(0.0, alert.sent_at - alert.started_at - self.holds[alert.rule])

    def _after_fault(self, alert: JsonlLine) -> float:
        """Returns the seconds since the fault was complete, or since it began for an alert that came before that."""
        began, done = self._fault
        return alert.sent_at - (done if alert.sent_at >= done else began)

    def report(self) -> None:
        """Prints the tables at the end of the demo."""
        alerts = _table("Alerts", ("scenario", "alert"), ("after hold", "after fault", "resolved"), self.outcomes)
        rows = [
            (name, *(str(self.counter.counts(incidents)[reason]) for reason in REASONS))
            for name, incidents in self.incidents.items()
        ]
        self.console.print()
        self.console.print(alerts)
        self.console.print(_table("Notifications to people", ("scenario",), (*REASONS.values(),), rows))
        if self.delays_s:
            self.console.print(
                f"Detection (first observation + hold -> line in the file): "
                f"median {statistics.median(self.delays_s):.2f} s, maximum {max(self.delays_s):.2f} s"
            )
        for problem in self.problems:
            self.console.print(Text(problem, style="bold red"))
        if self.problems:
            self.console.print(Text("Not every scenario ended as expected: see above.", style="bold red"))
        else:
            self.console.print(Text("Every expected alert fired, no false alert fired.", style="bold green"))


def _table(title: str, names: Sequence[str], numbers: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for name in names:
        table.add_column(name)
    for name in numbers:
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    return table
