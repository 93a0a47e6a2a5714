"""KIP-595 and KIP-853: what the monitor makes of high watermarks, fetches and changes of the voter set."""

from dataclasses import replace

import pytest

from connectors.gather.commit_buffer import CommitBuffer, FetchPosition
from connectors.kafka.messages import parse_fetch
from tests.kips.test_kip_595_fetch import answer
from tests.kips.test_kip_856_gauges import status
from tests.unit.connectors.gather.log_bytes import batch
from tests.unit.rules.situation import findings, healthy, key, row
from tests.unit.streaming.replay.log_script import LogScript, apply, machine, poll, replica

STALLED = "high-watermark-stalled"


@pytest.mark.kip("D064", "D074")
def test_records_that_a_majority_does_not_have_yet_are_not_replayed() -> None:
    buffer = CommitBuffer(FetchPosition(offset=0, epoch=0))
    log = batch(0, 3, epoch=1) + batch(3, 2, epoch=1)

    first = buffer.accept(parse_fetch(answer(records=log, high_watermark=3)), now_ms=0).committed
    assert first is not None
    assert first.last_offset == 2
    elected = buffer.accept(parse_fetch(answer(high_watermark=-1)), now_ms=0).committed
    assert elected is not None
    assert elected.last_offset == 2, "a new leader does not know it yet"
    second = buffer.accept(parse_fetch(answer(high_watermark=5)), now_ms=0).committed
    assert second is not None
    assert second.last_offset == 4


@pytest.mark.kip("D064", "D074")
def test_a_new_leader_has_no_high_watermark_until_it_commits_in_its_own_epoch() -> None:
    """Both voters have all records of the former epoch, which commits nothing by itself."""
    script, replay = LogScript(), machine()
    script.leader(1)
    script.noops(99)
    voters = [replica(name, end=100) for name in ("1-a", "2-b", "3-c")]
    quorum = apply(replay, [script.read(), script.row(poll(*voters, hw=100))])
    assert (quorum.high_watermark, status(quorum)["high_watermark"]) == (100, 100)

    for _ in range(31):
        quorum = apply(replay, [script.row(poll(*voters, leader=2, epoch=2, hw=None))])
    assert status(quorum)["high_watermark"] is None, "unknown, and not the former leader's"
    assert len(findings(quorum, STALLED)) == 1

    quorum = apply(replay, [script.row(poll(*voters, leader=2, epoch=2, hw=101))])
    assert status(quorum)["high_watermark"] == 101
    assert findings(quorum, STALLED) == []


@pytest.mark.kip("K045")
def test_two_pending_changes_at_once_are_one_alert_that_names_both() -> None:
    quorum = healthy()
    assert quorum.poll is not None
    assert quorum.committed is not None
    added = (row(key(4)), row(key(5)))
    pending = replace(quorum, poll=replace(quorum.poll, voters=(*quorum.poll.voters, *added)))

    (finding,) = findings(pending, "voter-change-stuck")

    assert finding.evidence["adding"] == [str(key(4)), str(key(5))]
    assert "adding controller 4 and adding controller 5" in finding.summary
    assert findings(quorum, "voter-change-stuck") == []
