"""The number of voters gives less failure tolerance than it costs.

What it means
    This alert is about the next failure:

    - Two voters (warning) are worse than one: the quorum stops when either of them fails.
    - One voter (info) is a single point of failure. That is right for a laptop.
    - An even number of four or more (info) tolerates no more failures than the odd number below it, and every election
      and commit needs one more vote.
    - More than seven voters (info): every commit waits for at least four other voters, and so many simultaneous
      failures do not happen in practice.

What to do
    Use three voters, or five if the quorum must survive a second failure during maintenance.

What not to do
    Do not remove a voter while another voter is down: bring that one back first. Do not change two voters at once.
"""

from collections.abc import Iterable
from typing import TypeAlias

from rules.analysis.freshness import POLL_AGE, fresh_poll, poll_problem
from rules.finding import Finding, Rule, RuleResult, Severity, Threshold, Thresholds, UnknownResult, hold
from rules.formatting import and_join, plural
from rules.model.identifiers import NodeId
from rules.model.membership import majority, tolerated_failures
from rules.model.quorum import Quorum
from rules.remedies.remedy_commands import describe_status

MOST = Threshold(
    name="most",
    default=7.0,
    unit="voters",
    meaning="a larger voter set fires. Seven tolerate three failures; Kafka's documentation advises three or five",
)


def evaluate(quorum: Quorum, thresholds: Thresholds) -> Iterable[RuleResult]:
    """Returns one finding about the quorum if its number of voters is unwise."""
    voters = _voters(quorum, thresholds)
    if voters is None:
        yield UnknownResult(why=poll_problem(quorum))
        return
    advice = _advice(len(voters), int(thresholds[MOST.name]))
    if advice is not None:
        yield _finding(quorum, voters, *advice)


def _voters(quorum: Quorum, thresholds: Thresholds) -> list[NodeId] | None:
    if quorum.committed is not None:
        return sorted(quorum.voter_ids)
    poll = fresh_poll(quorum, thresholds)
    return sorted({row.key.id for row in poll.voters}) if poll else None


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
            "# Remove voters until five remain, one at a time: wait until each removal is committed",
        )
    if n > 0 and n % 2 == 0:
        return (
            Severity.INFO,
            f"With {n - 1} voters it would tolerate the same number.",
            f"# Add or remove one controller: {n - 1} voters tolerate the same number of failures",
        )
    return None


def _finding(quorum: Quorum, voters: list[NodeId], severity: Severity, consequence: str, action: str) -> Finding:
    n, tolerated = len(voters), tolerated_failures(len(voters))
    failures = plural(tolerated, "failure") if tolerated else "no failure"
    combined = [node for node in voters if node in quorum.brokers]
    return Finding(
        subject="quorum",
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
            action,
            "# Change the voters of a static quorum in controller.quorum.voters on every node, or after an upgrade of "
            f"kraft.version to 1 (the ids of the present voters: {and_join(voters)})"
            if quorum.committed is None
            else f"# Before you change anything, check that every voter (ids: {and_join(voters)}) is caught up",
            describe_status(quorum),
        ),
    )


def _resolved(quorum: Quorum, _subject: str) -> str:
    if quorum.committed is None:
        return "The number of voters is as it should be."
    n = len(quorum.committed.voters)
    return f"The quorum has {plural(n, 'voter')} and tolerates {plural(tolerated_failures(n), 'failure')}."


RULE = Rule(
    title="The number of voters is unwise",
    resolved=_resolved,
    hold=hold(
        3_600.0, "a quorum that grows from three to five voters, or that is moved to new machines, has four for a while"
    ),
    further_thresholds=(MOST, POLL_AGE),
    inhibited_by=("no-leader", "voter-disk-replaced"),
)
