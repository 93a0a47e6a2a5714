"""The active silences: of people, of maintenance windows, and those in the services of sinks."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from connectors.store.collection import ServiceSilenceStore, SilenceStore
from rules.model.identifiers import Millis
from rules.notifications.route import Silence
from streaming.config import Config
from streaming.config.maintenance import in_force


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveSilences:
    """Reads the stored silences and the configuration that are in effect at each call. For any thread."""

    stored: SilenceStore
    """Those that people made."""
    in_services: ServiceSilenceStore
    config: Callable[[], Config]

    def __call__(self, now_ms: Millis) -> Sequence[Silence]:
        """Returns them all; some may have ended."""
        maintenance = in_force(self.config().maintenance, now_ms)
        return (*self.stored.current(), *maintenance, *self.in_services.current())
