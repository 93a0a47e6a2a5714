"""Conditions that are normal for a moment and fire when they last: open transactions, elections, old metadata."""

from dataclasses import replace

import pytest

from rules.alert import Alert
from rules.model.quorum import Quorum
from streaming.replay.cluster_monitor import ClusterMonitor
from tests.unit.rules.situation import findings
from tests.unit.streaming.replay.log_script import SETTINGS, LogScript, again, apply, machine, poll, replica


def found(quorum: Quorum, rule: str) -> list[str]:
    return [one.summary for one in findings(quorum, rule)]


@pytest.mark.kip("E045", "E047")
def test_an_open_transaction_at_the_end_of_the_read_log_fires_until_it_ends() -> None:
    """In a complete file this is an error; in a stream the end may follow, also after a restart of the monitor."""
    script, replay = LogScript(), machine()
    script.leader(1)
    script.begin()
    assert len(found(apply(replay, [script.read()]), "open-transaction")) == 1, "also without any record"
    script.broker(101)
    begun = apply(replay, [script.read()])
    assert begun.brokers == {}
    (said,) = found(begun, "open-transaction")
    assert "It begins at offset 1" in said

    replay = again(replay.to_bytes())
    script.broker(102)
    assert len(found(apply(replay, [script.read()]), "open-transaction")) == 1
    script.end()
    ended = apply(replay, [script.read()])

    assert set(ended.brokers) == {101, 102}
    assert found(ended, "open-transaction") == []


@pytest.mark.kip("D045", "D145")
def test_epoch_churn_fires_from_leader_changes_in_the_log_alone() -> None:
    script, replay = LogScript(), machine()
    script.leader(1)
    quorum = apply(replay, [script.read()])
    for epoch in (2, 3, 9):
        assert found(quorum, "epoch-churn") == []
        script.leader(1 + epoch % 3, epoch=epoch)
        script.now_ms += 20_000
        quorum = apply(replay, [script.read()])

    assert (quorum.leader_id, quorum.leader_epoch) == (1, 9)
    assert len(found(quorum, "epoch-churn")) == 1


@pytest.mark.kip("D123")
@pytest.mark.parametrize(("behind_ms", "fires"), [(0, 0), (10_000, 0), (45_000, 1)])
def test_a_live_broker_with_old_metadata_fires(behind_ms: int, fires: int) -> None:
    script, replay = LogScript(), machine()
    script.leader(1)
    script.broker(101, fenced=False)
    apply(replay, [script.read()])
    for _ in range(40):
        broker = replica("101-x", end=100 if behind_ms == 0 else 10, caught_up=behind_ms)
        polled = replace(poll(replica("1-a"), replica("2-b"), replica("3-c")), observers=(broker,))
        script.noops(2)
        apply(replay, [script.read(), script.row(polled)])

    assert len(found(replay.quorum(), "observer-lagging")) == fires


@pytest.mark.kip("K032")
@pytest.mark.parametrize(("pending_s", "fires"), [(45, []), (75, ["firing"])])
def test_a_pending_voter_change_fires_only_after_its_hold(pending_s: int, fires: list[str]) -> None:
    script, watch = LogScript(), ClusterMonitor(SETTINGS)
    script.leader(1)
    script.kraft(1)
    script.voters("1-a", "2-b", "3-c")
    alerts: list[Alert] = []
    for second in range(10 + pending_s + 5):
        added = (replica("4-d"),) if second >= 10 else ()
        if second == 10 + pending_s:
            script.voters("1-a", "2-b", "3-c", "4-d")
        script.noops(2)
        rows = [script.read(after_ms=500), script.row(poll(*map(replica, ("1-a", "2-b", "3-c")), *added), after_ms=500)]
        alerts += watch.apply(rows).alerts

    assert [one.state.value for one in alerts if one.rule == "voter-change-stuck"] == fires
