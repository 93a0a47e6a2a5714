"""The addresses at which Kafka's tools find a node that answers: of controllers, or only of brokers."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from rules.facts.reported_leaders import last_leader
from rules.model.identifiers import Endpoint, NodeId, host_and_port, host_of
from rules.model.monitoring import (
    NO_LEADER_REASONS,
    ConnectionResult,
    ObservationSource,
    ProbeAnswer,
    Reason,
    Resolution,
)
from rules.model.quorum import Quorum

Address: TypeAlias = tuple[NodeId | None, str]
"""A controller's node id, if it is known, and HOST:PORT."""
_ANSWERING_REASONS = (*NO_LEADER_REASONS, Reason.DENIED, Reason.NOT_AUTHENTICATED)
"""Failures of a node that answers: an administrator, who has other permissions, may still use that node."""


def tool_addresses(quorum: Quorum) -> tuple[list[Address], list[Address]]:
    """Returns where a controller answers or may answer, and where one may answer later, each the best first."""
    unresolved = {one.endpoint.host for one in quorum.probes.values() if one.resolution is Resolution.NAME_NOT_FOUND}
    # A node that reports no leader does answer.
    failing = {failure.endpoint for failure in quorum.failures if failure.reason not in _ANSWERING_REASONS}
    brokers = quorum.broker_addresses | _log_unsupported(quorum)
    known = [(node, endpoint, str(endpoint)) for node, endpoint in _controllers(quorum)]
    answering: list[Address] = []
    untried: list[Address] = []
    former: list[Address] = []
    for node, endpoint, address in known:
        probe, resolved = quorum.probe(node, endpoint), quorum.addresses.get(endpoint.host)
        if probe is None:
            if endpoint.host not in unresolved and address not in failing:
                untried.append((node, address))
        elif (
            probe.connection is ConnectionResult.ACCEPTED
            and not probe.served_by_another
            and probe.answer is not ProbeAnswer.NO_ANSWER
        ):
            answering.append((node, address))
        if resolved and endpoint.host in unresolved:
            former.append((node, host_and_port(resolved[0], endpoint.port)))
    # Brokers never report that they know no leader.
    leaderless = {
        failure.endpoint for failure in quorum.failures if failure.reason in NO_LEADER_REASONS and failure.endpoint
    }
    reporting = sorted(address for address in leaderless if host_of(address) not in unresolved)
    configured = [address for address in quorum.bootstrap if address not in brokers]
    unused = failing | {address for _, _, address in known}
    unknown = (each for each in configured if each not in unused and host_of(each) not in unresolved)
    usable = [*answering, *_of_no_node(reporting), *untried, *_of_no_node(unknown)]
    recorded = ((node, address) for node, _, address in known)
    return usable, [*former, *recorded, *_of_no_node(configured)]


def answering_brokers(quorum: Quorum) -> list[str]:
    """Returns the configured addresses of brokers (they serve no log) that answer polls, even with a denial."""
    unanswered = {
        failure.endpoint
        for failure in quorum.failures
        if failure.source is ObservationSource.QUORUM and failure.reason not in _ANSWERING_REASONS
    }
    answering = _log_unsupported(quorum) - unanswered
    return [address for address in quorum.bootstrap if address in answering]


def protocols(quorum: Quorum) -> Mapping[str, str]:
    """Returns the security protocol of each registered listener that has one, by HOST:PORT."""
    registered = [endpoint for controller in quorum.controllers.values() for endpoint in controller.endpoints]
    registered += [endpoint for broker in quorum.brokers.values() for endpoint in broker.endpoints]
    return {str(endpoint): endpoint.protocol for endpoint in registered if endpoint.protocol}


def _log_unsupported(quorum: Quorum) -> set[str]:
    return {
        failure.endpoint
        for failure in quorum.failures
        if (failure.source, failure.reason) == (ObservationSource.LOG, Reason.UNSUPPORTED)
    }


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
    leader = last_leader(quorum)
    return sorted(known, key=lambda pair: (pair[0] != leader, pair[0]))


def _of_no_node(addresses: Iterable[str]) -> Iterator[Address]:
    return ((None, address) for address in addresses)
