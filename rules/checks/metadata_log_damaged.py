"""A controller serves damaged bytes from its metadata log or a snapshot.

What it means
    Bytes that the active controller sent are no sound record batch: a checksum (CRC-32C) does not match, or a header
    (length, base offset, leader epoch, magic), which the checksum does not cover, cannot be true. The controller has
    read it from its disk like that. The quorum works on, because each controller has the metadata in its memory.

    - A replica that must read the batch gets no further: a new or wiped one, or one that starts from an older state. It
      fetches the batch again and again, and its log repeats "Failed to append the records with the batch header" with a
      CorruptRecordException.
    - A leader with a damaged length answers fetches near it with UNKNOWN_SERVER_ERROR, and its log repeats "Caught
      unexpected error in fetch completion". If that is at the end of its log, its process ends ("Unexpected error in
      raft IO thread"), and the other voters elect another leader.
    - A controller with a damaged batch in its log truncates the log there when it starts ("Corruption found in segment
      0, truncating to offset N", with the position in the file on the line before), and fetches the rest from the
      leader. That repairs it, if the other voters have these records.
    - Kafka's start does not find a damaged base offset, epoch or magic, so it repairs nothing. With a base offset that
      is much too large the process ends ("Split operation is only permitted for segments with overflow").
    - A controller whose newest snapshot is damaged does not start again ("Got exception while starting SharedServer").

    kraftwatch goes on with the next sound batch, if the controller sends one, and reads the log again when another
    controller leads. The alert resolves when the controller has registered again since, which it does at its start
    (unless that repairs nothing), or after an hour.

What to do
    1. Copy the `__cluster_metadata-0` directory of the controller before it is restarted.
    2. Log: if a majority of the voters has a sound copy without this controller, restart it. The remedy says which
       voters have one.
       If the checksum matches, stop it instead, move that directory away when there is another leader, and start it.
    3. Snapshot: do not restart the controller before it has a newer snapshot, or the file is moved away.
    4. Check the disk of its host, and replace it if it shows errors.

What not to do
    Do not restart the controller while the other voters with a sound copy are no majority: what it truncates may be the
    only copy of committed metadata. Do not edit or delete log segments.
"""

from collections.abc import Iterable, Sequence

from rules.claims.statement import Statement, statement
from rules.claims.words import do_not_restart
from rules.facts.damaged_log import DamagedLog, sound_copies, unreadable_log
from rules.facts.quorum import Facts
from rules.finding import Finding, Plain, RuleResult, Severity, Thresholds, hold
from rules.formatting import and_join, utc_text
from rules.model.membership import majority
from rules.model.monitoring import DamagedBatch
from rules.model.quorum import Quorum
from rules.model.subject import Subject
from rules.remedies.remedy_commands import describe_replication, describe_status
from rules.remedies.step import Act, does, forbids, keeps_running, restarts
from rules.rule import Rule

_MOST_NAMED = 4
"""Damaged places that a sentence names."""


def evaluate(facts: Facts, _thresholds: Thresholds) -> Iterable[RuleResult]:
    """Returns one finding for each controller that served damaged batches since its start."""
    for log in facts.damaged_logs:
        yield _finding(facts, log)


def _finding(facts: Facts, log: DamagedLog) -> Finding:
    quorum = facts.quorum
    node = log.node
    return Finding(
        subject=Subject("log at", log.endpoint) if node is None else Subject("controller", node),
        severity=Severity.CRITICAL,
        summary=f"{log.name[0].upper()}{log.name[1:]} serves damaged metadata: {_places(log)}. "
        + _consequence(quorum, log),
        evidence={
            "controller": node,
            "endpoint": log.endpoint,
            **_evidence(log),
            "detail": _one_or_all([*dict.fromkeys(failure.detail for failure in log.failures)]),
            "first_served": utc_text(min(failure.first_at_ms for failure in log.failures)),
            "last_served": utc_text(max(failure.last_at_ms for failure in log.failures)),
            "voters_with_a_sound_copy": [str(row.key) for row in sound_copies(quorum, log)],
            "leader": quorum.leader_id,
            "leader_epoch": quorum.leader_epoch,
        },
        remedy=tuple(_remedy(facts, log)),
        starts=() if node is None or log.in_snapshots else (node,),
        keep_running=frozenset() if node is None or _may_restart(facts, log) else frozenset({node}),
    )


def _one_or_all(values: Sequence[Plain]) -> Plain:
    return values[0] if len(values) == 1 else [*values]


def _places(log: DamagedLog) -> str:
    places = []
    if log.batches:
        epochs = sorted({batch.epoch for batch in log.batches if batch.epoch is not None})
        known = f" in epoch{'s' if len(epochs) > 1 else ''} {and_join(epochs)}" if epochs else ""
        if log.batches == [DamagedBatch()]:
            places.append("a batch of its log")
        else:
            places.append(f"{and_join(map(_offsets, log.batches), _MOST_NAMED)}{known} of its log")
    for snapshot in log.in_snapshots[:_MOST_NAMED]:
        at = "" if snapshot.position is None else f" at byte {snapshot.position}"
        places.append(f"the batch{at} of snapshot {_file(snapshot)}")
    return and_join(places)


def _offsets(damage: DamagedBatch) -> str:
    if damage.offset is None:
        return "an unknown offset"
    if damage.last_offset is None:
        return f"offsets from {damage.offset} on"
    if damage.last_offset == damage.offset:
        return f"offset {damage.offset}"
    return f"offsets {damage.offset} to {damage.last_offset}"


def _file(damage: DamagedBatch) -> str:
    snapshot = damage.snapshot
    return "" if snapshot is None else f"{snapshot.end_offset:020d}-{snapshot.epoch:010d}.checkpoint"


def _evidence(log: DamagedLog) -> dict[str, Plain]:
    found: dict[str, Plain] = {}
    if log.batches:
        found["first_offset"] = _one_or_all([batch.offset for batch in log.batches])
        found["last_offset"] = _one_or_all([batch.last_offset for batch in log.batches])
        found["epoch"] = _one_or_all([batch.epoch for batch in log.batches])
    if log.in_snapshots:
        found["snapshot"] = _one_or_all([_file(snapshot) for snapshot in log.in_snapshots])
        found["position_in_the_file"] = _one_or_all([snapshot.position for snapshot in log.in_snapshots])
    return found


def _consequence(quorum: Quorum, log: DamagedLog) -> str:
    unread = ""
    if unreadable_log(quorum) == log:
        unread = " kraftwatch cannot read it further either: rules that need the metadata log are not evaluated."
    if log.in_snapshots:
        return f"A replica that must read it gets no further, and the controller does not start again with it.{unread}"
    sound = [row.key.id for row in sound_copies(quorum, log)]
    have = f"Voters with a sound copy: {and_join(sound)}." if sound else "No other voter is known to have a sound copy."
    return f"A replica that must read it gets no further. {have}{unread}"


def _remedy(facts: Facts, log: DamagedLog) -> Iterable[str]:
    name = log.name
    yield f"# Copy the __cluster_metadata-0 directory of {name} before its process ends: its start changes it"
    files = sorted({_file(snapshot) for snapshot in log.in_snapshots})
    for file in files:
        until = f" while {file} is its newest snapshot: it would end with a CorruptRecordException"
        yield keeps_running(statement("# ", _do_not_restart(log), until), (Act.SNAPSHOT, (log.node,)))
        yield (
            f"# Move {file} out of its __cluster_metadata-0 directory, or wait for a newer snapshot (at most "
            "metadata.log.max.snapshot.interval.ms): its start then uses the one before and the log"
        )
    if not files:
        yield from _restart(facts, log)
    yield f"# Check the disk of {name}'s host (kernel log, SMART), and replace it if it shows errors"
    yield describe_status(facts)


def _restart(facts: Facts, log: DamagedLog) -> Iterable[str]:
    sound, nodes = [row.key.id for row in sound_copies(facts.quorum, log)], () if log.node is None else (log.node,)
    yield "# Check where the log of each voter ends, and that the followers still fetch"
    yield describe_replication(facts)
    if _may_restart(facts, log) and log.survives_start:
        yield forbids(
            f"# Do not only restart {log.name}: the checksum of the damaged batch matches, so Kafka's start does not "
            "find it, or ends with an exception",
            Act.START,
            nodes,
            (Act.MOVE, nodes),
        )
        yield does(
            f"# Stop {log.name}: voters {and_join(sound)} have a sound copy and elect a leader; then move its "
            "__cluster_metadata-0 directory away, and start it: it fetches the log again",
            *((act, nodes) for act in (Act.STOP, Act.MOVE, Act.START)),
        )
    elif _may_restart(facts, log):
        yield restarts(
            f"# Restart {log.name}: voters {and_join(sound)} have a sound copy and elect a leader; at its start Kafka "
            'truncates its log at the damaged batch ("Corruption found in segment") and fetches the rest',
            *nodes,
        )
    else:
        until = (
            f" until a majority of {_voters(facts.quorum) or 'the'} voters has fetched beyond its damaged batch "
            "without it: its start truncates what may be the only copy of committed metadata"
        )
        yield keeps_running(statement("# ", _do_not_restart(log), until), (Act.FETCH, (None,)))
        yield (
            "# Compare the copies of all controllers and brokers: `kraftwatch rescue plan` prints where each log ends, "
            "and `kraftwatch data decode` its records"
        )


def _do_not_restart(log: DamagedLog) -> Statement:
    return do_not_restart(() if log.node is None else (log.node,), named=log.name)


def _voters(quorum: Quorum) -> int:
    return len(quorum.poll.voters) if quorum.poll else len(quorum.voters)


def _may_restart(facts: Facts, log: DamagedLog) -> bool:
    """Returns whether a majority has a sound copy, so that nothing is lost at its start."""
    voters = _voters(facts.quorum)
    sound = [row for row in sound_copies(facts.quorum, log) if facts.nodes[row.key.id].following.fetches]
    return not log.in_snapshots and bool(voters) and len(sound) >= majority(voters)


def _resolved(facts: Facts, subject: Subject) -> str:
    name = f"the controller at {subject.name}" if subject.kind == "log at" else str(subject)
    return f"{name[0].upper()}{name[1:]} has started again since, or served no damaged batch for an hour."


RULE = Rule(
    title="A controller serves a damaged metadata log",
    resolved=_resolved,
    hold=hold(0.0, "a wrong checksum is proof"),
    grouped_with=("voter-lagging", "failure-tolerance", "monitor-blind", "data-contract-broken"),
    without_leader=True,
)
