"""What fires in a cluster, whole, and the transitions that make the recorded alerts agree with it.

A monitor says what *is*: `Firing`. What was recorded is compared with it, whoever recorded it and when: a batch that
Spark repeats, a write whose answer was lost, a job that takes over, an older backup of the ledger and a removed cluster
are all the same case. Pure: the ledger alone writes what `reconciled` returns.

| recorded | found | then |
|---|---|---|
| nothing, or it ended | it fires | it fires |
| it fires | it fires with the same severity | the recorded text becomes the newest one |
| it fires | it fires with another severity, or with further clusters | it fires again, with the recorded start |
| it fires | it concludes or advises something else than it did when recorded | it fires again, less and less often |
| it fires | it is kept | nothing |
| it fires | neither | it resolves |
| nothing, or it ended | it fired and ended meanwhile | both transitions |

An evaluation of an older time than the newest recorded transition says nothing about that alert.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from rules.alert import Alert, AlertState
from rules.claims.claim import condition_claim
from rules.formatting import resolved_summary
from rules.model.identifiers import Millis

AHEAD_MS: Final = 60_000
"""How far the clocks of two hosts differ at most: a time further ahead says nothing."""
UPDATE_MS: Final = Millis(10_000)
"""The shortest time between two transitions that add clusters to an alert."""
RESTATED_MS: Final = Millis(60_000)
"""How long an alert keeps its conclusion and advice before others are a transition, and half its age: within seconds it
is learned what fails, and later a text may alternate while nodes come and go."""
NOT_FOUND: Final = "kraftwatch does not find it any more."
_AboutWhat: TypeAlias = tuple[str, str]
"""Rule and subject."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedAlert:
    """An alert that fired and resolved, both transitions as the monitor made them."""

    fired: Alert
    resolved: Alert


@dataclass(frozen=True, slots=True, kw_only=True)
class Firing:
    """What fires in a cluster by one evaluation."""

    cluster: str
    evaluated_ms: Millis
    """`now_ms` of the evaluation."""
    alerts: tuple[Alert, ...] = ()
    """What fires, with its newest text; the remedy is empty where the newest evaluation has none, as it is unknown."""
    kept: frozenset[tuple[str, str | None]] = frozenset()
    """Rule and subject (None: each of the rule) of what is pending or unknown: it neither fires nor ends."""
    ended: tuple[EndedAlert, ...] = ()
    """What resolved since the `Firing` before, in order: its transitions, and the text of its end."""
    over: str = NOT_FOUND
    """What is true of a recorded alert that is neither found nor kept, if `ended` does not have it."""

    def keeps(self, rule: str, subject: str) -> bool:
        """Returns whether a recorded alert that does not fire by this evaluation goes on nevertheless."""
        return not self.kept.isdisjoint(((rule, None), (rule, subject)))

    def since(self, duration_ms: int) -> "Firing":
        """Returns the same without what ended longer ago than this."""
        since_ms = self.evaluated_ms - duration_ms
        return replace(self, ended=tuple(alert for alert in self.ended if alert.resolved.observed_at_ms >= since_ms))

    def after(self, before: "Firing") -> "Firing":
        """Returns this one with what ended by `before` too: nobody has recorded that yet."""
        return replace(self, ended=(*before.ended, *self.ended)) if before.ended else self


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciled:
    """What is to be recorded, so that the recorded alerts are those that fire."""

    transitions: tuple[Alert, ...]
    """In order."""
    rewritten: tuple[Alert, ...]
    """The newest recorded transitions of alerts that go on, each with its newest text."""


def reconciled(firing: Firing, recorded: Mapping[_AboutWhat, Alert], *, now_ms: Millis) -> Reconciled:
    """Compares what fires with the newest recorded transition of each alert of the cluster.

    Args:
        firing: what fires.
        recorded: by rule and subject; at least those of the alerts in `firing`, and of all that fire.
        now_ms: the wall clock.
    """
    newest = dict(recorded)
    transitions: list[Alert] = []
    rewritten: list[Alert] = []
    for alert in _changes(firing, newest, now_ms):
        before = newest.get(_about(alert))
        if before is None or before.key != alert.key:
            alert = replace(alert, stated=alert.says)
        (transitions if before is None or before.key != alert.key else rewritten).append(alert)
        newest[_about(alert)] = alert
    # What fires when its cause ends joins the incident of the cause: it is recorded before the end.
    transitions.sort(key=lambda one: (one.observed_at_ms, one.state is AlertState.RESOLVED))
    return Reconciled(transitions=tuple(transitions), rewritten=tuple(rewritten))


def _changes(firing: Firing, newest: Mapping[_AboutWhat, Alert], now_ms: Millis) -> Iterator[Alert]:
    """Yields transitions and recorded alerts with another text; `newest` has each of them before the next is asked."""
    for ended in firing.ended:
        yield from _ended(ended, newest.get(_about(ended.resolved)), now_ms)
    for alert in firing.alerts:
        before = newest.get(_about(alert))
        if before is None:
            yield alert
        elif _decides(firing, before, now_ms):
            yield from _fires(alert, before, firing.evaluated_ms)
    found = {_about(alert) for alert in firing.alerts}
    for about, before in [*newest.items()]:
        goes_on = about in found or firing.keeps(*about)
        if before.state is AlertState.FIRING and not goes_on and _decides(firing, before, now_ms):
            yield resolved_alert(before, firing.evaluated_ms, firing.over)


def resolved_alert(firing: Alert, now_ms: Millis, now: str) -> Alert:
    """Returns the transition that resolves a firing alert at `now_ms`; `now` says what is true now.

    If the clock was set back meanwhile, it is observed when the firing one was, and not before.
    """
    return replace(
        firing,
        state=AlertState.RESOLVED,
        summary=resolved_summary(now, now_ms),
        # Nothing evaluates its rule any more: whether its condition lasts is unknown.
        claims=(condition_claim(firing.about),),
        remedy=(),
        due_at_ms=now_ms,
        observed_at_ms=Millis(max(now_ms, firing.observed_at_ms)),
        late_ms=None,
    )


def _about(alert: Alert) -> _AboutWhat:
    return alert.rule, alert.subject


def _decides(firing: Firing, before: Alert, now_ms: Millis) -> bool:
    return before.observed_at_ms < firing.evaluated_ms or before.observed_at_ms > now_ms + AHEAD_MS


def _ended(ended: EndedAlert, before: Alert | None, now_ms: Millis) -> Iterator[Alert]:
    """Yields the transitions of an alert that are not recorded: both, the end alone, or none."""
    if before is None:
        yield from (ended.fired, ended.resolved)
        return
    is_newer = ended.resolved.observed_at_ms > before.observed_at_ms or before.observed_at_ms > now_ms + AHEAD_MS
    if before.state is AlertState.FIRING and is_newer:
        yield _continued(ended.resolved, before)
    elif before.state is AlertState.RESOLVED and ended.fired.observed_at_ms > before.observed_at_ms:
        yield from (ended.fired, ended.resolved)


def _fires(alert: Alert, before: Alert, evaluated_ms: Millis) -> Iterator[Alert]:
    """Yields the transition of an alert that fires, or the recorded one with another text, or nothing."""
    if before.state is AlertState.RESOLVED:
        if alert.observed_at_ms > before.observed_at_ms and alert.started_at_ms != before.started_at_ms:
            yield alert
        else:
            # Another job ended it meanwhile, or a backup lacks its end: it is an alert of its own.
            yield replace(alert, started_at_ms=evaluated_ms, due_at_ms=evaluated_ms, observed_at_ms=evaluated_ms)
        return
    remedy, claims = alert.remedy or before.remedy, alert.claims or before.claims
    text = replace(
        before, summary=alert.summary, evidence=alert.evidence, remedy=remedy, claims=claims, facts=alert.facts
    )
    since_ms = evaluated_ms - before.observed_at_ms
    further = {*alert.facts.clusters} - {*before.facts.clusters} and since_ms >= UPDATE_MS
    is_due = since_ms >= max(RESTATED_MS, (evaluated_ms - before.started_at_ms) // 2)
    restated = is_due and before.stated is not None and text.says != before.stated
    if alert.severity is not before.severity or further or restated:
        observed_ms = alert.observed_at_ms if alert.observed_at_ms > before.observed_at_ms else evaluated_ms
        yield replace(_continued(alert, before), remedy=remedy, claims=claims, observed_at_ms=observed_ms)
    elif text != before:
        yield text


def _continued(alert: Alert, before: Alert) -> Alert:
    return replace(
        alert, cluster_id=before.cluster_id, names_cluster=before.names_cluster, started_at_ms=before.started_at_ms
    )
