"""Refused rows of a relay's topic are an alert that names the cluster, the reason and the place in the topic."""

import json
import tracemalloc
from collections.abc import Sequence

from rules.alert import Alert, AlertState
from rules.finding import Severity
from rules.model.identifiers import Millis
from rules.notifications.route import Route
from streaming.job.own_alerts import REFUSED_MS, RefusedRows

NOW = Millis(1_800_000_000_000)


def refused(offset: int, *, cluster: str | None = "prod", part: str = "time") -> str:
    """Returns what the decoder leaves of a refused message."""
    return json.dumps(
        {
            "cluster": "topic observations partition 3",
            "sequence": offset,
            "observed_at_ms": NOW,
            "offset": offset,
            "length": 10,
            "reason": "its time is 2 h beyond the time at which the topic got it",
            "part": part,
            "rows_of": cluster,
        }
    )


class Clock:
    """The monotonic clock: what the wall clock shows until a test sets that."""

    seconds = NOW / 1000


def watched(firing: Sequence[Alert]) -> RefusedRows:
    Clock.seconds = NOW / 1000
    return RefusedRows(firing, clock=lambda: Clock.seconds)


def due(rows: RefusedRows, now_ms: int) -> list[tuple[str, AlertState]]:
    Clock.seconds = now_ms / 1000
    return [(alert.subject, alert.state) for alert in rows.due(Millis(now_ms))]


def test_alert_names_cluster_reason_and_place() -> None:
    rows = watched(())
    rows.refused([refused(12), refused(13)])

    (alert,) = rows.due(NOW)

    assert (alert.rule, alert.cluster, alert.severity) == ("data-contract-broken", "kraftwatch", Severity.WARNING)
    assert alert.summary == (
        "Refused rows of prod: its time is 2 h beyond the time at which the topic got it (topic observations partition "
        "3, offset 12). No state was changed by it; rows of the right relay are accepted."
    )
    assert alert.evidence == {
        "clusters": ["prod"],
        "cluster": "prod",
        "refused": "time",
        "reason": "its time is 2 h beyond the time at which the topic got it",
        "topic_partition": "topic observations partition 3",
        "offset": 12,
        "appended_at_ms": NOW,
    }
    assert alert.remedy[0].startswith("# Correct the clock of the relay's host")


def test_each_cluster_and_each_kind_is_one_alert() -> None:
    rows = watched(())
    rows.refused([refused(1), refused(2), refused(3, part="sequence"), refused(4, cluster="test")])
    rows.refused([refused(5, cluster=None, part="message")])

    assert due(rows, NOW) == [
        ("rows of prod: time", AlertState.FIRING),
        ("rows of prod: sequence", AlertState.FIRING),
        ("rows of test: time", AlertState.FIRING),
        ("messages of topic observations partition 3", AlertState.FIRING),
    ]
    assert due(rows, NOW) == []


def test_alert_is_sent_like_the_alerts_of_its_cluster_and_that_of_unknown_messages_to_all() -> None:
    rows, route = watched(()), Route(clusters=("test",))
    rows.refused([refused(1), refused(2, cluster="test"), refused(3, cluster=None, part="message")])

    assert [route.matches(alert) for alert in rows.due(NOW)] == [False, True, True]


def test_a_job_that_does_not_notify_keeps_one_row_of_each_kind() -> None:
    """It may stand by for months while a relay with a wrong clock writes several rows a second."""
    rows = watched(())
    tracemalloc.start()
    for offset in range(1_000):
        rows.refused([refused(offset)])
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert kept < 50_000
    (alert,) = rows.due(NOW)
    assert alert.evidence["offset"] == 0


def test_alert_resolves_half_an_hour_after_the_newest_row() -> None:
    rows = watched(())
    rows.refused([refused(1)])
    due(rows, NOW)
    rows.refused([refused(2)])
    assert due(rows, NOW + 60_000) == []

    assert due(rows, NOW + REFUSED_MS) == []
    assert due(rows, NOW + REFUSED_MS + 60_000) == [("rows of prod: time", AlertState.RESOLVED)]


def test_a_clock_that_was_set_or_a_host_that_was_suspended_resolves_nothing() -> None:
    rows = watched(())
    rows.refused([refused(1)])
    due(rows, NOW)
    assert rows.due(Millis(NOW + 10 * REFUSED_MS)) == []
    Clock.seconds += REFUSED_MS / 1000
    assert [alert.state for alert in rows.due(Millis(NOW - 10 * REFUSED_MS))] == [AlertState.RESOLVED]


def test_firing_alert_of_the_ledger_is_continued() -> None:
    first = watched(())
    first.refused([refused(1)])
    firing: tuple[Alert, ...] = tuple(first.due(NOW))
    rows = watched(firing)

    rows.refused([refused(2)])
    assert due(rows, NOW + REFUSED_MS - 1) == []
    assert due(rows, NOW + 2 * REFUSED_MS) == [("rows of prod: time", AlertState.RESOLVED)]


def test_firing_alert_of_the_ledger_is_not_resolved_before_the_job_has_read_rows_again() -> None:
    """It fired hours ago, and rows were refused until the restart: the ledger has only the first one."""
    first = watched(())
    first.refused([refused(1)])
    rows = watched(tuple(first.due(NOW)))
    restarted_ms = NOW + 10 * REFUSED_MS

    assert due(rows, restarted_ms) == []
    rows.refused([refused(2)])
    assert due(rows, restarted_ms + 60_000) == []


def test_firing_alert_of_the_ledger_without_further_rows_resolves_half_an_hour_after_the_restart() -> None:
    first = watched(())
    first.refused([refused(1)])
    rows = watched(tuple(first.due(NOW)))

    assert due(rows, NOW + 60_000) == []
    assert due(rows, NOW + 60_000 + REFUSED_MS - 1) == []
    assert due(rows, NOW + 60_000 + REFUSED_MS) == [("rows of prod: time", AlertState.RESOLVED)]
