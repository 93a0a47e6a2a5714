"""A job that notifies ends what only another job found, and sends what the ledger lacks of its own."""

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from connectors.delivery.ledger import Ledger
from connectors.store.alert_codec import ALERTS
from connectors.store.tables import job_database
from rules.alert import Alert, AlertState
from rules.finding import Severity, UnknownResult
from rules.model.identifiers import Millis
from rules.notifications.route import JOB_CLUSTER_ID
from streaming.pipeline.ledger_differences import HOLD_S, LedgerDifferences
from streaming.pipeline.output_rows import OutputKind
from streaming.status.cluster_status import ClusterStatus, FindingStatus
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, alert
from tests.unit.streaming.pipeline.delivering_job import Job, alert_row, batch, status_row
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


OTHERS = replace(
    HEALTHY,
    findings=(replace(FINDING, subject="controller 1"), replace(FINDING, rule="no-leader")),
    unknown=(UnknownResult(rule="monitor-blind", subject="controller 1", why="not tried"),),
)
AHEAD = replace(BLIND, observed_at_ms=Millis(NOW_MS + 3_600_000))


@pytest.mark.parametrize(
    ("other", "own", "statuses", "ends"),
    [
        (BLIND, [], [HEALTHY, HEALTHY, HEALTHY], [False, True, False]),
        *(
            (BLIND, [], [HEALTHY, status, HEALTHY, HEALTHY], [False, False, False, True])
            for status in (
                None,
                replace(HEALTHY, now_ms=BLIND.observed_at_ms),
                replace(HEALTHY, unknown=(UnknownResult(rule="monitor-blind", why="not tried"),)),
                replace(HEALTHY, unknown=(UnknownResult(rule="monitor-blind", subject="quorum", why="not tried"),)),
                FOUND,
            )
        ),
        (BLIND, [BLIND], [HEALTHY, HEALTHY], [False, False]),
        (BLIND, [], [OTHERS, OTHERS], [False, True]),
        (AHEAD, [], [HEALTHY, HEALTHY], [False, True]),
        (replace(BLIND, cluster_id=JOB_CLUSTER_ID), [], [HEALTHY, HEALTHY], [False, False]),
    ],
    ids=[
        "it ends once, after the hold",
        *("no status", "not evaluated yet", "unknown", "unknown of the subject", "found"),
        "it fires here too, and is resolved by this job's evaluation",
        "another subject and another rule are not the alert",
        "recorded by a job whose clock was ahead",
        "about the job itself",
    ],
)
def test_an_alert_of_another_job_ends_if_this_one_does_not_find_it_for_the_hold(
    ledger: Ledger,
    seconds: list[float],
    other: Alert,
    own: Sequence[Alert],
    statuses: Sequence[ClusterStatus | None],
    ends: list[bool],
) -> None:
    """HOLD_S passes before each of the statuses."""
    newest: list[ClusterStatus | None] = [None]
    differences, found = LedgerDifferences(lambda _: newest[0]), []
    differences.restored("prod", own)
    ledger.record([other], NOW_MS)
    for newest[0] in statuses:
        seconds[0] += HOLD_S
        due = differences.due(ledger, NOW_MS, besides=())
        ledger.record(due, NOW_MS)
        found.append(any(one.state is RESOLVED for one in due))
    assert found == ends


def lacking(ledger: Ledger, status: ClusterStatus, recorded: Sequence[Alert]) -> Sequence[Alert]:
    """Returns what the ledger is given of a job in whose state the alert fires."""
    differences = LedgerDifferences(lambda _: status)
    differences.restored("prod", [BLIND])
    ledger.record(recorded, NOW_MS)
    return differences.due(ledger, NOW_MS, besides=())


def test_what_no_ledger_has_is_sent_as_it_is_found_now(ledger: Ledger) -> None:
    """As after a replica took over that did not have the newest second."""
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
    rows = [*map(alert_row, alerts), status_row(status)]
    if restored is not None:
        rows.append((OutputKind.FIRING, "prod", "", ALERTS.dump_json(restored).decode()))
    job.deliver(batch(*rows), 0)


def states(job: Job) -> list[AlertState]:
    return [one.state for one in job.sink.transitions]


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
