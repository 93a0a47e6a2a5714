"""Conditions that are normal for a moment and fire when they last: open transactions, elections, old metadata."""

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
