"""The desk: what one sink for people is to be told now. Pure: the same records and the same now give the same plan.

- An incident is told when it begins, when it gets worse, and when it is over, at once; its lesser news (another
  alert joined, one of several resolved, it got milder) at most once an interval, together.
- A silenced alert waits: told when the silence ends before it does, forgotten when it is over first. Its end is told
  where its beginning was, silence or not: nobody is left with an incident that never closes.
- A consequence waits while its cause fires: it is told if it outlives the cause.
- What stands is told again after each repeat interval.
- What a sink could not be told in time is told later, all of it: an incident that came and went meanwhile is one
  notice that it is over.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rules.alert import Alert, AlertState
from rules.finding import Rule
from rules.model.identifiers import Millis
from rules.notifications.alert_history import Filed, Life, lives
from rules.notifications.notification import WEIGHT, Notice, NotifyReason
from rules.notifications.silence import Silence

INTERVAL_MS = Millis(60_000)
"""How often an incident's lesser news are told at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to tell now, worst first, and what need never be told."""

    notices: tuple[Notice, ...] = ()
    forgotten: tuple[Alert, ...] = ()
    """Silenced from beginning to end."""
    silenced: int = 0
    """Alerts that fire and wait behind a silence."""
    due_ms: Millis | None = None
    """When time alone makes another plan of the same records; None for never."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """A life, and whether it may be spoken of."""

    life: Life
    silenced: bool
    hushed: bool
    """Silenced, or inhibited by its cause."""

    @property
    def waits(self) -> bool:
        return self.hushed and not self.life.over

    @property
    def forgotten(self) -> bool:
        return self.hushed and self.life.over and not self.life.begun and not self.life.asked

    @property
    def speaks(self) -> bool:
        return not self.waits and not self.forgotten


class Desk:
    """Decides for one sink. Holds no state: what was told is in the records."""

    def __init__(self, rules: Mapping[str, Rule], *, repeat_ms: Millis | None) -> None:
        """Prepare.

        Args:
            rules: by id: what silences what.
            repeat_ms: after how long what stands is told again; None for never.
        """
        self._rules = rules
        self._repeat_ms = repeat_ms

    def plan(
        self,
        incidents: Mapping[str, Sequence[Filed]],
        *,
        told_at_ms: Mapping[str, Millis],
        silences: Iterable[Silence],
        now_ms: Millis,
    ) -> Plan:
        """What to tell now.

        Args:
            incidents: by id, the recorded transitions of those that have something untold or firing, oldest first;
                without those that were forgotten.
            told_at_ms: when this sink was last told of an incident.
            silences: all that are known; those that are not active do nothing.
            now_ms: the wall clock.
        """
        known = tuple(silences)
        active = [silence for silence in known if silence.active(now_ms)]
        moments = [moment for silence in known for moment in (silence.starts_at_ms, silence.ends_at_ms)]
        notices: list[Notice] = []
        forgotten: list[Alert] = []
        silenced = 0
        for incident, filed in incidents.items():
            cases = self._cases(lives(filed), active)
            forgotten += [alert for case in cases if case.forgotten for alert in case.life.untold]
            silenced += sum(case.silenced and not case.life.over for case in cases)
            told_ms = told_at_ms.get(incident)
            notice = self._notice(incident, cases, told_ms, now_ms)
            notices += [notice] if notice else []
            if told_ms is not None:
                moments += [Millis(told_ms + after_ms) for after_ms in (INTERVAL_MS, self._repeat_ms) if after_ms]
        notices.sort(key=lambda notice: -WEIGHT[notice.severity])
        due_ms = min((moment for moment in moments if moment > now_ms), default=None)
        return Plan(notices=tuple(notices), forgotten=tuple(forgotten), silenced=silenced, due_ms=due_ms)

    def _cases(self, all_lives: Sequence[Life], active: Sequence[Silence]) -> Sequence[_Case]:
        firing = {(life.newest.cluster_id, life.newest.rule) for life in all_lives if not life.over}
        cases = []
        for life in all_lives:
            alert = life.newest
            silenced = any(silence.covers(alert) for silence in active)
            rule = self._rules.get(alert.rule)
            inhibited = any((alert.cluster_id, cause) in firing for cause in (rule.inhibited_by if rule else ()))
            cases.append(_Case(life=life, hushed=silenced or inhibited, silenced=silenced))
        return cases

    def _notice(
        self, incident: str, cases: Sequence[_Case], told_at_ms: Millis | None, now_ms: Millis
    ) -> Notice | None:
        news = tuple(alert for case in cases if case.speaks for alert in case.life.untold)
        # What waits behind a silence is still shown where the sink knows of it.
        shown = [case for case in cases if case.speaks or case.life.begun]
        newest = {case.life.newest.fingerprint: case.life.newest for case in shown}
        if not newest:
            return None
        reason = self._reason([case.life for case in shown], news, told_at_ms, now_ms)
        if reason is None or (reason is NotifyReason.REPEATED and all(case.hushed for case in shown)):
            return None
        firing = [alert for alert in newest.values() if alert.state is AlertState.FIRING]
        rules = Counter(alert.rule for alert in firing or newest.values())
        ordered = sorted(newest.values(), key=lambda alert: self._rank(alert, rules))
        known = any(case.life.begun for case in cases)
        return Notice(incident=incident, reason=reason, alerts=tuple(ordered), news=news, known=known)

    def _reason(
        self, shown: Sequence[Life], news: Sequence[Alert], told_at_ms: Millis | None, now_ms: Millis
    ) -> NotifyReason | None:
        if not news:
            if self._repeat_ms is None or told_at_ms is None or all(life.over for life in shown):
                return None
            # Nor does a wall clock that was set back hold this up.
            return None if 0 <= now_ms - told_at_ms < self._repeat_ms else NotifyReason.REPEATED
        if all(life.over for life in shown):
            return NotifyReason.RESOLVED
        heard = [life.told[-1] for life in shown if life.begun and not life.over]
        if not heard:
            return NotifyReason.FIRING
        worst_heard = max(WEIGHT[alert.severity] for alert in heard)
        worse = any(WEIGHT[each.severity] > worst_heard for each in news if each.state is AlertState.FIRING)
        # A wall clock that was set back does not hold news up.
        rested = told_at_ms is None or not 0 <= now_ms - told_at_ms < INTERVAL_MS
        return NotifyReason.CHANGED if worse or rested else None

    def _rank(self, alert: Alert, rules: Counter[str]) -> tuple[bool, int, int, Millis]:
        """The root cause first: what fires, what is explained by fewest of the others, the worst, the oldest."""
        rule = self._rules.get(alert.rule)
        causes = (*rule.inhibited_by, *rule.grouped_with) if rule else ()
        explained = sum(rules[cause] for cause in set(causes))
        over = alert.state is AlertState.RESOLVED
        return over, explained, -WEIGHT[alert.severity], alert.started_at_ms
