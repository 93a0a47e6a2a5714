"""KIP-595 and KIP-853: what the monitor makes of high watermarks, fetches and changes of the voter set."""

from dataclasses import replace
from itertools import combinations

import pytest

from connectors.errors import ObservationError
from connectors.gather.commit_buffer import CommitBuffer, FetchPosition
from connectors.kafka.messages import parse_fetch
from rules.model.identifiers import Millis, Offset
from rules.model.membership import majority
from rules.model.monitoring import Reason
from rules.model.quorum import Quorum
from tests.kips.test_kip_595_fetch import answer
from tests.kips.test_kip_856_gauges import status
from tests.unit.connectors.gather.log_bytes import batch
from tests.unit.rules.situation import LOG_END, NOW, findings, healthy, key, row, stalled, unknown
from tests.unit.streaming.replay.log_script import LogScript, apply, machine, poll, replica

STALLED = "high-watermark-stalled"


def majority_gone(quorum: Quorum) -> Quorum:
    """Only the leader has the newest records; its observers have them all."""
    assert quorum.poll is not None
    voters = tuple(
        each if each.key == quorum.poll.leader.key else row(each.key, fetched_ago_ms=40_000, end=LOG_END)
        for each in quorum.poll.voters
        if quorum.poll.leader is not None
    )
    observers = tuple(row(key(node), end=LOG_END + 60) for node in (101, 102, 103, 104))
    silent = {
        each.key: replace(
            quorum.histories[each.key],
            samples=tuple(
                replace(sample, fetch_age_ms=Millis(40_000)) for sample in quorum.histories[each.key].samples
            ),
        )
        for each in voters[:2]
    }
    return replace(
        quorum,
        poll=replace(quorum.poll, voters=voters, observers=observers),
        histories={**quorum.histories, **silent},
    )


@pytest.mark.kip("D071")
def test_observers_that_have_all_records_do_not_count_towards_a_commit() -> None:
    (finding,) = findings(majority_gone(stalled(healthy())), STALLED)

    assert (finding.evidence["voters_in_sync"], finding.evidence["majority"]) == (1, 2)
    assert finding.summary.endswith("1 of 3 voters are in sync; 2 are needed.")
    assert "101" not in str(finding.evidence["voters"])


@pytest.mark.kip("D034", "D071")
def test_a_fetch_that_another_cluster_refuses_is_a_failed_observation() -> None:
    refused = answer()
    refused.error_code = 104

    with pytest.raises(ObservationError, match="another cluster") as failure:
        parse_fetch(refused)

    assert failure.value.reason is Reason.WRONG_CLUSTER


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


@pytest.mark.kip("A095", "D058")
def test_voters_that_have_not_fetched_from_a_new_leader_count_as_fetching_for_the_fetch_age_only() -> None:
    """LastFetchTimestamp is -1 until a voter fetches in the new epoch: it may not know the leader yet."""
    script, replay = LogScript(), machine()
    script.leader(1)
    script.kraft(1)
    script.voters("1-a", "2-b", "3-c")

    def polled(leader: int, second: int | None) -> Quorum:
        script.noops(2)
        names = ("1-a", "2-b", "3-c")
        rows = [replica(name, fetch=second, caught_up=second) if name == "2-b" else replica(name) for name in names]
        return apply(replay, [script.read(after_ms=0), script.row(poll(*rows, leader=leader, epoch=leader))])

    assert [status(polled(1, 0))["voters_fetching"] for _ in range(20)] == [3] * 20
    script.leader(3, epoch=3)
    fetching = [status(polled(3, None))["voters_fetching"] for _ in range(20)]
    assert fetching == sorted(fetching, reverse=True)
    assert (fetching[:5], fetching[10:]) == ([3] * 5, [2] * 10), "10 s after its last fetch that a kept poll reports"
    (finding,) = findings(polled(3, None), "failure-tolerance")
    assert finding.summary.startswith("Voter 2 has not fetched since ")
    assert finding.summary.endswith("2 of 3 voters are in sync; 2 are needed.")
    assert status(polled(3, 0))["voters_fetching"] == 3


@pytest.mark.kip("K045")
@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_exactly_the_changes_after_which_majorities_may_not_overlap_are_reported_as_forced(size: int) -> None:
    """Every majority of a set and of a set with one voter more or less have a voter in common."""
    before = [f"{node}-x" for node in range(1, size + 1)]
    added = [*before, "8-x"], [*before, "8-x", "9-x"]
    removed = [before[1:], before[2:]] if size > 2 else []
    for after in (*added, *removed, [*before[1:], "9-x"]):
        script, replay = LogScript(), machine()
        script.leader(1)
        script.voters(*before)
        script.voters(*after)
        quorum = apply(replay, [script.read()])

        changed = len({*before} ^ {*after})
        assert len(findings(quorum, "forced-reconfiguration")) == (1 if changed > 1 else 0), (before, after)
        if changed == 1:
            assert all(
                {*one} & {*other}
                for one in combinations(before, majority(len(before)))
                for other in combinations(after, majority(len(after)))
            )


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


def test_a_stalled_high_watermark_needs_uncommitted_records() -> None:
    idle = replace(healthy(), high_watermark_since_ms=Millis(NOW - 31_000), high_watermark=Offset(LOG_END))
    assert findings(idle, STALLED) == []
    assert (STALLED, None) in unknown(replace(idle, high_watermark_since_ms=None))
