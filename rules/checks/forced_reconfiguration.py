"""The voter set changed by more than one voter at once: somebody forced it.

What it means
    Two VotersRecords that follow each other in the log differ by more than one voter. Kafka's own add-controller and
    remove-controller change one voter at a time (KIP-853), so this was done around it: a quorum made standalone in
    disaster recovery, or a tool that writes the record itself. That is legal and no corruption; whoever watches over
    the cluster should know of it.

    A forced change that came inside a snapshot cannot be told from changes made one by one, and is not named.

Evidence
    The sets before and after, who left and who came, where in the log and in which epoch.

What to do
    1. Ask who did it. If nobody knows of it, treat it as an intrusion.
    2. If it was meant, bring the set back to three or five voters, one at a time.

What not to do
    Do not start controllers of the former set with their old disks: they still believe in that set.

Thresholds
    hold (0 s): it has happened. clear (10 s). told_for (1 h): how long it is news, by the log's own time; an hour is
    also what is remembered.
"""

from collections.abc import Iterable

from rules.analysis.freshness import no_voters_record
from rules.finding import Finding, Rule, RuleResult, Severity, Threshold, Thresholds, clear, hold
from rules.formatting import listed
from rules.model.history import Reconfiguration
from rules.model.quorum import Quorum
from rules.remedy_commands import describe_status

ID = "forced-reconfiguration"
TOLD_FOR = Threshold(
    name="told_for",
    default=3_600.0,
    unit="s",
    meaning="for how long after it a forced change of the voter set is told, by the log's own time. More than an hour "
    "is not remembered",
)


def evaluate(quorum: Quorum, thresholds: Thresholds) -> Iterable[RuleResult]:
    """One finding a forced change, while it is news."""
    hindrance = no_voters_record(ID, quorum)
    if hindrance is not None:
        yield hindrance
        return
    newest = quorum.newest_timestamp_ms
    for one in quorum.past.reconfigurations:
        if newest is None or newest - one.timestamp_ms <= thresholds.ms(TOLD_FOR.name):
            yield _finding(quorum, one)


def _finding(quorum: Quorum, one: Reconfiguration) -> Finding:
    left = [key for key in one.before if key not in one.after]
    came = [key for key in one.after if key not in one.before]
    return Finding(
        rule=ID,
        subject=f"voter set at offset {one.offset}",
        severity=Severity.INFO,
        summary=f"the voter set was changed by force: {len(one.before)} voters became {len(one.after)}; "
        f"left: {listed(left)}; came: {listed(came)}",
        evidence={
            "before": [str(key) for key in one.before],
            "after": [str(key) for key in one.after],
            "left": [str(key) for key in left],
            "came": [str(key) for key in came],
            "offset": one.offset,
            "leader_epoch": one.leader_epoch,
            "at_ms_by_the_log": one.timestamp_ms,
        },
        remedy=(
            "# If nobody forced this on purpose, find out who did: Kafka's own tools change one voter at a time",
            f"# Keep controllers {listed(key.id for key in left)} off until their disks are formatted again: "
            "they still hold the former set"
            if left
            else "# Check that every voter of the new set is meant to be one",
            "# See the voters now, and add what is missing one at a time",
            describe_status(quorum),
        ),
    )


RULE = Rule(
    id=ID,
    title="The voter set was changed by force",
    text=__doc__ or "",
    thresholds=(hold(0.0), clear(), TOLD_FOR),
    evaluate=evaluate,
)
