"""Elections after a change, compared with real quorums and with a brute-force oracle in which each asks all others."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rules.answers.forecast import forecast_election
from rules.answers.part import Elector, LastElection, Part, electors
from rules.answers.what_if import Change, controllers_of_quorum, what_if
from rules.evaluate import thresholds_for
from rules.facts.quorum import Facts
from rules.model.identifiers import Endpoint, Epoch, NodeId, Offset, ReplicaKey
from rules.model.membership import Voter, VoterSet
from tests.situation.commands import situation
from tests.situation.situation import controller_key as key

THRESHOLDS = thresholds_for({})["stale-voter-endpoint"]
OLD, NEW = "old", "new"


def endpoint(node: int, host: str) -> Endpoint:
    return Endpoint(listener="CONTROLLER", host=f"c{node}.{host}", port=9093)


def voter_set(count: int, hosts: dict[int, str]) -> VoterSet:
    voters = tuple(Voter(key=key(n), endpoints=(endpoint(n, hosts.get(n, OLD)),)) for n in range(1, count + 1))
    return VoterSet(voters=voters, offset=Offset(1), leader_epoch=Epoch(1), timestamp_ms=None)


Node = tuple[bool, bool, int, bool]
"""Alive, moved, log end, rescued: its own voter set holds the new endpoints."""


def controllers(nodes: Sequence[Node]) -> list[Elector]:
    moved = {number: NEW for number, node in enumerate(nodes, 1) if node[1]}
    return [
        Elector(
            key=key(number),
            runs=Part.COUNTS if alive else Part.LOST,
            endpoint=endpoint(number, NEW if has_moved else OLD),
            log_end=(Epoch(1), Offset(end)),
            voters=voter_set(len(nodes), moved if rescued else {}),
        )
        for number, (alive, has_moved, end, rescued) in enumerate(nodes, 1)
    ]


@pytest.mark.parametrize(
    ("voters", "changed", "electable"),
    [
        # Kafka 4.3.1: n voters, the endpoints of c changed at once, all of them alive.
        (3, 0, True),
        (3, 1, True),
        (3, 2, True),  # recovered by itself in under 25 s, although a majority had changed
        (3, 3, False),  # never recovered
        (4, 1, True),
        (4, 2, True),  # a changed one reaches itself and both unchanged ones: 3 of 4
        (4, 3, False),
        (4, 4, False),
        (5, 2, True),
        (5, 3, True),
        (5, 4, False),
        (5, 5, False),
    ],
)
def test_changed_endpoints_give_the_result_of_real_quorums(voters: int, changed: int, electable: bool) -> None:
    result = forecast_election(controllers([(True, node < changed, 5, False) for node in range(voters)]))
    assert result.electable is electable
    assert result.best
    assert len(result.best.reached) == min(voters, voters - changed + 1)


@pytest.mark.parametrize(("moved_voters_end", "electable"), [((1, 90), False), ((1, 100), True), ((2, 10), True)])
def test_one_voter_down_one_moved_one_unchanged(moved_voters_end: tuple[int, int], electable: bool) -> None:
    """Kafka 4.3.1: no leader if the moved voter's log was behind, a leader after 7 s if it was ahead."""
    down, moved, unchanged = controllers(
        ((False, False, 100, False), (True, True, 100, False), (True, False, 100, False))
    )
    epoch, offset = moved_voters_end
    result = forecast_election([down, replace(moved, log_end=(Epoch(epoch), Offset(offset))), unchanged])
    assert result.electable is electable


def votes(nodes: Sequence[Node], candidate: int) -> list[int]:
    """The oracle: a live node asks all nodes; one answers if the address that was dialled is its own."""
    _, _, end, rescued = nodes[candidate]

    def answers(other: int) -> bool:
        up, moved, others_end, _ = nodes[other]
        return up and (not moved or rescued) and others_end <= end

    return [other for other in range(len(nodes)) if other == candidate or answers(other)]


def some_leader(nodes: Sequence[Node]) -> bool:
    return any(2 * len(votes(nodes, one)) > len(nodes) for one, node in enumerate(nodes) if node[0])


EACH_NODE = list(product((False, True), (False, True), (1, 2), (False, True)))


@pytest.mark.parametrize("count", [1, 2, 3])
def test_every_small_quorum_agrees_with_the_oracle(count: int) -> None:
    for nodes in product(EACH_NODE, repeat=count):
        assert forecast_election(controllers(nodes)).electable == some_leader(nodes), nodes


@settings(max_examples=500)
@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.integers(1, 5), st.booleans()), min_size=4, max_size=7))
def test_larger_quorums_of_any_log_ends_agree_with_the_oracle(nodes: list[Node]) -> None:
    result = forecast_election(controllers(nodes))
    alive = [place for place, node in enumerate(nodes) if node[0]]

    assert result.electable == some_leader(nodes)
    reached = {one.key: [each.id - 1 for each in one.reached] for one in result.candidates}
    assert reached == {key(place + 1): votes(nodes, place) for place in alive}
    most = max((len(votes(nodes, place)) for place in alive), default=0)
    best = next((key(place + 1) for place in alive if len(votes(nodes, place)) == most), None)
    assert (result.best and result.best.key) == best
    assert [each.id - 1 for each in result.indispensable] == [
        lost
        for lost in alive
        if some_leader(nodes)
        and not some_leader([(node[0] and place != lost, *node[1:]) for place, node in enumerate(nodes)])
    ]


def test_votes_and_reasons_of_one_candidate_name_each_voter() -> None:
    """2 votes, 3 is down and moved, 4 is not known, 5 cannot be reached, 6 has no recorded endpoint, 7 another disk."""
    up = (True, False, 5, False)
    nodes = [up, up, (False, True, 5, False), up, up, up, up, (True, True, 5, False), (True, False, 6, False)]
    one, two, three, _, five, six, seven, eight, nine = controllers(nodes)
    listed = voter_set(9, {})
    without = tuple(replace(each, endpoints=()) if each.key.id == 6 else each for each in listed.voters)
    one = replace(one, voters=replace(listed, voters=without))
    replaced = replace(seven, key=key(7, "another"))

    others = [two, three, replace(five, reached=Part.LOST), six, replaced, eight, nine]
    candidate = forecast_election([one, *others]).candidates[0]

    assert candidate.reached == (key(1), key(2))
    assert candidate.barred == {
        key(3): "down",
        key(4): "down",
        key(5): "its recorded endpoint does not reach it",
        key(6): "its recorded endpoint does not reach it",
        key(7): "its directory id is another one",
        key(8): "its recorded endpoint c8.old:9093 does not reach it",
        key(9): "its log is ahead",
    }


def test_host_names_are_compared_without_regard_to_case() -> None:
    one, two = controllers(((True, False, 5, False), (True, False, 5, False)))
    upper = replace(two, endpoint=Endpoint(listener="CONTROLLER", host="C2.OLD", port=9093))
    assert [each.wins for each in forecast_election([one, upper]).candidates] == [True, True]


Known = tuple[int, int | None]
"""The last election that a node knows: epoch, leader."""


def knowing(nodes: Sequence[Elector], known: Sequence[Known]) -> list[Elector]:
    return [
        replace(one, last_election=LastElection(epoch=Epoch(epoch), leader=None if leader is None else NodeId(leader)))
        for one, (epoch, leader) in zip(nodes, known, strict=True)
    ]


def uncertain(nodes: Sequence[Elector]) -> dict[int, list[int]]:
    """Returns the voters that each uncertain candidate may reach."""
    return {one.key.id: [each.id for each in one.may_reach] for one in forecast_election(nodes).uncertain}


@pytest.mark.parametrize(
    ("known", "ends", "expected"),
    [
        pytest.param(((1, 1), (1, 1), (1, 1)), (5, 5, 5), {}, id="all know the leader"),
        pytest.param(((1, 1), (2, 2), (2, 2)), (5, 5, 5), {1: [2]}, id="one does not know the last leader"),
        pytest.param(((2, None), (2, 2), (2, 2)), (5, 5, 5), {1: [2]}, id="one voted and did not hear the result"),
        pytest.param(((3, None), (2, 2), (2, 2)), (5, 5, 5), {}, id="one knows a later epoch"),
        pytest.param(((1, 1), (2, 2), (2, 2)), (4, 5, 5), {}, id="its log is behind"),
        pytest.param(((1, 1), (2, 3), (2, 2)), (5, 5, 5), {}, id="the leader knows no more that it led"),
    ],
)
def test_voter_that_does_not_know_the_last_leader_may_be_elected(
    known: tuple[Known, ...], ends: tuple[int, ...], expected: dict[int, list[int]]
) -> None:
    nodes = knowing(controllers([(True, True, end, False) for end in ends]), known)

    assert uncertain(nodes) == expected
    assert not uncertain([replace(one, runs=Part.LOST if one.key.id == 2 else Part.COUNTS) for one in nodes]), (
        "the last leader does not come back"
    )
    assert not uncertain([replace(one, reached=Part.LOST if one.key.id == 2 else Part.COUNTS) for one in nodes]), (
        "no other one reaches it"
    )
    at_home = [replace(one, endpoint=endpoint(one.key.id, OLD)) for one in nodes]
    assert forecast_election(at_home).electable, "what happens anyway is not uncertain"
    assert uncertain(at_home) == {}


@pytest.mark.parametrize(
    ("known", "log_epochs", "expected"),
    [
        pytest.param(((2, 2), (2, 2)), (2, 2), {}, id="a log of the same epoch does not hide the leader"),
        pytest.param(((1, 1), (2, 2)), (2, 2), {1: [2]}, id="one has the leader's records, not its name"),
        pytest.param(((1, 1), (2, 2)), (3, 2), {}, id="one has records of a later leader"),
        pytest.param(((1, 1), (2, 2)), (3, 3), {}, id="the leader has records of a later one"),
        pytest.param(((1, 1), (2, 2)), (None, 2), {1: [2]}, id="one log's end is unknown"),
    ],
)
def test_controller_whose_log_has_a_newer_epoch_starts_in_it_without_a_leader(
    known: tuple[Known, ...], log_epochs: tuple[int | None, ...], expected: dict[int, list[int]]
) -> None:
    """Kafka's QuorumState: an older quorum-state does not count."""
    *both, third = controllers(((True, True, 5, False),) * 3)
    positions = [None if epoch is None else (Epoch(epoch), Offset(5)) for epoch in log_epochs]
    started = [replace(one, log_end=at) for one, at in zip(knowing(both, known), positions, strict=True)]
    assert uncertain([*started, third]) == expected


# From a quorum.


@pytest.mark.parametrize(("commands", "electable"), [((), True), (("removing 2",), False)])
def test_majority_of_the_latest_voters_too_while_a_change_of_them_is_pending(
    commands: Sequence[str], electable: bool
) -> None:
    """Of voters 1 to 5, 4 is down and 3 is lost: 1, 2 and 5 are a majority, 1 and 5 are none of 1, 3, 4 and 5."""
    quorum = situation("voters 5", *commands, "stop-fetching 4 since 60s", "probe 4 refused")
    of, lost = controllers_of_quorum(Facts(quorum)), frozenset({NodeId(3)})
    for restarted in (lost, None):
        answer = what_if(of, Change(lost=lost, restarted=restarted))
        assert answer.electable is electable


def test_voter_that_does_not_fetch_is_down_and_keeps_its_last_log_end() -> None:
    quorum = situation("stop-fetching 1 since 40s", "elected 3 last 30s")
    first = electors(Facts(quorum))[0]
    known = (first.key, first.runs, first.reached, first.log_end)
    assert known == (key(1), Part.LOST, Part.COUNTS, (7, 9_920))


@pytest.mark.parametrize(("lag", "end"), [("500ms", 10_000), ("5s", 10_000), ("5001ms", 9_990)])
def test_follower_that_is_a_fetch_behind_counts_as_level_with_the_leader(lag: str, end: int) -> None:
    """KIP-595: an idle follower of Kafka fetches every half second."""
    quorum = situation(f"behind 1 {lag}")
    voters = electors(Facts(quorum))
    assert [one.log_end for one in voters] == [(7, end), (7, 10_000), (7, 10_000)]


def test_voter_of_which_no_poll_says_whether_it_fetches_counts_as_alive() -> None:
    quorum = situation("unpolled always")
    voters = electors(Facts(quorum))
    assert all(one.runs is Part.COUNTS for one in voters)
    assert forecast_election(voters).electable


@pytest.mark.parametrize("unknown", ["unpolled 11s", "unpolled always", "unanswered 11s"])
def test_no_leader_stays_while_it_is_unknown_which_controllers_run(unknown: str) -> None:
    restarted = Change(restarted=frozenset({NodeId(1)}))
    known = what_if(controllers_of_quorum(Facts(situation())), restarted)
    answer = what_if(controllers_of_quorum(Facts(situation(unknown))), restarted)
    assert (known.electable, known.leader_stays) == (True, 3)
    assert (answer.electable, answer.leader_stays) == (None, None)
    assert "which controllers run is unknown" in (answer.unknown or "")


def test_a_controller_that_would_replay_what_kafka_refuses_does_not_come_back() -> None:
    read = controllers_of_quorum(Facts(situation("append remove-topic orders since 75s")))
    first, leader = (frozenset({NodeId(node)}) for node in (1, 3))

    assert what_if(read, Change(restarted=frozenset(), lost=leader)).electable is True, "those that run go on"
    assert what_if(read, Change(restarted=first)).leader_stays == 3
    assert what_if(read, Change(restarted=first, lost=leader)).electable is False
    assert what_if(read, Change(moved={NodeId(1): ("c1.new", 9093)}, restarted=first, lost=leader)).electable is False
    assert what_if(read, Change()).electable is False

    past = controllers_of_quorum(Facts(situation("append remove-topic orders since 75s", "snapshot 30s end 9990")))
    unknown = what_if(past, Change())

    assert (unknown.electable, unknown.answer.decided_by) == (None, (1, 2)), "of the leader alone it is known"
    assert what_if(past, Change(restarted=first)).leader_stays == 3


def test_faults_found_by_probes_can_be_ignored() -> None:
    quorum = situation("probe 1 name-not-found", "registers 2 at c2:19093")
    assert [one.reached is Part.LOST for one in electors(Facts(quorum))] == [True, True, False]
    assert [one.reached is Part.LOST for one in electors(Facts(quorum), by_probes=False)] == [False, True, False]


def test_voter_on_a_new_disk_cannot_give_the_vote_of_the_old_one() -> None:
    def electable(*commands: str) -> bool:
        quorum = situation(*commands)
        return forecast_election(electors(Facts(quorum))).electable

    assert electable("stop-fetching 1")
    assert not electable("stop-fetching 1,2", "add-observer 2-new"), (
        "controllers 2 and 3 run, and of three voters one is left"
    )


def test_refusing_voter_may_be_moved_or_down() -> None:
    quorum = situation("probe 1,2 refused", "leaderless 3")
    moved = electors(Facts(quorum))
    assert forecast_election(moved).electable
    assert not forecast_election(electors(Facts(quorum), refusing_are_down=True)).electable


def test_keys_are_sorted_and_written_whether_or_not_kafka_names_their_directory_ids() -> None:
    without, other = ReplicaKey(id=NodeId(1)), ReplicaKey(id=NodeId(2))
    assert sorted([other, key(1), without]) == [without, key(1), other]
    assert (str(without), str(key(1))) == ("1", "1-dir1")
