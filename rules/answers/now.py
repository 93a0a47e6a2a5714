"""What is true of a quorum now, in words: for the sentence with which an alert resolves (`Rule.resolved`)."""

from rules.answers.electability import failures_left
from rules.facts.following import Following
from rules.facts.quorum import Facts
from rules.facts.voter_status import further_failures_text, in_sync_count
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
    """Returns how many voters are in sync, as a sentence; empty if it is not known."""
    statuses, left = facts.voter_statuses, failures_left(facts)
    if not statuses or left is None:
        return ""
    in_sync, counted = in_sync_count(statuses), len(facts.voters_that_count or ())
    verb = "is" if len(statuses) == 1 else "are"
    useless, unreached = in_sync - counted, counted - majority(len(statuses)) - left
    doubts = facts.in_doubt.keys() & {status.key.id for status in statuses if status.following is Following.IN_SYNC}
    but = f", but {useless} of them cannot vote or be reached" if useless else ""
    if doubts:
        but = f", but whether the others can use {useless} of them is not known"
    why = ": by their endpoints the others could elect no leader" if unreached else ""
    return (
        f"{in_sync} of {plural(len(statuses), 'voter')} {verb} in sync{but}; the quorum tolerates "
        f"{further_failures_text(left)}{why}."
    )
