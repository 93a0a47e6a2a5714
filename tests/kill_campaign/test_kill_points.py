"""The kill campaign: its points exist in the product, and its checks find what is wrong."""

import importlib
from collections.abc import Sequence, Set
from pathlib import Path

import pytest

from connectors.sinks.alert_json import to_line
from rules.alert import Alert
from tests.kill_campaign.delivery_check import ExecutedKill, PeopleSinkCheck, SinkResult, check_file
from tests.kill_campaign.delivery_log import Attempt, DeliveryLog, LedgerMark, key_text
from tests.kill_campaign.instrumentation import resolve
from tests.kill_campaign.kill_point import KILL_POINTS, KillPoint, Role
from tests.kill_campaign.sink_services import PAGERDUTY, SLACK, AcceptedRequest
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, alert

FIRING = alert("quorum")
RESOLVED = alert("quorum", resolved=True, observed_at_ms=NOON_MS + 60_000)
INCIDENT = "1f0c"


@pytest.mark.parametrize("point", KILL_POINTS, ids=lambda each: each.name)
def test_the_function_of_a_kill_point_exists(point: KillPoint) -> None:
    assert callable(resolve(importlib.import_module(point.module), point.function)[2])


def written(tmp_path: Path, *alerts: Alert) -> SinkResult:
    path = tmp_path / "alerts.jsonl"
    path.write_bytes(b"".join(to_line(each, NOON_MS) for each in alerts))
    return check_file(path, [FIRING, RESOLVED])


def test_a_lost_a_doubled_and_a_late_line_are_found(tmp_path: Path) -> None:
    assert written(tmp_path, FIRING, RESOLVED).problems == ()
    assert written(tmp_path, FIRING).lost == 1
    assert written(tmp_path, FIRING, FIRING, RESOLVED).doubled == 1
    assert "order" in written(tmp_path, RESOLVED, FIRING).problems[0]


def attempt(t: float, *alerts: Alert, sink: str, reason: str = "firing", pid: int = 1) -> Attempt:
    keys = frozenset(key_text(each.key) for each in alerts)
    return Attempt(t=t, pid=pid, sink=sink, incident=INCIDENT, reason=reason, keys=keys)


def mark(t: float, *alerts: Alert, sink: str) -> LedgerMark:
    keys = frozenset(key_text(each.key) for each in alerts)
    return LedgerMark(t=t, sink=sink, keys=keys, incidents=frozenset({INCIDENT}))


def kill(t: float, victim: Role = Role.DRIVER) -> ExecutedKill:
    return ExecutedKill(number=1, at="after Slack post", victim=victim, t=t)


def check(
    sink: str,
    attempts: Sequence[Attempt],
    accepted: Sequence[tuple[float, str]],
    *,
    marks: Sequence[LedgerMark] = (),
    kills: Sequence[ExecutedKill] = (),
    open_keys: Set[str] = frozenset(),
) -> SinkResult:
    """Returns the result of one sink for the alerts FIRING and RESOLVED."""
    return PeopleSinkCheck(
        sink=sink,
        alerts=[FIRING, RESOLVED],
        discarded=set(),
        log=DeliveryLog(attempts=attempts, marks=marks),
        accepted=[AcceptedRequest(t=t, effect=effect, subject=INCIDENT) for t, effect in accepted],
        kills=kills,
        open_keys=open_keys,
    ).result()


def test_a_delivered_incident_has_no_problem() -> None:
    attempts = [attempt(1, FIRING, sink=PAGERDUTY), attempt(3, RESOLVED, sink=PAGERDUTY, reason="resolved")]

    result = check(PAGERDUTY, attempts, [(2, "opened"), (4, "resolved")])

    assert (result.found, result.lost, result.doubled, result.problems) == (2, 0, 0, ())


def test_a_transition_that_was_not_reported_is_lost() -> None:
    result = check(PAGERDUTY, [attempt(1, FIRING, sink=PAGERDUTY)], [(2, "opened")], open_keys={INCIDENT})

    assert result.lost == 1
    assert any("is resolved; its newest notification is firing" in problem for problem in result.problems)


def test_a_second_page_for_a_reported_transition_is_found() -> None:
    both = [attempt(t, FIRING, RESOLVED, sink=PAGERDUTY, reason="resolved") for t in (1, 11)]
    accepted = [(2, "opened"), (3, "resolved"), (12, "opened"), (13, "resolved")]

    result = check(PAGERDUTY, both, accepted, kills=[kill(4)])

    assert result.doubled == 1
    assert "kill 1" in result.problems[-1]


RESENT = [
    attempt(1, FIRING, sink=SLACK),
    attempt(11, FIRING, sink=SLACK, pid=2),
    attempt(21, RESOLVED, sink=SLACK, reason="resolved", pid=2),
]
POSTED = [(2.0, "message"), (12.0, "message"), (22.0, "edit"), (23.0, "reply")]


def test_a_second_slack_message_is_explained_by_a_kill_before_the_ledger_write() -> None:
    result = check(SLACK, RESENT, POSTED, kills=[kill(3)])

    assert result.problems == ()
    assert len(result.explained) == 1


@pytest.mark.parametrize(
    "kills",
    [[], [kill(30)], [kill(6)], [kill(3, Role.GATHERER)]],
    ids=["none", "later", "after the ledger write", "of the gatherer"],
)
def test_a_second_slack_message_without_such_a_kill_is_a_problem(kills: list[ExecutedKill]) -> None:
    result = check(SLACK, RESENT, POSTED, kills=kills, marks=[mark(5, FIRING, sink=SLACK)])

    assert result.doubled == 1
    assert result.explained == ()
