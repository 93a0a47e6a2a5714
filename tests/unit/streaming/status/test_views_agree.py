"""Page, `status` and `check` agree, and are never healthy while records may be lost or no leader is known."""

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from rules.evaluate import evaluate, thresholds_for
from rules.facts.quorum import Facts
from rules.finding import Severity
from rules.formatting import utc_text
from rules.lifecycle import advance
from rules.model.identifiers import Millis
from rules.model.subject import Subject
from rules.notifications.route import Silence
from streaming.status.build_status import cluster_status
from streaming.status.check_output import check_json, check_text
from streaming.status.cluster_status import with_job_alerts
from streaming.status.health import Health, health, worst_first
from streaming.status.job_alerts import JobAlerts
from tests.present import present
from tests.simulation.simulation import Simulation
from tests.situation.commands import situation
from tests.situation.situation import NOW
from tests.unit.connectors.sinks.sink_alerts import alert
from tests.unit.streaming.status.printed_status import printed_status
from tests.unit.streaming.status.situation_views import page, tracked_conditions
from tests.unit.streaming.status.statuses import state_of

THRESHOLDS = thresholds_for({})


def test_no_view_is_healthy_while_records_may_be_lost_also_if_its_rule_is_turned_off() -> None:
    state = state_of(situation("unclean orders 0"))
    without_findings = replace(state, evaluation=replace(state.evaluation, findings=()))
    assert health(cluster_status(without_findings)) is Health.WARNING


def test_headline_of_a_pending_fault_is_the_fault_and_when_it_fires() -> None:
    down = situation("stop-fetching 2 since 20s")
    tracked = tracked_conditions(down)
    headline = page(down, tracked).headline
    assert headline.startswith("Voter 2 has not fetched since ")
    assert headline.endswith("2 of 3 voters are in sync; 2 are needed (fires in 2 min)")
    later = replace(page(down, tracked), now_ms=Millis(down.now_ms + 20_000))
    assert later.headline.endswith("(fires in 100 s)")
    due = replace(page(down, tracked), now_ms=Millis(down.now_ms + 120_000), recorded=True)
    assert due.headline.endswith("(fires with the next observation)")
    # An information that will fire is not the state of the cluster.
    spare = situation("add-observer 4")
    tracked = tracked_conditions(spare)
    assert [one.rule for one in tracked.conditions.values()] == ["observer-could-be-voter"]
    assert "fires" not in page(spare, tracked).headline


def test_an_outage_is_first_in_each_view_also_if_another_critical_alert_is_older() -> None:
    outage = situation("probe 1,2 refused", "leaderless 3 for 60s", "certificates 3=-1d")
    state = state_of(outage)
    before, now = (
        alert(subject, rule=rule, started_at_ms=outage.now_ms - ago_ms)
        for rule, subject, ago_ms in (("partitions-offline", "broker 101", 3_600_000), ("no-leader", "quorum", 60_000))
    )
    summary = next(one.summary for one in state.evaluation.findings if one.rule == "no-leader")
    assert {one.rule for one in state.evaluation.findings if one.severity is Severity.CRITICAL} > {"no-leader"}
    assert page(outage, history=(before, now)).headline == summary
    assert cluster_status(state).findings[0].summary == summary
    text = check_text(state).plain
    assert text.index(summary) < text.index("certificate-expiring")


def test_check_and_status_say_that_an_alert_fires_and_who_holds_it_back() -> None:
    down = state_of(situation("stop-fetching 2 since 20s"))
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

    # The page and `status` show the same facts; `check` has the same findings. The job alone knows what restarts cost.
    assert replace(present(view.status), pending=(), restarts=()) == replace(status, pending=())
    shown = [(one.rule, str(one.subject), one.summary) for one in worst_first(state.evaluation.findings)]
    assert [(one.rule, one.subject, one.summary) for one in status.findings] == shown
    checked: Any = check["findings"]
    assert [(one["rule"], one["subject"], one["summary"]) for one in checked] == shown
    if (outage := next((one for one in view.firing if one.rule == "no-leader"), None)) is not None:
        assert view.headline == view.summary_of(outage)
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
    (blindness,) = evaluate(Facts(blind), THRESHOLDS).findings
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
