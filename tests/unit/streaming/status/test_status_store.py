"""The newest statuses and the newest delivery."""

from dataclasses import replace

import pytest

from connectors.delivery.delivery_report import DeliveryReport
from rules.finding import Severity
from rules.model.identifiers import Millis
from streaming.status.build_status import cluster_status
from streaming.status.cluster_status import ClusterStatus, FindingStatus, TopicRecovery
from streaming.status.health import unobserved_quorum
from streaming.status.status_store import ENDED_RECOVERIES_KEPT, StatusStore
from tests.present import present
from tests.situation.commands import situation
from tests.unit.streaming.status.statuses import NO_OBSERVATION, state_of

NOW = 1_795_150_862_345


def recovering(*topics: str, cluster: str = "prod", at: int = NOW) -> ClusterStatus:
    """A status with one recovering partition in each topic."""
    recoveries = tuple(
        TopicRecovery(topic=name, topic_id=f"id-{name}", since_ms=Millis(NOW - 5_000), at_least=False, partitions=1)
        for name in topics
    )
    return replace(
        NO_OBSERVATION,
        cluster=cluster,
        recoveries=recoveries,
        recovering_partitions=len(topics),
        now_ms=Millis(at),
    )


def ended_topics(*statuses: ClusterStatus) -> list[str]:
    store = StatusStore(["prod"])
    for status in statuses:
        store.put_status(status, at_ms=status.now_ms)
    return [f"{one.topic_id} {one.ended_ms - NOW}" for one in present(store.newest("prod")).ended_recoveries]


A = recovering("a")
CREATED_AGAIN = replace(A.recoveries[0], topic_id="id of the topic that was created again")


@pytest.mark.parametrize(
    ("statuses", "ended"),
    [
        ([recovering("a", "b"), recovering("b", at=NOW + 1_000)], ["id-a 1000"]),
        ([A, replace(A, recoveries=(CREATED_AGAIN,))], ["id-a 0"]),
        # Its oldest partition has recovered: other topics are recovering for longer, and the limit leaves it out.
        ([recovering("a", "b"), replace(recovering("b", "c"), recovering_partitions=3)], []),
        ([A, replace(recovering(), recovering_partitions=None)], []),
    ],
    ids=["no longer recovering", "deleted and created again", "beyond the limit", "no log was read"],
)
def test_topics_whose_recovery_has_ended(statuses: list[ClusterStatus], ended: list[str]) -> None:
    assert ended_topics(*statuses) == ended


def test_ended_recoveries_are_kept_the_newest_ones() -> None:
    found = ended_topics(*(recovering(f"t{number}") for number in range(ENDED_RECOVERIES_KEPT + 3)))
    assert found == [f"id-t{number} 0" for number in range(2, ENDED_RECOVERIES_KEPT + 2)]


def test_removed_cluster_is_dropped_and_the_others_stay() -> None:
    store = StatusStore(["a", "b"])
    for name in ("a", "b"):
        store.put_status(recovering(cluster=name), at_ms=Millis(NOW))
    store.set_clusters(["b", "c"])
    assert store.names == ("b", "c")
    assert [store.newest(name) is not None for name in ("a", "b", "c")] == [False, True, False]


def test_history_is_read_only_when_a_delivery_recorded_something() -> None:
    store, calls = StatusStore(["a"]), []

    def history() -> tuple[()]:
        calls.append(1)
        return ()

    for recorded in (0, 0, 2, 0):
        store.put_delivery(DeliveryReport(recorded=recorded, sinks={}), history, at_ms=Millis(NOW))
    assert len(calls) == 2


def observed_cluster(cluster: str) -> ClusterStatus:
    return replace(NO_OBSERVATION, cluster=cluster, findings=())


def blind(cluster: str = "prod", *, nothing_observed: bool = True) -> ClusterStatus:
    """A status with a finding of monitor-blind."""
    finding = FindingStatus(
        rule="monitor-blind",
        subject="quorum",
        severity=Severity.CRITICAL,
        summary="The state of the quorum is unknown.",
        nothing_observed=nothing_observed,
    )
    return replace(NO_OBSERVATION, cluster=cluster, findings=(finding,))


@pytest.mark.parametrize(
    ("statuses", "observed"),
    [
        ([], False),
        ([observed_cluster("prod")], True),
        ([blind()], False),
        ([blind(), observed_cluster("test")], True),
        ([blind(), blind("test")], False),
        ([blind(nothing_observed=False)], True),
    ],
)
def test_a_job_observes_while_one_cluster_answers(statuses: list[ClusterStatus], observed: bool) -> None:
    store = StatusStore(["prod", "test"])
    for status in statuses:
        store.put_status(status, at_ms=Millis(NOW))
    assert store.observes_any(Millis(NOW + 60_000)) is observed
    assert not store.observes_any(Millis(NOW + 60_001)), "no row arrives any more"


@pytest.mark.parametrize(
    ("commands", "observed"),
    [
        ((), True),
        (("all-refuse",), True),
        (("fails quorum denied 3",), True),
        (("fails view denied 2",), True),
        (("unanswered 14s", "fails log timed-out 1 for 13s"), False),
    ],
)
def test_an_outage_that_controllers_report_is_observed(commands: tuple[str, ...], observed: bool) -> None:
    assert (unobserved_quorum(cluster_status(state_of(situation(*commands))).findings) is None) is observed


def test_a_cluster_is_blind_while_its_status_observes_nothing_and_it_is_configured() -> None:
    store = StatusStore(["prod", "test", "new"])
    store.put_status(blind(), at_ms=Millis(NOW))
    store.put_status(observed_cluster("test"), at_ms=Millis(NOW))
    assert [one.name for one in store.blind()] == ["prod"]
    for names in (["test"], ["test", "prod"]):
        store.set_clusters(names)
        assert store.blind() == [], "not when it is added again"
