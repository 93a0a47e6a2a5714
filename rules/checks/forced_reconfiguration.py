"""The voter set changed by more than one voter at once: the change was forced.

What it means
    Two consecutive VotersRecords in the log differ by more than one voter. Kafka's own add-controller and
    remove-controller change one voter at a time (KIP-853), so the change was made another way: a quorum made standalone
    in disaster recovery, or a tool that writes the record itself.

    If it was `kraftwatch rescue apply --lost`, the alert says so: the leader epoch went up to a multiple of a million.
    It fires until there are as many voters as before. What the lost disks alone had is missing: metadata that Kafka had
    confirmed, unless at least half of an even number of disks was left. `committed-metadata-lost` has what kraftwatch
    itself had read of it.

What to do
    1. Find out who forced the change. If no operator did, treat it as an intrusion.
    2. If the change was intended, bring the set back to three or five voters, one at a time.
    3. `kraftwatch what-if` shows which failures the new set survives. `kraftwatch rescue plan` shows, from copies of
       the disks, which nodes still hold the former set and where each log ends.

What not to do
    Do not start controllers of the former set with their old disks: they still use the former set. Two of three could
    elect a leader of their own.
"""

from collections.abc import Iterable, Sequence

from rules.answers.now import committed_voters
from rules.facts.needs import Need
from rules.facts.quorum import Facts
from rules.finding import Finding, Plain, RuleResult, Severity, Thresholds, hold, keep_firing_for
from rules.formatting import and_join, numbered, plural
from rules.model.history import VoterChange
from rules.model.identifiers import NodeId
from rules.model.subject import Subject
from rules.remedies.remedy_commands import describe_status
from rules.remedies.step import Act, forbids
from rules.rescue.disk_count import DiskCount
from rules.rule import Rule

KEEP_FIRING_FOR = keep_firing_for(3_600.0, "a forced change of the voter set; the newest 64 changes are remembered")


def evaluate(facts: Facts, thresholds: Thresholds) -> Iterable[RuleResult]:
    """Returns one finding for each forced change of the last `keep_firing_for` seconds, and for each lost majority."""
    newest = facts.quorum.newest_timestamp_ms
    for change in facts.quorum.history.reconfigurations:
        lacks_voters = change.rebuilt and len(facts.quorum.voters) < len(change.before)
        if newest is None or lacks_voters or newest - change.timestamp_ms <= thresholds.ms(KEEP_FIRING_FOR.name):
            yield _rebuilt(facts, change) if change.rebuilt else _finding(facts, change)


def _rebuilt(facts: Facts, change: VoterChange) -> Finding:
    """Returns the finding about a quorum that `rescue apply --lost` made of the voters that were left."""
    removed, left = change.removed, DiskCount(voters=len(change.before), disks=len(change.after))
    missing = (
        f"{left.held_text[0].upper()}{left.held_text[1:]}"
        if left.holds_all
        else f"Metadata that was committed from offset {change.offset + 1} on may be missing"
    )
    return Finding(
        subject=Subject("voter set at offset", change.offset),
        severity=Severity.INFO,
        summary=f"kraftwatch rescue made a quorum of {len(change.after)} of {plural(len(change.before), 'voter')}. "
        f"Lost: {and_join(removed)}. {missing}.",
        evidence=_evidence(change),
        remedy=(
            _keep_off([key.id for key in removed]),
            "# Compare topics, ACLs, users and configurations with what you expect: what only lost disks had is gone"
            if not left.holds_all
            else "# Nothing that was committed is missing, if the disks were as their controllers left them",
            "# Add the missing voters one at a time, on formatted disks: the plan of the rescue has the commands",
            describe_status(facts),
        ),
    )


def _evidence(change: VoterChange) -> dict[str, Plain]:
    return {
        "before": [str(key) for key in change.before],
        "after": [str(key) for key in change.after],
        "removed": [str(key) for key in change.removed],
        "added": [str(key) for key in change.added],
        "offset": change.offset,
        "leader_epoch": change.leader_epoch,
        "timestamp_ms": change.timestamp_ms,
    }


def _finding(facts: Facts, change: VoterChange) -> Finding:
    removed, added = change.removed, change.added
    return Finding(
        subject=Subject("voter set at offset", change.offset),
        severity=Severity.INFO,
        summary=f"The voter set was changed by force: from {plural(len(change.before), 'voter')} to "
        f"{len(change.after)} at once. Removed: {and_join(removed)}. Added: {and_join(added)}.",
        evidence=_evidence(change),
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
    return forbids(
        f"# Keep {numbered('controller', nodes)} off until {'its disk is' if one else 'their disks are'} formatted "
        f"again: {'it still holds' if one else 'they still hold'} the former voter set",
        Act.START,
        nodes,
        (Act.FORMAT, nodes),
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
