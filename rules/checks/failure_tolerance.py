"""The quorum tolerates no further failure: too many voters are down or lagging.

What it means
    Everything still works, but the quorum has no reserve:

    - Warning: exactly a majority of the voters is in sync with the leader. If one more controller fails, restarts or is
      cut off, the quorum stops: no metadata change is possible then.
    - Critical: fewer than a majority are in sync. The leader is about to resign.
    - Warning, also while all voters are in sync: the reserve was missing for 40 % of the last 15 minutes, and a voter
      failed three times or more.

    The result is unknown while it is not known of a voter in sync whether the other controllers can use it.

    A quorum of one or two voters never tolerates a failure: see `quorum-shape`. If only voters whose disk was replaced
    are missing, `voter-disk-replaced` fires instead.

What to do
    1. Postpone every rolling restart, upgrade and drain of a host until this alert resolves.
       `kraftwatch what-if --lose N` shows what one more missing controller would do.
    2. Bring back the controllers that the alert names: start those that are down, take a thread dump of those that hang
       before you restart them, and read in the logs of the others why they do not fetch.
    3. If a controller will not come back, replace it: add its successor while a majority is in sync, then remove it.

What not to do
    Do not restart a controller that is in sync. Do not remove a voter only to make this alert resolve: two voters never
    tolerate a failure.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from rules.answers.election import failures_left, failures_tolerated
from rules.answers.now import in_sync_text, over
from rules.claims.claim import NONE_MAY_FAIL
from rules.claims.statement import Statement, joined, statement
from rules.claims.words import clause, do_not_restart, no_majority_in_sync, sentence
from rules.facts.doubts import IN_DOUBT
from rules.facts.endpoint_text import endpoint_sentence
from rules.facts.following import Following
from rules.facts.following_text import follows_sentence, follows_text, replaced_by, voters_in_sync
from rules.facts.freshness import needed
from rules.facts.needs import Need
from rules.facts.node import NodeFacts
from rules.facts.node_claims import in_sync_count
from rules.facts.quorum import Facts
from rules.finding import (
    Finding,
    FindingFacts,
    PastFailures,
    Plain,
    RuleResult,
    Severity,
    Threshold,
    Thresholds,
    UnknownResult,
    hold,
)
from rules.formatting import and_join, ms_text, needed_text, numbered, plural
from rules.model.identifiers import Millis, NodeId
from rules.model.membership import majority
from rules.model.quorum import Quorum
from rules.model.replica import Outage, Poll
from rules.model.subject import Subject
from rules.remedies.remedy_commands import bring_in_sync, compare_log_ends
from rules.remedies.step import Act, keeps_running
from rules.rule import Rule

_WINDOW_MS: Final = Millis(900_000)
"""The time over which the outages of voters are added, by the polls."""
SHARE = Threshold(
    name="share",
    default=40.0,
    unit="%",
    meaning="the quorum has no reserve if it had none for this much of the window: the alert fires without the hold. "
    "Six minutes of fifteen are three times the hold",
)

_SEVERAL = 3
"""A voter that had so many outages within the window fails again and again; an upgrade may restart it twice."""


def evaluate(facts: Facts, thresholds: Thresholds) -> Iterable[RuleResult]:
    """Returns one finding about the quorum if it tolerates no further failure, or tolerated none for too long."""
    poll = needed(facts.quorum.poll)
    statuses = facts.nodes.polled_voters
    missing = [status for status in statuses if status.following is not Following.IN_SYNC]
    spare = in_sync_count(statuses) - majority(len(statuses))
    if missing and spare <= 0 and all(replaced_by(facts.nodes, status) for status in missing):
        why = f"only voters whose directory id changed are missing: {and_join(status.key for status in missing)}"
        yield UnknownResult(subject=Subject("quorum"), why=why)
        return
    recent = _recent_outages(facts.quorum, poll)
    too_long = bool(recent.failing) and recent.without_reserve_ms >= round(_WINDOW_MS * thresholds[SHARE.name] / 100)
    if too_long or (missing and spare <= 0):
        yield _finding(facts, poll, statuses, recent, too_long=too_long)
    elif spare > 0 and (doubts := facts.doubts_about(IN_DOUBT)) and (failures_left(facts).worst or 0) <= 0:
        named = (status.id for status in statuses if status.id in doubts)
        why = and_join((f"controller {node} {doubts[node].why}" for node in named), 3)
        yield UnknownResult(subject=Subject("quorum"), why=f"whether it tolerates a failure: {why}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _RecentOutages:
    without_reserve_ms: Millis
    """How long so many voters were not in sync that no further one could fail; 0 if no voter fails again and again."""
    outages: Mapping[NodeId, Sequence[Outage]]
    """Those of each voter that was not in sync, oldest first."""

    @property
    def counts(self) -> Mapping[NodeId, int]:
        """How often each voter was not in sync."""
        return {node: len(of_node) for node, of_node in self.outages.items()}

    def past_failures(self) -> PastFailures:
        """Returns the outages of those that fail again and again. They count until they are older than the window."""
        deciding = [self.outages[node][-_SEVERAL].until_ms for node in self.failing]
        return PastFailures(
            times=tuple((node, outage.since_ms) for node in self.failing for outage in self.outages[node]),
            enough=_SEVERAL,
            until=f"no voter was out of sync {_SEVERAL} times in the last {ms_text(_WINDOW_MS)}",
            ends_at_ms=None if None in deciding else Millis(max(at for at in deciding if at is not None) + _WINDOW_MS),
        )

    @property
    def failing(self) -> list[NodeId]:
        """The voters that fail again and again."""
        return [node for node, count in self.counts.items() if count >= _SEVERAL]

    def sentence(self) -> str:
        """Returns for how long the quorum had no reserve, and which voters fail again and again."""
        often = and_join(f"voter {node} was not in sync {self.counts[node]} times" for node in self.failing)
        return f"It tolerated none for {ms_text(self.without_reserve_ms)} of the last {ms_text(_WINDOW_MS)}: {often}."


def _recent_outages(quorum: Quorum, poll: Poll) -> _RecentOutages:
    end, begin = poll.observed_at_ms, poll.observed_at_ms - _WINDOW_MS
    outages: dict[NodeId, list[Outage]] = {}
    for row in sorted(poll.voters, key=lambda row: row.key):
        history = quorum.histories.get(row.key)
        recent = (
            [outage for outage in history.outages if outage.until_ms is None or outage.until_ms > begin]
            if history
            else []
        )
        if recent:
            outages[row.key.id] = recent
    if all(len(of_voter) < _SEVERAL for of_voter in outages.values()):
        return _RecentOutages(without_reserve_ms=Millis(0), outages=outages)
    changes = [
        change
        for recent in outages.values()
        for one in recent
        for change in ((max(one.since_ms, begin), 1), (end if one.until_ms is None else one.until_ms, -1))
    ]
    spare = len(poll.voters) - majority(len(poll.voters))
    without, missing, before = 0, 0, begin
    for at_ms, change in sorted(changes, key=lambda change: change[0]):
        if missing and missing >= spare:
            without = without + (at_ms - before)
        missing, before = missing + change, at_ms
    return _RecentOutages(without_reserve_ms=Millis(without), outages=outages)


def _finding(
    facts: Facts, poll: Poll, statuses: tuple[NodeFacts, ...], recent: _RecentOutages, *, too_long: bool
) -> Finding:
    """`too_long`: the recent outages make the alert fire without the hold."""
    missing = [status for status in statuses if status.following is not Following.IN_SYNC]
    in_sync, required = in_sync_count(statuses), majority(len(statuses))
    down = [status.id for status in missing if status.following is Following.NOT_FETCHING]
    failing = recent.failing if too_long else []
    failed = (*failing, *(node for node in down if node not in failing))
    outages: dict[str, Plain] = {
        "without_reserve": ms_text(recent.without_reserve_ms),
        "outages_within_the_window": {str(node): count for node, count in recent.counts.items()},
    }
    return Finding(
        subject=Subject("quorum"),
        severity=Severity.CRITICAL if in_sync < required else Severity.WARNING,
        summary=statement(_summary(facts, statuses, missing), f" {recent.sentence()}" if too_long else ""),
        evidence={
            "voters": {str(status.key): follows_text(facts.nodes, status) for status in statuses},
            "voters_in_sync": in_sync,
            "majority": required,
            "further_failures_tolerated": failures_tolerated(facts),
            "failed_nodes": [*failed],
            **(outages if too_long else {}),
            "leader": poll.leader_id,
            "leader_epoch": poll.leader_epoch,
            "high_watermark": facts.quorum.high_watermark,
        },
        remedy=tuple(_remedy(facts, statuses, missing, failing)),
        facts=FindingFacts(failed_nodes=failed),
        starts=tuple(down),
        keep_running=frozenset(_stable(statuses, failing)),
        past_failures=recent.past_failures() if too_long and not missing else None,
        hold_ms=Millis(0) if too_long else None,
    )


def _summary(facts: Facts, statuses: tuple[NodeFacts, ...], missing: list[NodeFacts]) -> Statement:
    required = majority(len(statuses))
    spare, sentences = in_sync_count(statuses) - required, _voter_sentences(facts, missing)
    counted = voters_in_sync(facts.nodes)
    if spare > 0 or not missing:
        # voter-lagging, which would report those that are missing, is inhibited.
        after = (" ", sentences) if sentences else ()
        return statement(f"{sentence(clause(NONE_MAY_FAIL))!s} reliably: ", counted, " now.", *after)
    if spare < 0:
        late = f"; {needed_text(required)}. The leader resigns or commits late. "
        return statement(no_majority_in_sync(), ": ", counted, late, sentences)
    problem = sentence(clause(NONE_MAY_FAIL), ": ", counted, f"; {needed_text(required)}.")
    # A phone shows the first words: which voter fails, if it is one.
    return statement(sentences, " ", problem) if len(missing) == 1 else statement(problem, " ", sentences)


def _voter_sentences(facts: Facts, missing: list[NodeFacts], most: int = 3) -> Statement:
    sentences = list[str]()
    for status in missing[:most]:
        silent = status.following is Following.NOT_FETCHING
        endpoint = endpoint_sentence(facts.nodes, status.id) if silent else ""
        sentences.append(statement(follows_sentence(facts.nodes, status), endpoint))
    if len(missing) > most:
        more = len(missing) - most
        sentences.append(f"{plural(more, 'more voter')} {'is' if more == 1 else 'are'} not in sync.")
    return joined(sentences)


def _remedy(
    facts: Facts, statuses: tuple[NodeFacts, ...], missing: list[NodeFacts], failing: list[NodeId]
) -> Iterable[str]:
    for status in missing:
        if replaced_by(facts.nodes, status):
            new, old = replaced_by(facts.nodes, status), status.key
            yield f"# Make {new} the voter instead of {old}: the controller has a new log directory"
        else:
            yield from bring_in_sync(facts, status)
    if failing:
        logs, stops = ("log", "it stops") if len(failing) == 1 else ("logs", "they stop")
        yield f"# Read in the {logs} of {numbered('controller', failing)} why {stops} fetching"
    stable = _stable(statuses, failing)
    if stable:
        down = [status.id for status in missing if status.following is Following.NOT_FETCHING]
        yield keeps_running(
            statement("# ", do_not_restart(stable), " until more voters are in sync"), (Act.FETCH, down)
        )
    if facts.quorum.committed is not None and any(status.following is Following.NOT_FETCHING for status in missing):
        when = "while" if in_sync_count(statuses) >= majority(len(statuses)) else "once"
        replace_it = f"replace it {when} a majority is in sync: add its successor first, then remove it"
        yield f"# If a controller will not come back, {replace_it}"
    yield from compare_log_ends(facts)


def _stable(statuses: tuple[NodeFacts, ...], failing: list[NodeId]) -> list[NodeId]:
    in_sync = (status.id for status in statuses if status.following is Following.IN_SYNC)
    return [node for node in in_sync if node not in failing]


def _resolved(facts: Facts, _subject: Subject) -> str:
    return in_sync_text(facts) or over("enough voters are in sync")


RULE = Rule(
    title="The quorum tolerates no further failure",
    resolved=_resolved,
    hold=hold(
        120.0,
        "a controller that reboots, or whose pod moves to another node, and each step of a rolling restart is done by "
        "then",
    ),
    further_thresholds=(SHARE,),
    needs=(Need.FRESH_POLL,),
    outlives_cause=True,
    grouped_with=("stale-voter-endpoint", "voter-disk-replaced"),
)
