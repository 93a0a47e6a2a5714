"""The newest statuses and the newest delivery."""

from dataclasses import replace

from connectors.delivery.delivery_report import DeliveryReport
from rules.model.identifiers import Millis
from streaming.status.cluster_status import ClusterStatus
from streaming.status.history_types import TopicRecovery
from streaming.status.status_store import StatusStore
from tests.unit.streaming.status.statuses import NO_OBSERVATION

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


def test_topic_that_is_no_longer_recovering_is_an_ended_recovery() -> None:
    store = StatusStore(["prod"])
    store.put_status(recovering("a", "b"), at_ms=Millis(NOW))
    store.put_status(recovering("b", at=NOW + 1_000), at_ms=Millis(NOW + 1_000))
    newest = store.newest("prod")
    assert newest is not None
    assert [(one.topic, one.since_ms, one.ended_ms) for one in newest.ended_recoveries] == [
        ("a", NOW - 5_000, NOW + 1_000)
    ]


def test_status_without_a_log_ends_no_recovery() -> None:
    store = StatusStore(["prod"])
    store.put_status(recovering("a"), at_ms=Millis(NOW))
    store.put_status(replace(recovering(), recovering_partitions=None), at_ms=Millis(NOW))
    newest = store.newest("prod")
    assert newest is not None
    assert newest.ended_recoveries == ()


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
