"""One cluster as the page and the API show it, and its health in one word.

The health follows the firing alerts, not findings whose hold has not expired. Unknown is not healthy: a cluster
without a status, or with a rule whose result is unknown, is `unknown` unless an alert fires. A cluster of which nothing
is observed, or with a status older than 30 s, is `unknown` unless a critical alert fires.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

from connectors.sinks.alert_json import alert_object, silence_to_json
from rules.alert import Alert, AlertState
from rules.answers.refusal import being_restarted, decided
from rules.claims.claim import Claim, Question, yes_or_no
from rules.evaluate import ALL_RULES, INHIBITED, OBSERVATION_RULES
from rules.finding import Severity
from rules.formatting import duration, iso, ms_text, utc_text
from rules.model.identifiers import Millis
from rules.notifications.acknowledgement import Acknowledgement
from rules.notifications.route import Silence
from rules.rule import NO_LEADER, urgency
from streaming.status.cluster_status import (
    ClusterStatus,
    PendingCondition,
    StatusSource,
    UnknownStatus,
    status_json,
    with_job_alerts,
)
from streaming.status.health import NO_LEADER_KNOWN, Health, health_of, records_at_risk, undecided_answers
from streaming.status.job_alerts import JobAlerts
from streaming.status.restart_output import announcements
from streaming.status.status_store import EndedRecovery, ReceivedStatus
from streaming.web.api_objects import ClusterObject, ClusterRow, RestartObject

STALE_MS = Millis(30_000)
"""A cluster with an older status is unknown."""
STARTING = "Starting: no observation of this cluster has been evaluated yet"
TRANSITIONS_LIMIT = 500
"""Alert transitions of one cluster that the API returns, the newest."""


@dataclass(frozen=True, kw_only=True)
class ClusterView:
    """One cluster at one time of the wall clock."""

    name: str
    now_ms: Millis
    received: ReceivedStatus | None
    """The newest status; None before the first one."""
    history: Sequence[Alert] = ()
    """Every recorded alert transition of this cluster, oldest first."""
    silences: Sequence[Silence] = ()
    """Silences that have not ended and may cover this cluster."""
    acknowledgements: Sequence[Acknowledgement] = ()
    """Those in force, of any alert."""
    starting: bool = False
    """The job has not completed a batch yet."""
    recorded: bool = False
    """It is a recorded state that is shown as of its own time: it has no age, and ages are shown as times."""

    @cached_property
    def firing(self) -> Sequence[Alert]:
        """The newest transition of each firing alert, by `urgency`, then oldest first."""
        newest = {alert.fingerprint: alert for alert in self.history}
        firing = (alert for alert in newest.values() if alert.state is AlertState.FIRING)
        return tuple(
            sorted(firing, key=lambda one: (urgency(ALL_RULES.get(one.rule), one.severity), one.started_at_ms))
        )

    @property
    def status(self) -> ClusterStatus | None:
        """The newest status; None before the first one."""
        return None if self.received is None else self.received.status

    @property
    def age_ms(self) -> Millis | None:
        """Time since the newest status arrived; None before the first one."""
        if self.received is None:
            return None
        return Millis(0) if self.recorded else Millis(max(0, self.now_ms - self.received.received_at_ms))

    @property
    def stale(self) -> bool:
        """Whether the newest status is too old to describe the present."""
        return self.age_ms is not None and self.age_ms > STALE_MS

    @cached_property
    def health(self) -> Health:
        """The worst severity that fires; unknown where not everything is observed.

        A warning that the monitor is blind says that the health is unknown; a critical one pages, and counts as such.
        """
        severities = {
            alert.severity
            for alert in self.firing
            if alert.rule not in OBSERVATION_RULES or alert.severity is Severity.CRITICAL
        }
        return health_of(
            severities,
            records_at_risk=self.records_at_risk is not None,
            known=self.unknown_reason is None,
            observed=self._observed,
        )

    @property
    def _observed(self) -> bool:
        """Whether anything is observed now: an open warning says what was true before."""
        blind = any(alert.facts.unobserved is not None for alert in self.firing)
        return not blind and not self.stale

    @property
    def records_at_risk(self) -> str | None:
        """The risk that acknowledged records are lost, in words; None if nothing indicates it."""
        return None if self.status is None else records_at_risk(self.status)

    @cached_property
    def unknown_reason(self) -> str | None:
        """Why the health is unknown, in words; None where it is known."""
        if self.not_observed_reason is not None:
            return self.not_observed_reason
        unknown = self.status.unknown if self.status else ()
        if not unknown:
            if self.status is None or self.status.leader_id is None:
                return None if self.status is None else NO_LEADER_KNOWN
            return next((question for question, _ in undecided_answers(self.status)), None)
        # What a finding explains says less than what is not observed, and a missing leader explains most of the rest.
        first = min(unknown, key=lambda one: (one.why.startswith(INHIBITED), one.rule != NO_LEADER))
        rules = sorted({status.rule for status in unknown})
        result = f"rule {rules[0]} has no result" if len(rules) == 1 else f"{len(rules)} rules have no result"
        named = not first.subject or first.subject in first.why
        return _sentence(first.why if named else f"{first.subject}: {first.why}", result)

    @cached_property
    def not_observed_reason(self) -> str | None:
        """Why the cluster is not observed now, in words; None where it is."""
        if self.age_ms is None or self.status is None:
            return STARTING if self.starting else "No observation of this cluster has arrived yet"
        if self.stale:
            return f"No status has arrived for {duration(self.age_ms)}: this page shows the last one"
        not_observed = next((alert for alert in self.firing if alert.rule in OBSERVATION_RULES), None)
        if not_observed is not None:
            return self.summary_of(not_observed)
        if self.status.source is StatusSource.LIVE:
            return None
        why = next((status.why for status in self.status.unknown if status.rule == NO_LEADER), "no leader answers")
        return _sentence(why, "this page shows the last known state")

    @property
    def headline(self) -> str:
        """The cluster's state in one sentence."""
        worst = next((alert for alert in self.firing if alert.rule not in OBSERVATION_RULES), None)
        if worst is not None and self.health in (Health.CRITICAL, Health.WARNING):
            return self.summary_of(worst)
        if not self._observed and self.not_observed_reason is not None:
            return self.not_observed_reason
        which = "warning or critical alert" if self.firing else "alert"
        healthy = f"A leader is active, a majority of voters fetches, no {which} is firing"
        return self.records_at_risk or self._pending_fault or self.unknown_reason or healthy

    @property
    def undecided(self) -> list[str]:
        """Which questions about the quorum have no answer now: which controllers decide them, and how to find out."""
        return (
            [] if self.status is None else [f"{question}: {why}." for question, why in undecided_answers(self.status)]
        )

    @property
    def _pending_fault(self) -> str | None:
        """The worst finding that does not fire yet, and when it fires; None without one, and for an old status.

        An information is none, as long as it does not fire and afterwards.
        """
        if self.status is None or self.stale:
            return None
        due = {(condition.rule, condition.subject): condition.due_at_ms for condition in self.pending}
        firing = {(alert.rule, alert.subject) for alert in self.firing}
        # The findings are ordered by severity; what is not observed says less than any fault that is.
        faults = sorted(self.status.findings, key=lambda one: one.rule in OBSERVATION_RULES)
        for fault in faults:
            key = (fault.rule, fault.subject)
            if fault.severity is not Severity.INFO and key not in firing:
                return _sentence(fault.summary, self._firing_time(due.get(key)))
        return None

    def _firing_time(self, due_at_ms: Millis | None) -> str:
        if due_at_ms is None:
            return "not firing yet"
        left_ms = due_at_ms - self.now_ms
        whole_s_ms = left_ms + -left_ms % 1_000
        return f"fires in {ms_text(whole_s_ms)}" if left_ms > 0 else "fires with the next observation"

    @property
    def pending(self) -> Sequence[PendingCondition]:
        """Conditions whose hold has not expired."""
        return self.status.pending if self.status else ()

    def resolved_since(self, since_ms: Millis) -> Sequence[tuple[Alert, Alert]]:
        """Returns the alerts that resolved since then, newest first: the last firing and the resolved transition."""
        fired: dict[tuple[str, Millis], Alert] = {}
        resolved: list[tuple[Alert, Alert]] = []
        for alert in self.history:
            key = (alert.fingerprint, alert.started_at_ms)
            if alert.state is AlertState.FIRING:
                fired[key] = alert
            elif alert.observed_at_ms >= since_ms:
                resolved.append((fired.get(key, alert), alert))
        return resolved[::-1]

    def summary_of(self, alert: Alert) -> str:
        """Returns the summary of the rule's present finding; the alert's own where the rule finds nothing now."""
        now = self._findings.get((alert.rule, alert.subject))
        return alert.summary if now is None else now

    @cached_property
    def _findings(self) -> Mapping[tuple[str, str], str]:
        return {
            (status.rule, status.subject): status.summary for status in (self.status.findings if self.status else ())
        }

    @property
    def unknown_by_reason(self) -> Mapping[str, Sequence[UnknownStatus]]:
        """The rules whose result is unknown, by reason."""
        by_why: dict[str, list[UnknownStatus]] = {}
        for status in self.status.unknown if self.status else ():
            by_why.setdefault(status.why, []).append(status)
        return by_why

    @property
    def ended_recoveries(self) -> Sequence[EndedRecovery]:
        """Recoveries that ended since the job started."""
        return () if self.received is None else self.received.ended_recoveries

    def silence_of(self, alert: Alert) -> Silence | None:
        """Returns an active silence that covers this alert."""
        return next(
            (silence for silence in self.silences if silence.active(self.now_ms) and silence.matches(alert)), None
        )

    def acknowledgement_of(self, alert: Alert) -> Acknowledgement | None:
        """Returns the acknowledgement of this alert."""
        return next(
            (acknowledgement for acknowledgement in self.acknowledgements if acknowledgement.matches(alert)), None
        )

    def row_json(self) -> ClusterRow:
        """Returns an item of `/api/clusters`."""
        counts = Counter(alert.severity for alert in self.firing)
        plain: Mapping[str, Any] = {} if self.status is None else status_json(self.status, _ROW_FIELDS)
        return {
            "name": self.name,
            "cluster_id": plain.get("cluster_id"),
            "health": self.health,
            "headline": self.headline,
            "age_ms": self.age_ms,
            "observed_at": plain.get("observed_at"),
            "source": plain.get("source"),
            "alerts": {severity: counts[severity] for severity in Severity},
            "pending": len(self.pending),
            "leader_id": plain.get("leader_id"),
            "leader_epoch": plain.get("leader_epoch"),
            "voters": plain.get("voters"),
            "votes_needed": plain.get("votes_needed"),
            "voters_fetching": plain.get("voters_fetching"),
            "failures_left": plain.get("failures_left"),
            "recovering_partitions": plain.get("recovering_partitions"),
        }

    def to_json(self) -> ClusterObject:
        """Returns the fields of `/api/clusters/NAME`."""
        status: Any = None
        if self.status is not None:
            alerts = JobAlerts(firing=self.firing, acknowledgements=self.acknowledgements, silences=self.silences)
            status = status_json(with_job_alerts(self.status, alerts, self.now_ms))
        return {
            **self.row_json(),
            "status": status,
            "firing": [alert_object(alert) for alert in self.firing],
            "history": [alert_object(alert) for alert in self.history[-TRANSITIONS_LIMIT:]],
            "recovered": [
                {
                    "topic": recovery.topic,
                    "topic_id": recovery.topic_id,
                    "since": iso(recovery.since_ms),
                    "ended": iso(recovery.ended_ms),
                }
                for recovery in self.ended_recoveries
            ],
            "silences": [silence_to_json(silence, self.now_ms) for silence in self.silences],
        }


_ROW_FIELDS = (
    *("cluster_id", "source", "observed_at_ms", "leader_id", "leader_epoch", "voters", "votes_needed"),
    *("voters_fetching", "failures_left", "recovering_partitions"),
)


def worst_first(views: Iterable[ClusterView]) -> list[ClusterView]:
    """Returns critical, warning, unknown, healthy clusters; of equal health those with pending conditions first."""
    return sorted(views, key=lambda one: (-one.health.rank, not one.pending, one.name))


def _sentence(text: str, more: str) -> str:
    return f"{text[:1].upper()}{text[1:].removesuffix('.')} ({more})"


def restart_json(
    view: ClusterView,
    node: str,
    since_ms: Millis | None,
    *,
    despite: str | None = None,
    silences: Iterable[Silence] = (),
) -> RestartObject | None:
    """Returns whether a node may be restarted, by the newest status; None where it has no such node.

    What was observed before `since_ms`, and an old status, say nothing for it. What `despite` names is left out, and
    restarts that silences announced are no crash loop.
    """
    assert view.status is not None
    found = next((one for one in view.status.restarts if str(one.node) == node), None)
    if found is None:
        return None
    announced = announcements(silences, view.status.cluster, [one.node for one in view.status.restarts])
    counted = decided((*found.reasons, *being_restarted(found.node, announced, view.now_ms)), despite, announced)
    problem, unknown = None, found.unknown
    if view.stale:
        problem = f"the job's newest status is {ms_text(view.age_ms or 0)} old"
    elif since_ms is not None and (found.observed_since_ms is None or found.observed_since_ms < since_ms):
        problem = f"the job has not observed the quorum, its log and all nodes since {utc_text(since_ms)}: ask again"
    if problem is not None:
        unknown = (problem, *unknown)
    safe = False if counted.against else None if unknown else True
    claims = [one for one in found.claims if one.question is not Question.RESTART or one.node != found.node]
    if safe is not None:
        answer = Claim(question=Question.RESTART, node=found.node, answer=yes_or_no(safe))
        claims.insert(0, answer)
    decided_one = replace(
        found,
        safe=safe,
        against=tuple(map(str, counted.against)),
        reasons=counted.against,
        unknown=unknown,
        claims=tuple(claims),
        notes=(*found.notes, *counted.notes),
    )
    plain: Any = status_json(
        replace(view.status, restarts=(decided_one, replace(decided_one, reasons=counted.left_out))),
        ("cluster_id", "observed_at_ms", "restarts"),
    )
    answered, left_out = plain["restarts"]
    head = {"cluster": view.name, "cluster_id": plain["cluster_id"], "observed_at": plain["observed_at"]}
    more = {"left_out": left_out["reasons"], "current": problem is None}
    return cast(RestartObject, head | answered | more)
