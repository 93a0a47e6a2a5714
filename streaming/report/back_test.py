"""Back-test: the alerts that the job would send for recorded observations, with any configuration.

The rows of a journal or of a log directory are applied by the same `ClusterMonitor` as in the job's step, so the alerts
and their times are the job's. Sinks, routes and silences are not applied.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from connectors.logdir.log_dir_files import find_partition, open_files
from connectors.logdir.log_dir_reader import read_log_dir
from connectors.metadata.batches import RecordBatch, scan
from connectors.metadata.record_framing import is_noop
from connectors.observations.observation import Observation, ObservationKind
from rules.alert import Alert
from rules.model.identifiers import Millis
from streaming.replay.cluster_monitor import ALWAYS, ClusterMonitor
from streaming.status.from_journal import SettingsOf

EVALUATE_BEFORE_MS = Millis(600_000)
"""Evaluation begins this long before the first time of interest, so that alerts that fired already are found."""


def back_test(
    rows: Iterable[Observation],
    settings_of: SettingsOf,
    *,
    from_ms: Millis | None = None,
    to_ms: Millis | None = None,
) -> Iterator[Alert]:
    """Yields the alerts in the order in which the job would send them; those of a topic, partition by partition.

    Args:
        rows: recorded observations of any clusters, those of each one in order.
        settings_of: the settings of each cluster; None: its rows are left out.
        from_ms: only alerts from this time on; None: from the beginning.
        to_ms: only rows up to this time; None: all.
    """
    since_ms = ALWAYS if from_ms is None else Millis(from_ms - EVALUATE_BEFORE_MS)
    monitors: dict[str, ClusterMonitor | None] = {}
    for row in rows:
        if row.cluster not in monitors:
            settings = settings_of(row.cluster)
            monitors[row.cluster] = None if settings is None else ClusterMonitor(settings, evaluates_from_ms=since_ms)
        monitor = monitors[row.cluster]
        if monitor is not None and (to_ms is None or row.observed_at_ms <= to_ms):
            found = monitor.apply((row,)).alerts
            yield from (alert for alert in found if from_ms is None or alert.observed_at_ms >= from_ms)


QUIET_MS = 60_000
"""The longest time that one row of NoOp records covers: conditions that depend on time are evaluated as often."""


def log_dir_rows(folder: Path) -> Iterator[Observation]:
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
