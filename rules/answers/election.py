"""Could a leader be elected, and how many more voters may fail?"""

from dataclasses import replace

from rules.answers.part import Electorate, electorate
from rules.answers.worlds import Answer, World, best, decide
from rules.facts.endpoint import EndpointVerdict
from rules.facts.freshness import poll_problem
from rules.facts.quorum import Facts
from rules.model.membership import majority

NO_ELECTION = "no leader is elected now, although enough voters run: find out why first"


def electorate_now(facts: Facts) -> Electorate:
    """Returns the voters; if enough run while there is no leader, something keeps them from electing one."""
    now = electorate(facts)
    stuck = facts.leaderless is not None and now.unobserved is None and best(now).forecast.electable
    return replace(now, unobserved=NO_ELECTION) if stuck else now


def electable(facts: Facts) -> Answer[bool]:
    """Returns whether a leader could be elected if all controllers restarted now."""
    now = electorate_now(facts)
    if now.unobserved is not None:
        return Answer(None, unobserved=now.unobserved)
    return decide(now, lambda world: world.forecast.electable)


def failures_left(facts: Facts) -> Answer[int]:
    """Returns how many more of the voters may fail now, whichever they are; negative without a majority.

    So many are left that acknowledge records, and could elect another leader by the endpoints that they dial.
    """
    poll, committed = facts.nodes.poll, facts.quorum.committed
    if facts.leaderless is not None:
        return Answer(None, unobserved="no controller leads the quorum")
    if poll is None or poll.leader is None:
        return Answer(None, unobserved=poll_problem(facts.quorum))
    now = electorate(facts)
    if now.unobserved is not None:
        return Answer(None, unobserved=now.unobserved)
    # No controller starts: only voters are asked.
    voting = {one.key.id for one in now.electors}
    now = replace(now, denying=now.denying & voting)
    needed, leader = majority(len(poll.voters)), poll.leader_id
    sound = not now.denying and all(voter.endpoint_verdict is EndpointVerdict.OK for voter in facts.nodes.voters)

    def ask(world: World) -> int:
        left = len(world.followers) - needed
        if committed is not None:
            # While a change of the voter set is pending, candidates may still ask for a majority of the committed one.
            left = min(left, len(world.followers & committed.ids) - committed.majority)
        return left if left <= 0 or sound or not world.electors else world.losses_survived(leader, left)

    return decide(now, ask)
