"""A Situation: what happened to a cluster up to now, as the replay sees it.

It begins healthy: three controllers, of which the highest id leads epoch 7; two brokers; the cluster exists for six
days, and the monitor has read each record when it was written. In the last minute it polled every five seconds, probed
every voter's endpoint and asked every controller who leads every ten. `commands` adds what is different.

Node N is at cN:9093 (a broker at bN:9092) and has the directory id dirN. The newest fetch and the newest poll are of
now, so an age in a command is exactly the one that rules see.
"""

import bisect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

from connectors.observations.log_event import LeaderChanged, LogAdvanced, LogEvent, Undecodable, VotersReplaced
from connectors.observations.observation import Event
from rules.model.history import REBUILT_EPOCHS
from rules.model.identifiers import DirectoryId, Endpoint, Epoch, Millis, NodeId, Offset, ReplicaKey
from rules.model.membership import FeatureRange, Voter
from rules.model.monitoring import (
    PLAINTEXT,
    Access,
    ConnectionResult,
    FailedObservation,
    LeaderLog,
    LeaderView,
    Probe,
    ProbeAnswer,
    Resolution,
    Snapshot,
    Vantage,
)
from rules.model.quorum import Quorum
from rules.model.replica import Poll
from rules.model.witness import WitnessRow
from streaming.replay.cluster_settings import ClusterSettings
from streaming.replay.machine import Machine
from tests.record_image import snapshot
from tests.scripts.log_commands import append
from tests.scripts.log_script import LogScript
from tests.situation.progress import Progress

NOW = Millis(1_790_000_000_000)
"""2026-09-21 14:13:20 UTC."""
LOG_END = 10_000
"""The log end offset now, before what commands append."""
EPOCH = 7
SECOND, DAY = 1_000, 86_400_000
POLL_EVERY_MS, PROBE_EVERY_MS = 5 * SECOND, 10 * SECOND
PROBED_AGO_MS, ASKED_AGO_MS = 2 * SECOND, 4 * SECOND
"""When each endpoint was last probed, and each controller was last asked who leads."""

_Step = tuple[int, int, Callable[[], Iterable[Iterable[Event]]]]
"""When it happens, its place among what happens at the same time, and the rows that the gatherer records then."""
_WRITE, _FETCH, _POLL, _PROBE, _VIEW, _FAIL, _CALL = range(7)


def controller_key(node: int, directory: str | None = None) -> ReplicaKey:
    """Returns the key of a replica: its directory is dirN unless another one is named."""
    return ReplicaKey(id=NodeId(node), directory_id=DirectoryId(directory or f"dir{node}"))


def controller_endpoint(node: int, port: int = 9093) -> Endpoint:
    return Endpoint(listener="CONTROLLER", host=f"c{node}", port=port)


def supporting(level: int) -> tuple[FeatureRange, ...]:
    """Returns what a node registers that supports metadata.version up to this level."""
    return (
        FeatureRange(name="group.version", lowest=0, highest=1),
        FeatureRange(name="kraft.version", lowest=0, highest=1),
        FeatureRange(name="metadata.version", lowest=7, highest=level),
    )


@dataclass(kw_only=True)
class Situation:
    """The facts that commands set. `quorum` replays them: afterwards nothing may be changed."""

    voters: tuple[int, ...] = (1, 2, 3)
    brokers: tuple[int, ...] = (101, 102)
    leader: int | None = None
    """The leader of epoch 7; None: the highest id."""
    static: bool = False
    dynamic_ms: int | None = None
    """When kraft.version of a static quorum was upgraded."""
    metadata_version: int | None = 27
    vantage: Vantage = Vantage.INSIDE
    access: Access = PLAINTEXT
    min_isr: int | None = None
    cluster_id: str | None = "cluster-id"
    bootstrap: tuple[str, ...] | None = None
    created_ms: int = NOW - 6 * DAY
    listeners: dict[int, tuple[Endpoint, ...]] = field(default_factory=dict)
    """What a controller registered first and is recorded with, where that is not cN:9093."""
    levels: dict[int, int] = field(default_factory=dict)
    """The highest metadata.version that a node supports from the beginning, where that is not 27."""
    unregistered: set[int] = field(default_factory=set)
    """Controllers and brokers that never registered."""

    log_until_ms: int = NOW
    """When the log was last fetched."""
    polls_until_ms: int = NOW
    begins_ms: int = NOW - 60 * SECOND
    """When the polls began."""
    noops: bool = True
    silent_since_ms: int | None = None
    """The leader has appended nothing since."""
    stalled_since_ms: int | None = None
    """The high watermark has not moved since."""
    high_watermark_is_known: bool = True
    """False: not while it does not move."""
    timed: bool = True
    """False: polls do not say when a replica fetched."""
    snapshot_ms: int | None = None
    """What was not read yet then was read from a snapshot of the log."""
    log_gaps: list[tuple[int, int]] = field(default_factory=list)
    """From when until when the log was not read."""
    clock_ahead_ms: int = 0
    """How far the leader's clock is ahead since `clock_since_ms`."""
    clock_since_ms: int = NOW - 60 * SECOND

    progress: dict[ReplicaKey, Progress] = field(default_factory=dict)
    """Of the replicas that do not simply follow, and of observers that are no brokers."""
    pending: tuple[ReplicaKey, ...] = ()
    """Voters of the leader's set that no committed VotersRecord lists."""
    leaving: tuple[ReplicaKey, ...] = ()
    """Voters of the committed set that the leader's set has no longer."""
    polled: dict[str, Any] = field(default_factory=dict)
    """Fields of the newest polls that are not as they would be."""
    polled_since_ms: int = 0

    probes: dict[int, list[tuple[int, dict[str, Any]]]] = field(default_factory=dict)
    """By node: when its endpoint was probed after the first time, and with which result."""
    certificates: Callable[[Probe], Probe] | None = None
    """Adds what every probe shows of the certificate of an endpoint."""
    views: dict[str, list[tuple[int, LeaderView]]] = field(default_factory=dict)
    """By address: what it answered who leads, at which times."""
    silent_views: set[int] = field(default_factory=set)
    """Controllers that were never asked who leads."""
    views_until_ms: dict[NodeId, int] = field(default_factory=dict)
    """When these controllers last answered who leads."""
    leader_log: LeaderLog | None = None
    witnesses: list[WitnessRow] = field(default_factory=list)
    """What controllers' hosts saw: given to commands, and not replayed."""
    steps: list[_Step] = field(default_factory=list)

    # --- what commands add ------------------------------------------------------------------------------------------

    def write(self, at_ms: int, append: Callable[[LogScript], object]) -> None:
        """Appends records at a time; the monitor reads them at once."""

        def written() -> Iterator[Iterable[Event]]:
            append(self.script)
            yield from ()

        self.steps.append((at_ms, _WRITE, written))
        self.steps.append((at_ms, _FETCH, self._fetch))

    def append(self, at_ms: int, record: str) -> None:
        """Appends a record in words (`tests.scripts.log_commands`) at a time."""
        self.write(at_ms, lambda log: append(log, record))

    def call(self, at_ms: int, change: Callable[[Machine], object]) -> None:
        """Calls what only the job calls: for violations that the replay itself finds."""

        def called() -> Iterator[Iterable[Event]]:
            # An empty row: the machine's time is that of the newest row.
            yield ()
            change(self.machine)

        self.steps.append((at_ms, _CALL, called))

    def observe(self, at_ms: int, *events: Event) -> None:
        """Records a row with these events."""
        self.steps.append((at_ms, _FAIL, lambda: [events]))

    def fail(self, failure: FailedObservation, *, since_ms: int, until_ms: int) -> None:
        """Repeats a failure from one time until another."""
        for at_ms in (*range(since_ms, until_ms, POLL_EVERY_MS), until_ms):
            self.observe(at_ms, failure)

    def lose_metadata(self, at_ms: int, offset: int | None, failure: FailedObservation) -> None:
        """The log ends at an older offset (None: it begins again), and is read again from its beginning."""

        def lost() -> Iterator[Iterable[Event]]:
            script, end = self.script, 0 if offset is None else offset
            script.written = [one for one in script.written if one.at.offset < end]  # type: ignore[union-attr]
            yield [failure]
            script.events, script.offset, self._lost_ms = list(script.written), end, at_ms
            if offset is None:
                self._found(script, 1)

        self.steps.append((at_ms, _CALL, lost))

    def rewrite(self, at_ms: int, offset: int) -> None:
        """A leader of the next epoch writes other records from an older offset on."""

        def rewritten() -> Iterator[Iterable[Event]]:
            script = self.script
            script.written = [one for one in script.written if _offset(one) < offset]
            script.offset, self._lost_ms = offset, at_ms
            script.leader(min(self.voters), script.epoch + 1, voters=self.voters)
            yield from ()

        self.steps.append((at_ms, _WRITE, rewritten))
        self.steps.append((at_ms, _FETCH, self._fetch))

    def rebuild(self, at_ms: int, *left: Voter) -> None:
        """`rescue apply --lost`: a snapshot begins a quorum of the voters that are left, in a later epoch."""

        def rebuilt() -> Iterator[Iterable[Event]]:
            script = self.script
            script.epoch = REBUILT_EPOCHS
            script.voters(*left)
            script.events = []
            yield snapshot(script.written, end_offset=script.offset, epoch=script.epoch, timestamp_ms=script.log_ms)
            script.leader(left[0].key.id, script.epoch + 1, voters=tuple(one.key.id for one in left))

        self.steps.append((at_ms, _WRITE, rebuilt))
        self.steps.append((at_ms, _FETCH, self._fetch))

    def follow(self, key: ReplicaKey, **changes: Any) -> None:
        """Changes how a replica fetches."""
        self.progress[key] = replace(self.progress.get(key, Progress()), **changes)

    def steps_of_polls(self, at_ms: int) -> None:
        """Polls at a time, and just after it."""
        for each_ms in (at_ms, at_ms + SECOND):
            self.steps.append((each_ms, _FETCH, self._fetch))
            self.steps.append((each_ms, _POLL, self._poll))

    def voting_key(self, node: int) -> ReplicaKey:
        """Returns the key with which a node votes: that of a static voter has no directory id."""
        return ReplicaKey(id=NodeId(node), directory_id=None) if self.static else controller_key(node)

    # --- replay -----------------------------------------------------------------------------------------------------

    script: LogScript = field(init=False)
    machine: Machine = field(init=False)
    _ends: list[tuple[int, int]] = field(default_factory=list, init=False)
    _sequence: int = field(default=0, init=False)
    _lost_ms: int | None = field(default=None, init=False)

    @property
    def settings(self) -> ClusterSettings:
        """What the monitor is configured with."""
        listed = self.bootstrap or tuple(str(self._listeners(node)[0]) for node in self.voters)
        return ClusterSettings(
            name="prod", bootstrap=listed, vantage=self.vantage, access=self.access, min_isr=self.min_isr
        )

    @cached_property
    def quorum(self) -> Quorum:
        """The quorum that the replay builds of it."""
        self.replay()
        replayed = self.machine.quorum()
        return replace(replayed, witnesses=(*replayed.witnesses, *self.witnesses))

    def replay(self) -> None:
        """Applies all of it to a machine."""
        self.machine, self.script = Machine(self.settings), LogScript(now_ms=self.created_ms, epoch=0)
        for at_ms, _, rows in sorted(self._all_steps(), key=lambda step: step[:2]):
            self._advance_log(at_ms)
            for events in rows():
                self._apply(at_ms, events)
        self._apply(NOW, ())

    def _apply(self, at_ms: int, events: Iterable[Event]) -> None:
        self._sequence += 1
        self.machine.apply(events, sequence=self._sequence, observed_at_ms=Millis(at_ms))

    def _all_steps(self) -> Iterator[_Step]:
        def founded() -> Iterator[Iterable[Event]]:
            self._found(self.script)
            yield from ()

        yield self.created_ms, -2, founded
        yield self.created_ms, -1, self._fetch
        yield from self.steps
        for at_ms in range(NOW, self.begins_ms - 1, -POLL_EVERY_MS):
            yield at_ms, _FETCH, self._fetch
            yield at_ms, _POLL, self._poll
        if 0 < self.polls_until_ms < NOW:
            yield self.polls_until_ms, _POLL, self._poll
        if 0 < self.log_until_ms < NOW:
            yield self.log_until_ms, _FETCH, self._fetch
        yield from self._probe_steps()
        yield from self._view_steps()

    def _found(self, script: LogScript, epoch: int = EPOCH) -> None:
        """Writes what a new cluster's log begins with."""
        script.leader(self.leader or max(self.voters), epoch, voters=self.voters)
        if self.static:
            script.kraft(0)
        else:
            script.kraft(1)
            script.voters(*(Voter(key=controller_key(node), endpoints=self._listeners(node)) for node in self.voters))
        if self.metadata_version is not None:
            script.feature("metadata.version", self.metadata_version)
        script.feature("group.version", 1)
        for node in self.voters:
            if node not in self.unregistered:
                script.controller(
                    node, where=self._listeners(node), incarnation=f"controller-{node}", features=self.supported(node)
                )
        for node in self.brokers:
            if node not in self.unregistered:
                script.broker(node, fenced=False, incarnation=f"broker-{node}", features=self.supported(node))

    def supported(self, node: int) -> tuple[FeatureRange, ...]:
        return supporting(self.levels.get(node, 27))

    def _listeners(self, node: int) -> tuple[Endpoint, ...]:
        return self.listeners.get(node, (controller_endpoint(node),))

    # --- the log ----------------------------------------------------------------------------------------------------

    def _advance_log(self, at_ms: int) -> None:
        """Appends the NoOps up to a time, two a second, so that the log ends at LOG_END now."""
        self.script.now_ms = at_ms
        self.script.clock_ahead_ms = self.clock_ahead_ms if at_ms >= self.clock_since_ms else 0
        if self.noops and self._lost_ms is None:
            until_ms = at_ms if self.silent_since_ms is None else min(at_ms, self.silent_since_ms)
            self.script.offset = max(self.script.offset, LOG_END - (NOW - until_ms) // 500)
        self._ends.append((at_ms, self.script.offset))

    def _log_end(self, at_ms: int) -> int:
        """Returns where the leader's log ended at a time."""
        index = bisect.bisect_right(self._ends, (at_ms, 1 << 62))
        written = self._ends[index - 1][1] if index else 0
        if not self.noops or self._lost_ms is not None:
            return written
        until_ms = at_ms if self.silent_since_ms is None else min(at_ms, self.silent_since_ms)
        return max(written, LOG_END - (NOW - until_ms) // 500)

    def _reported_high_watermark(self) -> Offset | None:
        """Returns the high watermark that the leader answers."""
        known = self.high_watermark_is_known or self.script.now_ms <= (self.stalled_since_ms or NOW)
        return Offset(self._high_watermark()) if known else None

    def _high_watermark(self) -> int:
        if self.stalled_since_ms is None or self.script.now_ms <= self.stalled_since_ms:
            return self.script.offset
        return self._log_end(self.stalled_since_ms)

    def _fetch(self) -> Iterator[Iterable[Event]]:
        script = self.script
        if script.now_ms > self.log_until_ms or any(since < script.now_ms < until for since, until in self.log_gaps):
            return
        if self.snapshot_ms is not None and script.now_ms >= self.snapshot_ms:
            self.snapshot_ms, script.events = None, []
            yield snapshot(script.written, end_offset=script.offset, epoch=script.epoch, timestamp_ms=script.log_ms)
        high_watermark = self._high_watermark()
        committed = [one for one in script.events if _offset(one) < high_watermark]
        script.events = script.events[len(committed) :]
        since_ms = self.silent_since_ms if self.stalled_since_ms is None else self.stalled_since_ms
        at_ms = script.now_ms if since_ms is None else min(script.now_ms, since_ms)
        if not self.noops and (newest := [one for one in script.written if _offset(one) < high_watermark]):
            at_ms = newest[-1].at.timestamp_ms - script.clock_ahead_ms  # type: ignore[union-attr]
        newest_ms = Millis(at_ms + script.clock_ahead_ms)
        yield [
            *committed,
            LogAdvanced(
                last_offset=Offset(high_watermark - 1),
                leader_epoch=Epoch(script.epoch),
                high_watermark=self._reported_high_watermark(),
                newest_timestamp_ms=newest_ms,
                newest_noop_ms=newest_ms if self.noops else None,
            ),
        ]

    def _newest_leader(self) -> int:
        return next(one.leader_id for one in reversed(self.script.written) if isinstance(one, LeaderChanged))

    def _recorded(self) -> tuple[Voter, ...]:
        """Returns the newest voters; those of a static quorum are configured."""
        if self.static and (self.dynamic_ms is None or self.script.now_ms < self.dynamic_ms):
            return tuple(Voter(key=self.voting_key(node), endpoints=self._listeners(node)) for node in self.voters)
        return next((one.voters for one in reversed(self.script.written) if isinstance(one, VotersReplaced)), ())

    # --- polls, probes, views ---------------------------------------------------------------------------------------

    def _poll(self) -> Iterator[Iterable[Event]]:
        script, leader = self.script, self._newest_leader()
        if script.now_ms > self.polls_until_ms:
            return
        recorded = self._recorded()
        voters = (*(voter.key for voter in recorded if voter.key not in self.leaving), *self.pending)
        followers = {controller_key(node): Progress() for node in self.brokers} | self.progress
        observers = sorted(key for key, one in followers.items() if key not in voters and one.is_listed(script.now_ms))

        def rows(keys: Iterable[ReplicaKey]) -> Any:
            for key in keys:
                one = followers.get(key, Progress())
                row = one.row(key, script.now_ms, now_ms=NOW, ahead_ms=script.clock_ahead_ms, log_end=self._log_end)
                yield row if self.timed else replace(row, last_fetch_ms=None, last_caught_up_ms=None)

        polled = Poll(
            cluster_id=self.cluster_id,
            endpoint=str(self._listeners(leader)[0]),
            leader_id=NodeId(leader),
            leader_epoch=Epoch(script.epoch),
            high_watermark=self._reported_high_watermark(),
            voters=tuple(rows(voters)),
            observers=tuple(rows(observers)),
            nodes={voter.key.id: voter.endpoints for voter in recorded},
            answer_ms=3,
        )
        yield [replace(polled, **self.polled) if script.now_ms >= self.polled_since_ms else polled]

    def _probe_steps(self) -> Iterator[_Step]:
        for node in {*self.voters, *self.probes}:
            faults = self.probes.get(node, [])
            first_ms = min([NOW - 60 * SECOND, *(at_ms - PROBE_EVERY_MS for at_ms, _ in faults)])
            times = [first_ms] if faults else [*range(NOW - PROBED_AGO_MS, first_ms, -PROBE_EVERY_MS)]
            never = any("never" in changes for _, changes in faults)
            usual: list[tuple[int, dict[str, Any]]] = [] if never else [(at_ms, {}) for at_ms in times]
            for at_ms, changes in (*usual, *faults):
                yield at_ms, _PROBE, partial(self._probed, node, at_ms, changes)

    def _probed(self, node: int, at_ms: int, changes: dict[str, Any]) -> Iterator[Iterable[Event]]:
        listed = next((voter.endpoints for voter in self._recorded() if voter.key.id == node), self._listeners(node))
        if changes.get("never"):
            return
        where = changes.get("at")
        changes = {name: value for name, value in changes.items() if name != "at"}
        for endpoint in (one for one in listed if where in (None, str(one))):
            probe = Probe(
                observed_at_ms=Millis(at_ms),
                node=NodeId(node),
                endpoint=endpoint,
                resolution=Resolution.RESOLVED,
                addresses=(f"10.0.0.{node}",),
                connection=ConnectionResult.ACCEPTED,
                answer=ProbeAnswer.THIS_CLUSTER,
                answered_by=NodeId(node),
            )
            yield [self.shown(replace(probe, **changes))]

    def shown(self, probe: Probe) -> Probe:
        """Returns a probe with what it shows of the certificate."""
        return probe if self.certificates is None else self.certificates(probe)

    def _view_steps(self) -> Iterator[_Step]:
        for node in self.voters:
            address = str(self._listeners(node)[0])
            if address not in self.views and node not in self.silent_views:
                for at_ms in range(NOW - ASKED_AGO_MS, self.begins_ms, -PROBE_EVERY_MS):
                    if at_ms <= self.views_until_ms.get(NodeId(node), NOW):
                        yield at_ms, _VIEW, partial(self._viewed, node)
        for views in self.views.values():
            for at_ms, view in views:
                yield at_ms, _VIEW, partial(_row, view)

    def _viewed(self, node: int) -> Iterable[Iterable[Event]]:
        return _row(self.view(node))

    def view(self, node: int) -> LeaderView:
        """Returns what a controller answers who leads, at the time of the log."""
        leader = self._newest_leader()
        return LeaderView(
            endpoint=str(self._listeners(node)[0]),
            node=NodeId(node),
            this_cluster=True,
            leader_id=NodeId(leader),
            leader_epoch=Epoch(self.script.epoch),
            log=(self.leader_log or log_with_snapshot(NOW - 1_800 * SECOND)) if node == leader else None,
        )


def _row(event: Event) -> Iterable[Iterable[Event]]:
    return [[event]]


def _offset(event: LogEvent) -> int:
    found = event.offset if isinstance(event, Undecodable) else event.at.offset  # type: ignore[union-attr]
    return found or 0


def log_with_snapshot(
    reaches_to_ms: int | None, *, end: int = 6_400, tells_absence: bool = True, begins_ms: int | None = None
) -> LeaderLog:
    """Returns a log whose newest snapshot contains records up to this time; None: there is no snapshot."""
    at_ms = None if reaches_to_ms is None else Millis(reaches_to_ms)
    snapshot = Snapshot(end_offset=Offset(end), epoch=Epoch(6), last_contained_timestamp_ms=at_ms)
    return LeaderLog(
        start_offset=Offset(0),
        snapshot=None if reaches_to_ms is None else snapshot,
        tells_absence=tells_absence,
        begins_timestamp_ms=None if begins_ms is None else Millis(begins_ms),
    )
