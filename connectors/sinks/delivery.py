"""Delivery: record, tell, note. A sink that is dead, slow or wrong costs a batch its deadline and nothing more."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from connectors.errors import UsageError
from connectors.sinks.asking import Asking
from connectors.sinks.ledger import Ledger
from connectors.sinks.sink import Delivered, Outcome, Rejected, Retry, Sink
from rules.alert import Alert
from rules.notice import Notice, each
from rules.quorum import Millis

_LOG = logging.getLogger(__name__)
_AT_ONCE = 500
"""Alerts a sink is given in one call: after a long outage the rest waits for the next one."""
_FIRST_PAUSE_MS = 1_000
_LONGEST_PAUSE_MS = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """What one sink did in one delivery."""

    delivered: int = 0
    retry: int = 0
    rejected: int = 0
    pending: int = 0
    """Still to be told afterwards."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What one delivery did."""

    recorded: int
    """Alerts that the ledger did not know."""
    sinks: Mapping[str, Tally]
    """By sink name."""


class Delivery:
    """Tells every alert to every sink. Not for use by two threads at once."""

    def __init__(self, ledger: Ledger, sinks: Sequence[Sink], *, deadline_s: float = 5.0) -> None:
        """Make the sinks known to the ledger.

        Args:
            ledger: opened beside the checkpoint.
            sinks: asked in this order, each under another name.
            deadline_s: how long one sink may take in one delivery.

        Raises:
            LedgerError: the ledger cannot be written.
            UsageError: two sinks have the same name.
        """
        names = [sink.name for sink in sinks]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise UsageError(f"The sink {twice} was given twice: give each one once.")
        self._ledger = ledger
        self._lines = [_Line(ledger, sink, deadline_s) for sink in sinks]

    def deliver(self, alerts: Sequence[Alert], now_ms: Millis) -> Report:
        """Record the alerts, then tell each sink what it is still to be told; with no alerts, only the latter.

        When this returns, every alert is told or safe in the ledger: the batch may be committed.

        Args:
            alerts: transitions, in order; those that are known already do nothing.
            now_ms: the wall clock: `sent_at`, and what the pauses of failing sinks go by.

        Raises:
            LedgerError: the ledger cannot be written; the batch must not be committed.
        """
        recorded = self._ledger.record(alerts, now_ms)
        return Report(recorded=len(recorded), sinks={line.name: line.tell(now_ms) for line in self._lines})


class _Line:
    """One sink, what it was asked and has not answered, and how long it is left alone after a failure."""

    def __init__(self, ledger: Ledger, sink: Sink, deadline_s: float) -> None:
        self.name = sink.name
        self._ledger = ledger
        self._sink = sink
        self._deadline_s = deadline_s
        self._asked: Asking | None = None
        self._pause_ms = 0
        self._paused_from_ms = 0
        ledger.open_sink(self.name)

    def tell(self, now_ms: Millis) -> Tally:
        """Take a late answer, then ask for what is still to be told, unless the sink is being left alone."""
        tally = Tally()
        if self._asked is not None:
            tally = self._take(tally, 0.0, now_ms)
        # The wall clock may have been set back: a pause does not grow by that.
        rested = not 0 <= now_ms - self._paused_from_ms < self._pause_ms
        waiting = self._ledger.pending(self.name)[:_AT_ONCE] if self._asked is None and rested else ()
        if waiting:
            notices = [each(alert) for alert in waiting]
            self._asked = Asking(self._sink, notices, sent_at_ms=now_ms, deadline_s=self._deadline_s)
            tally = self._take(tally, self._deadline_s, now_ms)
        return replace(tally, pending=len(self._ledger.pending(self.name)))

    def _take(self, tally: Tally, timeout_s: float, now_ms: Millis) -> Tally:
        assert self._asked is not None
        outcomes = self._asked.answer(timeout_s)
        if outcomes is None:
            if timeout_s:
                _LOG.warning("%s has not answered within %g s; the others go on without it.", self.name, timeout_s)
            return tally
        asked, self._asked = self._asked, None
        answered = list(zip(asked.notices, outcomes, strict=True))
        done = [alert.key for notice, outcome in answered if not isinstance(outcome, Retry) for alert in notice.news]
        self._ledger.told(self.name, done)
        for notice, outcome in answered:
            tally = self._count(tally, notice, outcome)
        self._rest(outcomes, now_ms)
        return tally

    def _count(self, tally: Tally, notice: Notice, outcome: Outcome) -> Tally:
        match outcome:
            case Delivered():
                return replace(tally, delivered=tally.delivered + 1)
            case Retry():
                return replace(tally, retry=tally.retry + 1)
            case Rejected(reason=reason):
                _LOG.warning(
                    "%s refused %s of %s for good: %s", self.name, notice.root.rule, notice.root.cluster, reason
                )
                return replace(tally, rejected=tally.rejected + 1)

    def _rest(self, outcomes: Sequence[Outcome], now_ms: Millis) -> None:
        reason = next((outcome.reason for outcome in outcomes if isinstance(outcome, Retry)), None)
        if reason is None:
            self._pause_ms = 0
            return
        if not self._pause_ms:
            _LOG.warning("%s could not be told, and will be tried again: %s", self.name, reason)
        self._pause_ms = min(max(_FIRST_PAUSE_MS, 2 * self._pause_ms), _LONGEST_PAUSE_MS)
        self._paused_from_ms = now_ms
