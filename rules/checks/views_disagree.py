"""The controllers do not agree on who leads.

What it means
    Each controller is asked whom it takes for the leader, and in which epoch:

    - Warning: one of them stays in another epoch than the quorum's, or knows no leader while the others follow one, or
      a node of another cluster answers at its address. It runs and answers, so it looks well from outside; it takes no
      part, and if it is a voter, there is one fewer to lose.
    - Critical: two controllers name different leaders of one epoch, which Raft rules out (KIP-595).

    An election is no disagreement: for seconds not everybody knows its result. And words are not deeds: a controller
    that is cut off goes on naming the leader it knew until it hears of another epoch, because Kafka remembers it and
    asks for votes without a new epoch (KIP-996). Whether it fetches, `voter-lagging` tells.

Evidence
    What each controller said, when it first did, and the leader and epoch that the newest of them names.

What to do
    1. If one epoch has two leaders, copy every controller's metadata directory before anything else.
    2. Find out why that controller does not hear from the leader: its network to the others, the names and endpoints it
       dials, its log.
    3. Restart it when it can reach them.

What not to do
    Do not restart the controllers that agree: they carry the quorum. Do not format the one that does not.

Thresholds
    hold (60 s) and clear (10 s): an election, and a controller's restart, are over by then; etcd waits as long before
    it tells of a member without a leader. view_age (30 s): controllers are asked every 10 s, so two may be missed.
    poll_age (10 s).
"""

from collections.abc import Iterable

from rules.analysis.freshness import POLL_AGE, fresh_poll, polls_alone
from rules.analysis.leader_views import VIEW_AGE, fresh_views
from rules.finding import Finding, Plain, Rule, RuleResult, Severity, Thresholds, UnknownResult, clear, hold
from rules.formatting import listed, spelled
from rules.model.identifiers import Epoch, Millis, NodeId
from rules.model.monitoring import LeaderView
from rules.model.quorum import Quorum
from rules.remedy_commands import against_raft, describe_status

ID = "views-disagree"


def evaluate(quorum: Quorum, thresholds: Thresholds) -> Iterable[RuleResult]:
    """One finding a controller that stands apart, or one about the quorum where an epoch has two leaders."""
    hindrance = polls_alone(ID, quorum)
    if hindrance is not None:
        yield hindrance
        return
    views = fresh_views(quorum, thresholds)
    if not views:
        yield UnknownResult(rule=ID, subject=None, why="no controller has told lately whom it takes for the leader")
        return
    poll = fresh_poll(quorum, thresholds)
    named = {(view.leader_epoch, view.leader_id) for view in views if view.leader_id is not None}
    named |= {(poll.leader_epoch, poll.leader_id)} if poll is not None else set()
    if not named:
        yield UnknownResult(rule=ID, subject=None, why="no controller knows a leader to agree on")
        return
    epoch = max(each for each, _ in named if each is not None)
    leaders = sorted(leader for each, leader in named if each == epoch and leader is not None)
    if len(leaders) > 1:
        yield _two_leaders(quorum, views, epoch, leaders)
        return
    # What was said before anybody could know of this epoch is no disagreement.
    agreeing = [view.since_ms for view in views if _follows(view, epoch)]
    since = min(agreeing, default=quorum.now_ms if poll is None else poll.observed_at_ms)
    for view in views:
        if not _follows(view, epoch) and view.observed_at_ms >= since:
            yield _apart(quorum, views, view, epoch, leaders[0])
    yield from _unseen(quorum, views)


def _follows(view: LeaderView, epoch: Epoch) -> bool:
    return view.this_cluster and view.leader_epoch == epoch and view.leader_id is not None


def _unseen(quorum: Quorum, views: list[LeaderView]) -> Iterable[RuleResult]:
    """Voters of which nothing is known."""
    seen = {view.node for view in views}
    for node in sorted(quorum.committed.ids if quorum.committed else ()):
        if node not in seen:
            why = f"controller {node} has not told lately whom it takes for the leader"
            yield UnknownResult(rule=ID, subject=f"controller {node}", why=why)


def _name(view: LeaderView) -> str:
    return f"endpoint {view.endpoint}" if view.node is None else f"controller {view.node}"


def _said(view: LeaderView) -> str:
    if not view.this_cluster:
        return "belongs to another cluster"
    at = "no epoch" if view.leader_epoch is None else f"epoch {view.leader_epoch}"
    return f"knows no leader in {at}" if view.leader_id is None else f"follows {view.leader_id} in {at}"


def _evidence(quorum: Quorum, views: list[LeaderView]) -> dict[str, Plain]:
    return {
        _name(view): f"{_said(view)}, since at least {spelled(Millis(quorum.now_ms - view.since_ms))}" for view in views
    }


def _two_leaders(quorum: Quorum, views: list[LeaderView], epoch: Epoch, leaders: list[NodeId]) -> Finding:
    return Finding(
        rule=ID,
        subject="quorum",
        severity=Severity.CRITICAL,
        summary=f"epoch {epoch} has the leaders {listed(leaders)}, which Raft rules out: controllers may disagree "
        "about what is committed",
        evidence={
            "epoch": epoch,
            "leaders": [*leaders],
            "views": _evidence(quorum, views),
            "leader_by_the_poll": quorum.poll.leader_id if quorum.poll else None,
            "last_committed_offset": quorum.last_offset,
        },
        remedy=against_raft(quorum),
    )


def _apart(quorum: Quorum, views: list[LeaderView], view: LeaderView, epoch: Epoch, leader: NodeId) -> Finding:
    name = _name(view)
    votes = view.node is not None and quorum.committed is not None and view.node in quorum.committed.ids
    lost = ": it takes no part, and its vote is missing" if votes else ""
    return Finding(
        rule=ID,
        subject=name,
        severity=Severity.WARNING,
        summary=f"{name} answers and {_said(view)}, while {leader} leads epoch {epoch}{lost}",
        evidence={
            "endpoint": view.endpoint,
            "leader_in_its_view": view.leader_id,
            "epoch_in_its_view": view.leader_epoch,
            "this_cluster": view.this_cluster,
            "leader": leader,
            "leader_epoch": epoch,
            "votes": votes,
            "views": _evidence(quorum, views),
        },
        remedy=_remedy(quorum, view, leader),
    )


def _remedy(quorum: Quorum, view: LeaderView, leader: NodeId) -> tuple[str, ...]:
    if not view.this_cluster:
        return (
            f"# Correct the address {view.endpoint}, or what runs there: its node has another cluster id",
            describe_status(quorum, besides=view.node),
        )
    return (
        f"# Read {_name(view)}'s log for why it does not hear from controller {leader}: its network, the names it "
        "cannot resolve, the endpoints it dials",
        "# Restart it once it can reach the others, and leave the others alone",
        "# See who fetches from the leader",
        describe_status(quorum, besides=view.node),
    )


RULE = Rule(
    id=ID,
    title="The controllers do not agree on who leads",
    text=__doc__ or "",
    thresholds=(hold(60.0), clear(), VIEW_AGE, POLL_AGE),
    evaluate=evaluate,
    inhibited_by=("no-leader",),
)
