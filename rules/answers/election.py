"""Could a leader be elected, and how many more voters may fail?"""

from dataclasses import replace

from rules.answers.part import Electorate, after_starts, electorate
from rules.answers.worlds import Answer, World, best, decide
from rules.claims.claim import NOBODY, Claim, Question, claim, yes_or_no
from rules.claims.words import clause
from rules.facts.asked_once import asked_once
from rules.facts.endpoint import EndpointVerdict
from rules.facts.freshness import poll_problem
from rules.facts.node_claims import in_sync_count
from rules.facts.quorum import Facts
from rules.model.membership import majority

NO_ENDPOINTS = (
    "where the voters dial each other is not known: no VotersRecord was read, and DescribeQuorum has their endpoints "
    "only from Kafka 3.9 on"
)
"""Why nothing is known of an election in which nobody is known to reach anybody."""
NO_ELECTION = "no leader is elected now, although enough voters run: find out why first"


@asked_once
def electorate_now(facts: Facts) -> Electorate:
    """Returns the voters; if enough run while there is no leader, something keeps them from electing one."""
    now = electorate(facts)
    stuck = facts.leaderless is not None and now.unobserved is None and best(now).forecast.electable
    return replace(now, unobserved=NO_ELECTION) if stuck else now


@asked_once
def electable(facts: Facts) -> Answer[bool]:
    """Returns whether a leader could be elected if all controllers restarted now."""
    now = electorate_now(facts)
    if now.unobserved is not None or not now.electors:
        return Answer(None, unobserved=now.unobserved or NO_ENDPOINTS)
    after = after_starts(now, (one.restarted for one in now.electors))
    return decide(after, lambda world: world.forecast.electable)


def failures_claim(left: Answer[int]) -> Claim:
    """Returns the claim how many more of the voters may fail now: 0 if none may."""
    answer = () if left.value is None else (max(0, left.value),)
    return Claim(question=Question.FAILURES, answer=answer, undecided=left.decided_by)


def failures_tolerated(facts: Facts) -> int | None:
    """Returns how many more voters may fail: 0 also without a majority, None if it is unknown."""
    left, voters = failures_left(facts).value, facts.nodes.polled_voters
    if left is not None:
        return max(0, left)
    # Whatever is unknown of voters that are in sync: there are too few of them.
    return 0 if voters and in_sync_count(voters) <= majority(len(voters)) else None


def electable_claim(answer: Answer[bool]) -> Claim:
    """Returns the claim whether a leader could be elected if all controllers restarted now."""
    return Claim(question=Question.ELECTABLE, answer=yes_or_no(answer.value), undecided=answer.decided_by)


@asked_once
def failures_left(facts: Facts) -> Answer[int]:
    """Returns how many more of the voters may fail now, whichever they are; negative without a majority.

    So many are left that acknowledge records, and could elect another leader by the endpoints that they dial.
    """
    poll, committed = facts.nodes.poll, facts.quorum.committed
    if facts.leaderless is not None:
        return Answer(None, unobserved=clause(claim(Question.LEADER, NOBODY)))
    if poll is None or poll.leader is None:
        return Answer(None, unobserved=poll_problem(facts.quorum))
    now = electorate(facts)
    if now.unobserved is not None:
        return Answer(None, unobserved=now.unobserved)
    # No controller starts: only voters are asked.
    voting = {one.key.id for one in now.electors}
    now = replace(now, denying=now.denying & voting)
    needed, leader = majority(len(poll.voters)), poll.leader_id
    sound = not now.denying and not facts.witnesses.unreached
    sound = sound and all(voter.endpoint_verdict is EndpointVerdict.OK for voter in facts.nodes.voters)

    def ask(world: World) -> int:
        left = len(world.followers) - needed
        if committed is not None:
            # While a change of the voter set is pending, candidates may still ask for a majority of the committed one.
            left = min(left, len(world.followers & committed.ids) - committed.majority)
        return left if left <= 0 or sound or not world.electors else world.losses_survived(leader, left)

    return decide(now, ask)
