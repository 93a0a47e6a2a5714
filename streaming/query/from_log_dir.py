"""One controller's log directory as a source: its log replayed as far as it goes, and what else the directory holds.

No node is queried, so rules that need a poll or a probe are unknown. What is committed is unknown too, because a
majority of disks decides it. `LogDirContents.missing` lists both.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

from connectors.logdir import log_dir_files, log_dir_reader
from connectors.logdir.start_files import StartProblem, start_problems
from connectors.observations.observation import Observation
from connectors.observations.point_in_time import AtTime, PointInTime
from rules.formatting import plural
from rules.model.identifiers import Millis, Offset
from streaming.query.as_of import events_upto, require_within
from streaming.replay.cluster_settings import ClusterSettings
from streaming.replay.machine import Machine
from streaming.status.log_dir_status import EmptyLogDir, LogDirContents


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
    start, damaged, continues, newest_ms = log_dir_reader.ReadStart(snapshot=None, offset=0), [], None, None
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
                    newest_ms = max(newest_ms or 0, item.observed_at_ms) or None
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
        newest_ms=None if newest_ms is None else Millis(newest_ms),
        folder=partition,
        meta_properties=meta,
        election=election,
        snapshot=start.snapshot,
        committed_below=Offset(start.offset) if start.snapshot else None,
        first_offset=Offset(start.offset),
        end_offset=end,
        epoch=machine.log.epoch if machine.log.epoch >= 0 else None,
        voter_sets=tuple(file for file in sets if file.voters.offset < end),
        log_from=log_from,
        damaged=tuple(damaged),
        whole=machine.log.image.complete,
        start_problems=(
            *start_problems(partition),
            *_damaged_snapshot(damaged, start, machine),
            *_unreplayable(machine),
        ),
    )


def _damaged_snapshot(
    damaged: Sequence[log_dir_reader.DamagedFile], start: log_dir_reader.ReadStart, machine: Machine
) -> Iterator[StartProblem]:
    """Yields the newest snapshot if it is damaged: Kafka takes it, and we the one before."""
    newest = next((file for file in damaged if file.file.endswith(".checkpoint")), None)
    if newest is None:
        return
    before = "the log from its beginning" if start.snapshot is None else f"{start.snapshot} and the log after it"
    yield StartProblem(
        what=f"{newest.file}, the newest snapshot, is damaged at byte {newest.position} ({newest.reason})",
        effect="Kafka ends at its start, or reads only what is before it",
        step=f"move it away: its start then reads {before}"
        if machine.log.image.complete
        else "set this node up as after the loss of its disk: the log does not reach back to a sound snapshot",
        ends=False,
    )


def _unreplayable(machine: Machine) -> Iterator[StartProblem]:
    """Yields the record at which a start ends, and records of which it is not known whether Kafka accepts them."""
    for record in machine.log.image.unreplayable[:1]:
        after = "the snapshot" if record.snapshot else f"offset {record.offset}"
        yield StartProblem(
            what=f"Kafka cannot replay {record}",
            effect="a controller ends at its start, each time",
            step=f"copy a .checkpoint that ends after {after} from a node that has one into its __cluster_metadata-0; "
            "without one no start succeeds",
        )
    if machine.undecodable:
        yield StartProblem(
            what=f"{plural(machine.undecodable, 'record')} cannot be decoded",
            effect="whether Kafka can replay them is unknown",
            step="look at them with `kraftwatch data decode`, and start this node after the others have a leader",
            ends=False,
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
    newest_ms: int | None,
    upto: PointInTime,
) -> tuple[int, int] | None:
    """Returns the first and last time or offset of the directory, as far as reading it up to `upto` showed."""
    complete = machine.log.image.complete and machine.log.position >= 0
    if isinstance(upto, AtTime):
        first = upto.at_ms if complete else continues.timestamp_ms if continues else None
        last = upto.at_ms if continues else newest_ms
        return None if first is None or last is None else (first, last)
    first = min((snapshot.end_offset - 1 for snapshot in files.snapshots), default=None)
    if files.segments and files.segments[0].base_offset == 0:
        first = 0
    return None if first is None else (max(0, first), machine.log.position if complete else max(0, first))
