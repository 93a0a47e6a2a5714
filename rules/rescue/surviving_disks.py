"""Which of the disks that are left holds the most, and whether that is everything that was ever committed.

A record is committed when a majority of the voters has it (KIP-595). So of any `n - n//2` voters' disks one has it, and
the most complete log among them, by epoch and then by offset as an election compares logs, has all that is committed:
that is the one to go on with. With fewer disks nobody can say so; a damaged one tells no more than one that is missing,
for what it had may stand behind the damage. What the best has beyond may never have been committed.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from rules.analysis.electability import Position, VoterStanding, electability
from rules.model.identifiers import Epoch, Offset, ReplicaKey
from rules.model.voter_set import VoterSet


@dataclass(frozen=True, slots=True, kw_only=True)
class Survivor:
    """One disk: whose it is, where its log ends, and the newest voter set in it."""

    key: ReplicaKey
    epoch: Epoch
    """Of its last record."""
    end_offset: Offset
    """The offset after its last record."""
    voters: VoterSet
    intact: bool = True
    """False where its log is damaged or lacks its beginning: it once held more than this."""

    @property
    def position(self) -> Position:
        """What an election compares."""
        return (self.epoch, self.end_offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class Survival:
    """What these disks are worth together."""

    best: tuple[ReplicaKey, ...]
    """The voters whose logs go furthest: to go on with one of them loses nothing that any of these disks has."""
    voters: VoterSet
    """By the furthest log."""
    present: tuple[ReplicaKey, ...]
    """Voters whose disks, with their directory ids, are among these."""
    damaged: tuple[ReplicaKey, ...]
    """Those of them that are not intact."""
    absent: tuple[ReplicaKey, ...]
    """Voters whose disks are not."""
    needed: int
    """How many voters' disks it takes to know that one of them has everything committed."""
    electable: bool
    """These voters, all started and reaching each other, could elect a leader."""

    @property
    def holds_all_committed(self) -> bool:
        """`best` has every record that was ever committed."""
        return len(self.present) - len(self.damaged) >= self.needed


def survival(disks: Iterable[Survivor]) -> Survival | None:
    """Judge the disks that are left; None when none of them is a voter's.

    Args:
        disks: of one cluster, each once; brokers' too.
    """
    given = sorted(disks, key=lambda disk: (disk.position, disk.key), reverse=True)
    if not given:
        return None
    voters = given[0].voters
    left = [disk for disk in given if disk.key in voters.keys]
    if not left:
        return None
    positions = {disk.key: disk.position for disk in left}
    keys = sorted(voters.keys)
    elected = electability(
        VoterStanding(key=key, alive=key in positions, reachable=True, position=positions.get(key)) for key in keys
    )
    return Survival(
        best=tuple(sorted(disk.key for disk in left if disk.position == left[0].position)),
        voters=voters,
        present=tuple(sorted(positions)),
        damaged=tuple(sorted(disk.key for disk in left if not disk.intact)),
        absent=tuple(key for key in keys if key not in positions),
        needed=len(keys) - len(keys) // 2,
        electable=elected.electable,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Overridden:
    """A snapshot whose voter set is not the one that the log below it tells: somebody wrote it (KIP-1347)."""

    before: VoterSet
    after: VoterSet

    @property
    def identities_changed(self) -> bool:
        """Node ids or directory ids differ, not endpoints alone: no override of the KIP does that."""
        return self.before.keys != self.after.keys


def overridden(told: Iterable[tuple[VoterSet, bool]], log_from: Offset) -> tuple[Overridden, ...]:
    """The snapshots of one disk that changed its voters.

    Args:
        told: every voter set of the disk in order of offsets, and whether a snapshot told it.
        log_from: the oldest offset that is still in its log: a change before that may have been an ordinary one.
    """
    found = []
    before: VoterSet | None = None
    for voters, in_snapshot in told:
        known = before if before is not None and log_from <= before.offset + 1 else None
        if known is not None and in_snapshot and {*voters.voters} != {*known.voters}:
            found.append(Overridden(before=known, after=voters))
        before = voters
    return tuple(found)
