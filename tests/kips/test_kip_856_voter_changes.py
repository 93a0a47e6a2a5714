"""KIP-856 and KIP-853, voter changes: one at a time, committed by a majority of the new set."""

from dataclasses import replace

import pytest

from connectors.observations.observation import QuorumPolled
from rules.alert import Alert
from rules.model.quorum import Quorum
from streaming.replay.cluster_monitor import ClusterMonitor
from tests.kips.test_kip_856_gauges import status
from tests.unit.rules.situation import adding, findings, healthy, observer, stalled, voter_not_fetching, voters_lagging
from tests.unit.rules.test_voter_set_rules import removing
from tests.unit.streaming.replay.log_script import SETTINGS, LogScript, apply, machine, poll, replica


@pytest.mark.kip("A019", "K033")
@pytest.mark.parametrize(
    ("following", "fires"),
    [
        ("1-a 2-b", 0),
        ("1-a 2-b 3-c 4-d", 0),
        ("1-a", 1),
        ("1-a 2-b 4-d", 1),
        ("1-a 2-b 3-x", 1),
        ("1-a 4-d 5-e", 1),
        ("1-a 2-b 3-c 4-d 5-e", 1),
    ],
)
def test_a_change_of_several_voters_is_replayed_and_fires(following: str, fires: int) -> None:
    script, replay = LogScript(), machine()
    script.leader(1)
    script.kraft(1)
    script.voters("1-a", "2-b", "3-c")
    apply(replay, [script.read(), script.row(poll(replica("1-a"), replica("2-b"), replica("3-c")))])
    script.voters(*following.split())

    quorum = apply(replay, [script.read()])

    assert quorum.committed is not None
    assert len(quorum.committed.voters) == len(following.split()), "it is no decode error"
    assert len(findings(quorum, "forced-reconfiguration")) == fires


@pytest.mark.kip("A022", "A024", "A025", "A026")
def test_a_pending_change_waits_for_a_majority_of_the_new_set() -> None:
    (added,) = findings(adding(healthy(3), 4), "voter-change-stuck")
    (removed,) = findings(removing(healthy(4), 1), "voter-change-stuck")

    assert "4 of the 4 voters of the new set are in sync; 3 are needed" in added.summary
    assert "3 of the 3 voters of the new set are in sync; 2 are needed" in removed.summary
    assert "is not committed: removing controller 1. " in removed.summary
    (waits,) = findings(adding(voters_lagging(voter_not_fetching(healthy(3), 1), 2), 4), "voter-change-stuck")
    assert "2 of the 4 voters of the new set are in sync; 3 are needed" in waits.summary, "a lagging one is not"


@pytest.mark.kip("A011", "A022", "A025", "A082")
def test_the_majority_is_of_the_leaders_newest_set() -> None:
    """The log's last committed set is different then, and is not used."""

    def carried(quorum: Quorum) -> list[str]:
        found = findings(quorum, "failure-tolerance")
        return [f"{one.severity} {one.summary.partition(': ')[2].partition('.')[0]}" for one in found]

    three, four = voter_not_fetching(healthy(3), 1), voter_not_fetching(voter_not_fetching(healthy(4), 1), 2)
    assert carried(three) == ["warning 2 of 3 voters are in sync; 2 are needed"]
    assert carried(four) == ["critical 2 of 4 voters are in sync; 3 are needed"]

    assert carried(voter_not_fetching(adding(three, 4), 4)) == ["critical 2 of 4 voters are in sync; 3 are needed"]
    assert carried(removing(four, 1)) == ["warning 2 of 3 voters are in sync; 2 are needed"]
    (waits,) = findings(stalled(adding(voter_not_fetching(three, 2), 4)), "high-watermark-stalled")
    assert waits.summary.endswith("2 of 4 voters are in sync; 3 are needed.")


@pytest.mark.kip("A042", "A076", "A077", "A082")
def test_a_leader_that_is_being_removed_does_not_count_itself() -> None:
    two_left = voter_not_fetching(healthy(3), 1)
    leaving = removing(two_left, 3)

    (waits,) = findings(leaving, "voter-change-stuck")
    (left,) = findings(leaving, "failure-tolerance")
    (uncommitted,) = findings(removing(stalled(two_left), 3), "high-watermark-stalled")

    assert status(leaving)["leader_id"] == 3
    assert "1 of the 2 voters of the new set are in sync; 2 are needed" in waits.summary
    assert left.severity == "critical"
    assert left.summary.startswith("The quorum has no majority in sync: 1 of 2 voters are in sync; 2 are needed.")
    assert uncommitted.summary.endswith("1 of 2 voters are in sync; 2 are needed.")


@pytest.mark.kip("A019", "A021", "A068", "A072", "A076")
def test_while_a_change_is_pending_every_remedy_says_to_start_no_other() -> None:
    waiting = observer(healthy(3), 5)
    (before,) = findings(waiting, "observer-could-be-voter")
    (stuck,) = findings(adding(waiting, 4), "voter-change-stuck")

    assert not any("is committed" in step for step in before.remedy)
    for pending in (adding(waiting, 4), removing(waiting, 1), adding(removing(waiting, 1), 4)):
        (after,) = findings(pending, "observer-could-be-voter")
        assert after.remedy[0] == "# Wait until the pending change of the voter set is committed or dropped"
    replaced = observer(voter_not_fetching(healthy(3), 2), 2, directory="newDirOf2")
    (disk,) = findings(adding(replaced, 4), "voter-disk-replaced")
    waits, removal = (
        next(at for at, step in enumerate(disk.remedy) if words in step)
        for words in ("# Wait until the pending change", " remove-controller ")
    )
    assert waits < removal
    assert "# Do not start another change of the voter set until this one is committed or dropped" in stuck.remedy


def alerts_while_polled(
    script: LogScript, monitor: ClusterMonitor, polled: QuorumPolled, *, seconds: int = 1
) -> list[Alert]:
    """Returns the alerts while the log continues with NoOp records and polls return `polled`."""
    fires: list[Alert] = []
    for _ in range(seconds):
        script.noops(2)
        fires += monitor.apply([script.read(after_ms=500), script.row(polled, after_ms=500)]).alerts
    return fires


def three_voters() -> tuple[LogScript, ClusterMonitor]:
    script, monitor = LogScript(), ClusterMonitor(SETTINGS)
    script.leader(1)
    script.kraft(1)
    script.voters("1-a", "2-b", "3-c")
    assert alerts_while_polled(script, monitor, poll(*map(replica, ("1-a", "2-b", "3-c"))), seconds=10) == []
    return script, monitor


@pytest.mark.kip("A027", "A076")
def test_the_removal_of_the_leader_fires_no_alert() -> None:
    script, monitor = three_voters()
    for node in (1, 2, 3):
        script.controller(node)
    two = tuple(map(replica, ("2-b", "3-c")))
    leads_on = replace(poll(*two), observers=(replica("1-a"),))
    fires = alerts_while_polled(script, monitor, leads_on, seconds=2)
    script.voters("2-b", "3-c")
    fires += alerts_while_polled(script, monitor, leads_on)
    script.leader(2, epoch=2)
    fires += alerts_while_polled(script, monitor, poll(*two, leader=2, epoch=2), seconds=150)

    assert fires == []
    quorum = monitor.machine.quorum()
    assert (quorum.leader_id, quorum.leader_epoch) == (2, 2)
    assert [(one.key.id, quorum.now_ms - one.removed_at_ms) for one in quorum.removals] == [(1, 150_500)]
