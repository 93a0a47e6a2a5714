"""Recordings: observations by time, in the journal of a job or by relays in a topic; replayed without Spark or a lock.

Look-back, timeline, report, back-test and audit read them; what they need is the same in both. A past state is what all
rows have shown. A journal has snapshots of the job's states: the newest one and the rows since are read. Without one it
may begin in the middle of the log, as it drops rows after a week by default: then `missing` says so. A relay writes
each log from its start every hour. A damaged journal is a `JournalError`.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from connectors.errors import UsageError
from connectors.gather.node_directory import KnownEndpoints, stored_endpoints
from connectors.observations.observation import Observation
from connectors.observations.point_in_time import AtOffset, PointInTime
from connectors.process.wall_clock import wall_ms
from connectors.store.bundle_file import unpacked_bundle
from connectors.store.journal_reader import JournalReader, JournalSnapshot
from rules.alert import Alert
from rules.evaluate import OBSERVATION_RULES, evaluate
from rules.facts.contact import dialled_endpoint
from rules.facts.quorum import Facts
from rules.finding import Thresholds
from rules.formatting import LATEST_MS, ms_text, utc_text
from rules.model.identifiers import Millis
from streaming.query.as_of import events_upto, held_at, require_within, wanted_position
from streaming.replay.cluster_monitor import ClusterMonitor
from streaming.replay.cluster_settings import ClusterSettings
from streaming.replay.decoded_row import decoded_row
from streaming.replay.machine import Machine
from streaming.replay.state_codec import without_conditions
from streaming.status.cluster_status import ClusterState
from streaming.status.event_history import EventHistory
from streaming.status.log_dir_status import LogDirContents

if TYPE_CHECKING:
    from connectors.relay.topic_recording import TopicRecording

Recording: TypeAlias = "JournalRecording | TopicRecording"
"""Rows of one or several clusters: both have the same methods."""
_SAY_EVERY_S = 2.0
_APART_MS = 60_000
"""Rows of several clusters are in order of time but for some seconds."""

SettingsOf = Callable[[str], ClusterSettings | None]
"""Returns the settings of a cluster by its name; None: that cluster is not replayed."""


class JournalRecording:
    """The journal of a job or a relay, or the one in a bundle. A running gatherer is not disturbed."""

    kind = "journal"

    def __init__(self, reader: JournalReader, place: str, say: Callable[[str], None] = lambda _: None) -> None:
        """`place`: as it was given; `say` prints progress, every two seconds."""
        self.reader = reader
        self.place = place
        self._say = say
        self._restarted_at = reader.restarted_at()

    def endpoints(self) -> Mapping[str, KnownEndpoints]:
        """Returns the endpoints of each cluster that the gatherer has noted: its rows may no longer hold them."""
        return {name: stored_endpoints(text) for name, text in self.reader.endpoints().items()}

    def newest_ms(self) -> Millis:
        """Returns the time of the newest row; 0 if there is none."""
        span = journal_span(self.reader)
        return Millis(0) if span is None else span[1]

    def rows(self, *, since_ms: Millis | None = None, until_ms: Millis | None = None) -> Iterator[Observation]:
        """Yields all rows but those that a repair has made unnecessary; clusters share the sequence.

        Args:
            since_ms: the rows may begin where each log is read from its start or a snapshot before this time. None:
                with the oldest rows with which a state is whole.
            until_ms: the rows may end with the first one after this time; here they do not.
        """
        first, end = self._first(since_ms), self.reader.published_end()
        return self._reported(self.reader.read(first, end), first, end)

    def begun(
        self, settings_of: SettingsOf, from_ms: Millis, upto: PointInTime | None, evaluates_from_ms: Millis | None
    ) -> Mapping[str, "ReplayedJournal"]:
        """Returns the clusters by name, each with its newest snapshot up to a time that can be read.

        One without a snapshot begins without observations.
        """
        first = self.reader.first_sequence()
        oldest_ms = next((row.observed_at_ms for row in self.reader.read(first, self.reader.published_end())), 0)
        found = {}
        for name, newest_ms in sorted(self.reader.newest_times().items()):
            # The rows of a cluster that is monitored no longer may be deleted.
            settings = settings_of(name) if newest_ms >= oldest_ms - _APART_MS else None
            if settings is not None:
                one = found[name] = ReplayedJournal(settings, upto, evaluates_from_ms)
                next(filter(one.begin_with, self.reader.snapshots(name, from_ms)), None)
        return found

    def rows_of(
        self, begun: Mapping[str, "ReplayedJournal"], from_ms: Millis, to_ms: Millis | None
    ) -> Iterator[Observation]:
        """Yields the rows that follow what is begun, of these clusters; for one without a snapshot, those of `rows`.

        They end after `to_ms`, when each cluster that has a later row has ended.
        """
        late = Millis(LATEST_MS) if to_ms is None else Millis(to_ms + _APART_MS)
        newest = self.reader.newest_times()
        awaited = [journal for name, journal in begun.items() if to_ms is not None and newest[name] > to_ms]
        starts = {
            name: journal.machine.sequence + 1 if journal.newest_ms else self._first(from_ms)
            for name, journal in begun.items()
        }
        end = self.reader.published_end()

        def rows() -> Iterator[Observation]:
            for row in self.reader.read_from(starts, end):
                if row.observed_at_ms > late and all(journal.ended for journal in awaited):
                    return
                yield row

        return self._reported(rows(), min(starts.values()), end) if starts else iter(())

    def state_from_ms(self, at_ms: Millis | None) -> Millis:
        """Returns from when on rows are needed for the state at a time; None: for the newest one."""
        return Millis(LATEST_MS) if at_ms is None else at_ms

    def newest_rows(self, count: int) -> Iterator[Observation]:
        """Yields so many rows, or all if there are fewer: the newest ones, oldest first."""
        end = self.reader.published_end()
        return self.reader.read(max(self.reader.first_sequence(), end - count), end)

    def restarts_logs(self, row: Observation) -> bool:
        """Returns whether a log may be read again from the newest row on that was yielded."""
        if self._restarted_at is None or row.sequence < self._restarted_at:
            return False
        self._restarted_at = None
        return True

    def _reported(self, rows: Iterable[Observation], first: int, end: int) -> Iterator[Observation]:
        """Yields the rows, which are between these, and prints the progress."""
        began = said_at = time.monotonic()
        for row in rows:
            if (now := time.monotonic()) - said_at > _SAY_EVERY_S:
                said_at, done = now, row.sequence - first
                left = ms_text(Millis(round(1000 * (now - began) * (end - row.sequence) / max(1, done))))
                self._say(
                    f"reading the journal: {100 * done // (end - first)} % of {end - first} rows, up to "
                    f"{utc_text(row.observed_at_ms)}; {left} left"
                )
            yield row

    def _first(self, since_ms: Millis | None) -> int:
        beginning = self.reader.beginning()
        if since_ms is None or beginning >= self.reader.published_end():
            return beginning
        whole = next(self.reader.read(beginning, beginning + 1))
        return beginning if whole.observed_at_ms < since_ms else self.reader.first_sequence()


def open_journal(folder: Path, say: Callable[[str], None] = lambda _: None) -> JournalRecording:
    """Returns the journal of, or in, a folder or in a bundle; UsageError if there is none."""
    journal = _journal(unpacked_bundle(folder) if folder.is_file() else folder)
    if journal is None:
        raise UsageError(f"{folder}: no journal is there; give the --checkpoint folder of `kraftwatch run`")
    return JournalRecording(journal, str(folder), say)


def has_journal(folder: Path) -> bool:
    """Whether there is a journal in a checkpoint folder, or the folder is one."""
    return _journal(folder) is not None


def _journal(folder: Path) -> JournalReader | None:
    places = (JournalReader(place.absolute()) for place in (folder / "journal", folder))
    return next((place for place in places if place.created), None)


def journal_span(journal: JournalReader) -> tuple[Millis, Millis] | None:
    """Returns the times of the first and the newest row of a journal; None where it has none."""
    first, end = journal.first_sequence(), journal.published_end()
    if first >= end:
        return None
    oldest, newest = next(journal.read(first, first + 1)), next(journal.read(end - 1, end))
    return Millis(oldest.observed_at_ms), Millis(newest.observed_at_ms)


class ReplayedJournal:
    """One cluster's rows of a recording, replayed up to a point in time."""

    def __init__(
        self, settings: ClusterSettings, upto: PointInTime | None = None, evaluates_from_ms: Millis | None = None
    ) -> None:
        self.monitor = ClusterMonitor(settings, evaluates_from_ms=evaluates_from_ms)
        self.history = EventHistory()
        """What the rows brought about."""
        self.newest_ms = Millis(0)
        """observed_at of the newest row that was applied; 0 if there is none."""
        self.noted_endpoints: KnownEndpoints | None = None
        """The endpoints that the job's gatherer has noted: its rows may no longer hold them."""
        self._upto, self._evaluates_from_ms = upto, evaluates_from_ms
        self.ended = False
        """Whether the next rows are later than the point in time."""
        self.held: tuple[int, int] | None = None
        """The first and last offset or time of the rows, also of those after the point in time."""

    @classmethod
    def restored(cls, blob: bytes, settings: ClusterSettings, newest_ms: Millis) -> "ReplayedJournal":
        """Returns what was replayed up to a row of this time and stored; errors as of `ClusterMonitor.restored`."""
        found = cls(settings)
        found._restore(blob, newest_ms)
        return found

    def begin_with(self, snapshot: JournalSnapshot) -> bool:
        """Begins with a snapshot; returns False if it is of another version of kraftwatch or of another cluster."""
        try:
            self._restore(snapshot.state, Millis(snapshot.observed_at_ms))
        except UsageError:
            return False
        return True

    def _restore(self, blob: bytes, newest_ms: Millis) -> None:
        settings, evaluates_from_ms = self.monitor.settings, self._evaluates_from_ms
        # A replay knows no alert but its own.
        state = without_conditions(settings.name, blob)
        self.monitor = ClusterMonitor.restored(state, settings, evaluates_from_ms=evaluates_from_ms)
        self.newest_ms, self.held = newest_ms, (newest_ms, newest_ms)
        self.history.add(self.machine)

    @property
    def machine(self) -> Machine:
        """The state after the rows."""
        return self.monitor.machine

    @property
    def known_endpoints(self) -> KnownEndpoints:
        """The endpoints of the nodes, of which none reports them while the quorum is down."""
        if self.noted_endpoints is not None:
            return self.noted_endpoints
        quorum = self.machine.quorum()
        return KnownEndpoints(
            voters={voter.key.id: voter.endpoints for voter in quorum.voters},
            registered={node: registration.endpoints for node, registration in quorum.controllers.items()},
            polled={} if quorum.poll is None else quorum.poll.nodes,
            quorum=() if quorum.poll is None else tuple(sorted(quorum.poll.voter_keys)),
        )

    def apply(self, row: Observation) -> tuple[Alert, ...]:
        """Applies a row, unless it is later than the point in time, and returns the alerts after it.

        A row that raises is skipped, as in the job.
        """
        if self._upto is not None and (held := held_at(row, self._upto)):
            ends = (*held, *(self.held or ()))
            self.held = (min(ends), max(ends))
            self.ended = self.ended or held[0] > wanted_position(self._upto)
        if self.ended:
            return ()
        self.newest_ms = Millis(row.observed_at_ms)
        decode = None if self._upto is None else partial(events_upto, upto=self._upto)
        alerts = self.monitor.apply((decoded_row(row, decode),)).alerts
        self.history.add(self.machine, alerts)
        self.ended = isinstance(self._upto, AtOffset) and self.machine.log.position >= self._upto.offset
        return alerts

    def finish(self, source: str) -> None:
        """Skips rows after which the state cannot be stored, as in the job; a UsageError if the time is not held."""
        self.monitor.apply((), store=True)
        if self._upto is not None:
            require_within(self._upto, self.held, source)
        if isinstance(self._upto, AtOffset) and self.machine.log.position != self._upto.offset:
            raise UsageError(f"--at {self._upto.offset}: {source} does not hold this offset: a snapshot covers it")

    @property
    def missing(self) -> tuple[str, ...]:
        """What the journal does not hold, as text."""
        whole = self.machine.log.image.complete
        return () if whole else ("the beginning of the log: the journal no longer reaches back to it",)

    def state(self) -> ClusterState:
        """Returns the recorded state, evaluated as of its newest row."""
        return recorded_state(self, self.monitor.settings.thresholds)


def replayed(
    rows: Iterable[Observation],
    settings_of: SettingsOf,
    *,
    begun: Mapping[str, ReplayedJournal] | None = None,
    upto: PointInTime | None = None,
    evaluates_from_ms: Millis | None,
) -> Iterator[tuple[ReplayedJournal, tuple[Alert, ...]]]:
    """Applies each row up to a point in time, and yields its cluster with the alerts after the row.

    Args:
        rows: those of each cluster in order.
        settings_of: of the clusters that are not begun.
        begun: the clusters whose first rows are applied already, by name.
        evaluates_from_ms: the rules are evaluated after each row from this time on, as the job does; None: never.
    """
    clusters: dict[str, ReplayedJournal | None] = {**(begun or {})}
    for row in rows:
        if row.cluster not in clusters:
            settings = settings_of(row.cluster)
            clusters[row.cluster] = None if settings is None else ReplayedJournal(settings, upto, evaluates_from_ms)
        one = clusters[row.cluster]
        if one is not None:
            yield one, one.apply(row)


def replayed_recording(
    recording: Recording,
    settings_of: SettingsOf,
    *,
    from_ms: Millis | None,
    to_ms: Millis | None = None,
    upto: PointInTime | None = None,
    evaluates_from_ms: Millis | None,
) -> Iterator[tuple[ReplayedJournal, tuple[Alert, ...]]]:
    """Replays a recording as `replayed`, and yields first, without an alert, each cluster that begins with a snapshot.

    Args:
        from_ms: a snapshot is of this time or older; None: all rows are applied.
        to_ms: the rows may end with the first one after this time.
    """
    begun: Mapping[str, ReplayedJournal] = {}
    if from_ms is None or not isinstance(recording, JournalRecording):
        rows = recording.rows(since_ms=from_ms, until_ms=to_ms)
    else:
        begun = recording.begun(settings_of, from_ms, upto, evaluates_from_ms)
        rows = recording.rows_of(begun, from_ms, to_ms)
    yield from ((journal, ()) for journal in begun.values() if journal.newest_ms)
    yield from replayed(rows, settings_of, begun=begun, upto=upto, evaluates_from_ms=evaluates_from_ms)


def replay_recording(
    recording: Recording,
    settings_of: SettingsOf,
    *,
    upto: PointInTime | None = None,
    since_ms: Millis | None = None,
    evaluates_from_ms: Millis | None = None,
) -> Mapping[str, ReplayedJournal]:
    """Returns the clusters that have rows and settings, by name.

    Args:
        upto: the state as of that point in time: of an offset when it was read, of a time with all rows up to it.
        since_ms: what happened from this time on is needed too; None: the state is enough.
        evaluates_from_ms: as of `replayed`.

    Raises:
        UsageError: the recording cannot be read, or does not hold that point in time.
    """
    from_ms = to_ms = None
    if not isinstance(upto, AtOffset):
        to_ms = None if upto is None else upto.at_ms
        state_ms = recording.state_from_ms(to_ms)
        from_ms = min(at_ms for at_ms in (state_ms, since_ms, evaluates_from_ms) if at_ms is not None)
    read = replayed_recording(
        recording, settings_of, from_ms=from_ms, to_ms=to_ms, upto=upto, evaluates_from_ms=evaluates_from_ms
    )
    found = {journal.machine.cluster: journal for journal, _ in read}
    if isinstance(upto, AtOffset) and len(found) > 1:
        raise UsageError(
            f"--at {upto.offset}: an offset belongs to one cluster, and {recording.place} holds {len(found)}: "
            "give a time"
        )
    for name, one in found.items():
        one.finish(f"the {recording.kind} of cluster {name}")
    return {name: journal for name, journal in found.items() if journal.newest_ms}


def recorded_state(read: ReplayedJournal | LogDirContents, thresholds: Mapping[str, Thresholds]) -> ClusterState:
    """Returns a recorded state, evaluated as of its newest row; no node is queried."""
    facts = Facts(read.machine.quorum())
    evaluation = evaluate(facts, thresholds)
    log_dir = read if isinstance(read, LogDirContents) else None
    if log_dir is not None:
        # `monitor-blind` would report that no node answered, but none was queried.
        evaluation = replace(
            evaluation,
            findings=tuple(finding for finding in evaluation.findings if finding.rule not in OBSERVATION_RULES),
            unknown=tuple(result for result in evaluation.unknown if result.rule not in OBSERVATION_RULES),
        )
    return ClusterState(
        facts=facts,
        evaluation=evaluation,
        thresholds=thresholds,
        taken_at_ms=Millis(wall_ms()),
        queried_since_ms=None,
        recorded_at_ms=read.newest_ms,
        missing=read.missing,
        log_dir=log_dir,
    )


def missing_since(machine: Machine, since_ms: Millis, *, log: bool) -> Iterator[str]:
    """Yields what was not observed of a cluster since a time, as text; `log`: whether its log is read."""
    quorum = machine.quorum()
    if log and (quorum.log_fetched_at_ms is None or quorum.log_fetched_at_ms < since_ms):
        yield "the metadata log was not answered"
    elif log and (machine.behind or quorum.last_offset is None):
        position, committed = machine.log.position, quorum.high_watermark
        read = "is not read yet" if position < 0 else f"is read up to offset {position}"
        yield f"the metadata log {read}" + (
            ": its leader commits nothing" if committed is None else f", of {committed}"
        )
    if quorum.poll is None or quorum.poll.observed_at_ms < since_ms:
        yield "DescribeQuorum was not answered"
    for node in sorted(quorum.voting_ids) if log else ():
        endpoint = dialled_endpoint(quorum, node)
        probe = quorum.probe(node, endpoint)
        # A static voter may have no endpoint that can be probed.
        unprobed = bool(quorum.voter_ids) if probe is None else probe.observed_at_ms < since_ms
        if endpoint is not None and unprobed:
            yield f"voter {node}'s endpoint {endpoint} was not probed"
