"""One disk in a rescue plan."""

from collections.abc import Mapping
from dataclasses import dataclass

from connectors.errors import UsageError
from connectors.logdir.complete_log import read_complete_log
from connectors.logdir.log_dir_files import checkpoint_name, open_files
from rules.model.identifiers import Epoch, Offset, ReplicaKey
from rules.model.voter_set import VoterSet
from rules.rescue.node_decisions import StoppedLog
from rules.rescue.surviving_disks import SurvivingDisk
from rules.rescue.voter_override import OverrideDifference
from streaming.status.from_log_dir import LogDirContents, ReplayedLogDir


@dataclass(frozen=True, slots=True, kw_only=True)
class AssessedDisk:
    """One disk in the plan."""

    replayed: ReplayedLogDir
    key: ReplicaKey
    voters: VoterSet
    difference: OverrideDifference | None
    """Between its voters and the given list; None without a list."""
    log: StoppedLog
    """Where its log ends, and whether it can be written as a snapshot."""

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


def assess(
    read: ReplayedLogDir, key: ReplicaKey, voters: VoterSet, difference: OverrideDifference | None
) -> AssessedDisk:
    """Returns the disk with where its log ends, read as it would be written to a snapshot."""
    disk = read.contents
    epoch = Epoch(0) if disk.epoch is None else disk.epoch
    epoch_ends: Mapping[Epoch, Offset] = {}
    unreadable = None
    try:
        with open_files(disk.folder) as files:
            epoch_ends = read_complete_log(files).epoch_ends
    except UsageError as error:
        unreadable = str(error)
    log = StoppedLog(key=key, epoch=epoch, end_offset=disk.end_offset, epoch_ends=epoch_ends, unreadable=unreadable)
    return AssessedDisk(replayed=read, key=key, voters=voters, difference=difference, log=log)
