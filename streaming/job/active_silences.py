"""The active silences: of people, of maintenance windows, and those in the services of sinks."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from connectors.store.collection import SilenceStore
from rules.model.identifiers import Millis
from rules.notifications.route import Silence, SilenceOfService
from streaming.config import Config
from streaming.config.maintenance import in_force


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveSilences:
    """Reads the stored silences and the configuration that are in effect at each call. For any thread."""

    stored: SilenceStore
    """Those that people made."""
    config: Callable[[], Config]
    in_services: dict[str, Sequence[SilenceOfService]] = field(default_factory=dict)
    """By sink, as they were read last: each ends by itself where it is not read again."""

    def __call__(self, now_ms: Millis) -> Sequence[Silence]:
        """Returns them all; some may have ended."""
        in_services = (one for each in [*self.in_services.values()] for one in each)
        return (*self.stored.current(), *in_force(self.config().maintenance, now_ms), *in_services)
