"""What is true of a quorum now, in words: for the sentence with which an alert resolves (`Rule.resolved`)."""

from rules.answers.election import failures_claim, failures_left
from rules.answers.part import electorate
from rules.answers.worlds import best, depends_on
from rules.claims.claim import Question, claim
from rules.claims.statement import Statement, statement
from rules.claims.words import clause, sentence
from rules.facts.following_text import voters_in_sync
from rules.facts.node_claims import in_sync_count
from rules.facts.quorum import Facts
from rules.formatting import and_join
from rules.model.membership import majority
from rules.model.quorum import Quorum
from rules.model.subject import Subject


def over(subject: Subject | str) -> str:
    """Returns the sentence of a subject of which nothing more is known."""
    return f"The condition is over: {subject}."


def leads(quorum: Quorum) -> Statement:
    """Returns who leads, without a full stop."""
    if quorum.leader_id is None:
        return sentence(clause(claim(Question.LEADER)))
    epoch = "" if quorum.leader_epoch is None else f" in epoch {quorum.leader_epoch}"
    return sentence(clause(claim(Question.LEADER, quorum.leader_id)), epoch)


def committed_voters(quorum: Quorum) -> str:
    """Returns the ids of the committed voters."""
    return and_join(sorted(quorum.voter_ids)) if quorum.committed else "not known"


def in_sync_text(facts: Facts) -> Statement:
    """Returns how many voters are in sync, and how many more may fail, as a sentence; empty if it is not known."""
    voters, left = facts.nodes.polled_voters, failures_left(facts)
    if not voters or left.unobserved:
        return Statement("")
    in_sync = voters_in_sync(facts.nodes)
    if left.value is None:
        return statement(in_sync, "; ", clause(failures_claim(left)), f": {depends_on(left.undecided)}.")
    counted = len(best(electorate(facts)).followers)
    useless, unreached = in_sync_count(voters) - counted, counted - majority(len(voters)) - left.value
    but = f", but {useless} of them cannot vote or be reached" if useless else ""
    why = ": by their endpoints the others could elect no leader" if unreached else ""
    return statement(in_sync, but, "; ", clause(failures_claim(left)), f"{why}.")
