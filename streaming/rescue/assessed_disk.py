"""One disk in a rescue plan."""

from dataclasses import dataclass

from connectors.logdir.log_dir_files import checkpoint_name
from rules.model.identifiers import Epoch, ReplicaKey
from rules.model.voter_set import VoterSet
from rules.rescue.surviving_disks import SurvivingDisk
from rules.rescue.voter_override import (
    VoterSetDifference,
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
