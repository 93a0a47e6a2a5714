"""The recorded state of a cluster: a journal or what relays wrote, replayed without Spark and without a lock.

All log records that the journal holds are applied, and the polls and probes of its last day. The replay itself forgets
older ones, except what a host name resolved to before it stopped resolving. A journal drops rows after a week by
default, so it may begin in the middle of the log: then `whole` is False.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from connectors.errors import UsageError
from connectors.gather.node_directory import KnownEndpoints, stored_endpoints
from connectors.observations.observation import Observation, ObservationKind
from connectors.observations.point_in_time import AtOffset, AtTime, PointInTime
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
from streaming.status.recording import Recording

_POLLS_MS = VOTER_REMEMBERED_MS + 3_600_000
_TOPIC_POLLS_MS = 3_600_000
"""Of a topic, which many clusters share, less is read: a replay remembers an hour, of voters' directories a day."""
_LOG_KINDS = (ObservationKind.RECORDS, ObservationKind.SNAPSHOT)

SettingsOf = Callable[[str], ClusterSettings | None]
"""Returns the settings of a cluster by its name; None: that cluster is not replayed."""
AfterRow = Callable[[Machine, Sequence[Alert]], None]


class ReplayedJournal:
    """One cluster's rows of a recording, replayed up to a point in time."""

    def __init__(
        self,
        settings: ClusterSettings,
        upto: PointInTime | None,
        evaluates_from_ms: Millis | None,
        after_row: AfterRow,
    ) -> None:
        self.monitor = ClusterMonitor(settings, evaluates_from_ms=evaluates_from_ms)
        self._after_row = after_row
        self.newest_ms = Millis(0)
        """observed_at of the newest row that was applied; 0 if there is none."""
        self.known_endpoints = KnownEndpoints()
        """The endpoints that its nodes were last reported at."""
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

    def finish(self, source: str) -> None:
        """Skips rows after which the state cannot be stored, as in the job, and checks that the point in time is held.

        Raises:
            UsageError: it is not.
        """
        self.monitor.apply((), store=True)
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

    @property
    def whole(self) -> bool:
        """The journal reaches back to the log's beginning or to a whole snapshot."""
        return self.machine.log.image.complete

    @property
    def missing(self) -> tuple[str, ...]:
        """What the journal does not hold, as text."""
        return missing_of(self.machine)

    def state(self) -> ClusterState:
        """Returns the recorded state, evaluated as of its newest row."""
        return recorded_state(self.machine, self.newest_ms, self.monitor.settings.thresholds, missing=self.missing)


def replay_recording(
    recording: Recording,
    settings_of: SettingsOf,
    *,
    upto: PointInTime | None = None,
    since_ms: Millis | None = None,
    evaluates_from_ms: Millis | None = None,
    after_row: AfterRow = lambda _machine, _alerts: None,
    say: Callable[[str], None] = lambda _: None,
) -> Mapping[str, ReplayedJournal]:
    """Replays what was recorded.

    Args:
        recording: a journal or topics.
        upto: the state as of that point in time: of an offset when it was read, of a time with all rows up to it.
        since_ms: rows from this time on are needed, and what the logs were before; None: those of the last hour, of a
            journal those of the last day.
        evaluates_from_ms: the rules are evaluated after each row from this time on, as the job does; None: never.
        after_row: receives a cluster's machine after each of its rows, which it must not change, and the alerts.
        say: prints progress, every two seconds.

    Returns:
        The clusters that have rows and settings, by name, in the order of their first row.

    Raises:
        UsageError: the recording cannot be read, or does not hold that point in time.
        JournalError: the journal is damaged.
    """
    replays: dict[str, ReplayedJournal | None] = {}
    until_ms = upto.at_ms if isinstance(upto, AtTime) else None
    newest_ms = until_ms or recording.newest_ms()
    polls_since_ms = newest_ms - _POLLS_MS
    if since_ms is None and not isinstance(upto, AtOffset):
        since_ms = Millis(newest_ms - _TOPIC_POLLS_MS)
    for row in recording.rows(since_ms=since_ms, until_ms=until_ms, say=say):
        if row.cluster not in replays:
            settings = settings_of(row.cluster)
            replays[row.cluster] = (
                None if settings is None else ReplayedJournal(settings, upto, evaluates_from_ms, after_row)
            )
        one = replays[row.cluster]
        if one is not None and (row.kind in _LOG_KINDS or row.observed_at_ms >= polls_since_ms or upto is not None):
            one.apply(row)
    endpoints = recording.endpoints()
    replayed = {name: one for name, one in replays.items() if one is not None}
    if isinstance(upto, AtOffset) and len(replayed) > 1:
        raise UsageError(
            f"--at {upto.offset}: an offset belongs to one cluster, and {recording.place} holds {len(replayed)}: "
            "give a time"
        )
    for name, one in replayed.items():
        one.finish(f"the {recording.kind} of cluster {name}")
        one.known_endpoints = stored_endpoints(endpoints.get(name))
    return {name: one for name, one in replayed.items() if one.newest_ms}


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


def missing_of(machine: Machine) -> tuple[str, ...]:
    """Returns what a journal does not hold of a replayed cluster, as text."""
    whole = machine.log.image.complete
    return () if whole else ("the beginning of the log: the journal no longer reaches back to it",)
