"""What people do in the services of sinks, put into effect: acknowledgements and silences of alerts that fire."""

import glob
import secrets
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from connectors.process.wall_clock import wall_ms
from connectors.sinks.sink import FollowedSink, OpenIncident, Sink
from connectors.store.acknowledgements import AcknowledgementStore
from rules.alert import Alert, AlertId
from rules.model.identifiers import Millis
from rules.notifications.notification import alert_histories
from rules.notifications.route import Silence, SilenceOfService
from streaming.job.active_silences import ActiveSilences
from streaming.pipeline.notifying import Notifying

SILENCE_MS: Final = 3_600_000


class SinkResponses:
    """The `Responses` of all sinks of a job. Its methods raise StoreError if they cannot write."""

    def __init__(self, notifying: Notifying, acknowledgements: AcknowledgementStore, silences: ActiveSilences) -> None:
        self._notifying, self._acknowledgements, self._silences = notifying, acknowledgements, silences
        self._followed: list[FollowedSink] = []

    def follow(self, sinks: Sequence[Sink]) -> None:
        """Follows these sinks while this job notifies, and no others."""
        self._follow([sink for sink in sinks if isinstance(sink, FollowedSink)] if self._notifying.notifies else [])

    def stop(self) -> None:
        """Follows no sink any more."""
        self._follow([])

    def _follow(self, wanted: list[FollowedSink]) -> None:
        for sink in self._followed:
            if not any(sink is each for each in wanted):
                sink.follow(None)
        self._followed = wanted
        for sink in wanted:
            sink.follow(self)

    def acknowledge(self, alerts: Collection[AlertId], *, by: str) -> None:
        """Acknowledges those of the alerts that still fire."""
        self._acknowledgements.add(self._firing(alerts), by=by, now_ms=wall_ms())

    def end_acknowledgement(self, alerts: Iterable[AlertId]) -> None:
        """Ends the acknowledgements of these alerts."""
        self._acknowledgements.end(alerts, now_ms=wall_ms())

    def silence(self, alerts: Collection[AlertId], *, by: str) -> Millis | None:
        """Silences those of the alerts that still fire, each by its cluster, rule and subject, for an hour.

        Returns when that ends; None if none of them fires.
        """
        now_ms = wall_ms()
        ends_at_ms = Millis(now_ms + SILENCE_MS)
        id_ = secrets.token_hex(4)
        found = [
            Silence(
                id=id_,
                cluster=glob.escape(alert.cluster),
                rule=alert.rule,
                subject=glob.escape(alert.subject),
                starts_at_ms=now_ms,
                ends_at_ms=ends_at_ms,
                author=by,
                comment="silenced in a message",
            )
            for alert in self._firing(alerts)
        ]
        if not found:
            return None
        self._silences.stored.add(*found, now_ms=now_ms)
        return ends_at_ms

    def open_incidents(self, sink: str) -> Sequence[OpenIncident]:
        """Returns the incidents that a sink was notified of and that fire, oldest first."""
        with self._notifying.paused():
            incidents = self._notifying.ledger.incidents(sink)
        found = []
        for incident, transitions in incidents.items():
            known = [history for history in alert_histories(transitions) if history.notified and not history.resolved]
            if known:
                escalations = max(transition.escalations for transition in transitions if transition.delivered)
                alerts = tuple(history.newest.alert_id for history in known)
                found.append(OpenIncident(id=incident, escalations=escalations, alerts=alerts))
        return found

    def acknowledged_there(
        self, alerts: Collection[AlertId], *, service: str, person: str | None, at_ms: Millis
    ) -> bool:
        """Takes who has acknowledged alerts in a service; None: no person has, or no longer.

        One that is known is not taken again after it was ended here, and one that is active here stays. Returns
        whether each of the alerts is acknowledged now, by whomever.
        """
        now_ms, by = wall_ms(), f"{service} ({person})"
        stored = {
            acknowledgement.alert_id: acknowledgement
            for acknowledgement in self._acknowledgements.read()
            if acknowledgement.alert_id in alerts
        }
        active = {id_ for id_, acknowledgement in stored.items() if acknowledgement.active(now_ms)}
        if person is None:
            theirs = [id_ for id_ in active if stored[id_].by.startswith(f"{service} (")]
            self._acknowledgements.end(theirs, now_ms=now_ms)
            return active - {*theirs} >= {*alerts}
        new = [id_ for id_ in alerts if id_ not in active and (id_ not in stored or stored[id_].at_ms < at_ms)]
        # Nobody has acknowledged there what was sent later.
        known = [alert for alert in self._firing(new) if alert.due_at_ms <= at_ms] if new else []
        self._acknowledgements.add(known, by=by, now_ms=at_ms)
        return active | {alert.alert_id for alert in known} >= {*alerts}

    def silenced_there(self, sink: str, silences: Sequence[SilenceOfService]) -> None:
        """Takes the silences in the service of a sink, in place of its former ones."""
        self._silences.in_services.put(sink, silences)

    def _firing(self, alerts: Collection[AlertId]) -> Sequence[Alert]:
        with self._notifying.paused():
            return [alert for alert in self._notifying.ledger.firing() if alert.alert_id in alerts]
