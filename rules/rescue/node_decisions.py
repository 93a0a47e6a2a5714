"""Which surviving disk of a stopped quorum is the most complete, and which nodes get the new voter endpoints.

A record is committed when a majority of the voters has it (KIP-595). So one of enough voters' disks has it
(`rules.rescue.disk_count`), and the most complete log among them (compared by epoch and then by offset, as in an
election) has every committed record: recover from that one. With fewer disks this cannot be known. A damaged disk
counts as a missing one, because the records after the damage may be lost. Records that only the best disk has may never
have been committed.

A node's new snapshot ends where its log ends, and a snapshot counts as committed. So it may only be written where the
log is certain to survive the next election:

- Records that a majority of the voters holds survive (KIP-595). A node whose log ends there or earlier is rescued.
- A node may hold more than a majority: records that were never committed. If a majority can be rescued without it, it
  is left as it is. The new leader reaches it at its new endpoint (BeginQuorumEpoch), it truncates its log as usual, and
  is rescued then. If the majority needs it, it is rescued at once: it is the most complete log, so only it can win the
  election. A broker fetches records before they are committed, so it may hold the same ones: it fetches the log again.
- A log that is no beginning of that log has diverged in an earlier epoch; it is left as well, for the same reason.
- Without a majority of the voters' disks new endpoints do not help: nobody is elected with them.
- A log that is damaged before its end may have held every record of the others. So it counts as a holder of each, and
  as no copy of any: without a majority of other voters nothing is rescued. With it the node is left as it is, because
  its start cuts the log off at the damage.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf

from rules.model.identifiers import Epoch, LogEnd, Offset, ReplicaKey
from rules.model.membership import VoterSet, majority, tolerated_failures
from rules.rescue.disk_count import DiskCount


@dataclass(frozen=True, slots=True, kw_only=True)
class StoppedDisk:
    """The disk of one stopped node: where its log ends, and the newest voter set in it."""

    key: ReplicaKey
    epoch: Epoch
    """Of its last record."""
    end_offset: Offset
    """The offset after its last record."""
    voters: VoterSet
    intact: bool = True
    """False if its log is damaged or its beginning is missing: it once held more."""
    damage: str | None = None
    """Where its log is damaged before its end, as a clause; None if it is not."""
    epoch_ends: Mapping[Epoch, Offset] = field(default_factory=dict)
    """For each leader epoch in the log's segments, the offset after its last record there."""
    epoch_begins: Mapping[Epoch, tuple[Offset, int]] = field(default_factory=dict)
    """For each leader epoch whose beginning is in them, the offset and the checksum of its first batch.

    A quorum that was restored from copies uses its next epoch number again: the number alone names two epochs.
    """
    voted: ReplicaKey | None = None
    """Whom it voted for in the newest epoch that it knows; None if for nobody, or if that is not known."""
    unreadable: str | None = None
    """Why the log cannot be written as a snapshot, as a clause; None if it can."""

    @property
    def position(self) -> LogEnd:
        """What an election compares."""
        return (self.epoch, self.end_offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskSurvival:
    """What the surviving disks hold together."""

    best: tuple[ReplicaKey, ...]
    """The voters with the most complete logs: recovering from one of them loses no record of these disks."""
    voters: VoterSet
    """The voter set in the most complete log."""
    present: tuple[ReplicaKey, ...]
    """Voters whose disks, with their directory ids, are among these."""
    damaged: tuple[ReplicaKey, ...]
    """Those of them that are not intact."""
    unsound: tuple[ReplicaKey, ...]
    """Those of them whose log is damaged before its end."""
    absent: tuple[ReplicaKey, ...]
    """Voters whose disks are missing."""
    unproved: tuple[ReplicaKey, ...]
    """Those of the present whose disks have another directory id, and no vote for themselves with the recorded one."""
    intact: DiskCount
    """How many of the disks are surely as their voters left them."""
    outdated: bool = False
    """Whether another node has records that all voters once had, and lack."""

    @property
    def given(self) -> DiskCount:
        """How many voters' disks are among these."""
        return DiskCount(voters=len(self.voters.keys), disks=len(self.present))

    @property
    def electable(self) -> bool:
        """These voters could elect a leader if all of them ran and reached each other."""
        return self.given.electable

    @property
    def holds_all_committed(self) -> bool:
        """Whether `best` certainly has every record that was committed."""
        return self.proved and not self.outdated

    @property
    def proved(self) -> bool:
        """Whether enough of these disks are as their voters left them, by what is on them alone."""
        return self.intact.holds_all


def disk_survival(disks: Iterable[StoppedDisk], other_ids: Collection[ReplicaKey] = ()) -> DiskSurvival | None:
    """Evaluates the surviving disks; None if none of them is a voter's.

    `other_ids`: the voters whose disks have another directory id (`rules.rescue.directory_ids`), and are given with the
    recorded one.
    """
    ordered = sorted(disks, key=lambda disk: (disk.position, disk.key), reverse=True)
    if not ordered:
        return None
    voters = ordered[0].voters
    of_voters = [disk for disk in ordered if disk.key in voters.keys]
    if not of_voters:
        return None
    positions = {disk.key: disk.position for disk in of_voters}
    unsound = [disk.key for disk in of_voters if disk.damage is not None]
    whole = [disk for disk in of_voters if disk.damage is None] or of_voters
    keys = sorted(voters.keys)
    return DiskSurvival(
        best=tuple(sorted(disk.key for disk in whole if disk.position == whole[0].position)),
        voters=voters,
        present=tuple(sorted(positions)),
        damaged=tuple(sorted(disk.key for disk in of_voters if not disk.intact)),
        unsound=tuple(sorted(unsound)),
        absent=tuple(key for key in keys if key not in positions),
        unproved=tuple(sorted(disk.key for disk in _unproved(of_voters, other_ids))),
        intact=_intact(of_voters, len(keys), other_ids),
    )


def _unproved(of_voters: Iterable[StoppedDisk], other_ids: Collection[ReplicaKey]) -> list[StoppedDisk]:
    return [disk for disk in of_voters if disk.key in other_ids and disk.voted != disk.key]


def _intact(of_voters: Sequence[StoppedDisk], voters: int, other_ids: Collection[ReplicaKey]) -> DiskCount:
    """Returns how many disks are surely as their voters left them.

    A disk with another directory id may have been empty and have fetched the log from a leader. There was one while a
    majority had their own disks: so that is no more of them than the quorum tolerates failures.
    """
    fetched = min(len(_unproved(of_voters, other_ids)), tolerated_failures(voters))
    return DiskCount(voters=voters, disks=sum(disk.intact for disk in of_voters) - fetched)


def overrides_in(
    voter_sets: Iterable[tuple[VoterSet, bool]], log_from: Offset
) -> tuple[tuple[VoterSet, VoterSet], ...]:
    """Returns each override by hand (KIP-1347) in one disk's snapshots: the voter set before it, and the one after.

    `voter_sets`: all of the disk in order of offsets, and whether each is in a snapshot. `log_from`: the oldest offset
    that is still in its log: a change before it may have been an ordinary one.
    """
    found = []
    before: VoterSet | None = None
    for voters, in_snapshot in voter_sets:
        known = before if before is not None and log_from <= before.offset + 1 else None
        if known is not None and in_snapshot and {*voters.voters} != {*known.voters}:
            found.append((known, voters))
        before = voters
    return tuple(found)


class NodeAction(StrEnum):
    """What a rescue does with one node."""

    APPLY = "apply"
    """Write the new endpoints into it."""
    LEAVE = "leave"
    """A controller: start it after the others, unchanged; it is rescued when it has truncated its log."""
    FETCH_AGAIN = "fetch-again"
    """A broker: it gets a new copy of the metadata log from the leader."""
    REFUSE = "refuse"
    """Nothing is written: the reason says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeDecision:
    """What a rescue does with one node, and why, as a clause."""

    key: ReplicaKey
    action: NodeAction
    reason: str


def node_decisions(
    logs: Sequence[StoppedDisk], voters: VoterSet, other_ids: Collection[ReplicaKey] = ()
) -> tuple[NodeDecision, ...]:
    """Decides for each stopped node, in the order of their keys.

    `voters`: the set in the most complete log; `other_ids` as for `disk_survival`.
    """
    of_voters = [log for log in logs if log.key in voters.keys]
    needed = majority(len(voters.voters))
    given = DiskCount(voters=len(voters.voters), disks=len(of_voters))
    if not given.electable:
        held = _intact(of_voters, len(voters.voters), other_ids).held_text
        return _refused(logs, f"{given.too_few('disks are given')}: {held}")
    sound = [log for log in of_voters if log.damage is None]
    if len(sound) < needed:
        return _refused(logs, _unsound([log for log in of_voters if log.damage is not None], len(sound), voters))
    most = max(log.position for log in sound)
    ordered = sorted((most if log.damage is not None else log.position for log in of_voters), reverse=True)
    # If too few logs are a beginning of what a majority holds, the majority needs the most complete log, with records
    # that may be uncommitted: it wins the election.
    ends = (ordered[needed - 1], ordered[0])
    references = [min((log for log in sound if log.position == end), key=lambda log: log.key) for end in ends]
    for survives in references:
        if sum(log.unreadable is None and is_beginning(log, survives) for log in sound) >= needed:
            by_key = sorted(logs, key=lambda log: log.key)
            return tuple(_decision(log, survives, voter=log.key in voters.keys) for log in by_key)
    return _refused(logs, _refusal(of_voters, references[-1], needed))


def held_by_majority(logs: Iterable[StoppedDisk], voters: VoterSet) -> Offset:
    """Returns below which offset a majority of the voters has the records of the most complete log; 0 if none has."""
    of_voters = [log for log in logs if log.key in voters.keys]
    if len(of_voters) < majority(len(voters.voters)):
        return Offset(0)
    whole = max(of_voters, key=lambda log: (log.damage is None, log.position))
    ends = (whole.end_offset if log.damage is not None else _common_end(log, whole) for log in of_voters)
    return sorted(ends, reverse=True)[majority(len(voters.voters)) - 1]


def start_order(decisions: Iterable[NodeDecision], logs: Iterable[StoppedDisk]) -> tuple[ReplicaKey, ...]:
    """Returns the controllers to start first, in order: those that are rescued, the most complete log first."""
    positions = {log.key: log.position for log in logs}
    rescued = [decision.key for decision in decisions if decision.action is NodeAction.APPLY]
    return tuple(sorted(rescued, key=lambda key: (tuple(-part for part in positions[key]), key)))


def _decision(log: StoppedDisk, survives: StoppedDisk, *, voter: bool) -> NodeDecision:
    if log.damage is not None:
        reason = f"its log is damaged {log.damage}"
    elif log.unreadable is None and is_beginning(log, survives):
        same = log.position == survives.position
        reason = "its log holds every record that survives" if same else "its log is a beginning of the surviving log"
        return NodeDecision(key=log.key, action=NodeAction.APPLY, reason=reason)
    elif log.unreadable is not None:
        reason = log.unreadable
    elif log.position > survives.position:
        first, last = survives.end_offset, log.end_offset - 1
        reason = f"no majority of the voters has its records from offset {first} to {last}, so they are not committed"
    else:
        reason = f"its log differs from the others: its end, offset {log.end_offset}, is of epoch {log.epoch}"
    action = NodeAction.LEAVE if voter else NodeAction.FETCH_AGAIN
    return NodeDecision(key=log.key, action=action, reason=reason)


def is_beginning(log: StoppedDisk, whole: StoppedDisk) -> bool:
    """Whether the other log holds all of this one: this one's last epoch goes at least as far there (KIP-595)."""
    if log.position > whole.position or log.epoch >= _contradicted(log, whole):
        return False
    end = whole.epoch_ends.get(log.epoch)
    if end is None:
        # Only a snapshot of the other log may cover it: then its end is committed.
        return not whole.epoch_ends or log.epoch < min(whole.epoch_ends)
    return log.end_offset <= end


def _contradicted(log: StoppedDisk, whole: StoppedDisk) -> float:
    """Returns the first leader epoch that begins otherwise in the other log: the number was used twice."""
    both = log.epoch_begins.keys() & whole.epoch_begins.keys()
    return min((epoch for epoch in both if log.epoch_begins[epoch] != whole.epoch_begins[epoch]), default=inf)


def _common_end(log: StoppedDisk, whole: StoppedDisk) -> Offset:
    """Returns where this log would be cut to follow the other one: they are the same below (KIP-595)."""
    if is_beginning(log, whole):
        return log.end_offset
    different = _contradicted(log, whole)
    common = max((one for one in log.epoch_ends.keys() & whole.epoch_ends.keys() if one < different), default=None)
    return Offset(0) if common is None else min(log.epoch_ends[common], whole.epoch_ends[common])


def _unsound(damaged: Sequence[StoppedDisk], sound: int, voters: VoterSet) -> str:
    where = "; ".join(f"that of controller {log.key.id} is damaged {log.damage}" for log in damaged)
    count = DiskCount(voters=len(voters.voters), disks=sound)
    held = count.held_text if count.holds_all else "records that were committed may be in no other one"
    return f"{count.too_few('logs are given and sound')}: {where}, and {held}"


def _refusal(logs: Sequence[StoppedDisk], survives: StoppedDisk, needed: int) -> str:
    unreadable = [f"{log.key.id}: {log.unreadable}" for log in logs if log.unreadable is not None]
    if unreadable:
        return f"a majority of {needed} voters cannot be rescued: " + "; ".join(unreadable)
    return (
        f"the voters' logs have diverged, so that no {needed} of them agree with the most complete one, "
        f"of controller {survives.key.id}"
    )


def _refused(logs: Iterable[StoppedDisk], reason: str) -> tuple[NodeDecision, ...]:
    keys = sorted(log.key for log in logs)
    return tuple(NodeDecision(key=key, action=NodeAction.REFUSE, reason=reason) for key in keys)
