"""A dossier: everything there is to show of one cluster, and the one word for how it is.

What is told is what stands: the word follows the firing alerts, not findings that still wait for their hold. Unknown
is not healthy: a cluster that was never seen, not seen for long, or that a rule cannot judge is `unknown` unless
something worse is known of it.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from connectors.delivery.silence_store import shown
from connectors.sinks.alert_json import iso, to_object
from connectors.sinks.evidence_format import duration
from rules.alert import Alert, AlertState
from rules.evaluate import BLIND
from rules.finding import Plain, Severity
from rules.model.identifiers import Millis
from rules.notifications.notification import WEIGHT
from rules.notifications.silence import Silence
from streaming.status.health import Health
from streaming.status.status_store import Recovered, Seen

STALE_MS = Millis(30_000)
"""A cluster whose newest portrait is older is not known any more."""
TRANSITIONS = 500
"""Transitions of one cluster, the newest, that are given out."""


@dataclass(frozen=True, kw_only=True)
class Dossier:
    """One cluster at one moment of the wall clock."""

    name: str
    now_ms: Millis
    seen: Seen | None
    history: Sequence[Alert] = ()
    """Every remembered transition of this cluster, oldest first."""
    silences: Sequence[Silence] = ()
    """Those that have not ended and may speak of this cluster."""
    recorded: bool = False
    """It is a recorded state, shown as of then: it does not grow old."""

    @cached_property
    def firing(self) -> Sequence[Alert]:
        """The newest word on each alert that is not resolved, the worst and then the oldest first."""
        newest = {alert.fingerprint: alert for alert in self.history}
        standing = (alert for alert in newest.values() if alert.state is AlertState.FIRING)
        return tuple(sorted(standing, key=lambda alert: (-WEIGHT[alert.severity], alert.started_at_ms)))

    @property
    def portrait(self) -> Mapping[str, Any]:
        """The newest portrait; empty where none ever came."""
        return {} if self.seen is None else self.seen.portrait

    @property
    def age_ms(self) -> Millis | None:
        """How long ago the newest portrait came; None where none ever did."""
        if self.seen is None:
            return None
        return Millis(0) if self.recorded else Millis(max(0, self.now_ms - self.seen.received_at_ms))

    @property
    def stale(self) -> bool:
        """What is shown is not known to be so any more."""
        return self.age_ms is not None and self.age_ms > STALE_MS

    @cached_property
    def health(self) -> Health:
        """The worst that stands, as far as can be seen."""
        told = {alert.severity for alert in self.firing if alert.rule != BLIND}
        if Severity.CRITICAL in told:
            return Health.CRITICAL
        if Severity.WARNING in told:
            return Health.WARNING
        return Health.UNKNOWN if self.unseen else Health.HEALTHY

    @cached_property
    def unseen(self) -> str | None:
        """Why it cannot be told whether all is well, in words; None where it can."""
        if self.blind is not None:
            return self.blind
        gaps = self.portrait["cannot_tell"]
        if not gaps:
            return None
        more = f", and {len(gaps) - 1} more" if len(gaps) > 1 else ""
        return f"{gaps[0]['rule']} cannot be judged{more}: {gaps[0]['why']}"

    @cached_property
    def blind(self) -> str | None:
        """Why the cluster is not seen as it is now, in words; None where it is."""
        if self.age_ms is None:
            return "nothing was seen of it yet"
        if self.stale:
            return f"nothing came of it for {duration(self.age_ms)}: what is shown is that old"
        told = next((alert for alert in self.firing if alert.rule == BLIND), None)
        if told is not None:
            return self.says(told)
        live = self.portrait["source"] == "live"
        return None if live else "no leader answers: what is shown is what was seen last"

    @property
    def headline(self) -> str:
        """The one sentence to read first."""
        worst = next((alert for alert in self.firing if alert.rule != BLIND), None)
        if worst is not None and self.health in (Health.CRITICAL, Health.WARNING):
            return self.says(worst)
        return self.unseen or "a leader leads, a majority fetches, nothing is told"

    @property
    def waiting(self) -> Sequence[Mapping[str, Any]]:
        """Conditions that stand and are not told yet."""
        pending: Sequence[Mapping[str, Any]] = self.portrait.get("pending") or ()
        return pending

    def over(self, since_ms: Millis) -> Sequence[tuple[Alert, Alert]]:
        """The alerts that resolved since then, the newest first: what was told last while they fired, and their end."""
        told: dict[tuple[str, Millis], Alert] = {}
        ended: list[tuple[Alert, Alert]] = []
        for alert in self.history:
            life = (alert.fingerprint, alert.started_at_ms)
            if alert.state is AlertState.FIRING:
                told[life] = alert
            elif alert.observed_at_ms >= since_ms:
                ended.append((told.get(life, alert), alert))
        return ended[::-1]

    def says(self, alert: Alert) -> str:
        """What its rule says of it now; where it says nothing now, what was told."""
        now = self._findings.get((alert.rule, alert.subject))
        return alert.summary if now is None else now

    @cached_property
    def _findings(self) -> Mapping[tuple[str, str], str]:
        return {(one["rule"], one["subject"]): one["summary"] for one in self.portrait.get("findings") or ()}

    @property
    def gaps(self) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        """The rules that cannot judge, by why."""
        by_why: dict[str, list[Mapping[str, Any]]] = {}
        for gap in self.portrait.get("cannot_tell") or ():
            by_why.setdefault(gap["why"], []).append(gap)
        return by_why

    @property
    def recovered(self) -> Sequence[Recovered]:
        """Recoveries that ended since the job started."""
        return () if self.seen is None else self.seen.recovered

    def silence_of(self, alert: Alert) -> Silence | None:
        """An active silence that covers this alert."""
        return next((one for one in self.silences if one.active(self.now_ms) and one.covers(alert)), None)

    def to_row(self) -> dict[str, Plain]:
        """The cluster in a few fields: an item of `/api/clusters`.

        Fields: name, health (critical, warning, unknown, healthy), headline, age_ms (of what is shown; null where
        nothing was seen), alerts (how many fire, by severity), pending (how many wait for their hold); and as in
        `status --json`: cluster_id, source, observed_at, leader_id, leader_epoch, voters, votes_needed,
        voters_fetching, failures_left, recovering_partitions; null where nothing was seen.
        """
        counts = Counter(alert.severity for alert in self.firing)
        return {
            "name": self.name,
            "health": self.health.value,
            "headline": self.headline,
            "age_ms": self.age_ms,
            "alerts": {severity.value: counts[severity] for severity in Severity},
            "pending": len(self.waiting),
            **{key: self.portrait.get(key) for key in _ROW},
        }

    def to_object(self) -> dict[str, Plain]:
        """Everything: `/api/clusters/NAME`.

        Fields: those of `to_row`; portrait (the fields of `cluster_status`, null without observations); firing
        and history (alerts as lines of the jsonl sink, without sent_at; the newest 500 transitions, oldest first);
        recovered (topic, topic_id, since, ended); silences (id, cluster, rule, subject, severity, starts_at, ends_at,
        active, author, comment).
        """
        return {
            **self.to_row(),
            "portrait": dict(self.portrait) or None,
            "firing": [_line(alert) for alert in self.firing],
            "history": [_line(alert) for alert in self.history[-TRANSITIONS:]],
            "recovered": [
                {
                    "topic": one.topic,
                    "topic_id": one.topic_id,
                    "since": iso(one.since_ms),
                    "ended": iso(one.ended_ms),
                }
                for one in self.recovered
            ],
            "silences": [shown(one, self.now_ms) for one in self.silences],
        }


_ROW = (
    *("cluster_id", "source", "observed_at", "leader_id", "leader_epoch", "voters", "votes_needed"),
    *("voters_fetching", "failures_left", "recovering_partitions"),
)
_ORDER = list(Health)


def worst_first(dossiers: Iterable[Dossier]) -> list[Dossier]:
    """Critical, warning, unknown, healthy; among alike what pends first, then by name."""
    return sorted(dossiers, key=lambda one: (-_ORDER.index(one.health), not one.waiting, one.name))


def _line(alert: Alert) -> dict[str, Plain]:
    line = to_object(alert, alert.observed_at_ms)
    del line["sent_at"]
    return line
