"""The number of voters gives less failure tolerance than it costs.

What it means
    This alert is about the next failure:

    - A quorum that lost voters within an hour and tolerates no failure any more (warning): at once if it lost two or
      more, because three voters that became one are a single point of failure, and after two minutes if it lost one,
      because a voter may be replaced by another one.
    - Two voters (warning) are worse than one: the quorum stops when either of them fails.
    - One voter (info) is a single point of failure. That is right for a laptop.
    - An even number of four or more (info) tolerates no more failures than the odd number below it, and every election
      and commit needs one more vote. Half of them in each of two data centres are the exception: every commit is in
      both, so no committed record is lost with one of them.
    - More than seven voters (info): every commit waits for at least four other voters, and so many simultaneous
      failures do not happen in practice.

What to do
    Use three voters, or five if the quorum must survive a second failure during maintenance. If voters were removed
    that still run, make them voters again: the remedy has the commands. A controller that is to stay removed is stopped
    first: with `controller.quorum.auto.join.enable`, the default of Confluent Platform 8.2, it adds itself again.

    If half of the voters in each of two data centres are meant to be, disable this rule for the cluster
    (`rules: {quorum-shape: {enabled: false}}`).

What not to do
    Do not remove a voter while another voter is down: bring that one back first. Do not change two voters at once.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeAlias

from rules.facts.freshness import fresh_poll, poll_problem
from rules.facts.quorum import Facts
from rules.finding import HOLD, Finding, RuleResult, Severity, Threshold, Thresholds, UnknownResult, hold
from rules.formatting import and_join, plural
from rules.model.history import VoterChange
from rules.model.identifiers import Millis, NodeId
from rules.model.membership import majority, tolerated_failures
from rules.model.quorum import Quorum
from rules.model.subject import Subject
from rules.remedies.remedy_commands import add_controller, before_a_change, describe_replication
from rules.rule import Rule

MOST = Threshold(
    name="most",
    default=7.0,
    unit="voters",
    meaning="a larger voter set fires. Seven tolerate three failures; Kafka's documentation advises three or five",
)


_RECENT_MS = 3_600_000
_ONE_FEWER_MS = Millis(120_000)
"""The hold where the quorum has one voter less and tolerates no failure any more: as that of `failure-tolerance`."""


def evaluate(facts: Facts, thresholds: Thresholds) -> Iterable[RuleResult]:
    """Returns one finding about the quorum if its number of voters is unwise."""
    quorum = facts.quorum
    voters = _voters(quorum)
    if voters is None:
        yield UnknownResult(why=poll_problem(quorum))
        return
    recent = _recent_changes(quorum)
    removed = sorted({key.id for change in recent for key in change.removed} - quorum.voter_ids)
    largest = max((len(change.before) for change in recent), default=0)
    fewer = min(len(removed), largest - len(voters))
    lost = bool(voters) and fewer > 0 and tolerated_failures(largest) > 0 and not tolerated_failures(len(voters))
    if lost and (fewer > 1 or len(removed) == 1):
        yield _lost_voters(facts, voters, removed, largest, thresholds)
        return
    advice = _advice(len(voters), int(thresholds[MOST.name]))
    if advice is not None:
        yield replace(_finding(facts, voters, *advice), hold_ms=_shorter_hold(thresholds) if lost else None)


def _shorter_hold(thresholds: Thresholds) -> Millis:
    return min(_ONE_FEWER_MS, thresholds.ms(HOLD))


def _recent_changes(quorum: Quorum) -> list[VoterChange]:
    """Returns the changes within the last hour of the log; forced ones are in `forced-reconfiguration`."""
    since_ms = (quorum.newest_timestamp_ms or 0) - _RECENT_MS
    changes = quorum.history.voter_changes
    return [change for change in changes if change.timestamp_ms > since_ms and not change.forced]


def _lost_voters(
    facts: Facts, voters: list[NodeId], removed: list[NodeId], largest: int, thresholds: Thresholds
) -> Finding:
    advised = _advice(len(voters), 0)
    assert advised is not None, "it tolerates no failure"
    running = [node for node in removed if node in facts.quorum.controllers]
    again = (
        "# If it was removed by mistake, make it a voter again once it is caught up as an observer"
        if len(removed) == 1
        else "# If they were removed by mistake, make them voters again, one after the other: wait until each is "
        "caught up as an observer, and each addition is committed"
    )
    steps = (step for node in running for step in add_controller(facts, node))
    whole = _finding(facts, voters, Severity.WARNING, advised[1], again, *steps, changed=running)
    return replace(
        whole,
        summary=f"{largest} voters became {len(voters)} within an hour: {and_join(removed)} "
        f"{'was' if len(removed) == 1 else 'were'} removed. "
        f"The quorum tolerates no failure. {advised[1]}",
        evidence={**whole.evidence, "no_longer_voters": [*removed]},
        hold_ms=_shorter_hold(thresholds) if len(removed) == 1 else Millis(0),
    )


def _voters(quorum: Quorum) -> list[NodeId] | None:
    if quorum.committed is not None:
        return sorted(quorum.voter_ids)
    poll = fresh_poll(quorum)
    return sorted(poll.voter_ids) if poll else None


_Advice: TypeAlias = tuple[Severity, str, str]
"""The severity of a number of voters, its consequence, and the first line of the remedy."""


def _advice(n: int, most: int) -> _Advice | None:
    if n == 1:
        return (
            Severity.INFO,
            "While it is down, the cluster has no leader.",
            "# If this cluster matters, add two controllers on other machines, one after the other",
        )
    if n == 2:
        return (
            Severity.WARNING,
            "The quorum stops when either voter fails.",
            "# Add a third controller on another machine: three voters tolerate one failure",
        )
    if n > most:
        return (
            Severity.INFO,
            f"Every commit waits for {n // 2} other voters.",
            "# Remove voters until five remain, one at a time: stop each first, so that it does not join again "
            "(controller.quorum.auto.join.enable), and wait until its removal is committed",
        )
    if n > 0 and n % 2 == 0:
        return (
            Severity.INFO,
            f"With {n - 1} voters it would tolerate the same number.",
            f"# Add or remove one controller: {n - 1} voters tolerate the same number of failures; keep them if half "
            "of them are in each of two data centres, because every commit is then in both",
        )
    return None


def _finding(
    facts: Facts,
    voters: list[NodeId],
    severity: Severity,
    consequence: str,
    *actions: str,
    changed: Iterable[NodeId] = (),
) -> Finding:
    """`changed`: the controllers that the actions add or remove, where they name them."""
    quorum = facts.quorum
    n, tolerated = len(voters), tolerated_failures(len(voters))
    failures = plural(tolerated, "failure") if tolerated else "no failure"
    combined = [node for node in voters if node in quorum.brokers and node not in facts.leftover_brokers]
    return Finding(
        subject=Subject("quorum"),
        severity=severity,
        summary=f"The quorum has {plural(n, 'voter')} and tolerates {failures}. {consequence}",
        evidence={
            "voter_ids": [*voters],
            "majority": majority(n),
            "failures_tolerated": tolerated,
            "failures_tolerated_with_one_more": tolerated_failures(n + 1),
            "failures_tolerated_with_one_fewer": tolerated_failures(n - 1),
            "voters_that_are_also_brokers": [*combined],
            "kraft_version": quorum.kraft_version,
        },
        remedy=(
            *before_a_change(facts, *changed),
            *actions,
            "# Change the voters of a static quorum in controller.quorum.voters on every node, or after an upgrade of "
            f"kraft.version to 1 (the ids of the present voters: {and_join(voters)})"
            if quorum.committed is None
            else f"# Before you change anything, check that every voter (ids: {and_join(voters)}) is caught up",
            describe_replication(facts),
        ),
    )


def _resolved(facts: Facts, _subject: Subject) -> str:
    if facts.quorum.committed is None:
        return "The number of voters is as it should be."
    n = len(facts.quorum.committed.voters)
    return f"The quorum has {plural(n, 'voter')} and tolerates {plural(tolerated_failures(n), 'failure')}."


RULE = Rule(
    title="The number of voters is unwise",
    resolved=_resolved,
    hold=hold(
        3_600.0, "a quorum that grows from three to five voters, or that is moved to new machines, has four for a while"
    ),
    further_thresholds=(MOST,),
    inhibited_by=("voter-disk-replaced",),
)
