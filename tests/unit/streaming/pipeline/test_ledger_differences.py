"""A job that notifies ends what only another job found, and sends what the ledger lacks of its own."""

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from connectors.delivery.ledger import Ledger
from connectors.store.alert_codec import ALERT, ALERTS
from connectors.store.tables import job_database
from rules.alert import Alert, AlertState
from rules.finding import Severity, UnknownResult
from rules.model.identifiers import Millis
from rules.notifications.route import JOB_CLUSTER_ID
from streaming.pipeline.ledger_differences import HOLD_S, LedgerDifferences
from streaming.pipeline.output_rows import OutputKind
from streaming.status.cluster_status import ClusterStatus, FindingStatus, to_bytes
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, alert
from tests.unit.streaming.pipeline.test_deliver_containment import Batch, row
from tests.unit.streaming.pipeline.test_standby_delivery import Job
from tests.unit.streaming.status.statuses import NO_OBSERVATION

BLIND = alert("quorum", rule="monitor-blind", cluster="prod")
LATER, LATEST = Millis(NOON_MS + 60_000), Millis(NOON_MS + 120_000)
NOW_MS = Millis(NOON_MS + 600_000)
HEALTHY = replace(NO_OBSERVATION, cluster="prod", now_ms=LATER, findings=(), unknown=(), pending=())
FINDING = FindingStatus(rule="monitor-blind", subject="quorum", severity=Severity.CRITICAL, summary="It is unknown.")
FOUND = replace(HEALTHY, findings=(FINDING,))
FIRED, RESOLVED = AlertState.FIRING, AlertState.RESOLVED


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(job_database(tmp_path))


def ends(
    ledger: Ledger,
    seconds: list[float],
    statuses: Sequence[ClusterStatus | None],
    *,
    other: Alert = BLIND,
    own: Sequence[Alert] = (),
) -> list[bool]:
    """Returns whether another job's alert ends with each of these statuses; HOLD_S passes before each of them."""
    newest: list[ClusterStatus | None] = [None]
    differences, found = LedgerDifferences(lambda _: newest[0]), []
    differences.restored("prod", own)
    ledger.record([other], NOW_MS)
    for newest[0] in statuses:
        seconds[0] += HOLD_S
        due = differences.due(ledger, NOW_MS, besides=())
        ledger.record(due, NOW_MS)
        found.append(any(one.state is RESOLVED for one in due))
    return found


def test_what_is_not_found_for_the_hold_ends_once(ledger: Ledger, seconds: list[float]) -> None:
    assert ends(ledger, seconds, [HEALTHY, HEALTHY, HEALTHY]) == [False, True, False]


@pytest.mark.parametrize(
    "status",
    [
        None,
        replace(HEALTHY, now_ms=BLIND.observed_at_ms),
        replace(HEALTHY, unknown=(UnknownResult(rule="monitor-blind", why="nothing was tried"),)),
        replace(HEALTHY, unknown=(UnknownResult(rule="monitor-blind", subject="quorum", why="nothing was tried"),)),
        FOUND,
    ],
    ids=["no status", "not evaluated yet", "unknown", "unknown of the subject", "found"],
)
def test_what_this_job_finds_or_cannot_decide_stays_and_the_hold_begins_again(
    ledger: Ledger, seconds: list[float], status: ClusterStatus | None
) -> None:
    assert ends(ledger, seconds, [HEALTHY, status, HEALTHY, HEALTHY]) == [False, False, False, True]


def test_what_fires_in_this_job_too_is_resolved_by_its_own_evaluation(ledger: Ledger, seconds: list[float]) -> None:
    assert ends(ledger, seconds, [HEALTHY, HEALTHY], own=[BLIND]) == [False, False]


def test_what_a_job_whose_clock_was_ahead_has_recorded_ends_before_that_time(
    ledger: Ledger, seconds: list[float]
) -> None:
    ahead = replace(BLIND, observed_at_ms=Millis(NOW_MS + 3_600_000))
    assert ends(ledger, seconds, [HEALTHY, HEALTHY], other=ahead) == [False, True]


def test_another_subject_and_another_rule_are_not_the_alert(ledger: Ledger, seconds: list[float]) -> None:
    others = (replace(FINDING, subject="controller 1"), replace(FINDING, rule="no-leader"))
    unknown = (UnknownResult(rule="monitor-blind", subject="controller 1", why="not tried"),)
    assert ends(ledger, seconds, [replace(HEALTHY, findings=others, unknown=unknown)] * 2) == [False, True]


def test_alerts_about_the_job_itself_are_not_the_clusters(ledger: Ledger, seconds: list[float]) -> None:
    own = replace(BLIND, cluster_id=JOB_CLUSTER_ID)
    assert ends(ledger, seconds, [HEALTHY, HEALTHY], other=own) == [False, False]


def lacking(ledger: Ledger, status: ClusterStatus, recorded: Sequence[Alert]) -> Sequence[Alert]:
    """Returns what the ledger is given of a job in whose state the alert fires."""
    differences = LedgerDifferences(lambda _: status)
    differences.restored("prod", [BLIND])
    ledger.record(recorded, NOW_MS)
    return differences.due(ledger, NOW_MS, besides=())


def test_what_no_ledger_has_is_sent_as_it_is_found_now(ledger: Ledger) -> None:
    (sent,) = lacking(ledger, FOUND, [])
    assert sent == replace(BLIND, summary="It is unknown.", due_at_ms=LATER, observed_at_ms=LATER)


ENDED = replace(BLIND, state=RESOLVED, observed_at_ms=Millis(LATER - 1))


@pytest.mark.parametrize(
    ("status", "recorded", "sent"),
    [
        (FOUND, [BLIND], []),
        (FOUND, [BLIND, ENDED], [(FIRED, LATER)]),
        (HEALTHY, [BLIND, ENDED], []),
        (FOUND, [BLIND, replace(ENDED, observed_at_ms=LATER)], []),
        (FOUND, [BLIND, replace(ENDED, observed_at_ms=Millis(NOW_MS + 60_000))], []),
        (FOUND, [BLIND, replace(ENDED, observed_at_ms=Millis(NOW_MS + 60_001))], [(FIRED, LATER)]),
        (FOUND, [replace(BLIND, severity=Severity.WARNING)], [(FIRED, BLIND.started_at_ms)]),
    ],
    ids=[
        "it has it",
        "it ended",
        "it is not found now",
        "it ended later",
        "almost ahead",
        "the other clock is ahead",
        "severity",
    ],
)
def test_what_the_ledger_has_otherwise_is_sent_if_this_job_finds_it_later(
    ledger: Ledger, status: ClusterStatus, recorded: Sequence[Alert], sent: list[tuple[AlertState, Millis]]
) -> None:
    assert [(one.state, one.started_at_ms) for one in lacking(ledger, status, recorded)] == sent


def evaluate(job: Job, status: ClusterStatus, *alerts: Alert, restored: Sequence[Alert] | None = None) -> None:
    """Delivers a batch of a job."""
    rows = [row(OutputKind.ALERT, "prod", "f", ALERT.dump_json(each).decode()) for each in alerts]
    rows.append(row(OutputKind.STATUS, "prod", "", to_bytes(status).decode()))
    if restored is not None:
        rows.append(row(OutputKind.FIRING, "prod", "", ALERTS.dump_json(restored).decode()))
    job.deliver(Batch(*rows), 0)  # type: ignore[arg-type]


def states(job: Job) -> list[AlertState]:
    return [one.state for each in job.sink.notifications for one in each.new_transitions]


@pytest.mark.parametrize("restarted", [False, True])
def test_an_alert_that_another_job_ended_is_sent_again_by_the_job_that_still_finds_it(
    tmp_path: Path, seconds: list[float], *, restarted: bool
) -> None:
    first, second = Job(tmp_path), Job(tmp_path)
    first.role.becomes_active()
    evaluate(first, FOUND, BLIND)
    first.role.becomes_standby()
    second.role.becomes_active()
    for _ in range(2):
        evaluate(first, FOUND)
        evaluate(second, HEALTHY)
        seconds[0] += HOLD_S
    assert (states(first), states(second)) == ([FIRED], [RESOLVED])

    # Its state yields nothing: the condition has lasted all the time.
    again = Job(tmp_path) if restarted else first
    again.role.becomes_active()
    evaluate(again, replace(FOUND, now_ms=LATEST), restored=[BLIND] if restarted else None)
    evaluate(again, replace(FOUND, now_ms=Millis(LATEST + 1)))
    assert states(again) == ([FIRED] if restarted else [FIRED, FIRED])
    evaluate(again, HEALTHY, replace(BLIND, state=RESOLVED, observed_at_ms=Millis(LATEST + 2)))
    assert states(again)[-1] is RESOLVED
    assert again.ledger.firing() == []


def test_an_alert_that_a_server_has_lost_is_recorded_again(tmp_path: Path) -> None:
    job = Job(tmp_path)
    job.role.becomes_active()
    evaluate(job, FOUND, BLIND)
    # The replica that took over did not have the newest second.
    (tmp_path / "replica").mkdir()
    replica = Ledger(job_database(tmp_path / "replica"))
    replica.add_sink("people")
    job.ledger._store = replica._store
    job.ledger.refresh()
    evaluate(job, FOUND)
    assert [one.summary for one in job.ledger.firing()] == ["It is unknown."]
