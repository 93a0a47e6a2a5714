"""A controller serves damaged bytes from its metadata log or a snapshot.

What it means
    A record batch that the active controller sent does not match its checksum (CRC-32C). The controller has read it
    from its disk like that: TCP has a checksum of its own, and kraftwatch checks the bytes before it stores them. The
    quorum works on, because each controller has the metadata in its memory.

    - A replica that must read the batch gets no further: a new or wiped one, or one that starts from an older state. It
      fetches the batch again and again, and its log repeats "Failed to append the records with the batch header" with a
      CorruptRecordException.
    - A controller with a damaged batch in its log truncates the log there when it starts ("Corruption found in segment
      0, truncating to offset N", with the position in the file on the line before), and fetches the rest from the
      leader. That repairs it, if the other voters have these records.
    - A controller whose newest snapshot is damaged does not start again: its process ends with a
      CorruptRecordException ("Got exception while starting SharedServer").

    kraftwatch goes on after the batch if its header shows where the next one begins. It lacks what the batch holds, and
    reads the log again when another controller leads. The alert resolves when the controller has registered again
    since, which it does at its start, or after an hour.

What to do
    1. Copy the `__cluster_metadata-0` directory of the controller before it is restarted.
    2. Log: if a majority of the voters has a sound copy without this controller, restart it. The remedy says which
       voters have one.
    3. Snapshot: do not restart the controller before it has a newer snapshot, or the file is moved away.
    4. Check the disk of its host, and replace it if it shows errors.

What not to do
    Do not restart the controller while the other voters with a sound copy are no majority: what it truncates may be the
    only copy of committed metadata. Do not edit or delete log segments.
"""

from collections.abc import Iterable

from rules.analysis.damaged_log import damaged_logs, serving_node, sound_copies
from rules.finding import Finding, Plain, Rule, RuleResult, Severity, Thresholds, hold
from rules.formatting import and_join, utc_text
from rules.model.identifiers import NodeId
from rules.model.membership import majority
from rules.model.monitoring import DamagedBatch, FailedObservation
from rules.model.quorum import Quorum
from rules.model.subject import Subject
from rules.remedies.remedy_commands import describe_replication, describe_status


def evaluate(quorum: Quorum, _thresholds: Thresholds) -> Iterable[RuleResult]:
    """Returns one finding for each controller that served a damaged batch since its start."""
    for failure in damaged_logs(quorum):
        yield _finding(quorum, failure, failure.damage or DamagedBatch())


def _finding(quorum: Quorum, failure: FailedObservation, damage: DamagedBatch) -> Finding:
    node = serving_node(quorum, failure)
    name = f"the controller at {failure.endpoint}" if node is None else f"controller {node}"
    return Finding(
        subject=Subject("log at", failure.endpoint) if node is None else Subject("controller", node),
        severity=Severity.CRITICAL,
        summary=f"{name[0].upper()}{name[1:]} serves damaged metadata: {_place(damage)} does not match its checksum. "
        + _consequence(quorum, node, damage),
        evidence={
            "controller": node,
            "endpoint": failure.endpoint,
            **_evidence(damage),
            "detail": failure.detail,
            "first_served": utc_text(failure.first_at_ms),
            "last_served": utc_text(failure.last_at_ms),
            "voters_with_a_sound_copy": [str(row.key) for row in sound_copies(quorum, node, damage)],
            "leader": quorum.leader_id,
            "leader_epoch": quorum.leader_epoch,
        },
        remedy=tuple(_remedy(quorum, name, node, damage)),
        starts=() if node is None or damage.snapshot is not None else (node,),
        keep_running=frozenset() if node is None or _may_restart(quorum, node, damage) else frozenset({node}),
    )


def _place(damage: DamagedBatch) -> str:
    if damage.snapshot is not None:
        at = "" if damage.position is None else f" at byte {damage.position}"
        return f"a batch{at} of snapshot {_file(damage)}"
    if damage.offset is None:
        return "a batch of its log"
    if damage.last_offset is None:
        return f"the batch at offset {damage.offset}"
    epoch = "" if damage.epoch is None else f" in epoch {damage.epoch}"
    return f"the batch of offsets {damage.offset} to {damage.last_offset}{epoch}"


def _file(damage: DamagedBatch) -> str:
    snapshot = damage.snapshot
    return "" if snapshot is None else f"{snapshot.end_offset:020d}-{snapshot.epoch:010d}.checkpoint"


def _evidence(damage: DamagedBatch) -> dict[str, Plain]:
    if damage.snapshot is not None:
        return {"snapshot": _file(damage), "position_in_the_file": damage.position}
    return {"first_offset": damage.offset, "last_offset": damage.last_offset, "epoch": damage.epoch}


def _consequence(quorum: Quorum, node: NodeId | None, damage: DamagedBatch) -> str:
    if damage.snapshot is not None:
        return "A replica that must read it gets no further, and the controller does not start again with it."
    sound = [row.key.id for row in sound_copies(quorum, node, damage)]
    have = f"Voters with a sound copy: {and_join(sound)}." if sound else "No other voter is known to have a sound copy."
    return f"A replica that must read it gets no further. {have}"


def _remedy(quorum: Quorum, name: str, node: NodeId | None, damage: DamagedBatch) -> Iterable[str]:
    yield f"# Copy the __cluster_metadata-0 directory of {name} before its process ends: its start changes it"
    if damage.snapshot is not None:
        yield (
            f"# Do not restart {name} while {_file(damage)} is its newest snapshot: it would end with a "
            "CorruptRecordException"
        )
        yield (
            f"# Move {_file(damage)} out of its __cluster_metadata-0 directory, or wait for a newer snapshot (at most "
            "metadata.log.max.snapshot.interval.ms): its start then uses the one before and the log"
        )
    else:
        yield from _restart(quorum, name, node, damage)
    yield f"# Check the disk of {name}'s host (kernel log, SMART), and replace it if it shows errors"
    yield describe_status(quorum)


def _restart(quorum: Quorum, name: str, node: NodeId | None, damage: DamagedBatch) -> Iterable[str]:
    sound = [row.key.id for row in sound_copies(quorum, node, damage)]
    yield "# Check where the log of each voter ends, and that the followers still fetch"
    yield describe_replication(quorum)
    if _may_restart(quorum, node, damage):
        yield (
            f"# Restart {name}: voters {and_join(sound)} have a sound copy and elect a leader; at its start Kafka "
            'truncates its log at the damaged batch ("Corruption found in segment") and fetches the rest'
        )
    else:
        yield (
            f"# Do not restart {name} until a majority of {_voters(quorum) or 'the'} voters has fetched beyond this "
            "batch without it: its start truncates what may be the only copy of committed metadata"
        )
        yield (
            "# Compare the copies of all controllers and brokers: `kraftwatch rescue plan` prints where each log ends, "
            "and `kraftwatch data decode` its records"
        )


def _voters(quorum: Quorum) -> int:
    return len(quorum.poll.voters) if quorum.poll else len(quorum.voters)


def _may_restart(quorum: Quorum, node: NodeId | None, damage: DamagedBatch) -> bool:
    """Returns whether a majority has a sound copy, so that nothing is lost at its start."""
    voters = _voters(quorum)
    sound = [row for row in sound_copies(quorum, node, damage) if quorum.nodes[row.key.id].following.fetches]
    return damage.snapshot is None and bool(voters) and len(sound) >= majority(voters)


def _resolved(_quorum: Quorum, subject: Subject) -> str:
    name = f"the controller at {subject.name}" if subject.kind == "log at" else str(subject)
    return f"{name[0].upper()}{name[1:]} has started again since, or served no damaged batch for an hour."


RULE = Rule(
    title="A controller serves a damaged metadata log",
    resolved=_resolved,
    hold=hold(0.0, "a wrong checksum is proof"),
    grouped_with=("voter-lagging", "failure-tolerance", "monitor-blind", "data-contract-broken"),
)
