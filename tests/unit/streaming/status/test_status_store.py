"""What the fleet remembers from portrait to portrait."""

from typing import Any

from connectors.delivery.dispatcher import Report
from rules.model.identifiers import Millis
from streaming.status.status_store import Fleet

NOW = 1_795_150_862_345


def portrait(*topics: str, at: int = NOW) -> dict[str, Any]:
    recoveries = [{"topic": name, "topic_id": f"id-{name}", "since_ms": NOW - 5_000} for name in topics]
    return {"recoveries": recoveries, "recovering_partitions": len(topics), "now_ms": at}


def test_a_topic_that_is_no_longer_recovering_has_recovered() -> None:
    fleet = Fleet(["prod"])
    fleet.show("prod", portrait("a", "b"), at_ms=Millis(NOW))
    fleet.show("prod", portrait("b", at=NOW + 1_000), at_ms=Millis(NOW + 1_000))
    seen = fleet.seen("prod")
    assert seen is not None
    assert [(one.topic, one.since_ms, one.ended_ms) for one in seen.recovered] == [("a", NOW - 5_000, NOW + 1_000)]


def test_a_log_that_is_not_known_ends_no_recovery() -> None:
    fleet = Fleet(["prod"])
    fleet.show("prod", portrait("a"), at_ms=Millis(NOW))
    fleet.show("prod", {**portrait(), "recovering_partitions": None}, at_ms=Millis(NOW))
    seen = fleet.seen("prod")
    assert seen is not None
    assert seen.recovered == ()


def test_a_cluster_that_is_watched_no_longer_is_forgotten_and_the_others_stay() -> None:
    fleet = Fleet(["a", "b"])
    for name in ("a", "b"):
        fleet.show(name, portrait(), at_ms=Millis(NOW))
    fleet.watch(["b", "c"])
    assert fleet.names == ("b", "c")
    assert [fleet.seen(name) is not None for name in ("a", "b", "c")] == [False, True, False]


def test_the_history_is_asked_for_only_when_it_grew() -> None:
    fleet, asked = Fleet(["a"]), []

    def history() -> tuple[()]:
        asked.append(1)
        return ()

    for recorded in (0, 0, 2, 0):
        fleet.tell(Report(recorded=recorded, sinks={}), history, at_ms=Millis(NOW))
    assert len(asked) == 2
