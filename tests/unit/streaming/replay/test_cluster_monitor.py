"""A ClusterMonitor sends the same alerts however its observations are batched, stored or redelivered."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.errors import UsageError
from rules.alert import Alert, AlertState
from rules.evaluate import with_overrides
from rules.finding import Severity, Thresholds
from rules.lifecycle import TrackedCondition, TrackedConditions
from rules.model.identifiers import Millis
from rules.model.monitoring import ObservationSource, Reason
from streaming.replay.cluster_monitor import ClusterMonitor
from streaming.replay.decoded_row import DecodedRow
from streaming.replay.state_codec import VERSION
from tests.scripts.log_script import SETTINGS, LogScript, failed, poll, probed, replica
from tests.unit.streaming.replay.stored_state import stored_values


def monitor(blob: bytes | None = None, no_leader: Thresholds | None = None) -> ClusterMonitor:
    """Returns a monitor; `no_leader` overrides what is configured for this rule."""
    thresholds = with_overrides(SETTINGS.thresholds, {"no-leader": no_leader} if no_leader else {})
    return ClusterMonitor.restored(blob, replace(SETTINGS, thresholds=thresholds))


def outage() -> list[DecodedRow]:
    """Healthy for 20 s, no leader for 20 s, healthy for 20 s."""
    script = LogScript()
    script.leader(1)
    script.voters("1-a", "2-b", "3-c")
    rows = [script.read()]
    for second in range(60):
        if 20 <= second < 40:
            rows += [script.row(failed(Reason.NO_LEADER, place), after_ms=333) for place in SETTINGS.bootstrap]
        else:
            script.noops(2)
            rows += [script.read(after_ms=500), script.row(poll(*map(replica, ("1-a", "2-b", "3-c"))), after_ms=500)]
    return rows


ROWS = outage()


def test_an_outage_fires_once_and_resolves_once() -> None:
    alerts = monitor().apply(ROWS).alerts

    assert [(alert.rule, alert.state) for alert in alerts] == [
        ("no-leader", AlertState.FIRING),
        ("no-leader", AlertState.RESOLVED),
    ]
    firing, resolved = alerts
    assert firing.fingerprint == resolved.fingerprint
    assert 0 <= firing.observed_at_ms - firing.due_at_ms < 400
    assert 0 <= resolved.observed_at_ms - resolved.due_at_ms < 600


QUIET_ROWS = [
    DecodedRow(row.sequence, row.observed_at_ms, row.events, quiet=row.observed_at_ms // 1_000 % 20 > 2) for row in ROWS
]
"""The same, quiet but for the first rows of each 20 s."""


@pytest.mark.parametrize("rows", [ROWS, QUIET_ROWS], ids=["rows", "quiet rows"])
@settings(max_examples=15)
@given(st.lists(st.integers(0, len(ROWS)), max_size=8), st.booleans(), st.integers(0, 10))
def test_batching_restarts_and_redelivery_do_not_change_the_alerts(
    rows: list[DecodedRow], cuts: list[int], store: bool, overlap: int
) -> None:
    edges = sorted({0, len(rows), *cuts})
    alerts: list[Alert] = []
    one = monitor()
    for start, end in pairwise(edges):
        alerts += one.apply(rows[max(0, start - overlap) : end]).alerts
        one = monitor(one.to_bytes()) if store else one

    whole = monitor()
    assert alerts == list(whole.apply(rows).alerts)
    assert one.tracked == whole.tracked
    assert stored_values(one.machine) == stored_values(whole.machine)


def test_the_first_row_is_evaluated_also_if_it_is_quiet() -> None:
    from_ms = QUIET_ROWS[10].observed_at_ms
    observing = ClusterMonitor(SETTINGS, evaluates_from_ms=from_ms)

    observing.apply([row for row in QUIET_ROWS if row.observed_at_ms <= from_ms])

    assert observing.tracked.now_ms == from_ms


def refusal(blob: bytes) -> str:
    with pytest.raises(UsageError) as refused:
        monitor(blob)
    return str(refused.value)


def test_a_blob_of_another_version_or_a_damaged_one_is_refused_in_one_sentence() -> None:
    firing = monitor()
    firing.apply(ROWS[:110])
    blob = firing.to_bytes()
    assert monitor(blob).tracked == firing.tracked
    assert firing.tracked.conditions, "the blob holds a firing alert"

    other = bytearray(blob)
    other[3] = VERSION + 1
    assert refusal(bytes(other)) == (
        f"the state of cluster test has version {VERSION + 1}, and this kraftwatch reads version {VERSION}"
    )
    for torn in (b"", b"k", blob[:5], blob[:30], b"kwm" + blob[3:], b"PK\x03\x04 and so on", blob[:-1], blob + b"\0"):
        assert refusal(torn).startswith("the checkpoint's state of cluster test is damaged (")
        assert refusal(torn).endswith(": stop the job and move Spark's checkpoint away, and it is built again")


def test_alert_of_a_rule_that_is_turned_off_resolves_and_does_not_fire_again() -> None:
    during = monitor()
    firing = during.apply(ROWS[:85]).alerts
    assert [(alert.rule, alert.state) for alert in firing] == [("no-leader", AlertState.FIRING)]

    disabled = Thresholds(enabled=False)
    off = monitor(during.to_bytes(), disabled)

    assert [(alert.rule, alert.state) for alert in off.apply(ROWS[85:]).alerts] == [("no-leader", AlertState.RESOLVED)]
    assert monitor(None, disabled).apply(ROWS).alerts == ()


def test_changed_severity_fires_again_with_the_same_fingerprint() -> None:
    during = monitor()
    (before,) = during.apply(ROWS[:66]).alerts

    milder = monitor(during.to_bytes(), Thresholds(severity=Severity.WARNING)).apply(ROWS[66:]).alerts

    assert [(each.state, each.severity) for each in milder] == [
        (AlertState.FIRING, Severity.WARNING),
        (AlertState.RESOLVED, Severity.WARNING),
    ]
    assert {each.fingerprint for each in milder} == {before.fingerprint}


VOTERS = ("1-a", "2-b", "3-c", "4-d", "5-e")
PLACES = tuple(f"c{node}:9093" for node in range(1, 6))
"""Where they are recorded."""


def healthy_seconds(script: LogScript, seconds: int, *, dead: str | None = None) -> list[DecodedRow]:
    """Returns a fetch and a poll of each second; the voter `dead` does not fetch."""
    rows = []
    for _ in range(seconds):
        script.noops(2)
        voters = (replica(name, fetch=60_000, caught_up=60_000) if name == dead else replica(name) for name in VOTERS)
        rows += [script.read(after_ms=500), script.row(poll(*voters), after_ms=500)]
    return rows


def started() -> tuple[LogScript, list[DecodedRow]]:
    script = LogScript()
    script.leader(1)
    script.voters(*VOTERS)
    script.feature("metadata.version", 27)
    return script, [script.read(), *healthy_seconds(script, 5)]


def refused(script: LogScript, ms: int) -> list[DecodedRow]:
    """Returns what all controllers' refusals for this long look like."""
    return [
        script.row(failed(Reason.REFUSED, place, source), after_ms=ms // 10)
        for source in (ObservationSource.QUORUM, ObservationSource.LOG)
        for place in PLACES
    ]


def restarted(script: LogScript, after_ms: int) -> DecodedRow:
    return script.row(failed(Reason.INTERRUPTED, ""), after_ms=after_ms)


@pytest.mark.parametrize("gap_ms", [*range(3_000, 12_000, 1_000), 60_000, 7_200_000])
def test_restart_after_a_short_refusal_of_a_healthy_quorum_sends_no_alert(gap_ms: int) -> None:
    script, rows = started()
    rows += refused(script, 3_000)
    rows += [restarted(script, gap_ms), script.row(probed(2, "10.0.0.2"), after_ms=20), *healthy_seconds(script, 60)]

    assert monitor().apply(rows).alerts == ()


@pytest.mark.parametrize("gap_ms", [5_000, 7_000, 30_000, 600_000])
def test_missing_leader_before_and_after_a_gap_fires_at_the_first_observation_after_it(gap_ms: int) -> None:
    script, rows = started()
    rows += refused(script, 3_000)
    began_ms = rows[-6].observed_at_ms
    rows += [restarted(script, gap_ms), script.row(probed(2, "10.0.0.2"), after_ms=20)]
    watched = monitor()
    assert watched.apply(rows).alerts == ()

    (alert,) = watched.apply(refused(script, 120)).alerts

    assert (alert.rule, alert.started_at_ms) == ("no-leader", began_ms)
    assert alert.observed_at_ms - script.now_ms < 120


def slow_leader(script: LogScript) -> list[DecodedRow]:
    """Returns a round of requests in which four controllers answer that they do not lead, and one does not answer."""
    reasons = zip((*(Reason.NO_LEADER,) * 4, Reason.TIMED_OUT), PLACES, strict=True)
    return [script.row(failed(reason, place, ObservationSource.QUORUM), after_ms=120) for reason, place in reasons]


@pytest.mark.parametrize("gap_ms", [5_000, 30_000])
def test_leader_that_is_too_slow_for_the_first_requests_after_a_gap_is_not_missing(gap_ms: int) -> None:
    script, rows = started()
    rows += refused(script, 3_000)
    rows += [restarted(script, gap_ms), *slow_leader(script), *slow_leader(script), *healthy_seconds(script, 60)]

    assert monitor().apply(rows).alerts == ()


def test_leader_that_answers_no_later_request_after_a_gap_either_is_missing() -> None:
    script, rows = started()
    rows += refused(script, 3_000)
    rows.append(restarted(script, 30_000))
    began_ms = script.now_ms
    watched = monitor()
    assert watched.apply(rows).alerts == ()

    (alert,) = watched.apply([row for _ in range(5) for row in slow_leader(script)]).alerts

    assert alert.rule == "no-leader"
    assert 0 <= alert.observed_at_ms - began_ms - 2_000 <= 200


def test_hold_continues_over_restarts_of_the_monitor() -> None:
    script, rows = started()
    watched = monitor()
    hold_ms = SETTINGS.thresholds["voter-lagging"].ms("hold")
    assert watched.apply(rows).alerts == ()
    alerts: list[Alert] = []
    begun_ms = script.now_ms
    while script.now_ms - begun_ms < hold_ms + 40_000:
        # Fifteen seconds of observations, then half a minute in which the monitor starts again.
        for row in healthy_seconds(script, 15, dead="3-c"):
            alerts += watched.apply([row]).alerts
        assert watched.apply([restarted(script, 30_000)]).alerts == ()
        watched = monitor(watched.to_bytes())

    (alert,) = alerts
    assert (alert.rule, alert.subject, alert.state) == ("voter-lagging", "voter 3", AlertState.FIRING)
    assert 0 <= alert.observed_at_ms - alert.started_at_ms - hold_ms < 32_000


def test_monitor_that_is_cut_off_fires_also_if_its_gatherer_restarts() -> None:
    script, rows = started()
    watched = monitor()
    assert watched.apply(rows).alerts == ()
    alerts: list[Alert] = []
    for _ in range(6):
        alerts += watched.apply([restarted(script, 5_000), script.row(probed(2, "10.0.0.2"), after_ms=20)]).alerts
        assert [each.state for each in alerts] == [AlertState.FIRING] * len(alerts)
        for source in (ObservationSource.LOG, ObservationSource.QUORUM):
            alerts += watched.apply(
                [script.row(failed(Reason.TIMED_OUT, place, source), after_ms=1_000) for place in SETTINGS.bootstrap]
            ).alerts

    (alert,) = alerts
    assert (alert.rule, alert.subject, alert.severity) == ("monitor-blind", "quorum", Severity.CRITICAL)


def test_clock_that_is_set_forward_completes_no_hold() -> None:
    script, rows = started()
    watched = monitor()
    rows += healthy_seconds(script, 100, dead="3-c")
    rows += [script.row(failed(Reason.CLOCK_STEPPED, ""), after_ms=3_000_000)]
    rows += healthy_seconds(script, 190, dead="3-c")
    assert watched.apply(rows).alerts == ()

    (alert,) = watched.apply(healthy_seconds(script, 20, dead="3-c")).alerts

    assert alert.rule == "voter-lagging"
    assert 300_000 <= alert.observed_at_ms - alert.started_at_ms < 302_000


def test_clock_that_is_set_forward_does_not_make_a_healthy_quorum_stale() -> None:
    script, rows = started()
    rows += [
        script.row(failed(Reason.CLOCK_STEPPED, ""), after_ms=3_600_000),
        script.row(probed(2, "10.0.0.2"), after_ms=20),
    ]
    rows += healthy_seconds(script, 60)
    assert monitor().apply(rows).alerts == ()


@pytest.mark.parametrize(
    ("due_in_ms", "notified", "waits"), [(0, None, False), (1, None, True), (0, Severity.WARNING, True)]
)
def test_no_row_waits_while_it_is_unknown_whether_an_alert_that_is_due_fires(
    due_in_ms: int, notified: Severity | None, waits: bool
) -> None:
    """The next quiet row may show it, as a poll does after a probe that was refused."""
    script, rows = started()
    observing = monitor()
    observing.apply([*rows, *healthy_seconds(script, 20)])
    now_ms = observing.tracked.now_ms
    condition = TrackedCondition(
        rule="stale-voter-endpoint",
        subject="voter 1",
        cluster_id="",
        started_at_ms=now_ms,
        due_at_ms=Millis(now_ms + due_in_ms),
        last_seen_at_ms=now_ms,
        notified_severity=notified,
        summary="",
        evidence={},
    )

    conditions = {"stale-voter-endpoint voter 1": condition}
    observing.tracked = TrackedConditions(now_ms=now_ms, conditions=conditions, quiet_until_ms=None)

    assert (observing.quiet_until_ms > now_ms) is waits


def test_rows_wait_as_long_after_quiet_rows_as_after_an_evaluation() -> None:
    """Else each batch of quiet rows would be followed by one for the evaluation that is due before the next."""
    script, rows = started()
    observing = monitor()
    observing.apply([*rows, *healthy_seconds(script, 20)])
    waits_ms = observing.furthest_quiet_until_ms - observing.machine.now_ms
    evaluated_ms = observing.tracked.now_ms

    observing.apply([row._replace(quiet=True) for row in healthy_seconds(script, 4)])

    assert observing.tracked.now_ms == evaluated_ms, "they were not evaluated"
    assert observing.furthest_quiet_until_ms - observing.machine.now_ms == waits_ms > 0
