"""What is known of the quorum and of each voter now, as claims: what the status, the API and the page carry."""

from collections.abc import Iterable

from rules.answers.election import electable_claim, failures_claim
from rules.answers.worlds import Answer
from rules.claims.claim import NO, NOBODY, YES, Claim, Question, claim
from rules.facts.endpoint import EndpointFault, EndpointVerdict
from rules.facts.following import Following
from rules.facts.node import NodeFacts
from rules.facts.node_claims import answers_claim, fault_claims, follows_claim, leader_claim, reached_claim
from rules.facts.quorum import Facts


def quorum_claims(facts: Facts, *, left: Answer[int], could: Answer[bool], active: int | None) -> tuple[Claim, ...]:
    """Returns who leads, how many may fail, whether a leader could be elected, and the state of each voter.

    Args:
        facts: what is known of the quorum.
        left: how many more voters may fail.
        could: whether a leader could be elected if all controllers restarted now.
        active: how many voters fetch; None if it is unknown.
    """
    return (
        _leader(facts),
        *(() if active is None else (claim(Question.ACTIVE, active, of=len(facts.nodes.polled_voters)),)),
        failures_claim(left),
        electable_claim(could),
        *(one for voter in facts.nodes.voters for one in _voter(voter)),
        *_following(facts),
    )


def _leader(facts: Facts) -> Claim:
    if facts.leaderless is not None:
        return claim(Question.LEADER, NOBODY)
    polled, leader = leader_claim(facts.nodes), facts.current_leader
    if leader is None or polled.answer == (leader,):
        return polled
    return claim(Question.LEADER, leader)


def _voter(voter: NodeFacts) -> Iterable[Claim]:
    yield claim(Question.VOTER, YES, node=voter.id)
    yield from dict.fromkeys((*answers_claim(voter), *reached_claim(voter)))
    elsewhere = EndpointFault.OTHER_RESPONDER in voter.faults and voter.followed is Following.NOT_FETCHING
    if elsewhere or voter.endpoint_verdict is EndpointVerdict.DOWN:
        yield claim(Question.VOTES, NO, node=voter.id)
    else:
        yield from (one for one in fault_claims(voter) if one.question is Question.VOTES)


def _following(facts: Facts) -> Iterable[Claim]:
    committed = facts.quorum.committed
    for voter in facts.nodes.polled_voters:
        if committed is None or voter.key in committed.keys:
            yield follows_claim(facts.nodes, voter)
