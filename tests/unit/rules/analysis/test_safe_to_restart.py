"""Whether a controller may be restarted: what the quorum would be without it, and what must be mended first."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from rules.analysis.safe_to_restart import RestartSafety, known_controllers, safe_to_restart
from rules.evaluate import thresholds_for
from rules.finding import Thresholds
from rules.model.identifiers import NodeId
from rules.model.monitoring import Reason
from rules.model.quorum import Quorum
from tests.unit.rules.situation import (
    all_refuse,
    broker,
    failing,
    healthy,
    key,
    leaderless,
    name_not_found,
    not_observed_for,
    observer,
    probed,
    refuses,
    registered_elsewhere,
    removed,
    resolver_fails,
    row,
    static,
    voter_not_fetching,
)


def asked(quorum: Quorum, node: int) -> RestartSafety:
    all_of_them = thresholds_for({})
    values = {**all_of_them["voter-disk-replaced"].values, **all_of_them["stale-voter-endpoint"].values}
    return safe_to_restart(quorum, NodeId(node), Thresholds(values=values))


def without_row(quorum: Quorum, node: int) -> Quorum:
    """The leader's latest voter set lacks one that is committed."""
    assert quorum.poll is not None
    rows = tuple(each for each in quorum.poll.voters if each.key.id != node)
    return replace(quorum, poll=replace(quorum.poll, voters=rows))


def lagging(quorum: Quorum, node: int, lag_ms: int) -> Quorum:
    assert quorum.poll is not None
    rows = tuple(
        replace(row(each.key, lag_ms=lag_ms), last_fetch_ms=each.last_fetch_ms) if each.key.id == node else each
        for each in quorum.poll.voters
    )
    return replace(quorum, poll=replace(quorum.poll, voters=rows))


@pytest.mark.parametrize("node", [1, 2, 3])
def test_any_one_of_three_healthy_voters_may_be_restarted(node: int) -> None:
    answer = asked(healthy(3), node)

    assert answer.safe, answer.against
    assert answer.remaining == tuple(NodeId(each) for each in (1, 2, 3) if each != node)
    assert answer.votes_needed == 2


def test_the_leader_is_safe_too_with_a_word_on_what_follows() -> None:
    assert any("it leads" in note for note in asked(healthy(3), 3).notes)
    assert asked(healthy(3), 1).notes == ()


@pytest.mark.parametrize(
    ("situation", "why"),
    [
        (lambda quorum: voter_not_fetching(quorum, 2), "controller 2 does not fetch: bring it back first"),
        (lambda quorum: refuses(voter_not_fetching(quorum, 2), 2), "controller 2 does not fetch: bring it back first"),
        (lambda quorum: lagging(quorum, 2, 60_000), "controller 2 is 60 s behind the leader: bring it back first"),
        (
            lambda quorum: voter_not_fetching(quorum, 2),
            "without it 1 voter of 3 would remain, caught up and reachable, and 2 are",
        ),
        (lambda quorum: name_not_found(quorum, 2), "voter 2's recorded endpoint c2.test:9093 is stale (name-gone"),
        (lambda quorum: name_not_found(quorum, 1), "voter 1's recorded endpoint c1.test:9093 is stale"),
        (lambda quorum: registered_elsewhere(quorum, 2), "(registration-differs"),
        (lambda quorum: resolver_fails(quorum, 2), "unknown whether voter 2 can be reached"),
        (lambda quorum: observer(quorum, 2, directory="newDisk"), "controller 2 has a new directory id"),
        (lambda quorum: without_row(quorum, 2), "a change of the voter set is in progress"),
        (lambda quorum: leaderless(quorum, 1), "no controller leads the quorum (reported by c1.test:9093)"),
        (all_refuse, "all refuse connections"),
        (not_observed_for, "unknown: DescribeQuorum was last answered 14 s ago"),
        (lambda quorum: replace(quorum, last_offset=None), "unknown: nothing of the metadata log"),
        (lambda quorum: replace(quorum, committed=None), "unknown: no committed VotersRecord"),
    ],
)
def test_what_speaks_against_it(situation: Callable[[Quorum], Quorum], why: str) -> None:
    answer = asked(situation(healthy(3)), 1)

    assert not answer.safe
    assert any(why in each for each in answer.against), answer.against


def test_without_it_the_others_must_be_able_to_elect_a_leader_among_themselves() -> None:
    """Both fetch, and neither could reach the other in an election: the leader is what holds them together."""
    apart = asked(name_not_found(healthy(), 1, 2), 3)
    assert any("no voter could win an election" in why for why in apart.against)
    one_way = asked(name_not_found(healthy(), 1), 3)
    assert not any("no voter could win an election" in why for why in one_way.against), "1 still dials 2"


def test_one_that_is_down_already_may_be_started_again() -> None:
    answer = asked(refuses(voter_not_fetching(healthy(3), 1), 1), 1)

    assert answer.safe, answer.against


def test_of_five_with_one_down_the_next_one_waits_although_a_majority_would_remain() -> None:
    answer = asked(voter_not_fetching(healthy(5), 2), 1)

    assert not answer.safe
    assert answer.remaining is not None
    assert len(answer.remaining) == answer.votes_needed == 3
    assert answer.against == ("controller 2 does not fetch: bring it back first",)


@pytest.mark.parametrize("voters", [1, 2])
def test_one_or_two_voters_tolerate_no_restart(voters: int) -> None:
    assert not asked(healthy(voters), 1).safe


def test_a_half_done_disk_replacement_is_finished_first() -> None:
    half_done = removed(observer(healthy(3), 2, directory="newDisk"), 2, ago_ms=60_000)

    answer = asked(half_done, 1)

    assert any("controller 2 has a new directory id" in each for each in answer.against)


def test_a_directory_that_was_replaced_is_no_new_disk() -> None:
    """The leader lists a voter that was removed as an observer for 300 s after its last fetch."""
    answer = asked(observer(healthy(3), 2, directory="oldDisk", fetched_ago_ms=150_000), 1)

    assert answer.safe, answer.against


def test_an_observer_has_no_vote_to_miss() -> None:
    waiting = observer(healthy(3), 4)

    assert asked(waiting, 4).safe
    assert any("is no voter" in note for note in asked(waiting, 4).notes)
    assert known_controllers(waiting) == {1, 2, 3, 4}


def test_a_combined_node_gets_a_word_on_its_partitions() -> None:
    combined = replace(healthy(3), brokers={NodeId(1): broker(1)})

    assert any("broker as well" in note for note in asked(combined, 1).notes)


def test_a_static_quorum_is_judged_by_the_poll_and_says_what_it_lacks() -> None:
    answer = asked(static(healthy(3)), 1)

    assert answer.safe, answer.against
    assert any("static quorum" in note for note in answer.notes)
    assert not asked(static(voter_not_fetching(healthy(3), 2)), 1).safe


def test_a_voter_whose_endpoint_leads_elsewhere_cannot_be_relied_on() -> None:
    elsewhere = probed(healthy(3), 2, answered_by=9)

    assert not asked(elsewhere, 1).safe


def test_what_a_node_without_a_leader_said_before_the_leader_answered_is_old() -> None:
    answer = asked(failing(healthy(3), Reason.NO_LEADER, "c1.test:9093", ago_ms=5_000), 1)

    assert answer.safe, answer.against


def test_keys_are_compared_whole() -> None:
    quorum = healthy(3)
    assert quorum.poll is not None
    other = tuple(replace(each, key=key(2, "anotherDisk")) if each.key.id == 2 else each for each in quorum.poll.voters)

    answer = asked(replace(quorum, poll=replace(quorum.poll, voters=other)), 1)

    assert any("a change of the voter set" in each for each in answer.against)
