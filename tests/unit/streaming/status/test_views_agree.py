"""Page, `status` and `check` agree, and are never healthy while records may be lost or no leader is known."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rules.alert import Alert
from rules.evaluate import evaluate, thresholds_for
from rules.finding import Severity
from rules.formatting import utc_text
from rules.lifecycle import TrackedConditions, advance
from rules.model.identifiers import Millis
from rules.model.quorum import Quorum
from rules.model.subject import Subject
from rules.notifications.route import Silence
from streaming.status.build_status import cluster_status, job_cluster_status
from streaming.status.check_output import check_json, check_text
from streaming.status.cluster_status import with_job_alerts
from streaming.status.health import Health, health
from streaming.status.job_alerts import JobAlerts
from streaming.status.status_store import ReceivedStatus
from streaming.web.cluster_view import ClusterView
from tests.present import present
from tests.simulation.simulation import Simulation
from tests.situation.commands import situation
from tests.situation.situation import NOW
from tests.unit.connectors.sinks.sink_alerts import alert
from tests.unit.streaming.status.printed_status import printed_state, printed_status
from tests.unit.streaming.status.statuses import state_of

THRESHOLDS = thresholds_for({})


def page(quorum: Quorum, tracked: TrackedConditions | None = None, history: tuple[Alert, ...] = ()) -> ClusterView:
    """Returns the page of the job after the micro-batch with this quorum."""
    status = job_cluster_status(quorum, THRESHOLDS, evaluate(quorum, THRESHOLDS), tracked)
    received = ReceivedStatus(status=status, received_at_ms=quorum.now_ms)
    return ClusterView(name=quorum.cluster, now_ms=quorum.now_ms, received=received, history=history)


@pytest.mark.parametrize("lost", ["unclean orders 0", "unclean orders 0 recovered"], ids=["recovering", "recovered"])
def test_no_view_is_healthy_while_acknowledged_records_may_be_lost(lost: str) -> None:
    quorum = situation(lost)
    state = state_of(quorum)
    without_findings = replace(state, evaluation=replace(state.evaluation, findings=()))
    if quorum.recovering:
        # Also if its rule is turned off.
        assert health(cluster_status(without_findings)) is Health.WARNING
    assert health(cluster_status(state)).exit_code in (1, 2)
    assert "Acknowledged records may be lost" in check_text(state).plain
    assert "Acknowledged records may be lost" in printed_state(state)
    before_the_hold = page(quorum)
    assert before_the_hold.health is Health.WARNING
    assert before_the_hold.headline.startswith("Acknowledged records may be lost")


def test_no_view_is_healthy_without_a_leader() -> None:
    # In the first second of an election.
    quorum = situation("unanswered 500ms", "fails log no-leader 1,2 for 0s")
    assert health(cluster_status(state_of(quorum))) is Health.UNKNOWN
    assert page(quorum).health is Health.UNKNOWN
    assert page(quorum).headline == "No controller is known to lead the quorum now"


def pending(quorum: Quorum) -> TrackedConditions:
    return advance(TrackedConditions(), evaluate(quorum, THRESHOLDS), quorum, THRESHOLDS)[0]


def test_headline_of_a_pending_fault_is_the_fault_and_when_it_fires() -> None:
    down = situation("stopped 2 since 20s")
    tracked = pending(down)
    headline = page(down, tracked).headline
    assert headline.startswith("Voter 2 has not fetched since ")
    assert headline.endswith("2 of 3 voters are in sync; 2 are needed (fires in 2 min)")
    later = replace(page(down, tracked), now_ms=Millis(down.now_ms + 20_000))
    assert later.headline.endswith("(fires in 100 s)")
    due = replace(page(down, tracked), now_ms=Millis(down.now_ms + 120_000), recorded=True)
    assert due.headline.endswith("(fires with the next observation)")
    # An information that will fire is not the state of the cluster.
    spare = situation("observer 4")
    tracked = pending(spare)
    assert [one.rule for one in tracked.conditions.values()] == ["observer-could-be-voter"]
    assert "fires" not in page(spare, tracked).headline


def test_headline_of_a_pending_fault_comes_before_what_its_consequences_leave_unknown() -> None:
    dying = situation("probe 1,2 refused", "leaderless 3")
    headline = page(dying, pending(dying)).headline
    assert headline.startswith("No leader since ")
    assert headline.endswith("(fires in 5 s)")
    # Also where no job tracks it.
    assert page(dying).headline.startswith("No leader since ")
    assert "inhibited" not in page(dying).headline


def test_check_and_status_say_when_a_finding_with_a_hold_of_its_own_fires() -> None:
    dead = situation("fenced 101,102")
    for shown in (check_text(state_of(dead)).plain, printed_state(state_of(dead))):
        assert "critical broker-fenced · broker 101 · fires once it has lasted 60 s" in shown


def test_headline_where_nothing_answers_is_what_is_not_answered() -> None:
    headline = page(situation("unanswered 25s")).headline
    assert headline.startswith("The state of the quorum is unknown: no current answer from the metadata log")


def test_check_and_status_say_when_a_finding_fires() -> None:
    down = state_of(situation("stopped 2 since 20s"))
    for shown in (check_text(down).plain, printed_state(down)):
        assert "warning failure-tolerance · quorum · fires once it has lasted 2 min" in shown
        # What follows from a finding is no gap in what is observed.
        assert "unknown voter-lagging" not in shown
        assert "not evaluated voter-lagging: failure-tolerance explains it" in shown


def test_check_and_status_say_that_an_alert_fires_and_who_holds_it_back() -> None:
    down = state_of(situation("stopped 2 since 20s"))
    fires = replace(alert("quorum", rule="failure-tolerance", cluster=down.quorum.cluster), started_at_ms=NOW)
    silence = Silence(
        id="5f2c", rule="failure-*", starts_at_ms=NOW, ends_at_ms=Millis(NOW + 1), author="Ana", comment="CHG-1"
    )
    status = with_job_alerts(
        cluster_status(down), JobAlerts(firing=[fires], acknowledgements=[], silences=[silence]), NOW
    )
    for shown in (check_text(down, status).plain, printed_status(status)):
        assert f"warning failure-tolerance · quorum · fires, since {utc_text(NOW)}\n" in shown
        assert "fires once it has lasted 2 min" not in shown
        assert f"silenced by Ana until {utc_text(silence.ends_at_ms)}: CHG-1" in shown


def test_status_and_check_where_nothing_answers_name_the_doctor() -> None:
    nothing = state_of(situation("unread always", "unpolled always"), live=False)
    for shown in (check_text(nothing).plain, printed_state(nothing)):
        assert "what to do: kraftwatch doctor, with the same options" in shown
    assert "kraftwatch doctor" not in printed_state(state_of(situation()))


@given(seed=st.integers(0, 400), steps=st.integers(500, 5_000))
@settings(max_examples=8, deadline=None, derandomize=True)
def test_page_check_status_and_alerts_have_one_evaluation(seed: int, steps: int) -> None:
    simulation = Simulation(seed, strict=False)
    simulation.run(steps)
    monitor, alerts = simulation.checker.monitor, tuple(simulation.checker.alerts)
    quorum = replace(monitor.machine.quorum(), cluster="simulated")
    since_ms = Millis(quorum.now_ms - 10_000)
    state = replace(
        state_of(quorum), taken_at_ms=quorum.now_ms, queried_since_ms=since_ms, recorded_at_ms=quorum.now_ms
    )
    view = page(quorum, monitor.tracked, alerts)
    status, check = cluster_status(state), check_json(state)

    # The page and `status` show the same facts; `check` has the same findings.
    assert replace(present(view.status), pending=()) == replace(status, pending=())
    assert [(one.rule, one.subject, one.summary) for one in status.findings] == [
        (one.rule, str(one.subject), one.summary) for one in state.evaluation.findings
    ] or len({one.severity for one in state.evaluation.findings}) > 1
    assert isinstance(check["findings"], list)
    assert len(status.findings) == len(check["findings"]) == len(state.evaluation.findings)
    # What fires is what the page lists, and each finding fires or is pending.
    firing = {(one.rule, one.subject) for one in view.firing}
    tracked = monitor.tracked.conditions.values()
    assert firing == {(one.rule, one.subject) for one in tracked if one.notified_severity is not None}
    known = firing | {(one.rule, one.subject) for one in tracked}
    suppressed = {rule for rule, _ in firing}
    for finding in state.evaluation.findings:
        assert (finding.rule, str(finding.subject)) in known or "no-leader" in suppressed
    # No view is healthy where another one reports a problem that lasts.
    lasting = {one.severity for one in view.firing} & {Severity.CRITICAL, Severity.WARNING}
    if view.health is Health.HEALTHY:
        assert not lasting
        assert status.leader_id is not None
        assert not status.recovering_partitions
        pending = {(one.rule, one.subject) for one in view.pending}
        findings = (one for one in state.evaluation.findings if one.severity is not Severity.INFO)
        assert {(one.rule, str(one.subject)) for one in findings} <= pending
    if check["health"] == "healthy":
        assert view.health is Health.HEALTHY or lasting
    assert advance(monitor.tracked, state.evaluation, quorum, THRESHOLDS)[1] == ()


def test_no_view_shows_an_old_warning_as_the_state_of_a_cluster_of_which_nothing_is_observed() -> None:
    blind = situation("unanswered 14s", "fails log timed-out 1 for 13s")
    (blindness,) = evaluate(blind, THRESHOLDS).findings
    state = state_of(blind, live=False)
    warning = replace(blindness, rule="broker-fenced", subject=Subject("broker", 4), severity=Severity.WARNING)
    fields = ("rule", "severity", "summary", "evidence", "facts")
    history = tuple(
        alert(str(each.subject), **{name: getattr(each, name) for name in fields}) for each in (warning, blindness)
    )

    view = page(blind, history=history)
    # On the page a critical alert counts, also one that says that nothing is known.
    assert (view.health, view.headline) == (Health.CRITICAL, blindness.summary)
    assert page(blind, history=(history[0], replace(history[1], severity=Severity.WARNING))).health is Health.UNKNOWN
    both = replace(state, evaluation=replace(state.evaluation, findings=(warning, blindness)))
    assert health(cluster_status(both)).exit_code == 3
    critical = replace(history[0], severity=Severity.CRITICAL)
    assert page(blind, history=(critical, *history[1:])).health is Health.CRITICAL
