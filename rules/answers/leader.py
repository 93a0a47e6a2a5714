"""Does a controller lead the quorum now, and is anything committed?

An outage is one until it ends: until a leader is followed by a majority, which shows in that it commits. A new leader
knows no high watermark until a record of its own epoch is committed (LeaderState.maybeUpdateHighWatermark), so one that
is elected again and again, and that nobody follows, does not end it.
"""

from dataclasses import dataclass
from typing import TypeAlias

from rules.facts.following import Following
from rules.facts.freshness import poll_problem
from rules.facts.leadership import Leaderless
from rules.facts.node import NodeFacts
from rules.facts.quorum import Facts
from rules.facts.reported_leaders import last_leader_answer_ms, leader_answered_within
from rules.formatting import utc_text
from rules.model.identifiers import Millis, NodeId
from rules.model.replica import Poll


@dataclass(frozen=True, slots=True, kw_only=True)
class Leads:
    """A leader has answered, or a majority of the voters follow one."""

    id: NodeId | None
    """None: it answered, and it is not known which controller it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitsNothing:
    """A leader answers and has records that are not committed."""

    poll: Poll
    """Its answer."""
    since_ms: Millis
    """When something was last committed, as far as it was observed."""

    @property
    def elected_since(self) -> bool:
        """Whether it has committed nothing since its election."""
        return self.poll.high_watermark is None

    def follows(self, voter: NodeFacts) -> bool:
        """Returns whether a voter follows this leader, and not one before it."""
        if voter.id == self.poll.leader_id:
            return True
        new = self.elected_since and (voter.row is None or voter.row.last_fetch_ms is None)
        return voter.following is Following.IN_SYNC and not new


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderUnknown:
    """Nothing current shows whether there is one, or whether it commits."""

    why: str
    """As the beginning of a sentence."""


Leader: TypeAlias = Leads | CommitsNothing | Leaderless | LeaderUnknown


def leader(facts: Facts, *, still_ms: Millis) -> Leader:
    """Returns who leads; the evidence that nobody does, or that nothing is committed; or why neither is known.

    `still_ms`: for how long the high watermark may stand still, as it does between two NoOps.
    """
    quorum = facts.quorum
    if facts.leaderless is not None:
        return facts.leaderless
    if leader_answered_within(quorum, quorum.ages.answer_ms):
        return _commits(facts, still_ms)
    followed = facts.unreachable_leader
    if followed is not None and followed.followed_by_majority:
        return Leads(id=followed.id)
    last = last_leader_answer_ms(quorum)
    since = "yet" if last is None else f"since {utc_text(last)}"
    reports = f"others follow controller {followed.id}" if followed else "no node reports that there is none"
    return LeaderUnknown(why=f"no leader has answered {since}, and {reports}")


def _commits(facts: Facts, still_ms: Millis) -> Leader:
    """Returns the same where a leader has answered."""
    quorum, poll = facts.quorum, facts.nodes.poll
    since_ms, known = quorum.high_watermark_since_ms, quorum.high_watermark
    if since_ms is None:
        return Leads(id=quorum.leader_id)
    if known is not None and quorum.now_ms - since_ms <= still_ms:
        return Leads(id=quorum.leader_id)
    if poll is None or poll.leader is None or poll.leader.log_end_offset is None:
        return LeaderUnknown(why=poll_problem(quorum))
    if poll.leader.log_end_offset > (known or 0):
        return CommitsNothing(poll=poll, since_ms=since_ms)
    return Leads(id=quorum.leader_id)
