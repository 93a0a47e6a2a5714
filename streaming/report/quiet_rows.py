"""Which rows of a journal only repeat that a cluster is healthy: nothing moved in them but offsets and times.

A back-test need not decode and evaluate them one by one. The decision is made on the stored bytes, and is conservative:
what is not known to be quiet is not quiet. It takes a few microseconds for each row. The limits are those of
`connectors.gather.quiet_observations`.
"""

import re
from collections.abc import Mapping
from operator import le
from typing import Final

from connectors.metadata.batches import RecordBatch, scan
from connectors.metadata.record_framing import is_noop
from connectors.observation import Observation, ObservationKind
from rules.evaluate import RULES
from rules.finding import CLEAR, HOLD, Thresholds
from rules.model.identifiers import Millis

SHORTEST_S: Final = 5.0
"""With a threshold below this and below its default, a row that is quiet here may be a condition."""
_NUMBERS: Final = re.compile(rb'("(?:high_watermark|log_end_offset|last_fetch_ms|last_caught_up_ms)":)(\d+)')
_RECENT_MS: Final = 2_000
"""How far a replica's last fetch and its last time in sync may be behind the leader's clock."""
_PAUSE_MS: Final = 3_000
"""How far polls, and rows of the log, may be apart."""
_OTHER: Final = {
    ObservationKind.QUORUM: ObservationKind.RECORDS,
    ObservationKind.RECORDS: ObservationKind.QUORUM,
}
_PROBE_PAUSE_MS: Final = 15_000
"""How far the probes of an endpoint, and the views of a controller, may be apart."""
_NAMED_UNTIL: Final = {ObservationKind.PROBE: b'"resolution":', ObservationKind.VIEW: b'"this_cluster":'}
"""What follows the fields that name the endpoint."""
_CLEAN_AUDIT: Final = b'"broken":[]'
_BATCH_BYTES: Final = 72
"""A batch with one NoOp record."""
_SKELETONS: Final = 256


class QuietRows:
    """The newest rows of one cluster, with which the next one is compared."""

    def __init__(self) -> None:
        self.since_ms: Millis | None = None
        """Time of the newest row that was not quiet; None before the first row."""
        self._newest_ms: dict[ObservationKind, int] = {}
        self._poll: list[bytes] = []
        self._numbers: list[int] = []
        self._ahead_ms = 0
        self._epoch: int | None = None
        self._last_offset = -1
        self._noops: set[bytes] = set()
        self._answers: dict[bytes, tuple[bytes, int]] = {}
        """By kind and endpoint: the newest probe or view, and its time."""

    def is_quiet(self, row: Observation) -> bool:
        """Returns whether the row repeats the ones before; remembers it."""
        quiet = self._repeats(row)
        if not quiet or self.since_ms is None:
            self.since_ms = Millis(row.observed_at_ms)
        return quiet

    def _repeats(self, row: Observation) -> bool:
        match row.kind:
            case ObservationKind.RECORDS:
                return self._records(row)
            case ObservationKind.QUORUM:
                return self._polled(row)
            case ObservationKind.PROBE | ObservationKind.VIEW:
                return self._answered(row)
            case ObservationKind.AUDIT:
                return _CLEAN_AUDIT in row.payload
            case ObservationKind.SNAPSHOT | ObservationKind.FAILED:
                return False

    def _in_time(self, row: Observation) -> bool:
        """Returns whether both polls and rows of the log are recent; remembers this one."""
        since_ms = row.observed_at_ms - _PAUSE_MS
        newest_ms, other = self._newest_ms, _OTHER[row.kind]
        in_time = newest_ms.get(row.kind, 0) >= since_ms and newest_ms.get(other, 0) >= since_ms
        newest_ms[row.kind] = row.observed_at_ms
        return in_time

    def _answers_are_recent(self, now_ms: int) -> bool:
        """Returns whether every endpoint was probed recently; forgets those that were not."""
        since_ms = now_ms - _PROBE_PAUSE_MS
        old = [key for key, (_, at_ms) in self._answers.items() if at_ms < since_ms]
        for key in old:
            del self._answers[key]
        return not old

    def _polled(self, row: Observation) -> bool:
        """Returns whether the same leader reports the same replicas, and all of them follow the growing log."""
        parts = _NUMBERS.split(row.payload)
        numbers = [int(one) for one in parts[2::3]]
        del parts[2::3]
        same, before = parts == self._poll, self._numbers
        self._poll, self._numbers = parts, numbers
        in_time = self._in_time(row) and self._answers_are_recent(row.observed_at_ms)
        if not same or not in_time or len(numbers) % 3 != 1:
            return False
        now_ms = max(numbers[2::3])
        ahead_ms, before_ms = now_ms - row.observed_at_ms, self._ahead_ms
        self._ahead_ms = ahead_ms
        return (
            numbers[0] > before[0]
            and all(map(le, before[1::3], numbers[1::3]))
            and min(numbers[2::3]) >= now_ms - _RECENT_MS
            and min(numbers[3::3]) >= now_ms - _RECENT_MS
            and abs(ahead_ms - before_ms) <= _RECENT_MS
        )

    def _records(self, row: Observation) -> bool:
        """Returns whether NoOps, and nothing else, follow the newest records up to the high watermark."""
        before, epoch = self._last_offset, self._epoch
        last = -1 if row.last_offset is None else row.last_offset
        self._last_offset, self._epoch = last, row.leader_epoch
        in_time = self._in_time(row)
        return (
            in_time
            and row.base_offset == before + 1
            and row.leader_epoch == epoch
            and row.high_watermark == last + 1
            and self._only_noops(row.payload)
        )

    def _only_noops(self, payload: bytes) -> bool:
        if len(payload) % _BATCH_BYTES:
            return False
        for at in range(0, len(payload), _BATCH_BYTES):
            # All but base offset, checksum and timestamps.
            skeleton = payload[at + 8 : at + 17] + payload[at + 21 : at + 27] + payload[at + 43 : at + _BATCH_BYTES]
            if skeleton not in self._noops:
                batch = payload[at : at + _BATCH_BYTES]
                if not all(isinstance(one, RecordBatch) and is_noop(batch, one) for one in scan(batch)):
                    return False
                if len(self._noops) >= _SKELETONS:
                    self._noops.clear()
                self._noops.add(skeleton)
        return True

    def _answered(self, row: Observation) -> bool:
        """Returns whether the same endpoint gave the same answer shortly before."""
        key = row.payload.partition(_NAMED_UNTIL[row.kind])[0]
        before = self._answers.get(key)
        self._answers[key] = (row.payload, row.observed_at_ms)
        return before is not None and before[0] == row.payload and row.observed_at_ms - before[1] <= _PROBE_PAUSE_MS


def has_short_thresholds(thresholds: Mapping[str, Thresholds]) -> bool:
    """Returns whether a time other than a hold or clear time is configured so short that no row may be left out.

    The defaults are not: the shortest are about elections, and about observers that lag as much as a quiet row may.
    """
    return any(
        one.unit == "s"
        and one.name not in (HOLD, CLEAR)
        and thresholds[rule.id][one.name] < min(SHORTEST_S, one.default)
        for rule in RULES.values()
        for one in rule.thresholds
    )
