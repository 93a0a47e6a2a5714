"""A dry run of a rescue (KIP-1347): what each disk holds, which one to continue with, and what new voters would change.

Nothing is written. No released Kafka has the override: this is what an operator must know before doing it by hand.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from connectors.errors import UsageError
from connectors.sinks.alert_json import iso
from rules.finding import Plain
from rules.formatting import and_join
from rules.model.identifiers import ReplicaKey
from rules.model.voter_set import Voter, VoterSet
from rules.rescue.surviving_disks import DiskSurvival, disk_survival
from rules.rescue.voter_override import (
    OverrideOutcome,
    compare,
    initial_controllers,
    parse_controllers,
    voter_set_text,
)
from streaming.rescue.assessed_disk import AssessedDisk
from streaming.rescue.plan_warnings import plan_warnings
from streaming.status.from_log_dir import ReplayedLogDir


@dataclass(frozen=True, slots=True, kw_only=True)
class RescuePlan:
    """The assessment of all disks, and what the given list would change."""

    cluster_id: str | None
    disks: tuple[AssessedDisk, ...]
    survival: DiskSurvival | None
    provided: tuple[Voter, ...] | None
    outcome: OverrideOutcome | None
    """The worst of all disks; None without a list."""
    warnings: tuple[str, ...]


def make_plan(disks: Sequence[ReplayedLogDir], wanted: str | None) -> RescuePlan:
    """Assesses the disks of one cluster.

    Args:
        disks: of controllers and brokers, each once.
        wanted: the new voters as `--initial-controllers` takes them; None: only the disks are assessed.

    Raises:
        UsageError: a disk belongs to a static quorum, to an unknown node or to another cluster; or the list is invalid.
    """
    known = [_known(read) for read in disks]
    cluster_ids = sorted({read.machine.cluster_id or "unknown" for read in disks})
    if len(cluster_ids) > 1:
        raise UsageError(
            f"the disks belong to {len(cluster_ids)} clusters ({and_join(cluster_ids)}): give those of one"
        )
    twice = sorted({key for key, _ in known if [one for one, _ in known].count(key) > 1})
    if twice:
        raise UsageError(f"{and_join(twice)} is given twice: give each disk once")
    listener = known[0][1].voters[0].endpoints[0].listener
    provided = None if wanted is None else _provided(wanted, listener)
    assessed = tuple(
        AssessedDisk(
            replayed=read,
            key=key,
            voters=voters,
            difference=None if provided is None else compare(voters.voters, provided),
        )
        for read, (key, voters) in zip(disks, known, strict=True)
    )
    outcomes = {one.difference.outcome for one in assessed if one.difference}
    order = (OverrideOutcome.REJECTED, OverrideOutcome.PASSED, OverrideOutcome.NO_CHANGE)
    survived = disk_survival(one.survivor for one in assessed)
    return RescuePlan(
        cluster_id=disks[0].machine.cluster_id,
        disks=assessed,
        survival=survived,
        provided=provided,
        outcome=next((outcome for outcome in order if outcome in outcomes), None),
        warnings=tuple(plan_warnings(assessed, survived, provided)),
    )


def plan_json(plan: RescuePlan) -> dict[str, Plain]:
    """Returns the fields of `rescue plan --json`."""
    survived = plan.survival
    return {
        "cluster_id": plan.cluster_id,
        "outcome": None if plan.outcome is None else plan.outcome.value,
        "written": False,
        "go_on_with": [str(key) for key in survived.best] if survived else [],
        "holds_all_committed": survived.holds_all_committed if survived else False,
        "electable": survived.electable if survived else False,
        "absent_voters": [str(key) for key in survived.absent] if survived else [],
        "initial_controllers": initial_controllers(survived.voters.voters) if survived else None,
        "disks": [_disk_json(one) for one in plan.disks],
        "warnings": [*plan.warnings],
        "steps": [*steps(plan)],
    }


def transcript(one: AssessedDisk, provided: Sequence[Voter]) -> Iterable[str]:
    """Yields what `kafka-storage format --override-voters` would print for this disk, up to where it would write."""
    assert one.difference is not None
    yield f"Storage directory {one.disk.folder.parent} is already formatted."
    yield "Override voters mode enabled, checking if VoterSet needs updating..."
    yield f"Persisted VoterSet: {voter_set_text(one.voters.voters)}"
    yield f"Provided VoterSet (from --initial-controllers): {voter_set_text(provided)}"
    match one.difference.outcome:
        case OverrideOutcome.NO_CHANGE:
            yield "No changes detected (VoterSets are equivalent). Override operation skipped, already up to date."
        case OverrideOutcome.REJECTED:
            yield f"Changes detected: {one.difference}"
            yield "Error: --override-voters cannot be used for changing node IDs or directory IDs."
        case OverrideOutcome.PASSED:
            yield f"Changes detected: {one.difference}"
            yield "Validation: PASSED (only endpoints changed, safe operation)"
            end, epoch = one.disk.end_offset, one.epoch
            yield f"Would create complete snapshot at offset {end}, epoch {epoch} with updated VotersRecord"
            yield f"Would be called: {one.snapshot}"


def steps(plan: RescuePlan) -> Iterable[str]:
    """Yields what to do, in order: each item is one shell command, or a sentence that begins with `#`."""
    if plan.outcome is not OverrideOutcome.PASSED or plan.provided is None:
        return
    nodes = [one.key.id for one in plan.disks if not one.is_voter]
    brokers = f"Brokers ({and_join(nodes)} among them)" if nodes else "Brokers"
    command = (
        f"kafka-storage.sh format --cluster-id {plan.cluster_id} --config $NODE_PROPERTIES "
        f"--initial-controllers {initial_controllers(plan.provided)} --override-voters"
    )
    yield "# --override-voters is part of KIP-1347, which is under discussion: no released Kafka has it"
    ids = and_join(voter.key.id for voter in plan.provided)
    yield f"# Stop every controller ({ids}), all of them before the first one is overridden"
    yield "# Copy each metadata.log.dir to another place, so that the change can be undone"
    yield "# Put the new names into controller.quorum.bootstrap.servers and advertised.listeners of every node"
    yield "# On each controller's host, with its own configuration file as $NODE_PROPERTIES"
    yield command
    yield "# Start all controllers and wait for a leader"
    yield f"# {brokers} hold the old voters and connect to them, whatever their configuration says: do the same on each"
    yield command
    yield (
        "# On a broker that cannot be overridden, remove __cluster_metadata-0 while it is stopped: it fetches the log "
        "again. The KIP rejects this as the general procedure"
    )


def _known(read: ReplayedLogDir) -> tuple[ReplicaKey, VoterSet]:
    folder = read.contents.folder
    key = read.contents.meta_properties.key if read.contents.meta_properties else None
    if key is None:
        raise UsageError(f"{folder}: the node is unknown: copy its meta.properties too")
    quorum = read.machine.quorum()
    if not quorum.kraft_version:
        raise UsageError(
            f"{folder} belongs to a static quorum: its voters are in controller.quorum.voters, change them there"
        )
    if quorum.committed is None or not all(voter.endpoints for voter in quorum.committed.voters):
        raise UsageError(f"{folder} holds no voter set with endpoints: it cannot be assessed")
    return key, quorum.committed


def _provided(text: str, listener: str) -> tuple[Voter, ...]:
    try:
        return parse_controllers(text, listener)
    except ValueError as problem:
        raise UsageError(f"--initial-controllers: {problem}") from None


def _disk_json(one: AssessedDisk) -> dict[str, Plain]:
    disk, change = one.disk, one.difference
    return {
        "folder": str(disk.folder),
        "node_id": one.key.id,
        "directory_id": one.key.directory_id,
        "voter": one.is_voter,
        "log_end_offset": disk.end_offset,
        "last_epoch": disk.epoch,
        "committed_below": disk.committed_below,
        "newest_record_at": iso(one.replayed.newest_ms),
        "voters": initial_controllers(one.voters.voters),
        "voters_offset": one.voters.offset,
        "outcome": change.outcome.value if change else None,
        "difference": str(change) if change else None,
        "snapshot": one.snapshot if change and change.outcome is OverrideOutcome.PASSED else None,
    }
