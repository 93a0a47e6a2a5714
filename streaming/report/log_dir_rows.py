"""A log directory as the observations that a gatherer would have recorded, had it followed the log from its beginning.

Each batch is a row of its own, observed at the time of its newest record; batches that hold NoOp records only, as an
idle controller writes them twice a second, are taken together for up to a minute.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from connectors.logdir.log_dir_files import find_partition, open_files
from connectors.logdir.log_dir_reader import read_log_dir
from connectors.metadata.batches import RecordBatch, scan
from connectors.metadata.record_framing import is_noop
from connectors.observations.observation import Observation, ObservationKind

QUIET_MS = 60_000
"""The longest time that one row of NoOp records covers: conditions that depend on time are evaluated as often."""


def log_dir_rows(folder: Path) -> Iterator[Observation]:
    """Yields the snapshot that the log continues, and then its batches, as rows with increasing sequences.

    Args:
        folder: a metadata.log.dir, or the partition's folder in it.

    Raises:
        UsageError: there is no metadata log, or it cannot be read.
    """
    sequence = 0
    with open_files(find_partition(folder)) as files:
        for item in read_log_dir(files, folder.name):
            if not isinstance(item, Observation):
                continue
            for row in _rows(item):
                sequence += 1
                yield replace(row, sequence=sequence)


def _rows(read: Observation) -> Iterator[Observation]:
    if read.kind is not ObservationKind.RECORDS:
        yield read
        return
    quiet: list[RecordBatch] = []
    for batch in scan(read.payload):
        assert isinstance(batch, RecordBatch), "the reader yields whole batches only"
        noop = is_noop(read.payload, batch)
        if quiet and (not noop or batch.max_timestamp - quiet[0].max_timestamp > QUIET_MS):
            yield _row(read, quiet)
            quiet = []
        if noop:
            quiet.append(batch)
        else:
            yield _row(read, [batch])
    if quiet:
        yield _row(read, quiet)


def _row(read: Observation, batches: list[RecordBatch]) -> Observation:
    first, last = batches[0], batches[-1]
    return replace(
        read,
        observed_at_ms=max(batch.max_timestamp for batch in batches),
        base_offset=first.base_offset,
        last_offset=last.last_offset,
        leader_epoch=last.leader_epoch,
        payload=read.payload[first.position : last.end],
    )
