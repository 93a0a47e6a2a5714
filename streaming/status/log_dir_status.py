"""What a controller's log directory holds: the state that its log adds up to, and what one disk does not say."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from connectors.errors import UsageError
from connectors.logdir import log_dir_files, log_dir_reader
from connectors.logdir.start_files import StartProblem
from rules.formatting import and_join
from rules.model.identifiers import Epoch, Millis, Offset, ReplicaKey
from streaming.replay.machine import Machine


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirStatus:
    """What a metadata log directory holds beside the quorum's state."""

    folder: Path
    """Path of the directory."""
    meta_properties: log_dir_files.MetaProperties | None
    """The file `meta.properties`; None if it cannot be read."""
    election: log_dir_files.ElectionState | str
    """The file `quorum-state`, or why it cannot be read."""
    snapshot: str | None
    """The `.checkpoint` file that the replay began with."""
    committed_below: Offset | None
    """Records below this offset are committed, by that snapshot; later records may be uncommitted."""
    first_offset: Offset
    """Offset of the first record that was read from the log."""
    end_offset: Offset
    """The offset after the last record that was read."""
    epoch: Epoch | None
    """Leader epoch of the last record that was read; None if no record was read."""
    voter_sets: tuple[log_dir_reader.VoterSetInFile, ...]
    """Every voter set in the directory, oldest first."""
    damaged: tuple[log_dir_reader.DamagedFile, ...]
    """Where files are torn or damaged: what follows in the file is not read."""
    whole: bool
    """The state reaches back to the log's beginning."""
    start_problems: tuple[StartProblem, ...]
    """What keeps the node from its start, or from reading all that is here; the node runs on if it runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirContents(LogDirStatus):
    """A log directory, and the state that its log adds up to."""

    machine: Machine = field(repr=False)
    newest_ms: Millis | None
    """Timestamp of the newest record; None without one: the snapshot of a formatted disk has no time."""
    log_from: Offset
    """The oldest offset that the directory's segments still hold."""

    @property
    def key(self) -> ReplicaKey:
        """The node that the disk belongs to; UsageError if its meta.properties is missing or does not say it."""
        key = self.meta_properties.key if self.meta_properties else None
        if key is None:
            raise UsageError(f"{self.folder}: the node is unknown: copy its meta.properties too")
        return key

    @property
    def intact(self) -> bool:
        """Whether everything that was ever written to the log was read, from the log or from a whole snapshot."""
        return self.whole and not any(file.file.endswith(".log") for file in self.damaged)

    @property
    def damage(self) -> log_dir_reader.DamagedFile | None:
        """Where its log is damaged and goes on after that; None if it is not. A torn end is none."""
        return next((file for file in self.damaged if file.file.endswith(".log") and file.resumes_at is not None), None)

    @property
    def missing(self) -> tuple[str, ...]:
        """What one disk does not hold, and which of its files cannot be read, as text."""
        return tuple(self._missing())

    def _missing(self) -> Iterable[str]:
        below = f"records from offset {self.committed_below} on" if self.committed_below else "its records"
        yield f"which records are committed: one disk does not show whether a majority of voters holds {below}"
        yield "DescribeQuorum and the voters' endpoints: no node was queried"
        if not self.whole:
            yield f"the log before offset {self.first_offset}: it begins there, and no whole snapshot covers the rest"
        if self.meta_properties is None:
            yield "which node the disk belongs to: there is no meta.properties"
        if isinstance(self.election, str):
            yield f"the last election: {self.election}"
        for file in self.damaged:
            effect = "are not read, and Kafka may read them" if file.undamaged else "do not count"
            yield f"{file.file} from byte {file.position} on: {file.reason} ({file.size} bytes {effect})"


@dataclass(frozen=True, slots=True, kw_only=True)
class EmptyLogDir:
    """A log directory without a record: of a new disk, or of a node that was formatted and has fetched nothing."""

    folder: Path
    meta_properties: log_dir_files.MetaProperties | None
    """None before the disk is formatted."""

    @property
    def key(self) -> ReplicaKey | None:
        """The node that it was formatted for; None if it was not."""
        return self.meta_properties.key if self.meta_properties else None


def cluster_of(disks: Sequence[LogDirContents]) -> str | None:
    """Returns the cluster id of disks; UsageError if they belong to several clusters."""
    ids = sorted({read.machine.cluster_id or "unknown" for read in disks})
    if len(ids) > 1:
        raise UsageError(f"the disks belong to {len(ids)} clusters ({and_join(ids)}): give those of one")
    return disks[0].machine.cluster_id
