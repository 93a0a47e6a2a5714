"""The steps after which a node reaches a controller, by the step of the dial that fails."""

from collections.abc import Callable, Iterable, Mapping

from rules.model.identifiers import NodeId
from rules.model.witness import DialStep, PeerDial

_STEPS: Mapping[DialStep, str] = {
    DialStep.NAME: "On {hosts}, make the name in {endpoint} resolve to controller {of}: compare /etc/hosts and "
    "/etc/resolv.conf with those of the other hosts",
    DialStep.CONNECTION: "Let connections from {hosts} to {endpoint} pass: compare firewalls and routes with those of "
    "the other hosts",
    DialStep.TLS: "Compare ssl.keystore.* (with its intermediate certificates), ssl.truststore.*, "
    "ssl.enabled.protocols and ssl.cipher.suites of controller {of} with those of {by}, and correct what differs",
    DialStep.LOGIN: "Let controller {of} accept the login of {by}: compare the sasl.jaas.config of its controller "
    "listener with theirs",
    DialStep.PERMISSION: "Add the principal of {by} to super.users of controller {of}",
    DialStep.NODE: "Find out on {hosts} where {endpoint} leads: another node answers there",
    DialStep.ANSWER: "Read the log of controller {of}: it accepts connections from {hosts} and does not answer them",
}
"""What is to be corrected."""


def reach_steps(of: NodeId, dials: Mapping[NodeId, PeerDial], named: Callable[..., str]) -> Iterable[str]:
    """Yields what is to be corrected so that these nodes reach a controller.

    Args:
        of: the controller.
        dials: those that failed, by the node whose host dialled.
        named: `Witnesses.named`.
    """
    for step in DialStep:
        by = {node: dial for node, dial in dials.items() if dial.step is step}
        if by:
            endpoint = next(iter(by.values())).endpoint
            text = _STEPS[step].format(of=of, by=named(*by), hosts=hosts_of(by, named), endpoint=endpoint)
            yield f"# {text}"


def hosts_of(nodes: Iterable[NodeId], named: Callable[..., str]) -> str:
    """Returns `the hosts of controllers 1 and 2`; `named`: `Witnesses.named`."""
    ids = list(nodes)
    return f"the host{'' if len(ids) == 1 else 's'} of {named(*ids)}"
