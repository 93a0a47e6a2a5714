"""Does a controller lead the quorum now?"""

from dataclasses import dataclass
from typing import TypeAlias

from rules.facts.leadership import Leaderless
from rules.facts.quorum import Facts
from rules.facts.reported_leaders import last_leader_answer_ms, leader_answered_within
from rules.formatting import utc_text
from rules.model.identifiers import NodeId


@dataclass(frozen=True, slots=True, kw_only=True)
class Leads:
    """A leader has answered, or a majority of the voters follow one."""

    id: NodeId | None
    """None: it answered, and it is not known which controller it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderUnknown:
    """Nothing current shows whether there is one."""

    why: str
    """As the beginning of a sentence."""


Leader: TypeAlias = Leads | Leaderless | LeaderUnknown


def leader(facts: Facts) -> Leader:
    """Returns who leads; the evidence that nobody does; or why neither is known."""
    quorum = facts.quorum
    if facts.leaderless is not None:
        return facts.leaderless
    if leader_answered_within(quorum, quorum.ages.answer_ms):
        return Leads(id=quorum.leader_id)
    followed = facts.unreachable_leader
    if followed is not None and followed.followed_by_majority:
        return Leads(id=followed.id)
    last = last_leader_answer_ms(quorum)
    since = "yet" if last is None else f"since {utc_text(last)}"
    reports = f"others follow controller {followed.id}" if followed else "no node reports that there is none"
    return LeaderUnknown(why=f"no leader has answered {since}, and {reports}")
