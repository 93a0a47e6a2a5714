"""Rows: one cluster's sights as observations. Blanks credentials, keeps the clock, and says what is urgent."""

import time
from collections.abc import Callable
from typing import TypeAlias

from connectors.errors import UndecodableError
from connectors.event import Audited, EndpointProbed, LeaderViewPolled, ObservationFailed, QuorumPolled, to_json
from connectors.gather.commit_buffer import Release
from connectors.gather.node_directory import Whereabouts
from connectors.gather.publisher import Recording
from connectors.kafka.messages import SnapshotId
from connectors.metadata.batches import Batch, scan
from connectors.metadata.decoder import decode
from connectors.metadata.record_framing import framed, head, is_noop
from connectors.metadata.redaction import blanked
from connectors.observation import Kind, Observation
from rules.model.monitoring import ObservationSource

_REGISTER_CONTROLLER = 27
_SUCCESS = "seen"
_Shape: TypeAlias = "tuple[object, ...] | str"


def wall_ms() -> int:
    """The wall clock, milliseconds since the Unix epoch."""
    return time.time_ns() // 1_000_000


class Rows:
    """The Output of one cluster's follower, poll, probe and views."""

    def __init__(
        self,
        cluster: str,
        recording: Recording,
        where: Whereabouts,
        *,
        not_before_ms: int = 0,
        clock: Callable[[], int] = wall_ms,
    ) -> None:
        self._cluster = cluster
        self._recording = recording
        self._where = where
        self._clock = clock
        self._newest_ms = not_before_ms
        self._read_ms: int | None = None
        """What the clock said last. When it was set back, time goes on from the newest row by what passes on it."""
        self._shown: dict[tuple[str, str], _Shape] = {}
        """What each place showed last: the same again is not urgent."""

    def release(self, release: Release) -> None:
        """As `Output.release`. Records other than NoOps are urgent."""
        payload = blanked(release.batches)
        self._write(
            Kind.RECORDS,
            payload,
            urgent=self._read(payload, kind=Kind.RECORDS),
            base_offset=release.base_offset,
            last_offset=release.last_offset,
            leader_epoch=release.leader_epoch,
            high_watermark=release.high_watermark,
        )

    def piece(self, snapshot: SnapshotId, number: int, batches: bytes) -> None:
        """As `Output.piece`."""
        payload = blanked(batches)
        self._read(payload, kind=Kind.SNAPSHOT)
        self._write(
            Kind.SNAPSHOT,
            payload,
            urgent=True,
            base_offset=snapshot.end_offset,
            last_offset=number,
            leader_epoch=snapshot.epoch,
        )

    def polled(self, event: QuorumPolled) -> None:
        """As `Output.polled`. Another leader, epoch or member is urgent; progress is not."""
        voters = frozenset(replica.key for replica in event.voters)
        observers = frozenset(replica.key for replica in event.observers)
        shape = (event.leader_id, event.leader_epoch, voters, observers, event.nodes)
        changed = self._changed(ObservationSource.QUORUM, "", shape)
        self._forgive(ObservationSource.QUORUM)
        self._write(Kind.QUORUM, to_json(event), urgent=changed)

    def probed(self, event: EndpointProbed) -> None:
        """As `Output.probed`. A look that shows something else than the one before is urgent."""
        shape = (event.resolution, frozenset(event.addresses), event.connection, event.answer, event.answered_by)
        changed = self._changed(ObservationSource.PROBE, f"{event.node}@{event.endpoint}", shape)
        self._write(Kind.PROBE, to_json(event), urgent=changed)

    def viewed(self, event: LeaderViewPolled) -> None:
        """As `Output.viewed`. Another leader or epoch is urgent; where the leader's log begins is not."""
        shape = (event.node, event.this_cluster, event.leader_id, event.leader_epoch)
        changed = self._changed(ObservationSource.VIEW, event.endpoint, shape)
        self._write(Kind.VIEW, to_json(event), urgent=changed)

    def unseen(self, event: ObservationFailed) -> None:
        """As `Output.unseen`. A new reason is urgent."""
        changed = self._changed(event.sight, f"!{event.endpoint}", event.reason.value)
        self._recording.unseen[self._cluster, event.sight.value, event.reason.value] += 1
        self._write(Kind.UNSEEN, to_json(event), urgent=changed)

    def audited(self, event: Audited) -> None:
        """What an audit found in the rows; a broken contract is urgent."""
        self._write(Kind.AUDIT, to_json(event), urgent=bool(event.broken))

    def _read(self, payload: bytes, *, kind: Kind) -> bool:
        """Learn where the nodes are; True when there is anything but NoOps."""
        if kind is Kind.RECORDS:
            self._forgive(ObservationSource.LOG)
        matters = False
        for batch in scan(payload):
            if isinstance(batch, Batch) and is_noop(payload, batch):
                continue
            matters = True
            if isinstance(batch, Batch) and _tells_endpoints(payload, batch):
                self._learn(payload[batch.position : batch.end], batch, kind)
        return matters

    def _learn(self, payload: bytes, batch: Batch, kind: Kind) -> None:
        events = decode(
            payload,
            kind=kind,
            base_offset=batch.base_offset,
            last_offset=batch.last_offset,
            leader_epoch=batch.leader_epoch,
            high_watermark=None,
        )
        for event in events.events():
            self._where.learn(event)

    def _changed(self, sight: ObservationSource, place: str, shape: _Shape) -> bool:
        before = self._shown.get((sight.value, place))
        self._shown[sight.value, place] = shape
        return before != shape

    def _forgive(self, sight: ObservationSource) -> None:
        """This sight succeeded: its next failure is news again."""
        for key in [key for key in self._shown if key[0] == sight.value and key[1].startswith("!")]:
            del self._shown[key]

    def _now_ms(self) -> int:
        """The wall clock's time; never earlier than the newest row's.

        While the clock is behind that (it was set back), nine tenths of what passes are added: time that stood still
        would let no alert fire and none resolve until the clock has caught up.
        """
        read_ms, before_ms = self._clock(), self._read_ms
        passed_ms = 0 if before_ms is None else read_ms - before_ms
        if read_ms >= self._newest_ms:
            self._newest_ms = self._read_ms = read_ms
        elif before_ms is None or not 0 <= passed_ms < 10:
            self._newest_ms += max(0, passed_ms) * 9 // 10
            self._read_ms = read_ms
        return self._newest_ms

    def _write(
        self,
        kind: Kind,
        payload: bytes,
        *,
        urgent: bool,
        base_offset: int | None = None,
        last_offset: int | None = None,
        leader_epoch: int | None = None,
        high_watermark: int | None = None,
    ) -> None:
        row = Observation(
            cluster=self._cluster,
            kind=kind,
            observed_at_ms=self._now_ms(),
            base_offset=base_offset,
            last_offset=last_offset,
            leader_epoch=leader_epoch,
            high_watermark=high_watermark,
            payload=payload,
        )
        self._recording.add(row, urgent=urgent)


def _tells_endpoints(payload: bytes, batch: Batch) -> bool:
    """Whether the batch may hold a VotersRecord or a RegisterControllerRecord."""
    if batch.is_control:
        return True
    return any(
        record.value is not None and _type(payload, *record.value) == _REGISTER_CONTROLLER
        for record in framed(payload, batch)
    )


def _type(payload: bytes, start: int, end: int) -> int | None:
    try:
        return head(payload, start, end)[0]
    except UndecodableError:
        return None
