"""Plays the scenes one after the other, and measures what the job told of each."""

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

from streaming.demo.job_process import Told, WatcherError
from streaming.demo.scenario import Expectation, Outcome, Play, Scene
from streaming.demo.spinner import waiting

INDENT = (0, 0, 0, 6)
COLOURS = {"critical": "bold white on red", "warning": "black on yellow", "info": "black on cyan"}


@dataclass(slots=True, kw_only=True)
class Stage:
    """One run of the demo: what came, and what came that should not have."""

    play: Play
    holds: dict[str, float]
    """Each rule's hold in seconds, as the job runs with it."""
    console: Console
    outcomes: list[Outcome] = field(default_factory=list)
    false_alarms: list[Told] = field(default_factory=list)
    _advised: tuple[str, ...] = ()
    _moments: tuple[float, float] = (0.0, 0.0)
    """When the scene's hurt began, and when it was done."""

    def act(self, number: int, of: int, scene: Scene) -> None:
        """Play one scene: hurt, wait for what must be told, mend, wait for what must resolve."""
        watcher = self.play.watcher
        first = len(watcher.told())
        self.console.print()
        self.console.print(Panel(Text(scene.story), title=f"Scene {number} of {of}: {scene.title}", title_align="left"))
        hurt_at = time.time()
        scene.hurt(self.play)
        self._moments = (hurt_at, time.time())
        came = [self._await(expectation, first) for expectation in scene.expected]
        told = [each for each in came if each is not None]
        mended_at = self._mend(scene, told) if len(told) == len(came) else None
        for expectation, alert in zip(scene.expected, came, strict=True):
            resolved = self._resolved(scene, alert, mended_at)
            self.outcomes.append(
                Outcome(
                    scene=scene.name,
                    expectation=expectation,
                    told=alert,
                    after_hold_s=None if alert is None else self._after_hold(alert),
                    after_hurt_s=None if alert is None else self._after_hurt(alert),
                    resolved_after_s=resolved,
                    resolvable=scene.mend is not None,
                )
            )
        rules = {expectation.rule for expectation in scene.expected} | set(scene.also)
        self.false_alarms += [
            each for each in watcher.told()[first:] if each.state == "firing" and each.rule not in rules
        ]

    def _await(self, expectation: Expectation, first: int) -> Told | None:
        watcher = self.play.watcher
        hold = self.holds[expectation.rule]
        with waiting(self.console, f"waiting for {expectation.rule} (its hold is {hold:g} s)"):
            try:
                told = watcher.wait_for(
                    expectation.rule,
                    subject=expectation.subject,
                    severity=expectation.severity,
                    since=first,
                    within_s=hold + expectation.within_s,
                )
            except WatcherError as problem:
                self.console.print(Text(f"  NOT TOLD: {problem}", style="bold red"))
                return None
        self._show(told)
        return told

    def _show(self, told: Told) -> None:
        badge = Text("  ").append(f" {told.severity} ", style=COLOURS[told.severity])
        self.console.print(badge.append(f" {told.rule}", style="bold").append(f"  {told.subject}"))
        self.console.print(Padding(Text(str(told.line["summary"])), INDENT))
        delays = f"{self._after_hold(told):.1f} s after its hold, {self._after_hurt(told):.1f} s after the harm"
        self.console.print(Padding(Text(f"told {delays}", style="dim"), INDENT))
        advice = tuple(step for step in told.remedy if step.startswith("#"))
        if advice and advice == self._advised:
            self.console.print(Padding(Text("remedy: the same", style="italic"), INDENT))
            return
        self._advised = advice
        for step in told.remedy:
            self._advise(step)

    def _advise(self, step: str) -> None:
        """One line of a remedy; on a terminal it is never broken, so that it can be copied whole."""
        text = Text(step, style="italic" if step.startswith("#") else "cyan")
        if self.console.record:
            self.console.print(Padding(text, INDENT))
        else:
            self.console.print(Text("      ").append_text(text), soft_wrap=True)

    def _mend(self, scene: Scene, told: Sequence[Told]) -> float | None:
        self.console.print(Text(f"  mending: {scene.mending}", style="green"))
        if scene.mend is None:
            return None
        scene.mend(self.play, told)
        return time.time()

    def _resolved(self, scene: Scene, alert: Told | None, mended_at: float | None) -> float | None:
        """Seconds from the mending's end until the alert resolved for good; at least 0."""
        if alert is None or mended_at is None:
            return None
        with waiting(self.console, f"waiting for {alert.rule} {alert.subject} to resolve"):
            try:
                resolved = self.play.watcher.wait_for(
                    alert.rule,
                    "resolved",
                    subject=alert.subject,
                    since=alert.number + 1,
                    within_s=scene.resolved_within_s,
                )
            except WatcherError as problem:
                self.console.print(Text(f"  NOT RESOLVED: {problem}", style="bold red"))
                return None
        self.console.print(Text(f"  resolved: {alert.rule} {alert.subject}", style="bold green"))
        return max(0.0, resolved.sent_at - mended_at)

    def _after_hurt(self, told: Told) -> float:
        """The physical delay: from the damage done, or from its beginning where it was told before that."""
        began, done = self._moments
        return told.sent_at - (done if told.sent_at >= done else began)

    def _after_hold(self, told: Told) -> float:
        return max(0.0, told.sent_at - told.started_at - self.holds[told.rule])

    @property
    def good(self) -> bool:
        """Everything was told, everything mended was resolved, and nothing false fired."""
        return all(outcome.good for outcome in self.outcomes) and not self.false_alarms

    def report(self) -> None:
        """The table that the demo ends with."""
        table = Table(title="What the job told", title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column("scene")
        table.add_column("alert", min_width=max(len(rule) for rule in self.holds))
        for name in ("hold +", "harm +"):
            table.add_column(name, justify="right")
        table.add_column("resolved")
        scene = ""
        for outcome in self.outcomes:
            told = outcome.told
            subject = outcome.expectation.subject if told is None else told.subject
            table.add_row(
                "" if outcome.scene == scene else outcome.scene,
                f"{outcome.expectation.rule} {subject}",
                _seconds(outcome.after_hold_s),
                _seconds(outcome.after_hurt_s),
                _resolution(outcome),
            )
            scene = outcome.scene
        self.console.print()
        self.console.print(table)
        delays = [outcome.after_hold_s for outcome in self.outcomes if outcome.after_hold_s is not None]
        if delays:
            self.console.print(
                f"Detection (first observation + hold -> line in the file): "
                f"median {statistics.median(delays):.2f} s, worst {max(delays):.2f} s"
            )
        for told in self.false_alarms:
            self.console.print(
                Text(f"FALSE ALARM: {told.rule} {told.subject}: {told.line['summary']}", style="bold red")
            )
        verdict = ("Everything was told, nothing false fired.", "bold green")
        if not self.good:
            verdict = ("Not everything was as it should be: see above.", "bold red")
        self.console.print(Text(verdict[0], style=verdict[1]))


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f} s"


def _resolution(outcome: Outcome) -> str:
    if not outcome.resolvable:
        return "stands"
    return "NO" if outcome.resolved_after_s is None else "yes"
