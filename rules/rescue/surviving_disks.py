"""Which of the surviving disks has the most complete metadata log, and whether it has everything that was committed.

A record is committed when a majority of the voters has it (KIP-595). So one of any `n - n//2` voters' disks has it, and
the most complete log among them (compared by epoch and then by offset, as in an election) has every committed record:
recover from that one. With fewer disks this cannot be known. A damaged disk counts as a missing one, because the
records after the damage may be lost. Records that only the best disk has may never have been committed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from rules.analysis.electability import Position
from rules.model.identifiers import Epoch, Offset, ReplicaKey
from rules.model.membership import VoterSet, majority, tolerated_failures


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
    epoch_ends: Mapping[Epoch, Offset] = field(default_factory=dict)
    """For each leader epoch in the log's segments, the offset after its last record there."""
    unreadable: str | None = None
    """Why the log cannot be written as a snapshot, as a clause; None if it can."""

    @property
    def position(self) -> Position:
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
    absent: tuple[ReplicaKey, ...]
    """Voters whose disks are missing."""
    needed: int
    """How many voters' disks are needed to know that one of them has every committed record."""
    electable: bool
    """These voters could elect a leader if all of them ran and reached each other."""

    @property
    def holds_all_committed(self) -> bool:
        """Whether `best` certainly has every record that was committed."""
        return len(self.present) - len(self.damaged) >= self.needed


def disk_survival(disks: Iterable[StoppedDisk]) -> DiskSurvival | None:
    """Evaluates the surviving disks; None if none of them is a voter's."""
    ordered = sorted(disks, key=lambda disk: (disk.position, disk.key), reverse=True)
    if not ordered:
        return None
    voters = ordered[0].voters
    of_voters = [disk for disk in ordered if disk.key in voters.keys]
    if not of_voters:
        return None
    positions = {disk.key: disk.position for disk in of_voters}
    keys = sorted(voters.keys)
    return DiskSurvival(
        best=tuple(sorted(disk.key for disk in of_voters if disk.position == of_voters[0].position)),
        voters=voters,
        present=tuple(sorted(positions)),
        damaged=tuple(sorted(disk.key for disk in of_voters if not disk.intact)),
        absent=tuple(key for key in keys if key not in positions),
        needed=tolerated_failures(len(keys)) + 1,
        electable=len(positions) >= majority(len(keys)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotOverride:
    """A snapshot with another voter set than the log before it: the set was overridden by hand (KIP-1347)."""

    before: VoterSet
    after: VoterSet

    @property
    def identities_changed(self) -> bool:
        """Whether node ids or directory ids differ and not only endpoints: no override of the KIP does that."""
        return self.before.keys != self.after.keys


def overrides_in(voter_sets: Iterable[tuple[VoterSet, bool]], log_from: Offset) -> tuple[SnapshotOverride, ...]:
    """Returns the overrides in one disk's snapshots.

    Args:
        voter_sets: every voter set of the disk in order of offsets, and whether it is in a snapshot.
        log_from: the oldest offset that is still in its log: a change before it may have been an ordinary one.
    """
    found = []
    before: VoterSet | None = None
    for voters, in_snapshot in voter_sets:
        known = before if before is not None and log_from <= before.offset + 1 else None
        if known is not None and in_snapshot and {*voters.voters} != {*known.voters}:
            found.append(SnapshotOverride(before=known, after=voters))
        before = voters
    return tuple(found)
