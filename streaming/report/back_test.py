"""Back-test: the alerts that the job would send for recorded observations, with any configuration.

The rows of a journal or of a log directory are applied by the same `ClusterMonitor` as in the job's step, so the alerts
and their times are the job's. Sinks, routes and silences are not applied.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from connectors.logdir.log_dir_files import find_partition, open_files
from connectors.logdir.log_dir_reader import read_log_dir
from connectors.metadata.batches import RecordBatch, scan
from connectors.metadata.record_framing import is_noop
from connectors.observations.observation import Observation, ObservationKind
from connectors.sinks.alert_json import iso
from rules.alert import Alert
from rules.formatting import ms_text
from rules.model.identifiers import Millis
from streaming.replay.cluster_monitor import ClusterMonitor
from streaming.replay.cluster_settings import ClusterSettings
from streaming.status.from_journal import open_journal

ClusterSettingsOf = Callable[[str], ClusterSettings | None]
"""Returns the settings of a cluster by its name; None: its rows are left out."""


def back_test(rows: Iterable[Observation], settings_of: ClusterSettingsOf) -> Iterator[Alert]:
    """Yields the alerts in the order in which the job would send them.

    Args:
        rows: recorded observations of any clusters, ordered by sequence.
    """
    monitors: dict[str, ClusterMonitor | None] = {}
    for row in rows:
        if row.cluster not in monitors:
            settings = settings_of(row.cluster)
            monitors[row.cluster] = None if settings is None else ClusterMonitor(settings)
        monitor = monitors[row.cluster]
        if monitor is not None:
            yield from monitor.apply((row,)).alerts


_PROGRESS_EVERY_S = 2.0
_CLOCK_EVERY_ROWS = 4_096


def recorded_rows(journal: Path | None, log_dir: Path | None, *, say: Callable[[str], None]) -> Iterator[Observation]:
    """Yields the rows of one of the two in order, the other being None.

    Args:
        journal: a checkpoint folder or the journal in it: from where it holds everything about each cluster.

    Raises:
        UsageError: there is no journal or no metadata log.
        JournalError: the journal is damaged.
    """
    if log_dir is not None:
        yield from _log_dir_rows(log_dir)
        return
    assert journal is not None
    reader = open_journal(journal)
    first, end = reader.beginning(), reader.published_end()
    began = reported_at = time.monotonic()
    for row in reader.read(first, end):
        if row.sequence % _CLOCK_EVERY_ROWS == 0 and (now := time.monotonic()) - reported_at > _PROGRESS_EVERY_S:
            reported_at, done = now, row.sequence - first
            left = ms_text(Millis(round(1000 * (now - began) * (end - first - done) / max(1, done))))
            say(f"replaying: {100 * done // (end - first)} % of {end - first} rows, up to {_day(row)}; {left} left")
        yield row


def _day(row: Observation) -> str:
    return iso(Millis(row.observed_at_ms))[:16].replace("T", " ")


QUIET_MS = 60_000
"""The longest time that one row of NoOp records covers: conditions that depend on time are evaluated as often."""


def _log_dir_rows(folder: Path) -> Iterator[Observation]:
    """Yields what a gatherer would have recorded, had it followed the log from its beginning.

    The snapshot that the log continues comes first. Each batch is a row of its own, observed at the time of its newest
    record; batches that hold NoOp records only, as an idle controller writes them twice a second, are taken together
    for up to a minute.

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
