"""Violations of the KIPs, from the records to the alert: two leaders, decreasing epochs, an ISR that grew too soon."""

from dataclasses import replace

import pytest

from connectors.metadata.batches import BadBatch, RecordBatch, scan
from connectors.metadata.decoder import decode_records
from connectors.observations.log_event import EpochDrop, LogAdvanced
from rules.evaluate import evaluate, thresholds_for
from rules.model.identifiers import Epoch, NodeId, Offset
from rules.model.monitoring import Answer
from rules.model.quorum import Quorum
from streaming.replay.machine import Machine
from tests.kips.test_kip_595_records import voters_record
from tests.unit.connectors.metadata.metadata_bytes import batch, noop
from tests.unit.rules.situation import (
    findings,
    healthy,
    leaderless,
    name_not_found,
    probed,
    refuses,
    view,
    voter_not_fetching,
    with_views,
)
from tests.unit.streaming.replay.log_script import LogScript, apply, machine, poll, replica

RAFT, RECOVERY, STALE = "raft-invariant-broken", "recovery-invariant-broken", "stale-voter-endpoint"


def findings_of(quorum: Quorum, rule: str) -> list[str]:
    """Returns the findings of the rule as `SEVERITY summary`."""
    found = evaluate(quorum, thresholds_for({})).findings
    return [f"{one.severity} {one.summary}" for one in found if one.rule == rule]


@pytest.mark.kip("A087", "D052", "D055", "K043")
@pytest.mark.parametrize(("first", "second"), [(1, 2), (2, 1)])
def test_two_leader_change_records_of_one_epoch_with_two_leaders_are_critical(first: int, second: int) -> None:
    """A majority voted twice in this epoch."""
    script, replay = LogScript(), machine()
    script.leader(first, epoch=5)
    assert findings_of(apply(replay, [script.read()]), RAFT) == []
    script.leader(first, epoch=6)
    assert findings_of(apply(replay, [script.read()]), RAFT) == []
    script.leader(second)

    (said,) = findings_of(apply(replay, [script.read()]), RAFT)

    assert said.startswith("critical An epoch had two leaders")
    assert f"controller {first} and then controller {second} led epoch 6" in said


@pytest.mark.kip("D052", "K043")
def test_a_controller_that_leads_an_older_epoch_than_it_led_before_is_critical() -> None:
    script, replay = LogScript(), machine()
    quorum = apply(replay, [script.row(poll(replica("1-a"), epoch=epoch)) for epoch in (5, 4)])

    (said,) = findings_of(quorum, RAFT)

    assert said.startswith("critical The leader epoch went back")


@pytest.mark.kip("A087", "D025", "D052", "K043")
@pytest.mark.parametrize("leaders", [((1, 5), (2, 5)), ((1, 5), (2, 6), (3, 5))], ids=["at once", "in a former epoch"])
def test_two_controllers_that_answer_as_leaders_of_one_epoch_are_critical(leaders: tuple[tuple[int, int], ...]) -> None:
    script, replay = LogScript(), machine()
    polls = [poll(replica("1-a"), replica("2-b"), leader=leader, epoch=epoch, hw=50) for leader, epoch in leaders]

    (said,) = findings_of(apply(replay, [script.row(polled) for polled in polls]), RAFT)

    assert said.startswith("critical An epoch had two leaders")


@pytest.mark.kip("A041", "K044")
@pytest.mark.parametrize("lower", [40, 49])
def test_the_reported_high_watermark_never_decreases_and_a_decrease_fires(lower: int) -> None:
    script, replay = LogScript(), machine()
    assert findings_of(apply(replay, [script.row(poll(replica("1-a"), hw=hw)) for hw in (40, 50)]), RAFT) == []

    quorum = apply(replay, [script.row(poll(replica("1-a"), hw=lower))])

    assert quorum.high_watermark == 50
    (said,) = findings_of(quorum, RAFT)
    assert said.startswith("critical The high watermark went back")


@pytest.mark.kip("D064")
@pytest.mark.parametrize(("high_watermark", "breaches"), [(None, 0), (50, 0), (53, 0), (40, 1)])
def test_a_new_leaders_high_watermark_is_unknown_or_covers_all_committed_records(
    high_watermark: int | None, breaches: int
) -> None:
    """It reports one once a record of its own epoch is committed, after all earlier records."""
    script, replay = LogScript(), machine()
    apply(replay, [script.row(poll(replica("1-a"), replica("2-b"), epoch=1, hw=50))])

    elected = poll(replica("1-a"), replica("2-b"), leader=2, epoch=2, hw=high_watermark)

    assert len(findings_of(apply(replay, [script.row(elected)]), RAFT)) == breaches


@pytest.mark.kip("D043")
def test_an_isolated_leader_is_found_by_its_fetches_and_the_other_leader_views() -> None:
    quorum = healthy(3)
    assert quorum.leader_id == 3

    (alone,) = findings(voter_not_fetching(voter_not_fetching(quorum, 1), 2), "failure-tolerance")
    assert alone.severity == "critical", "no majority fetches from it"
    (two,) = findings(with_views(quorum, view(1, leader=1, epoch=6)), "views-disagree")
    assert (two.subject, str(two.severity)) == ("controller 1", "warning"), "it leads an epoch that is over"


@pytest.mark.kip("D022", "K016")
@pytest.mark.parametrize(("epoch", "read"), [(0, True), (1, True), (-1, False), (-7, False)])
def test_epochs_start_at_0_and_are_never_negative(epoch: int, read: bool) -> None:
    for records in ([noop()], [voters_record(1)]):
        (one,) = scan(batch(records, epoch=epoch))
        assert isinstance(one, RecordBatch) is read
        assert read or (isinstance(one, BadBatch) and one.reason == f"invalid leader epoch {epoch}")

    *_, end = decode_records(b"", base_offset=0, last_offset=-1, leader_epoch=epoch, high_watermark=0).events()
    assert isinstance(end, LogAdvanced)
    assert end.leader_epoch == (epoch if read else None)


@pytest.mark.kip("D022", "K043")
@pytest.mark.parametrize("lower", [4, 5, 6])
def test_an_epoch_that_decreases_within_one_observation_is_found(lower: int) -> None:
    log = batch([noop()], epoch=5) + batch([noop()], base_offset=1, epoch=lower)

    *_, end = decode_records(log, base_offset=0, last_offset=1, leader_epoch=6, high_watermark=2).events()

    assert isinstance(end, LogAdvanced)
    assert (end.first_epoch, end.last_epoch) == (5, lower)
    drop = EpochDrop(offset=Offset(1), epoch=Epoch(4), before=Epoch(5))
    assert end.epoch_drop == (drop if lower == 4 else None)


def recovering() -> tuple[LogScript, Machine]:
    """Returns a log in which an unclean election made 102 the leader of orders-0."""
    script, replay = LogScript(), machine()
    script.leader(1)
    script.topic("orders")
    script.partition("orders", 0, 101, 102, 103)
    script.change("orders", 0, isr=(102,), leader=102, recovering=True)
    apply(replay, [script.read()])
    return script, replay


@pytest.mark.kip("B005", "B009")
def test_more_than_one_in_sync_replica_after_an_unclean_election_is_a_violation() -> None:
    _, replay = recovering()
    assert findings_of(replay.quorum(), RECOVERY) == []

    script, replay = LogScript(), machine()
    script.leader(1)
    script.topic("orders")
    script.partition("orders", 0, 101, 102, 103)
    script.change("orders", 0, isr=(102, 103), leader=102, recovering=True)

    assert len(findings_of(apply(replay, [script.read()]), RECOVERY)) == 1


@pytest.mark.kip("B009", "B042", "B051", "K047")
@pytest.mark.parametrize(("recovered", "breaches"), [(None, 1), (False, 0)])
def test_the_isr_may_grow_only_with_the_record_that_ends_recovery(recovered: bool | None, breaches: int) -> None:
    script, replay = recovering()
    script.change("orders", 0, isr=(102, 103), recovering=recovered)

    assert len(findings_of(apply(replay, [script.read()]), RECOVERY)) == breaches


@pytest.mark.kip("B010", "B039", "B040", "K047")
@pytest.mark.parametrize(("isr", "breaches"), [((103,), 0), ((102, 103), 1), ((102,), 1)])
def test_another_leader_of_a_recovering_partition_is_elected_uncleanly(isr: tuple[int, ...], breaches: int) -> None:
    script, replay = recovering()
    script.change("orders", 0, isr=isr, leader=103)

    quorum = apply(replay, [script.read()])

    assert quorum.recovering[0].leader == 103, "and it stays RECOVERING"
    (unclean,) = quorum.history.unclean
    assert unclean.elections == (2 if isr == (103,) else 1), "where no in-sync replica is left of the former ones"
    assert len(findings_of(quorum, RECOVERY)) == breaches


@pytest.mark.kip("B041")
def test_the_same_leader_may_return_from_its_isr_of_one_and_is_still_recovering() -> None:
    script, replay = recovering()
    gone = script.change("orders", 0, leader=102)
    script.events[-1] = replace(gone, leader=None)
    assert apply(replay, [script.read()]).recovering[0].leader is None
    script.change("orders", 0, leader=102)

    quorum = apply(replay, [script.read()])

    assert quorum.recovering[0].leader == NodeId(102)
    assert findings_of(quorum, RECOVERY) == []


@pytest.mark.kip("E010", "E093")
def test_a_hanging_majority_raises_no_endpoint_alert() -> None:
    """Endpoint remedies would not help here; names that do not resolve are in the remedy of `no-leader`."""
    hung = probed(probed(healthy(), 1, answer=Answer.NO_ANSWER), 2, answer=Answer.NO_ANSWER)
    (no_leader,) = findings(leaderless(hung, 3), "no-leader")
    assert findings(leaderless(hung, 3), STALE) == findings(hung, STALE) == []
    assert no_leader.severity == "critical"

    (unresolved,) = findings(leaderless(name_not_found(healthy(), 1, 2, 3), 3), "no-leader")
    assert sum("resolve again" in line for line in unresolved.remedy) >= 3
    (dead,) = findings(leaderless(refuses(healthy(), 1, 2), 3), "no-leader")
    assert dead.evidence["electable_if_refusing_voters_are_down"] is False
    assert findings(leaderless(refuses(healthy(), 1, 2), 3), STALE) == []
    (one_down,) = findings(leaderless(refuses(healthy(), 1), 3), "no-leader")
    assert not any("no safe recovery" in step for step in one_down.remedy), "a majority is left"
    assert dead.remedy[0].startswith("# Start controller 1 at c1.test:9093")
    assert any("no safe recovery" in step and "an override of the voters does not help" in step for step in dead.remedy)


@pytest.mark.kip("E005", "E007")
def test_names_that_do_not_resolve_fire_before_a_restart_deadlocks() -> None:
    finding = findings(name_not_found(healthy(), 1, 2, 3), STALE)[0]

    assert finding.severity == "critical"
    assert "does not resolve" in finding.summary
    assert "If all controllers restarted now, no leader could be elected: 0 of 3" in finding.summary
    assert finding.remedy[0].startswith(
        "# Do not restart any controller until c1.test, c2.test and c3.test resolve again"
    )
