"""A dry run of a rescue (KIP-1347): what each disk holds, which one to continue with, and what new voters would change.

Nothing is written. No released Kafka has the override: this is what an operator must know before doing it by hand.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from connectors.errors import UsageError
from connectors.logdir.complete_log import read_complete_log
from connectors.logdir.log_dir_files import ElectionState, checkpoint_name, open_files
from rules.formatting import and_join, numbered, plural
from rules.model.history import is_rebuilt
from rules.model.identifiers import Epoch, NodeId, Offset, ReplicaKey
from rules.model.membership import Voter, VoterSet
from rules.rescue.directory_ids import is_copy, other_ids
from rules.rescue.lost_majority import NewQuorum
from rules.rescue.node_decisions import (
    DiskSurvival,
    NodeAction,
    NodeDecision,
    StoppedDisk,
    disk_survival,
    held_by_majority,
    is_beginning,
    node_decisions,
    overrides_in,
)
from rules.rescue.voter_override import (
    OverrideDifference,
    OverrideOutcome,
    compare,
    initial_controllers,
    parse_controllers,
    registered_voters,
    voter_set_text,
)
from streaming.status.log_dir_status import EmptyLogDir, LogDirContents, cluster_of


@dataclass(frozen=True, slots=True, kw_only=True)
class AssessedDisk(StoppedDisk):
    """One disk in the plan. Its key is that of the voter whose log it has, also under another directory id."""

    disk: LogDirContents
    difference: OverrideDifference | None
    """Between its voters and the given list; None without a list."""

    @property
    def snapshot(self) -> str:
        """The snapshot that an override would write here: it ends where this log ends (KIP-1347, Snapshot Creation)."""
        return checkpoint_name(self.end_offset, self.epoch)

    @property
    def other_id(self) -> bool:
        """Whether it has a voter's log under another directory id, or none."""
        return self.key.directory_id not in (None, self.disk.key.directory_id)

    @property
    def is_voter(self) -> bool:
        """Whether the newest voter set on this disk holds the node, with whatever disk; a broker is never a voter."""
        return self.key.id in self.voters.ids


def assess(
    disk: LogDirContents, voters: VoterSet, difference: OverrideDifference | None, *, static: bool = False
) -> AssessedDisk:
    """Returns the disk with where its log ends, read as it would be written to a snapshot."""
    epoch_ends: Mapping[Epoch, Offset] = {}
    epoch_begins: Mapping[Epoch, tuple[Offset, int]] = {}
    unreadable = None
    try:
        with open_files(disk.folder) as files:
            log = read_complete_log(files, static=static)
        epoch_ends, epoch_begins = log.epoch_ends, log.epoch_begins
    except UsageError as error:
        unreadable = str(error)
    damage = disk.damage
    return AssessedDisk(
        key=_key(disk, static=static),
        epoch=Epoch(0) if disk.epoch is None else disk.epoch,
        end_offset=disk.end_offset,
        voters=voters,
        intact=disk.intact,
        damage=None
        if damage is None
        else f"at offset {disk.end_offset} ({damage.file}, byte {damage.position}) and goes on at {damage.resumes_at}",
        epoch_ends=epoch_ends,
        epoch_begins=epoch_begins,
        voted=disk.election.voted if isinstance(disk.election, ElectionState) else None,
        unreadable=unreadable,
        disk=disk,
        difference=difference,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RescuePlan:
    """The assessment of all disks, and what the given list would change."""

    cluster_id: str | None
    disks: tuple[AssessedDisk, ...]
    empty: tuple[EmptyLogDir, ...]
    """Log directories without a record: whatever their node was, they are not a voter's."""
    survival: DiskSurvival | None
    newer_brokers: tuple[AssessedDisk, ...]
    """Brokers with records that no voter has, although every voter's disk is given."""
    later: frozenset[ReplicaKey]
    """Voters whose disks have another directory id, and fetch from a leader before they get the recorded one back."""
    provided: tuple[Voter, ...] | None
    outcome: OverrideOutcome | None
    """The worst of all disks; None without a list."""
    warnings: tuple[str, ...]
    decisions: tuple[NodeDecision, ...]
    """What a rescue does with each node."""
    static: bool
    """Of a static quorum (kraft.version 0): its voters are in each node's configuration, and have no directory ids."""
    proposed: tuple[Voter, ...] | None
    """Without a list: the voters with the endpoints that the controllers registered, where these differ from the
    recorded ones; None if they are the same."""
    quorum: NewQuorum | None = None
    """With `--lost`: the quorum of the voters that are left."""

    @property
    def refusal(self) -> str | None:
        """Why nothing may be written to any node; None if it may, or if there is nothing to write."""
        if self.quorum is not None:
            return self.quorum.refusal
        if self.outcome is OverrideOutcome.REJECTED:
            return "node ids or directory ids change"
        if self.outcome is not OverrideOutcome.PASSED:
            return None
        if any(disk.difference is not None and disk.difference.lost_listeners for disk in self.disks):
            return "the list holds one endpoint for each voter, and other recorded listeners would be lost"
        if self.other_ids:
            return f"the directory ids of {controllers(disk.key for disk in self.other_ids)} must be written back first"
        return self.obstacle

    @property
    def obstacle(self) -> str | None:
        """Why no list could be written to any node, as a clause; None if one could."""
        return min(
            (decision.reason for decision in self.decisions if decision.action is NodeAction.REFUSE), default=None
        )

    def keeps_id(self, empty: EmptyLogDir) -> bool:
        """Whether an empty disk has the directory id of a voter: it was restored or formatted with the former one."""
        return self.survival is not None and not self.static and empty.key in self.survival.voters.keys

    def decision(self, key: ReplicaKey) -> NodeDecision:
        """Returns what a rescue does with one of the nodes."""
        return next(one for one in self.decisions if one.key == key)

    @property
    def startable(self) -> tuple[ReplicaKey, ...]:
        """The voters that only have to be started, with their recorded directory ids.

        No endpoint changes, and a majority of sound logs is there.
        """
        survival = self.survival
        unchanged = self.outcome is OverrideOutcome.NO_CHANGE or (self.provided is None and self.proposed is None)
        same = len({disk.voters.voters for disk in self.disks}) == 1
        if survival is None or self.quorum is not None or not unchanged or not same:
            return ()
        ending = {disk.key for disk in self.ending}
        sound = tuple(key for key in survival.present if key not in {*survival.unsound, *ending, *self.later})
        return sound if len(sound) >= survival.voters.majority else ()

    @property
    def ending(self) -> tuple[AssessedDisk, ...]:
        """The disks whose node does not start, or is not known to start, with what is beside and in its log."""
        return tuple(disk for disk in self.disks if disk.disk.start_problems)

    @property
    def must_be_repaired(self) -> bool:
        """Whether the voters that would start are no majority, and those that would not are why."""
        survival, ending = self.survival, {disk.key for disk in self.ending}
        if survival is None:
            return False
        starting = [key for key in survival.present if key not in ending]
        return survival.electable and len(starting) < survival.voters.majority

    @property
    def other_ids(self) -> tuple[AssessedDisk, ...]:
        """The disks of voters that get their recorded directory id back."""
        return tuple(disk for disk in self.disks if disk.other_id and disk.key not in self.later)

    @property
    def observers(self) -> tuple[ReplicaKey, ...]:
        """The controllers whose disks have a record, and no voter's directory id until a leader is elected."""
        return tuple(
            disk.key
            for disk in self.disks
            if disk.key in self.later or (disk.is_voter and disk.key not in disk.voters.keys)
        )

    @property
    def damaged(self) -> tuple[AssessedDisk, ...]:
        """The disks of voters whose log is damaged before its end."""
        return tuple(disk for disk in self.disks if disk.is_voter and disk.damage is not None)


def make_plan(found: Sequence[LogDirContents | EmptyLogDir], wanted: str | None) -> RescuePlan:
    """Assesses the disks of one cluster.

    Args:
        found: of controllers and brokers, each once.
        wanted: the new voters as `--initial-controllers` takes them; None: only the disks are assessed.

    Raises:
        UsageError: a disk belongs to an unknown node or to another cluster, or to a static quorum for which a list is
            given; or the list is invalid; or no disk holds a record.
    """
    disks = [one for one in found if isinstance(one, LogDirContents)]
    empty = tuple(one for one in found if isinstance(one, EmptyLogDir))
    if not disks:
        raise UsageError(
            f"{and_join(one.folder for one in empty)}: empty, not a voter: no log directory with a record is given"
        )
    static = wanted is None and not any(read.machine.quorum().kraft_version for read in disks)
    keys = [_key(read, static=static) for read in disks]
    voter_sets = [_static_voters(read) if static else _voters(read) for read in disks]
    cluster_id = cluster_of(disks)
    twice = sorted({key for key in keys if keys.count(key) > 1})
    if twice:
        raise UsageError(f"{and_join(twice)} is given twice: give each disk once")
    try:
        listener = "" if static else voter_sets[0].voters[0].endpoints[0].listener
        provided = None if wanted is None else parse_controllers(wanted, listener)
    except ValueError as problem:
        raise UsageError(f"--initial-controllers: {problem}") from None
    assessed = tuple(
        assess(read, voters, None if provided is None else compare(voters.voters, provided), static=static)
        for read, voters in zip(disks, voter_sets, strict=True)
    )
    outcomes = {disk.difference.outcome for disk in assessed if disk.difference}
    order = (OverrideOutcome.REJECTED, OverrideOutcome.PASSED, OverrideOutcome.NO_CHANGE)
    best = max(assessed, key=lambda one: one.position)
    recorded = best.voters.voters
    others = [disk for disk in assessed if disk.is_voter and disk.key not in best.voters.keys]
    copied = [disk.key for disk in others if is_copy(disk, assessed, best.voters)]
    of_others = other_ids(assessed, best.voters)
    assessed = tuple(replace(disk, key=of_others.keys.get(disk.key, disk.key)) for disk in assessed)
    survived = disk_survival(assessed, of_others.keys.values())
    newer = _newer_brokers(assessed, survived)
    if survived is not None and newer:
        survived = replace(survived, outdated=True)
    registered = registered_voters(recorded, best.disk.machine.quorum().controllers)
    return RescuePlan(
        cluster_id=cluster_id,
        disks=assessed,
        empty=empty,
        survival=survived,
        provided=provided,
        outcome=next((outcome for outcome in order if outcome in outcomes), None),
        newer_brokers=newer,
        later=of_others.later,
        warnings=(
            *_warnings(assessed, survived),
            *_newer(newer),
            *_copies(copied),
            *_empty(empty, cluster_id, survived),
        ),
        decisions=node_decisions(assessed, best.voters, of_others.keys.values()),
        static=static,
        proposed=registered if provided is None and registered != recorded else None,
    )


def controllers(keys: Iterable[ReplicaKey]) -> str:
    """Returns the controllers by their ids, as text."""
    return numbered("controller", [key.id for key in keys], 20)


def recorded_voters(voters: VoterSet) -> str:
    """Returns the voters as a list for `--initial-controllers`; of a static quorum, their node ids."""
    return initial_controllers(voters.voters) or and_join(sorted(voters.ids))


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


def _key(read: LogDirContents, *, static: bool) -> ReplicaKey:
    """Returns the node of a disk; a voter of a static quorum is any disk of the node."""
    return ReplicaKey(id=read.key.id, directory_id=None) if static else read.key


def _static_voters(read: LogDirContents) -> VoterSet:
    """Returns the voters of the node's configuration, as its quorum-state has them, with their newest endpoints."""
    ids = read.election.static_voters if isinstance(read.election, ElectionState) else ()
    if not ids:
        why = read.election if isinstance(read.election, str) else "its quorum-state names none"
        raise UsageError(f"{read.folder} belongs to a static quorum, and its voters are unknown: {why}")
    registered = read.machine.quorum().controllers
    voters = tuple(
        Voter(
            key=ReplicaKey(id=node, directory_id=None),
            endpoints=registered[node].endpoints[:1] if node in registered else (),
        )
        for node in sorted(ids)
    )
    return VoterSet(voters=voters, offset=Offset(0), leader_epoch=Epoch(0), timestamp_ms=None)


def _voters(read: LogDirContents) -> VoterSet:
    folder, quorum = read.folder, read.machine.quorum()
    if not quorum.kraft_version:
        raise UsageError(
            f"{folder} belongs to a static quorum: its voters are in controller.quorum.voters, change them there"
        )
    voters = () if quorum.committed is None else quorum.committed.voters
    if quorum.committed is None or not voters or not all(voter.endpoints for voter in voters):
        raise UsageError(f"{folder} holds no voter set with endpoints: it cannot be assessed")
    return quorum.committed


def _warnings(disks: Sequence[AssessedDisk], survived: DiskSurvival | None) -> Iterable[str]:
    """Yields what an operator must know before an override."""
    if survived is None:
        yield "none of these disks belongs to a voter: brokers cannot elect a leader"
    elif not survived.proved:
        have, need = plural(len(survived.present), "voter's disk"), survived.given.needed
        lacking = {
            "not given": survived.absent,
            "damaged": survived.damaged,
            "with another directory id": survived.unproved,
        }
        yield (
            f"{have} of {len(survived.voters.voters)} do not prove that no committed record is lost ({need} needed); "
            + "; ".join(f"{why}: {and_join(keys)}" for why, keys in lacking.items() if keys)
        )
    if survived is not None and not survived.electable:
        lost = "" if survived.holds_all_committed else ", and records of the other voters may be lost"
        yield f"these voters are not a majority: with new endpoints alone they cannot elect a leader{lost}"
    yield from _ends(disks, None if survived is None else survived.voters)
    yield from _views(disks)
    for key in survived.unsound if survived is not None else ():
        damaged = next(disk for disk in disks if disk.key == key)
        yield f"the log of {key.id} is damaged {damaged.damage}: what it holds from there on is not counted"
    for one in disks:
        yield from _of_disk(one)


def _newer_brokers(disks: Sequence[AssessedDisk], survived: DiskSurvival | None) -> tuple[AssessedDisk, ...]:
    """Returns the brokers whose logs are no beginning of the most complete log of all voters.

    A broker fetches from a leader, and that is a voter: with all of them given, one of them had these records.
    """
    if survived is None or survived.absent:
        return ()
    whole = next(disk for disk in disks if disk.key == survived.best[0])
    return tuple(disk for disk in disks if not disk.is_voter and not is_beginning(disk, whole))


def _newer(brokers: Iterable[AssessedDisk]) -> Iterable[str]:
    for one in brokers:
        yield (
            f"broker {one.key.id} has records that no voter's disk has, up to offset {one.disk.end_offset} of epoch "
            f"{one.epoch}: the controllers' disks are older copies, or lost their ends with their hosts' power"
        )


def _copies(copied: Iterable[ReplicaKey]) -> Iterable[str]:
    for key in copied:
        yield (
            f"{key} has the directory id of another node: its disk or its meta.properties was copied. A copied disk "
            f"has nothing that controller {key.id} acknowledged. If only meta.properties was copied, write the "
            f"recorded directory id of controller {key.id} into it and plan again"
        )


def _empty(empty: Sequence[EmptyLogDir], cluster_id: str | None, survived: DiskSurvival | None) -> Iterable[str]:
    for one in empty:
        of = one.meta_properties.cluster_id if one.meta_properties else None
        other = f", and it is formatted for cluster {of}" if of not in (None, cluster_id) else ""
        former = survived.voters.by_id(one.key.id) if survived is not None and one.key is not None else None
        lost = f"; voter {former.key} is lost, unless its disk is elsewhere" if former is not None else ""
        yield f"{one.folder} holds no record: empty, not a voter{other}{lost}"


def _ends(disks: Sequence[AssessedDisk], voters: VoterSet | None) -> Iterable[str]:
    ends = {disk.key: (disk.epoch, disk.disk.end_offset) for disk in disks}
    if len(set(ends.values())) > 1:
        text = and_join((f"{key.id} at {end} in epoch {epoch}" for key, (epoch, end) in ends.items()), 20)
        yield f"the logs end at different offsets ({text})"
    below = max(disk.disk.committed_below or 0 for disk in disks)
    if voters is not None:
        # What a majority of the voters holds is committed, or will be by the next leader.
        below = max(below, held_by_majority(disks, voters))
    end = max(disks, key=lambda one: one.position).disk.end_offset
    if below < end:
        yield f"records from offset {below} to {end - 1} may be uncommitted: too few of these disks hold them"


def _views(disks: Sequence[AssessedDisk]) -> Iterable[str]:
    """Yields a warning when nodes hold different voters: an override was done on some nodes only."""
    views: dict[str, list[NodeId]] = {}
    for disk in disks:
        views.setdefault(recorded_voters(disk.voters), []).append(disk.key.id)
    if len(views) > 1:
        text = "; ".join(f"{and_join(nodes)}: {voters}" for voters, nodes in views.items())
        same = len({one.voters.keys for one in disks}) == 1
        what = "endpoints" if same else "VOTERS, not only endpoints"
        yield (
            f"the nodes hold different {what} ({text}): they connect to different endpoints and may elect different "
            "leaders"
        )


def _of_disk(one: AssessedDisk) -> Iterable[str]:
    node, disk = one.key.id, one.disk
    sets = [(file.voters, file.in_snapshot) for file in disk.voter_sets]
    for before, after in overrides_in(sets, disk.log_from):
        where = f"{node}'s snapshot that ends at offset {after.offset + 1}"
        if before.keys != after.keys and is_rebuilt(after.leader_epoch or Epoch(0)):
            gone = and_join(sorted(before.keys - after.keys), 20)
            yield f"{where} begins a quorum without {gone}, by `rescue apply --lost`: what only these had is lost"
        elif before.keys != after.keys:
            what = "holds other voters than the log below it, by id or directory id"
            old, new = (and_join(sorted(each.keys), 20) for each in (before, after))
            yield f"CRITICAL: {where} {what}: {old} became {new}"
        else:
            yield f"{where} holds other endpoints than the log below it: an override was done already"
    for each in disk.damaged:
        yield f"{node}: {each.file} is ignored from byte {each.position} on: {each.reason}"
    if not disk.whole:
        yield f"{node}: the log begins at offset {disk.first_offset}, and no whole snapshot covers the earlier records"
    for voter, lost in sorted(one.difference.lost_listeners.items()) if one.difference else ():
        names = and_join(endpoint.listener for endpoint in lost)
        yield f"{node}: voter {voter} would lose its listeners {names}: the list holds one endpoint for each voter"
