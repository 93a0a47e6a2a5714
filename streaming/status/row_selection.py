"""Selects the rows of a journal that the state at its end needs, so that days of observations are read within seconds.

Most rows of a healthy cluster are quiet: they repeat what was observed a moment before, and only times and offsets
advance. Of these, the state needs those shortly before the end, and those beside a row of their kind that shows
something: the one before it, with which it is compared, and the one after it, of the log until it is read to its end.
For all others the replay gets the time until which everything was repeated (`Machine.leave_out`).

| rows | of which are selected |
|---|---|
| of the last minutes | all |
| of the last hour | all but quiet ones |
| of the last day | all but quiet ones; of polls the urgent ones |
| older ones | of the metadata log all but quiet ones |

A voter that lags for hours makes each poll of these hours one that is not quiet. But the replay remembers for longer
than an hour only what makes a poll urgent: another leader, epoch, replica or endpoint. When a node started is then
known by its probes alone, up to some seconds later than by a poll; and a replica that was first seen more than a day
ago counts as seen since then.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from connectors.observations.observation import ObservationKind, Urgency
from connectors.store.journal_reader import RowHeader
from rules.model.identifiers import Millis, Offset
from streaming.replay.decoded_row import LeftOut
from streaming.replay.poll_history import REMEMBERED_MS, VOTER_REMEMBERED_MS
from streaming.replay.probe_state import PROBE_MS

LOG_KINDS: Final = frozenset({ObservationKind.RECORDS, ObservationKind.SNAPSHOT})
_MARGIN_MS: Final = 120_000


class SelectedRow(NamedTuple):
    """A row to apply, and what was left out before it of the rows of its cluster."""

    sequence: int
    left_out: LeftOut


def selected_rows(
    headers: Iterable[RowHeader], ends_ms: Mapping[str, Millis], all_since_ms: Millis | None = None
) -> list[SelectedRow]:
    """Returns the rows that the states of clusters at their ends need, in order.

    Args:
        headers: of all rows, in order; of those before `observed_since_ms` the ones of the log are enough.
        ends_ms: the time of the state of each cluster. Of the rows after it, only the first one is selected.
        all_since_ms: from then on, all rows are needed; None: those that the states need.
    """
    clusters: dict[str, _ClusterRows] = {}
    found: list[SelectedRow] = []
    for header in headers:
        own = clusters.get(header.cluster)
        if own is None:
            own = clusters[header.cluster] = _ClusterRows(ends_ms[header.cluster], all_since_ms)
        own.add(header, found)
    found.sort(key=lambda one: one.sequence)
    return found


def observed_since_ms(end_ms: Millis) -> Millis:
    """Returns from when on polls, probes and failures are needed for a state at a time."""
    return Millis(end_ms - VOTER_REMEMBERED_MS - REMEMBERED_MS)


class _ClusterRows:
    """The rows of a cluster so far."""

    def __init__(self, end_ms: Millis, all_since_ms: Millis | None) -> None:
        self._end_ms = end_ms
        self._ended = False
        # At the end, probes and leader views that were no longer repeated have expired.
        self._all_since_ms = min(end_ms - PROBE_MS - _MARGIN_MS, end_ms if all_since_ms is None else all_since_ms)
        self._polls_since_ms = end_ms - REMEMBERED_MS - PROBE_MS
        self._before: dict[str, SelectedRow] = {}
        """By kind, the newest row if it is left out so far."""
        self._wants_next: set[str] = set()
        """The kinds of which the next row is selected whatever it shows."""
        self._left_out = LeftOut()
        """What is left out so far. Its offsets follow those of the newest selected row of the log."""
        self._next_offset: int | None = None
        """Of the log; None: unknown."""
        self._missing_from: int | None = None
        """The first offset of the log that is missing; None: none is."""

    def add(self, header: RowHeader, found: list[SelectedRow]) -> None:
        """Adds this row and the one of its kind before it to what is found, if they are selected."""
        if self._ended:
            return
        sequence, _, kind, _, observed_at_ms, *_ = header
        self._ended = observed_at_ms > self._end_ms
        of_log, shows = kind in LOG_KINDS, self._shows(header)
        if of_log:
            shows = self._continues_wrongly(header) or shows
        before = self._before.pop(kind, None)
        if not (shows or kind in self._wants_next):
            self._before[kind] = SelectedRow(sequence, self._left_out)
            self._left_out = _with_row(self._left_out, header)
            return
        if shows and before is not None:
            found.append(before)
        (self._wants_next.discard if self._is_enough(header, shows=shows) else self._wants_next.add)(kind)
        found.append(SelectedRow(sequence, self._left_out))
        if of_log:
            self._left_out = self._left_out._replace(offsets=None)

    def _continues_wrongly(self, header: RowHeader) -> bool:
        """Returns whether a row of the log does not continue it: then it is no repetition, even if it is quiet.

        While offsets are missing, the replay reports each row that follows them.
        """
        is_piece, base_offset, expected = header.kind == ObservationKind.SNAPSHOT, header.base_offset, self._next_offset
        self._next_offset = None if is_piece or header.last_offset is None else header.last_offset + 1
        if is_piece or base_offset is None or expected is None:
            self._missing_from = None
            return True
        if self._missing_from is None and base_offset > expected:
            self._missing_from = expected
        elif self._missing_from is not None and base_offset <= self._missing_from:
            self._missing_from = None
        return base_offset != expected or self._missing_from is not None

    def _is_enough(self, header: RowHeader, *, shows: bool) -> bool:
        """Returns whether the row after a selected one is needed only if it shows something."""
        if header.kind not in LOG_KINDS:
            return not shows
        # Rules see what the log says once it is read to its end.
        end, high_watermark = header.last_offset, header.high_watermark
        return end is not None and high_watermark is not None and end + 1 >= high_watermark

    def _shows(self, header: RowHeader) -> bool:
        """Returns whether a row is selected for its own sake."""
        if header.observed_at_ms >= self._all_since_ms:
            return True
        if header.urgency != Urgency.REGULAR:
            return header.urgency == Urgency.URGENT
        return header.kind != ObservationKind.QUORUM or header.observed_at_ms >= self._polls_since_ms


def _with_row(left_out: LeftOut, header: RowHeader) -> LeftOut:
    _, _, kind, _, at_ms, base_offset, last_offset, _ = header
    _, polled_ms, probed_ms, viewed_ms, fetched_ms, offsets = left_out
    until_ms = Millis(at_ms)
    if kind == ObservationKind.QUORUM:
        polled_ms = until_ms
    elif kind == ObservationKind.PROBE:
        probed_ms = until_ms
    elif kind == ObservationKind.VIEW:
        viewed_ms = until_ms
    elif kind == ObservationKind.RECORDS and base_offset is not None and last_offset is not None:
        fetched_ms = until_ms
        offsets = Offset(base_offset) if offsets is None else offsets[0], Offset(last_offset)
    return LeftOut(until_ms, polled_ms, probed_ms, viewed_ms, fetched_ms, offsets)
