"""The Machine: builds a `rules.model.quorum.Quorum` from one cluster's events, in order.

Rule 1: every change of what is known about a quorum is made in this package, by `Machine.apply`.
Rule 2: nothing here uses a clock, a socket or Spark. Time is `observed_at_ms`. The same observations give the same
quorum, on any machine, in any batching, at any time.

Theory of operation
===================

An observation is applied completely or not at all, and once: observations are skipped by their sequence number.

There are two kinds of observations. *Polls and probes*, also failed ones, report the current state; the newest one of
each wins. The *log* reports decisions, in order; it is replayed as Kafka's own controllers replay it:

- A log record below the applied position is a re-read and is skipped; one of a newer epoch shows that the log was
  truncated below its high watermark, against KIP-595. It is applied, and the loss of metadata is kept as a failure.
- VotersRecord is the whole voter set, never a difference; any change is legal (KIP-853).
- Records in a transaction are held until its end record, and dropped when it is aborted (KIP-868). Control records are
  not part of transactions.
- A snapshot is replayed beside the log, and replaces it at the footer, even if that comes many observations later. A
  new header discards an unfinished snapshot. Its records have offsets and timestamps of their own; the position of its
  content is "at the latest" its last contained offset and timestamp. A snapshot of what is already applied is a re-read
  and is skipped. A snapshot does not change the results of polls and probes.
- Records after missing ones are not applied until the log is read again from there on, or a newer snapshot is. The log
  stays as it was and is not current, and the missing offsets are kept as a violation of a contract.
- Timestamps of a leader whose clock is wrong are corrected (`log_clock`), so ages stay right.
- After a loss of committed metadata (METADATA_LOST) the log is read from the beginning, and lower epochs are accepted.
- When the gatherer knows other records than before (RECORDS_KNOWN), it reads the log again, and it is applied again.

Rules see a new image of the log only when the log is read up to the high watermark. Before that, the machine replays
history: a condition of hours ago (a recovering partition, a voter not yet added) is not a current condition. So a first
read, a catch-up after a pause, a snapshot and a rewritten log all become visible in one step. If the log cannot be read
up to the high watermark within BEHIND_MS, rules see it as far as it is read: otherwise a busy quorum would not be
monitored.

`leadership` decides the leader from evidence. Undecodable records are counted, and replay continues.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from operator import is_not

from connectors.observations.log_event import LogAdvanced, SnapshotBegan, SnapshotEnded, Undecodable, VotersReplaced
from connectors.observations.observation import Event
from connectors.observations.partition_run import DecodedItem, PartitionRun
from rules.model.history import RecentHistory, rebuilt_between
from rules.model.identifiers import Endpoint, Epoch, Millis, Offset, ReplicaKey
from rules.model.membership import RecordPosition, Voter, majority
from rules.model.monitoring import FailedObservation, LeaderView, ObservationSource, Probe, Reason, Snapshot
from rules.model.quorum import Quorum
from rules.model.replica import Poll
from rules.model.witness import WitnessRow
from streaming.replay import state_codec
from streaming.replay.cluster_settings import ClusterSettings
from streaming.replay.contract_violations import APPLIES, PASSED_OVER, SKIPPED
from streaming.replay.image import Image, keep_alive_since, keep_features_since, keep_zk_migration, removals
from streaming.replay.log import Control, Log, Record
from streaming.replay.log_clock import LogClock
from streaming.replay.machine_state import MachineState
from streaming.replay.partitions import Partitions
from streaming.replay.probe_state import GAPS, ListedEndpoints
from streaming.replay.quorum_builder import build_quorum
from streaming.replay.recent_history import with_read_times, with_voters
from streaming.replay.stored_topics import PageStore
from streaming.replay.stored_values import StoredValues

BEHIND_MS = Millis(10_000)
"""How long the log may be behind its high watermark before rules see it as far as it is read."""
_NOTHING_READ, _FORGOTTEN = Offset(-1), Offset(-2)
"""Positions before the log: it begins with the next record, wherever that is; or only with its first one."""


class Machine(MachineState):
    """One cluster's quorum, replayed."""

    def __init__(
        self, settings: ClusterSettings, pages: PageStore | None = None, *, stored: bytes | None = None
    ) -> None:
        """Begins with the state that `to_bytes` has stored, or without observations.

        Args:
            pages: keeps the large parts of the stored state; None: they are in it.

        Raises:
            UsageError: the stored state is of another cluster.
            DamagedStateError: it is damaged.
        """
        self._values = StoredValues()
        if stored is None:
            state = MachineState(cluster_id=settings.cluster_id or None, log=Log())
        else:
            state = state_codec.from_bytes(settings, stored, pages, self._values)
        super().__init__(**vars(state))
        self.settings, self.cluster, self.pages = settings, settings.name, pages
        self.refused: list[tuple[int, Undecodable]] = []
        """The records of the newest row that are beyond a limit, each after the number of events before it."""

    _quorum: Quorum | None = None
    _known_endpoints: tuple[tuple[object, ...], ListedEndpoints] | None = None
    """Those in the visible image, after what lists them."""
    _epoch_before = Epoch(-1)
    """The newest epoch in the log before the current observation."""
    observed_nothing = False
    """Whether the newest row only reports that the monitor did not observe until now."""
    time_stepped = False
    """Whether it also reports that the time since the row before has not passed."""

    @property
    def behind(self) -> bool:
        """True while history is replayed: a snapshot is unfinished or the log not read to its high watermark."""
        return self.loading is not None or self.behind_since_ms is not None

    def apply(self, items: Iterable[DecodedItem], *, sequence: int, observed_at_ms: Millis) -> bool:
        """Applies one observation's events; returns False if it was applied before and so is skipped.

        Raises:
            ValueError: the sequence is negative: the observation was never recorded, so it has no position.
        """
        if sequence < 0:
            raise ValueError(f"an observation of cluster {self.cluster} has sequence {sequence}: record it first")
        if self.has_applied(sequence):
            return False
        self._begin(sequence, observed_at_ms)
        self._epoch_before = self.log.epoch
        items = tuple(items)
        if items and isinstance(newest := items[-1], LogAdvanced):
            self.append_times.log_advanced(newest)
        items = tuple(self.log_clock.corrected(items, position=self.log.position, observed_at_ms=self.now_ms))
        if (missing := self._missing(items)) is not None:
            self._records_missing(missing)
            return True
        ordinal = 0
        for item in items:
            if isinstance(item, PartitionRun):
                self._apply_run(item)
                size = len(item)
            else:
                self._apply(item)
                size = 1
            self._note_refused(ordinal)
            ordinal += size
        for log in filter(None, (self.log, self.loading)):
            log.end_observation()
        return True

    def _note_refused(self, ordinal: int) -> None:
        """Reports the records that the log has refused; `ordinal`: the number of events before them."""
        for log in filter(None, (self.log, self.loading)):
            for number, refused in enumerate(log.take_refused()):
                self.refused.append((ordinal + number, refused))
                self.undecodable += 1
                self.contract_violations.undecodable(refused, sequence=self.sequence, now_ms=self.now_ms)

    def has_applied(self, sequence: int) -> bool:
        """Returns whether an observation was applied before, or is one of a relay that was replaced."""
        return sequence <= self.sequence

    def skip(self, *, sequence: int, observed_at_ms: Millis, reason: str) -> None:
        """Counts an observation as applied that cannot be applied: only time advances, and the violation is kept."""
        self._begin(max(sequence, self.sequence), observed_at_ms)
        self.log.lacks_records()
        self.record_failure(APPLIES, reason)

    def begin_again(self, since_ms: Millis) -> None:
        """Takes what was observed before this time as history: nothing was, from then until now."""
        self._quorum = None
        self.probe_state.watched_since_ms = since_ms

    def record_failure(self, contract: str, reason: str) -> None:
        """Keeps a violation of one of the contracts that the replay itself checks."""
        self._quorum = None
        self.contract_violations.failed(contract, reason, sequence=self.sequence, now_ms=self.now_ms)

    def _begin(self, sequence: int, observed_at_ms: Millis) -> None:
        self.sequence = sequence
        self.now_ms = max(self.now_ms, observed_at_ms)
        self._quorum = None
        self.observed_nothing = self.time_stepped = False
        self.refused = []
        for kept in (self.probe_state, self.leadership, self.contract_violations):
            kept.expire(self.now_ms)

    def quorum(self) -> Quorum:
        """Returns the current quorum, frozen: later events do not change it."""
        self._quorum = self._quorum or build_quorum(self, self.settings)
        return self._quorum

    def to_bytes(self) -> bytes:
        """Returns the state as bytes, a part of the stored form of a ClusterMonitor."""
        return state_codec.to_bytes(self, self.pages, self._values)

    def _apply(self, event: Event) -> None:
        match event:
            case LogAdvanced():
                self._apply_log_advanced(event)
            case Poll():
                self._apply_poll(event)
            case Probe():
                self.probe_state.endpoint_probed(event, self.now_ms)
            case LeaderView():
                self.probe_state.leader_view_polled(event, self.now_ms)
                self._follow_majority(event)
                if event.log is not None and event.log.snapshot is not None:
                    self._apply_overridden_voters(event.log.snapshot)
            case FailedObservation():
                self._apply_failure(event)
            case WitnessRow():
                self.probe_state.host_witnessed(event, self.now_ms)
            case SnapshotBegan() | SnapshotEnded():
                self._apply_snapshot(event)
            case Undecodable():
                self._apply_undecodable(event)
            case _:
                # Exhaustive: mypy rejects this line if the union gets a member that is not a Record.
                self._apply_record(event)

    def _apply_record(self, event: Record) -> None:
        at = event.at
        if at.snapshot:
            # A chunk that is read twice changes nothing: a snapshot's records are whole, never differences.
            if self.loading is not None:
                self.loading.apply(event)
            return
        log, invariants = self.log, self.leadership.invariants
        if at.offset <= log.position:
            if at.leader_epoch <= log.epoch:
                return
            self._log_rewritten(at.offset, at.leader_epoch)
        else:
            invariants.appended(offset=at.offset, epoch=at.leader_epoch, before=log.epoch, now_ms=self.now_ms)
        if isinstance(event, Control):
            invariants.control_record(event, before=log.epoch, now_ms=self.now_ms)
        log.apply(event)

    def _apply_run(self, run: PartitionRun) -> None:
        """Applies the records of a run as `_apply_record` applies each of them."""
        log = self.log
        if run.snapshot:
            if self.loading is not None:
                self.loading.apply_run(run)
        elif run.first_offset <= log.position:
            for event in run.events():
                self._apply_record(event)
        else:
            invariants, epoch = self.leadership.invariants, Epoch(run.leader_epoch)
            invariants.appended(offset=run.first_offset, epoch=epoch, before=log.epoch, now_ms=self.now_ms)
            log.apply_run(run)

    def forget_log(self) -> None:
        """Begins with what the log had shown unknown, until it is read again from its beginning or a snapshot.

        Records from its middle are those after a gap; without this, they would count as all that it holds.
        """
        self.log.position = _FORGOTTEN

    def _missing(self, items: Sequence[DecodedItem]) -> str | None:
        """Returns which offsets are missing between the log and an observation of it; None if none are."""
        last, position = items[-1] if items else None, self.log.position
        if not isinstance(last, LogAdvanced) or last.base_offset is None or position == _NOTHING_READ:
            return None
        first = max(0, position + 1)
        if last.base_offset <= first or self.contract_violations.has(SKIPPED):
            # A row that was skipped may be the missing one: it is reported, and the log goes on.
            return None
        return f"offsets {first} to {last.base_offset - 1} of the metadata log"

    def _records_missing(self, missing: str) -> None:
        failed = FailedObservation(
            source=ObservationSource.LOG, endpoint="", reason=Reason.RECORDS_MISSING, detail=f"missing: {missing}"
        )
        self.probe_state.observation_failed(failed, self.now_ms)
        if self.behind_since_ms is None:
            self.behind_since_ms = self.now_ms
        example = f"{missing} are missing"
        # Every further observation of the log finds them missing: further ones do not, and the alert lasts as long.
        if self.contract_violations.is_new(PASSED_OVER, example, self.now_ms):
            self.record_failure(PASSED_OVER, example)

    def _log_rewritten(self, offset: Offset, epoch: Epoch) -> None:
        log = self.log
        detail = (
            f"offset {offset} was rewritten in epoch {epoch}: committed records up to offset {log.position} are lost"
        )
        log.position = Offset(offset - 1)
        # What is written there now is applied to a state that has the lost records too.
        log.lacks_records()
        self._metadata_lost(detail)

    def _metadata_lost(self, detail: str, endpoint: str = "") -> None:
        event = FailedObservation(
            source=ObservationSource.LOG, endpoint=endpoint, reason=Reason.METADATA_LOST, detail=detail
        )
        self.probe_state.observation_failed(event, self.now_ms)
        self.leadership.reset()
        self.poll_history.metadata_lost()
        self.log_clock = LogClock()
        self.behind_since_ms = None

    def _apply_log_advanced(self, event: LogAdvanced) -> None:
        self.log_fetched_at_ms = self.now_ms
        self.probe_state.log_fetched()
        self.leadership.log_fetched(event, self.log, self._epoch_before, self.now_ms)
        if event.last_offset is not None and event.last_offset > self.log.position:
            # The follower fetches records after a snapshot only once it is complete: this one will not be finished.
            self.loading = None
        self.log.end_observation(last_offset=event.last_offset, newest_timestamp_ms=event.newest_timestamp_ms)
        self._show_when_caught_up(event.high_watermark)

    def _show_when_caught_up(self, high_watermark: Offset | None) -> None:
        if high_watermark is None:
            high_watermark = self.leadership.high_watermark
        behind_since_ms = self.behind_since_ms
        if high_watermark is None or self.log.position + 1 >= high_watermark:
            self.behind_since_ms = None
        elif behind_since_ms is None:
            self.behind_since_ms = self.now_ms
        shown_while_behind = behind_since_ms is not None and self.now_ms - behind_since_ms > BEHIND_MS
        if self.behind_since_ms is None or shown_while_behind:
            if not shown_while_behind:
                self._date_losses()
            self._show()

    def _date_losses(self) -> None:
        """Adds when the rules first see each unclean election, and emptied replica, after what they saw before."""
        image, seen = self.log.image, self.visible_image
        since_ms = seen.newest_timestamp_ms
        now, before = image.history, seen.history
        if since_ms is not None and (now.unclean is not before.unclean or now.emptied is not before.emptied):
            read_ms = self.log_clock.latest_ms(self.now_ms)
            self.log.image = replace(image, history=with_read_times(image.history, since_ms, read_ms))

    def _show(self) -> None:
        """Makes the log's image visible to the rules."""
        log = self.log
        log.end_observation()
        self.removals = removals(
            self.removals, visible=self.visible_image, following=log.image, observed_at_ms=self.now_ms
        )
        self.visible_image = log.image
        self.leadership.apply_leader_change(leader=log.image.leader_id, epoch=log.image.leader_epoch)
        self._keep_known_endpoints()

    def _apply_snapshot(self, event: SnapshotBegan | SnapshotEnded) -> None:
        last_contained = Offset(event.end_offset - 1)
        if isinstance(event, SnapshotBegan):
            re_read = last_contained <= self.log.position and event.epoch <= self.log.epoch
            origin = RecordPosition(
                offset=last_contained,
                leader_epoch=event.epoch,
                timestamp_ms=event.last_contained_timestamp_ms,
                snapshot=True,
            )
            self.loading = None if re_read else Log(origin=origin, partitions=Partitions(needed_replicas=None))
            return
        loading, self.loading = self.loading, None
        if loading is None or loading.origin is None:
            return
        if (loading.origin.offset, loading.origin.leader_epoch) != (last_contained, event.epoch):
            return
        # A quorum of the voters that were left may begin where the log ends: that is no other record at that place.
        continued = last_contained == self.log.position and rebuilt_between(self.log.epoch, event.epoch)
        if 0 <= last_contained <= self.log.position and not continued:
            self._log_rewritten(last_contained, event.epoch)
        loading.partitions.count_needed()
        image = replace(
            loading.image,
            complete=True,
            needed_replicas=loading.partitions.needed_replicas,
            out_of_sync=loading.partitions.out_of_sync,
            last_offset=last_contained,
            newest_timestamp_ms=loading.origin.timestamp_ms,
            controllers=keep_features_since(loading.image.controllers, self.log.image.controllers),
            brokers=keep_alive_since(loading.image.brokers, self.log.image.brokers),
            zk_migration=keep_zk_migration(loading.image.zk_migration, self.log.image.zk_migration),
            history=self._history_after(loading.image, loading.origin),
        )
        self.log = Log(image=image, partitions=loading.partitions, position=last_contained, epoch=event.epoch)
        self._show_when_caught_up(None)

    def _history_after(self, image: Image, origin: RecordPosition) -> RecentHistory:
        """Returns the history with what a snapshot shows: whether it begins a quorum of the voters that were left.

        After a loss the log is read from its start: the former voters are those that the rules see until then.
        """
        history, before = self.log.image.history, self.log.image.committed or self.visible_image.committed
        if before is None or image.committed is None:
            return history
        if not rebuilt_between(before.leader_epoch or Epoch(0), origin.leader_epoch):
            return history
        return with_voters(history, before, image.committed, origin)

    def _apply_overridden_voters(self, snapshot: Snapshot) -> None:
        """Applies the voters of the leader's newest snapshot if they are not those of the log below its end.

        Kafka takes the voters from there (KRaftControlRecordStateMachine): so a rescue gives voters other endpoints.
        """
        committed, last_contained = self.log.image.committed, Offset(snapshot.end_offset - 1)
        if committed is None or not snapshot.voters or not committed.offset <= last_contained <= self.log.position:
            return
        if _listed(committed.voters) != _listed(snapshot.voters):
            written_ms = snapshot.last_contained_timestamp_ms or committed.timestamp_ms or Millis(0)
            at = RecordPosition(offset=last_contained, leader_epoch=snapshot.epoch, timestamp_ms=written_ms)
            self.log.override_voters(VotersReplaced(at=at, voters=snapshot.voters))
            self._show_when_caught_up(None)

    def _apply_undecodable(self, event: Undecodable) -> None:
        if self.loading is not None or event.offset is None or event.offset > self.log.position:
            self.undecodable += 1
            for log in filter(None, (self.log, self.loading)):
                log.lacks_records()
            self.contract_violations.undecodable(event, sequence=self.sequence, now_ms=self.now_ms)

    def _apply_poll(self, event: Poll) -> None:
        self.probe_state.quorum_polled(event.endpoint, self.now_ms)
        self.cluster_id = self.cluster_id or event.cluster_id
        if self.leadership.polled(event, self.now_ms):
            committed = self.visible_image.committed
            voter_ids = set() if committed is None else {*committed.ids}
            for node in self.poll_history.resumed(event, self.now_ms):
                self.probe_state.fetched_again(node, self.now_ms)
            self.poll_history.add(event, self.now_ms, voter_ids | {removal.key.id for removal in self.removals})
            self._keep_known_endpoints()

    def _follow_majority(self, view: LeaderView) -> None:
        """Takes the leader of a newer epoch as elected if a majority of the voters name it, answered or not."""
        known, poll, committed = self.leadership.epoch, self.poll_history.newest, self.visible_image.committed
        if view.leader_id is None or view.leader_epoch is None or known is None or view.leader_epoch <= known:
            return
        voters = committed.ids if committed is not None else poll.voter_ids if poll else frozenset()
        named = view.leader_epoch, view.leader_id
        views = self.probe_state.leader_views.values()
        naming = {one.node for one in views if one.this_cluster and (one.leader_epoch, one.leader_id) == named}
        if voters and len(naming & voters) >= majority(len(voters)):
            self.leadership.apply_leader_change(leader=view.leader_id, epoch=view.leader_epoch)

    def _apply_failure(self, event: FailedObservation) -> None:
        if event.reason is Reason.METADATA_LOST:
            self._metadata_lost(event.detail, event.endpoint)
            self.log, self.loading = Log(), None
            return
        if event.reason is Reason.RECORDS_KNOWN:
            # The rules see the image from before until the log is read up to the high watermark again.
            self.log, self.loading, self.log_clock = Log(), None, LogClock()
            return
        if event.reason in GAPS:
            self.time_stepped = event.reason is Reason.CLOCK_STEPPED
            self.observed_nothing = self.probe_state.gap_ended(event, self.now_ms) or self.time_stepped
            return
        self.probe_state.observation_failed(event, self.now_ms)
        if event.source is not ObservationSource.PROBE:
            self.leadership.observation_failed(event, self.now_ms)

    def _keep_known_endpoints(self) -> None:
        # Without a voter set (a static quorum, or a log not read yet) the gatherer probes endpoints unknown here.
        if (self.probe_state.probes or self.probe_state.addresses) and self.visible_image.committed is not None:
            newest = self.poll_history.newest
            nodes = {} if newest is None else newest.nodes
            polled = {(node, str(endpoint)) for node, endpoints in nodes.items() for endpoint in endpoints}
            self.probe_state.keep_known_endpoints(self._endpoints_of_log(), ListedEndpoints.of(polled))

    def _endpoints_of_log(self) -> ListedEndpoints:
        """Returns the endpoints in the visible image; they are collected again only if what lists them changed."""
        image = self.visible_image
        lists = image.committed, image.controllers, image.brokers
        if self._known_endpoints is None or any(map(is_not, self._known_endpoints[0], lists)):
            self._known_endpoints = lists, ListedEndpoints.of(image.endpoints)
        return self._known_endpoints[1]


def _listed(voters: Iterable[Voter]) -> set[tuple[ReplicaKey, frozenset[Endpoint]]]:
    # Kafka lists voters and their endpoints in any order.
    return {(voter.key, frozenset(voter.endpoints)) for voter in voters}
