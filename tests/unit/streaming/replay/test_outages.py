"""The outages of voters, from polls one second apart."""

from rules.model.identifiers import Epoch, Millis
from rules.model.replica import Poll, Replica
from streaming.replay.decoded_row import DecodedRow
from streaming.replay.machine import Machine
from tests.scripts.log_script import again, apply, key, machine, poll

CLOCK_S = 77_000
"""The leader's clock is ahead of the gatherer's."""


def row(name: str, caught_up_s: int | None) -> Replica:
    at = None if caught_up_s is None else Millis((caught_up_s + CLOCK_S) * 1_000)
    return Replica(key=key(name), log_end_offset=None, last_fetch_ms=at, last_caught_up_ms=at)


def polled(second: int, second_voter_s: int | None, *, epoch: int = 1) -> Poll:
    """Controller 1 leads; voter 2 had caught up at this second."""
    return poll(row("1-a", second), row("2-b", second_voter_s), epoch=epoch, hw=10)


def observe(replay: Machine, seconds: range, *, out_since: int | None = None, epoch: int = 1) -> None:
    for second in seconds:
        event = polled(second, second if out_since is None else out_since, epoch=epoch)
        apply(replay, [DecodedRow(second, Millis(second * 1_000), (event,))])


def unknown(replay: Machine, seconds: range) -> None:
    """Another leader answers, which does not know when voter 2 had caught up."""
    for second in seconds:
        apply(replay, [DecodedRow(second, Millis(second * 1_000), (polled(second, None, epoch=2),))])


def outages(replay: Machine) -> list[tuple[float, float | None]]:
    """Returns when each outage of voter 2 began and ended, in seconds."""
    history = replay.quorum().histories[key("2-b")]
    return [(one.since_ms / 1_000, None if one.until_ms is None else one.until_ms / 1_000) for one in history.outages]


def test_an_outage_lasts_from_the_last_time_in_sync_to_the_next() -> None:
    replay = machine()
    observe(replay, range(1_000, 1_100))
    observe(replay, range(1_100, 1_110), out_since=1_099)
    assert outages(replay) == []
    observe(replay, range(1_110, 1_160), out_since=1_099)
    assert outages(replay) == [(1_099, None)]
    observe(replay, range(1_160, 1_170))
    assert outages(replay) == [(1_099, 1_160)]
    # Another one, and the job is started again within it.
    observe(replay, range(1_170, 1_200), out_since=1_169)
    restored = again(replay.to_bytes())
    observe(restored, range(1_200, 1_230), out_since=1_169)
    observe(restored, range(1_230, 1_240))
    assert outages(restored) == [(1_099, 1_160), (1_169, 1_230)]


def test_a_voter_that_the_new_leader_does_not_know_is_out_since_the_former_one_knew_it() -> None:
    replay = machine()
    observe(replay, range(1_000, 1_050))
    unknown(replay, range(1_050, 1_070))
    assert outages(replay) == [(1_049, None)]


def test_what_was_before_the_first_poll_is_no_part_of_an_outage() -> None:
    replay = machine()
    observe(replay, range(1_000, 1_002), out_since=100)
    assert outages(replay) == [(1_000, None)]


def test_a_gap_in_the_polls_is_no_part_of_an_outage() -> None:
    replay = machine()
    observe(replay, range(1_000, 1_050))
    observe(replay, range(1_050, 1_080), out_since=1_049)
    # Ten minutes without polls, and the voter is still, or again, not in sync.
    observe(replay, range(1_700, 1_730), out_since=1_049)
    assert outages(replay) == [(1_049, 1_079), (1_700, None)]
    # And a gap after which it is in sync.
    observe(replay, range(2_400, 2_410))
    assert outages(replay) == [(1_049, 1_079), (1_700, 1_729)]


def test_an_election_in_which_all_voters_are_unknown_for_a_moment_is_no_outage() -> None:
    replay = machine()
    observe(replay, range(1_000, 1_050))
    # Nobody led for half a minute.
    unknown(replay, range(1_080, 1_083))
    observe(replay, range(1_083, 1_100), epoch=2)
    assert outages(replay) == []


def test_an_observer_has_no_outages() -> None:
    replay = machine()
    observe(replay, range(1_000, 1_030), out_since=1_000)
    assert outages(replay) == [(1_000, None)]
    one = poll(row("1-a", 1_030), epoch=1, hw=10, observers=(row("2-b", 1_000),))
    apply(replay, [DecodedRow(1_030, Millis(1_030_000), (one,))])
    assert outages(replay) == []
    assert replay.quorum().leader_epoch == Epoch(1)


def test_a_long_outage_is_kept_for_an_hour_after_its_end() -> None:
    replay = machine()
    observe(replay, range(1_000, 1_100, 5))
    observe(replay, range(1_100, 5_000, 9), out_since=1_095)
    observe(replay, range(5_000, 8_600, 9))
    assert outages(replay) == [(1_095, 5_000)]
    observe(replay, range(8_600, 8_700, 9))
    assert outages(replay) == []
