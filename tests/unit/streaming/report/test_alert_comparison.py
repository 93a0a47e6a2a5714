"""What differs between the alerts of two configurations on the same observations."""

from typing import Any

from rules.alert import Alert
from rules.finding import Severity
from streaming.report.back_test import compare_alerts, firings
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, alert

SECOND = 1000


def fired(at_s: int, *, began_s: int = 0, **changed: Any) -> Alert:
    return alert(started_at_ms=NOON_MS + began_s * SECOND, observed_at_ms=NOON_MS + at_s * SECOND, **changed)


def resolved(at_s: int, *, began_s: int = 0, **changed: Any) -> Alert:
    return fired(at_s, began_s=began_s, resolved=True, **changed)


def test_a_change_of_severity_begins_no_second_alert() -> None:
    [one] = firings((fired(5), fired(30, severity=Severity.WARNING), resolved(60)))

    assert (one.fired_at_ms, one.resolved_at_ms) == (NOON_MS + 5 * SECOND, NOON_MS + 60 * SECOND)


def test_an_alert_that_comes_back_is_a_second_one() -> None:
    found = firings((fired(5), resolved(60), fired(105, began_s=100), resolved(160, began_s=100)))

    assert [(one.fired_at_ms - NOON_MS) // SECOND for one in found] == [5, 105]


def test_a_longer_hold_sends_later_and_a_shorter_one_earlier() -> None:
    short, long = (fired(5), resolved(60)), (fired(20), resolved(60))

    assert list(compare_alerts(short, long).sentences()) == ["1 alert would be sent 15 s to 15 s later"]
    assert list(compare_alerts(long, short).sentences()) == ["1 alert would be sent 15 s to 15 s earlier"]


def test_the_same_subject_of_another_cluster_is_another_alert() -> None:
    found = compare_alerts((fired(5, cluster="alpha"),), (fired(5, cluster="beta"),))

    assert [one.subject[0] for one in found.gone] == ["alpha"]
    assert [one.subject[0] for one in found.new] == ["beta"]


def test_one_long_alert_stands_for_only_one_of_two_short_ones() -> None:
    short = (fired(5), resolved(60), fired(105, began_s=100), resolved(160, began_s=100))
    long = (fired(5), resolved(160))

    assert [one.started_at_ms - NOON_MS for one in compare_alerts(short, long).gone] == [100 * SECOND]
    assert [one.started_at_ms - NOON_MS for one in compare_alerts(long, short).new] == [100 * SECOND]


def test_alerts_of_other_times_are_not_the_same_alert() -> None:
    found = compare_alerts((fired(5), resolved(60)), (fired(105, began_s=100),))

    assert (len(found.gone), len(found.new), found.delays_ms) == (1, 1, ())


def test_the_longest_alert_that_is_not_sent_is_named_with_its_time() -> None:
    gone = (fired(5), resolved(60), fired(105, began_s=100), resolved(400, began_s=100))

    assert "the longest of them lasted 5 min" in list(compare_alerts(gone, ()).sentences())
