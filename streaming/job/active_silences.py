"""The active silences: of people, of maintenance windows, and those in the services of sinks. And acknowledgements."""

from collections.abc import Sequence
from dataclasses import dataclass

from connectors.store.acknowledgements import AcknowledgementStore
from connectors.store.collection import ServiceSilenceStore, SilenceStore
from rules.model.identifiers import Millis
from rules.notifications.route import Hold, Silence
from streaming.job.running import Running


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveSilences:
    """Reads the stored silences and the configuration that are in effect at each call. For any thread."""

    stored: SilenceStore
    """Those that people made."""
    in_services: ServiceSilenceStore
    running: Running
    """It has the maintenance windows."""

    def __call__(self, now_ms: Millis) -> Sequence[Silence]:
        """Returns them all; some may have ended."""
        return (*self.stored.current(), *self.running.maintenance(now_ms), *self.in_services.current())


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveHolds:
    """What keeps an alert from being sent: the silences, and the acknowledgements."""

    silences: ActiveSilences
    acknowledgements: AcknowledgementStore

    def __call__(self, now_ms: Millis) -> Sequence[Hold]:
        """Returns them all; some may have ended."""
        return (*self.silences(now_ms), *self.acknowledgements.current())
