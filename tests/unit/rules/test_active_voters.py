"""high-watermark-stalled, failure-tolerance and voter-lagging: one cause fires one alert."""

from dataclasses import replace

import pytest

from rules.analysis.voter_status import VoterActivity, voter_statuses
from rules.evaluate import RULES, results_of, thresholds_for
from rules.finding import Finding, UnknownResult
from rules.model.identifiers import Epoch, Millis
from rules.model.quorum import LagSample, Outage, Quorum
from tests.unit.rules.situation import (
    EPOCH,
    NOW,
    elected,
    evaluation_of,
    failing_again,
    finding_lines,
    findings,
    healthy,
    history,
    key,
    observer,
    present,
    stalled,
    static,
    unknown,
    voter_not_fetching,
    voters_lagging,
    with_history,
    with_past,
    with_rows,
)

STALLED = "critical high-watermark-stalled: quorum"
NO_RESERVE = "warning failure-tolerance: quorum"
DISK = observer(voter_not_fetching(healthy(), 2), 2, directory="newDirOf2")


@pytest.mark.parametrize(("ago_ms", "activity"), [(60_000, "lagging"), (60_001, "not fetching")])
def test_a_voter_that_lagged_at_its_last_fetch_still_fetches_for_a_minute(ago_ms: int, activity: str) -> None:
    stopped = voter_not_fetching(healthy(), 2, for_ms=ago_ms)
    quorum = with_rows(stopped, 2, last_caught_up_ms=Millis(NOW - ago_ms - 10_001))
    assert quorum.poll is not None

    statuses = voter_statuses(quorum, quorum.poll, thresholds_for({})["failure-tolerance"])

    assert [status.activity.value for status in statuses] == ["in sync", activity, "in sync"]


@pytest.mark.parametrize(
    ("quorum", "firing"),
    [
        (voter_not_fetching(healthy(), 2), [NO_RESERVE]),
        (voters_lagging(healthy(), 2), [NO_RESERVE]),
        (voter_not_fetching(healthy(4), 2), [NO_RESERVE]),
        (voter_not_fetching(healthy(5), 2), ["warning voter-lagging: voter 2"]),
        (voter_not_fetching(voter_not_fetching(healthy(5), 1), 2), [NO_RESERVE]),
        (voters_lagging(voter_not_fetching(healthy(5), 1), 2), [NO_RESERVE]),
        (voter_not_fetching(voters_lagging(healthy(), 1), 2), ["critical failure-tolerance: quorum"]),
        # Two voters never tolerate a failure: quorum-shape reports that.
        (healthy(2), []),
        (voter_not_fetching(healthy(2), 1), ["critical failure-tolerance: quorum"]),
        (static(voter_not_fetching(healthy(), 2)), [NO_RESERVE]),
        (static(voter_not_fetching(healthy(5), 2)), ["warning voter-lagging: voter 2"]),
        # A replaced disk has its own rule, if that rule is applicable.
        (DISK, ["warning voter-disk-replaced: controller 2"]),
        (static(DISK), [NO_RESERVE]),
        # Another voter is missing too.
        (
            observer(voter_not_fetching(voter_not_fetching(healthy(5), 1), 2), 2, directory="newDirOf2"),
            [NO_RESERVE, "warning voter-disk-replaced: controller 2"],
        ),
        (
            observer(voter_not_fetching(healthy(5), 2), 2, directory="newDirOf2"),
            ["warning voter-disk-replaced: controller 2"],
        ),
        # Nothing is committed: the missing voters are in its evidence.
        (stalled(healthy()), [STALLED]),
        (stalled(voter_not_fetching(voter_not_fetching(healthy(), 1), 2)), [STALLED]),
        (stalled(healthy(), for_ms=10_001, waiting=1), [STALLED]),
        # NoOps are switched off: an idle log ends at its high watermark, which does not move.
        (replace(healthy(), high_watermark_since_ms=Millis(NOW - 3_600_000)), []),
    ],
)
def test_one_cause_fires_one_alert(quorum: Quorum, firing: list[str]) -> None:
    assert [each for each in finding_lines(quorum) if "quorum-shape" not in each] == firing


def test_a_voter_that_catches_up_is_unknown() -> None:
    closing = voters_lagging(healthy(5), 2, lags=[60_000 - 4_000 * n for n in range(12)])
    assert finding_lines(closing) == []
    assert ("voter-lagging", "voter 2") in unknown(closing)
    (result,) = (each for each in evaluation_of(closing).unknown if each.rule == "voter-lagging")
    assert result.why == "it is catching up"
    widening = voters_lagging(healthy(5), 2, lags=[20_000 + 4_000 * n for n in range(12)])
    assert finding_lines(widening) == ["warning voter-lagging: voter 2"]


def test_a_voter_that_stopped_fetching_while_it_caught_up_fires() -> None:
    """Its last samples show a shrinking lag, and no sample can show that it catches up now."""
    stopped = voter_not_fetching(healthy(5), 2)
    shrinking = history(key(2), lags=[60_000 - 4_000 * n for n in range(12)], end=9_000, silent=True)
    assert finding_lines(with_history(stopped, shrinking)) == ["warning voter-lagging: voter 2"]


def test_where_every_voter_is_in_sync_the_leader_is_what_the_remedy_restarts() -> None:
    (finding,) = findings(stalled(healthy()), "high-watermark-stalled")
    assert finding.starts == (3,)


def test_a_new_leader_without_a_high_watermark_is_stalled_too() -> None:
    """The leader could not even commit its own LeaderChangeMessage."""
    quorum = replace(stalled(healthy()), high_watermark=None, leader_epoch=Epoch(8))
    (finding,) = findings(quorum, "high-watermark-stalled")
    assert finding.summary.startswith(
        "Nothing is committed: the high watermark has been unknown since 2026-09-21 14:12:49 UTC. "
    )


def test_the_election_since_which_a_leader_leads_is_that_of_its_epoch() -> None:
    quorum = elected(healthy(), 3, 3)
    for epoch, since in ((present(quorum.poll).leader_epoch, None), (38, NOW - 60_300), (40, NOW - 300)):
        poll = replace(present(quorum.poll), leader_epoch=Epoch(epoch))
        statuses = voter_statuses(quorum, poll, thresholds_for({})["failure-tolerance"])
        assert {one.leader_since_ms for one in statuses} == {since}


@pytest.mark.parametrize(
    ("polled_ago_ms", "activity", "text"),
    [
        (10_200, VoterActivity.IN_SYNC, "in sync"),
        (10_201, VoterActivity.LAGGING, "lagging since 2026-09-21 14:13:09 UTC"),
        (None, VoterActivity.NOT_FETCHING, "not fetching from leader 3 yet"),
    ],
)
def test_voters_that_have_not_fetched_from_a_new_leader_yet_are_as_earlier_polls_showed_them(
    polled_ago_ms: int | None, activity: VoterActivity, text: str
) -> None:
    """A new leader answers -1 for a voter that has not fetched from it."""
    fresh = with_rows(healthy(), 1, 2, last_fetch_ms=None, last_caught_up_ms=None, log_end_offset=None)
    fetched, none = (
        LagSample(observed_at_ms=NOW, lag=None, lag_ms=None, fetch_age_ms=age) for age in (Millis(0), None)
    )
    samples = (
        ()
        if polled_ago_ms is None
        else (
            LagSample(observed_at_ms=Millis(NOW - polled_ago_ms), lag=0, lag_ms=Millis(0), fetch_age_ms=Millis(0)),
            replace(fetched, observed_at_ms=Millis(NOW - 1_000)),
            none,
        )
    )
    quorum = with_history(fresh, *(replace(fresh.histories[key(node)], samples=samples) for node in (1, 2)))

    statuses = voter_statuses(quorum, present(quorum.poll), thresholds_for({})["failure-tolerance"])

    assert [one.activity for one in statuses] == [activity, activity, VoterActivity.IN_SYNC]
    assert str(statuses[0]) == text


def test_the_summary_names_a_voter_that_was_never_observed_to_fetch() -> None:
    stopped = replace(voter_not_fetching(healthy(), 2), histories={})
    quorum = with_rows(stopped, 2, last_fetch_ms=None, log_end_offset=None)
    (finding,) = findings(quorum, "failure-tolerance")
    assert finding.summary == (
        "Voter 2 has not fetched from leader 3 yet. "
        "The quorum tolerates no further failure: 2 of 3 voters are in sync; 2 are needed."
    )
    since = replace(elected(quorum, 1, 3), leader_epoch=EPOCH)
    election = replace(since.history.elections[-1], leader_epoch=EPOCH, timestamp_ms=Millis(NOW - 60_000))
    since = with_past(since, elections=(election,))
    (finding,) = findings(replace(since, poll=quorum.poll), "failure-tolerance")
    assert finding.summary.startswith(
        "Voter 2 has not fetched since controller 3 took over at 2026-09-21 14:12:20 UTC."
    )
    assert "not fetching since controller 3 took over at" in str(finding.evidence["voters"])


def test_voters_after_one_with_a_replaced_disk_are_evaluated() -> None:
    replaced = observer(voter_not_fetching(healthy(5), 1), 1, directory="newDirOf1")
    rule, thresholds = RULES["voter-lagging"], thresholds_for({})["voter-lagging"]
    first, second = results_of(rule, voter_not_fetching(replaced, 2), thresholds)
    assert isinstance(first, UnknownResult)
    assert first.why == "its log directory was replaced: 1-newDirOf1AAAAAAAAAAAAA fetches instead"
    assert isinstance(second, Finding)
    assert second.subject == "voter 2"


@pytest.mark.parametrize(
    ("fetched_ago_ms", "caught_up_ago_ms", "lags"),
    [
        (15_000, 300_000, True),
        (60_000, 300_000, True),
        # It fetched last when it lagged, but that is too long ago.
        (60_001, 300_000, False),
        # It had caught up when it last fetched, as a voter has that fails.
        (15_000, 15_500, False),
        (15_000, 25_000, False),
        (15_000, 25_001, True),
        # It has never caught up with this leader.
        (15_000, None, True),
    ],
)
def test_voter_that_lagged_when_it_last_fetched_fetches_slowly(
    fetched_ago_ms: int, caught_up_ago_ms: int | None, lags: bool
) -> None:
    """Seen on Kafka 4.3.1: a path with 0.9 s each way gives fetches up to eleven seconds apart, without progress."""
    quorum = with_rows(
        voters_lagging(healthy(5), 2),
        2,
        last_fetch_ms=Millis(NOW - fetched_ago_ms),
        last_caught_up_ms=None if caught_up_ago_ms is None else Millis(NOW - caught_up_ago_ms),
    )
    (finding,) = findings(quorum, "voter-lagging")

    assert finding.summary.startswith("Voter 2 fetches, but ") is lags
    assert finding.summary.startswith("Voter 2 has not fetched since") is not lags
    if lags:
        assert (finding.evidence["path"], finding.evidence["records_behind"]) == ("voter 2 -> leader 5", 1_000)
        assert finding.remedy[0].startswith("# Check the path voter 2 -> leader 5 for long round trips")
        assert finding.starts == ()


@pytest.mark.parametrize(
    ("times", "for_ms", "every_ms", "fires"),
    [
        # A crash loop: 60 s of 100 s, 110 s of 130 s; and a voter that is away for 30 s of 100 s.
        (9, 60_000, 100_000, True),
        (6, 60_000, 100_000, True),
        (5, 60_000, 100_000, False),
        (6, 110_000, 130_000, True),
        (9, 30_000, 100_000, False),
        # Two restarts that take long.
        (2, 200_000, 400_000, False),
        # Before the window only the third one from the end lies.
        (3, 190_000, 300_000, True),
        (3, 190_000, 400_000, False),
    ],
)
def test_no_reserve_for_two_fifths_of_the_window_is_no_reserve(
    times: int, for_ms: int, every_ms: int, fires: bool
) -> None:
    found = findings(failing_again(healthy(), 2, times, for_ms=for_ms, every_ms=every_ms), "failure-tolerance")
    assert [one.hold_ms for one in found] == ([0] if fires else [])


def test_outages_of_a_voter_beside_a_reserve_are_no_lack_of_it() -> None:
    assert findings(failing_again(healthy(5), 2, 9), "failure-tolerance") == []
    both = failing_again(failing_again(healthy(5), 2, 9), 3, 9)
    (finding,) = findings(both, "failure-tolerance")
    assert finding.summary == (
        "The quorum tolerates no further failure reliably: 5 of 5 voters are in sync now. It tolerated none for 9 min "
        "of the last 15 min: voter 2 was not in sync 9 times and voter 3 was not in sync 9 times."
    )


def test_a_voter_that_is_down_beside_one_that_fails_again_and_again_is_named_and_started() -> None:
    """Its own alert, voter-lagging, is inhibited."""
    down = voter_not_fetching(healthy(5), 4)
    lasting = replace(down.histories[key(4)], outages=(Outage(since_ms=Millis(NOW - 120_000)),))
    quorum = failing_again(failing_again(with_history(down, lasting), 1, 9), 2, 9)
    (finding,) = evaluation_of(quorum).findings
    assert finding.summary.startswith(
        "The quorum tolerates no further failure reliably: 4 of 5 voters are in sync now. Voter 4 has not fetched "
        "since 2026-09-21 14:11:19 UTC. It tolerated none for "
    )
    assert finding.remedy[0] == (
        "# Check in the log of controller 4 why it does not fetch from the leader: its process accepts connections at "
        "c4.test:9093"
    )
    assert (finding.starts, finding.evidence["failed_nodes"]) == ((4,), [1, 2, 4])


def test_a_voter_that_failed_once_beside_one_that_fails_again_and_again_changes_nothing() -> None:
    both = failing_again(failing_again(healthy(), 2, 9), 3, 1)
    (finding,) = findings(both, "failure-tolerance")
    assert finding.summary.endswith("of the last 15 min: voter 2 was not in sync 9 times.")


def test_of_an_outage_that_began_before_the_window_only_what_is_in_it_counts() -> None:
    quorum = failing_again(healthy(), 2, 2)
    at, known = present(quorum.poll).observed_at_ms, quorum.histories[key(2)]
    long = Outage(since_ms=Millis(at - 3_000_000), until_ms=Millis(at - 850_000))
    histories = {**quorum.histories, key(2): replace(known, outages=(long, *known.outages))}
    assert findings(replace(quorum, histories=histories), "failure-tolerance") == []


def test_summary_names_three_voters_that_are_not_in_sync_and_counts_the_others() -> None:
    quorum = healthy(9)
    for node in range(1, 6):
        quorum = voter_not_fetching(quorum, node)
    (finding,) = findings(quorum, "failure-tolerance")
    assert [node for node in range(1, 6) if f"Voter {node} has not fetched" in finding.summary] == [1, 2, 3]
    assert "2 more voters are not in sync." in finding.summary
    (three,) = findings(voter_not_fetching(voter_not_fetching(voter_not_fetching(healthy(5), 1), 2), 3), finding.rule)
    assert "more voters" not in three.summary


def test_restarts_one_after_the_other_are_a_rolling_restart() -> None:
    """Each of the three voters was out of sync twice for a minute: six minutes of fifteen."""
    quorum = healthy()
    for node in (1, 2, 3):
        quorum = failing_again(quorum, node, 2, every_ms=100_000 * node)
    assert findings(quorum, "failure-tolerance") == []
