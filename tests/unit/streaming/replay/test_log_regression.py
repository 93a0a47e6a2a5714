"""A voter's log end that falls below committed records which the voter had is kept; what Raft allows is not."""

from dataclasses import replace

import pytest

from rules.model.identifiers import Epoch, Offset
from rules.model.monitoring import Reason
from rules.model.quorum import Quorum
from rules.model.replica import LogRegression, Poll
from streaming.replay.machine import Machine
from tests.present import present
from tests.scripts.log_script import LogScript, apply, failed, key, machine, poll, replica


def polls(*ends: tuple[int | None, int | None], name: str = "2-b", epoch: int = 1) -> list[Poll]:
    """Returns a poll for each (log end of voter 2, high watermark)."""
    return [
        poll(replica("1-a", end=hw), replica(name, end=end), replica("3-c", end=hw), epoch=epoch, hw=hw)
        for end, hw in ends
    ]


def observed(*events: Poll, replay: Machine | None = None, script: LogScript | None = None) -> Quorum:
    script = script or LogScript()
    return apply(replay or machine(), [script.row(event) for event in events])


def regression(quorum: Quorum, name: str = "2-b") -> LogRegression | None:
    return quorum.histories[key(name)].log_regression


def test_the_log_of_another_directory_of_a_voter_did_not_go_back() -> None:
    """Its disk was replaced, and the new directory is the voter: it never had the records."""
    quorum = observed(*polls((98, 98), (100, 100)), *polls((3, 102), (50, 104), name="2-new"))

    assert regression(quorum, "2-b") is regression(quorum, "2-new") is None
    quorum = observed(*polls((100, 100)), *polls((90, 102), (50, 104), name="2-new"))
    assert regression(quorum, "2-new") is None, "one poll showed 90: the one before was of the old disk"


@pytest.mark.parametrize("name", ["2-b", "2"], ids=["dynamic quorum", "static quorum"])
@pytest.mark.parametrize("end", [3, 0], ids=["an older copy", "an empty disk"])
def test_log_end_below_committed_records_that_the_voter_had_is_kept_after_it_caught_up(name: str, end: int) -> None:
    quorum = observed(*polls((98, 98), (100, 100), (end, 102), (104, 104), (106, 106), name=name))

    found = present(regression(quorum, name))
    assert (found.acknowledged_offset, found.log_end_offset, found.leader_epoch) == (98, end, 1)
    assert found.observed_at_ms == quorum.now_ms - 2_000


def lagging(end: int | None, high_watermark: int) -> list[Poll]:
    """Polls of a voter that lags; one of them has this log end and high watermark."""
    return polls((50, 100), (50, 101), (end, high_watermark), (50, 103), (51, 104))


@pytest.mark.parametrize(
    "answers",
    [
        [*polls((105, 100), (105, 100)), *polls((100, 100), (101, 101), epoch=2)],
        lagging(None, 102),
        lagging(10**12, 102),
        lagging(100, 10**12),
        lagging(10**12, 10**12),
        polls((100, 100), (50, 100), (51, 100)),
        [*polls((98, 100), (100, 100)), *polls((29, 30), (31, 32), epoch=2)],
    ],
    ids=[
        "uncommitted records of a replaced leader",
        "no log end",
        "false log end",
        "false high watermark",
        "both false",
        "an offset that only one poll shows",
        "a quorum restored as a whole",
    ],
)
def test_a_lower_log_end_without_committed_records_that_two_polls_show_is_no_regression(
    answers: list[Poll],
) -> None:
    assert regression(observed(*answers)) is None


@pytest.mark.parametrize(
    ("later", "acknowledged", "end"),
    [
        ([(40, 101), (60, 102), (60, 103), (5, 104)], 100, 5),
        # Two polls show 95, and only one shows 100.
        ([(40, 101), (95, 102), (100, 103), (60, 104)], 95, 60),
    ],
    ids=["not caught up", "caught up"],
)
def test_a_second_regression_keeps_the_highest_offset_until_the_log_has_reached_it(
    later: list[tuple[int, int]], acknowledged: int, end: int
) -> None:
    found = present(regression(observed(*polls((100, 100), (100, 100), *later))))
    assert (found.acknowledged_offset, found.log_end_offset) == (acknowledged, end)


def test_a_loss_of_committed_metadata_ends_what_was_acknowledged_before() -> None:
    """The quorum has no records that the voter could catch up with: it would be critical until as many are written."""
    script, replay = LogScript(), machine()
    assert regression(observed(*polls((100, 100), (100, 100), (3, 102)), replay=replay, script=script)) is not None
    apply(replay, [script.row(failed(Reason.METADATA_LOST))])

    assert regression(observed(*polls((3, None), (5, 6), epoch=2), replay=replay, script=script)) is None
    later = regression(observed(*polls((7, 7), (2, 8), epoch=2), replay=replay, script=script))
    assert later is not None, "a voter whose log goes back after the loss"
    assert later.acknowledged_offset == 5


def test_a_new_leader_without_a_high_watermark_shows_no_regression_yet() -> None:
    new = polls((3, None), epoch=2)
    assert regression(observed(*polls((100, 100), (100, 100)), *new)) is None
    later = observed(*polls((100, 100), (100, 100)), *new, *polls((3, 104), epoch=2))
    assert regression(later) == LogRegression(
        acknowledged_offset=Offset(100), log_end_offset=Offset(3), leader_epoch=Epoch(2), observed_at_ms=later.now_ms
    )


def test_an_observer_has_no_regression() -> None:
    def listed(end: int) -> Poll:
        return replace(poll(replica("1-a", end=100), hw=100), observers=(replica("101-b", end=end),))

    assert regression(observed(listed(100), listed(100), listed(3)), "101-b") is None
