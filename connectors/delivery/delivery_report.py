"""DeliveryReport: the result of one call of `Dispatcher.deliver`."""

from collections.abc import Mapping
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
    """Why delivery to the sink fails; None while it does not."""
    set_aside: int = 0
    """Notifications that the sink does not accept while it accepts others: they are sent again, after all others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryReport:
    """What one delivery did."""

    recorded: int
    """Alerts that were new to the ledger."""
    sinks: Mapping[str, SinkResult]
    """By sink name."""
