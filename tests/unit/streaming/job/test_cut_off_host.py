"""Which notifications people get when this host cannot observe several clusters."""

from pathlib import Path

import pytest

from rules.finding import Severity
from rules.job.monitor_degraded import SETTLED_MS
from rules.model.job_state import JOB_CLUSTER_ID
from rules.model.monitoring import Reason
from rules.notifications import planner
from rules.notifications.route import Route
from tests.unit.streaming.job.monitored_job import MonitoredJob

FIVE = ("a", "b", "c", "d", "e")
ONE_PAGE = "firing critical kraftwatch clusters"


@pytest.fixture(autouse=True)
def _end_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of a page is sent half a minute later: that is tested with the planner."""
    monkeypatch.setattr(planner, "RECOVERY_MS", 0)


@pytest.fixture
def host(tmp_path: Path) -> MonitoredJob:
    return MonitoredJob(tmp_path, clusters=FIVE)


def lose(host: MonitoredJob, *names: str) -> None:
    """The status of these clusters says that nothing is observed: their alerts are pending."""
    host.blind = dict.fromkeys(names, 0.0)


def test_a_host_that_is_cut_off_is_one_page(host: MonitoredJob) -> None:
    lose(host, *FIVE)
    host.after(0, *host.blinded("a"))
    page = host.sinks[0].notifications[0].root
    assert host.sent() == [ONE_PAGE]
    assert page.evidence["clusters"] == [*FIVE]
    for name in FIVE[1:]:
        host.after(3, *host.blinded(name))
    host.after(120)
    assert host.sent() == []

    lose(host)
    for name in FIVE:
        host.after(3, *host.observed(name))
    host.after(11)
    assert host.sent() == ["resolved critical kraftwatch clusters"]
    host.after(600)
    assert host.sent() == []
    assert len(host.record.transitions) == 13, "a record has every transition, also that the list became shorter"


def test_clusters_that_have_causes_of_their_own_are_each_sent(host: MonitoredJob) -> None:
    """A password was rotated for all of them: each is reported with its own remedy."""
    host.reasons = frozenset({Reason.TIMED_OUT, Reason.NOT_AUTHENTICATED})
    lose(host, *FIVE)
    host.after(0, *host.blinded("a", "b"))
    assert host.sent() == ["firing critical a quorum", "firing critical b quorum"]


def test_a_cluster_that_was_sent_before_the_others_is_resolved_too(host: MonitoredJob) -> None:
    host.after(0, *host.blinded("a"))
    assert host.sent() == ["firing critical a quorum"]
    host.blind = dict.fromkeys("abc", 40.0) | {"a": 0.0}
    host.after(40, *host.blinded("b", since=40))
    assert host.sent() == [ONE_PAGE]
    lose(host)
    host.after(9, *host.observed("a", "b", "c"))
    host.after(11)
    assert sorted(host.sent()) == ["resolved critical a quorum", "resolved critical kraftwatch clusters"]


def test_clusters_that_are_blind_later_are_added_to_the_list(host: MonitoredJob) -> None:
    lose(host, "a", "b", "c")
    host.after(0, *host.blinded("a", "b", "c"))
    assert host.sent() == [ONE_PAGE]
    host.after(5, *host.blinded("d", since=5))
    host.after(6, *host.blinded("e", since=11))
    assert host.sent() == [], "collected as a minor change"
    host.after(70)
    assert host.sent() == ["changed critical kraftwatch clusters"]
    assert host.ledger.firing()[-1].evidence["clusters"] == [*FIVE]


def test_clusters_that_stay_blind_when_most_are_observed_again_are_sent_then(host: MonitoredJob) -> None:
    lose(host, *FIVE)
    host.after(0, *host.blinded(*FIVE))
    assert host.sent() == [ONE_PAGE]
    lose(host, "a")
    host.after(10, *host.observed("b", "c", "d", "e"))
    host.after(SETTLED_MS / 1_000 - 2)
    assert host.sent() == []
    host.after(20)
    assert host.sent() == ["firing critical a quorum", "resolved critical kraftwatch clusters"]


def test_clusters_that_are_lost_again_at_once_are_still_one_page(host: MonitoredJob) -> None:
    lose(host, *FIVE)
    host.after(0, *host.blinded(*FIVE))
    lose(host, "a", "b")
    host.after(10, *host.observed("c", "d", "e"))
    lose(host, *FIVE)
    host.after(40, *host.blinded("c", "d", "e"))
    host.after(120)
    assert host.sent() == [ONE_PAGE]


def test_a_restart_in_the_middle_sends_nothing_twice(host: MonitoredJob) -> None:
    lose(host, *FIVE)
    host.after(0, *host.blinded(*FIVE[:3]))
    host.restart()
    host.after(5, *host.blinded("d", "e"))
    lose(host)
    host.restart()
    host.after(5, *host.observed(*FIVE))
    host.after(20)
    assert host.sent() == [ONE_PAGE, "resolved critical kraftwatch clusters"]


def test_a_sink_gets_the_page_if_one_of_its_clusters_is_blind(tmp_path: Path) -> None:
    routes = [
        Route(clusters=("a",), min_severity=Severity.CRITICAL),
        Route(clusters=("e",)),
        Route(clusters=("d",)),
        Route(rules=("!monitor-*",)),
    ]
    host = MonitoredJob(tmp_path, clusters=FIVE, routes=routes)
    lose(host, "a", "b", "c")
    host.after(0, *host.blinded("a", "b", "c"))
    assert [len(each.notifications) for each in host.sinks] == [1, 0, 0, 0]
    assert {each.root.cluster for each in host.sinks[0].notifications} == {JOB_CLUSTER_ID}
    host.after(20, *host.blinded("e", since=20))
    assert [len(each.notifications) for each in host.sinks] == [1, 1, 0, 0]
    assert host.sinks[1].notifications[0].root.evidence["clusters"] == ["a", "b", "c", "e"]
    lose(host)
    host.after(5, *host.observed("a", "b", "c", "e"))
    host.after(11)
    assert [len(each.notifications) for each in host.sinks] == [2, 2, 0, 0]


def test_its_severity_is_the_worst_of_the_clusters(host: MonitoredJob) -> None:
    host.after(0, *host.blinded(*FIVE, severity=Severity.WARNING))
    assert host.sent() == ["firing warning kraftwatch clusters"]
