"""The voter set changed by more than one voter at once: the change was forced.

What it means
    Two consecutive VotersRecords in the log differ by more than one voter. Kafka's own add-controller and
    remove-controller change one voter at a time (KIP-853), so the change was made another way: a quorum made standalone
    in disaster recovery, or a tool that writes the record itself.

    kraftwatch cannot distinguish a forced change that arrives inside a snapshot from changes made one by one, and does
    not report it.

What to do
    1. Find out who forced the change. If no operator did, treat it as an intrusion.
    2. If the change was intended, bring the set back to three or five voters, one at a time.
    3. `kraftwatch what-if` shows which failures the new set survives. `kraftwatch rescue plan` shows, from copies of
       the disks, which nodes still hold the former set and where each log ends.

    `kraftwatch rescue apply` changes endpoints only, never which nodes are voters: it does not fire this alert.

What not to do
    Do not start controllers of the former set with their old disks: they still use the former set.
"""

from collections.abc import Iterable, Sequence

from rules.answers.now import committed_voters
from rules.facts.needs import Need
from rules.facts.quorum import Facts
from rules.finding import Finding, RuleResult, Severity, Thresholds, hold, keep_firing_for
from rules.formatting import and_join, numbered, plural
from rules.model.history import VoterChange
from rules.model.identifiers import NodeId
from rules.model.subject import Subject
from rules.remedies.remedy_commands import describe_status
from rules.rule import Rule

KEEP_FIRING_FOR = keep_firing_for(3_600.0, "a forced change of the voter set; the newest 64 changes are remembered")


def evaluate(facts: Facts, thresholds: Thresholds) -> Iterable[RuleResult]:
    """Returns one finding for each forced change of the last `keep_firing_for` seconds."""
    newest = facts.quorum.newest_timestamp_ms
    for change in facts.quorum.history.reconfigurations:
        if newest is None or newest - change.timestamp_ms <= thresholds.ms(KEEP_FIRING_FOR.name):
            yield _finding(facts, change)


def _finding(facts: Facts, change: VoterChange) -> Finding:
    removed, added = change.removed, change.added
    return Finding(
        subject=Subject("voter set at offset", change.offset),
        severity=Severity.INFO,
        summary=f"The voter set was changed by force: from {plural(len(change.before), 'voter')} to "
        f"{len(change.after)} at once. Removed: {and_join(removed)}. Added: {and_join(added)}.",
        evidence={
            "before": [str(key) for key in change.before],
            "after": [str(key) for key in change.after],
            "removed": [str(key) for key in removed],
            "added": [str(key) for key in added],
            "offset": change.offset,
            "leader_epoch": change.leader_epoch,
            "timestamp_ms": change.timestamp_ms,
        },
        remedy=(
            "# Find out who forced this change: Kafka's own tools change one voter at a time",
            _keep_off([key.id for key in removed])
            if removed
            else "# Check that every voter of the new set is meant to be a voter",
            "# Check the current voters, and add the missing ones one at a time",
            describe_status(facts),
        ),
    )


def _keep_off(nodes: Sequence[NodeId]) -> str:
    one = len(nodes) == 1
    return (
        f"# Keep {numbered('controller', nodes)} off until {'its disk is' if one else 'their disks are'} formatted "
        f"again: {'it still holds' if one else 'they still hold'} the former voter set"
    )


def _resolved(facts: Facts, _subject: Subject) -> str:
    return f"No voter set was forced recently. The voters are {committed_voters(facts.quorum)}."


RULE = Rule(
    title="The voter set was changed by force",
    resolved=_resolved,
    hold=hold(0.0, "one observation is proof"),
    further_thresholds=(KEEP_FIRING_FOR,),
    needs=(Need.VOTERS_RECORD,),
    without_leader=True,
)
