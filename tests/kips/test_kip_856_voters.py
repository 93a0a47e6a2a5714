"""KIP-856 and KIP-853: voter changes, one at a time, and the disk failure scenario step by step."""

from dataclasses import replace

import pytest

from rules.alert import Alert
from rules.model.membership import FeatureRange
from rules.model.quorum import Poll, Quorum
from streaming.replay.cluster_monitor import ClusterMonitor
from streaming.replay.machine import Machine
from streaming.status.build_status import cluster_status
from tests.kips.test_kip_856_gauges import state_of, status, voting
from tests.unit.rules.situation import (
    adding,
    evaluation_of,
    failing_again,
    finding_lines,
    findings,
    healthy,
    leaderless,
    observer,
    present,
    refuses,
    stalled,
    voter_not_fetching,
    voters_lagging,
)
from tests.unit.rules.test_voter_set_rules import removing
from tests.unit.streaming.replay.log_script import (
    SETTINGS,
    LogScript,
    apply,
    formed_quorum,
    key,
    poll,
    replica,
)


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
    script, replay = formed_quorum("1-a", "2-b", "3-c")
    apply(replay, [script.read(), script.row(poll(replica("1-a"), replica("2-b"), replica("3-c")))])
    script.voters(*following.split())

    quorum = apply(replay, [script.read()])
    assert len(present(quorum.committed).voters) == len(following.split()), "it is no decode error"
    assert len(findings(quorum, "forced-reconfiguration")) == fires


def test_two_pending_changes_at_once_are_one_alert_that_names_both() -> None:
    (finding,) = findings(voting(healthy(), 1, 2, 3, 4, 5), "voter-change-stuck")

    assert finding.evidence["adding"] == [str(row.key) for row in present(voting(healthy(), 4, 5).poll).voters]
    assert "adding controller 4 and adding controller 5" in finding.summary
    assert findings(healthy(), "voter-change-stuck") == []


def test_a_pending_change_waits_for_a_majority_of_the_new_set() -> None:
    (added,) = findings(adding(healthy(3), 4), "voter-change-stuck")
    (removed,) = findings(removing(healthy(4), 1), "voter-change-stuck")

    assert "4 of the 4 voters of the new set are in sync; 3 are needed" in added.summary
    assert "3 of the 3 voters of the new set are in sync; 2 are needed" in removed.summary
    assert "is not committed: removing controller 1. " in removed.summary
    (waits,) = findings(adding(voters_lagging(voter_not_fetching(healthy(3), 1), 2), 4), "voter-change-stuck")
    assert "2 of the 4 voters of the new set are in sync; 3 are needed" in waits.summary, "a lagging one is not"
    assert (waits.evidence["voters_in_sync"], waits.evidence["majority"]) == (2, 3)


def test_the_majority_is_of_the_leaders_newest_set() -> None:
    """The log's last committed set is different then, and is not used."""

    def carried(quorum: Quorum) -> list[str]:
        found = findings(quorum, "failure-tolerance")
        return [f"{one.severity} {one.summary.partition(': ')[2].partition('.')[0]}" for one in found]

    three, four = voter_not_fetching(healthy(3), 1), voter_not_fetching(voter_not_fetching(healthy(4), 1), 2)
    assert carried(three) == ["warning 2 of 3 voters are in sync; 2 are needed"]
    assert carried(four) == ["critical 2 of 4 voters are in sync; 3 are needed"]

    assert carried(voter_not_fetching(adding(three, 4), 4)) == ["critical 2 of 4 voters are in sync; 3 are needed"]
    assert carried(adding(three, 4)) == ["warning 3 of 4 voters are in sync; 3 are needed"]
    assert carried(removing(four, 1)) == ["warning 2 of 3 voters are in sync; 2 are needed"]
    assert carried(failing_again(adding(healthy(4), 5), 2, 6)) == [], "the fifth voter is the reserve"
    assert len(carried(failing_again(removing(healthy(5), 1), 2, 6))) == 1
    (waits,) = findings(stalled(adding(voter_not_fetching(three, 2), 4)), "high-watermark-stalled")
    assert waits.summary.endswith("2 of 4 voters are in sync; 3 are needed.")


def test_a_leader_that_is_being_removed_does_not_count_itself() -> None:
    two_left = voter_not_fetching(healthy(3), 1)
    leaving = removing(two_left, 3)

    (waits,) = findings(leaving, "voter-change-stuck")
    (left,) = findings(leaving, "failure-tolerance")
    (uncommitted,) = findings(removing(stalled(two_left), 3), "high-watermark-stalled")

    assert status(leaving)["leader_id"] == 3
    assert status(replace(leaving, committed=None))["voters_fetching"] == 1
    assert "1 of the 2 voters of the new set are in sync; 2 are needed" in waits.summary
    assert left.severity == "critical"
    assert left.summary.startswith("The quorum has no majority in sync: 1 of 2 voters are in sync; 2 are needed.")
    assert uncommitted.summary.endswith("1 of 2 voters are in sync; 2 are needed.")


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


def alerts_while_polled(script: LogScript, monitor: ClusterMonitor, polled: Poll, *, seconds: int = 1) -> list[Alert]:
    """Returns the alerts while the log continues with NoOp records and polls return `polled`."""
    fires: list[Alert] = []
    for _ in range(seconds):
        script.noops(2)
        fires += monitor.apply([script.read(after_ms=500), script.row(polled, after_ms=500)]).alerts
    return fires


def three_voters() -> tuple[LogScript, ClusterMonitor]:
    script, monitor = LogScript(), ClusterMonitor(SETTINGS)
    script.leader(1)
    script.feature("metadata.version", 27)
    script.kraft(1)
    script.voters("1-a", "2-b", "3-c")
    assert alerts_while_polled(script, monitor, poll(*map(replica, ("1-a", "2-b", "3-c"))), seconds=10) == []
    return script, monitor


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


REPLACED_DISK = "voter-disk-replaced"


def described(*voters: str, observers: tuple[str, ...] = (), gone: tuple[str, ...] = ()) -> Poll:
    """Returns a poll of leader 1; replicas in `gone` last fetched 40 s ago."""
    rows = {name: replica(name, fetch=40_000 if name in gone else 0) for name in (*voters, *observers)}
    polled = poll(*(rows[name] for name in voters))
    return replace(polled, observers=tuple(rows[name] for name in observers))


def formed() -> tuple[LogScript, Machine]:
    """Voters (1,UUID1), (2,UUID2), (3,UUID3), no observers."""
    script, replay = formed_quorum("1-UUID1", "2-UUID2", "3-UUID3")
    levels = (
        FeatureRange(name="kraft.version", lowest=0, highest=1),
        FeatureRange(name="metadata.version", lowest=7, highest=27),
    )
    for node in (1, 2, 3):
        script.controller(node, features=levels)
    script.feature("metadata.version", 27)
    apply(replay, [script.read(), script.row(described("1-UUID1", "2-UUID2", "3-UUID3"))])
    return script, replay


REPLACED = described("1-UUID1", "2-UUID2", "3-UUID3", observers=("3-NEW",), gone=("3-UUID3",))


def test_three_voters_and_no_observer_are_healthy() -> None:
    _, replay = formed()
    quorum = replay.quorum()
    assert (
        present(quorum.committed).keys
        == {row.key for row in present(quorum.poll).voters}
        == {*map(key, ("1-UUID1", "2-UUID2", "3-UUID3"))}
    )
    assert present(quorum.poll).observers == ()
    shown = cluster_status(state_of(quorum))
    voters = [(one.id, one.directory_id) for one in shown.current_voters]
    assert (voters, shown.current_observers) == ([(1, "UUID1"), (2, "UUID2"), (3, "UUID3")], ())
    assert evaluation_of(quorum).findings == ()


def test_a_poll_alone_shows_a_voter_directory_not_fetching_and_a_fetching_observer_directory() -> None:
    script, replay = formed()
    both = described("1-UUID1", "2-UUID2", "3-UUID3", observers=("3-NEW",))
    assert findings(apply(replay, [script.row(both)]), REPLACED_DISK) == [], (
        "while the voter fetches, its disk is not replaced"
    )

    quorum = apply(replay, [script.row(REPLACED)])
    assert key("3-NEW") not in present(quorum.committed).keys, "the node is a voter's, and the replica is none"
    (finding,) = findings(quorum, REPLACED_DISK)
    assert (finding.evidence["old_voter"], finding.evidence["new_replica"]) == ("3-UUID3", "3-NEW")
    assert finding.evidence["voters_fetching"] == 2, "the dead voter stays one"
    rows = cluster_status(state_of(quorum)).replicas
    assert {row.directory_id for row in rows if row.committed_voter} == {"UUID1", "UUID2", "UUID3"}


def test_a_voter_directory_that_never_fetched_from_this_leader_is_replaced_too() -> None:
    """Nor in a poll before: the monitor started after the disk was replaced, and a new leader knows no older fetch."""
    unheard = replica("3-UUID3", end=None, fetch=None, caught_up=None)
    polled = replace(REPLACED, voters=(*REPLACED.voters[:2], unheard))
    script, replay = formed_quorum("1-UUID1", "2-UUID2", "3-UUID3")

    assert len(findings(apply(replay, [script.read(), script.row(polled)]), REPLACED_DISK)) == 1


def test_remove_before_add_as_in_kafka_is_replayed() -> None:
    script, replay = formed()
    apply(replay, [script.row(REPLACED)])
    script.voters("1-UUID1", "2-UUID2")
    half = apply(replay, [script.read(), script.row(described("1-UUID1", "2-UUID2", observers=("3-NEW",)))])
    (finding,) = findings(half, REPLACED_DISK)
    assert "The old voter" in finding.summary
    assert not any(" remove-controller " in step for step in finding.remedy), "it is removed already"

    script.noops(1)
    observers = described("1-UUID1", "2-UUID2", observers=("3-NEW",))
    for hours, fires in ((23, 1), (2, 0)):
        overnight = apply(replay, [script.read(after_ms=hours * 3_600_000), script.row(observers)])
        assert len(findings(overnight, REPLACED_DISK)) == fires, "half done for a day"

    script.voters("1-UUID1", "2-UUID2", "3-NEW")
    fixed = apply(replay, [script.read(), script.row(described("1-UUID1", "2-UUID2", "3-NEW"))])

    assert findings(fixed, REPLACED_DISK) == []


@pytest.mark.parametrize("caught_up", [60_000, None], ids=["long ago", "never"])
def test_a_new_disk_that_lags_is_not_added_before_it_has_caught_up(caught_up: int | None) -> None:
    """Kafka refuses to add a replica that has not caught up, and a second one of a voter's id."""
    script, replay = formed()
    lagging = replace(REPLACED, observers=(replica("3-NEW", end=40, caught_up=caught_up),))

    (finding,) = findings(apply(replay, [script.row(lagging)]), REPLACED_DISK)

    places = [
        next(place for place, step in enumerate(finding.remedy) if words in step)
        for words in ("# Wait until 3-NEW has caught up", " remove-controller ", " add-controller")
    ]
    assert places == sorted(places)


def test_one_replaced_disk_is_a_warning_and_a_majority_is_critical() -> None:
    assert finding_lines(observer(voter_not_fetching(healthy(), 2), 2, directory="newDirOf2")) == [
        "warning voter-disk-replaced: controller 2"
    ]
    assert "critical no-leader: quorum" in finding_lines(leaderless(refuses(healthy(), 1, 2), 3))
    one = voter_not_fetching(healthy(), 1)
    assert finding_lines(one) == ["warning failure-tolerance: quorum"]
    assert finding_lines(voter_not_fetching(one, 2)) == ["critical failure-tolerance: quorum"]
