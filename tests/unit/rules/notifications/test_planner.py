"""Which notifications a sink for people gets, and when."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from rules.alert import Alert, AlertState
from rules.evaluate import RULES
from rules.finding import Severity
from rules.model.identifiers import Millis
from rules.notifications.acknowledgement import Acknowledgement
from rules.notifications.incident import RECOVERY_MS, IncidentGrouper
from rules.notifications.notification import EndedSilence, Notification, Notified, TransitionStatus
from rules.notifications.planner import UPDATE_INTERVAL_MS, NotificationPlanner
from rules.notifications.route import Silence
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, alert

MINUTE = 60_000
HOUR = 60 * MINUTE


class SimulatedSink:
    """A sink for people with ledger and clock: each step records alerts and returns the notifications."""

    def __init__(
        self,
        *,
        repeat_ms: int | None = 4 * HOUR,
        expires: bool = False,
        shows_acknowledgements: bool = False,
        shows_ended_silences: bool = False,
    ) -> None:
        repeat = None if repeat_ms is None else Millis(repeat_ms)
        self.planner = NotificationPlanner(
            RULES,
            repeat_ms=repeat,
            expires=expires,
            shows_acknowledgements=shows_acknowledgements,
            shows_ended_silences=shows_ended_silences,
        )
        self.grouper = IncidentGrouper(RULES)
        self.transitions: dict[str, list[TransitionStatus]] = {}
        self.last_notified: dict[str, Notified] = {}
        self.now = NOON_MS
        self.silences: list[Silence] = []
        self.acknowledgements: list[Acknowledgement] = []
        self.sent: Sequence[Notification] = ()
        """The notifications of the newest step."""

    def step(self, *alerts: Alert, after_ms: int = 0, reached: bool = True) -> list[str]:
        """Returns one line per notification: reason, severity, root cause, others; `+` marks new transitions."""
        self.now = Millis(self.now + after_ms)
        for each in alerts:
            incident = self.grouper.assign(each, at_ms=self.now)
            status = TransitionStatus(alert=each, delivered=False, escalations=self.grouper.escalations(incident))
            self.transitions.setdefault(incident, []).append(status)
        plan = self.planner.plan(
            self.transitions,
            last_notified=self.last_notified,
            holds=[*self.silences, *self.acknowledgements],
            now_ms=self.now,
        )
        self.sent = plan.notifications
        lines, delivered = [], set()
        for notification in plan.notifications:
            new = {each.fingerprint for each in notification.new_transitions}
            subjects = [f"{'+' if each.fingerprint in new else ''}{each.subject}" for each in notification.alerts]
            lines.append(f"{notification.reason} {notification.severity}: {' '.join(subjects)}")
            if reached:
                self.last_notified[notification.incident] = notification.notified_at(self.now)
                delivered |= {each.key for each in notification.new_transitions}
        discarded = {each.key for each in plan.discarded}
        for incident, statuses in self.transitions.items():
            self.transitions[incident] = [
                replace(each, delivered=each.delivered or each.alert.key in delivered)
                for each in statuses
                if each.alert.key not in discarded
            ]
        return lines

    def silence(self, **matching: Any) -> None:
        self.silences.append(
            Silence(
                id="s1", starts_at_ms=self.now, ends_at_ms=Millis(self.now + HOUR), author="eva", comment="", **matching
            )
        )


@pytest.fixture
def sink() -> SimulatedSink:
    return SimulatedSink()


def stale(node: int, *, resolved: bool = False, severity: Severity = Severity.WARNING, at_ms: int = 0) -> Alert:
    return alert(
        f"voter{node}",
        rule="stale-voter-endpoint",
        resolved=resolved,
        severity=severity,
        observed_at_ms=Millis(NOON_MS + at_ms),
    )


def test_an_incident_is_sent_when_it_begins_and_when_it_resolves(sink: SimulatedSink) -> None:
    assert sink.step(stale(1)) == ["firing warning: +voter1"]
    assert sink.step(after_ms=10 * MINUTE) == []
    assert sink.step(stale(1, resolved=True), after_ms=1) == ["resolved warning: +voter1"]
    assert sink.step(after_ms=24 * HOUR) == []


@pytest.mark.parametrize(
    ("text", "noticeable"),
    [({"remedy": ("# Do not start it: its disk is new.",)}, True), ({"summary": "Two are down."}, False)],
    ids=["other advice", "another conclusion"],
)
def test_an_alert_that_says_something_else_changes_the_incident_and_is_no_new_page(
    sink: SimulatedSink, text: dict[str, Any], noticeable: bool
) -> None:
    first = stale(1)
    sink.step(replace(first, stated=first.says))
    second = replace(first, observed_at_ms=Millis(NOON_MS + MINUTE), **text)
    assert sink.step(replace(second, stated=second.says), after_ms=MINUTE) == []
    assert sink.step(after_ms=UPDATE_INTERVAL_MS) == ["changed warning: +voter1"]
    (sent,) = sink.sent
    assert (sent.worse, sent.escalations) == (noticeable, sent.escalations_before)


def test_minor_changes_are_collected_and_a_worse_severity_is_sent_immediately(sink: SimulatedSink) -> None:
    sink.step(stale(1), stale(2))
    assert sink.step(stale(3), after_ms=1_000) == []
    assert sink.step(stale(2, resolved=True), after_ms=1_000) == []
    assert sink.step(after_ms=UPDATE_INTERVAL_MS) == ["changed warning: voter1 +voter3 +voter2"]
    worse = stale(1, severity=Severity.CRITICAL, at_ms=90_000)
    assert sink.step(worse, after_ms=1_000) == ["changed critical: +voter1 voter3 voter2"]


def test_of_alerts_as_severe_the_root_cause_is_listed_first_in_either_order() -> None:
    tolerance = alert("quorum", rule="failure-tolerance", severity=Severity.WARNING)
    for order in ((tolerance, stale(1)), (stale(1), tolerance)):
        assert SimulatedSink().step(*order) == ["firing warning: +voter1 +quorum"]


@pytest.mark.parametrize("mild", [Severity.INFO, Severity.WARNING])
def test_a_notification_describes_the_worst_alert_that_fires(sink: SimulatedSink, mild: Severity) -> None:
    older = alert("broker 4", rule="broker-fenced", severity=mild, summary="Broker 4 is fenced.")
    sink.step(older)
    worse = alert("broker 4", rule="partitions-offline", summary="7 partitions are offline.", started_at_ms=NOON_MS + 1)
    assert sink.step(worse, after_ms=1_000) == ["changed critical: +broker 4 broker 4"]
    assert (sink.sent[0].root, sink.sent[0].summary) == (worse, "7 partitions are offline.")


def left(*, at_ms: int = MINUTE) -> Alert:
    return alert(
        "quorum",
        rule="failure-tolerance",
        severity=Severity.WARNING,
        observed_at_ms=Millis(NOON_MS + at_ms),
        summary="Voter 3 is not fetching.",
    )


NO_LEADER_BEFORE = "Voter 3 is not fetching. Before, the incident was critical (no-leader): No leader elected."


def test_a_sink_that_gets_an_incident_late_also_gets_what_it_was(sink: SimulatedSink) -> None:
    sink.step(no_leader(), reached=False)
    sink.step(left(), no_leader(resolved=True, at_ms=MINUTE), after_ms=MINUTE, reached=False)
    assert sink.step(after_ms=RECOVERY_MS, reached=False) == ["firing warning: +quorum +cluster"]
    assert sink.step(after_ms=MINUTE) == ["firing warning: +quorum +cluster"]
    assert sink.sent[0].summary == NO_LEADER_BEFORE
    sink.step(after_ms=4 * HOUR)
    assert sink.sent[0].summary == left().summary, "the sink knows it"


def test_a_sink_that_was_notified_of_an_incident_does_not_get_again_what_it_was(sink: SimulatedSink) -> None:
    sink.step(no_leader())
    sink.step(left(), no_leader(resolved=True, at_ms=MINUTE), after_ms=MINUTE)
    assert sink.step(after_ms=UPDATE_INTERVAL_MS) == ["changed warning: +quorum +cluster"]
    assert sink.sent[0].summary == left().summary


def test_a_sink_that_gets_an_alert_late_also_gets_that_it_was_worse(sink: SimulatedSink) -> None:
    sink.step(stale(1, severity=Severity.CRITICAL), reached=False)
    assert sink.step(replace(stale(1, at_ms=MINUTE), summary="It is better."), after_ms=MINUTE) == [
        "firing warning: +voter1"
    ]
    before = "Before, the incident was critical (stale-voter-endpoint): No leader elected."
    assert sink.sent[0].summary == f"It is better. {before}"


def test_what_a_silence_holds_back_is_not_what_an_incident_was(sink: SimulatedSink) -> None:
    sink.silence(rule="stale-voter-endpoint")
    sink.step(stale(1, severity=Severity.CRITICAL))
    assert sink.step(left(), after_ms=1) == ["firing warning: +quorum"]
    assert sink.sent[0].was is None


def test_a_resolved_cause_explains_no_firing_alert(sink: SimulatedSink) -> None:
    lagging = alert("voter2", rule="voter-lagging", severity=Severity.WARNING, started_at_ms=Millis(NOON_MS - 1))
    sink.step(lagging)
    sink.step(
        alert("quorum", rule="failure-tolerance", severity=Severity.WARNING), stale(1), after_ms=UPDATE_INTERVAL_MS
    )
    assert sink.step(stale(1, resolved=True), after_ms=UPDATE_INTERVAL_MS) == ["changed warning: quorum voter2 +voter1"]


def test_incident_whose_cause_resolved_stays_open_while_a_milder_consequence_fires(sink: SimulatedSink) -> None:
    sink.step(alert("cluster", rule="no-leader"))
    left = alert("quorum", rule="failure-tolerance", severity=Severity.WARNING, observed_at_ms=Millis(NOON_MS + MINUTE))
    over = alert("cluster", rule="no-leader", resolved=True, observed_at_ms=Millis(NOON_MS + MINUTE))
    assert sink.step(left, over, after_ms=MINUTE) == [], "held back while the quorum recovers"
    assert sink.step(after_ms=UPDATE_INTERVAL_MS - 1) == [], "a milder incident is a minor change"
    assert sink.step(after_ms=1) == ["changed warning: +quorum +cluster"]
    ended = replace(left, state=AlertState.RESOLVED, observed_at_ms=Millis(NOON_MS + 5 * MINUTE))
    assert sink.step(ended, after_ms=3 * MINUTE) == ["resolved critical: +quorum cluster"]


def test_incident_of_which_the_sink_was_notified_as_resolved_fires_again(sink: SimulatedSink) -> None:
    sink.silence(rule="failure-tolerance")
    sink.step(alert("voter1", rule="stale-voter-endpoint"), alert("quorum", rule="failure-tolerance"))
    assert sink.step(alert("voter1", rule="stale-voter-endpoint", resolved=True), after_ms=MINUTE) == [
        "resolved critical: +voter1"
    ]
    assert sink.step(after_ms=HOUR) == ["firing critical: +quorum voter1"]


def no_leader(*, resolved: bool = False, at_ms: int = 0) -> Alert:
    return alert("cluster", rule="no-leader", resolved=resolved, observed_at_ms=Millis(NOON_MS + at_ms))


def test_a_consequence_is_not_sent_while_the_quorum_recovers(sink: SimulatedSink) -> None:
    fenced = alert("broker 5", rule="broker-fenced", resolved=True, observed_at_ms=Millis(NOON_MS + MINUTE + 500))
    sink.step(no_leader(), alert("broker 5", rule="broker-fenced"))
    assert sink.step(no_leader(resolved=True, at_ms=MINUTE), after_ms=MINUTE) == []
    assert sink.step(fenced, after_ms=500) == []
    assert sink.step(after_ms=RECOVERY_MS - 500) == ["resolved critical: +cluster"]
    assert sink.step(after_ms=HOUR) == []


def test_a_page_that_flaps_is_one_page(sink: SimulatedSink) -> None:
    lines: list[str] = []
    for at_ms in range(0, 6 * 26_000, 26_000):
        lost = replace(no_leader(at_ms=at_ms), started_at_ms=Millis(NOON_MS + at_ms))
        for each in (lost, replace(no_leader(resolved=True, at_ms=at_ms + 12_000), started_at_ms=lost.started_at_ms)):
            lines += sink.step(each, after_ms=each.observed_at_ms - sink.now)
    assert [line for line in lines if not line.startswith("changed")] == ["firing critical: +cluster"]
    lines = sink.step(after_ms=RECOVERY_MS)
    assert [line.partition(" ")[0] for line in lines] == ["resolved"]
    (end,) = sink.sent
    assert (end.started_at_ms, end.lasted_ms) == (NOON_MS, 5 * 26_000 + 12_000), "an outage is as long as all of it"


def test_a_consequence_that_outlives_the_recovery_is_sent(sink: SimulatedSink) -> None:
    sink.step(no_leader(), alert("broker 5", rule="broker-fenced"))
    assert sink.step(no_leader(resolved=True, at_ms=MINUTE), after_ms=MINUTE) == []
    assert sink.step(after_ms=RECOVERY_MS) == ["changed critical: +broker 5 +cluster"]


def test_an_incident_that_recovers_step_by_step_is_one_notification(sink: SimulatedSink) -> None:
    sink.step(stale(1), stale(2))
    assert sink.step(stale(1, resolved=True, at_ms=10 * MINUTE), after_ms=10 * MINUTE) == []
    assert sink.step(stale(2, resolved=True, at_ms=10 * MINUTE + 5_000), after_ms=5_000) == [
        "resolved warning: +voter1 +voter2"
    ]


@pytest.mark.parametrize(
    ("earlier_ms", "listed"), [(RECOVERY_MS, "+voter1 +voter2"), (RECOVERY_MS + 1, "+voter2 +voter1")]
)
def test_an_alert_that_resolved_long_before_the_incident_is_listed_last(
    sink: SimulatedSink, earlier_ms: int, listed: str
) -> None:
    sink.step(stale(1), stale(2))
    sink.step(stale(1, resolved=True, at_ms=MINUTE), after_ms=MINUTE)
    ended = stale(2, resolved=True, at_ms=MINUTE + earlier_ms)
    assert sink.step(ended, after_ms=earlier_ms) == [f"resolved warning: {listed}"]


def test_a_silence_suppresses_repetitions_but_not_the_end_of_a_sent_alert() -> None:
    sink = SimulatedSink(repeat_ms=MINUTE)
    sink.step(stale(1))
    sink.silence(cluster="alpha")
    assert sink.step(after_ms=2 * MINUTE) == []
    assert sink.step(stale(1, resolved=True)) == ["resolved warning: +voter1"]


def test_the_end_of_a_silence_is_said_once_to_a_sink_that_shows_it_while_the_alert_fires() -> None:
    sink = SimulatedSink(shows_ended_silences=True)
    fires = alert("voter1")
    assert sink.step(fires) == ["firing critical: +voter1"]
    sink.silence(subject="voter1", cluster="alpha")
    assert sink.step(after_ms=HOUR - 1) == []
    assert sink.step(after_ms=1, reached=False) == ["unsilenced critical: voter1"]
    assert sink.step(after_ms=MINUTE) == ["unsilenced critical: voter1"]
    assert sink.sent[0].ended_silence == EndedSilence(by="eva", at_ms=Millis(NOON_MS + HOUR))
    assert sink.step(after_ms=MINUTE) == []


def test_the_end_of_a_silence_that_a_person_ends_is_said() -> None:
    sink = SimulatedSink(shows_ended_silences=True)
    sink.step(alert("voter1"))
    sink.silence()
    sink.silence(subject="voter1")
    sink.step(after_ms=MINUTE)
    sink.silences[0] = replace(sink.silences[0], ends_at_ms=sink.now)
    assert sink.step() == [], "another silence holds it back"
    sink.silences[1] = replace(sink.silences[1], ends_at_ms=sink.now)
    assert sink.step() == ["unsilenced critical: voter1"]


def test_the_end_of_a_silence_is_not_said_of_what_is_new_acknowledged_over_or_never_was_silenced() -> None:
    sink = SimulatedSink(shows_ended_silences=True)
    sink.silence(subject="voter1")
    assert sink.step(alert("voter1")) == []
    assert sink.step(after_ms=HOUR) == ["firing critical: +voter1"]
    later = Millis(NOON_MS + HOUR + MINUTE)
    sink.silence(subject="voter2")
    acknowledge(sink, alert("voter1"), for_ms=None)
    sink.silence(subject="voter1")
    assert sink.step(after_ms=2 * HOUR) == []
    sink.acknowledgements.clear()
    sink.step(alert("voter1", resolved=True, observed_at_ms=later), after_ms=RECOVERY_MS)
    assert sink.step(after_ms=HOUR) == []


def test_a_sink_that_does_not_show_it_is_not_notified_that_a_silence_ended() -> None:
    sink = SimulatedSink()
    sink.step(alert("voter1"))
    sink.silence()
    assert sink.step(after_ms=HOUR) == []


def test_what_a_silence_held_back_says_that_it_ended() -> None:
    sink = SimulatedSink(shows_ended_silences=True)
    sink.step(alert("voter1", severity=Severity.WARNING))
    sink.silence()
    worse = alert("voter1", observed_at_ms=Millis(NOON_MS + MINUTE))
    assert sink.step(worse, after_ms=MINUTE) == []
    assert sink.step(after_ms=HOUR) == ["changed critical: +voter1"]
    assert sink.sent[0].ended_silence is not None


@pytest.mark.parametrize(("expires", "sent"), [(True, ["changed warning: voter1 +voter2"]), (False, [])])
def test_a_service_that_groups_by_itself_gets_each_alert_at_once(expires: bool, sent: list[str]) -> None:
    sink = SimulatedSink(expires=expires)
    sink.step(stale(1))
    assert sink.step(stale(2), after_ms=1_000) == sent


def test_a_silence_does_not_end_an_alert_in_a_sink_in_which_it_expires() -> None:
    """Alertmanager would send people that it resolved five minutes after the silence began."""
    sink = SimulatedSink(repeat_ms=MINUTE, expires=True)
    sink.step(stale(1))
    sink.silence(cluster="alpha")
    assert sink.step(stale(2)) == []
    assert sink.step(after_ms=MINUTE) == ["repeated warning: voter1"]
    assert sink.step(stale(1, resolved=True)) == ["resolved warning: +voter1"]
    assert sink.step(after_ms=2 * MINUTE) == []


def test_the_end_of_a_possibly_delivered_alert_is_sent_although_it_is_silenced() -> None:
    """The response was lost, so the sink may have the incident: it must not stay open there."""
    sink = SimulatedSink()
    sink.step(stale(1), reached=False)
    sink.transitions = {
        one: [replace(each, maybe_delivered=True) for each in statuses] for one, statuses in sink.transitions.items()
    }
    sink.silence(rule="*")
    assert sink.step(stale(1, resolved=True)) == ["resolved warning: +voter1"]


def test_minor_changes_are_sent_an_interval_after_the_first_of_them(sink: SimulatedSink) -> None:
    sink.step(stale(1), stale(2))
    sink.now = Millis(sink.now + HOUR)
    assert sink.step(stale(2, resolved=True, at_ms=HOUR)) == []
    assert sink.step(stale(3, at_ms=HOUR + 50_000), after_ms=50_000) == []
    assert sink.step(after_ms=10_000) == ["changed warning: voter1 +voter3 +voter2"]


def test_the_worst_of_several_root_causes_is_the_first(sink: SimulatedSink) -> None:
    later = alert("voter2", rule="stale-voter-endpoint", started_at_ms=NOON_MS + 1)
    sink.step(stale(1), later)
    (sent,) = sink.sent
    assert [each.subject for each in sent.alerts] == ["voter2", "voter1"]


def test_what_is_true_now_is_said_before_what_was_counted(sink: SimulatedSink) -> None:
    churn = alert("quorum", rule="epoch-churn", severity=Severity.WARNING)
    tolerance = alert("all", rule="failure-tolerance", severity=Severity.WARNING, started_at_ms=NOON_MS + MINUTE)
    restarting = alert("node 3", rule="node-restarting", severity=Severity.WARNING, started_at_ms=NOON_MS + MINUTE)
    sink.step(churn, restarting, tolerance)
    (sent,) = sink.sent
    assert [each.subject for each in sent.alerts] == ["all", "quorum", "node 3"]


def test_a_cause_in_another_cluster_of_a_storm_holds_nothing_back() -> None:
    cause = alert("cluster", rule="no-leader", cluster_id="alpha")
    consequence = alert("quorum", rule="failure-tolerance", cluster_id="beta", severity=Severity.WARNING)
    sink = SimulatedSink()
    sink.transitions["storm"] = [TransitionStatus(alert=each, delivered=False) for each in (cause, consequence)]
    assert sink.step() == ["firing critical: +cluster +quorum"]


def test_an_alert_that_fires_again_in_an_open_incident_is_another_alert(sink: SimulatedSink) -> None:
    sink.step(stale(1), stale(2))
    sink.silence(subject="voter1")
    sink.step(stale(1, resolved=True), after_ms=2 * MINUTE)
    again = alert("voter1", rule="stale-voter-endpoint", severity=Severity.WARNING, started_at_ms=NOON_MS + 10 * MINUTE)
    assert sink.step(again, after_ms=10 * MINUTE) == []
    over = replace(again, state=AlertState.RESOLVED, observed_at_ms=Millis(again.observed_at_ms + 1))
    assert sink.step(over, after_ms=MINUTE) == [], "the sink knows the former alert only"


@pytest.mark.parametrize("other", [{"cluster": "beta"}, {"rule": "no-*"}, {"subject": "voter2"}, {"severity": "info"}])
def test_a_silence_that_does_not_match_or_is_of_the_future_has_no_effect(
    sink: SimulatedSink, other: dict[str, str]
) -> None:
    sink.silence(**other)
    sink.silence()
    sink.silences[-1] = replace(sink.silences[-1], starts_at_ms=Millis(sink.now + MINUTE))
    assert sink.step(stale(1)) == ["firing warning: +voter1"]


def test_an_unreachable_sink_receives_everything_once_later(sink: SimulatedSink) -> None:
    sink.step(stale(1), reached=False)
    sink.step(stale(1, resolved=True), after_ms=MINUTE, reached=False)
    sink.step(alert("cluster", rule="no-leader"), after_ms=MINUTE, reached=False)
    assert sink.step(after_ms=HOUR) == ["firing critical: +cluster", "resolved warning: +voter1"]
    assert sink.step(after_ms=1) == []


def test_a_clock_that_is_set_back_delays_nothing(sink: SimulatedSink) -> None:
    sink.step(stale(1))
    assert sink.step(stale(2), after_ms=-HOUR) == ["changed warning: voter1 +voter2"]
    assert sink.step(after_ms=-24 * HOUR) == ["repeated warning: voter1 voter2"]
    assert sink.step(after_ms=4 * HOUR - 1) == []


def escalations(sink: SimulatedSink) -> list[tuple[int, int, bool]]:
    return [(each.escalations_before, each.escalations, each.worse) for each in sink.sent]


def grave(node: int = 1) -> Alert:
    return stale(node, severity=Severity.CRITICAL, at_ms=90_000)


def test_an_incident_that_becomes_critical_supersedes_what_the_sink_was_notified_of(sink: SimulatedSink) -> None:
    sink.step(stale(1))
    assert escalations(sink) == [(0, 0, False)]
    assert sink.step(grave(), reached=False) == ["changed critical: +voter1"]
    assert escalations(sink) == [(0, 1, True)]
    assert sink.step(after_ms=1_000) == ["changed critical: +voter1"]
    assert escalations(sink) == [(0, 1, True)], "until the sink has accepted it"
    sink.step(after_ms=4 * HOUR)
    assert escalations(sink) == [(1, 1, False)]
    sink.step(stale(1, resolved=True, severity=Severity.CRITICAL), after_ms=1)
    assert escalations(sink) == [(1, 1, False)]


def test_an_end_supersedes_all_pages_that_the_sink_may_have(sink: SimulatedSink) -> None:
    sink.step(stale(1))
    over = stale(1, resolved=True, severity=Severity.CRITICAL, at_ms=95_000)
    assert sink.step(grave(), over) == ["resolved critical: +voter1"]
    assert escalations(sink) == [(0, 1, False)]


def test_a_sink_that_gets_only_critical_alerts_has_nothing_that_is_superseded(sink: SimulatedSink) -> None:
    incident = sink.grouper.assign(stale(1), at_ms=NOON_MS)
    assert sink.step(grave()) == ["firing critical: +voter1"]
    assert escalations(sink) == [(1, 1, False)]
    status = replace(sink.transitions[incident][0], delivered=False, maybe_delivered=True)
    sink.transitions[incident] = [status]
    sink.step()
    assert escalations(sink) == [(0, 1, False)], "a killed job may have sent anything"


def test_a_silenced_alert_that_becomes_critical_is_no_page_until_the_silence_ends(sink: SimulatedSink) -> None:
    sink.step(stale(1), stale(2))
    sink.silence(subject="voter2")
    sink.step(grave(2), stale(3, at_ms=90_000))
    sink.step(after_ms=UPDATE_INTERVAL_MS)
    assert escalations(sink) == [(0, 0, True)]
    sink.silences.clear()
    assert sink.step() == ["changed critical: +voter2 voter1 voter3"]
    assert escalations(sink) == [(0, 1, True)]


def test_a_silenced_alert_is_listed_as_the_sink_was_notified_of_it() -> None:
    """Alertmanager routes what is listed by its severity, and PagerDuty shows the worst."""
    sink = SimulatedSink(repeat_ms=MINUTE)
    sink.step(stale(1), stale(2))
    sink.silence(subject="voter2")
    assert sink.step(grave(2)) == []
    assert sink.step(after_ms=MINUTE) == ["repeated warning: voter1 voter2"]
    sink.step(stale(3, at_ms=90_000))
    assert sink.step(after_ms=90_000) == ["changed warning: voter1 voter2 +voter3"]


def test_another_alert_that_is_as_severe_is_noticeable_and_a_minor_change_is_not(sink: SimulatedSink) -> None:
    sink.step(stale(1), stale(2))
    sink.step(alert("quorum", rule="failure-tolerance", severity=Severity.WARNING), after_ms=1_000)
    assert escalations(sink) == [(0, 0, True)], "another rule: at once"
    sink.step(stale(3), after_ms=1_000)
    sink.step(after_ms=UPDATE_INTERVAL_MS)
    assert escalations(sink) == [(0, 0, True)], "another subject of the same rule: after it was collected"
    sink.step(stale(1, resolved=True), stale(4, severity=Severity.INFO), after_ms=1_000)
    sink.step(after_ms=UPDATE_INTERVAL_MS)
    assert escalations(sink) == [(0, 0, False)]


def acknowledge(sink: SimulatedSink, one: Alert, *, for_ms: int | None = HOUR, by: str = "Ana") -> None:
    sink.acknowledgements = [each for each in sink.acknowledgements if each.alert_id != one.alert_id]
    sink.acknowledgements.append(
        Acknowledgement(
            fingerprint=one.fingerprint,
            started_at_ms=one.started_at_ms,
            severity=one.severity,
            by=by,
            at_ms=sink.now,
            until_ms=None if for_ms is None else Millis(sink.now + for_ms),
        )
    )


def test_an_acknowledged_alert_is_not_repeated_until_the_acknowledgement_ends() -> None:
    sink = SimulatedSink(repeat_ms=MINUTE)
    sink.step(stale(1))
    acknowledge(sink, stale(1))
    assert sink.step(after_ms=30 * MINUTE) == []
    assert sink.step(after_ms=30 * MINUTE) == ["repeated warning: voter1"]


def test_changes_and_the_end_of_an_acknowledged_alert_are_sent(sink: SimulatedSink) -> None:
    sink.step(stale(1))
    acknowledge(sink, stale(1), for_ms=None)
    assert sink.step(alert("quorum", rule="failure-tolerance", severity=Severity.WARNING)) == [
        "changed warning: voter1 +quorum"
    ], "another alert is not acknowledged"
    assert sink.step(stale(1, resolved=True, at_ms=HOUR), after_ms=HOUR) == []
    assert sink.step(after_ms=UPDATE_INTERVAL_MS) == ["changed warning: quorum +voter1"]


def test_an_incident_is_repeated_while_one_of_its_alerts_is_not_acknowledged() -> None:
    sink = SimulatedSink(repeat_ms=MINUTE)
    sink.step(stale(1), stale(2))
    acknowledge(sink, stale(1))
    assert sink.step(after_ms=MINUTE) == ["repeated warning: voter1 voter2"]
    acknowledge(sink, stale(2))
    assert sink.step(after_ms=MINUTE) == []


def test_a_sink_that_was_not_notified_of_an_acknowledged_alert_gets_it_when_the_acknowledgement_ends(
    sink: SimulatedSink,
) -> None:
    acknowledge(sink, stale(1))
    assert sink.step(stale(1)) == []
    assert sink.step(after_ms=HOUR) == ["firing warning: +voter1"]
    acknowledge(sink, stale(2))
    sink.step(stale(2))
    assert sink.step(stale(2, resolved=True), after_ms=UPDATE_INTERVAL_MS) == []
    assert sink.step(after_ms=2 * HOUR) == [], "it resolved before"


def test_an_alert_that_gets_worse_is_sent_although_it_was_acknowledged(sink: SimulatedSink) -> None:
    sink.step(stale(1))
    acknowledge(sink, stale(1))
    assert sink.step(grave()) == ["changed critical: +voter1"]


def test_an_alert_that_fires_again_is_not_acknowledged(sink: SimulatedSink) -> None:
    sink.step(stale(1))
    acknowledge(sink, stale(1), for_ms=None)
    assert sink.step(stale(1, resolved=True), after_ms=1) == ["resolved warning: +voter1"]
    again = replace(stale(1, at_ms=MINUTE), started_at_ms=Millis(NOON_MS + MINUTE))
    assert sink.step(again, after_ms=MINUTE) == ["firing warning: +voter1"]


def test_a_sink_that_shows_acknowledgements_is_notified_when_they_begin_and_end() -> None:
    sink = SimulatedSink(shows_acknowledgements=True)
    sink.step(stale(1), stale(2))
    acknowledge(sink, stale(1))
    assert sink.step(reached=False) == ["acknowledged warning: voter1 voter2"]
    assert sink.step(after_ms=1) == ["acknowledged warning: voter1 voter2"], "until the sink has accepted it"
    first = sink.sent[0]
    assert ([one.by for one in first.acknowledgements], first.acknowledged) == (["Ana"], False)
    assert sink.step(after_ms=1) == []
    acknowledge(sink, stale(2), by="Eva")
    sink.step(after_ms=1)
    assert (sink.sent[0].acknowledged, sink.sent[0].id == first.id) == (True, False)
    assert sink.step(after_ms=HOUR) == ["acknowledged warning: voter1 voter2"], "both have ended"
    assert sink.sent[0].acknowledgements == ()
    assert sink.step(stale(1, resolved=True), stale(2, resolved=True), after_ms=1) == [
        "resolved warning: +voter1 +voter2"
    ]
    assert sink.step(after_ms=1) == []


def test_an_acknowledged_alert_stays_active_in_a_sink_in_which_it_expires() -> None:
    sink = SimulatedSink(repeat_ms=MINUTE, expires=True)
    sink.step(stale(1))
    acknowledge(sink, stale(1))
    assert sink.step(after_ms=MINUTE) == ["repeated warning: voter1"]


def test_the_last_message_about_an_alert_after_an_outage_of_the_sink_says_what_is_true(sink: SimulatedSink) -> None:
    sink.step(stale(1))
    again = replace(stale(1, severity=Severity.CRITICAL, at_ms=2 * MINUTE), started_at_ms=Millis(NOON_MS + 2 * MINUTE))
    sink.step(stale(1, resolved=True, at_ms=MINUTE), after_ms=MINUTE, reached=False)
    assert sink.step(again, after_ms=MINUTE) == ["resolved warning: +voter1", "firing critical: +voter1"]


def test_of_a_cluster_under_two_names_the_alert_that_fires_is_listed(sink: SimulatedSink) -> None:
    first, second = stale(1), replace(stale(1), cluster="other", started_at_ms=Millis(NOON_MS + 1))
    assert sink.step(first, second) == ["firing warning: +voter1"]
    ended = replace(second, state=AlertState.RESOLVED, observed_at_ms=Millis(NOON_MS + MINUTE))
    assert sink.step(ended, after_ms=2 * MINUTE) == ["changed warning: +voter1"]
    assert (sink.sent[0].state, sink.sent[0].root.cluster) == (AlertState.FIRING, first.cluster)
    assert sink.step(stale(1, resolved=True, at_ms=3 * MINUTE), after_ms=MINUTE) == ["resolved warning: +voter1"]
