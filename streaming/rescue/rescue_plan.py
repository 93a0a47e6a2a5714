"""A dry run of a rescue (KIP-1347): what each disk holds, which one to continue with, and what new voters would change.

Nothing is written. No released Kafka has the override: this is what an operator must know before doing it by hand.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from connectors.errors import UsageError
from connectors.logdir.log_dir_files import checkpoint_name
from connectors.sinks.alert_json import iso
from rules.finding import Plain
from rules.formatting import and_join, plural
from rules.model.identifiers import Epoch, NodeId, ReplicaKey
from rules.model.voter_set import Voter, VoterSet
from rules.rescue.surviving_disks import DiskSurvival, SurvivingDisk, disk_survival, overrides_in
from rules.rescue.voter_override import (
    OverrideOutcome,
    VoterSetDifference,
    compare,
    initial_controllers,
    parse_controllers,
    renamed_suffix,
    voter_set_text,
)
from streaming.status.from_log_dir import LogDirContents, ReplayedLogDir


@dataclass(frozen=True, slots=True, kw_only=True)
class AssessedDisk:
    """One disk in the plan."""

    replayed: ReplayedLogDir
    key: ReplicaKey
    voters: VoterSet
    difference: VoterSetDifference | None
    """Between its voters and the given list; None without a list."""

    @property
    def disk(self) -> LogDirContents:
        """What its directory holds."""
        return self.replayed.contents

    @property
    def snapshot(self) -> str:
        """The snapshot that an override would write here: it ends where this log ends (KIP-1347, Snapshot Creation)."""
        return checkpoint_name(self.disk.end_offset, self.epoch)

    @property
    def survivor(self) -> SurvivingDisk:
        """The disk as `surviving_disks` compares it with the others."""
        disk = self.disk
        return SurvivingDisk(
            key=self.key, epoch=self.epoch, end_offset=disk.end_offset, voters=self.voters, intact=disk.intact
        )

    @property
    def epoch(self) -> Epoch:
        """Leader epoch of the last record; 0 where no record was read."""
        return Epoch(0) if self.disk.epoch is None else self.disk.epoch

    @property
    def is_voter(self) -> bool:
        """Whether the newest voter set on this disk holds the node; a broker is never a voter."""
        return self.key.id in self.voters.ids


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
        warnings=tuple(_warnings(assessed, survived, provided)),
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
        "# On a broker that cannot be overridden, remove __cluster_metadata-0 while it is stopped: it fetches the log again. "
        "The KIP rejects this as the general procedure"
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


def _warnings(
    disks: Sequence[AssessedDisk], survived: DiskSurvival | None, provided: Sequence[Voter] | None
) -> Iterable[str]:
    if survived is None:
        yield "no disk of a voter is among these: brokers elect no leader"
    elif not survived.holds_all_committed:
        have, need = plural(len(survived.present), "voter's disk"), survived.needed
        lacking = {"not given": survived.absent, "damaged": survived.damaged}
        yield (
            f"{have} of {len(survived.voters.voters)} do not prove that every committed record is kept: {need} are needed; "
            + "; ".join(f"{why}: {and_join(keys)}" for why, keys in lacking.items() if keys)
        )
    if survived is not None and not survived.electable:
        yield "these voters are not a majority: with new endpoints alone they elect no leader, and records of the other voters may be lost"
    yield from _ends(disks)
    yield from _views(disks)
    for one in disks:
        yield from _of_disk(one)
    old = disks[0].voters.voters
    suffix = None if provided is None else renamed_suffix(old, {each.key.id: each.endpoints[0] for each in provided})
    if suffix:
        yield f"all names change from {suffix[0]} to {suffix[1]}: a renamed domain is the single cause"


def _ends(disks: Sequence[AssessedDisk]) -> Iterable[str]:
    ends = {one.key: (one.epoch, one.disk.end_offset) for one in disks}
    if len(set(ends.values())) > 1:
        text = and_join((f"{key.id} at {end} in epoch {epoch}" for key, (epoch, end) in ends.items()), 20)
        yield f"the logs end at different offsets ({text}): a snapshot at the end of each makes the difference permanent"
    below = max(one.disk.committed_below or 0 for one in disks)
    end = max(one.disk.end_offset for one in disks)
    if below < end:
        yield f"records from offset {below} to {end - 1} may be uncommitted: an override would commit them"


def _views(disks: Sequence[AssessedDisk]) -> Iterable[str]:
    """Yields a warning when nodes hold different voters: an override was done on some nodes only, or a node was missed."""
    views: dict[str, list[NodeId]] = {}
    for one in disks:
        views.setdefault(initial_controllers(one.voters.voters) or "", []).append(one.key.id)
    if len(views) > 1:
        text = "; ".join(f"{and_join(nodes)}: {voters}" for voters, nodes in views.items())
        same = len({one.voters.keys for one in disks}) == 1
        what = "endpoints" if same else "VOTERS, not only endpoints"
        yield f"the nodes hold different {what} ({text}): they connect to different endpoints and may elect different leaders"


def _of_disk(one: AssessedDisk) -> Iterable[str]:
    node, disk = one.key.id, one.disk
    sets = [(each.voters, each.in_snapshot) for each in disk.voter_sets]
    for change in overrides_in(sets, disk.log_from):
        where = f"{node}'s snapshot that ends at offset {change.after.offset + 1}"
        if change.identities_changed:
            what = "holds other voters than the log below it, by id or directory id"
            yield f"CRITICAL: {where} {what}: {_sets(change.before, change.after)}"
        else:
            yield f"{where} holds other endpoints than the log below it: an override was done already"
    for each in disk.damaged:
        yield f"{node}: {each.file} from byte {each.position} on does not count: {each.reason}"
    if not disk.whole:
        yield f"{node}: the log begins at offset {disk.first_offset}, and no whole snapshot covers the records before it"
    for voter, lost in sorted(one.difference.lost_listeners.items()) if one.difference else ():
        names = and_join(each.listener for each in lost)
        yield f"{node}: voter {voter} would lose its listeners {names}: the list holds one endpoint for each voter"


def _sets(before: VoterSet, after: VoterSet) -> str:
    return f"{and_join(sorted(before.keys), 20)} became {and_join(sorted(after.keys), 20)}"
