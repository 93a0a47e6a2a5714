"""Elections after a change, against a brute-force oracle in which every controller asks every other for its vote."""

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rules.analysis.electability import VoterStanding, electability
from rules.analysis.restart_election import LastElection, RestartedController, forecast_election
from rules.model.identifiers import DirectoryId, Endpoint, Epoch, NodeId, Offset, ReplicaKey
from rules.model.membership import Voter, VoterSet

pytestmark = pytest.mark.kip(
    "A008",
    "A009",
    "A010",
    "A037",
    "A038",
    "A039",
    "A087",
    "D049",
    "D050",
    "D051",
    "E006",
    "E072",
    "K007",
    "K022",
    "K023",
)

OLD, NEW = "old", "new"


def key(node: int) -> ReplicaKey:
    return ReplicaKey(id=NodeId(node), directory_id=DirectoryId(f"{node:022d}"))


def endpoint(node: int, host: str) -> Endpoint:
    return Endpoint(listener="CONTROLLER", host=f"c{node}.{host}", port=9093)


def voter_set(count: int, hosts: dict[int, str]) -> VoterSet:
    all_ = tuple(Voter(key=key(n), endpoints=(endpoint(n, hosts.get(n, OLD)),)) for n in range(1, count + 1))
    return VoterSet(voters=all_, offset=Offset(1), leader_epoch=Epoch(1), timestamp_ms=None)


Node = tuple[bool, bool, int, bool]
"""Alive, moved, log end, rescued: its own voter set holds the new endpoints."""


def controllers(nodes: tuple[Node, ...]) -> list[RestartedController]:
    moved = {number: NEW for number, node in enumerate(nodes, 1) if node[1]}
    return [
        RestartedController(
            key=key(number),
            alive=alive,
            endpoint=endpoint(number, NEW if has_moved else OLD),
            position=(Epoch(1), Offset(end)),
            voters=voter_set(len(nodes), moved if rescued else {}),
        )
        for number, (alive, has_moved, end, rescued) in enumerate(nodes, 1)
    ]


def some_leader(nodes: tuple[Node, ...]) -> bool:
    """The oracle: each live node asks all nodes; one answers if the address that was dialled is its own."""
    for candidate, (alive, _, end, rescued) in enumerate(nodes):
        granted = 1 if alive else 0
        for other, (up, moved, others_end, _) in enumerate(nodes):
            dialled = "new" if rescued and moved else "old"
            listens = "new" if moved else "old"
            granted += other != candidate and alive and up and dialled == listens and others_end <= end
        if granted > len(nodes) / 2:
            return True
    return False


EACH_NODE = list(product((False, True), (False, True), (1, 2), (False, True)))


@pytest.mark.parametrize("count", [1, 2, 3])
def test_every_small_quorum_agrees_with_the_oracle(count: int) -> None:
    for nodes in product(EACH_NODE, repeat=count):
        assert forecast_election(controllers(nodes)).electable == some_leader(nodes), nodes


@settings(max_examples=500)
@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.integers(1, 5), st.booleans()), min_size=4, max_size=5))
def test_larger_quorums_of_any_log_ends_agree_with_the_oracle(nodes: list[Node]) -> None:
    assert forecast_election(controllers(tuple(nodes))).electable == some_leader(tuple(nodes))


@given(st.lists(st.sampled_from(EACH_NODE), min_size=1, max_size=7))
def test_one_voter_set_for_all_gives_the_same_as_electability(nodes: list[Node]) -> None:
    same = tuple((alive, moved, end, False) for alive, moved, end, _ in nodes)
    standings = [
        VoterStanding(key=key(number), alive=alive, reachable=not moved, position=(Epoch(1), Offset(end)))
        for number, (alive, moved, end, _) in enumerate(same, 1)
    ]
    expected = electability(standings)

    found = forecast_election(controllers(same))

    assert found.electable == expected.electable
    assert {one.key: len(one.reached) for one in found.candidates} == {
        one.key: one.votes for one in expected.candidates
    }


def test_reasons_name_what_costs_a_vote() -> None:
    nodes = controllers(
        ((True, False, 1, False), (False, False, 1, False), (True, True, 1, False), (True, False, 2, False))
    )
    replaced = RestartedController(
        key=ReplicaKey(id=NodeId(5), directory_id=DirectoryId("x" * 22)),
        alive=True,
        endpoint=None,
        position=None,
        voters=voter_set(5, {}),
    )
    first = RestartedController(
        key=key(1), alive=True, endpoint=None, position=(Epoch(1), Offset(1)), voters=voter_set(5, {})
    )

    candidate = forecast_election([first, *nodes[1:], replaced]).candidates[0]

    assert candidate.barred == {
        key(2): "down",
        key(3): "its recorded endpoint c3.old:9093 does not reach it",
        key(4): "its log is ahead",
        key(5): "its disk was replaced",
    }
    assert not candidate.wins


Known = tuple[int, int | None]
"""The last election that a node knows: epoch, leader."""


@pytest.mark.kip("A088", "D095", "K023")
@pytest.mark.parametrize(
    ("known", "ends", "uncertain"),
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
    known: tuple[Known, ...], ends: tuple[int, ...], uncertain: dict[int, list[int]]
) -> None:
    moved = controllers(tuple((True, True, end, False) for end in ends))
    knowing = [
        replace(one, last_election=LastElection(epoch=Epoch(epoch), leader=None if leader is None else NodeId(leader)))
        for one, (epoch, leader) in zip(moved, known, strict=True)
    ]

    found = forecast_election(knowing)

    assert not found.electable
    assert {one.key.id: [key.id for key in one.may_reach] for one in found.uncertain} == uncertain
    some_alive = [replace(one, alive=one.key.id != 2) for one in knowing]
    assert not forecast_election(some_alive).uncertain, "the last leader does not come back"
    cut_off = [replace(one, unreachable=one.key.id == 2) for one in knowing]
    assert not forecast_election(cut_off).uncertain, "no other controller reaches the last leader"


@pytest.mark.kip("D095", "K023")
@pytest.mark.parametrize(
    ("known", "log_epochs", "uncertain"),
    [
        pytest.param(((2, 2), (2, 2)), (2, 2), {}, id="a log of the same epoch does not hide the leader"),
        pytest.param(((1, 1), (2, 2)), (2, 2), {1: [2]}, id="one has the leader's records, not its name"),
        pytest.param(((1, 1), (2, 2)), (3, 2), {}, id="one has records of a later leader"),
        pytest.param(((1, 1), (2, 2)), (3, 3), {}, id="the leader has records of a later one"),
        pytest.param(((1, 1), (2, 2)), (None, 2), {1: [2]}, id="one log's end is unknown"),
        pytest.param(((1, 1), (2, 2)), (None, 3), {}, id="one log's end is unknown, and the leader's is later"),
    ],
)
def test_controller_whose_log_has_a_newer_epoch_starts_in_it_without_a_leader(
    known: tuple[Known, ...], log_epochs: tuple[int | None, ...], uncertain: dict[int, list[int]]
) -> None:
    """Kafka's QuorumState: an older quorum-state does not count."""
    first, second, third = controllers(((True, True, 5, False),) * 3)
    started = [
        replace(
            one,
            position=None if log_epoch is None else (Epoch(log_epoch), Offset(5)),
            last_election=LastElection(epoch=Epoch(epoch), leader=None if leader is None else NodeId(leader)),
        )
        for one, log_epoch, (epoch, leader) in zip((first, second), log_epochs, known, strict=True)
    ]

    found = forecast_election([*started, third])

    assert not found.electable
    assert {one.key.id: [key.id for key in one.may_reach] for one in found.uncertain} == uncertain


def test_certain_winner_is_not_made_uncertain() -> None:
    nodes = controllers(((True, False, 5, False),) * 3)
    known = [LastElection(epoch=Epoch(epoch), leader=NodeId(leader)) for epoch, leader in ((1, 1), (2, 2), (2, 2))]

    found = forecast_election([replace(one, last_election=of) for one, of in zip(nodes, known, strict=True)])

    assert found.electable
    assert found.uncertain == ()


def test_votes_and_reasons_of_one_candidate_name_each_voter() -> None:
    """Controller 2 votes, 3 is down and moved, 4 is not known, 5 cannot be reached and 6 has no recorded endpoint."""
    up = (True, False, 5, False)
    _, two, three, _, five, six = controllers((up, up, (False, True, 5, False), up, up, up))
    listed = voter_set(6, {})
    voters = replace(listed, voters=(*listed.voters[:5], replace(listed.voters[5], endpoints=())))
    one = replace(controllers((up,))[0], voters=voters)

    candidate = forecast_election([one, two, three, replace(five, unreachable=True), six]).candidates[0]

    assert candidate.reached == (key(1), key(2))
    assert candidate.barred == {
        key(3): "down",
        key(4): "down",
        key(5): "its recorded endpoint does not reach it",
        key(6): "its recorded endpoint does not reach it",
    }
