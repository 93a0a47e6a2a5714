"""A rescue's dry run (KIP-1347): what each disk holds, which to go on with, and what a new list of voters would change.

Nothing is written. The override itself is in no Kafka: this is what has to be known before anybody does it by hand.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from connectors.errors import UsageError
from connectors.logdir.log_dir_files import checkpoint_name
from connectors.sinks.alert_json import iso
from rules.finding import Plain
from rules.formatting import counted, listed
from rules.model.identifiers import Epoch, NodeId, ReplicaKey
from rules.model.voter_set import Voter, VoterSet
from rules.rescue.surviving_disks import Survival, Survivor, overridden, survival
from rules.rescue.voter_override import (
    Difference,
    Outcome,
    compare,
    controllers,
    initial_controllers,
    renamed_suffix,
    spelled,
)
from streaming.status.from_log_dir import Disk, OnDisk


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessed:
    """One disk in the plan."""

    read: OnDisk
    key: ReplicaKey
    voters: VoterSet
    difference: Difference | None
    """Against the list; None where none is given."""

    @property
    def disk(self) -> Disk:
        """What its directory says."""
        return self.read.disk

    @property
    def snapshot(self) -> str:
        """The file that an override would make here: it ends where this log does (KIP-1347, Snapshot Creation)."""
        return checkpoint_name(self.disk.end_offset, self.epoch)

    @property
    def survivor(self) -> Survivor:
        """As it is compared with the others."""
        disk = self.disk
        return Survivor(
            key=self.key, epoch=self.epoch, end_offset=disk.end_offset, voters=self.voters, intact=disk.intact
        )

    @property
    def epoch(self) -> Epoch:
        """Of the last record; of the snapshot where no record came after it."""
        return Epoch(0) if self.disk.epoch is None else self.disk.epoch

    @property
    def is_voter(self) -> bool:
        """By the newest voter set on this very disk; a broker is none."""
        return self.key.id in self.voters.ids


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is known, and what the list would do."""

    cluster_id: str | None
    disks: tuple[Assessed, ...]
    survival: Survival | None
    provided: tuple[Voter, ...] | None
    outcome: Outcome | None
    """The worst of all disks; None where no list is given."""
    warnings: tuple[str, ...]


def plan(disks: Sequence[OnDisk], wanted: str | None) -> Plan:
    """Assess the disks of one cluster.

    Args:
        disks: controllers' and brokers', each once.
        wanted: the new voters as `--initial-controllers` takes them; None: what is there is assessed alone.

    Raises:
        UsageError: a disk is of a static quorum, of nobody or of another cluster; or the list is none.
    """
    known = [_known(read) for read in disks]
    cluster_ids = sorted({read.machine.cluster_id or "unknown" for read in disks})
    if len(cluster_ids) > 1:
        raise UsageError(f"the disks are of {len(cluster_ids)} clusters ({listed(cluster_ids)}): give those of one")
    twice = sorted({key for key, _ in known if [one for one, _ in known].count(key) > 1})
    if twice:
        raise UsageError(f"{listed(twice)} is given twice: give each disk once")
    listener = known[0][1].voters[0].endpoints[0].listener
    provided = None if wanted is None else _provided(wanted, listener)
    assessed = tuple(
        Assessed(
            read=read,
            key=key,
            voters=voters,
            difference=None if provided is None else compare(voters.voters, provided),
        )
        for read, (key, voters) in zip(disks, known, strict=True)
    )
    outcomes = {one.difference.outcome for one in assessed if one.difference}
    order = (Outcome.REJECTED, Outcome.PASSED, Outcome.NO_CHANGE)
    survived = survival(one.survivor for one in assessed)
    return Plan(
        cluster_id=disks[0].machine.cluster_id,
        disks=assessed,
        survival=survived,
        provided=provided,
        outcome=next((outcome for outcome in order if outcome in outcomes), None),
        warnings=tuple(_warnings(assessed, survived, provided)),
    )


def shown(made: Plan) -> dict[str, Plain]:
    """The fields of `rescue plan --json`."""
    survived = made.survival
    return {
        "cluster_id": made.cluster_id,
        "outcome": None if made.outcome is None else made.outcome.value,
        "written": False,
        "go_on_with": [str(key) for key in survived.best] if survived else [],
        "holds_all_committed": survived.holds_all_committed if survived else False,
        "electable": survived.electable if survived else False,
        "absent_voters": [str(key) for key in survived.absent] if survived else [],
        "initial_controllers": initial_controllers(survived.voters.voters) if survived else None,
        "disks": [_shown(one) for one in made.disks],
        "warnings": [*made.warnings],
        "steps": [*steps(made)],
    }


def transcript(one: Assessed, provided: Sequence[Voter]) -> Iterable[str]:
    """What `kafka-storage format --override-voters` would print for this disk, up to where it would write."""
    assert one.difference is not None
    yield f"Storage directory {one.disk.folder.parent} is already formatted."
    yield "Override voters mode enabled, checking if VoterSet needs updating..."
    yield f"Persisted VoterSet: {spelled(one.voters.voters)}"
    yield f"Provided VoterSet (from --initial-controllers): {spelled(provided)}"
    match one.difference.outcome:
        case Outcome.NO_CHANGE:
            yield "No changes detected (VoterSets are equivalent). Override operation skipped, already up to date."
        case Outcome.REJECTED:
            yield f"Changes detected: {one.difference}"
            yield "Error: --override-voters cannot be used for changing node IDs or directory IDs."
        case Outcome.PASSED:
            yield f"Changes detected: {one.difference}"
            yield "Validation: PASSED (only endpoints changed, safe operation)"
            end, epoch = one.disk.end_offset, one.epoch
            yield f"Would create complete snapshot at offset {end}, epoch {epoch} with updated VotersRecord"
            yield f"Would be called: {one.snapshot}"


def steps(made: Plan) -> Iterable[str]:
    """What to do, in order; each one shell command or a sentence that begins with `#`."""
    if made.outcome is not Outcome.PASSED or made.provided is None:
        return
    nodes = [one.key.id for one in made.disks if not one.is_voter]
    brokers = f"Brokers ({listed(nodes)} among them)" if nodes else "Brokers"
    command = (
        f"kafka-storage.sh format --cluster-id {made.cluster_id} --config $NODE_PROPERTIES "
        f"--initial-controllers {initial_controllers(made.provided)} --override-voters"
    )
    yield "# --override-voters is KIP-1347's, which is under discussion: no released Kafka has it"
    ids = listed(voter.key.id for voter in made.provided)
    yield f"# Stop every controller ({ids}), all of them before the first one is overridden"
    yield "# Copy each metadata.log.dir away, so that there is a way back"
    yield "# Put the new names into controller.quorum.bootstrap.servers and advertised.listeners of every node"
    yield "# On each controller's host, with its own configuration file as $NODE_PROPERTIES"
    yield command
    yield "# Start all controllers, and wait for a leader"
    yield f"# {brokers} hold the old voters and dial them, whatever their configuration says: the same, one by one"
    yield command
    yield (
        "# A broker that cannot be overridden may have its __cluster_metadata-0 removed while it is stopped, and "
        "fetches it anew: the KIP rejects that as the rule"
    )


def _known(read: OnDisk) -> tuple[ReplicaKey, VoterSet]:
    folder = read.disk.folder
    key = read.disk.identity.key if read.disk.identity else None
    if key is None:
        raise UsageError(f"{folder}: whose disk this is is not known: copy its meta.properties along")
    quorum = read.machine.quorum()
    if not quorum.kraft_version:
        raise UsageError(
            f"{folder} is of a static quorum: its voters stand in controller.quorum.voters, change them there"
        )
    if quorum.committed is None or not all(voter.endpoints for voter in quorum.committed.voters):
        raise UsageError(f"{folder} holds no voter set with endpoints: nothing of it can be assessed")
    return key, quorum.committed


def _provided(text: str, listener: str) -> tuple[Voter, ...]:
    try:
        return controllers(text, listener)
    except ValueError as problem:
        raise UsageError(f"--initial-controllers: {problem}") from None


def _shown(one: Assessed) -> dict[str, Plain]:
    disk, change = one.disk, one.difference
    return {
        "folder": str(disk.folder),
        "node_id": one.key.id,
        "directory_id": one.key.directory_id,
        "voter": one.is_voter,
        "log_end_offset": disk.end_offset,
        "last_epoch": disk.epoch,
        "committed_below": disk.committed_below,
        "newest_record_at": iso(one.read.newest_ms),
        "voters": initial_controllers(one.voters.voters),
        "voters_offset": one.voters.offset,
        "outcome": change.outcome.value if change else None,
        "difference": str(change) if change else None,
        "snapshot": one.snapshot if change and change.outcome is Outcome.PASSED else None,
    }


def _warnings(disks: Sequence[Assessed], survived: Survival | None, provided: Sequence[Voter] | None) -> Iterable[str]:
    if survived is None:
        yield "no voter's disk is among these: brokers follow, they elect nobody"
    elif not survived.holds_all_committed:
        have, need = counted(len(survived.present), "voter's disk"), survived.needed
        lacking = {"not given": survived.absent, "damaged": survived.damaged}
        yield (
            f"{have} of {len(survived.voters.voters)} cannot show that nothing committed is lost: {need} are needed; "
            + "; ".join(f"{why}: {listed(keys)}" for why, keys in lacking.items() if keys)
        )
    if survived is not None and not survived.electable:
        yield "these voters are no majority: new endpoints alone elect no leader, and what the others held may be lost"
    yield from _ends(disks)
    yield from _views(disks)
    for one in disks:
        yield from _of_disk(one)
    old = disks[0].voters.voters
    suffix = None if provided is None else renamed_suffix(old, {each.key.id: each.endpoints[0] for each in provided})
    if suffix:
        yield f"all names change at once, {suffix[0]} to {suffix[1]}: one renamed domain is the cause of all of it"


def _ends(disks: Sequence[Assessed]) -> Iterable[str]:
    ends = {one.key: (one.epoch, one.disk.end_offset) for one in disks}
    if len(set(ends.values())) > 1:
        said = listed((f"{key.id} at {end} in epoch {epoch}" for key, (epoch, end) in ends.items()), 20)
        yield f"the logs end differently ({said}): a snapshot at each one's own end makes them differ for good"
    below = max(one.disk.committed_below or 0 for one in disks)
    end = max(one.disk.end_offset for one in disks)
    if below < end:
        yield f"records from offset {below} to {end - 1} may be uncommitted: an override would commit them"


def _views(disks: Sequence[Assessed]) -> Iterable[str]:
    """Different voters at different nodes: half of an override was done, or one was left behind."""
    views: dict[str, list[NodeId]] = {}
    for one in disks:
        views.setdefault(initial_controllers(one.voters.voters) or "", []).append(one.key.id)
    if len(views) > 1:
        said = "; ".join(f"{listed(nodes)}: {voters}" for voters, nodes in views.items())
        same = len({one.voters.keys for one in disks}) == 1
        what = "endpoints" if same else "VOTERS, not only endpoints,"
        yield f"the nodes hold different {what} ({said}): they dial different places, and may elect apart"


def _of_disk(one: Assessed) -> Iterable[str]:
    node, disk = one.key.id, one.disk
    sets = [(each.voters, each.in_snapshot) for each in disk.voter_sets]
    for change in overridden(sets, disk.log_from):
        where = f"{node}'s snapshot that ends at offset {change.after.offset + 1}"
        if change.identities_changed:
            what = "has other voters than the log below it, by id or directory"
            yield f"CRITICAL: {where} {what}: {_sets(change.before, change.after)}"
        else:
            yield f"{where} has other endpoints than the log below it: an override was done already"
    for each in disk.breaks:
        yield f"{node}: {each.file} from byte {each.position} on does not count: {each.reason}"
    if not disk.whole:
        yield f"{node}: the log begins at offset {disk.first_offset}, and no whole snapshot tells what came before"
    for voter, lost in sorted(one.difference.lost_listeners.items()) if one.difference else ():
        names = listed(each.listener for each in lost)
        yield f"{node}: voter {voter} would lose its listeners {names}: the list has one a voter"


def _sets(before: VoterSet, after: VoterSet) -> str:
    return f"{listed(sorted(before.keys), 20)} became {listed(sorted(after.keys), 20)}"
