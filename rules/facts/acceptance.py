"""Whether a controller accepts, where the others dial it, what they send: what it answers to the monitor shows it.

A candidate sends Vote to every voter, and a controller that knows no leader fetches from any of them. These requests
need CLUSTER_ACTION on CLUSTER, as the monitor's Fetch does (Kafka's ControllerApis). A controller that is denied ends:
"Received cluster authorization error" is fatal (KafkaRaftClient.handleTopLevelError). One whose login or TLS handshake
fails tries again for ever (KafkaNetworkChannel).
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from rules.facts.contact import Contact
from rules.model.monitoring import ConnectionResult, ObservationSource, ProbeAnswer, Reason, Vantage

_REJECTED = frozenset({Reason.NOT_AUTHENTICATED, Reason.TLS_FAILED, Reason.WRONG_PROTOCOL})
_NOT_REACHED = frozenset({ConnectionResult.TIMED_OUT, ConnectionResult.UNREACHABLE})
_SOURCES = {
    Reason.DENIED: frozenset({ObservationSource.LEADER_VIEW, ObservationSource.LOG}),
    **dict.fromkeys(_REJECTED, frozenset(ObservationSource) - {ObservationSource.PROBE}),
}
"""The requests that show it: DescribeQuorum needs another permission."""


class Acceptance(StrEnum):
    """What a controller answers there to what the other controllers send too."""

    ACCEPTED = "accepted"
    """It answered the monitor's Fetch; or it leads, and others fetch."""
    DENIED = "denied"
    """Its authorizer denies the Fetch: a controller that it denies ends."""
    REJECTED = "rejected"
    """It ends the TLS handshake or the login, or uses another protocol than the monitor."""
    UNKNOWN = "unknown"
    """Nothing current shows it."""


class Accepts(NamedTuple):
    """The fact, with its reason."""

    answer: Acceptance
    why: str
    """Why it is not known to accept, as the rest of a sentence about the controller; empty if it is, or unobserved."""


def accepts(node: Contact) -> Accepts:
    """Returns what a controller answers to the requests of the others, by the newest requests of the monitor."""
    reason = next(_rejections(node), None)
    if reason is Reason.DENIED:
        if node.peers.fetch_from_it:
            return Accepts(Acceptance.ACCEPTED, "")
        return Accepts(Acceptance.DENIED, _denied(node))
    if reason is not None:
        why = f"rejects the monitor, and maybe the other controllers ({reason} at {node.endpoint})"
        return Accepts(Acceptance.REJECTED, why)
    probe = node.probe
    if probe is not None and probe.reason is Reason.NOT_READY:
        why = "starts: its authorizer is not ready, and only users in super.users get an answer"
        return Accepts(Acceptance.UNKNOWN, why)
    if node.answers_monitor:
        return Accepts(Acceptance.ACCEPTED, "")
    if node.vantage is Vantage.OUTSIDE and probe is not None and probe.connection in _NOT_REACHED:
        return Accepts(Acceptance.UNKNOWN, "cannot be reached from the monitor's host")
    return Accepts(Acceptance.UNKNOWN, "")


def denied_last(node: Contact) -> str:
    """Returns what a controller that accepts no connections now denied when it last answered, as `Accepts.why`.

    Empty unless its authorizer denied the Fetch.
    """
    probe = node.probe
    if probe is None or probe.connection is ConnectionResult.ACCEPTED:
        return ""
    # What was refused later than the probe was made replaces its connection alone.
    return _denied(node, did=True) if Reason.DENIED in (probe.former_reason, probe.reason) else ""


def _rejections(node: Contact) -> Iterator[Reason | ProbeAnswer]:
    """Yields why its current answers reject the monitor: the attempts that no later answer has followed, the probe."""
    viewed_at_ms, is_rejected = (
        -1 if node.view is None else node.view.observed_at_ms,
        node.certificate_fault is not None,
    )
    for failure in node.failures:
        shows = failure.last_at_ms >= viewed_at_ms and failure.source in _SOURCES.get(failure.reason, ())
        # It is the monitor that ends the handshake if it does not accept the controller's certificate.
        if shows and not (failure.reason is Reason.TLS_FAILED and is_rejected):
            yield failure.reason
    probe = None if is_rejected else node.probe
    if probe is not None and probe.answer is ProbeAnswer.NOT_ALLOWED and probe.reason is not Reason.NOT_READY:
        yield probe.reason or probe.answer


def _denied(node: Contact, *, did: bool = False) -> str:
    denies = "denied" if did else "denies"
    where = f"its authorizer {denies} CLUSTER_ACTION at {node.endpoint}"
    if node.anonymous:
        also = f"the monitor what the other controllers send too ({where}, and without a login all are one user)"
        return f"{denies} {also}"
    return f"{denies} the monitor, and maybe the other controllers ({where})"
