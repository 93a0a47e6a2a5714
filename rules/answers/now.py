"""What is true of a quorum now, in words: for the sentence with which an alert resolves (`Rule.resolved`)."""

from rules.answers.election import failures_left
from rules.answers.part import electorate
from rules.answers.worlds import best, depends_on
from rules.facts.following import Following
from rules.facts.following_text import further_failures_text
from rules.facts.quorum import Facts
from rules.formatting import and_join, plural
from rules.model.membership import majority
from rules.model.quorum import Quorum
from rules.model.subject import Subject


def over(subject: Subject | str) -> str:
    """Returns the sentence of a subject of which nothing more is known."""
    return f"The condition is over: {subject}."


def leads(quorum: Quorum) -> str:
    """Returns who leads, without a full stop."""
    if quorum.leader_id is None:
        return "Which controller leads now is not known"
    return f"Controller {quorum.leader_id} leads" + (
        "" if quorum.leader_epoch is None else f" in epoch {quorum.leader_epoch}"
    )


def committed_voters(quorum: Quorum) -> str:
    """Returns the ids of the committed voters."""
    return and_join(sorted(quorum.voter_ids)) if quorum.committed else "not known"


def in_sync_text(facts: Facts) -> str:
    """Returns how many voters are in sync, and how many more may fail, as a sentence; empty if it is not known."""
    statuses, left = facts.nodes.polled_voters, failures_left(facts)
    if not statuses or left.unobserved:
        return ""
    voters, verb = plural(len(statuses), "voter"), "is" if len(statuses) == 1 else "are"
    in_sync = {status.id for status in statuses if status.following is Following.IN_SYNC}
    said = f"{len(in_sync)} of {voters} {verb} in sync"
    if left.value is None:
        return f"{said}; how many more may fail is not known: {depends_on(left.undecided)}."
    counted = len(best(electorate(facts)).followers)
    useless, unreached = len(in_sync) - counted, counted - majority(len(statuses)) - left.value
    but = f", but {useless} of them cannot vote or be reached" if useless else ""
    why = ": by their endpoints the others could elect no leader" if unreached else ""
    return f"{said}{but}; the quorum tolerates {further_failures_text(left.value)}{why}."
