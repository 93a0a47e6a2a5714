"""The contract of all sinks, the minimal content of a notification, and sending one after the other.

A minimal document is sent where the full one cannot be formatted or is refused. Cluster, rule, subject, severity,
state, summary and the incident stay, so a service shows it under the same key.
"""

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Generic, Protocol, TypeAlias, TypeVar, runtime_checkable

from connectors.errors import KraftwatchError
from connectors.process.json_log import alert_fields
from connectors.settings.secret import redact
from connectors.sinks.alert_json import minimal_alert
from rules.alert import AlertId
from rules.model.identifiers import Millis
from rules.notifications.notification import Notification
from rules.notifications.route import Route, SilenceOfService

_LOG = logging.getLogger(__name__)
DocumentT = TypeVar("DocumentT")
_MIN_TIME_S = 0.05
"""With less time left, nothing is sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """The notification was accepted: it is safe if this process ends now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """The notification was not accepted; sending it again can succeed."""

    reason: str
    """One sentence without a secret."""
    after_s: float = 0.0
    """How long the service asked to wait (Retry-After)."""
    attempted: bool = True
    """False if the sink did not begin to send it in this call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """The document itself was refused: sending the same one again cannot succeed, a minimal one may."""

    reason: str
    """One sentence without a secret."""


Outcome: TypeAlias = Delivered | Retry | Rejected


def minimal(notification: Notification) -> Notification:
    """Returns the notification with minimal alerts."""
    return replace(
        notification,
        alerts=tuple(map(minimal_alert, notification.alerts)),
        new_transitions=tuple(map(minimal_alert, notification.new_transitions)),
        was=None if notification.was is None else minimal_alert(notification.was),
    )


class DeliveryMode(Enum):
    """What one notification of a sink contains."""

    TRANSITIONS = "transitions"
    """For a record: every transition separately, none left out, silenced or not."""
    INCIDENTS = "incidents"
    """For people: the alerts of one root cause together, with silences, a minimum interval and repetitions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryOptions:
    """How the dispatcher delivers to a sink."""

    name: str
    """The identity in the ledger: the same after a restart, without a secret."""
    mode: DeliveryMode
    repeat_s: float | None = None
    """After how long an open incident is sent again; None for never. Transitions are never repeated."""
    expires: bool = False
    """Whether an incident that is not sent again ends there by itself."""
    shows_acknowledgements: bool = False
    """Whether it is notified when an acknowledgement of an open incident begins or ends."""
    route: Route = field(default_factory=Route)
    """Which alerts are sent."""


class Sink(Protocol):
    """Sends notifications to one destination. It does not retry or wait, and keeps no delivery status: see the ledger.

    A sink may keep state of its destination, for example which message belongs to an incident.
    """

    @property
    def options(self) -> DeliveryOptions:
        """Its name and how notifications are delivered."""
        ...

    def send(
        self, notifications: Sequence[Notification], *, sent_at_ms: Millis, deadline_s: float
    ) -> Sequence[Outcome]:
        """Sends the notifications in this order; returns one outcome for each, in the same order.

        A notification that could not be sent before the deadline is a Retry. Sending a notification twice must have
        no side effect: it has the keys of its alerts (`Alert.key`) and of its incident. An exception is a bug of the
        sink and counts as a Retry of all notifications.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenIncident:
    """An incident that a sink was notified of and that fires."""

    id: str
    escalations: int
    """How often it has escalated as far as the sink was notified."""
    alerts: tuple[AlertId, ...]
    """Its firing alerts of which the sink was notified."""


class Responses(Protocol):
    """Where the job takes what people do in the service of a sink. Each method raises StoreError if it cannot."""

    def acknowledge(self, alerts: Collection[AlertId], *, by: str) -> None:
        """Acknowledges those of the alerts that still fire."""
        ...

    def end_acknowledgement(self, alerts: Iterable[AlertId]) -> None:
        """Ends the acknowledgements of these alerts."""
        ...

    def silence(self, alerts: Collection[AlertId], *, by: str) -> Millis | None:
        """Silences those of the alerts that still fire for an hour; returns when that ends, None if none fires."""
        ...

    def open_incidents(self, sink: str) -> Sequence[OpenIncident]:
        """Returns the incidents that a sink was notified of and that fire, oldest first."""
        ...

    def acknowledged_there(
        self, alerts: Collection[AlertId], *, service: str, person: str | None, at_ms: Millis
    ) -> bool:
        """Takes who has acknowledged alerts in a service, and when by its clock; None: no person has, or no longer.

        Returns whether each of the alerts is acknowledged now, by whomever.
        The acknowledgement is by `SERVICE (PERSON)`, and lasts as long as the one in the service.
        """
        ...

    def silenced_there(self, sink: str, silences: Sequence[SilenceOfService]) -> None:
        """Takes the silences in the service of a sink, in place of its former ones."""
        ...


@runtime_checkable
class FollowedSink(Protocol):
    """A sink in whose service people respond to notifications."""

    def follow(self, responses: Responses | None) -> None:
        """Is called each second while the job notifies, and returns at once; None: the job no longer takes them."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownState:
    """What is known of a cluster, or of the job, whose changes may explain a later incident."""

    of: str
    """The cluster's name, or `kraftwatch`."""
    at_ms: Millis
    facts: Mapping[str, str]
    """What is known now, by name; several values of one are separated by `; `."""


@runtime_checkable
class ChangeSink(Protocol):
    """A sink whose service shows changes beside incidents."""

    @property
    def options(self) -> DeliveryOptions:
        """As of `Sink`."""
        ...

    def report(self, states: Sequence[KnownState], *, deadline_s: float) -> str | None:
        """Reports what differs from what was reported before; returns why it could not, None if it did.

        What is known for the first time is no change.
        """
        ...


class SerialSink(ABC, Generic[DocumentT]):
    """A sink that sends one notification after the other.

    Each is formatted alone; one that cannot be formatted becomes a minimal document. One notification gets at most half
    of the time, and none is begun with less time left than the one before it took: a request that is cut off may have
    been accepted. After two consecutive failures, or one with a Retry-After, the rest is not sent: a service that is
    down is not flooded with requests, and a single notification that it cannot process does not block the others.
    """

    def __init__(self, options: DeliveryOptions) -> None:
        self.options = options

    def send(
        self, notifications: Sequence[Notification], *, sent_at_ms: Millis, deadline_s: float
    ) -> Sequence[Outcome]:
        """Sends each notification, as `Sink.send`."""
        until = time.monotonic() + deadline_s
        outcomes: list[Outcome] = []
        failed: list[Retry] = []
        needed_s = _MIN_TIME_S
        for notification in notifications:
            began = time.monotonic()
            left_s = until - began
            if len(failed) > 1 or (failed and failed[-1].after_s):
                outcomes.append(replace(failed[-1], attempted=False))
            elif left_s < needed_s:
                outcomes.append(Retry(reason="deadline exceeded", attempted=False))
            else:
                outcomes.append(self._outcome(notification, sent_at_ms, min(left_s, deadline_s / 2)))
                needed_s = max(_MIN_TIME_S, time.monotonic() - began)
                match outcomes[-1]:
                    case Retry() as failure:
                        failed.append(failure)
                    case Rejected(reason=reason):
                        failed.append(Retry(reason=reason))
                    case _:
                        failed = []
        return outcomes

    @abstractmethod
    def _document(self, notification: Notification, sent_at_ms: Millis) -> DocumentT:
        """Returns what is sent for a notification."""

    @abstractmethod
    def _send_one(self, notification: Notification, document: DocumentT, sent_at_ms: Millis, left_s: float) -> Outcome:
        """Sends a document within so many seconds. A KraftwatchError, such as for an unreadable secret, is a Retry."""

    def _outcome(self, notification: Notification, sent_at_ms: Millis, left_s: float) -> Outcome:
        try:
            try:
                document = self._document(notification, sent_at_ms)
            except Exception as error:  # noqa: BLE001 - whatever it contains, people must be notified
                root = notification.root
                why = redact(f"{type(error).__name__}: {error}")
                _LOG.warning(
                    "%s of %s cannot be formatted, a minimal document is sent: %s",
                    root.rule,
                    root.cluster,
                    why,
                    extra=alert_fields(root),
                )
                notification = minimal(notification)
                document = self._document(notification, sent_at_ms)
            return self._send_one(notification, document, sent_at_ms, left_s)
        except KraftwatchError as problem:
            return Retry(reason=str(problem))
        except Exception as error:  # noqa: BLE001 - one notification must not stop the others
            return Retry(reason=redact(f"{type(error).__name__}: {error}"))
