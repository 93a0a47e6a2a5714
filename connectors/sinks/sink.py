"""The one contract of all sinks."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from rules.alert import Alert
from rules.quorum import Millis


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """It is there, whatever happens to us now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """It is not there, and trying again can help."""

    reason: str
    """One sentence without a secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """It will never be taken as it is: trying again cannot help."""

    reason: str
    """One sentence without a secret."""


Outcome: TypeAlias = Delivered | Retry | Rejected


class Sink(Protocol):
    """Tells alerts to one place. It does not retry, wait or remember: the ledger does that for all sinks."""

    @property
    def name(self) -> str:
        """Its identity in the ledger, the same after a restart, without a secret."""
        ...

    def tell(self, alerts: Sequence[Alert], *, sent_at_ms: Millis, deadline_s: float) -> Sequence[Outcome]:
        """Tell the alerts in this order; one outcome for each, in the same order.

        An alert that the deadline left no time for is a Retry. Telling the same alert again, by `Alert.key`,
        must do no harm. An exception is a fault of the sink: it counts as a Retry of all.
        """
        ...
