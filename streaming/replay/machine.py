"""The Machine: one cluster's events, in order, become a `rules.model.quorum.Quorum`.

Rule 1: everything that changes what is known of a quorum happens in this package, by `Machine.apply`.
Rule 2: nothing here knows a clock, a socket or Spark. Time is `observed_at_ms`; the same observations give the
same quorum, on any machine, in any batching, in any year.

Theory of operation
===================

An observation is applied whole or not at all, and once: its sequence number is the unit of skipping.

Two sources speak. *Looks* (polls, probes, failed looks) say what is so now; the newest one of each wins.
The *log* says what was decided, in order; it is replayed as Kafka's own controllers replay it:

- A log record below what is applied is a re-read and is skipped. But a record of a newer epoch below what is
  applied cannot be a re-read: the log was cut and written again. It is applied, and the loss of committed
  metadata is kept as a failure (KIP-595 allows truncation only above the high watermark).
- VotersRecord is the whole voter set, never a difference; any jump is legal (KIP-853).
- Records in a transaction are held back until its end record, and dropped at its abort (KIP-868). Control
  records stand outside transactions.
- A snapshot is replayed beside the log, and takes its place at the footer, be that many observations later.
  A new header discards an unfinished snapshot. Its records' offsets and timestamps are not the log's: what it
  tells stands at its last contained offset and timestamp "at the latest". A snapshot of what is already applied
  is a re-read and is skipped. Looks are not touched by a snapshot.
- Told that committed metadata was lost (METADATA_LOST), the log is begun anew, and lower epochs are believed.

What of the log is *shown* in the quorum changes only when the log is read up to the high watermark. Behind it
the machine replays history, and what was so hours ago (a partition recovering, a voter not yet added) is no
condition that stands. So a first reading, a catch-up after a pause, a snapshot and a rewritten log all appear in
one step. A log that cannot be caught up with within BEHIND_MS is shown as it is: a busy quorum is no blind spot.

Who leads is a matter of evidence: see `leadership`. What does not decode is counted, and the stream goes on.
"""

from collections.abc import Iterable
from dataclasses import replace

from connectors.event import (
    Audited,
    EndpointProbed,
    Event,
    LeaderChanged,
    LeaderViewPolled,
    LogAdvanced,
    ObservationFailed,
    PartitionChanged,
    PartitionSet,
    QuorumPolled,
    SnapshotBegan,
    SnapshotEnded,
    Undecodable,
)
from rules.model.identifiers import Epoch, Millis, Offset
from rules.model.monitoring import PLAINTEXT, ObservationSource, Reason, Vantage
from rules.model.quorum import Quorum
from rules.model.voter_set import VoterRemoval
from streaming.replay import quorum_builder, registrations, state_codec, voters
from streaming.replay.contract_violations import Contracts
from streaming.replay.image import Image
from streaming.replay.invariants import Invariants
from streaming.replay.leadership import Leadership
from streaming.replay.log import Log, Record
from streaming.replay.partitions import Origin
from streaming.replay.poll_history import Polls
from streaming.replay.probe_state import Looks

BEHIND_MS = Millis(10_000)
"""How long the log may stay behind its high watermark before it is shown as far as it is read."""


class Machine:
    """One cluster's quorum (one shard of it), replayed.

    Invariant: `sequence` is the newest observation applied; it and everything before it are never applied again.
    """

    def __init__(self, cluster: str, cluster_id: str | None, bootstrap: tuple[str, ...], vantage: Vantage) -> None:
        """A machine that has seen nothing.

        Args:
            cluster: its name in the configuration.
            cluster_id: where it is known already; else the first poll that tells it does.
            bootstrap: HOST:PORT of each configured controller or broker.
            vantage: where the monitor stands.
        """
        self.cluster = cluster
        self.cluster_id = cluster_id or None
        self.bootstrap = bootstrap
        self.vantage = vantage
        self.access = PLAINTEXT
        self.sequence = -1
        self.now_ms = Millis(0)
        self.undecodable = 0
        self.log = Log()
        self.loading: Log | None = None
        self.shown = Image()
        self.behind_since_ms: Millis | None = None
        self.log_seen_at_ms: Millis | None = None
        self.removals: tuple[VoterRemoval, ...] = ()
        self.leadership = Leadership()
        self.polls = Polls()
        self.looks = Looks()
        self.invariants = Invariants()
        self.contracts = Contracts()
        self._quorum: Quorum | None = None

    @property
    def behind(self) -> bool:
        """True while history is replayed: a snapshot is unfinished or the log not read to its high watermark."""
        return self.loading is not None or self.behind_since_ms is not None

    def apply(self, events: Iterable[Event], *, sequence: int, observed_at_ms: Millis) -> bool:
        """Apply one observation's events; False when it had been applied before, and so was skipped.

        Raises:
            ValueError: the sequence is negative: the observation was never recorded, so it has no place in the order.
        """
        if sequence < 0:
            raise ValueError(f"an observation of cluster {self.cluster} has sequence {sequence}: record it first")
        if sequence <= self.sequence:
            return False
        self.sequence = sequence
        self.now_ms = max(self.now_ms, observed_at_ms)
        self._quorum = None
        self.looks.forget(self.now_ms)
        self.leadership.forget(self.now_ms)
        self.invariants.forget(self.now_ms)
        self.contracts.forget(self.now_ms)
        for event in events:
            self._apply(event)
        for log in (self.log, self.loading):
            if log is not None:
                log.settle()
        return True

    def quorum(self) -> Quorum:
        """All that is known now, frozen: later events do not change it."""
        if self._quorum is None:
            self._quorum = quorum_builder.quorum(self)
        return self._quorum

    def to_bytes(self) -> bytes:
        """Everything this machine knows, as a versioned blob."""
        return state_codec.to_bytes(self)

    @classmethod
    def from_bytes(
        cls, blob: bytes, *, cluster: str, cluster_id: str | None, bootstrap: tuple[str, ...], vantage: Vantage
    ) -> "Machine":
        """The machine that `to_bytes` wrote, with the configuration of today.

        Raises:
            UsageError: the blob is of a newer kraftwatch, of another cluster, or damaged.
        """
        machine = cls(cluster, cluster_id, bootstrap, vantage)
        state_codec.restore(machine, blob)
        return machine

    def _apply(self, event: Event) -> None:
        match event:
            case PartitionChanged() | PartitionSet():
                self._record(event)
            case LogAdvanced():
                self._advanced(event)
            case QuorumPolled():
                self._polled(event)
            case EndpointProbed():
                self.looks.probed(event, self.now_ms)
            case LeaderViewPolled():
                self.looks.viewed(event, self.now_ms)
            case ObservationFailed():
                self._unseen(event)
            case SnapshotBegan() | SnapshotEnded():
                self._snapshot(event)
            case Undecodable() | Audited():
                self._ours(event)
            case _:
                # Exhaustive: mypy refuses this line as soon as the union has a member that is not a Record.
                self._record(event)

    def _record(self, event: Record) -> None:
        at = event.at
        if at.snapshot:
            # A piece that comes twice says the same twice: a snapshot's records are whole, never differences.
            if self.loading is not None:
                self.loading.apply(event)
            return
        log = self.log
        if at.offset <= log.position:
            if at.leader_epoch <= log.epoch:
                return
            self._rewritten(at.offset, at.leader_epoch)
        else:
            self.invariants.appended(offset=at.offset, epoch=at.leader_epoch, before=log.epoch, now_ms=self.now_ms)
        if isinstance(event, LeaderChanged):
            self.invariants.led(leader=event.leader_id, epoch=at.leader_epoch, now_ms=self.now_ms)
        log.apply(event)

    def _rewritten(self, offset: Offset, epoch: Epoch) -> None:
        log = self.log
        detail = f"offset {offset} is written again, in epoch {epoch}: what stood up to offset {log.position} is gone"
        log.position = Offset(offset - 1)
        self._lost(detail)

    def _lost(self, detail: str, endpoint: str = "") -> None:
        event = ObservationFailed(
            sight=ObservationSource.LOG, endpoint=endpoint, reason=Reason.METADATA_LOST, detail=detail
        )
        self.looks.failed(event, self.now_ms)
        self.leadership.distrust()
        self.invariants.distrust()
        self.behind_since_ms = None

    def _advanced(self, event: LogAdvanced) -> None:
        self.log_seen_at_ms = self.now_ms
        self.looks.log_seen()
        self.leadership.answered(event.high_watermark, self.now_ms)
        if event.last_offset is not None and event.last_offset > self.log.position:
            # The follower reads on behind a snapshot only when it has it whole: this one will not be finished.
            self.loading = None
        self.log.settle(last_offset=event.last_offset, newest_timestamp_ms=event.newest_timestamp_ms)
        self._show_when_caught_up(event.high_watermark)

    def _show_when_caught_up(self, high_watermark: Offset | None) -> None:
        if high_watermark is None:
            high_watermark = self.leadership.high_watermark
        if high_watermark is None or self.log.position + 1 >= high_watermark:
            self.behind_since_ms = None
        elif self.behind_since_ms is None:
            self.behind_since_ms = self.now_ms
        if self.behind_since_ms is None or self.now_ms - self.behind_since_ms > BEHIND_MS:
            self._show()

    def _show(self) -> None:
        log = self.log
        log.settle()
        self.removals = voters.removals(self.removals, shown=self.shown, showing=log.image, observed_at_ms=self.now_ms)
        if log.image.gone:
            log.image = replace(log.image, gone=())
        self.shown = log.image
        self.leadership.read(leader=self.shown.leader_id, epoch=self.shown.leader_epoch)
        self._keep_probes()

    def _snapshot(self, event: SnapshotBegan | SnapshotEnded) -> None:
        last_contained = Offset(event.end_offset - 1)
        if isinstance(event, SnapshotBegan):
            re_read = last_contained <= self.log.position and event.epoch <= self.log.epoch
            origin = Origin(last_contained, event.epoch, event.last_contained_timestamp_ms)
            self.loading = None if re_read else Log(origin=origin)
            return
        loading, self.loading = self.loading, None
        if loading is None or loading.origin is None:
            return
        if (loading.origin.offset, loading.origin.leader_epoch) != (last_contained, event.epoch):
            return
        if last_contained < self.log.position:
            self._rewritten(event.end_offset, event.epoch)
        image = replace(
            loading.image,
            complete=True,
            last_offset=last_contained,
            newest_timestamp_ms=Millis(loading.origin.timestamp_ms),
            recovering=loading.partitions.recovering,
            controllers=registrations.with_features(loading.image.controllers, self.log.image.controllers),
            brokers=registrations.with_lives(loading.image.brokers, self.log.image.brokers),
            past=self.log.image.past,
        )
        self.log = Log(image=image, partitions=loading.partitions, position=last_contained, epoch=event.epoch)
        self._show_when_caught_up(None)

    def _ours(self, event: Undecodable | Audited) -> None:
        if isinstance(event, Audited):
            self.contracts.audited(event, self.now_ms)
        elif self.loading is not None or event.offset is None or event.offset > self.log.position:
            self.undecodable += 1
            self.contracts.undecodable(event, sequence=self.sequence, now_ms=self.now_ms)

    def _polled(self, event: QuorumPolled) -> None:
        self.looks.quorum_seen(event.endpoint)
        if self.cluster_id is None:
            self.cluster_id = event.cluster_id
        self.invariants.polled(event, self.now_ms)
        heard = self.leadership.hear(
            leader=event.leader_id, epoch=event.leader_epoch, high_watermark=event.high_watermark, now_ms=self.now_ms
        )
        if heard:
            voted = set() if self.shown.committed is None else {*self.shown.committed.ids}
            self.polls.take(event, self.now_ms, voted | {removal.key.id for removal in self.removals})
            self._keep_probes()

    def _unseen(self, event: ObservationFailed) -> None:
        if event.reason is Reason.METADATA_LOST:
            self._lost(event.detail, event.endpoint)
            self.log, self.loading = Log(), None
            return
        self.looks.failed(event, self.now_ms)
        if event.sight is not ObservationSource.PROBE:
            self.leadership.doubt(event.endpoint, event.reason, self.now_ms)

    def _keep_probes(self) -> None:
        # Without a voter set (a static quorum, or a log not read yet) who looks knows endpoints that we do not know.
        if (self.looks.probes or self.looks.addresses) and self.shown.committed is not None:
            nodes = {} if self.polls.newest is None else self.polls.newest.nodes
            polled = {(node, str(endpoint)) for node, endpoints in nodes.items() for endpoint in endpoints}
            self.looks.keep_probes(self.shown.endpoints | polled)
