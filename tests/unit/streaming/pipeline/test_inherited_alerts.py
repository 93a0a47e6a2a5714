"""Alerts that only another job found end once the job that took over does not find them."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from connectors.delivery.dispatcher import Dispatcher
from connectors.delivery.ledger import Ledger
from connectors.sinks.sink import DeliveryMode
from connectors.store.collection import quarantine_of
from connectors.store.tables import job_database
from rules.alert import Alert, AlertState
from rules.finding import Severity, UnknownResult
from rules.model.identifiers import Millis
from rules.notifications.route import JOB_CLUSTER_ID
from streaming.pipeline.deliver import Deliver
from streaming.pipeline.inherited_alerts import HOLD_S, InheritedAlerts
from streaming.status.cluster_status import ClusterStatus, FindingStatus, PendingCondition
from streaming.status.status_store import StatusStore
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, RecordingSink, alert
from tests.unit.streaming.pipeline.test_standby_delivery import FakeRole
from tests.unit.streaming.status.statuses import NO_OBSERVATION

BLIND = alert("quorum", rule="monitor-blind", cluster="prod")
LATER = Millis(NOON_MS + 60_000)
HEALTHY = replace(NO_OBSERVATION, cluster="prod", now_ms=LATER, findings=(), unknown=(), pending=())
FINDING = FindingStatus(rule="monitor-blind", subject="quorum", severity=Severity.CRITICAL, summary="unknown")
PENDING = PendingCondition(
    rule="monitor-blind", subject="quorum", summary="unknown", started_at_ms=LATER, due_at_ms=LATER
)


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def ends(seconds: list[float], statuses: Sequence[ClusterStatus | None], *, inherited: Alert = BLIND) -> list[bool]:
    """Returns whether the alert ends with each of these statuses; HOLD_S passes before each of them."""
    alerts, found = InheritedAlerts([inherited]), []
    for status in statuses:
        seconds[0] += HOLD_S
        found.append(bool(alerts.due([inherited], lambda _, each=status: each)))  # type: ignore[misc]
    return found


def test_what_is_not_found_for_the_hold_ends_once(seconds: list[float]) -> None:
    assert ends(seconds, [HEALTHY, HEALTHY, HEALTHY]) == [False, True, False]


@pytest.mark.parametrize(
    "status",
    [
        None,
        replace(HEALTHY, now_ms=BLIND.observed_at_ms),
        replace(HEALTHY, unknown=(UnknownResult(rule="monitor-blind", why="nothing was tried"),)),
        replace(HEALTHY, unknown=(UnknownResult(rule="monitor-blind", subject="quorum", why="nothing was tried"),)),
        replace(HEALTHY, findings=(FINDING,), pending=(PENDING,)),
    ],
    ids=["no status", "not evaluated yet", "unknown", "unknown of the subject", "its hold has not expired"],
)
def test_what_this_job_cannot_decide_stays_and_the_hold_begins_again(
    seconds: list[float], status: ClusterStatus | None
) -> None:
    assert ends(seconds, [HEALTHY, status, HEALTHY, HEALTHY]) == [False, False, False, True]


def test_what_fires_in_this_job_too_is_resolved_by_its_own_evaluation(seconds: list[float]) -> None:
    found = replace(HEALTHY, findings=(FINDING,))
    assert ends(seconds, [found, HEALTHY, HEALTHY]) == [False, False, False]


def test_another_subject_and_another_rule_are_not_the_alert(seconds: list[float]) -> None:
    others = (replace(FINDING, subject="controller 1"), replace(FINDING, rule="no-leader"))
    unknown = (UnknownResult(rule="monitor-blind", subject="controller 1", why="not tried"),)
    assert ends(seconds, [replace(HEALTHY, findings=others, unknown=unknown)] * 2) == [False, True]


def test_alerts_about_the_job_itself_are_not_the_clusters(seconds: list[float]) -> None:
    assert ends(seconds, [HEALTHY, HEALTHY], inherited=replace(BLIND, cluster_id=JOB_CLUSTER_ID)) == [False, False]


def test_the_end_is_sent_by_the_job_that_took_over(tmp_path: Path, seconds: list[float]) -> None:
    def job() -> tuple[Callable[[Sequence[Alert]], None], FakeRole, StatusStore, RecordingSink]:
        ledger, role, store = Ledger(job_database(tmp_path)), FakeRole(), StatusStore(["prod"])
        sink = RecordingSink(name="people", mode=DeliveryMode.INCIDENTS, repeat_s=None)
        deliver = Deliver(
            lambda: Dispatcher(ledger, [sink]),
            ledger,
            quarantine_of(job_database(tmp_path)),
            store=store,
            request_poll=lambda *_: None,
            role=role,
        )
        return deliver.send, role, store, sink

    send, role, _, _ = job()
    role.becomes_active()
    send([BLIND])
    send, role, store, sink = job()
    store.put_status(HEALTHY, at_ms=LATER)
    role.becomes_active()
    for _ in range(3):
        send([])
        seconds[0] += HOLD_S
    (resolved,) = [one for each in sink.notifications for one in each.new_transitions]
    assert (resolved.state, resolved.observed_at_ms, resolved.started_at_ms) == (
        AlertState.RESOLVED,
        LATER,
        BLIND.started_at_ms,
    )
    assert resolved.summary.startswith("Another job of this store reported it")
