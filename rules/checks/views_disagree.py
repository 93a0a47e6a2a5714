"""The controllers do not agree on who is the leader, or on who votes.

What it means
    kraftwatch asks each controller for the leader and the epoch it knows, and for its controller.quorum.voters:

    - Warning: a controller stays in another epoch than the quorum, or knows no leader while the others follow one, or a
      node of another cluster answers at its address. The controller takes no part in the quorum. If it is a voter, the
      quorum tolerates one failure less.
    - Critical: two controllers name different leaders of one epoch. Raft rules this out (KIP-595).
    - Warning: the controllers of a static quorum (kraft.version 0) have different controller.quorum.voters. Each counts
      votes by its own list. Critical if two majorities without a common voter are possible: then two can lead. This
      needs DESCRIBE_CONFIGS on CLUSTER: without it the lists are not known, and nothing is reported.

    An election is not a disagreement: for some seconds not every controller knows the result. A controller that is cut
    off still reports the leader it knew until it hears of a newer epoch, because Kafka remembers the leader and asks
    for pre-votes without a new epoch (KIP-996). Whether such a controller fetches is evaluated by `voter-lagging`.

What to do
    1. If one epoch has two leaders, copy the metadata directory of every controller before you do anything else.
    2. Find out why the controller does not hear from the leader: its network to the others, the names and endpoints it
       connects to, its log.
    3. Restart it when it can reach the others.

    If the lists of voters differ, give all controllers and brokers the same one, and restart the different ones, one at
    a time.

What not to do
    Do not restart the controllers that agree: they are the working majority. Do not format the one that does not agree.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from rules.answers.now import leads
from rules.claims.claim import NO, Question, claim
from rules.claims.statement import statement
from rules.claims.words import clause, other_cluster_at, sentence, take_no_part
from rules.facts.freshness import fresh_poll, fresh_views
from rules.facts.needs import Need
from rules.facts.node import Process
from rules.facts.quorum import Facts
from rules.facts.reported_leaders import reported_leaders
from rules.facts.static_voters import listed_voters
from rules.finding import Finding, Plain, RuleResult, Severity, Thresholds, UnknownResult, hold
from rules.formatting import and_join, numbered, utc_text
from rules.model.identifiers import Epoch, NodeId
from rules.model.monitoring import LeaderView
from rules.model.quorum import Quorum
from rules.model.subject import Subject
from rules.remedies.remedy_commands import contradiction_steps, describe_status, find_what_is_slow, who_follows
from rules.remedies.step import may_restart
from rules.rule import Rule

_VOTERS_SETTING = "controller.quorum.voters"


def evaluate(facts: Facts, thresholds: Thresholds) -> Iterable[RuleResult]:
    """Returns one finding for each controller that disagrees, or one about the quorum if an epoch has two leaders."""
    quorum = facts.quorum
    yield from _configured_voters(facts)
    views = fresh_views(quorum)
    if not views:
        yield UnknownResult(why="no controller has recently reported its leader")
        return
    newest = reported_leaders(quorum)
    if isinstance(newest, str):
        yield UnknownResult(why=newest)
        return
    epoch, leaders = newest
    if len(leaders) > 1:
        yield _two_leaders(facts, views, epoch, leaders)
        return
    disagreeing = facts.disagreeing_views
    described = _views(views) if disagreeing else {}
    for view in disagreeing:
        yield _disagreement(facts, described, view, epoch, leaders[0])
    yield from _voters_without_view(quorum, views)


def _configured_voters(facts: Facts) -> Iterable[Finding]:
    """Yields a finding if controllers of a static quorum count votes by different lists."""
    lists, poll = facts.voter_lists, fresh_poll(facts.quorum)
    voters = {node: listed_voters(text) for node, text in lists.items()}
    if poll is None or len({*voters.values()}) < 2:
        return
    usual = Counter(voters.values()).most_common(1)[0][0]
    different = sorted(node for node, one in voters.items() if one != usual)
    apart, led = facts.two_majorities, poll.voter_ids
    grouped: dict[str, list[NodeId]] = {}
    for node, text in sorted(lists.items()):
        grouped.setdefault(text, []).append(node)
    sentences = [f"{and_join(nodes)} {'has' if len(nodes) == 1 else 'have'} {text}" for text, nodes in grouped.items()]
    consequence = (" ", sentence(clause(claim(Question.LISTS, NO))), ".") if apart else ()
    yield Finding(
        subject=Subject(_VOTERS_SETTING),
        severity=Severity.CRITICAL if apart else Severity.WARNING,
        summary=statement(
            f"Controllers have different {_VOTERS_SETTING}: {'; '.join(sentences[:4])}. Each counts votes by its own "
            "list.",
            *consequence,
        ),
        evidence={
            _VOTERS_SETTING: {str(node): text for node, text in sorted(lists.items())},
            "leader": poll.leader_id,
            "leader_epoch": poll.leader_epoch,
        },
        remedy=(
            f"# Compare {_VOTERS_SETTING} in the configuration of every controller and broker",
            may_restart(
                f"# Give {numbered('controller', different)} the list of the others, and restart "
                f"{'it' if len(different) == 1 else 'them one at a time, the leader last'}",
                *different,
            ),
            describe_status(facts),
        ),
        keep_running=led if apart else frozenset(),
    )


def _voters_without_view(quorum: Quorum, views: list[LeaderView]) -> Iterable[RuleResult]:
    """Returns an unknown result for each voter without a recent view; a static quorum may name addresses only."""
    reporting = {view.node for view in views}
    for node in sorted(quorum.voter_ids if reporting == {None} else quorum.voting_ids):
        if node not in reporting:
            why = f"controller {node} has not recently reported its leader"
            yield UnknownResult(subject=Subject("controller", node), why=why)


def _subject(view: LeaderView) -> Subject:
    return Subject("endpoint", view.endpoint) if view.node is None else Subject("controller", view.node)


def _described(view: LeaderView) -> str:
    if not view.this_cluster:
        return "is a node of another cluster"
    at = "no epoch" if view.leader_epoch is None else f"epoch {view.leader_epoch}"
    return f"reports no leader in {at}" if view.leader_id is None else f"reports leader {view.leader_id} in {at}"


def _views(views: list[LeaderView]) -> dict[str, Plain]:
    return {str(_subject(view)): f"{_described(view)}, since {utc_text(view.since_ms)} or before" for view in views}


def _two_leaders(facts: Facts, views: list[LeaderView], epoch: Epoch, leaders: Sequence[NodeId]) -> Finding:
    quorum = facts.quorum
    return Finding(
        subject=Subject("quorum"),
        severity=Severity.CRITICAL,
        summary=f"Epoch {epoch} has {len(leaders)} leaders, {and_join(leaders)}, which Raft rules out. Controllers may "
        "disagree about which records are committed.",
        evidence={
            "epoch": epoch,
            "leaders": [*leaders],
            "views": _views(views),
            "leader_reported_by_poll": quorum.poll.leader_id if quorum.poll else None,
            "last_committed_offset": quorum.last_offset,
        },
        remedy=contradiction_steps(facts),
    )


def _disagreement(facts: Facts, views: dict[str, Plain], view: LeaderView, epoch: Epoch, leader: NodeId) -> Finding:
    subject = _subject(view)
    name = str(subject)
    is_voter = view.node in facts.quorum.voting_ids
    controller = None if view.node is None else facts.nodes.get(view.node)
    elsewhere = not view.this_cluster and controller is not None and controller.following.fetches
    missing = is_voter and not elsewhere
    consequence = ""
    if missing and view.node is not None:
        consequence = statement(f" Controller {view.node} ", take_no_part((view.node,)), ".")
    disagrees = sentence(
        f"{name} disagrees on the leader: it {_described(view)}, but ",
        clause(claim(Question.LEADER, leader)),
        f" in epoch {epoch}.",
    )
    if not view.this_cluster:
        place = name if view.node is None else f"{name}'s address {view.endpoint}"
        disagrees = statement(other_cluster_at(place, view.node), ".")
    return Finding(
        subject=subject,
        severity=Severity.WARNING,
        summary=statement(disagrees, consequence),
        evidence={
            "endpoint": view.endpoint,
            "leader_it_reports": view.leader_id,
            "epoch_it_reports": view.leader_epoch,
            "this_cluster": view.this_cluster,
            "leader": leader,
            "leader_epoch": epoch,
            "is_voter": is_voter,
            "views": views,
        },
        remedy=_remedy(facts, view, leader),
        keep_running=frozenset(node for node in facts.quorum.voting_ids if node != view.node)
        if view.this_cluster
        else frozenset(),
        starts=() if view.node is None else (view.node,),
    )


def _remedy(facts: Facts, view: LeaderView, leader: NodeId) -> tuple[str, ...]:
    if not view.this_cluster:
        return (
            f"# Correct the address {view.endpoint}, or the process there: it is a node with another cluster id",
            describe_status(facts, excluding=view.node),
        )
    return (
        f"# Check in the log of {_subject(view)} why it does not hear from controller {leader}: network, name "
        "resolution, endpoints",
        *_restart(facts, view.node),
        *who_follows(facts, excluding=view.node),
    )


def _restart(facts: Facts, node: NodeId | None) -> Iterable[str]:
    if node is not None and facts.nodes.process(node) is Process.SLOW:
        yield from find_what_is_slow([node])
    else:
        yield may_restart(
            "# Restart it when it can reach the other controllers; do not restart another voter",
            *(() if node is None else (node,)),
        )


def _resolved(facts: Facts, subject: Subject) -> str:
    quorum = facts.quorum
    if subject == Subject(_VOTERS_SETTING):
        return f"The controllers that answer have the same {_VOTERS_SETTING}."
    if subject == Subject("quorum"):
        return statement("Every controller agrees on the leader. ", leads(quorum), ".")
    views = [
        view
        for view in quorum.leader_views.values()
        if subject in (Subject("controller", view.node), Subject("endpoint", view.endpoint))
    ]
    newest = max(views, key=lambda one: one.observed_at_ms, default=None)
    if newest is None or newest.leader_id != quorum.leader_id:
        return statement(f"{str(subject).capitalize()} has not reported its leader recently. ", leads(quorum), ".")
    return statement(f"{str(subject).capitalize()} agrees on the leader. ", leads(quorum), ".")


RULE = Rule(
    title="The controllers do not agree on the leader",
    resolved=_resolved,
    hold=hold(60.0, "an election or a restart of a controller takes less"),
    needs=(Need.METADATA_LOG,),
    inhibited_by=("two-quorums",),
    grouped_with=("stale-voter-endpoint", "failure-tolerance", "voter-lagging"),
)
