"""The one contract of all sinks."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol, TypeAlias

from rules.model.identifiers import Millis
from rules.notifications.notification import Notice
from rules.notifications.route import Route


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """It is there, whatever happens to us now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """It is not there, and trying again can help."""

    reason: str
    """One sentence without a secret."""
    after_s: float = 0.0
    """How long the place asked to be left alone (Retry-After)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """It will never be taken as it is: trying again cannot help."""

    reason: str
    """One sentence without a secret."""


Outcome: TypeAlias = Delivered | Retry | Rejected


class Style(Enum):
    """How a sink wants to be told."""

    EACH = "each"
    """A record: every transition by itself, none left out, whatever is silenced."""
    INCIDENTS = "incidents"
    """People: alerts of one root cause together, silences and the cap on sends respected, repeated in time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What holds between a sink and whoever tells it."""

    name: str
    """Its identity in the ledger, the same after a restart, without a secret."""
    style: Style
    """How it wants to be told."""
    repeat_s: float | None = None
    """After how long an incident that stands is told again; None for never. A record is never told again."""
    route: Route = field(default_factory=Route)
    """What is meant for it; it need not be told the rest."""


class Sink(Protocol):
    """Tells notices to one place. It does not retry, wait or remember what was told: the ledger does that for all."""

    @property
    def terms(self) -> Terms:
        """Its name, and what it is to be told when."""
        ...

    def tell(self, notices: Sequence[Notice], *, sent_at_ms: Millis, deadline_s: float) -> Sequence[Outcome]:
        """Tell the notices in this order; one outcome for each, in the same order.

        A notice that the deadline left no time for is a Retry. Telling the same notice again must do no harm:
        it carries the keys of its alerts (`Alert.key`) and of its incident. An exception is a fault of the
        sink: it counts as a Retry of all.
        """
        ...
