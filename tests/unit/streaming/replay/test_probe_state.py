"""Polls, histories, probes, failures, and the leader by the newest evidence."""

from dataclasses import replace

import pytest

from connectors.observations.observation import ObservationEvent
from rules.model.ages import LATE_MS
from rules.model.identifiers import Epoch
from rules.model.monitoring import ConnectionResult, ProbeAnswer, Reason
from streaming.replay.poll_history import VOTER_REMEMBERED_MS, WINDOW_MS
from streaming.replay.probe_state import LATE_KEPT_MS, RETURNS, RETURNS_MS
from tests.scripts.log_script import (
    START,
    LogScript,
    apply,
    begun,
    failed,
    key,
    machine,
    poll,
    probed,
    replica,
    view,
)


def test_a_replica_history_is_a_thinned_window_by_the_leaders_clock() -> None:
    script, replay = LogScript(), machine()
    rows = [
        script.row(poll(replica("1-a", end=100), replica("2-b", end=90, fetch=40, caught_up=700))) for _ in range(180)
    ]
    quorum = apply(replay, rows)

    history = quorum.histories[key("2-b")]
    assert (history.first_seen_at_ms, history.last_seen_at_ms) == (START + 1_000, START + 180_000)
    assert [(one.lag, one.lag_ms, one.fetch_age_ms) for one in history.samples] == [(10, 700, 40)] * 13
    gaps = [b.observed_at_ms - a.observed_at_ms for a, b in zip(history.samples, history.samples[1:], strict=False)]
    assert gaps[:-1] == [5_000] * 11
    assert history.samples[-1].observed_at_ms == quorum.now_ms
    assert quorum.histories[key("1-a")].samples[-1].lag_ms == 0


def test_the_newest_sample_before_an_election_is_kept() -> None:
    """A new leader does not know how the others follow; what the polls before showed is four seconds newer so."""
    script, replay = LogScript(), machine()
    known = poll(replica("1-a", end=100), replica("2-b", end=90))
    unknown = poll(replica("1-a", end=100), replica("2-b", end=None, fetch=None, caught_up=None), epoch=2)
    rows = [script.row(event) for event in (*[known] * 10, *[unknown] * 9, replace(known, leader_epoch=Epoch(2)))]

    samples = apply(replay, rows).histories[key("2-b")].samples

    ages = [(one.observed_at_ms - START, one.fetch_age_ms is not None) for one in samples]
    assert ages == [(1_000, True), (6_000, True), (10_000, True), (15_000, False), (20_000, True)]


@pytest.mark.parametrize(("after_ms", "samples"), [(WINDOW_MS, 2), (WINDOW_MS + 1, 1)])
def test_samples_are_kept_for_a_minute(after_ms: int, samples: int) -> None:
    script, replay = LogScript(), machine()
    rows = [script.row(poll(replica("1-a"))), script.row(poll(replica("1-a")), after_ms=after_ms)]

    assert len(apply(replay, rows).histories[key("1-a")].samples) == samples


@pytest.mark.parametrize(
    ("end", "caught_up_ms", "lag", "lag_ms"), [(105, 0, 0, 0), (100, 900, 0, 0), (98, 900, 2, 900)]
)
def test_a_replica_at_the_leaders_log_end_or_beyond_has_no_lag(
    end: int, caught_up_ms: int, lag: int, lag_ms: int
) -> None:
    script, replay = LogScript(), machine()
    rows = [script.row(poll(replica("1-a", end=100), replica("2-b", end=end, caught_up=caught_up_ms)))]

    (sample,) = apply(replay, rows).histories[key("2-b")].samples
    assert (sample.lag, sample.lag_ms) == (lag, lag_ms)


def test_time_does_not_go_back_with_an_older_row() -> None:
    script, replay = LogScript(), machine()
    now_ms = apply(replay, [script.row(poll())]).now_ms
    assert apply(replay, [script.row(poll(), after_ms=-5_000)]).now_ms == now_ms


def test_new_probes_and_views_leave_the_order_in_which_rules_see_them() -> None:
    """In another order the rules would be evaluated again."""
    script, replay = begun()
    rows = [script.row(event) for node in (2, 1, 3, 2) for event in (probed(node, "10.0.0.1"), view(node))]

    quorum = apply(replay, rows)

    assert [one.node for one in quorum.probes.values()] == [1, 2, 3]
    assert [one.node for one in quorum.leader_views.values()] == [1, 2, 3]


@pytest.mark.parametrize(
    ("polls", "leader_epoch"),
    [
        ([(77, 3), (78, 4), (79, 5)], 5),
        ([(77, 3), (10**12, 4), (77, 4)], 3),
        ([(77, 3), (10**12, 4), (10**12, 4), (77, 4)], 3),
        ([(77, 3), (78, 4), (76, 5)], 5),
    ],
    ids=["advancing", "one false poll", "two false polls", "truncated"],
)
def test_the_epoch_of_a_log_end_is_that_of_the_poll_that_first_reported_it(
    polls: list[tuple[int, int]], leader_epoch: int
) -> None:
    script, replay = LogScript(), machine()
    rows = [script.row(poll(replica("1-a"), replica("2-b", end=end), epoch=epoch)) for end, epoch in polls]

    assert apply(replay, rows).histories[key("2-b")].last_leader_epoch == leader_epoch


def test_a_replica_that_polls_no_longer_list_is_kept_for_an_hour() -> None:
    script, replay = LogScript(), machine()
    rows = [script.row(poll(replica("1-a"), replica("2-b"))), script.row(poll(replica("1-a")))]
    assert key("2-b") in apply(replay, rows).histories
    assert key("2-b") not in apply(replay, [script.row(poll(replica("1-a")), after_ms=3_600_000)]).histories


@pytest.mark.parametrize(
    ("voters", "after_ms", "kept"),
    [
        (["1-a", "2-new"], VOTER_REMEMBERED_MS, True),
        (["1-a", "2-new"], VOTER_REMEMBERED_MS + 1, False),
        (["1-a"], 80_000_000, True),
        (["1-a", "3-c"], 80_000_000, False),
    ],
    ids=["directory of a voter", "after a day", "of a removed voter", "of no voter"],
)
def test_a_former_directory_of_a_voter_is_kept_for_a_day(voters: list[str], after_ms: int, kept: bool) -> None:
    script, replay = begun()
    if "3-c" not in voters:
        script.voters("1-a", "2-old")
    rows = [script.read(), script.row(poll(replica("1-a"), replica("2-old")))]
    script.voters(*voters)
    rows.append(script.read(after_ms=0))
    quorum = apply(replay, [*rows, script.row(poll(replica("1-a")), after_ms=after_ms)])

    assert (key("2-old") in quorum.histories) is kept


def test_a_poll_of_an_older_epoch_is_ignored_for_30_s() -> None:
    script, replay = LogScript(), machine()
    quorum = apply(replay, [script.row(poll(leader=2, epoch=5)), script.row(poll(leader=1, epoch=4))])
    assert (quorum.leader_id, quorum.leader_epoch, quorum.poll.leader_epoch if quorum.poll else None) == (2, 5, 5)
    quorum = apply(replay, [script.row(poll(leader=1, epoch=4), after_ms=28_000)])
    assert (quorum.leader_id, quorum.leader_epoch) == (2, 5)
    quorum = apply(replay, [script.row(poll(leader=1, epoch=4), after_ms=3_000)])
    assert (quorum.leader_id, quorum.leader_epoch) == (1, 4)


def test_only_the_first_of_several_gaps_without_an_answer_in_between_is_no_observation() -> None:
    """A gatherer that only restarts, again and again, is a failure to observe."""
    script, replay = LogScript(), machine()
    observed_nothing = []
    gap = failed(Reason.INTERRUPTED, "")
    for event in (poll(), gap, gap, poll(), gap):
        apply(replay, [script.row(event)])
        observed_nothing.append(replay.observed_nothing)
    assert observed_nothing == [False, True, False, False, True]


def test_it_is_kept_when_an_endpoint_accepts_connections_after_it_refused_them() -> None:
    script, replay = LogScript(), machine()
    up, down = probed(2, "10.0.0.2"), replace(probed(2, "10.0.0.2"), connection=ConnectionResult.REFUSED)
    slow = replace(up, connection=ConnectionResult.TIMED_OUT)
    returned, quorum = [], replay.quorum()
    for one in (up, down, down, up, up, slow, up, down, up):
        quorum = apply(replay, [script.row(one, after_ms=5_000)])
        returned.append(len(quorum.probes["2@c2:9093"].returned_at_ms))
    assert returned == [0, 0, 0, 1, 1, 1, 1, 1, 2]
    (first, last) = quorum.probes["2@c2:9093"].returned_at_ms
    assert (last, last - first) == (quorum.now_ms, 25_000)

    for _ in range(RETURNS):
        rows = [script.row(one, after_ms=5_000) for one in (down, up)]
        quorum = apply(replay, rows)
    known = quorum.probes["2@c2:9093"].returned_at_ms
    assert (len(known), known[-1]) == (RETURNS, quorum.now_ms)
    for _ in range(RETURNS_MS // 500_000 + 1):
        quorum = apply(replay, [script.row(up, after_ms=500_000)])
    assert quorum.probes["2@c2:9093"].returned_at_ms == ()


def test_a_voter_whose_endpoint_refuses_connections_and_that_fetches_again_after_a_pause_started() -> None:
    script, replay = LogScript(), machine()
    down = replace(probed(2, "10.0.0.2"), connection=ConnectionResult.REFUSED)

    def fetches(*ages: int) -> int:
        rows = [script.row(poll(replica("1-a"), replica("2-b", fetch=age)), after_ms=1_000) for age in ages]
        return len(apply(replay, rows).probes["2@c2:9093"].returned_at_ms)

    apply(replay, [script.row(probed(2, "10.0.0.2"))])
    assert fetches(200, 4_500, 300) == 0, "a pause of a process that listens"
    apply(replay, [script.row(down)])
    assert fetches(200, 1_200, 2_200, 3_200, 300) == 0, "too short"
    assert fetches(1_300, 2_300, 3_300, 4_300, 300, 1_300) == 1
    assert fetches(2_300, 3_300, 4_300, 300) == 1, "it may be the same start"
    apply(replay, [script.row(probed(2, "10.0.0.2"))])
    assert fetches(300) == 1, "it accepts connections since that start"
    apply(replay, [script.row(down)])
    assert fetches(4_300, 5_300, 300) == 2
    apply(replay, [script.row(down), script.row(probed(2, "10.0.0.2"))])
    assert fetches(300) == 2, "a slow start: it fetched, still refused connections, and accepts them now"
    apply(replay, [script.row(down), script.row(probed(2, "10.0.0.2"))])
    assert fetches(300) == 3


def test_that_a_node_answered_late_is_kept_for_a_minute_or_until_it_refuses_connections() -> None:
    script, replay = LogScript(), machine()
    timed_out, no_leader, refused, elsewhere = (
        failed(reason, place)
        for reason, place in (
            (Reason.TIMED_OUT, "c2:9093"),
            (Reason.NO_LEADER, "c2:9093"),
            (Reason.REFUSED, "c2:9093"),
            (Reason.TIMED_OUT, "c3:9093"),
        )
    )

    def is_late(*events: tuple[int, ObservationEvent]) -> bool:
        rows = [script.row(event, after_ms=after_ms) for after_ms, event in events]
        return "c2:9093" in apply(replay, rows).late_answers

    assert not is_late((0, timed_out), (LATE_MS - 1, no_leader))
    assert is_late((0, timed_out), (LATE_MS - 1, timed_out), (1, view(2))), "from the first attempt on"
    assert is_late((LATE_KEPT_MS, elsewhere))
    assert not is_late((1, elsewhere))
    assert is_late((0, replace(probed(2, "10.0.0.2"), answer=ProbeAnswer.LATE)))
    assert not is_late((0, refused)), "the next process is another one"
    assert not is_late((0, timed_out), (0, refused), (LATE_MS, no_leader))


@pytest.mark.parametrize(
    ("last", "former"),
    [
        ((), Reason.DENIED),
        # A process that ends accepts a connection that it does not answer.
        (((ConnectionResult.ACCEPTED, ProbeAnswer.NO_ANSWER),), Reason.DENIED),
        (((ConnectionResult.REFUSED, ProbeAnswer.NOT_ASKED),), Reason.DENIED),
        (((ConnectionResult.ACCEPTED, ProbeAnswer.THIS_CLUSTER),), None),
    ],
)
def test_why_the_last_answer_was_an_error_is_kept_while_none_follows(
    last: tuple[tuple[ConnectionResult, ProbeAnswer], ...], former: Reason | None
) -> None:
    script, replay, one = LogScript(), machine(), probed(1, "10.0.0.1")
    denied = replace(one, answer=ProbeAnswer.NOT_ALLOWED, reason=Reason.DENIED)
    found = [replace(one, connection=connection, answer=answer) for connection, answer in last]
    refused = replace(one, connection=ConnectionResult.REFUSED, answer=ProbeAnswer.NOT_ASKED)

    rows = [script.row(view(1)), *(script.row(probe) for probe in (denied, *found, refused))]
    quorum = apply(replay, rows)

    assert [probe.former_reason for probe in quorum.probes.values()] == [former]
