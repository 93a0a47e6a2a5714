"""Electability: compared with runs on real quorums, and with a brute-force oracle."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.analysis.electability import VoterStanding, electability, voter_standings, without_refusing_voters
from rules.analysis.endpoint_status import endpoint_statuses, last_known_endpoint_statuses
from rules.evaluate import thresholds_for
from rules.model.identifiers import Epoch, Offset, ReplicaKey
from tests.unit.rules import situation
from tests.unit.rules.situation import (
    healthy,
    key,
    name_not_found,
    present,
    refuses,
    registered_elsewhere,
    voter_not_fetching,
)

pytestmark = pytest.mark.kip(
    "D041", "E004", "A008", "A010", "A038", "A039", "A087", "D049", "E013", "E072", "E091", "E092", "K007", "K022"
)

THRESHOLDS = thresholds_for({})["stale-voter-endpoint"]


def voter(
    node: int, *, alive: bool = True, reachable: bool = True, epoch: int = 7, offset: int | None = 100
) -> VoterStanding:
    position = None if offset is None else (Epoch(epoch), Offset(offset))
    return VoterStanding(key=key(node), alive=alive, reachable=reachable, position=position)


@pytest.mark.kip("E013", "E092", "K022")
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
    result = electability(voter(node, reachable=node > changed) for node in range(1, voters + 1))
    unchanged_reaches, changed_reaches = voters - changed, min(voters, voters - changed + 1)
    assert result.electable is electable
    assert len(present(result.best).reached) == max(
        unchanged_reaches if changed < voters else 0, changed_reaches * (changed > 0)
    )


@pytest.mark.kip("A039", "D049", "D050")
@pytest.mark.parametrize(("moved_voters_offset", "electable"), [(90, False), (100, True), (110, True)])
def test_one_voter_down_one_moved_one_unchanged(moved_voters_offset: int, electable: bool) -> None:
    """Kafka 4.3.1: no leader if the moved voter's log was behind, a leader after 7 s if it was ahead."""
    result = electability([voter(1, alive=False), voter(2, reachable=False, offset=moved_voters_offset), voter(3)])
    assert result.electable is electable


@pytest.mark.kip("A039", "D049")
def test_epochs_are_compared_before_offsets() -> None:
    ahead = electability([voter(1, alive=False), voter(2, reachable=False, epoch=8, offset=10), voter(3, epoch=7)])
    assert ahead.electable
    assert present(ahead.best).barred == {key(1): "down"}, "voter 3's log is longer, of an earlier epoch"


def oracle(voters: Sequence[VoterStanding]) -> bool:
    """Brute force: tries every set of votes of the size of a majority, and every member of it as the winner."""
    for votes in combinations(voters, len(voters) // 2 + 1):
        for winner in votes:
            others = [vote for vote in votes if vote is not winner]
            if winner.alive and all(
                vote.alive
                and vote.reachable
                and (not winner.position or not vote.position or vote.position <= winner.position)
                for vote in others
            ):
                return True
    return False


VOTERS = st.lists(
    st.tuples(
        st.booleans(),
        st.booleans(),
        st.none() | st.tuples(st.integers(1, 3).map(Epoch), st.integers(0, 4).map(Offset)),
    ),
    min_size=1,
    max_size=9,
).map(lambda rows: [VoterStanding(key=key(n), alive=a, reachable=e, position=p) for n, (a, e, p) in enumerate(rows)])


@given(VOTERS)
def test_agrees_with_the_oracle(voters: list[VoterStanding]) -> None:
    assert electability(voters).electable == oracle(voters)


@given(VOTERS)
def test_indispensable_are_those_without_which_the_oracle_finds_no_leader(voters: list[VoterStanding]) -> None:
    expected = [
        lost.key
        for lost in sorted(voters, key=lambda one: one.key)
        if oracle(voters) and not oracle([replace(one, alive=one.alive and one is not lost) for one in voters])
    ]
    assert [*electability(voters).indispensable] == expected


@given(VOTERS)
def test_the_order_of_the_voters_does_not_matter(voters: list[VoterStanding]) -> None:
    assert electability(voters) == electability(reversed(voters))


def reference(
    voters: Sequence[VoterStanding],
) -> dict[ReplicaKey, tuple[tuple[ReplicaKey, ...], dict[ReplicaKey, str]]]:
    """Each candidate's votes, and why it does not get the others: compares each candidate with each voter."""
    ordered = sorted(voters, key=lambda each: each.key)
    return {
        candidate.key: (
            tuple(each.key for each in ordered if not lost_vote(candidate, each)),
            {each.key: why for each in ordered if (why := lost_vote(candidate, each))},
        )
        for candidate in ordered
        if candidate.alive
    }


def lost_vote(candidate: VoterStanding, voter: VoterStanding) -> str:
    if voter is candidate:
        return ""
    if not voter.alive:
        return "down"
    if not voter.reachable:
        return "its recorded endpoint does not reach it"
    ahead = voter.position is not None and candidate.position is not None and voter.position > candidate.position
    return "its log is ahead" if ahead else ""


@given(VOTERS)
def test_each_candidates_votes_are_those_of_a_comparison_with_every_voter(voters: list[VoterStanding]) -> None:
    result, expected = electability(voters), reference(voters)

    assert {each.key: (each.reached, each.barred) for each in result.candidates} == expected
    assert [each.votes for each in result.candidates] == [len(reached) for reached, _ in expected.values()]
    most = max((len(reached) for reached, _ in expected.values()), default=0)
    assert result.best is None or result.best.key == min(key for key in expected if len(expected[key][0]) == most)
    assert (result.best is None) == (not expected)


# From a quorum.


def test_voter_that_does_not_fetch_is_down_and_keeps_its_last_log_end() -> None:
    quorum = voter_not_fetching(healthy(), 1, end=9_000, epoch=6)
    first = voter_standings(quorum, endpoint_statuses(quorum, quorum.poll, THRESHOLDS))[0]
    assert first == VoterStanding(key=key(1), alive=False, reachable=True, position=(Epoch(6), Offset(9_000)))


def test_faults_found_by_probes_can_be_ignored() -> None:
    quorum = registered_elsewhere(name_not_found(healthy(), 1), 2)
    with_probes = [
        each.reachable for each in voter_standings(quorum, endpoint_statuses(quorum, quorum.poll, THRESHOLDS))
    ]
    by_log_only = [
        each.reachable
        for each in voter_standings(quorum, endpoint_statuses(quorum, quorum.poll, THRESHOLDS), use_probes=False)
    ]
    assert with_probes == [False, False, True]
    assert by_log_only == [True, False, True]


def test_refusing_voter_may_be_moved_or_down() -> None:
    quorum = situation.leaderless(refuses(healthy(), 1, 2), 3)
    statuses = last_known_endpoint_statuses(quorum, THRESHOLDS)
    moved = voter_standings(quorum, statuses)
    assert electability(moved).electable
    assert not electability(without_refusing_voters(moved, statuses)).electable
