"""The steps that make a voter's recorded endpoint reach it again: its name, its port, its certificate."""

from rules.facts.endpoint import EndpointFault
from rules.facts.endpoint_text import certificate_text
from rules.facts.node import NodeFacts
from rules.facts.quorum import Facts
from rules.formatting import and_join
from rules.model.identifiers import NodeId
from rules.model.monitoring import CertificateFault, ProbeAnswer
from rules.remedies.step import may_restart


def endpoint_steps(facts: Facts, node: NodeId) -> tuple[str, ...]:
    """Returns the steps that make the voter's recorded endpoint reach it again once it runs; none without a fault."""
    endpoint = facts.quorum.recorded_endpoint(node)
    if endpoint is None:
        return ()
    voter = facts.nodes[node]
    if EndpointFault.NAME_NOT_FOUND in voter.faults:
        former = facts.quorum.addresses.get(endpoint.host)
        was = f" (it was {and_join(former)})" if former else ""
        return (
            f"# Make {endpoint.host}{was} resolve again on every controller and broker, unless it does so by itself "
            f"when controller {node} runs",
        )
    if EndpointFault.CERTIFICATE in voter.faults:
        return certificate_steps(voter)
    if EndpointFault.OTHER_RESPONDER in voter.faults:
        return (reach_step(facts, voter),)
    return ()


def reach_step(facts: Facts, voter: NodeFacts) -> str:
    """Returns the step that makes a voter's recorded endpoint reach it, where another process answers."""
    node, endpoint = voter.id, str(voter.endpoint)
    others = [other.id for other in facts.nodes.voters if other.id != node and str(other.endpoint) == endpoint]
    if others:
        return may_restart(
            f"# Correct advertised.listeners of controller {node}, and restart it: {endpoint} is the endpoint of "
            f"controller {others[0]}",
            node,
        )
    step = f"# Make {endpoint} reach controller {node} again (DNS or port mapping): another process answers"
    if voter.probe is None or voter.probe.answer is not ProbeAnswer.OTHER_CLUSTER:
        return step
    return f"{step}, or this controller with another cluster's log directory (cluster.id in meta.properties)"


def certificate_steps(voter: NodeFacts) -> tuple[str, ...]:
    """Returns the steps that replace the certificate that a voter presents at its recorded endpoint."""
    node, endpoint, probe = voter.id, voter.endpoint, voter.probe
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
        may_restart(
            f"# Install it in the keystore of controller {node} (ssl.keystore.location), and restart controller {node}",
            node,
        ),
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
