"""Violations of the KIPs, from the records to the alert: two leaders, decreasing epochs, an ISR that grew too soon."""

import pytest

from connectors.metadata.batches import BadBatch, RecordBatch, scan
from connectors.metadata.decoder import decode_records
from connectors.observations.log_event import EpochDrop, LogAdvanced
from rules.evaluate import evaluate, thresholds_for
from rules.model.identifiers import Epoch, Offset
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
)
from tests.unit.streaming.replay.log_script import LogScript, apply, machine, poll, replica

RAFT, RECOVERY, STALE = "raft-invariant-broken", "recovery-invariant-broken", "stale-voter-endpoint"


def findings_of(quorum: Quorum, rule: str) -> list[str]:
    """Returns the findings of the rule as `SEVERITY summary`."""
    found = evaluate(quorum, thresholds_for({})).findings
    return [f"{one.severity} {one.summary}" for one in found if one.rule == rule]


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
