"""The points of kills exist in the product, and the check of deliveries finds what is wrong."""

import importlib
from pathlib import Path

import pytest

from connectors.sinks.alert_json import to_line
from rules.alert import Alert
from tests.chaos.delivery_check import PeopleSinkCheck, SinkResult, check_file
from tests.chaos.delivery_log import Attempt, DeliveryLog, LedgerMark, key_text
from tests.chaos.instrumentation import resolve
from tests.chaos.kill_order import ExecutedKill
from tests.chaos.kill_point import KILL_POINTS, KillPoint, Role
from tests.chaos.sink_services import PAGERDUTY, SLACK, AcceptedRequest
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


def attempt(t: float, sink: str, *alerts: Alert, reason: str = "firing", pid: int = 1) -> Attempt:
    keys = frozenset(key_text(each.key) for each in alerts)
    return Attempt(t=t, pid=pid, sink=sink, incident=INCIDENT, reason=reason, keys=keys)


def kill(t: float, victim: Role = Role.DRIVER) -> ExecutedKill:
    return ExecutedKill(number=1, at="after Slack post", victim=victim, t=t)


PAGED, ENDED = attempt(1, PAGERDUTY, FIRING), attempt(3, PAGERDUTY, RESOLVED, reason="resolved")
PAGED_AT_ONCE = [attempt(t, PAGERDUTY, FIRING, RESOLVED, reason="resolved") for t in (1, 11)]
POSTED_AGAIN = [
    attempt(1, SLACK, FIRING),
    attempt(11, SLACK, FIRING, pid=2),
    attempt(21, SLACK, RESOLVED, reason="resolved", pid=2),
]
POSTS = [(2, "message"), (12, "message"), (22, "edit"), (23, "reply")]
RECORDED = LedgerMark(t=5, sink=SLACK, keys=POSTED_AGAIN[0].keys, incidents=frozenset({INCIDENT}))


@pytest.mark.parametrize(
    ("attempts", "accepted", "kills", "marks", "counts", "problem"),
    [
        ([PAGED, ENDED], [(2, "opened"), (4, "resolved")], [], [], (0, 0, 0), None),
        ([PAGED], [(2, "opened")], [], [], (1, 0, 0), "is resolved; its newest notification is firing"),
        (
            PAGED_AT_ONCE,
            [(2, "opened"), (3, "resolved"), (12, "opened"), (13, "resolved")],
            [kill(4)],
            [],
            (0, 1, 0),
            "kill 1",
        ),
        (POSTED_AGAIN, POSTS, [kill(3)], [], (0, 0, 1), None),
        (POSTED_AGAIN, POSTS, [], [RECORDED], (0, 1, 0), "without a kill"),
        (POSTED_AGAIN, POSTS, [kill(30)], [RECORDED], (0, 1, 0), "without a kill"),
        (POSTED_AGAIN, POSTS, [kill(6)], [RECORDED], (0, 1, 0), "without a kill"),
        (POSTED_AGAIN, POSTS, [kill(3, Role.GATHERER)], [RECORDED], (0, 1, 0), "without a kill"),
    ],
    ids=["delivered", "lost", "paged twice", "posted before the ledger", "no kill", "later", "recorded", "gatherer"],
)
def test_what_is_lost_doubled_or_explained_by_a_kill_is_counted(
    attempts: list[Attempt],
    accepted: list[tuple[float, str]],
    kills: list[ExecutedKill],
    marks: list[LedgerMark],
    counts: tuple[int, int, int],
    problem: str | None,
) -> None:
    result = PeopleSinkCheck(
        sink=attempts[0].sink,
        alerts=[FIRING, RESOLVED],
        discarded=set(),
        log=DeliveryLog(attempts=attempts, marks=marks),
        accepted=[AcceptedRequest(t=t, effect=effect, subject=INCIDENT) for t, effect in accepted],
        kills=kills,
    ).result()
    assert (result.lost, result.doubled, len(result.explained)) == counts
    assert problem in " ".join(result.problems) if problem else result.problems == ()
