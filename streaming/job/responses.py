"""What people do in the services of sinks, put into effect: acknowledgements and silences of alerts that fire."""

import glob
import secrets
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from connectors.sinks.sink import FollowedSink, Sink
from connectors.store.acknowledgements import AcknowledgementStore
from connectors.store.collection import SilenceStore
from connectors.wall_clock import wall_ms
from rules.alert import Alert, AlertId
from rules.model.identifiers import Millis
from rules.notifications.route import Silence
from streaming.pipeline.notifying import Notifying

SILENCE_MS: Final = 3_600_000


class SinkResponses:
    """The `Responses` of all sinks of a job. Its methods raise StoreError if they cannot write."""

    def __init__(self, notifying: Notifying, acknowledgements: AcknowledgementStore, silences: SilenceStore) -> None:
        self._notifying, self._acknowledgements, self._silences = notifying, acknowledgements, silences
        self._followed: list[FollowedSink] = []

    def follow(self, sinks: Sequence[Sink]) -> None:
        """Follows these sinks while this job notifies, and no others."""
        wanted: list[FollowedSink] = (
            [sink for sink in sinks if isinstance(sink, FollowedSink)] if self._notifying.notifies else []
        )
        for sink in self._followed:
            if not any(sink is each for each in wanted):
                sink.follow(None)
        self._followed = wanted
        for sink in wanted:
            sink.follow(self)

    def stop(self) -> None:
        """Follows no sink any more."""
        for sink in self._followed:
            sink.follow(None)
        self._followed = []

    def acknowledge(self, alerts: Collection[AlertId], *, by: str) -> None:
        """Acknowledges those of the alerts that still fire."""
        self._acknowledgements.add(self._firing(alerts), by=by, now_ms=wall_ms())

    def end_acknowledgement(self, alerts: Iterable[AlertId]) -> None:
        """Ends the acknowledgements of these alerts."""
        self._acknowledgements.end(alerts, now_ms=wall_ms())

    def silence(self, alerts: Collection[AlertId], *, by: str) -> None:
        """Silences those of the alerts that still fire, each by its cluster, rule and subject, for an hour."""
        now_ms = wall_ms()
        id_ = secrets.token_hex(4)
        found = [
            Silence(
                id=id_,
                cluster=glob.escape(alert.cluster),
                rule=alert.rule,
                subject=glob.escape(alert.subject),
                starts_at_ms=now_ms,
                ends_at_ms=Millis(now_ms + SILENCE_MS),
                author=by,
                comment="silenced in a message",
            )
            for alert in self._firing(alerts)
        ]
        if found:
            self._silences.add(*found, now_ms=now_ms)

    def _firing(self, alerts: Collection[AlertId]) -> Sequence[Alert]:
        with self._notifying.paused():
            return [each for each in self._notifying.ledger.firing() if each.alert_id in alerts]
