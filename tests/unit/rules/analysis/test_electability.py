"""Who could win an election: the table of real runs, and a dumb oracle."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.analysis.electability import Stand, electability, stands, without_the_refusing
from rules.analysis.endpoint_status import looks, remembered
from rules.evaluate import thresholds_for
from rules.model.identifiers import Epoch, Offset
from tests.unit.rules import situation
from tests.unit.rules.situation import healthy, key, name_gone, refuses, registered_elsewhere, silent

THRESHOLDS = thresholds_for({})["stale-voter-endpoint"]


def stand(node: int, *, alive: bool = True, leads: bool = True, epoch: int = 7, offset: int | None = 100) -> Stand:
    position = None if offset is None else (Epoch(epoch), Offset(offset))
    return Stand(key=key(node), alive=alive, leads=leads, position=position)


@pytest.mark.kip("E013", "E092", "K022")
@pytest.mark.parametrize(
    ("voters", "changed", "electable"),
    [
        # Kafka 4.3.1: n voters, the endpoints of c changed at once, all of them alive.
        (3, 0, True),
        (3, 1, True),
        (3, 2, True),  # healed by itself in under 25 s, although a majority had changed
        (3, 3, False),  # dead for good
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
def test_changed_endpoints_as_real_quorums_did(voters: int, changed: int, electable: bool) -> None:
    verdict = electability(stand(node, leads=node > changed) for node in range(1, voters + 1))
    unchanged_reaches, changed_reaches = voters - changed, min(voters, voters - changed + 1)
    assert verdict.electable is electable
    assert verdict.best is not None
    assert len(verdict.best.reached) == max(
        unchanged_reaches if changed < voters else 0, changed_reaches * (changed > 0)
    )


@pytest.mark.kip("A039", "D049")
@pytest.mark.parametrize(("moved_ones_offset", "electable"), [(90, False), (100, True), (110, True)])
def test_one_dead_one_moved_one_in_place(moved_ones_offset: int, electable: bool) -> None:
    """Kafka 4.3.1: dead when the moved one's log was behind, a leader in 7 s when it was ahead."""
    verdict = electability([stand(1, alive=False), stand(2, leads=False, offset=moved_ones_offset), stand(3)])
    assert verdict.electable is electable


@pytest.mark.kip("D049")
def test_an_epoch_counts_before_an_offset() -> None:
    ahead = electability([stand(1, alive=False), stand(2, leads=False, epoch=8, offset=10), stand(3, epoch=7)])
    assert ahead.electable


def test_it_says_why_a_vote_is_missing() -> None:
    verdict = electability([stand(1, alive=False), stand(2, leads=False), stand(3, offset=50), stand(4, offset=200)])
    third = next(candidate for candidate in verdict.candidates if candidate.key == key(3))
    assert third.reached == (key(3),)
    assert third.barred == {
        key(1): "gone",
        key(2): "its recorded endpoint does not lead to it",
        key(4): "its log is ahead",
    }
    assert verdict.best is not None
    assert verdict.best.key == key(2)


def test_a_log_of_unknown_length_bars_nobody() -> None:
    assert electability([stand(1, offset=None), stand(2, offset=500)]).electable


def test_nobody_alive() -> None:
    verdict = electability([stand(1, alive=False)])
    assert verdict.best is None
    assert not verdict.electable


def oracle(voters: Sequence[Stand]) -> bool:
    """Dumb on purpose: try every set of votes of the size of a majority, and every member of it as the winner."""
    for votes in combinations(voters, len(voters) // 2 + 1):
        for winner in votes:
            others = [vote for vote in votes if vote is not winner]
            if winner.alive and all(
                vote.alive
                and vote.leads
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
    max_size=7,
).map(lambda rows: [Stand(key=key(n), alive=a, leads=e, position=p) for n, (a, e, p) in enumerate(rows)])


@given(VOTERS)
def test_agrees_with_the_oracle(voters: list[Stand]) -> None:
    assert electability(voters).electable == oracle(voters)


@given(VOTERS)
def test_the_order_of_the_voters_does_not_matter(voters: list[Stand]) -> None:
    assert electability(voters) == electability(reversed(voters))


# From a quorum.


def test_small_differences_between_live_logs_decide_nothing() -> None:
    """Between two polls the leader appends a NoOp that the others have not fetched yet."""
    behind = {key(node): situation.history(key(node), end=situation.LOG_END - 2) for node in (1, 2)}
    quorum = replace(healthy(), histories={**healthy().histories, **behind})
    found = {each.key: each.position for each in stands(quorum, looks(quorum, quorum.poll, THRESHOLDS))}
    assert set(found.values()) == {(situation.EPOCH, situation.LOG_END)}


def test_a_silent_voter_is_gone_and_its_log_ends_where_it_was_last_seen() -> None:
    quorum = silent(healthy(), 1, end=9_000, epoch=6)
    first = stands(quorum, looks(quorum, quorum.poll, THRESHOLDS))[0]
    assert first == Stand(key=key(1), alive=False, leads=True, position=(Epoch(6), Offset(9_000)))


def test_probing_can_be_left_out_of_account() -> None:
    quorum = registered_elsewhere(name_gone(healthy(), 1), 2)
    by_all = [each.leads for each in stands(quorum, looks(quorum, quorum.poll, THRESHOLDS))]
    by_the_log = [each.leads for each in stands(quorum, looks(quorum, quorum.poll, THRESHOLDS), by_probes=False)]
    assert by_all == [False, False, True]
    assert by_the_log == [True, False, True]


def test_a_refusal_has_two_readings() -> None:
    quorum = situation.leaderless(refuses(healthy(), 1, 2), 3)
    seen = remembered(quorum, THRESHOLDS)
    moved = stands(quorum, seen)
    assert electability(moved).electable
    assert not electability(without_the_refusing(moved, seen)).electable
