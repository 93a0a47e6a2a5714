"""The recorded state of a cluster: the journal of a checkpoint, replayed without Spark and without a lock.

All log records that the journal holds are applied, and the polls and probes of its last day. The replay itself forgets
older ones, except what a host name resolved to before it stopped resolving. A journal drops rows after a week by
default, so it may begin in the middle of the log: then `whole` is False.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from connectors.errors import JournalError, UsageError
from connectors.gather.node_directory import KnownEndpoints, stored_endpoints
from connectors.observations.observation import Observation, ObservationKind
from connectors.observations.point_in_time import AtOffset, AtTime, PointInTime
from connectors.store.bundle_file import unpacked_bundle
from connectors.store.journal_reader import JournalReader
from connectors.wall_clock import wall_ms
from rules.alert import Alert
from rules.evaluate import evaluate
from rules.finding import Thresholds
from rules.model.identifiers import Millis
from streaming.replay.cluster_monitor import ClusterMonitor
from streaming.replay.cluster_settings import ClusterSettings
from streaming.replay.decoded_row import decoded_row
from streaming.replay.machine import Machine
from streaming.replay.poll_history import VOTER_REMEMBERED_MS
from streaming.status.as_of import SourceExtent, events_upto, require_within
from streaming.status.cluster_state import ClusterState
from streaming.status.from_log_dir import LogDirContents
from streaming.status.health import of_the_quorum

_REPORT_EVERY_S = 2.0
_POLLS_MS = VOTER_REMEMBERED_MS + 3_600_000
_LOG_KINDS = (ObservationKind.RECORDS, ObservationKind.SNAPSHOT)

SettingsOf = Callable[[str], ClusterSettings | None]
"""Returns the settings of a cluster by its name; None: that cluster is not replayed."""
AfterRow = Callable[[Machine, Sequence[Alert]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayedJournal:
    """One cluster's rows of a journal, replayed."""

    monitor: ClusterMonitor
    newest_ms: Millis
    """observed_at of its newest row."""
    known_endpoints: KnownEndpoints
    """The endpoints that its nodes were last reported at."""

    @property
    def machine(self) -> Machine:
        """The state after the rows."""
        return self.monitor.machine

    @property
    def whole(self) -> bool:
        """The journal reaches back to the log's beginning or to a whole snapshot."""
        return self.machine.log.image.complete

    @property
    def missing(self) -> tuple[str, ...]:
        """What the journal does not hold, as text."""
        return missing_of(self.machine)


def replay_journal(
    folder: Path,
    settings_of: SettingsOf,
    *,
    upto: PointInTime | None = None,
    evaluates_from_ms: Millis | None = None,
    after_row: AfterRow = lambda _machine, _alerts: None,
    say: Callable[[str], None] = lambda _: None,
) -> Mapping[str, ReplayedJournal]:
    """Replays a journal.

    Args:
        folder: a checkpoint folder or the `journal` in it.
        upto: the state as of that point in time: of an offset when it was read, of a time with all rows up to it.
        evaluates_from_ms: the rules are evaluated after each row from this time on, as the job does; None: never.
        after_row: receives a cluster's machine after each of its rows, which it must not change, and the alerts.
        say: prints progress, every two seconds.

    Returns:
        The clusters that have rows and settings, by name, in the order of their first row.

    Raises:
        UsageError: there is no journal, or it does not hold that point in time.
        JournalError: the journal is damaged.
    """
    journal = open_journal(folder)
    replays: dict[str, _Replay | None] = {}
    first, end = journal.first_sequence(), journal.published_end()
    since_ms = (upto.at_ms if isinstance(upto, AtTime) else _newest(journal)) - _POLLS_MS
    reported_at = time.monotonic()
    for row in journal.read(first, end):
        if row.sequence % 1_000 == 0 and time.monotonic() - reported_at > _REPORT_EVERY_S:
            reported_at = time.monotonic()
            say(f"reading the journal: {row.sequence - first} of {end - first} rows")
        if row.cluster not in replays:
            settings = settings_of(row.cluster)
            replays[row.cluster] = None if settings is None else _Replay(settings, upto, evaluates_from_ms, after_row)
        one = replays[row.cluster]
        if one is not None and (row.kind in _LOG_KINDS or row.observed_at_ms >= since_ms or upto is not None):
            one.apply(row)
    endpoints = journal.endpoints()
    replayed = {name: one for name, one in replays.items() if one is not None}
    if isinstance(upto, AtOffset) and len(replayed) > 1:
        raise UsageError(
            f"--at {upto.offset}: an offset belongs to one cluster, and {folder} holds {len(replayed)}: give a time"
        )
    for name, one in replayed.items():
        one.finish()
        one.require_reached(f"the journal of cluster {name}")
    return {
        name: ReplayedJournal(
            monitor=one.monitor, newest_ms=one.newest_ms, known_endpoints=stored_endpoints(endpoints.get(name))
        )
        for name, one in replayed.items()
        if one.newest_ms is not None
    }


def recorded_state(
    machine: Machine,
    newest_ms: Millis,
    thresholds: Mapping[str, Thresholds],
    *,
    missing: tuple[str, ...] = (),
    log_dir: LogDirContents | None = None,
) -> ClusterState:
    """Returns a recorded state, evaluated as of its newest row; no node is queried.

    Args:
        log_dir: the log directory that it was read from; None for a journal.
    """
    quorum = machine.quorum()
    evaluation = evaluate(quorum, thresholds)
    if log_dir is not None:
        # `monitor-blind` would report that no node answered, but none was queried.
        evaluation = replace(evaluation, findings=of_the_quorum(evaluation.findings))
    return ClusterState(
        quorum=quorum,
        evaluation=evaluation,
        thresholds=thresholds,
        taken_at_ms=Millis(wall_ms()),
        queried_since_ms=None,
        recorded_at_ms=newest_ms,
        missing=missing,
        log_dir=log_dir,
    )


def newest_row_ms(folder: Path) -> Millis:
    """Returns the time of the newest row of a journal; 0 where it has none.

    Raises:
        UsageError: there is no journal.
        JournalError: the journal is damaged.
    """
    return _newest(open_journal(folder))


def journal_span(journal: JournalReader) -> tuple[Millis, Millis] | None:
    """Returns the times of the first and the newest row of a journal; None where it has none.

    Raises:
        JournalError: there is no journal, or it is damaged.
    """
    first = journal.first_sequence()
    if first >= journal.published_end():
        return None
    oldest = next(journal.read(first, first + 1))
    return Millis(oldest.observed_at_ms), _newest(journal)


class _Replay:
    """Applies one cluster's rows up to a point in time."""

    def __init__(
        self,
        settings: ClusterSettings,
        upto: PointInTime | None,
        evaluates_from_ms: Millis | None,
        after_row: AfterRow,
    ) -> None:
        self.monitor = ClusterMonitor(settings, evaluates_from_ms=evaluates_from_ms)
        self._after_row = after_row
        self.newest_ms: Millis | None = None
        """observed_at of the newest row that was applied."""
        self._upto = upto
        self._ended = False
        self._extent = SourceExtent()

    @property
    def machine(self) -> Machine:
        """The state after the rows."""
        return self.monitor.machine

    def apply(self, row: Observation) -> None:
        """Applies a row, unless it is later than the point in time. A row that raises is skipped, as in the job."""
        if self._upto is not None:
            self._extent = self._extent.with_row(row)
            self._ended = self._ended or self._is_later(row, self._upto)
        if self._ended:
            return
        self.newest_ms = Millis(row.observed_at_ms)
        shown = row if self._upto is None else decoded_row(row, partial(events_upto, upto=self._upto))
        outcome = self.monitor.apply((shown,))
        self._after_row(self.machine, outcome.alerts)
        self._ended = isinstance(self._upto, AtOffset) and self.machine.log.position >= self._upto.offset

    def finish(self) -> None:
        """Skips rows after which the state cannot be stored, as in the job."""
        self.monitor.apply((), store=True)

    def require_reached(self, source: str) -> None:
        """Checks that the rows hold the point in time.

        Raises:
            UsageError: they do not.
        """
        require_within(self._upto, self._extent, source)
        if isinstance(self._upto, AtOffset) and self.machine.log.position != self._upto.offset:
            raise UsageError(f"--at {self._upto.offset}: {source} does not hold this offset: a snapshot covers it")

    def _is_later(self, row: Observation, upto: PointInTime) -> bool:
        match upto:
            case AtTime(at_ms=at_ms):
                return row.observed_at_ms > at_ms
            case AtOffset(offset=offset):
                first = (row.base_offset or 0) - (row.kind is ObservationKind.SNAPSHOT)
                return row.kind in _LOG_KINDS and first > offset


def missing_of(machine: Machine) -> tuple[str, ...]:
    """Returns what a journal does not hold of a replayed cluster, as text."""
    whole = machine.log.image.complete
    return () if whole else ("the beginning of the log: the journal no longer reaches back to it",)


def recorded_endpoints(folder: Path) -> Mapping[str, KnownEndpoints]:
    """Returns the endpoints of each cluster in a journal; none where there is no journal, or it cannot be read."""
    try:
        found = open_journal(folder).endpoints()
    except (UsageError, JournalError):
        return {}
    return {name: stored_endpoints(text) for name, text in found.items()}


def has_journal(folder: Path) -> bool:
    """Whether there is a journal."""
    return any(JournalReader(place.absolute()).created for place in _places(folder))


def open_journal(folder: Path) -> JournalReader:
    """Returns the journal of a checkpoint folder, the journal that the folder is, or the one in a bundle.

    Raises:
        UsageError: there is none.
    """
    if folder.is_file():
        folder = unpacked_bundle(folder)
    for place in _places(folder):
        journal = JournalReader(place.absolute())
        if journal.created:
            return journal
    raise UsageError(f"--journal {folder}: no journal is there; give the --checkpoint folder of `kraftwatch run`")


def _newest(journal: JournalReader) -> Millis:
    end = journal.published_end()
    rows = journal.read(max(journal.first_sequence(), end - 1), end)
    return Millis(max((row.observed_at_ms for row in rows), default=0))


def _places(folder: Path) -> tuple[Path, Path]:
    return folder / "journal", folder
