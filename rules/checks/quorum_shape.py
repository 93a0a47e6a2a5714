"""The quorum has a number of voters that tolerates less than it costs.

What it means
    Nothing is broken; this is about the next failure.

    - Two voters (warning) are worse than one: either of them stops the quorum.
    - One voter (info) is a single point of failure, and right for a laptop.
    - An even number from four on (info) tolerates no more failures than the odd number below it, and needs one vote
      more for everything.
    - More than seven (info) make every commit wait for four others and more, and protect against what does not happen.

Evidence
    The voters, the majority, how many failures are tolerated, and how many would be with one voter more or less;
    which of them are brokers as well.

What to do
    Have three voters, or five where a second failure during maintenance must be survived. It can wait for the day.

What not to do
    Do not remove a voter from a quorum of which one is down: mend that first. Never change two voters at once.

Thresholds
    hold (1 h) and clear (10 s): a quorum that grows from three to five, or is moved to new machines, has four for a
    while. A disk replacement under way leaves one voter less meanwhile and keeps this rule quiet. most (7): how many
    voters are not too many. poll_age (10 s), for a static quorum.
"""

from collections.abc import Iterable

from rules.analysis.freshness import POLL_AGE, fresh_poll, no_fresh_poll
from rules.finding import Finding, Rule, RuleResult, Severity, Threshold, Thresholds, clear, hold
from rules.formatting import counted, listed
from rules.model.identifiers import NodeId
from rules.model.quorum import Quorum
from rules.remedy_commands import describe_status

ID = "quorum-shape"
MOST = Threshold(
    name="most",
    default=7.0,
    unit="voters",
    meaning="a larger voter set is told. Seven tolerate three failures; Kafka's documentation advises three or five",
)


def evaluate(quorum: Quorum, thresholds: Thresholds) -> Iterable[RuleResult]:
    """One finding about the quorum, for the shape it has."""
    voters = _voters(quorum, thresholds)
    if voters is None:
        yield no_fresh_poll(ID, quorum)
        return
    said = _said(len(voters), int(thresholds[MOST.name]))
    if said is not None:
        severity, why, step = said
        yield _finding(quorum, voters, severity, why, step)


def _voters(quorum: Quorum, thresholds: Thresholds) -> list[NodeId] | None:
    """The committed set; where none is known (a static quorum, polls alone) the one the leader names."""
    if quorum.committed is not None:
        return sorted(quorum.committed.ids)
    poll = fresh_poll(quorum, thresholds)
    return sorted({row.key.id for row in poll.voters}) if poll else None


def _said(n: int, most: int) -> tuple[Severity, str, str] | None:
    if n == 1:
        step = "# Where this cluster matters, add two controllers on other machines, one after the other"
        return Severity.INFO, "while it is down nothing leads", step
    if n == 2:
        step = "# Add a third controller on another machine: three voters tolerate one failure"
        return Severity.WARNING, "either of them stops the quorum when it fails", step
    if n > most:
        step = "# Remove voters one at a time, each when the one before is committed, down to five"
        return Severity.INFO, f"every commit waits for {n // 2} others", step
    if n > 0 and n % 2 == 0:
        step = f"# Add one more controller or remove one: {n - 1} voters tolerate as many failures with one vote less"
        return Severity.INFO, f"{n - 1} tolerate as many", step
    return None


def _finding(quorum: Quorum, voters: list[NodeId], severity: Severity, why: str, step: str) -> Finding:
    n = len(voters)
    combined = [node for node in voters if node in quorum.brokers]
    return Finding(
        rule=ID,
        subject="quorum",
        severity=severity,
        summary=f"the quorum has {counted(n, 'voter')} and tolerates {counted(_tolerated(n), 'failure')}: {why}",
        evidence={
            "voters": [*voters],
            "majority": n // 2 + 1,
            "failures_tolerated": _tolerated(n),
            "failures_tolerated_with_one_more": _tolerated(n + 1),
            "failures_tolerated_with_one_less": _tolerated(n - 1),
            "voters_that_are_brokers_as_well": [*combined],
            "kraft_version": quorum.kraft_version,
        },
        remedy=(
            step,
            "# A static quorum changes its voters only by controller.quorum.voters on every node, or after an "
            f"upgrade of kraft.version to 1; the voters are {listed(voters)} now"
            if quorum.committed is None
            else f"# See that each voter ({listed(voters)}) keeps up before anything is changed",
            describe_status(quorum),
        ),
    )


def _tolerated(n: int) -> int:
    return max(0, n - (n // 2 + 1))


RULE = Rule(
    id=ID,
    title="The number of voters is unwise",
    text=__doc__ or "",
    thresholds=(hold(3_600.0), clear(), MOST, POLL_AGE),
    evaluate=evaluate,
    inhibited_by=("no-leader", "voter-disk-replaced"),
)
