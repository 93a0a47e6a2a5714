"""Writes one cluster's observations as journal rows: sets the time, and how urgent a row is.

`redacted_batches` prepares fetched record batches: it blanks credentials and finds endpoints. It is pure, and slow: the
log follower calls it in a worker thread, because 8 MiB of small records take some seconds.
"""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from connectors.errors import ObservationError
from connectors.gather.commit_buffer import CommittedRecords
from connectors.gather.node_directory import NodeDirectory
from connectors.gather.publisher import Publisher
from connectors.kafka.cluster_connection import Address
from connectors.metadata.batch_division import Piece, divided
from connectors.metadata.batches import RecordBatch, scan
from connectors.metadata.decoder import decode_snapshot_piece
from connectors.metadata.record_framing import is_noop
from connectors.metadata.redaction import redact
from connectors.observations.log_event import VotersReplaced
from connectors.observations.observation import Observation, ObservationKind, Urgency, to_json
from connectors.process.wall_clock import RowClock, steady_ms
from rules.model.ages import APPENDED_MS
from rules.model.identifiers import Endpoint, Millis, NodeId, SnapshotId
from rules.model.membership import ControllerRegistration
from rules.model.monitoring import FailedObservation, LeaderView, ObservationSource, Probe, Reason
from rules.model.replica import Poll, Replica
from rules.model.witness import WitnessRow

_REMEMBERED = 10_000
"""Observations whose change is noticed: a node may report other endpoints in each answer."""
_REPEATED_MS: Final = 15_000
"""After a longer time an observation was no longer current, so that repeating it may begin or end a condition."""
_GAP_MS: Final = 3_000
"""The quorum poll writes a row each second, also if every request fails: a longer time without one was not observed."""
_Shape: TypeAlias = "tuple[object, ...] | str"
_REGISTER_CONTROLLER: Final = 27
_NO_RECORDS: Final = Piece(b"", None)


@dataclass(frozen=True, slots=True, kw_only=True)
class RedactedBatches:
    """Whole batches without credentials, and what the gatherer needs to know of them."""

    pieces: tuple[Piece, ...]
    """The batches; each piece becomes a row."""
    has_records: bool
    """Whether there are more than NoOps."""
    endpoints: tuple[VotersReplaced | ControllerRegistration, ...]
    """The newest voter set, and the newest registration of each controller."""


def redacted_batches(batches: bytes) -> RedactedBatches:
    """Returns the batches of the log or of a snapshot with blanked credentials, divided into pieces."""
    registrations: list[int] = []

    def note_registration(api_key: int, position: int) -> None:
        if api_key == _REGISTER_CONTROLLER:
            registrations.append(position)

    content = redact(batches, rare=note_registration)
    has_records = False
    newest: dict[object, VotersReplaced | ControllerRegistration] = {}
    for batch in scan(content):
        if isinstance(batch, RecordBatch) and is_noop(content, batch):
            continue
        has_records = True
        if isinstance(batch, RecordBatch) and (batch.is_control or _holds_one(registrations, batch)):
            # Voters and endpoints are the same in a log and in a snapshot of any id.
            for event in decode_snapshot_piece(content[batch.position : batch.end], end_offset=0, epoch=0):
                match event:
                    case VotersReplaced():
                        newest["voters"] = event
                    case ControllerRegistration():
                        newest[event.id] = event
                    case _:
                        pass
    return RedactedBatches(pieces=divided(content), has_records=has_records, endpoints=tuple(newest.values()))


def _holds_one(positions: list[int], batch: RecordBatch) -> bool:
    """Whether one of the positions, which are ascending, is in the batch."""
    at = bisect_left(positions, batch.position)
    return at < len(positions) and positions[at] < batch.end


def failure(
    source: ObservationSource, endpoint: Address | Endpoint, problem: ObservationError, *, node: NodeId | None = None
) -> FailedObservation:
    """Returns the observation that a request to this endpoint failed."""
    return FailedObservation(
        source=source, endpoint=str(endpoint), reason=problem.reason, detail=problem.detail, node=node
    )


class ObservationWriter:
    """Receives the observations of one cluster in the order they are made.

    Log follower, quorum poll, endpoint probe and leader view poll write through it, and so do controllers' hosts.
    """

    def __init__(
        self,
        cluster: str,
        publisher: Publisher,
        nodes: NodeDirectory,
        *,
        clock: RowClock | None = None,
        steady: Callable[[], int] = steady_ms,
    ) -> None:
        self._cluster = cluster
        self._publisher = publisher
        self._nodes = nodes
        self._clock = clock or RowClock()
        self._steady = steady
        self._written_at_ms: int | None = None
        self._polled: Poll | None = None
        self._shown_since_poll: set[ObservationKind] = set()
        """Of which kinds the rows since the newest poll were that were not quiet: a condition may begin with the next
        poll."""
        self._changes_every_poll = False
        """Whether records, and nothing else, were not quiet before the newest poll."""
        self._poll_waits = False
        """Whether the newest poll is quiet although a condition may begin with it: the next row of records
        decides, or the next poll if none comes before it."""
        self._observed: dict[tuple[str, str], tuple[int | None, object]] = {}
        """When each thing was observed since the newest gap, and what it was: repeating it is quiet."""
        self._witnessed: dict[NodeId, tuple[int, int]] = {}
        """When each host last reported, and what `_shown` was then."""
        self._shown = 0
        """The number of rows that were not quiet, without those of hosts."""
        self._last: dict[tuple[str, str], _Shape] = {}
        """The last observation by source and endpoint: an unchanged one is not urgent."""

    def write_records(self, records: CommittedRecords, batches: RedactedBatches) -> None:
        """Writes committed records, whose content is `batches`; empty if the leader answered without new ones.

        Records other than NoOps are urgent. All rows are published together: a follower that is restarted continues
        after a whole batch of the leader, never after a part of it.
        """
        failed = self._clear_failures(ObservationSource.LOG)
        self._update_nodes(batches)
        base_offset = records.base_offset
        for number, piece in enumerate(batches.pieces or (_NO_RECORDS,), 1):
            is_last = number >= len(batches.pieces)
            last_offset = records.last_offset if is_last or piece.last_offset is None else piece.last_offset
            now_ms = self._now_ms()
            quiet = number == 1 and self._is_repeated(ObservationSource.LOG) and not failed
            row = Observation(
                cluster=self._cluster,
                kind=ObservationKind.RECORDS,
                observed_at_ms=now_ms,
                payload=piece.content,
                base_offset=base_offset,
                last_offset=last_offset,
                leader_epoch=records.leader_epoch,
                high_watermark=records.high_watermark,
                urgency=_urgency(urgent=batches.has_records, quiet=quiet),
            )
            self._add(row)
            base_offset = last_offset + 1

    def write_snapshot_pieces(self, snapshot: SnapshotId, first: int, batches: RedactedBatches) -> None:
        """Writes pieces of a snapshot: whole batches; the pieces of a snapshot are numbered from 0."""
        self._update_nodes(batches)
        for number, piece in enumerate(batches.pieces, first):
            row = Observation(
                cluster=self._cluster,
                kind=ObservationKind.SNAPSHOT,
                observed_at_ms=self._now_ms(),
                payload=piece.content,
                base_offset=snapshot.end_offset,
                last_offset=number,
                leader_epoch=snapshot.epoch,
                urgency=Urgency.URGENT,
            )
            self._add(row)

    def write_poll(self, event: Poll) -> None:
        """Writes the response to a DescribeQuorum. A changed leader, epoch or member is urgent; offsets are not."""
        voters = frozenset(replica.key for replica in event.voters)
        observers = frozenset(replica.key for replica in event.observers)
        shape = (event.leader_id, event.leader_epoch, voters, observers, event.nodes)
        changed = self._changed(ObservationSource.QUORUM, "", shape)
        failed = self._clear_failures(ObservationSource.QUORUM)
        event = replace(event, clock_ahead_ms=self._clock.ahead_ms())
        before, self._polled = self._polled, event
        repeated = self._is_repeated(ObservationSource.QUORUM) and not failed
        advances = repeated and before is not None and _all_advance(before, event)
        shown, self._shown_since_poll = self._shown_since_poll, set()
        busy, self._changes_every_poll = self._changes_every_poll, shown == {ObservationKind.RECORDS}
        self._poll_waits, waited = advances and busy and self._changes_every_poll, self._poll_waits
        quiet = advances and (self._poll_waits or not (shown or waited))
        self._write(ObservationKind.QUORUM, to_json(event), urgent=changed, quiet=quiet)

    def write_probe(self, event: Probe) -> None:
        """Writes the result of an endpoint probe. One that differs from the previous one is urgent."""
        reached = (event.resolution, frozenset(event.addresses), event.connection)
        shape = (*reached, event.answer, event.answered_by, event.reason, event.certificate, event.settings)
        place = f"{event.node}@{event.endpoint}"
        changed = self._changed(ObservationSource.PROBE, place, shape)
        quiet = self._is_repeated(ObservationSource.PROBE, place)
        self._write(ObservationKind.PROBE, to_json(event), urgent=changed, quiet=quiet)

    def write_leader_view(self, event: LeaderView) -> None:
        """Writes which leader and epoch a controller reported. A changed leader or epoch is urgent."""
        shape = (event.node, event.this_cluster, event.leader_id, event.leader_epoch, event.other_voters)
        changed = self._changed(ObservationSource.LEADER_VIEW, event.endpoint, shape)
        quiet = self._is_repeated(ObservationSource.LEADER_VIEW, event.endpoint, event.log)
        # The next failure there is no repetition.
        self._observed.pop((ObservationSource.LEADER_VIEW.value, f"!{event.endpoint}"), None)
        self._write(ObservationKind.VIEW, to_json(event), urgent=changed, quiet=quiet)

    def write_witness(self, event: WitnessRow) -> None:
        """Writes what a node's host saw. Another result or process than before is urgent, the same again is quiet.

        Not after a change of the cluster: a row counts only if it is newer than the newest start of both controllers.
        """
        seen = tuple((peer.node, peer.endpoint, peer.reached, peer.step) for peer in event.peers)
        changed = self._changed(ObservationKind.WITNESS, str(event.node), (event.process_since_ms, seen))
        before, now_ms = self._witnessed.get(event.node), self._steady()
        # One that is missed makes no difference yet: the row before counts for three intervals.
        missed = before is None or event.every_ms is None or now_ms - before[0] > 2 * event.every_ms
        quiet = not changed and not missed and before is not None and before[1] == self._shown
        self._write(ObservationKind.WITNESS, to_json(event), urgent=changed, quiet=quiet)
        self._witnessed[event.node] = now_ms, self._shown

    def write_failure(self, event: FailedObservation) -> None:
        """Writes a failed poll, probe or fetch. A new reason is urgent, and the same one again is quiet."""
        if event.reason in (Reason.INTERRUPTED, Reason.CLOCK_STEPPED):
            # What was observed before a gap is not current after it.
            self._observed.clear()
        place = f"!{event.endpoint}"
        changed = self._changed(event.source, place, event.reason.value)
        quiet = self._is_repeated(event.source, place, replace(event, detail=""))
        self._publisher.failures[self._cluster, event.source.value, event.reason.value] += 1
        self._write(ObservationKind.FAILED, to_json(event), urgent=changed, quiet=quiet)

    def write_gap(self, detail: str, reason: Reason = Reason.INTERRUPTED) -> None:
        """Writes that nothing was observed until now, or that the time since the row before has not passed."""
        self.write_failure(FailedObservation(source=ObservationSource.LOG, endpoint="", reason=reason, detail=detail))

    def ms_until(self, at_ms: int) -> int:
        """Returns when, in milliseconds from now, the rows have this time."""
        return at_ms - self._clock.read()

    def _update_nodes(self, batches: RedactedBatches) -> None:
        for event in batches.endpoints:
            self._nodes.update_from_event(event)

    def _changed(self, source: ObservationSource | ObservationKind, endpoint: str, shape: _Shape) -> bool:
        if len(self._last) > _REMEMBERED:
            self._last.clear()
        before = self._last.get((source.value, endpoint))
        self._last[source.value, endpoint] = shape
        return before != shape

    def _is_repeated(self, source: ObservationSource, place: str = "", content: object = None) -> bool:
        """Returns whether the same was observed there a moment ago, since the newest gap."""
        if len(self._observed) > _REMEMBERED:
            self._observed.clear()
        # The time of the row before this one; None if there was none.
        now_ms, before = self._written_at_ms, self._observed.get((source.value, place))
        self._observed[source.value, place] = (now_ms, content)
        if before is None or before[1] != content:
            return False
        return now_ms is None or before[0] is None or now_ms - before[0] <= _REPEATED_MS

    def _clear_failures(self, source: ObservationSource) -> bool:
        """After a success of this source, its next failure is urgent again; returns whether it had failed."""
        failures = [key for key in self._last if key[0] == source.value and key[1].startswith("!")]
        for key in failures:
            del self._last[key]
            self._observed.pop(key, None)
        return bool(failures)

    def _now_ms(self) -> Millis:
        """Returns the time of the next row. A gap before it, and a clock that was set forward, are written first."""
        before, self._written_at_ms = self._written_at_ms, self._steady()
        if before is not None and (lasted_ms := self._written_at_ms - before) >= _GAP_MS:
            self.write_gap(f"no observations for {lasted_ms} ms: the gatherer did not run")
        now_ms = self._clock.read()
        jump_ms = self._clock.take_jump_ms()
        if jump_ms:
            detail = f"the clock of the gatherer's host was set forward by {jump_ms} ms, or the host was suspended"
            self.write_gap(detail, Reason.CLOCK_STEPPED)
        return now_ms

    def _write(self, kind: ObservationKind, payload: bytes, *, urgent: bool, quiet: bool = False) -> None:
        urgency = _urgency(urgent=urgent, quiet=quiet)
        self._add(
            Observation(
                cluster=self._cluster, kind=kind, observed_at_ms=self._now_ms(), payload=payload, urgency=urgency
            )
        )

    def _add(self, row: Observation) -> None:
        # What a host saw begins a condition with its own row.
        if row.urgency is not Urgency.QUIET and row.kind is not ObservationKind.WITNESS:
            self._shown += 1
            if row.kind is not ObservationKind.QUORUM:
                self._shown_since_poll.add(row.kind)
        self._publisher.add(row)


def _urgency(*, urgent: bool, quiet: bool) -> Urgency:
    if urgent:
        return Urgency.URGENT
    return Urgency.QUIET if quiet else Urgency.REGULAR


def _all_advance(before: Poll, after: Poll) -> bool:
    """Returns whether the high watermark and every replica have advanced since the poll before: no lag began or ended.

    Times that advance by more than has passed are those of a clock that was set, or of a replica that lagged. Between
    an append and the next Fetches replicas lack what was appended.
    """
    known = {row.key: _progress(row) for row in (*before.voters, *before.observers)}
    newest_ms = max((row.last_caught_up_ms or 0 for row in after.voters), default=0)
    for row in (*after.voters, *after.observers):
        progress, now = known.get(row.key, _UNKNOWN), _progress(row)
        if any((new or 0) - (old or 0) >= _GAP_MS for old, new in zip(progress[1:], now[1:], strict=True)):
            return False
        if all(map(_advanced, progress, now)):
            continue
        was_caught_up = progress[1] is not None and progress[1] == progress[2] == now[2]
        if not (was_caught_up and _advanced(progress[1], now[1]) and newest_ms - (now[2] or 0) <= APPENDED_MS):
            return False
    advanced = _advanced(before.high_watermark, after.high_watermark)
    return advanced and before.clock_ahead_ms == after.clock_ahead_ms


def _advanced(before: int | None, after: int | None) -> bool:
    return before is not None and after is not None and before < after


_UNKNOWN: Final = (None, None, None)


def _progress(row: Replica) -> tuple[int | None, int | None, int | None]:
    return row.log_end_offset, row.last_fetch_ms, row.last_caught_up_ms
