"""Delivery: record, tell, note. A sink that is dead, slow or wrong costs a batch a second at most."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from connectors.delivery.ledger import Ledger
from connectors.delivery.sink_call import Asking
from connectors.delivery.sink_failure_alerts import Outages, Trouble, is_about
from connectors.errors import UsageError
from connectors.sinks.alert_json import Key
from connectors.sinks.sink import Delivered, Outcome, Rejected, Retry, Sink, Style
from rules.alert import Alert
from rules.evaluate import RULES
from rules.model.identifiers import Millis
from rules.notifications.alert_history import lives
from rules.notifications.notification import Notice, each
from rules.notifications.planner import Desk, Plan
from rules.notifications.silence import Silence

_LOG = logging.getLogger(__name__)
_AT_ONCE = 500
"""Notices a sink is given in one call: after a long outage the rest waits for the next one."""
_FIRST_PAUSE_MS = 1_000
_LONGEST_PAUSE_MS = 60_000
_LONGEST_ASKED_MS = 900_000
"""A place that asks to be left alone for longer is asked again all the same: an alert is worth a refusal."""


Silences: TypeAlias = Callable[[Millis], Sequence[Silence]]
"""What is silenced, asked anew for each delivery with the wall clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """What one sink did in one delivery."""

    delivered: int = 0
    retry: int = 0
    rejected: int = 0
    pending: int = 0
    """Alerts still to be told afterwards, silenced ones among them."""
    silenced: int = 0
    """Alerts that fire behind a silence."""
    failing: str | None = None
    """Why it could not be told, as long as that lasts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What one delivery did."""

    recorded: int
    """Alerts that the ledger did not know."""
    sinks: Mapping[str, Tally]
    """By sink name."""


class Delivery:
    """Tells every alert to every sink. Not for use by two threads at once."""

    def __init__(
        self,
        ledger: Ledger,
        sinks: Sequence[Sink],
        *,
        silences: Silences = lambda _: (),
        deadline_s: float = 10.0,
        patience_s: float = 1.0,
    ) -> None:
        """Make the sinks known to the ledger.

        Args:
            ledger: opened beside the checkpoint.
            sinks: each under another name.
            silences: for those that tell people.
            deadline_s: how long one sink may take for one call.
            patience_s: how long a batch waits for its sinks, all together: what is not told yet is safe in the ledger.

        Raises:
            LedgerError: the ledger cannot be written.
            UsageError: two sinks have the same name.
        """
        self._ledger = ledger
        self._silences = silences
        self._deadline_s = deadline_s
        self._patience_s = patience_s
        self._outages = Outages(ledger.firing())
        self._own: Sequence[Alert] = ()
        """About our own sinks, to be recorded with the next alerts."""
        self._lines: list[_Line] = []
        self.tell_these(sinks)

    def tell_these(self, sinks: Sequence[Sink]) -> None:
        """From now on tell these sinks, and no others; one that is among them already goes on as it stands.

        Raises:
            LedgerError: the ledger cannot be written.
            UsageError: two sinks have the same name; nothing was changed.
        """
        names = [sink.terms.name for sink in sinks]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise UsageError(f"The sink {twice} was given twice: give each one once.")
        before = {line.name: line for line in self._lines}
        self._lines = [self._line(sink, before.get(sink.terms.name)) for sink in sinks]
        for name in before.keys() - set(names):
            self._ledger.leave_sink(name)

    def _line(self, sink: Sink, before: "_Line | None") -> "_Line":
        if before is not None and before.sink is sink:
            return before
        line = _Line(self._ledger, sink, self._deadline_s)
        if before is not None:
            line.succeed(before)
        return line

    def deliver(self, alerts: Sequence[Alert], now_ms: Millis) -> Report:
        """Record the alerts, then tell each sink what it is still to be told; with no alerts, only the latter.

        When this returns, every alert is told or safe in the ledger: the batch may be committed. The sinks are
        asked at once, each in a thread of its own; an answer that comes later is taken by a later delivery.

        Args:
            alerts: transitions, in order; those that are known already do nothing.
            now_ms: the wall clock: `sent_at`, and what silences, repetitions and pauses go by.

        Raises:
            LedgerError: the ledger cannot be written; the batch must not be committed.
        """
        recorded = self._ledger.record([*alerts, *self._own], now_ms)
        silences = self._silences(now_ms)
        for line in self._lines:
            line.ask(silences, now_ms)
        until = time.monotonic() + self._patience_s
        tallies = {line.name: line.hear(max(0.0, until - time.monotonic()), now_ms) for line in self._lines}
        known = {line.name: line.trouble(tallies[line.name]) for line in self._lines if line.known}
        self._own = self._outages.alerts({**known, **self._outages.gone(list(tallies))}, now_ms)
        return Report(recorded=len(recorded), sinks=tallies)


class _Line:
    """One sink, what it was asked and has not answered, and how long it is left alone after a failure."""

    def __init__(self, ledger: Ledger, sink: Sink, deadline_s: float) -> None:
        self.name = sink.terms.name
        self._ledger = ledger
        self.sink = sink
        self._deadline_s = deadline_s
        repeat_ms = None if sink.terms.repeat_s is None else Millis(round(sink.terms.repeat_s * 1000))
        self._desk = None if sink.terms.style is Style.EACH else Desk(RULES, repeat_ms=repeat_ms)
        self._asked: Asking | None = None
        self._late = False
        self._silenced = 0
        self._quiet: _Quiet | None = None
        self._failing: str | None = None
        self._pause_ms = 0
        self._paused_from_ms = 0
        self._heard = Tally()
        self._unsure: set[Key] = set()
        """What it was sent and may have taken, its answer lost: the end of that is told whatever is silenced."""
        ledger.open_sink(self.name)

    def succeed(self, before: "_Line") -> None:
        """Take over what another of the same name was asked and has not answered: it is not asked that again."""
        self._asked, self._late = before._asked, before._late

    def ask(self, silences: Sequence[Silence], now_ms: Millis) -> None:
        """Take a late answer, then begin to tell what is still to be told, unless the sink is being left alone."""
        self._heard = Tally()
        if self._asked is not None:
            self._take(0.0, now_ms)
        # The wall clock may have been set back: a pause does not grow by that.
        rested = not 0 <= now_ms - self._paused_from_ms < self._pause_ms
        if self._asked is None and rested:
            notices = self._notices(silences, now_ms)[:_AT_ONCE]
            if notices:
                self._asked = Asking(self.sink, notices, sent_at_ms=now_ms, deadline_s=self._deadline_s)
                self._late = False

    def hear(self, timeout_s: float, now_ms: Millis) -> Tally:
        """Wait so long for the answer; what came of this delivery."""
        if self._asked is not None:
            # One that is late has cost enough: its answer is taken when it comes.
            self._take(0.0 if self._late else min(timeout_s, self._deadline_s), now_ms)
        waiting = len(self._ledger.pending(self.name))
        return replace(self._heard, pending=waiting, silenced=self._silenced, failing=self._failing)

    @property
    def known(self) -> bool:
        """Whether it can be told is known: it answered, or there is nothing that it is asked."""
        return self._failing is not None or self._asked is None

    def trouble(self, tally: Tally) -> Trouble | None:
        """Why it cannot be told."""
        return None if self._failing is None else Trouble(reason=self._failing, waiting=tally.pending)

    def _route(self) -> None:
        """Forget what is not meant for this sink: the rest, and its own failure, which it cannot be told."""
        route, pending = self.sink.terms.route, self._ledger.pending(self.name)
        if all(route.takes(alert) and not is_about(alert, self.name) for alert in pending):
            return
        unmeant = [
            alert.key
            for filed in self._ledger.incidents(self.name).values()
            for life in lives(filed)
            if is_about(life.newest, self.name) or not route.meant(life)
            for alert in life.untold
        ]
        self._ledger.forgotten(self.name, unmeant)

    def _notices(self, silences: Sequence[Silence], now_ms: Millis) -> Sequence[Notice]:
        seen = (self._ledger.changes, *silences)
        if self._quiet is not None and self._quiet.holds(seen, now_ms):
            return ()
        self._route()
        if self._desk is None:
            return [each(alert) for alert in self._ledger.pending(self.name)]
        incidents = self._ledger.incidents(self.name)
        if self._unsure:
            incidents = {
                incident: [replace(each, asked=each.alert.key in self._unsure) for each in filed]
                for incident, filed in incidents.items()
            }
        plan: Plan = self._desk.plan(
            incidents,
            told_at_ms=self._ledger.heard(self.name),
            silences=silences,
            now_ms=now_ms,
        )
        self._silenced = plan.silenced
        self._quiet = None if plan.notices else _Quiet(seen=seen, from_ms=now_ms, due_ms=plan.due_ms)
        self._ledger.forgotten(self.name, [alert.key for alert in plan.forgotten])
        return plan.notices

    def _take(self, timeout_s: float, now_ms: Millis) -> None:
        assert self._asked is not None
        outcomes = self._asked.answer(timeout_s)
        if outcomes is None:
            if self._asked.overdue and not self._late:
                self._late = True
                self._failing = f"it has not answered within {self._deadline_s:g} s"
                _LOG.warning("%s: %s; the others go on without it.", self.name, self._failing)
            return
        asked, self._asked = self._asked, None
        answered = list(zip(asked.notices, outcomes, strict=True))
        done = [notice for notice, outcome in answered if not isinstance(outcome, Retry)]
        heard = {} if self._desk is None else {notice.incident: now_ms for notice in done}
        self._ledger.told(self.name, [alert.key for notice in done for alert in notice.news], heard=heard)
        for notice, outcome in answered:
            self._count(notice, outcome)
            keys = {alert.key for alert in notice.news}
            self._unsure = self._unsure | keys if isinstance(outcome, Retry) else self._unsure - keys
        self._rest(outcomes, now_ms)

    def _count(self, notice: Notice, outcome: Outcome) -> None:
        heard, root = self._heard, notice.root
        match outcome:
            case Delivered():
                self._heard = replace(heard, delivered=heard.delivered + 1)
            case Retry():
                self._heard = replace(heard, retry=heard.retry + 1)
            case Rejected(reason=reason):
                self._heard = replace(heard, rejected=heard.rejected + 1)
                _LOG.warning("%s refused %s of %s for good: %s", self.name, root.rule, root.cluster, reason)

    def _rest(self, outcomes: Sequence[Outcome], now_ms: Millis) -> None:
        retry = max((outcome for outcome in outcomes if isinstance(outcome, Retry)), key=_asks_for, default=None)
        self._failing = None if retry is None else retry.reason
        if retry is None:
            self._pause_ms = 0
            return
        if not self._pause_ms:
            _LOG.warning("%s could not be told, and will be tried again: %s", self.name, retry.reason)
        doubled = min(max(_FIRST_PAUSE_MS, 2 * self._pause_ms), _LONGEST_PAUSE_MS)
        self._pause_ms = max(doubled, min(round(_asks_for(retry) * 1000), _LONGEST_ASKED_MS))
        self._paused_from_ms = now_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class _Quiet:
    """There was nothing to tell, and there is nothing as long as this holds: thousands of alerts may stand for long."""

    seen: tuple[object, ...]
    from_ms: Millis
    due_ms: Millis | None

    def holds(self, seen: tuple[object, ...], now_ms: Millis) -> bool:
        return seen == self.seen and self.from_ms <= now_ms and (self.due_ms is None or now_ms < self.due_ms)


def _asks_for(retry: Retry) -> float:
    return retry.after_s
