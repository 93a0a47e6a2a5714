"""The addresses that a remedy's commands are sent to: a controller or a broker that probably answers.

What all findings of one quorum share is computed once (`Quorum.derived`): a finding costs no pass over all nodes.
"""

import shlex
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TypeAlias

from rules.analysis.leadership import last_leader
from rules.model.identifiers import Endpoint, NodeId, host_and_port, host_of
from rules.model.monitoring import NO_LEADER_REASONS, Answer, Connection, ObservationSource, Reason, Resolution
from rules.model.quorum import Quorum

UNKNOWN_BOOTSTRAP = "$BOOTSTRAP"
_Address: TypeAlias = tuple[NodeId | None, str]
"""A controller's node id, if it is known, and HOST:PORT."""
_ANSWERING_REASONS = (*NO_LEADER_REASONS, Reason.DENIED, Reason.NOT_AUTHENTICATED)
"""Failures of a node that answers: an administrator, who has other permissions, may still use that node."""


def controller_bootstrap(quorum: Quorum, *, excluding: NodeId | None = None) -> str:
    """Returns HOST:PORT of a controller that probably answers; the leader's if it is one of them.

    If no name resolves, the address that a name last resolved to is used. If all endpoints refuse, a recorded endpoint
    is used, because a controller will answer there when it is back.
    """
    address = next(_without(chain(*quorum.derived(_addresses)), excluding), None)
    return UNKNOWN_BOOTSTRAP if address is None else shlex.quote(address)


def controller_is_usable(quorum: Quorum, excluding: NodeId | None) -> bool:
    """Returns whether another controller answers or may answer."""
    return next(_without(quorum.derived(_addresses)[0], excluding), None) is not None


def _without(addresses: Iterable[_Address], excluding: NodeId | None) -> Iterator[str]:
    return (address for node, address in addresses if node is None or node != excluding)


def answering_brokers(quorum: Quorum) -> list[str]:
    """Returns the configured addresses of brokers (they serve no log) that answer polls, even with a denial."""
    unanswered = {
        failure.endpoint
        for failure in quorum.failures
        if failure.source is ObservationSource.QUORUM and failure.reason not in _ANSWERING_REASONS
    }
    answering = _log_unsupported(quorum) - unanswered
    return [address for address in quorum.bootstrap if address in answering]


def _log_unsupported(quorum: Quorum) -> set[str]:
    return {
        failure.endpoint
        for failure in quorum.failures
        if (failure.source, failure.reason) == (ObservationSource.LOG, Reason.UNSUPPORTED)
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
    leader = last_leader(quorum)
    return sorted(known, key=lambda pair: (pair[0] != leader, pair[0]))


def _addresses(quorum: Quorum) -> tuple[list[_Address], list[_Address]]:
    """Returns where a controller answers or may answer, and where one may answer later, each the best first."""
    unresolved = {one.endpoint.host for one in quorum.probes.values() if one.resolution is Resolution.NAME_NOT_FOUND}
    # A node that reports no leader does answer.
    failing = {failure.endpoint for failure in quorum.failures if failure.reason not in _ANSWERING_REASONS}
    brokers = quorum.broker_addresses | _log_unsupported(quorum)
    known = [(node, endpoint, str(endpoint)) for node, endpoint in _controllers(quorum)]
    answering: list[_Address] = []
    untried: list[_Address] = []
    former: list[_Address] = []
    for node, endpoint, address in known:
        probe, resolved = quorum.probe(node, endpoint), quorum.addresses.get(endpoint.host)
        if probe is None:
            if endpoint.host not in unresolved and address not in failing:
                untried.append((node, address))
        elif (
            probe.connection is Connection.ACCEPTED
            and not probe.served_by_another
            and probe.answer is not Answer.NO_ANSWER
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


def _of_no_node(addresses: Iterable[str]) -> Iterator[_Address]:
    return ((None, address) for address in addresses)
