"""A voter is down or lagging; the quorum still tolerates a failure.

What it means
    One voter does not fetch, or it fetches and lags behind the leader.

    The rule does not report a voter that is catching up (its lag decreases over a window of polls) before it has lagged
    for an hour, nor a voter with a new log directory, which `voter-disk-replaced` reports.

    A fetch that takes longer than Kafka's request timeout (2 s) is given up and repeated with a new connection every
    few seconds; such a voter fetches and gets no further.

What to do
    1. If its process is down, start it.
    2. If it runs and does not fetch, check its network path to the leader and the end of its log. If it hangs (it
       accepts connections and does not answer), take a thread dump of it, then restart it. Restart it also if its
       clock was set back: until the clock shows the former time again, it may connect to no other node.
    3. If it fetches and lags, check the path to the leader first, then its disk and its CPU.
    4. If it is lost for good, replace it: add its successor, then remove it.

What not to do
    Do not restart the leader to help it: a new leader does not make a slow disk faster.
"""

from collections.abc import Iterable

from rules.answers.election import failures_tolerated
from rules.answers.now import in_sync_text, over
from rules.claims.statement import statement
from rules.claims.words import not_a_voter, predicate
from rules.facts.endpoint_text import endpoint_sentence, evidence_of
from rules.facts.following import Following, lag_samples
from rules.facts.following_text import follows_sentence, follows_text, path_text, replaced_by, voters_in_sync
from rules.facts.freshness import needed
from rules.facts.needs import Need
from rules.facts.node import NodeFacts
from rules.facts.node_claims import follows_claim, in_sync_count
from rules.facts.quorum import Facts
from rules.facts.replica_lag import CATCHING_UP_MS, Readiness, readiness
from rules.finding import Finding, FindingFacts, RuleResult, Severity, Thresholds, UnknownResult, hold
from rules.formatting import needed_text, utc_text
from rules.model.membership import majority
from rules.model.replica import Poll
from rules.model.subject import Subject
from rules.remedies.remedy_commands import bring_in_sync, compare_log_ends
from rules.rule import Rule


def evaluate(facts: Facts, thresholds: Thresholds) -> Iterable[RuleResult]:
    """Returns one finding for each voter that is not in sync."""
    quorum = facts.quorum
    poll = needed(quorum.poll)
    statuses = facts.nodes.polled_voters
    for status in statuses:
        subject = Subject("voter", status.id)
        if status.following is Following.IN_SYNC:
            continue
        if replaced_by(facts.nodes, status):
            yield UnknownResult(
                subject=subject,
                why=f"its log directory was replaced: {replaced_by(facts.nodes, status)} fetches instead",
            )
            continue
        samples = lag_samples(quorum, status.key)
        state = readiness(samples, limit_ms=quorum.ages.fetch_ms)
        lag = status.lag_ms
        catches_up = state is Readiness.CATCHING_UP and (lag is None or lag < CATCHING_UP_MS)
        if status.following is Following.LAGGING and catches_up:
            yield UnknownResult(subject=subject, why="it is catching up")
        else:
            yield _finding(facts, poll, status, state)


def _finding(facts: Facts, poll: Poll, status: NodeFacts, state: Readiness) -> Finding:
    node, fetched = status.id, status.last_fetch_age_ms
    failed = (node,) if status.following is Following.NOT_FETCHING else ()
    fault = endpoint_sentence(facts.nodes, node) if status.following is Following.NOT_FETCHING else ""
    return Finding(
        subject=Subject("voter", node),
        severity=Severity.WARNING,
        summary=statement(
            follows_sentence(facts.nodes, status),
            fault,
            " ",
            voters_in_sync(facts.nodes),
            f"; {needed_text(majority(len(facts.nodes.polled_voters)))}.",
        ),
        evidence={
            **evidence_of(facts.nodes[node]),
            "state": follows_text(facts.nodes, status),
            "failed_nodes": [*failed],
            "lag_trend": state.value if status.following is Following.LAGGING else "not fetching",
            "path": str(path_text(facts.nodes, status)),
            "log_end_offset": status.log_end_offset,
            "records_behind": status.lag,
            "last_fetch": None if fetched is None else utc_text(poll.observed_at_ms - fetched),
            "leader_log_end_offset": poll.leader.log_end_offset if poll.leader else None,
            "voters_in_sync": in_sync_count(facts.nodes.polled_voters),
            "majority": majority(len(facts.nodes.polled_voters)),
            "further_failures_tolerated": failures_tolerated(facts),
            "leader": poll.leader_id,
            "leader_epoch": poll.leader_epoch,
        },
        facts=FindingFacts(failed_nodes=failed),
        starts=failed,
        remedy=(*bring_in_sync(facts, status), *compare_log_ends(facts)),
    )


def _resolved(facts: Facts, subject: Subject) -> str:
    statuses = {each.key.id: each for each in facts.nodes.polled_voters}
    if not statuses:
        return over(subject)
    status = statuses.get(subject.node)
    if status is None and any(voter.id == subject.node for voter in facts.nodes.voters):
        return f"The leader no longer lists voter {subject.node}. That it is removed is not known to be committed."
    if status is None:
        return not_a_voter(subject.node)
    return statement(f"Voter {status.id} ", predicate(follows_claim(facts.nodes, status)), ". ", in_sync_text(facts))


RULE = Rule(
    title="A voter lags or is down",
    resolved=_resolved,
    hold=hold(300.0, "long enough for a reboot, because nothing is at stake yet"),
    needs=(Need.FRESH_POLL,),
    inhibited_by=("failure-tolerance",),
    outlives_cause=True,
    grouped_with=("stale-voter-endpoint",),
)
