"""What a sink for people is told, and when."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from rules.alert import Alert
from rules.evaluate import RULES
from rules.finding import Severity
from rules.model.identifiers import Millis
from rules.notifications.alert_history import Filed
from rules.notifications.incident import Incidents
from rules.notifications.planner import INTERVAL_MS, Desk, Plan
from rules.notifications.silence import Silence
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, alert

MINUTE = 60_000
HOUR = 60 * MINUTE


class Told:
    """A sink for people, the ledger before it, and a clock: each step records alerts and says what is told."""

    def __init__(self, *, repeat_ms: int | None = 4 * HOUR) -> None:
        self.desk = Desk(RULES, repeat_ms=None if repeat_ms is None else Millis(repeat_ms))
        self.incidents = Incidents(RULES)
        self.filed: dict[str, list[Filed]] = {}
        self.told_at: dict[str, Millis] = {}
        self.now = NOON_MS
        self.silences: list[Silence] = []

    def plan(self) -> Plan:
        return self.desk.plan(self.filed, told_at_ms=self.told_at, silences=self.silences, now_ms=self.now)

    def step(self, *alerts: Alert, after_ms: int = 0, reached: bool = True) -> list[str]:
        """What is told now, one line a notice: why, and of what, the root cause first; `+` marks the news."""
        self.now = Millis(self.now + after_ms)
        for each in alerts:
            incident = self.incidents.place(each, at_ms=self.now)
            self.filed.setdefault(incident, []).append(Filed(alert=each, told=False))
        plan = self.plan()
        lines = []
        for notice in plan.notices:
            news = {each.fingerprint for each in notice.news}
            shown = [f"{'+' if each.fingerprint in news else ''}{each.subject}" for each in notice.alerts]
            lines.append(f"{notice.reason} {notice.severity}: {' '.join(shown)}")
            if reached:
                self.told_at[notice.incident] = self.now
                self.mark(notice.news)
        forgotten = {each.key for each in plan.forgotten}
        for incident, filed in self.filed.items():
            self.filed[incident] = [each for each in filed if each.alert.key not in forgotten]
        return lines

    def mark(self, alerts: Sequence[Alert]) -> None:
        keys = {each.key for each in alerts}
        for incident, filed in self.filed.items():
            self.filed[incident] = [replace(each, told=each.told or each.alert.key in keys) for each in filed]

    def hush(self, **matching: Any) -> None:
        self.silences.append(
            Silence(
                id="s1", starts_at_ms=self.now, ends_at_ms=Millis(self.now + HOUR), author="eva", comment="", **matching
            )
        )


def stale(node: int, *, resolved: bool = False, severity: Severity = Severity.WARNING, at_ms: int = 0) -> Alert:
    return alert(
        f"voter{node}",
        rule="stale-voter-endpoint",
        resolved=resolved,
        severity=severity,
        observed_at_ms=Millis(NOON_MS + at_ms),
    )


def test_an_incident_is_told_when_it_begins_and_when_it_is_over_and_not_between() -> None:
    told = Told()
    assert told.step(stale(1)) == ["firing warning: +voter1"]
    assert told.step(after_ms=10 * MINUTE) == []
    assert told.step(stale(1, resolved=True), after_ms=1) == ["resolved warning: +voter1"]
    assert told.step(after_ms=24 * HOUR) == []


def test_alerts_that_come_together_are_told_together() -> None:
    assert Told().step(stale(1), stale(2), stale(3)) == ["firing warning: +voter1 +voter2 +voter3"]


def test_lesser_news_wait_for_each_other_and_worse_news_do_not() -> None:
    told = Told()
    told.step(stale(1), stale(2))
    assert told.step(stale(3), after_ms=1_000) == []
    assert told.step(stale(2, resolved=True), after_ms=1_000) == []
    assert told.step(after_ms=INTERVAL_MS) == ["changed warning: voter1 +voter3 +voter2"]
    worse = stale(1, severity=Severity.CRITICAL, at_ms=90_000)
    assert told.step(worse, after_ms=1_000) == ["changed critical: +voter1 voter3 voter2"]


def test_the_end_is_told_at_once_even_after_other_news() -> None:
    told = Told()
    told.step(stale(1), stale(2))
    told.step(stale(1, resolved=True), after_ms=INTERVAL_MS)
    assert told.step(stale(2, resolved=True), after_ms=1) == ["resolved warning: voter1 +voter2"]


def test_the_root_cause_stands_first_whatever_came_first() -> None:
    tolerance = alert("quorum", rule="failure-tolerance", severity=Severity.CRITICAL)
    assert Told().step(tolerance, stale(1)) == ["firing critical: +voter1 +quorum"]


def test_the_root_cause_stands_first_also_when_all_is_over() -> None:
    told = Told()
    told.step(alert("quorum", rule="failure-tolerance", severity=Severity.CRITICAL), stale(1))
    over = alert("quorum", rule="failure-tolerance", severity=Severity.CRITICAL, resolved=True)
    assert told.step(over, stale(1, resolved=True), after_ms=1) == ["resolved critical: +voter1 +quorum"]


def test_a_cause_that_is_over_explains_nothing_that_stands() -> None:
    told = Told()
    lagging = alert("voter2", rule="voter-lagging", severity=Severity.WARNING, started_at_ms=Millis(NOON_MS - 1))
    told.step(lagging)
    told.step(alert("quorum", rule="failure-tolerance", severity=Severity.WARNING), stale(1), after_ms=INTERVAL_MS)
    assert told.step(stale(1, resolved=True), after_ms=INTERVAL_MS) == ["changed warning: quorum voter2 +voter1"]


def test_a_consequence_waits_while_its_cause_fires_and_is_told_if_it_outlives_it() -> None:
    told = Told()
    cause, consequence = alert("cluster", rule="no-leader"), alert("broker 5", rule="broker-fenced")
    assert told.step(cause, consequence) == ["firing critical: +cluster"]
    assert told.step(alert("cluster", rule="no-leader", resolved=True), after_ms=MINUTE) == [
        "firing critical: +broker 5 +cluster"
    ]


def test_a_consequence_that_ends_behind_its_cause_is_never_told() -> None:
    told = Told()
    told.step(alert("cluster", rule="no-leader"), alert("broker 5", rule="broker-fenced"))
    assert told.step(alert("broker 5", rule="broker-fenced", resolved=True), after_ms=INTERVAL_MS) == []
    assert told.step(alert("cluster", rule="no-leader", resolved=True)) == ["resolved critical: +cluster"]


def test_what_stands_is_told_again_after_each_repeat_interval() -> None:
    told = Told()
    told.step(stale(1))
    assert told.step(after_ms=4 * HOUR - 1) == []
    assert told.step(after_ms=1) == ["repeated warning: voter1"]
    assert told.step(after_ms=4 * HOUR) == ["repeated warning: voter1"]


def test_a_sink_that_repeats_nothing_is_told_nothing_again() -> None:
    told = Told(repeat_ms=None)
    told.step(stale(1))
    assert told.step(after_ms=100 * HOUR) == []


def test_a_silenced_alert_is_told_when_the_silence_ends_before_it_does() -> None:
    told = Told()
    told.hush(rule="stale-*")
    assert told.step(stale(1)) == []
    assert told.plan().silenced == 1
    assert told.step(after_ms=HOUR) == ["firing warning: +voter1"]


def test_an_alert_silenced_from_beginning_to_end_is_never_told() -> None:
    told = Told()
    told.hush(subject="voter1")
    told.step(stale(1))
    assert told.step(stale(1, resolved=True), after_ms=MINUTE) == []
    assert told.step(after_ms=HOUR) == []


def test_what_was_told_before_the_silence_is_closed_but_not_repeated_under_it() -> None:
    told = Told(repeat_ms=MINUTE)
    told.step(stale(1))
    told.hush(cluster="alpha")
    assert told.step(after_ms=2 * MINUTE) == []
    assert told.step(stale(1, resolved=True)) == ["resolved warning: +voter1"]


def test_what_may_have_been_taken_is_closed_although_it_is_silenced() -> None:
    """It was sent, and no answer came that it was taken: nobody is left with an incident that never closes."""
    told = Told()
    told.step(stale(1), reached=False)
    told.filed = {one: [replace(each, asked=True) for each in filed] for one, filed in told.filed.items()}
    told.hush(rule="*")
    assert told.step(stale(1, resolved=True)) == ["resolved warning: +voter1"]


def test_when_time_alone_makes_another_plan() -> None:
    told = Told()
    assert told.plan().due_ms is None
    told.step(stale(1))
    for due in (NOON_MS + INTERVAL_MS, NOON_MS + 4 * HOUR):
        assert told.plan().due_ms == due
        told.now = Millis(due)
    assert told.plan().due_ms is None
    told.hush(rule="no-*")
    assert told.plan().due_ms == told.now + HOUR, "the end of a silence"


@pytest.mark.parametrize("other", [{"cluster": "beta"}, {"rule": "no-*"}, {"subject": "voter2"}, {"severity": "info"}])
def test_a_silence_that_speaks_of_something_else_silences_nothing(other: dict[str, str]) -> None:
    told = Told()
    told.hush(**other)
    assert told.step(stale(1)) == ["firing warning: +voter1"]


def test_a_sink_that_was_away_is_told_all_of_it_once() -> None:
    told = Told()
    told.step(stale(1), reached=False)
    told.step(stale(1, resolved=True), after_ms=MINUTE, reached=False)
    told.step(alert("cluster", rule="no-leader"), after_ms=MINUTE, reached=False)
    assert told.step(after_ms=HOUR) == ["firing critical: +cluster", "resolved warning: +voter1"]
    assert told.step(after_ms=1) == []


def test_a_clock_that_was_set_back_holds_nothing_up() -> None:
    told = Told()
    told.step(stale(1))
    assert told.step(stale(2), after_ms=-HOUR) == ["changed warning: voter1 +voter2"]
    assert told.step(after_ms=-24 * HOUR) == ["repeated warning: voter1 voter2"]
    assert told.step(after_ms=4 * HOUR - 1) == []
