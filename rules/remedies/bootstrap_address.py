"""The addresses that a remedy's commands are sent to: a controller or a broker that probably answers.

What all findings of one quorum share is computed once (`Quorum.derived`): a finding costs no pass over all nodes.
"""

import shlex
from collections.abc import Iterable, Iterator
from itertools import chain

from rules.analysis.endpoint_status import other_responder
from rules.analysis.leadership import last_polled_leader
from rules.model.identifiers import Endpoint, NodeId, host_and_port, host_of
from rules.model.monitoring import NO_LEADER_REASONS, Answer, Connection, ObservationSource, Reason, Resolution
from rules.model.quorum import Quorum

UNKNOWN_BOOTSTRAP = "$BOOTSTRAP"
_ANSWERING_REASONS = (*NO_LEADER_REASONS, Reason.DENIED, Reason.NOT_AUTHENTICATED)
"""Failures of a node that answers: an administrator, who has other permissions, may still use that node."""


def controller_bootstrap(quorum: Quorum, *, excluding: NodeId | None = None) -> str:
    """Returns HOST:PORT of a controller that probably answers; the leader's if it is one of them.

    If no name resolves, the address that a name last resolved to is used. If all endpoints refuse, a recorded endpoint
    is used, because a controller will answer there when it is back.
    """
    last = (address for node, address in quorum.derived(_last_addresses) if node != excluding)
    usable = _first(usable_controllers(quorum, excluding)) or _first(last)
    if usable is not None:
        return shlex.quote(usable)
    recorded = _first(str(endpoint) for node, endpoint in quorum.derived(_controllers) if node != excluding)
    configured = _first(address for address in quorum.bootstrap if address not in quorum.derived(_brokers))
    address = recorded or configured
    return UNKNOWN_BOOTSTRAP if address is None else shlex.quote(address)


def _first(addresses: Iterable[str]) -> str | None:
    return next(iter(addresses), None)


def usable_controllers(quorum: Quorum, excluding: NodeId | None) -> Iterator[str]:
    """Yields where a controller answers or may answer, the best first. What it yields first is found without a pass."""
    answering, untried = quorum.derived(_by_reachability)
    yield from (address for node, address in answering if node != excluding)
    yield from quorum.derived(_reporting_no_leader)
    yield from (address for node, address in untried if node != excluding)
    yield from quorum.derived(_configured)


def answering_brokers(quorum: Quorum) -> list[str]:
    """Returns the configured addresses of brokers (they serve no log) that answer polls, even with a denial."""
    unanswered = {
        each.endpoint
        for each in quorum.failures
        if each.source is ObservationSource.QUORUM and each.reason not in _ANSWERING_REASONS
    }
    answering = _log_unsupported(quorum) - unanswered
    return [address for address in quorum.bootstrap if address in answering]


def _log_unsupported(quorum: Quorum) -> set[str]:
    """Returns where the metadata log is not served: these nodes are brokers."""
    return {
        each.endpoint
        for each in quorum.failures
        if (each.source, each.reason) == (ObservationSource.LOG, Reason.UNSUPPORTED)
    }


def broker_bootstrap(quorum: Quorum, preferred: Iterable[NodeId] = ()) -> str:
    """Returns HOST:PORT of a broker that is alive by the log: one of `preferred` if any of them is."""
    for node in chain(preferred, quorum.derived(broker_ids)):
        broker = quorum.brokers.get(node)
        if broker and broker.alive and broker.endpoints:
            return shlex.quote(str(broker.endpoints[0]))
    return UNKNOWN_BOOTSTRAP


def broker_ids(quorum: Quorum) -> list[NodeId]:
    """Returns the registered brokers, sorted."""
    return sorted(quorum.brokers)


def _controllers(quorum: Quorum) -> list[tuple[NodeId, Endpoint]]:
    """Returns every known controller endpoint: the leader's first, then by node id; recorded, polled, registered."""
    known: dict[tuple[NodeId, Endpoint], None] = {}
    for voter in quorum.voters:
        known.update({(voter.key.id, endpoint): None for endpoint in voter.endpoints[:1]})
    for node, endpoints in quorum.poll.nodes.items() if quorum.poll else ():
        known.update({(node, endpoint): None for endpoint in endpoints[:1]})
    dialled = {voter.endpoint.listener for voter in quorum.voters if voter.endpoint}
    for node, registration in quorum.controllers.items():
        known.update({(node, endpoint): None for endpoint in registration.endpoints if endpoint.listener in dialled})
    leader = last_polled_leader(quorum)
    return sorted(known, key=lambda pair: (pair[0] != leader, pair[0]))


def _by_reachability(quorum: Quorum) -> tuple[list[tuple[NodeId, str]], list[tuple[NodeId, str]]]:
    """Returns the node and the address of each known controller endpoint that answers, and of each that was not tried.

    In order. The others would not answer.
    """
    unresolved, failing = quorum.derived(_unresolved_hosts), quorum.derived(_failing)
    answering: list[tuple[NodeId, str]] = []
    untried: list[tuple[NodeId, str]] = []
    for node, endpoint in quorum.derived(_controllers):
        probe, address = quorum.probe(node, endpoint), str(endpoint)
        if probe is None:
            if endpoint.host not in unresolved and address not in failing:
                untried.append((node, address))
        elif (
            probe.connection is Connection.ACCEPTED
            and other_responder(probe) is None
            and probe.answer is not Answer.NO_ANSWER
        ):
            answering.append((node, address))
    return answering, untried


def _failing(quorum: Quorum) -> set[str]:
    """Returns where attempts fail now. A node that reports no leader does answer."""
    return {failure.endpoint for failure in quorum.failures if failure.reason not in _ANSWERING_REASONS}


def _reporting_no_leader(quorum: Quorum) -> list[str]:
    """Returns the controllers that report no leader, unless their name no longer resolves. Brokers never report it."""
    unresolved = quorum.derived(_unresolved_hosts)
    answers = {each.endpoint for each in quorum.failures if each.reason in NO_LEADER_REASONS and each.endpoint}
    return sorted(address for address in answers if host_of(address) not in unresolved)


def _unresolved_hosts(quorum: Quorum) -> set[str]:
    """Returns the hosts whose names do not resolve (NXDOMAIN)."""
    return {probe.endpoint.host for probe in quorum.probes.values() if probe.resolution is Resolution.NAME_NOT_FOUND}


def _configured(quorum: Quorum) -> list[str]:
    """Returns the configured addresses that do not fail, are no broker's, and are not among the known ones."""
    unresolved = quorum.derived(_unresolved_hosts)
    known = {str(endpoint) for _, endpoint in quorum.derived(_controllers)}
    excluded = known | quorum.derived(_brokers) | quorum.derived(_failing)
    return [address for address in quorum.bootstrap if address not in excluded and host_of(address) not in unresolved]


def _brokers(quorum: Quorum) -> set[str]:
    return {str(endpoint) for broker in quorum.brokers.values() for endpoint in broker.endpoints} | _log_unsupported(
        quorum
    )


def _last_addresses(quorum: Quorum) -> list[tuple[NodeId, str]]:
    """Returns the addresses that names resolved to before they stopped to resolve."""
    unresolved = quorum.derived(_unresolved_hosts)
    return [
        (node, host_and_port(quorum.addresses[endpoint.host][0], endpoint.port))
        for node, endpoint in quorum.derived(_controllers)
        if quorum.addresses.get(endpoint.host) and endpoint.host in unresolved
    ]
