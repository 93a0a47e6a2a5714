"""Back-test: the alerts that the job would send for recorded observations, with any configuration.

The rows go through the same `ClusterMonitor`, with the same containment, as in the job's step, so the alerts and their
times are the job's. Sinks, routes and silences are not applied.

Rows in which nothing happens are left out where they can be read again (`quiet_stretch`).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from connectors.observation import Observation
from rules.alert import Alert
from rules.finding import Thresholds
from rules.lifecycle import next_due
from rules.model.monitoring import PLAINTEXT, Access, Vantage
from streaming.replay.cluster_monitor import ClusterMonitor, DecodedRow
from streaming.replay.contained_replay import observe_contained
from streaming.report.quiet_rows import QuietRows, has_short_thresholds
from streaming.report.quiet_stretch import CALM_MS, QuietStretch
from streaming.status.as_of import decoded_row

_ROWS_TOGETHER = 256
"""Rows between two stored forms of a cluster's state, from which a row that raises is skipped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackTestCluster:
    """One cluster as a configuration describes it."""

    thresholds: Mapping[str, Thresholds]
    """By rule id."""
    cluster_id: str | None = None
    bootstrap: tuple[str, ...] = ()
    vantage: Vantage = Vantage.INSIDE
    access: Access = PLAINTEXT


ClusterSettingsOf = Callable[[str], BackTestCluster | None]
"""Returns the settings of a cluster by its name; None: its rows are left out."""


ReadAgain = Callable[[int, int], Iterable[Observation]]
"""Returns the rows from a sequence up to another one, which is not included."""


@dataclass(slots=True)
class _Replayed:
    """One cluster: its settings, its monitor with its stored form, and rows that were not applied yet."""

    name: str
    settings: BackTestCluster
    monitor: ClusterMonitor
    read_again: ReadAgain | None
    """None: every row is applied."""
    blob: bytes | None = None
    waiting: list[DecodedRow] = field(default_factory=list)
    quiet_rows: QuietRows = field(default_factory=QuietRows)
    stretch: QuietStretch | None = None
    """The stretch in which rows are left out now."""

    def restore(self, blob: bytes | None) -> ClusterMonitor:
        settings = self.settings
        return ClusterMonitor.from_bytes(
            blob,
            cluster=self.name,
            cluster_id=settings.cluster_id,
            bootstrap=settings.bootstrap,
            vantage=settings.vantage,
            access=settings.access,
            thresholds=settings.thresholds,
        )

    def add(self, row: Observation) -> Iterator[Alert]:
        """Takes the next row; yields the alerts of rows that are applied now."""
        quiet = self.read_again is not None and self.quiet_rows.is_quiet(row)
        if self.stretch is not None:
            if quiet and self.stretch.add(row):
                return
            yield from self.end_stretch(row.sequence)
        self.waiting.append(decoded_row(row))
        if len(self.waiting) >= _ROWS_TOGETHER:
            yield from self.flush()
            if quiet and self._is_calm(row.observed_at_ms) and self.blob is not None:
                self.stretch = QuietStretch(self.blob, first=row.sequence + 1, tracked=self.monitor.tracked)

    def finish(self, end: int) -> Iterator[Alert]:
        """Yields the alerts of the last rows; `end` is the sequence after them."""
        yield from self.end_stretch(end)
        yield from self.flush()

    def flush(self) -> tuple[Alert, ...]:
        rows, self.waiting = self.waiting, []
        if not rows:
            return ()
        result = observe_contained(self.monitor, self.blob, rows, self.restore)
        self.monitor, self.blob = result.monitor, result.blob
        return result.alerts

    def end_stretch(self, end: int) -> Iterator[Alert]:
        """Ends the stretch before the row `end`: applies its last rows, or all of them if they are needed."""
        stretch, self.stretch = self.stretch, None
        if stretch is None:
            return
        blob = stretch.settled(self.monitor)
        if blob is not None:
            self.blob = blob
            return
        assert self.read_again is not None
        self.monitor, self.blob = self.restore(stretch.blob), stretch.blob
        for row in self.read_again(stretch.first, end):
            if row.cluster == self.name:
                self.waiting.append(decoded_row(row))
            if len(self.waiting) >= _ROWS_TOGETHER:
                yield from self.flush()
        yield from self.flush()

    def _is_calm(self, now_ms: int) -> bool:
        """Returns whether nothing has happened for a while, and the passing of time alone makes no alert soon."""
        since_ms = self.quiet_rows.since_ms
        return (
            since_ms is not None
            and now_ms - since_ms >= CALM_MS
            and not self.monitor.machine.behind
            and next_due(self.monitor.tracked, self.settings.thresholds) is None
        )


def back_test(
    rows: Iterable[Observation], settings_of: ClusterSettingsOf, read_again: ReadAgain | None = None
) -> Iterator[Alert]:
    """Yields the alerts in the order in which the job would send them, cluster by cluster within some rows.

    Args:
        rows: recorded observations of any clusters, ordered by sequence.
        settings_of: the settings of each cluster.
        read_again: reads some of the rows again, so that quiet ones can be left out; None: none are.
    """
    replayed: dict[str, _Replayed | None] = {}
    end = 0
    for row in rows:
        end = row.sequence + 1
        if row.cluster not in replayed:
            replayed[row.cluster] = _new(row.cluster, settings_of, read_again)
        one = replayed[row.cluster]
        if one is not None:
            yield from one.add(row)
    yield from (alert for one in replayed.values() if one is not None for alert in one.finish(end))


def _new(name: str, settings_of: ClusterSettingsOf, read_again: ReadAgain | None) -> _Replayed | None:
    settings = settings_of(name)
    if settings is None:
        return None
    monitor = ClusterMonitor.from_bytes(
        None,
        cluster=name,
        cluster_id=settings.cluster_id,
        bootstrap=settings.bootstrap,
        vantage=settings.vantage,
        access=settings.access,
        thresholds=settings.thresholds,
    )
    short = has_short_thresholds(settings.thresholds)
    return _Replayed(name=name, settings=settings, monitor=monitor, read_again=None if short else read_again)
