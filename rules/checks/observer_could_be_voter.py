"""A controller replicates the metadata log as an observer and could be a voter.

What it means
    A controller is registered, fetches the metadata log, and is not a voter: it was started and never added, or it was
    removed more than five minutes ago and still runs. It costs as much as a voter and adds no failure tolerance.

    - Warning: the quorum would tolerate more failures with it, alone or together with the other observers that could be
      voters.
    - Info: adding it gains nothing. An even number of voters tolerates no more failures than the odd number below it.

    With controller.quorum.auto.join.enable=true (Kafka 4.2 and later) a controller adds itself as soon as it has caught
    up: if this alert fires for it, it failed to. One that is removed while it runs is back within seconds: stop it
    first.

    This rule does not report brokers, which are observers too. `voter-disk-replaced` reports a controller whose disk
    was replaced.

What to do
    - If adding it gains something, add it: the remedy holds the command.
    - If adding it alone gains nothing, keep it as a spare on purpose, or add it together with another one.
    - If it lags, find out why first.

What not to do
    Do not add an observer that lags: it raises the majority at once, but does not help to commit until it has caught
    up.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from rules.answers.now import committed_voters
from rules.claims.claim import NO, Question, claim
from rules.claims.statement import statement
from rules.claims.words import not_a_voter, predicate
from rules.facts.following import Following, following, lag_samples
from rules.facts.freshness import fresh_poll, needed
from rules.facts.needs import Need
from rules.facts.quorum import Facts
from rules.facts.replica_lag import Readiness, readiness
from rules.facts.voter_changes import half_done
from rules.finding import Finding, Plain, RuleResult, Severity, Threshold, Thresholds, UnknownResult, hold
from rules.formatting import and_join, first_values, ms_text, plural
from rules.model.ages import OBSERVER_SESSION_MS
from rules.model.identifiers import Millis, NodeId, ReplicaKey
from rules.model.membership import VoterSet, tolerated_failures
from rules.model.quorum import Quorum
from rules.model.replica import Poll, Replica
from rules.model.subject import Subject
from rules.remedies.remedy_commands import (
    add_controller,
    before_a_change,
    unless_it_joins,
)
from rules.remedies.step import starts
from rules.rule import Rule

_READY_LAG_MS: Final = Millis(2_000)
"""An observer that never lagged more than this is ready: controller.quorum.fetch.timeout.ms, unless it was set."""
_LAG_SENTENCES = {
    Readiness.READY: "It is caught up.",
    Readiness.CATCHING_UP: "It is catching up.",
    Readiness.LAGGING: "It is lagging.",
    Readiness.UNKNOWN: "Its lag is not known yet.",
}
REMOVED_FOR = Threshold(
    name="removed_for",
    default=300.0,
    meaning="a voter removed more recently is not reported: the leader lists it as an observer for 300 s",
)


def evaluate(facts: Facts, thresholds: Thresholds) -> Iterable[RuleResult]:
    """Returns one finding for each observer that could be a voter."""
    quorum = facts.quorum
    poll, committed = needed(quorum.poll), needed(quorum.committed)
    eligible = _eligible(quorum, committed, poll, thresholds)
    fetching = {row.key: row for row in eligible if following(quorum, poll, row.key).fetches}
    silent = (
        voter.key.id
        for voter in (committed.voters if fetching else ())
        if following(quorum, poll, voter.key) is Following.NOT_FETCHING
    )
    shared = _Shared(
        observers=first_values([str(key) for key in fetching]),
        ids=sorted({key.id for key in fetching}),
        not_fetching=[*silent],
    )
    for row in eligible:
        if row.key in fetching:
            yield _finding(facts, committed, poll, row, shared, thresholds)
        else:
            yield UnknownResult(subject=_subject(row.key), why=f"observer {row.key} is not fetching")
    for key in _not_listed_yet(quorum, committed, poll):
        yield UnknownResult(subject=_subject(key), why=f"the leader does not list observer {key} yet")


def _eligible(quorum: Quorum, committed: VoterSet, poll: Poll, thresholds: Thresholds) -> list[Replica]:
    without_vote = quorum.controllers.keys() - committed.ids - poll.voter_ids
    just_removed = {
        removal.key.id
        for removal in quorum.removals
        if quorum.now_ms - removal.removed_at_ms < thresholds.ms(REMOVED_FOR.name)
    }
    return [
        row
        for row in sorted(poll.observers, key=lambda row: row.key)
        if row.key.id in without_vote and row.key.id not in just_removed and half_done(quorum, row.key) is None
    ]


def _not_listed_yet(quorum: Quorum, committed: VoterSet, poll: Poll) -> list[ReplicaKey]:
    """Returns the observers that fetched when last listed, and that the leader does not list now.

    A new leader lists an observer from its first fetch on. The previous leader would have listed it for 300 s after its
    last fetch, so the observer may fetch again within that time.
    """
    listed_now = {row.key for row in (*poll.voters, *poll.observers)}
    voter_ids = committed.ids | poll.voter_ids
    return [
        key
        for key, history in sorted(quorum.histories.items(), key=lambda pair: str(pair[0]))
        if key not in listed_now
        and key.id in quorum.controllers
        and key.id not in voter_ids
        and quorum.now_ms - history.last_seen_at_ms < OBSERVER_SESSION_MS
        and (age_ms := history.samples[-1].fetch_age_ms) is not None
        and age_ms <= quorum.ages.fetch_ms
    ]


def _subject(key: ReplicaKey) -> Subject:
    return Subject("observer", key)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shared:
    observers: list[Plain]
    """The observers that could be voters, for the evidence."""
    ids: list[NodeId]
    """Their node ids, sorted: Kafka allows one directory per id, so of two with the same id only one can be added."""
    not_fetching: list[NodeId]
    """The voters that do not fetch."""


def _finding(
    facts: Facts, committed: VoterSet, poll: Poll, row: Replica, shared: _Shared, thresholds: Thresholds
) -> Finding:
    quorum = facts.quorum
    samples = lag_samples(quorum, row.key)
    state = readiness(samples, limit_ms=_READY_LAG_MS)
    n, with_all = len(committed.voters), len(committed.voters) + len(shared.ids)
    gains = tolerated_failures(with_all) > tolerated_failures(n)
    newest = samples[-1] if samples else None
    return Finding(
        subject=_subject(row.key),
        severity=Severity.WARNING if gains else Severity.INFO,
        summary=f"Controller {row.key.id} is an observer and could be a voter. {_LAG_SENTENCES[state]} Failures "
        f"tolerated: {tolerated_failures(n)} now ({plural(n, 'voter')}), {tolerated_failures(n + 1)} with it ({n + 1})"
        + f", {tolerated_failures(with_all)} with all {with_all - n} such observers ({with_all})" * (with_all - n > 1)
        + ".",
        evidence={
            "observer": str(row.key),
            "readiness": state.value,
            "samples_evaluated": sum(sample.lag is not None or sample.lag_ms is not None for sample in samples),
            "records_behind": newest.lag if newest else None,
            "lag": ms_text(newest.lag_ms) if newest and newest.lag_ms is not None else None,
            "registered_at_offset": quorum.controllers[row.key.id].at.offset,
            "voters": n,
            "majority": committed.majority,
            "voters_not_fetching": [*shared.not_fetching],
            "failures_tolerated": tolerated_failures(n),
            "failures_tolerated_with_this_observer": tolerated_failures(n + 1),
            "observers_that_could_be_voters": shared.observers,
            "failures_tolerated_with_all_observers": tolerated_failures(with_all),
            "leader": poll.leader_id,
            "leader_epoch": poll.leader_epoch,
        },
        remedy=(
            *before_a_change(facts, row.key.id),
            *_before_adding(row, state, len(committed.voters), shared),
            *unless_it_joins(quorum, row.key.id),
            *add_controller(facts, row.key.id),
        ),
    )


def _before_adding(row: Replica, state: Readiness, n: int, shared: _Shared) -> Iterable[str]:
    if state in (Readiness.CATCHING_UP, Readiness.LAGGING):
        yield f"# Wait until controller {row.key.id} has caught up: it is {state.value}"
    if shared.not_fetching:
        silent = and_join(shared.not_fetching)
        yield starts(
            f"# Before you add this observer, start or remove the voters that do not fetch: {silent}",
            *shared.not_fetching,
        )
    elif tolerated_failures(n + 1) <= tolerated_failures(n):
        partner = f"controller {_others(shared.ids, row.key.id)}" if len(shared.ids) > 1 else "another one"
        yield (
            f"# Add controller {row.key.id} together with {partner}, or keep it as a spare: alone it gains nothing "
            f"({n + 1} voters tolerate {plural(tolerated_failures(n + 1), 'failure')})"
        )


def _others(ids: Sequence[NodeId], node: NodeId) -> str:
    """Returns the first other ids as text, without a pass over all of them."""
    most = 8
    shown = [each for each in ids[: most + 1] if each != node][:most]
    more = len(ids) - 1 - len(shown)
    return and_join([*shown, f"{more} more"] if more else shown, most + 1)


def _resolved(facts: Facts, subject: Subject) -> str:
    quorum = facts.quorum
    node = subject.node
    if quorum.voter(node):
        return f"Controller {node} is a voter. The voters are {committed_voters(quorum)}."
    poll = fresh_poll(quorum)
    if poll and any(row.key.id == node for row in poll.voters):
        return f"Controller {node} is being added to the voters."
    if poll and node in poll.observers_by_id:
        return f"Controller {node} does not fetch with this directory any more."
    if poll is None:
        return statement(not_a_voter(node), " Whether it fetches is not known now.")
    no_voter = predicate(claim(Question.VOTER, NO, node=node))
    return statement(f"Controller {node} ", no_voter, " and does not fetch the metadata log.")


RULE = Rule(
    title="An observer could be a voter",
    resolved=_resolved,
    hold=hold(300.0),
    further_thresholds=(REMOVED_FOR,),
    needs=(Need.VOTERS_RECORD, Need.FRESH_POLL),
    grouped_with=("voter-disk-replaced",),
)
