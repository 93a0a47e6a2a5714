"""Answers in worlds: the worst and the best one bound all others, and a lost fact never turns an answer around."""

from collections.abc import Callable, Collection
from dataclasses import replace
from itertools import chain, combinations
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from rules.answers.election import electable, failures_left
from rules.answers.part import Elector, Electorate, Part
from rules.answers.what_if import Change, Controllers, what_if
from rules.answers.worlds import ONE_WAY, World, best, decide, undecided_text, world
from rules.facts.doubts import About, Doubt
from rules.facts.quorum import Facts
from rules.model.identifiers import Endpoint, Epoch, NodeId, Offset
from rules.model.membership import Voter, VoterSet
from tests.situation.commands import situation
from tests.situation.situation import controller_key as key

PARTS = ("runs", "votes", "reached", "leads", "accepts")
part = st.sampled_from(Part)


def voter_set(count: int) -> VoterSet:
    voters = tuple(
        Voter(key=key(node), endpoints=(Endpoint(listener="CONTROLLER", host=f"c{node}", port=9093),))
        for node in range(1, count + 1)
    )
    return VoterSet(voters=voters, offset=Offset(1), leader_epoch=Epoch(1), timestamp_ms=None)


@st.composite
def electorates(draw: st.DrawFn) -> Electorate:
    """Returns up to five voters with any parts, of which any may deny the others, as one that is no voter may."""
    voters = voter_set(draw(st.integers(1, 5)))
    electors = tuple(
        Elector(
            key=one.key,
            voters=voters,
            log_end=(Epoch(1), Offset(draw(st.integers(1, 2)))),
            no_vote="has none",
            announced_in_vain=draw(st.booleans()),
            **{name: draw(part) for name in PARTS},
        )
        for one in voters.voters
    )
    followers = {one.key.id: draw(part) for one in electors}
    doubtful = {one.key.id for one in electors if one.is_doubtful or followers[one.key.id] is Part.DOUBTFUL}
    denying = draw(st.sets(st.sampled_from([*(one.key.id for one in electors), NodeId(9)]), max_size=2))
    return Electorate(
        electors=electors,
        followers=followers,
        doubts={node: doubt(node) for node in sorted(doubtful | denying)},
        denying=frozenset(denying),
    )


def doubt(node: NodeId) -> Doubt:
    return Doubt(node=node, about=About.VIEW, why="reports no leader", find_out="read its log")


def worlds(of: Electorate) -> list[World]:
    """Every world that the doubts allow."""
    nodes = sorted(of.doubts)
    return [world(of, chosen) for chosen in chain.from_iterable(combinations(nodes, n) for n in range(len(nodes) + 1))]


def elects(one: World) -> bool:
    return one.forecast.electable


def survives_a_loss(one: World) -> int:
    return one.losses_survived(NodeId(1), len(one.followers))


QUESTIONS: tuple[Callable[[World], int], ...] = (elects, survives_a_loss)


@settings(max_examples=300, deadline=None)
@given(electorates(), st.sampled_from(QUESTIONS))
def test_the_worst_and_the_best_world_bound_every_other_one(of: Electorate, ask: Callable[[World], int]) -> None:
    answers = {ask(one) for one in worlds(of)}

    assert min(answers) == ask(world(of, ())) <= max(answers) == ask(best(of))
    assert decide(of, ask).value == (answers.pop() if len(answers) == 1 else None)


@settings(max_examples=300, deadline=None)
@given(electorates(), st.integers(1, 5), st.sampled_from(PARTS), st.sampled_from(QUESTIONS))
def test_a_known_part_that_becomes_doubtful_never_turns_an_answer_around(
    of: Electorate, number: int, name: str, ask: Callable[[World], int]
) -> None:
    node = NodeId(min(number, len(of.electors)))
    lost: dict[str, Any] = {name: Part.DOUBTFUL}
    electors = tuple(replace(one, **lost) if one.key.id == node else one for one in of.electors)
    less = replace(of, electors=electors, doubts={**of.doubts, node: doubt(node)})

    before, after = decide(of, ask).value, decide(less, ask).value

    assert after in (None, before)


def controllers(of: Electorate, leader: NodeId | None) -> Controllers:
    return Controllers(cluster="prod", voters=of.electors[0].voters, electorate=of, leader=leader)


@settings(max_examples=300, deadline=None)
@given(electorates(), st.integers(1, 5), st.sets(st.integers(1, 5)), st.sets(st.integers(1, 5)), st.booleans())
def test_what_if_is_known_only_if_every_world_answers_the_same(
    of: Electorate, leads: int, lost: Collection[int], restarted: Collection[int], everyone: bool
) -> None:
    ids = {one.key.id for one in of.electors}
    change = Change(
        lost=frozenset(map(NodeId, lost)) & ids,
        restarted=None if everyone else frozenset(map(NodeId, restarted)) & ids,
    )

    def answer(one: Electorate) -> bool | None:
        return what_if(controllers(one, NodeId(leads)), change).electable

    resolved = [answer(replace(of, electors=one.electors, doubts={}, denying=one.denied_by)) for one in worlds(of)]
    found = answer(of)

    if not of.denying:
        assert found == (resolved[0] if len({*resolved}) == 1 else None)
    elif found is not None:
        assert found in resolved


def test_of_many_voters_the_number_that_may_be_lost_is_proved_and_not_enumerated() -> None:
    voters = voter_set(41)
    electors = tuple(Elector(key=one.key, voters=voters) for one in voters.voters)
    everyone = frozenset(one.key.id for one in electors)
    unreached = replace(electors[0], reached=Part.LOST)

    assert World(electors=electors, followers=everyone).losses_survived(NodeId(1), 20) == 20
    assert World(electors=(unreached, *electors[1:]), followers=everyone).losses_survived(NodeId(1), 20) == 19


def test_an_unknown_answer_names_each_voter_that_decides_it_and_what_to_do() -> None:
    voters = voter_set(3)
    sound, down = Elector(key=key(1), voters=voters), Elector(key=key(3), voters=voters, runs=Part.LOST)
    rejecting = Elector(key=key(2), voters=voters, accepts=Part.DOUBTFUL)
    of = Electorate(
        electors=(sound, rejecting, down), doubts={NodeId(2): doubt(NodeId(2)), NodeId(3): doubt(NodeId(3))}
    )

    answer = decide(of, elects)

    assert (answer.value, answer.worst) == (None, False)
    assert undecided_text(answer.undecided) == (
        "whether controller 2 takes part is unknown (it reports no leader); to find out, read its log"
    )


def test_a_leader_that_only_those_follow_that_did_not_vote_for_it_depends_on_the_order() -> None:
    """Each of three reaches the next one alone: all win with the votes of two, and are followed by another two."""
    circle = [situation(*(f"witness {by} not {of}=connection" for by, of in pairs)) for pairs in (_CIRCLE, _CIRCLE[:2])]
    around, two = (electable(Facts(quorum)) for quorum in circle)

    assert (around.value, around.worst, around.why_unknown) == (None, False, ONE_WAY)
    assert two.value is True, "controller 3 reaches both others, and 1 reaches it"
    assert failures_left(Facts(circle[0])).value == 0


_CIRCLE = ((1, 2), (2, 3), (3, 1))
