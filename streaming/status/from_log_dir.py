"""One controller's disk as a source: its log replayed as far as it goes, and what else the directory says.

Nobody is asked, so what needs a poll or a look at an endpoint cannot be told; nor can what is committed, because that
is decided by a majority of disks. `Disk.missing` says so in words.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from connectors.event import Event
from connectors.logdir.log_dir_files import Files, opened, partition_of
from connectors.logdir.log_dir_reader import Begun, Beyond, Break, read
from connectors.logdir.meta_properties import Identity, identity
from connectors.logdir.quorum_state import ElectionState, election_state
from connectors.logdir.voter_set_history import Recorded, voter_sets
from connectors.observation import Observation
from connectors.point_in_time import AtTime, Moment
from rules.model.identifiers import Epoch, Millis, Offset
from rules.model.monitoring import Vantage
from streaming.replay.machine import Machine
from streaming.status.as_of import Extent, events_upto, within


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """What the directory says beside the state that its log adds up to."""

    folder: Path
    identity: Identity | None
    election: ElectionState | str
    """`quorum-state`, or why it is not known."""
    snapshot: str | None
    """The `.checkpoint` that was begun with."""
    committed_below: Offset | None
    """Everything below is committed, by that snapshot; of what comes after one disk cannot tell."""
    first_offset: Offset
    """Of the first record that was read from the log."""
    end_offset: Offset
    """The offset after the last record that was read."""
    epoch: Epoch | None
    """Of the last record that was read; None where nothing was."""
    voter_sets: tuple[Recorded, ...]
    log_from: Offset
    """The oldest offset that the directory's segments still hold."""
    breaks: tuple[Break, ...]
    """Where files are torn or damaged: what stands behind does not count."""
    whole: bool
    """The state reaches back to the log's beginning."""

    @property
    def intact(self) -> bool:
        """All that was ever written to its log counts, or is summed up by a whole snapshot."""
        return self.whole and not any(one.file.endswith(".log") for one in self.breaks)

    @property
    def missing(self) -> tuple[str, ...]:
        """What one disk cannot tell, and what of it cannot be read, in words."""
        return tuple(self._missing())

    def _missing(self) -> Iterable[str]:
        below = f"offset {self.committed_below} and later" if self.committed_below else "any of its records"
        yield f"what is committed: one disk cannot tell whether {below} are (a majority of voters has what is)"
        yield "DescribeQuorum and the voters' endpoints: nobody was asked"
        if not self.whole:
            yield f"what came before offset {self.first_offset}: the log begins there, and no whole snapshot tells it"
        if self.identity is None:
            yield "whose disk this is: there is no meta.properties"
        if isinstance(self.election, str):
            yield f"the last election: {self.election}"
        for one in self.breaks:
            yield f"{one.file} from byte {one.position} on: {one.reason} ({one.size} bytes do not count)"


@dataclass(frozen=True, slots=True, kw_only=True)
class OnDisk:
    """A disk, and the state that its log adds up to."""

    disk: Disk
    machine: Machine
    newest_ms: Millis
    """The log's time of the newest record."""


def on_disk(folder: Path, upto: Moment | None = None) -> OnDisk:
    """Read a controller's log directory. Nothing in it is changed, nor locked: its Kafka may run.

    Args:
        folder: a metadata.log.dir, or the partition's folder in it.
        upto: the state as of then; else as far as the log goes.

    Raises:
        UsageError: there is no metadata log, it may not be read, or `upto` lies outside of it.
    """
    partition = partition_of(folder)
    who = identity(partition)
    machine = Machine(str(folder), who.cluster_id if who else None, (), Vantage.INSIDE)
    begun, breaks, beyond, newest_ms = Begun(snapshot=None, offset=0), [], None, 0
    with opened(partition) as files:
        for item in read(files, machine.cluster, upto):
            match item:
                case Begun():
                    begun = item
                case Break():
                    breaks.append(item)
                case Beyond():
                    beyond = item
                case Observation():
                    newest_ms = max(newest_ms, item.observed_at_ms)
                    _apply(machine, item, events_upto(item, upto))
        sets = voter_sets(files)
        log_from = Offset(files.segments[0].base_offset if files.segments else begun.offset)
        within(upto, _extent(files, machine, begun, beyond, newest_ms, upto), str(partition))
    election = election_state(partition)
    if upto is None and isinstance(election, ElectionState):
        _elected(machine, election)
    end = Offset(max(machine.log.position + 1, 0))
    disk = Disk(
        folder=partition,
        identity=who,
        election=election,
        snapshot=begun.snapshot,
        committed_below=Offset(begun.offset) if begun.snapshot else None,
        first_offset=Offset(begun.offset),
        end_offset=end,
        epoch=machine.log.epoch if machine.log.epoch >= 0 else None,
        voter_sets=tuple(one for one in sets if one.voters.offset < end),
        log_from=log_from,
        breaks=tuple(breaks),
        whole=machine.log.image.complete,
    )
    return OnDisk(disk=disk, machine=machine, newest_ms=Millis(newest_ms))


def _apply(machine: Machine, row: Observation, events: Iterable[Event]) -> None:
    machine.apply(events, sequence=machine.sequence + 1, observed_at_ms=Millis(row.observed_at_ms))


def _elected(machine: Machine, election: ElectionState) -> None:
    """A node learns of epochs before the log has them: a snapshot has none, and a candidate's is in no log yet."""
    leadership = machine.leadership
    if leadership.epoch is None or election.leader_epoch > leadership.epoch:
        leadership.known, leadership.epoch = election.leader_id, election.leader_epoch


def _extent(
    files: Files, machine: Machine, begun: Begun, beyond: Beyond | None, newest_ms: int, upto: Moment | None
) -> Extent:
    """What the directory can tell, as far as reading it up to that moment showed."""
    told = machine.log.image.complete and machine.log.position >= 0
    if isinstance(upto, AtTime):
        first_ms = upto.at_ms if told else beyond.timestamp_ms if beyond else None
        return Extent(first_ms=first_ms, last_ms=upto.at_ms if beyond else newest_ms)
    oldest = min((snapshot.end_offset - 1 for snapshot in files.snapshots), default=None)
    if files.segments and files.segments[0].base_offset == 0:
        oldest = 0
    first = None if oldest is None else max(0, oldest)
    return Extent(first_offset=first, last_offset=machine.log.position if told else first)
