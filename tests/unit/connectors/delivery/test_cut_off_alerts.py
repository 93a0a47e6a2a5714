"""Which notifications people get when this host cannot observe several clusters."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from connectors.delivery.dispatcher import Dispatcher
from connectors.delivery.job_alerts import SETTLED_MS, Visibility
from connectors.delivery.ledger import Ledger
from connectors.sinks.sink import DeliveryMode
from connectors.store.tables import job_database
from rules.alert import Alert
from rules.finding import Severity
from rules.model.identifiers import Millis
from rules.notifications.route import JOB_CLUSTER_ID, Route
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, RecordingSink, alert

FIVE = ("a", "b", "c", "d", "e")


@dataclass
class Host:
    """A job that monitors clusters, with sinks for people, a clock, and what it observes."""

    folder: Path
    monitored: Sequence[str] = FIVE
    routes: Sequence[Route] = (Route(),)
    now_ms: Millis = NOON_MS
    pending: set[str] = field(default_factory=set)
    """The clusters whose status says that nothing is observed."""

    def __post_init__(self) -> None:
        self.sinks = [
            RecordingSink(name=f"sink {number}", mode=DeliveryMode.INCIDENTS, route=route)
            for number, route in enumerate(self.routes)
        ]
        self.record = RecordingSink(name="record")
        self.restart()

    def restart(self) -> None:
        self._dispatcher = Dispatcher(
            Ledger(job_database(self.folder)),
            [*self.sinks, self.record],
            visibility=lambda: Visibility(monitored=self.monitored, blind=self.pending),
            deadline_s=30,
            patience_s=30,
        )

    def after(self, seconds: int, *alerts: Alert) -> list[str]:
        """Delivers so many seconds later and returns what the first sink got: reason, severity, clusters, subjects."""
        self.now_ms = Millis(self.now_ms + 1_000 * seconds)
        known = len(self.sinks[0].notifications)
        self._dispatcher.deliver(alerts, self.now_ms)
        return [
            f"{each.reason} {each.severity} " + ", ".join(f"{one.cluster} {one.subject}" for one in each.alerts)
            for each in self.sinks[0].notifications[known:]
        ]

    def blind(self, *names: str, resolved: bool = False, severity: Severity = Severity.CRITICAL) -> list[Alert]:
        """Returns the transitions of these clusters, at the present time."""
        return [
            alert(
                "quorum",
                rule="monitor-blind",
                cluster=name,
                cluster_id=f"id of {name}",
                severity=severity,
                resolved=resolved,
                evidence={"metadata_log_last_answer": "never", "describe_quorum_last_answer": "never"},
                observed_at_ms=self.now_ms,
            )
            for name in names
        ]


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


ONE_PAGE = "firing critical kraftwatch clusters"


def test_a_host_that_is_cut_off_is_one_page(host: Host) -> None:
    host.pending = set(FIVE)
    assert host.after(0, *host.blind("a")) == [ONE_PAGE]
    page = host.sinks[0].notifications[0].root
    assert page.summary == (
        "This host cannot observe 5 of 5 clusters since 2026-11-20 05:01:02 UTC: a, b, c, d and e. "
        "Their state is unknown."
    )
    assert page.evidence["clusters"] == [*FIVE]
    for name in FIVE[1:]:
        assert host.after(3, *host.blind(name)) == []
    assert host.after(120) == []

    host.pending = set()
    for name in FIVE[:-1]:
        assert host.after(3, *host.blind(name, resolved=True)) == []
    assert host.after(3, *host.blind("e", resolved=True)) == ["resolved critical kraftwatch clusters"]
    assert host.sinks[0].notifications[-1].summary.startswith("This host observes 5 of 5 clusters.")
    assert host.after(600) == []
    assert len(host.record.transitions) == 12, "a record has every transition"


def test_alerts_that_resolve_with_the_evidence_of_the_recovery_are_not_sent(host: Host) -> None:
    host.pending = set(FIVE)
    assert host.after(0, *host.blind(*FIVE)) == [ONE_PAGE]

    host.pending = set()
    seen = {"metadata_log_last_answer": "current", "describe_quorum_last_answer": "never"}
    resolved = [replace(each, evidence=seen) for each in host.blind(*FIVE, resolved=True)]
    assert host.after(9, *resolved) == ["resolved critical kraftwatch clusters"]
    assert host.after(600) == []


@pytest.mark.parametrize(
    ("monitored", "pending", "firing", "page"),
    [
        ("abcde", {"a", "b"}, "a", "firing critical a quorum"),
        ("abcd", {"a", "b"}, "a", ONE_PAGE),
        ("a", {"a"}, "a", "firing critical a quorum"),
        ("ab", {"a"}, "a", "firing critical a quorum"),
        ("abc", {"a", "former"}, "a", "firing critical a quorum"),
        ("abc", {"a", "b"}, "former", "firing critical former quorum"),
    ],
    ids=["fewer than half", "half", "the only one", "one of two", "with a former one", "a former one"],
)
def test_several_monitored_clusters_that_are_at_least_half_are_one_page_and_others_are_not(
    tmp_path: Path, monitored: str, pending: set[str], firing: str, page: str
) -> None:
    host = Host(tmp_path, monitored=monitored, pending=pending)
    assert host.after(0, *host.blind(firing)) == [page]


def test_a_cluster_that_was_sent_before_the_others_is_resolved_too(host: Host) -> None:
    host.after(0, *host.blind("a"))
    host.pending = {"a", "b", "c"}
    assert host.after(40, *host.blind("b")) == [ONE_PAGE]
    host.pending = set()
    assert host.after(9, *host.blind("b", resolved=True)) == []
    assert host.after(1, *host.blind("a", resolved=True)) == [
        "resolved critical a quorum",
        "resolved critical kraftwatch clusters",
    ]


def test_a_cluster_of_which_something_is_observed_or_that_is_no_longer_monitored_does_not_count(host: Host) -> None:
    partly = [
        alert("quorum", rule="monitor-blind", cluster=name, cluster_id=name, evidence={**seen, "x": "never"})
        for name, seen in (("b", {"metadata_log_last_answer": "current"}), ("c", {}))
    ]
    host.pending = {"former"}
    assert len(host.after(0, *host.blind("a", "former"), *partly)) == 4


def test_clusters_that_are_blind_later_are_added_to_the_list(host: Host) -> None:
    host.pending = {"a", "b", "c"}
    host.after(0, *host.blind("a", "b", "c"))
    assert host.after(5, *host.blind("d")) == []
    assert host.after(6, *host.blind("e")) == [], "collected as a minor change"
    assert host.after(60) == ["changed critical kraftwatch clusters"]
    assert host.sinks[0].notifications[-1].root.evidence["clusters"] == [*FIVE]


def test_a_cluster_that_was_blind_before_the_others_and_is_added_later_leaves_no_page_open(host: Host) -> None:
    host.pending = {"a", "b", "c"}
    host.after(0, *host.blind("a", "b", "c"))
    host.pending |= {"d"}
    (late,) = host.blind("d")
    assert host.after(11, replace(late, started_at_ms=Millis(late.started_at_ms - 60_000))) == []
    host.after(60)
    host.pending = set()
    assert host.after(3, *host.blind("a", "b", "c", "d", resolved=True)) == ["resolved critical kraftwatch clusters"]


def test_clusters_that_stay_blind_when_most_are_observed_again_are_sent_then(host: Host) -> None:
    host.pending = set(FIVE)
    host.after(0, *host.blind(*FIVE))
    host.pending = {"a"}
    assert host.after(10, *host.blind("b", "c", "d", "e", resolved=True)) == []
    assert host.after(SETTLED_MS // 1000 - 1) == []
    assert host.after(1) == ["firing critical a quorum", "resolved critical kraftwatch clusters"]


def test_clusters_that_are_lost_again_at_once_are_still_one_page(host: Host) -> None:
    host.pending = set(FIVE)
    host.after(0, *host.blind(*FIVE))
    host.pending = {"a", "b"}
    assert host.after(10, *host.blind("c", "d", "e", resolved=True)) == []
    host.pending = set(FIVE)
    assert host.after(50, *host.blind("c", "d", "e")) == []
    assert host.after(20) == []
    # The settling time begins again.
    host.pending = {"a", "b"}
    assert host.after(10, *host.blind("c", "d", "e", resolved=True)) == []
    assert host.after(SETTLED_MS // 1000 - 1) == []
    assert len(host.after(1)) == 3


def test_a_restart_in_the_middle_sends_nothing_twice(host: Host) -> None:
    host.pending = set(FIVE)
    host.after(0, *host.blind(*FIVE[:3]))
    host.pending = set()
    host.restart()
    assert host.after(5, *host.blind("d", "e")) == []
    host.restart()
    assert host.after(5, *host.blind(*FIVE, resolved=True)) == ["resolved critical kraftwatch clusters"]


def test_a_sink_gets_the_page_if_one_of_its_clusters_is_blind(tmp_path: Path) -> None:
    routes = [
        Route(clusters=("a",), min_severity=Severity.CRITICAL),
        Route(clusters=("e",)),
        Route(clusters=("d",)),
        Route(excluded_rules=("monitor-*",)),
    ]
    host = Host(tmp_path, routes=routes)
    host.pending = {"a", "b", "c"}
    host.after(0, *host.blind("a", "b", "c"))
    assert [len(each.notifications) for each in host.sinks] == [1, 0, 0, 0]
    assert {each.root.cluster for each in host.sinks[0].notifications} == {JOB_CLUSTER_ID}
    host.after(20, *host.blind("e"))
    assert [len(each.notifications) for each in host.sinks] == [1, 1, 0, 0]
    assert host.sinks[1].notifications[0].root.evidence["clusters"] == ["a", "b", "c", "e"]
    host.pending = set()
    host.after(5, *host.blind("a", "b", "c", "e", resolved=True))
    assert [len(each.notifications) for each in host.sinks] == [2, 2, 0, 0]


def test_its_severity_is_the_worst_of_the_clusters(host: Host) -> None:
    host.pending = set(FIVE)
    outside = host.blind(*FIVE, severity=Severity.WARNING)
    assert host.after(0, *outside) == ["firing warning kraftwatch clusters"]
