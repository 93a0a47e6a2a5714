"""The steps that make a voter's recorded endpoint reach it again: its name, its port, its certificate."""

from rules.analysis.endpoint_text import certificate_text
from rules.analysis.missing_voter import recorded_endpoint
from rules.formatting import and_join
from rules.model.endpoint_faults import EndpointFault
from rules.model.identifiers import NodeId
from rules.model.monitoring import Answer, CertificateFault
from rules.model.node_facts import NodeFacts
from rules.model.quorum import Quorum


def endpoint_steps(quorum: Quorum, node: NodeId) -> tuple[str, ...]:
    """Returns the steps that make the voter's recorded endpoint reach it again once it runs; none without a fault."""
    endpoint = recorded_endpoint(quorum, node)
    if endpoint is None:
        return ()
    facts = quorum.nodes[node]
    if EndpointFault.NAME_NOT_FOUND in facts.faults:
        former = quorum.addresses.get(endpoint.host)
        was = f" (it was {and_join(former)})" if former else ""
        return (
            f"# Make {endpoint.host}{was} resolve again on every controller and broker, unless it does so by itself "
            f"when controller {node} runs",
        )
    if EndpointFault.CERTIFICATE in facts.faults:
        return certificate_steps(facts)
    if EndpointFault.OTHER_RESPONDER in facts.faults:
        return (reach_step(quorum, facts),)
    return ()


def reach_step(quorum: Quorum, facts: NodeFacts) -> str:
    """Returns the step that makes a voter's recorded endpoint reach it, where another process answers."""
    node, endpoint = facts.id, str(facts.endpoint)
    others = [voter.id for voter in quorum.dialled_nodes if voter.id != node and str(voter.endpoint) == endpoint]
    if others:
        return (
            f"# Correct advertised.listeners of controller {node}, and restart it: {endpoint} is the endpoint of "
            f"controller {others[0]}"
        )
    step = f"# Make {endpoint} reach controller {node} again (DNS or port mapping): another process answers"
    if facts.probe is None or facts.probe.answer is not Answer.OTHER_CLUSTER:
        return step
    return f"{step}, or this controller with another cluster's log directory (cluster.id in meta.properties)"


def certificate_steps(facts: NodeFacts) -> tuple[str, ...]:
    """Returns the steps that replace the certificate that a voter presents at its recorded endpoint."""
    node, endpoint, probe = facts.id, facts.endpoint, facts.probe
    if probe is None or endpoint is None:
        return ()
    found = f"the one at {endpoint} {certificate_text(probe)}"
    match probe.certificate_fault:
        case CertificateFault.WRONG_HOST:
            replace = f"Issue a certificate for controller {node} that names {endpoint.host} (subjectAltName): {found}"
        case CertificateFault.UNTRUSTED:
            replace = (
                f"If they do not trust it, issue a certificate for controller {node} by the authority of the others: "
                f"{found}"
            )
        case _:
            replace = f"Renew the certificate of controller {node}: {found}"
    untrusted = probe.certificate_fault is CertificateFault.UNTRUSTED
    steps = [*(trust_steps(str(endpoint)) if untrusted else ()), f"# {replace}"]
    steps += [
        f"# Install it in the keystore of controller {node} (ssl.keystore.location), and restart controller {node}",
        f"# Check what it presents then: openssl s_client -connect {endpoint} </dev/null | openssl x509 -noout -dates "
        "-issuer -ext subjectAltName",
    ]
    return tuple(steps)


def trust_steps(where: str) -> tuple[str, ...]:
    """Returns the steps for a certificate that the monitor does not trust, which the controllers may trust."""
    at = where.partition(",")[0].partition(" ")[0]
    return (
        f"# Compare the issuer of the certificate at {where} with the authorities in kraftwatch's ssl_cafile: openssl "
        f"s_client -connect {at} </dev/null | openssl x509 -noout -issuer",
        "# If the controllers and brokers trust this authority, add it to ssl_cafile",
    )
