"""A ClusterMonitor sends the same alerts however its observations are batched, stored or redelivered."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.errors import UsageError
from rules.alert import Alert, AlertState
from rules.evaluate import thresholds_for
from rules.finding import Severity
from rules.model.monitoring import Reason, Vantage
from rules.rule_overrides import RuleOverride, with_overrides
from streaming.replay import cluster_monitor as module
from streaming.replay.cluster_monitor import ClusterMonitor, DecodedRow
from tests.unit.streaming.replay.log_script import LogScript, failed, poll, replica
from tests.unit.streaming.replay.memory_pages import MemoryPages
from tests.unit.streaming.replay.stored_state import stored_values

THRESHOLDS = thresholds_for({})
ADDRESSES = ("c1:9093", "c2:9093", "c3:9093")


def monitor(blob: bytes | None = None) -> ClusterMonitor:
    return ClusterMonitor.from_bytes(
        blob, cluster="test", cluster_id=None, bootstrap=ADDRESSES, vantage=Vantage.INSIDE, thresholds=THRESHOLDS
    )


def outage() -> list[DecodedRow]:
    """Healthy for 20 s, no leader for 20 s, healthy for 20 s."""
    script = LogScript()
    script.leader(1)
    script.voters("1-a", "2-b", "3-c")
    rows = [script.read()]
    for second in range(60):
        if 20 <= second < 40:
            rows += [script.row(failed(Reason.NO_LEADER, place), after_ms=333) for place in ADDRESSES]
        else:
            script.noops(2)
            rows += [script.read(after_ms=500), script.row(poll(*map(replica, ("1-a", "2-b", "3-c"))), after_ms=500)]
    return rows


ROWS = outage()


def test_an_outage_fires_once_and_resolves_once() -> None:
    alerts = monitor().observe(ROWS)

    assert [(alert.rule, alert.state) for alert in alerts] == [
        ("no-leader", AlertState.FIRING),
        ("no-leader", AlertState.RESOLVED),
    ]
    firing, resolved = alerts
    assert firing.fingerprint == resolved.fingerprint
    assert 0 <= firing.observed_at_ms - firing.due_at_ms < 400
    assert 0 <= resolved.observed_at_ms - resolved.due_at_ms < 600


@settings(max_examples=15)
@given(st.lists(st.integers(0, len(ROWS)), max_size=8), st.booleans(), st.integers(0, 10))
def test_batching_restarts_and_redelivery_do_not_change_the_alerts(cuts: list[int], store: bool, overlap: int) -> None:
    edges = sorted({0, len(ROWS), *cuts})
    alerts: list[Alert] = []
    one = monitor()
    for start, end in pairwise(edges):
        alerts += one.observe(ROWS[max(0, start - overlap) : end])
        one = monitor(one.to_bytes()) if store else one

    whole = monitor()
    assert alerts == list(whole.observe(ROWS))
    assert one.tracked == whole.tracked
    assert stored_values(one.machine) == stored_values(whole.machine)


@pytest.mark.parametrize("stored", [False, True], ids=["new", "restored"])
def test_partitions_are_kept_in_the_pages_of_the_cluster(stored: bool) -> None:
    pages = MemoryPages()
    one = ClusterMonitor.from_bytes(
        monitor().to_bytes() if stored else None,
        cluster="test",
        cluster_id=None,
        bootstrap=ADDRESSES,
        vantage=Vantage.INSIDE,
        thresholds=THRESHOLDS,
        pages=pages,
    )
    assert one.machine.pages is pages


def refusal(blob: bytes) -> str:
    with pytest.raises(UsageError) as refused:
        monitor(blob)
    return str(refused.value)


def test_a_newer_or_damaged_blob_is_refused_in_one_sentence() -> None:
    firing = monitor()
    firing.observe(ROWS[:110])
    blob = firing.to_bytes()
    assert monitor(blob).tracked == firing.tracked
    assert firing.tracked.conditions, "the blob holds a firing alert"

    newer = bytearray(blob)
    newer[3] = module.VERSION + 1
    assert "alerts of cluster test have version 2, this kraftwatch knows up to 1: run the newer" in refusal(
        bytes(newer)
    )
    for torn in (b"", blob[:5], blob[:30], b"kwm" + blob[3:], blob[:-1]):
        assert " of cluster test " in refusal(torn)
        assert refusal(torn).endswith("start with a new checkpoint folder")


def overridden(override: RuleOverride, blob: bytes | None = None) -> ClusterMonitor:
    return ClusterMonitor.from_bytes(
        blob,
        cluster="test",
        cluster_id=None,
        bootstrap=ADDRESSES,
        vantage=Vantage.INSIDE,
        thresholds=with_overrides(THRESHOLDS, {"no-leader": override}),
    )


@pytest.mark.parametrize("cuts", [[], [40], [30, 60, 90]])
def test_overridden_severity_is_part_of_the_replay(cuts: list[int]) -> None:
    blob: bytes | None = None
    alerts: list[Alert] = []
    for start, end in pairwise([0, *cuts, len(ROWS)]):
        watched = overridden(RuleOverride(severity=Severity.INFO), blob)
        alerts += watched.observe(ROWS[start:end])
        blob = watched.to_bytes()

    assert [(alert.rule, alert.state, alert.severity) for alert in alerts] == [
        ("no-leader", AlertState.FIRING, Severity.INFO),
        ("no-leader", AlertState.RESOLVED, Severity.INFO),
    ]


def test_alert_of_a_rule_that_is_turned_off_resolves_and_does_not_fire_again() -> None:
    during = monitor()
    firing = during.observe(ROWS[:85])
    assert [(alert.rule, alert.state) for alert in firing] == [("no-leader", AlertState.FIRING)]

    off = overridden(RuleOverride(enabled=False), during.to_bytes())

    assert [(alert.rule, alert.state) for alert in off.observe(ROWS[85:])] == [("no-leader", AlertState.RESOLVED)]
    assert overridden(RuleOverride(enabled=False)).observe(ROWS) == ()


def test_changed_severity_fires_again_with_the_same_fingerprint() -> None:
    during = monitor()
    (before,) = during.observe(ROWS[:66])

    milder = overridden(RuleOverride(severity=Severity.WARNING), during.to_bytes()).observe(ROWS[66:])

    assert [(each.state, each.severity) for each in milder] == [
        (AlertState.FIRING, Severity.WARNING),
        (AlertState.RESOLVED, Severity.WARNING),
    ]
    assert {each.fingerprint for each in milder} == {before.fingerprint}
