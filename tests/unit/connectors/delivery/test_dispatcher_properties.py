"""Properties of delivery: nothing is lost, nothing is sent twice, and every alert that was sent is also resolved."""

import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.delivery.ledger import Ledger
from connectors.sinks.sink import DeliveryMode, Outcome, Retry
from connectors.store import sqlite_file
from connectors.store.tables import job_database
from rules.alert import Alert, AlertState
from rules.evaluate import RULES
from rules.finding import Severity
from rules.model.identifiers import Millis
from rules.notifications.notification import Notification, NotifyReason
from rules.notifications.route import Route, Silence
from tests.recording_dispatcher import RecordingDispatcher
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, RecordingSink, alert

ALERTS = (
    # The first inhibits the second and is grouped with the third; the others are unrelated.
    ("alpha", "no-leader", "one"),
    ("alpha", "broker-fenced", "one"),
    ("alpha", "stale-voter-endpoint", "two"),
    ("alpha", "version-drift", "two"),
    ("beta", "version-drift", "two"),
)
"""The alerts, few so that each changes often: cluster, rule and subject."""
CLUSTERS = {cluster for cluster, _, _ in ALERTS}
RULE_IDS = {rule for _, rule, _ in ALERTS}
PATTERNS = sorted(RULE_IDS | {"one", "two"})
SECOND = 1_000
LONG_MS = 3_600 * SECOND

Step: TypeAlias = tuple[str, *tuple[Any, ...]]
"""A method of `SimulatedJob` and its arguments."""
CHANGES = st.tuples(st.just("change"), st.sampled_from(ALERTS), st.sampled_from([*Severity, None, None]))
TIME_PASSES = st.tuples(st.just("let_pass"), st.sampled_from([1, 2, 10, 59, 61, 600, 4_000]))
SILENCES = st.tuples(st.just("silence"), st.sampled_from(PATTERNS), st.sampled_from([5, 100, 5_000]))
OUTAGES = st.tuples(st.just("set_unreachable"), st.booleans())
RESTARTS = st.tuples(st.just("restart"))


def step_lists(*kinds: "st.SearchStrategy[Any]") -> "st.SearchStrategy[list[Step]]":
    return st.lists(st.one_of(CHANGES, *kinds), min_size=20, max_size=60)


@dataclass
class UnreliableSink(RecordingSink):
    """Accepts nothing while `unreachable`; with `loses_responses`, accepts everything and returns Retry."""

    loses_responses: bool = False

    def send(
        self, notifications: Sequence[Notification], *, sent_at_ms: Millis, deadline_s: float
    ) -> Sequence[Outcome]:
        outcomes = super().send(notifications, sent_at_ms=sent_at_ms, deadline_s=deadline_s)
        return [Retry(reason="response lost")] * len(outcomes) if self.loses_responses else outcomes


@dataclass
class SimulatedJob:
    """The job, the state of every alert and the sinks; it executes a list of steps."""

    folder: Path
    now_ms: int = NOON_MS
    firing: dict[tuple[str, str, str], Alert] = field(default_factory=dict)
    recorded: list[Alert] = field(default_factory=list)
    silences: list[Silence] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.people = UnreliableSink("people", mode=DeliveryMode.INCIDENTS, repeat_s=900)
        self.record = UnreliableSink("record")
        self.pager = UnreliableSink("pager", mode=DeliveryMode.INCIDENTS, route=Route(min_severity=Severity.CRITICAL))
        self.archive = UnreliableSink("archive", route=Route(min_severity=Severity.CRITICAL, clusters=("al*",)))
        self.sinks = (self.people, self.record, self.pager, self.archive)
        self.restart()

    def restart(self) -> None:
        """Starts the job, or starts it again with the ledger's file."""
        self.ledger = Ledger(job_database(self.folder))
        self.dispatcher = RecordingDispatcher(
            self.ledger, self.sinks, silences=lambda _: self.silences, deadline_s=60, patience_s=60
        )

    def execute(self, steps: Iterable[Step]) -> "SimulatedJob":
        for method, *arguments in steps:
            getattr(self, method)(*arguments)
        return self

    def let_pass(self, seconds: int) -> None:
        self.now_ms += seconds * SECOND
        self.deliver()

    def silence(self, pattern: str, seconds: int) -> None:
        """Silences a rule or a subject."""
        where = {"rule" if pattern in RULE_IDS else "subject": pattern}
        until = Millis(self.now_ms + seconds * SECOND)
        span = {"starts_at_ms": Millis(self.now_ms), "ends_at_ms": until}
        self.silences.append(Silence(id="s", author="eva", comment="", **where, **span))  # type: ignore[arg-type]

    def set_unreachable(self, unreachable: bool) -> None:
        for sink in self.sinks:
            sink.unreachable = unreachable

    def settle(self) -> "SimulatedJob":
        """Makes the sinks reachable, lets the silences end and delivers what is pending."""
        for sink in self.sinks:
            sink.unreachable = sink.loses_responses = False
        self.now_ms += 2 * LONG_MS
        for _ in range(4):
            self.deliver()
            self.now_ms += 120 * SECOND
        return self

    def deliver(self, *alerts: Alert) -> None:
        self.dispatcher.deliver(alerts, Millis(self.now_ms))

    def change(self, alert_id: tuple[str, str, str], severity: Severity | None) -> None:
        """Lets an alert begin, changes its severity, or ends it (None)."""
        cluster, rule, subject = alert_id
        before = self.firing.pop(alert_id, None)
        self.now_ms += 1
        if severity is None:
            if before is None:
                return
            recorded = replace(before, state=AlertState.RESOLVED, observed_at_ms=Millis(self.now_ms))
        else:
            if before is not None and before.severity is severity:
                self.firing[alert_id] = before
                return
            recorded = self.firing[alert_id] = alert(
                subject,
                rule=rule,
                cluster=cluster,
                cluster_id=cluster,
                severity=severity,
                started_at_ms=self.now_ms if before is None else before.started_at_ms,
                observed_at_ms=Millis(self.now_ms),
            )
        self.recorded.append(recorded)
        self.deliver(recorded)

    def alert_histories(self) -> dict[tuple[str, int], list[Alert]]:
        """Returns all recorded transitions by alert, from firing to resolved."""
        found: dict[tuple[str, int], list[Alert]] = {}
        for each in self.recorded:
            found.setdefault((each.fingerprint, each.started_at_ms), []).append(each)
        return found


def simulated(steps: Sequence[Step]) -> SimulatedJob:
    # Other tests check that the ledger is synced; here it would only cost time.
    with tempfile.TemporaryDirectory() as folder, patch("os.fsync"), patch.object(sqlite_file, "SYNCHRONOUS", "OFF"):
        return SimulatedJob(Path(folder)).execute(steps).settle()


def about_clusters(transitions: Iterable[Alert]) -> list[Alert]:
    """Leaves out alerts about the job's own sinks."""
    return [each for each in transitions if each.cluster in CLUSTERS]


def alert_ids(transitions: Iterable[Alert]) -> set[tuple[str, int]]:
    return {(each.fingerprint, each.started_at_ms) for each in transitions}


def duplicates(transitions: Iterable[Alert]) -> list[object]:
    return [key for key, count in Counter(each.key for each in transitions).items() if count > 1]


def inhibited(simulation: SimulatedJob, one: Alert) -> bool:
    """Returns whether a cause of the alert is still firing."""
    causes = RULES[one.rule].inhibited_by
    return any(each.rule in causes and each.cluster == one.cluster for each in simulation.firing.values())


@given(step_lists(TIME_PASSES, SILENCES, OUTAGES, RESTARTS))
@settings(max_examples=60)
def test_records_are_complete_and_people_are_notified_once_of_each_beginning_and_end(steps: list[Step]) -> None:
    simulation = simulated(steps)
    assert about_clusters(simulation.record.transitions) == simulation.recorded
    assert_sent_once_and_resolved(simulation)
    assert_firing_was_sent(simulation)
    assert_incidents_are_consistent(simulation)


def assert_sent_once_and_resolved(simulation: SimulatedJob) -> None:
    for sink in (simulation.people, simulation.pager, simulation.archive):
        assert duplicates(sink.transitions) == []
        assert_ends_were_sent(simulation, sink)


def assert_ends_were_sent(simulation: SimulatedJob, sink: UnreliableSink) -> None:
    sent = {each.key for each in sink.transitions}
    for history in simulation.alert_histories().values():
        if history[-1].state is AlertState.RESOLVED and any(each.key in sent for each in history[:-1]):
            assert history[-1].key in sent


def assert_firing_was_sent(simulation: SimulatedJob) -> None:
    sent = {each.key for each in simulation.people.transitions}
    assert [one for one in simulation.firing.values() if one.key not in sent and not inhibited(simulation, one)] == []
    paged = {each.key for each in simulation.pager.transitions}
    worst = [one for one in simulation.firing.values() if one.severity is Severity.CRITICAL]
    assert [one for one in worst if one.key not in paged and not inhibited(simulation, one)] == []


def assert_incidents_are_consistent(simulation: SimulatedJob) -> None:
    by_incident: dict[str, list[Notification]] = {}
    for notification in simulation.people.notifications:
        assert len({each.fingerprint for each in notification.alerts}) == len(notification.alerts)
        assert {each.fingerprint for each in notification.new_transitions} <= {
            each.fingerprint for each in notification.alerts
        }
        assert (notification.reason is NotifyReason.RESOLVED) == (notification.state is AlertState.RESOLVED)
        assert bool(notification.new_transitions) == (notification.reason is not NotifyReason.REPEATED)
        before = by_incident.setdefault(notification.incident, [])
        assert notification.previously_notified == bool(before)
        if not before:
            assert notification.reason in (NotifyReason.FIRING, NotifyReason.RESOLVED)
        before.append(notification)


@given(step_lists(TIME_PASSES, OUTAGES, RESTARTS))
@settings(max_examples=25)
def test_what_is_not_silenced_is_sent_unless_it_is_inhibited_or_does_not_match_the_route(steps: list[Step]) -> None:
    # Without the alert that inhibits another one.
    simulation = simulated([step for step in steps if step[1:2] != (ALERTS[0],)])
    sent = {each.key for each in simulation.people.transitions}
    assert [each for each in simulation.recorded if each.key not in sent] == []
    archived = about_clusters(simulation.archive.transitions)
    matching = []
    for history in simulation.alert_histories().values():
        route = simulation.archive.route
        first = next((at for at, each in enumerate(history) if route.matches(each)), len(history))
        matching += history[first:]
    # Milder transitions before the first match may be sent with it, if all were pending.
    assert {each.key for each in matching} <= {each.key for each in archived}
    assert alert_ids(matching) == alert_ids(archived)


@given(step_lists(TIME_PASSES, SILENCES), st.integers(0, 60))
@settings(max_examples=15)
def test_lost_responses_lose_no_transition(steps: list[Step], at: int) -> None:
    with tempfile.TemporaryDirectory() as folder, patch("os.fsync"), patch.object(sqlite_file, "SYNCHRONOUS", "OFF"):
        simulation = SimulatedJob(Path(folder)).execute(steps[:at])
        simulation.people.loses_responses = True
        simulation.execute(steps[at:]).settle()
        assert_ends_were_sent(simulation, simulation.people)
