"""What is wrong with the endpoint at which the others dial a voter, and why that may be unknown.

An endpoint is *stale* if one of these holds: its host name does not resolve (NXDOMAIN); another node, another cluster
or no Kafka answers there; the controller registered another endpoint; it presents a certificate that no other
controller accepts; or it refuses or does not serve new connections while the voter fetches, that is while the voter
runs. An endpoint that refuses while the voter does not fetch is *down*. A resolver failure, a time-out or a refused
login is no fault of the endpoint: the monitor cannot observe it then.

A voter does not serve new connections if one is accepted and not answered, or if it times out while an older one is
answered; and if another voter's endpoint answers, so that it is not the path from the monitor's host. It may have no
file descriptor left, or no thread. It fetches over its own connections, but gives no vote and cannot be followed.

A certificate that the monitor does not accept is the voter's fault if the monitor accepts another voter's: its own
truststore is right. An expired one, or one that is not yet valid, is the voter's fault also by the leader's clock. If
no certificate is accepted, the monitor's truststore or clock may be wrong, and the endpoint's state is unknown. So it
is if only the monitor is known not to trust the authority of a voter that fetches: authorities are replaced one
controller after the other, and the controllers may trust the new one already.
"""

from collections.abc import Iterator
from enum import StrEnum

from rules.facts.contact import Contact
from rules.facts.following import Following
from rules.model.ages import OVERLAP_MS, STARTED_LATELY_MS
from rules.model.monitoring import CertificateFault, ConnectionResult, Probe, ProbeAnswer, Resolution, Vantage

_SEVERAL = 2
"""How often the process of an endpoint that refuses connections has started lately: it is there."""


class EndpointVerdict(StrEnum):
    """Whether a voter's recorded endpoint reaches that voter."""

    OK = "ok"
    STALE = "stale"
    DOWN = "down"
    UNKNOWN = "unknown"


class EndpointFault(StrEnum):
    """Why an endpoint is stale."""

    NAME_NOT_FOUND = "name-gone"
    OTHER_RESPONDER = "leads-elsewhere"
    REGISTRATION_DIFFERS = "registration-differs"
    REFUSED_WHILE_FETCHING = "refused-while-fetching"
    CERTIFICATE = "certificate"
    NOT_SERVING = "not-serving"
    """It accepts new connections and does not answer them, or drops them."""

    @property
    def found_by_probe(self) -> bool:
        """Whether a probe from the monitor's vantage point found it, and not the log."""
        return self is not EndpointFault.REGISTRATION_DIFFERS


CURED_BY_RESTART = frozenset({EndpointFault.CERTIFICATE, EndpointFault.NOT_SERVING})
"""Faults of the process, wherever it listens: no replica can fetch from it, and its own restart ends them."""


class EndpointDoubt(StrEnum):
    """Why a probe does not show whether an endpoint reaches its voter."""

    RESOLVER_FAILED = "resolver-failed"
    TIMED_OUT = "timed-out"
    UNREACHABLE = "unreachable"
    ISSUER = "issuer"
    """Only the monitor is known not to trust the certificate's authority."""
    MONITOR_CLOCK = "monitor-clock"
    """The certificate is valid by the leader's clock."""
    NO_CERTIFICATE_ACCEPTED = "no-certificate-accepted"
    """The monitor accepts no voter's certificate."""
    REFUSES = "refuses"
    """It refuses connections, and whether the voter fetches is unknown."""
    LATE = "late"
    """The process answers, and what answers for the quorum does not in time."""
    UNANSWERED = "unanswered"
    """It does not answer a new connection, and whether the voter fetches is unknown."""
    NONE_ANSWERS = "none-answers"
    """No voter answers a new connection."""


def is_unanswered(probe: Probe) -> bool:
    """Returns whether a new connection got no answer: it was not accepted, or accepted and then closed or ignored."""
    if probe.connection is ConnectionResult.ACCEPTED:
        return probe.answer is ProbeAnswer.NO_ANSWER
    return probe.connection in (ConnectionResult.TIMED_OUT, ConnectionResult.UNREACHABLE)


def endpoint_faults(node: Contact) -> Iterator[EndpointFault]:
    """Yields what is known to be wrong with the endpoint of a voter."""
    if node.endpoint is None:
        return
    if node.registered is not None and not node.registered.same_address(node.endpoint):
        yield EndpointFault.REGISTRATION_DIFFERS
    probe = node.probe
    if probe is None:
        return
    if probe.resolution is Resolution.NAME_NOT_FOUND:
        yield EndpointFault.NAME_NOT_FOUND
    if node.refused and node.fetched_since_probe and not _restarts(probe):
        yield EndpointFault.REFUSED_WHILE_FETCHING
    if node.served_by_another:
        yield EndpointFault.OTHER_RESPONDER
    if probe.certificate_fault is not None and certificate_doubt(node) is None:
        yield EndpointFault.CERTIFICATE
    if is_unserved(node) and node.fetched_since_probe:
        yield EndpointFault.NOT_SERVING


def _restarts(probe: Probe) -> bool:
    """Returns whether the process at an endpoint started twice or more lately: it is there, and not elsewhere."""
    return sum(probe.observed_at_ms - at_ms <= STARTED_LATELY_MS for at_ms in probe.returned_at_ms) >= _SEVERAL


def is_unserved(node: Contact) -> bool:
    """Returns whether a new connection is not answered, and the path is not to blame: a fault once it has fetched."""
    return node.probe is not None and node.peers.answer and _process_is_silent(node, node.probe)


def _process_is_silent(node: Contact, probe: Probe) -> bool:
    """Returns whether the process at this endpoint leaves a new connection unanswered, unless the path does."""
    if probe.connection is ConnectionResult.ACCEPTED:
        return is_unanswered(probe)
    answered = node.answered_at_ms
    lately = answered is not None and probe.observed_at_ms - answered <= OVERLAP_MS
    return probe.connection is ConnectionResult.TIMED_OUT and lately


def endpoint_doubt(node: Contact) -> EndpointDoubt | None:
    """Returns why it is unknown whether the endpoint reaches its voter; None if that is known, or it is not probed."""
    probe = node.probe
    if probe is None:
        return None
    if unobserved := _unobserved(probe, node.vantage):
        return unobserved
    if (doubted := certificate_doubt(node)) is not None:
        return doubted
    if node.refused:
        decided = node.fetched_since_probe or node.following is Following.NOT_FETCHING
        return None if decided else EndpointDoubt.REFUSES
    if probe.connection is not ConnectionResult.ACCEPTED or not (
        is_unanswered(probe) or probe.answer is ProbeAnswer.LATE
    ):
        return None
    if node.following is Following.NOT_FETCHING or any(endpoint_faults(node)):
        return None
    if probe.answer is ProbeAnswer.LATE:
        return EndpointDoubt.LATE
    return EndpointDoubt.UNANSWERED if node.peers.answer else EndpointDoubt.NONE_ANSWERS


def _unobserved(probe: Probe, vantage: Vantage) -> EndpointDoubt | None:
    if probe.resolution is Resolution.RESOLVER_FAILED:
        return EndpointDoubt.RESOLVER_FAILED
    if vantage is not Vantage.INSIDE:
        # From outside the network a connection is not expected to succeed: only the name resolution counts.
        return None
    if probe.connection is ConnectionResult.TIMED_OUT:
        return EndpointDoubt.TIMED_OUT
    return EndpointDoubt.UNREACHABLE if probe.connection is ConnectionResult.UNREACHABLE else None


def certificate_doubt(node: Contact) -> EndpointDoubt | None:
    """Returns why it is unknown whether other controllers accept its certificate; None if it is known, or accepted."""
    fault = node.certificate_fault
    if fault is None:
        return None
    if fault is CertificateFault.UNTRUSTED and node.following.fetches:
        return EndpointDoubt.ISSUER
    by_leader = _lasts_by_leaders_clock(node)
    if by_leader is False:
        return EndpointDoubt.MONITOR_CLOCK
    return None if by_leader or node.peers.verified else EndpointDoubt.NO_CERTIFICATE_ACCEPTED


def _lasts_by_leaders_clock(node: Contact) -> bool | None:
    """Returns whether the dates of a certificate are wrong by the leader's clock too; None if they do not show it."""
    certificate, now, ahead = None if node.probe is None else node.probe.certificate, node.now_ms, node.leader_ahead_ms
    if certificate is None or ahead is None:
        return None
    begins, ends = certificate.valid_from_ms, certificate.expires_at_ms
    if certificate.fault is CertificateFault.EXPIRED and ends is not None and now >= ends:
        return now + ahead >= ends
    if certificate.fault is CertificateFault.NOT_YET_VALID and begins is not None and now < begins:
        return now + ahead < begins
    return None
