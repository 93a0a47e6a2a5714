"""One controller's log directory as a source: its log replayed as far as it goes, and what else the directory holds.

No node is queried, so rules that need a poll or a probe are unknown. What is committed is unknown too, because a
majority of disks decides it. `LogDirContents.missing` lists both.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from connectors.errors import UsageError
from connectors.logdir import log_dir_files, log_dir_reader
from connectors.observations.observation import Observation
from connectors.observations.point_in_time import AtTime, PointInTime
from rules.formatting import and_join
from rules.model.identifiers import Epoch, Millis, Offset, ReplicaKey
from streaming.replay.cluster_settings import ClusterSettings
from streaming.replay.machine import Machine
from streaming.status.as_of import events_upto, require_within


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


@dataclass(frozen=True, slots=True, kw_only=True)
class LogDirContents(LogDirStatus):
    """A log directory, and the state that its log adds up to."""

    machine: Machine = field(repr=False)
    newest_ms: Millis
    """Timestamp of the newest record."""
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
        return self.whole and not any(one.file.endswith(".log") for one in self.damaged)

    @property
    def damage(self) -> log_dir_reader.DamagedFile | None:
        """Where its log is damaged and goes on after that; None if it is not. A torn end is none."""
        return next((one for one in self.damaged if one.file.endswith(".log") and one.resumes_at is not None), None)

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
        for one in self.damaged:
            effect = "are not read, and Kafka may read them" if one.undamaged else "do not count"
            yield f"{one.file} from byte {one.position} on: {one.reason} ({one.size} bytes {effect})"


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


def replay_or_empty(folder: Path) -> LogDirContents | EmptyLogDir:
    """Reads a log directory that may hold no record.

    Raises:
        UsageError: it is no log directory, or may not be read.
    """
    if not log_dir_files.is_empty_log_dir(folder):
        contents = replay_log_dir(folder)
        # Kafka formats a disk with a snapshot that ends at offset 0.
        if contents.end_offset or contents.damaged:
            return contents
    meta = log_dir_files.read_meta_properties(folder / log_dir_files.PARTITION)
    return EmptyLogDir(folder=folder, meta_properties=meta or log_dir_files.read_meta_properties(folder))


def cluster_of(disks: Sequence[LogDirContents]) -> str | None:
    """Returns the cluster id of disks; UsageError if they belong to several clusters."""
    ids = sorted({read.machine.cluster_id or "unknown" for read in disks})
    if len(ids) > 1:
        raise UsageError(f"the disks belong to {len(ids)} clusters ({and_join(ids)}): give those of one")
    return disks[0].machine.cluster_id


def replay_log_dir(folder: Path, upto: PointInTime | None = None) -> LogDirContents:
    """Reads a controller's log directory. Nothing in it is changed or locked: its Kafka may be running.

    Args:
        folder: a metadata.log.dir, or the partition's folder in it.
        upto: the state as of that point in time; None: as far as the log goes.

    Raises:
        UsageError: there is no metadata log, it may not be read, or it does not hold `upto`.
    """
    partition = log_dir_files.find_partition(folder)
    meta = log_dir_files.read_meta_properties(partition)
    machine = Machine(ClusterSettings(name=str(folder), cluster_id=meta.cluster_id if meta else None))
    start, damaged, continues, newest_ms = log_dir_reader.ReadStart(snapshot=None, offset=0), [], None, 0
    with log_dir_files.open_files(partition) as files:
        for item in log_dir_reader.read_log_dir(files, machine.cluster, upto):
            match item:
                case log_dir_reader.ReadStart():
                    start = item
                case log_dir_reader.DamagedFile():
                    damaged.append(item)
                case log_dir_reader.LogContinues():
                    continues = item
                case Observation():
                    newest_ms = max(newest_ms, item.observed_at_ms)
                    events, sequence = events_upto(item, upto), machine.sequence + 1
                    machine.apply(events, sequence=sequence, observed_at_ms=Millis(item.observed_at_ms))
        sets = log_dir_reader.voter_sets_in_files(files)
        log_from = Offset(files.segments[0].base_offset if files.segments else start.offset)
        if upto is not None:
            require_within(upto, _held(files, machine, continues, newest_ms, upto), str(partition))
    election = log_dir_files.read_election_state(partition)
    if upto is None and isinstance(election, log_dir_files.ElectionState):
        _apply_election(machine, election)
    end = Offset(max(machine.log.position + 1, 0))
    return LogDirContents(
        machine=machine,
        newest_ms=Millis(newest_ms),
        folder=partition,
        meta_properties=meta,
        election=election,
        snapshot=start.snapshot,
        committed_below=Offset(start.offset) if start.snapshot else None,
        first_offset=Offset(start.offset),
        end_offset=end,
        epoch=machine.log.epoch if machine.log.epoch >= 0 else None,
        voter_sets=tuple(one for one in sets if one.voters.offset < end),
        log_from=log_from,
        damaged=tuple(damaged),
        whole=machine.log.image.complete,
    )


def _apply_election(machine: Machine, election: log_dir_files.ElectionState) -> None:
    """Takes a newer epoch from `quorum-state`: a snapshot holds no epoch, and a candidate's is in no log yet."""
    leadership = machine.leadership
    if leadership.epoch is None or election.leader_epoch > leadership.epoch:
        leadership.leader_id, leadership.epoch = election.leader_id, election.leader_epoch


def _held(
    files: log_dir_files.LogDirFiles,
    machine: Machine,
    continues: log_dir_reader.LogContinues | None,
    newest_ms: int,
    upto: PointInTime,
) -> tuple[int, int] | None:
    """Returns the first and last time or offset of the directory, as far as reading it up to `upto` showed."""
    complete = machine.log.image.complete and machine.log.position >= 0
    if isinstance(upto, AtTime):
        first = upto.at_ms if complete else continues.timestamp_ms if continues else None
        return None if first is None else (first, upto.at_ms if continues else newest_ms)
    first = min((snapshot.end_offset - 1 for snapshot in files.snapshots), default=None)
    if files.segments and files.segments[0].base_offset == 0:
        first = 0
    return None if first is None else (max(0, first), machine.log.position if complete else max(0, first))
