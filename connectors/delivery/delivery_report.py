"""DeliveryReport: the result of one call of `Dispatcher.deliver`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkResult:
    """What one delivery did for one sink. The first three fields count notifications."""

    delivered: int = 0
    retry: int = 0
    rejected: int = 0
    """Their documents were refused; they are sent again as minimal documents."""
    pending: int = 0
    """Transitions that are still pending afterwards, silenced ones included."""
    silenced: int = 0
    """Firing alerts that a silence holds back."""
    failing: str | None = None
    """Why delivery to the sink fails, as a whole or in part; None while it does not."""
    not_accepted: Sequence[str] = ()
    """What the notifications are about that the sink does not accept while it accepts others: they are sent again,
    after all others."""

    @property
    def set_aside(self) -> int:
        """The number of these notifications."""
        return len(self.not_accepted)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryReport:
    """What one delivery did."""

    recorded: int
    """Alerts that were new to the ledger."""
    sinks: Mapping[str, SinkResult]
    """By sink name."""
