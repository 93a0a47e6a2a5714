"""What is said of the endpoint at which the others dial a voter: its faults, what is unknown, what a probe found."""

from rules.claims.claim import At
from rules.claims.statement import Statement, statement
from rules.claims.words import at, endpoint_faults
from rules.facts.endpoint import EndpointDoubt, EndpointFault
from rules.facts.node import NodeFacts, Nodes
from rules.facts.node_claims import fault_claims
from rules.finding import Plain
from rules.formatting import utc_text
from rules.model.identifiers import NodeId
from rules.model.monitoring import CertificateFault, ConnectionResult, Probe, ProbeAnswer, Resolution
from rules.model.quorum import Quorum


def endpoint_kind(quorum: Quorum) -> str:
    """Returns what the endpoints are that voters dial: recorded in the log, or configured."""
    return "configured" if quorum.is_static else "recorded"


def probe_outcome(node: NodeFacts) -> str:
    """Returns what the newest probe of a voter's endpoint found."""
    probe = node.probe
    if probe is None:
        return "not probed recently"
    if probe.resolution is Resolution.NAME_NOT_FOUND:
        return "the name does not resolve (NXDOMAIN)"
    if probe.resolution is Resolution.RESOLVER_FAILED:
        return "the resolver of the monitor's host failed"
    if probe.connection is ConnectionResult.ACCEPTED:
        if probe.certificate_fault is not None:
            return f"its certificate {certificate_text(probe)}"
        accepts = f"accepts connections{_UNANSWERED.get(probe.answer, '')}"
        return f"{_responder(probe)} answers" if probe.served_by_another else accepts
    return {
        ConnectionResult.REFUSED: at(At.REFUSES),
        ConnectionResult.TIMED_OUT: "the connection timed out",
        ConnectionResult.UNREACHABLE: "unreachable",
    }.get(probe.connection, "not tried")


_UNANSWERED = {ProbeAnswer.NO_ANSWER: " and does not answer", ProbeAnswer.LATE: " and answers late"}


def evidence_of(voter: NodeFacts) -> dict[str, Plain]:
    """Returns what is known of a voter, for people."""
    probe = voter.probe
    return {
        "voter": str(voter.key),
        "endpoint": None if voter.endpoint is None else str(voter.endpoint),
        "registered_endpoint": None if voter.registered is None else str(voter.registered),
        "process": voter.process.value,
        "probe_result": probe_outcome(voter),
        "probed_at_ms": None if probe is None else probe.observed_at_ms,
        "followed_at_the_last_poll": voter.followed.value,
    }


def faults_text(node: NodeFacts) -> Statement:
    """Returns all that is wrong with an endpoint, as the rest of a sentence about it, without a full stop."""
    return endpoint_faults((_fault_text(fault, node) for fault in node.faults), fault_claims(node))


def endpoint_sentence(nodes: Nodes, node: NodeId) -> Statement:
    """Returns what is wrong with a voter's recorded endpoint, after a space; empty if no fault is known."""
    voter = nodes.get(node) if nodes.quorum.voter(node) else None
    if voter is None or not voter.faults:
        return Statement("")
    return statement(f" Its recorded endpoint {voter.endpoint} ", faults_text(voter), ".")


def _fault_text(fault: EndpointFault, node: NodeFacts) -> str:
    match fault:
        case EndpointFault.NAME_NOT_FOUND:
            return at(At.UNRESOLVED)
        case EndpointFault.OTHER_RESPONDER:
            return f"{at(At.OTHER)}: {_responder(node.probe) if node.probe else 'another node'}"
        case EndpointFault.REGISTRATION_DIFFERS:
            return f"is outdated: the controller registered {node.registered}"
        case EndpointFault.REFUSED_WHILE_FETCHING:
            return f"{at(At.REFUSES)} although the voter fetches"
        case EndpointFault.NOT_SERVING:
            return f"{at(At.HANGS)} although the voter fetches"
        case EndpointFault.CERTIFICATE:
            assert node.probe is not None
            return f"presents a certificate that {certificate_text(node.probe)}"


def _responder(probe: Probe) -> str:
    """Returns what answers at an endpoint instead of its voter."""
    match probe.answer:
        case ProbeAnswer.OTHER_CLUSTER:
            return "a node of another cluster"
        case ProbeAnswer.NOT_KAFKA:
            return "something that does not speak Kafka"
        case _:
            return "another node" if probe.answered_by is None else f"node {probe.answered_by}"


def certificate_text(probe: Probe) -> str:
    """Returns what is wrong with the presented certificate, as the rest of a sentence about it."""
    certificate = probe.certificate
    begins = certificate.valid_from_ms if certificate else None
    ends = certificate.expires_at_ms if certificate else None
    match probe.certificate_fault:
        case CertificateFault.EXPIRED:
            # An expired certificate authority in its chain has the same verify code.
            own = ends is not None and ends <= probe.observed_at_ms
            return f"expired at {utc_text(ends)}" if own and ends is not None else "has expired, or its issuer's"
        case CertificateFault.NOT_YET_VALID:
            return "is not yet valid" if begins is None else f"is not valid before {utc_text(begins)}"
        case CertificateFault.WRONG_HOST:
            return f"is not for {probe.endpoint.host}"
        case CertificateFault.UNTRUSTED:
            return "is not trusted"
        case None:
            return "is accepted"


def doubt_text(node: NodeFacts) -> str | None:
    """Returns why it is unknown whether the endpoint reaches its voter; None if it is known."""
    endpoint, probe = node.endpoint, node.probe
    if endpoint is None:
        return "the VotersRecord names no endpoint for it"
    if probe is None:
        return "its endpoint was not probed recently"
    if node.doubt is None:
        return None
    certificate = f"the certificate at {endpoint} {certificate_text(probe)}"
    return _DOUBTS[node.doubt].format(at=endpoint, host=endpoint.host, certificate=certificate)


_DOUBTS = {
    EndpointDoubt.RESOLVER_FAILED: "the resolver of the monitor's host failed on {host}",
    EndpointDoubt.TIMED_OUT: "a connection from the monitor's host to {at} timed out",
    EndpointDoubt.UNREACHABLE: "{at} is unreachable from the monitor's host",
    EndpointDoubt.ISSUER: "the certificate at {at} is not of an authority in ssl_cafile, and the voter takes part in "
    "the quorum: compare the issuers",
    EndpointDoubt.MONITOR_CLOCK: "{certificate}, but not by the leader's clock: check the clock of the monitor's host",
    EndpointDoubt.NO_CERTIFICATE_ACCEPTED: "{certificate}, and the monitor accepts no other voter's certificate "
    "either: check ssl_cafile, and the clock of the monitor's host",
    EndpointDoubt.REFUSES: "{at} refuses connections, and it is not known yet whether the voter still fetches",
    EndpointDoubt.LATE: "{at} accepts connections and answers late: whether a vote would be in time is unknown",
    EndpointDoubt.UNANSWERED: "{at} accepts connections and does not answer, and it is not known yet whether the voter "
    "still fetches",
    EndpointDoubt.NONE_ANSWERS: "{at} accepts connections and does not answer, and no other voter answers either",
}
"""Why it is unknown whether an endpoint that was probed reaches its voter."""


def find_out_text(node: NodeFacts) -> str:
    """Returns what to do to find out whether the endpoint reaches its voter, as the end of a sentence."""
    endpoint = node.endpoint
    if endpoint is None:
        return f"record an endpoint of controller {node.id}"
    if node.probe is None:
        return f"check that kraftwatch probes {endpoint}: `kraftwatch doctor` says what fails there"
    return _FIND_OUT[node.doubt].format(at=endpoint, host=endpoint.host) if node.doubt is not None else _BY_CERTIFICATE


_BY_CERTIFICATE = "compare the certificate with the truststores of the controllers, and with ssl_cafile"
_PATH = "connect to {at} from another controller's host, and from the monitor's"
_FIND_OUT = {
    EndpointDoubt.RESOLVER_FAILED: "look up {host} on another controller's host, and fix the monitor's resolver",
    EndpointDoubt.TIMED_OUT: _PATH,
    EndpointDoubt.UNREACHABLE: _PATH,
    EndpointDoubt.ISSUER: _BY_CERTIFICATE,
    EndpointDoubt.MONITOR_CLOCK: "check the clock of the monitor's host (NTP)",
    EndpointDoubt.NO_CERTIFICATE_ACCEPTED: "check ssl_cafile, and the clock of the monitor's host",
    EndpointDoubt.REFUSES: "wait for the next poll, which shows whether it fetches",
    EndpointDoubt.LATE: "check the metadata disk and the CPU of its host",
    EndpointDoubt.UNANSWERED: "wait for the next poll, which shows whether it fetches",
    EndpointDoubt.NONE_ANSWERS: _PATH,
}
"""What to do to find that out."""
