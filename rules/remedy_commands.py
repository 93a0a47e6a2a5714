"""Kafka's own commands for the lines of a remedy, filled in for this cluster.

Each line is one shell command, or one sentence that begins with `#`. `$BOOTSTRAP` appears only if no endpoint is known
that could answer. `$NODE_PROPERTIES` is the configuration file of the named node, or of any node if none is named: at a
secured listener every command takes its login from there. Values that come from the cluster are quoted for the shell,
because operators paste these lines.
"""

import shlex
from collections.abc import Iterable, Iterator
from enum import Enum

from rules.analysis.endpoint_status import other_responder
from rules.analysis.leadership import last_polled_leader
from rules.model.identifiers import Endpoint, NodeId, ReplicaKey, host_and_port, host_of
from rules.model.monitoring import (
    NO_LEADER_REASONS,
    Answer,
    Connection,
    ObservationSource,
    Probe,
    Reason,
    Resolution,
    probe_key,
)
from rules.model.quorum import Quorum

UNKNOWN_BOOTSTRAP = "$BOOTSTRAP"
QUORUM_TOOL = "kafka-metadata-quorum.sh"
FEATURES_TOOL = "kafka-features.sh"
LEGEND = (
    "# $NODE_PROPERTIES: a node's own configuration file, with an administrator's security.protocol, sasl.* and ssl.* "
    "in it"
)
"""The last line of a remedy for a secured cluster: the tools do not read the listener.name.* keys of a node."""
_LOGIN_OPTION = "--command-config $NODE_PROPERTIES"
_TOOLS_REACH_CONTROLLERS = 15
"""The first metadata.version of Kafka 3.7, whose tools were the first with --bootstrap-controller (KIP-919)."""
_ACLS_REACH_CONTROLLERS = 22
"""The first metadata.version of Kafka 4.0, whose kafka-acls was the first with --bootstrap-controller."""
_ANSWERING_REASONS = (*NO_LEADER_REASONS, Reason.DENIED, Reason.NOT_AUTHENTICATED)
"""Failures of a node that answers: an administrator, who has other permissions, may still use that node."""


def remove_controller(quorum: Quorum, key: ReplicaKey) -> str:
    """Returns the command that removes one (id, directory id) from the voter set (KIP-853)."""
    return (
        f"{QUORUM_TOOL} {_connection(quorum, excluding=key.id)} remove-controller "
        f"--controller-id {key.id} --controller-directory-id {shlex.quote(str(key.directory_id))}"
    )


def add_controller(quorum: Quorum, node: NodeId) -> tuple[str, str]:
    """Returns where to run the command, and the command that makes a running controller a voter (KIP-853)."""
    return (
        f"# On controller {node}'s host, with its own configuration file as $NODE_PROPERTIES",
        f"{QUORUM_TOOL} {' '.join(_bootstrap(quorum, excluding=node))} {_LOGIN_OPTION} add-controller",
    )


def describe_status(quorum: Quorum, excluding: NodeId | None = None) -> str:
    """Returns the command that shows the leader, the voters and their endpoints."""
    return f"{QUORUM_TOOL} {_connection(quorum, excluding=excluding)} describe --status"


def contradiction_steps(quorum: Quorum) -> tuple[str, ...]:
    """Returns the steps for controllers that contradict each other in a way that Raft excludes."""
    return (
        "# Copy the metadata directory of every controller before anything is restarted",
        "# Find out whether a controller's disk was restored or copied, or a second quorum answers at these addresses",
        describe_status(quorum),
    )


def describe_topic(quorum: Quorum, topic: str, leaders: Iterable[NodeId]) -> str:
    """Returns the command that shows a topic's partitions, sent to one of its leaders if one is alive."""
    where = _with_login(quorum, "--bootstrap-server", broker_bootstrap(quorum, leaders))
    return f"kafka-topics.sh {where} --describe --topic {shlex.quote(topic)}"


def allow(quorum: Quorum, operations: Iterable[str]) -> tuple[str, ...]:
    """Returns the command that allows the monitor's principal these operations on CLUSTER; none if it is unknown."""
    principal = quorum.access.principal
    if principal is None:
        return ()
    allowed = " ".join(f"--operation {operation}" for operation in operations)
    grantee = f"--add --allow-principal {shlex.quote(principal)}"
    return (f"kafka-acls.sh {_connection(quorum, since=_ACLS_REACH_CONTROLLERS)} {grantee} {allowed} --cluster",)


def with_legend(quorum: Quorum, remedy: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the remedy, with the line that explains `$NODE_PROPERTIES` if a listener is secured."""
    logins = [line for line in remedy if _LOGIN_OPTION in line]
    # Without security add-controller needs the file only for the node's own id, directory and listeners.
    needed = any(quorum.access.secured or not line.endswith("add-controller") for line in logins)
    return (*remedy, LEGEND) if needed else remedy


def _connection(quorum: Quorum, excluding: NodeId | None = None, since: int = _TOOLS_REACH_CONTROLLERS) -> str:
    return _with_login(quorum, *_bootstrap(quorum, excluding=excluding, since=since))


def _with_login(quorum: Quorum, option: str, address: str) -> str:
    return f"{option} {address} {_LOGIN_OPTION}" if _secured(quorum, address) else f"{option} {address}"


def _secured(quorum: Quorum, address: str) -> bool:
    """Returns whether a listener requires TLS or a login: by its registration, else like the monitor's own listener."""
    registered = [each for one in quorum.controllers.values() for each in one.endpoints]
    registered += [each for one in quorum.brokers.values() for each in one.endpoints]
    protocols = {_quoted(str(each)): each.protocol for each in registered if each.protocol}
    return protocols.get(address, "SSL" if quorum.access.secured else "PLAINTEXT") != "PLAINTEXT"


def _bootstrap(quorum: Quorum, *, excluding: NodeId | None, since: int = _TOOLS_REACH_CONTROLLERS) -> tuple[str, str]:
    """Returns the tool's bootstrap option: a controller, or a broker if only brokers can be reached.

    Args:
        quorum: what is known.
        excluding: the controller that the remedy is about; its endpoint is not used.
        since: the metadata.version of the first Kafka whose tool reaches controllers.
    """
    brokers = _answering_brokers(quorum)
    if brokers and next(_usable_controllers(quorum, excluding), None) is None:
        return "--bootstrap-server", _quoted(brokers[0])
    broker = broker_bootstrap(quorum, sorted(quorum.brokers.keys() - {excluding}))
    if quorum.metadata_version is not None and quorum.metadata_version < since and broker != UNKNOWN_BOOTSTRAP:
        return "--bootstrap-server", broker
    return "--bootstrap-controller", controller_bootstrap(quorum, excluding=excluding)


def describe_features(quorum: Quorum) -> str:
    """Returns the command that shows each feature's finalized level and the levels the active controller supports."""
    return f"{FEATURES_TOOL} {_connection(quorum)} describe"


def upgrade_feature(quorum: Quorum, name: str, level: int) -> str:
    """Returns the command that finalizes a feature at a higher level (KIP-584)."""
    return f"{FEATURES_TOOL} {_connection(quorum)} upgrade --feature {shlex.quote(name)}={level}"


def controller_bootstrap(quorum: Quorum, *, excluding: NodeId | None = None) -> str:
    """Returns HOST:PORT of a controller that probably answers; the leader's if it is one of them.

    If no name resolves, the address that a name last resolved to is used. If all endpoints refuse, a recorded endpoint
    is used, because a controller will answer there when it is back.
    """
    named = [(node, endpoint) for node, endpoint in _controllers(quorum) if node != excluding]
    for address in (*_usable_controllers(quorum, excluding), *_last_addresses(quorum, named)):
        return _quoted(address)
    configured = [address for address in quorum.bootstrap if address not in _brokers(quorum)]
    return _quoted(str(named[0][1]) if named else configured[0]) if named or configured else UNKNOWN_BOOTSTRAP


def _usable_controllers(quorum: Quorum, excluding: NodeId | None) -> Iterator[str]:
    """Yields where a controller answers or may answer, the best first."""
    known = _controllers(quorum)
    named = [(node, endpoint) for node, endpoint in known if node != excluding]
    answering = [
        str(endpoint) for node, endpoint in named if _reachability(quorum, node, endpoint) is _Reachability.ANSWERS
    ]
    untried = [
        str(endpoint) for node, endpoint in named if _reachability(quorum, node, endpoint) is _Reachability.UNTRIED
    ]
    yield from (*answering, *_reporting_no_leader(quorum), *untried)
    yield from _configured(quorum, {str(endpoint) for _, endpoint in known})


def _answering_brokers(quorum: Quorum) -> list[str]:
    """Returns the configured addresses of brokers (they serve no log) that answer polls, even with a denial."""
    unanswered = {
        each.endpoint
        for each in quorum.failures
        if each.source is ObservationSource.QUORUM and each.reason not in _ANSWERING_REASONS
    }
    return [address for address in quorum.bootstrap if address in _log_unsupported(quorum) - unanswered]


def _log_unsupported(quorum: Quorum) -> set[str]:
    """Returns where the metadata log is not served: these nodes are brokers."""
    return {
        each.endpoint
        for each in quorum.failures
        if (each.source, each.reason) == (ObservationSource.LOG, Reason.UNSUPPORTED)
    }


def broker_bootstrap(quorum: Quorum, preferred: Iterable[NodeId] = ()) -> str:
    """Returns HOST:PORT of a broker that is alive by the log: one of `preferred` if any of them is."""
    order = [*preferred, *sorted(quorum.brokers)]
    for node in order:
        broker = quorum.brokers.get(node)
        if broker and broker.alive and broker.endpoints:
            return _quoted(str(broker.endpoints[0]))
    return UNKNOWN_BOOTSTRAP


class _Reachability(Enum):
    """Whether a command sent to an endpoint would probably be answered."""

    ANSWERS = "answers"
    UNTRIED = "untried"
    BAD = "bad"


def _controllers(quorum: Quorum) -> list[tuple[NodeId, Endpoint]]:
    """Returns every known controller endpoint: the leader's first, then by node id; recorded, polled, registered."""
    known: dict[tuple[NodeId, Endpoint], None] = {}
    for voter in quorum.committed.voters if quorum.committed else ():
        known.update({(voter.key.id, endpoint): None for endpoint in voter.endpoints[:1]})
    for node, endpoints in quorum.poll.nodes.items() if quorum.poll else ():
        known.update({(node, endpoint): None for endpoint in endpoints[:1]})
    for node, registration in quorum.controllers.items():
        known.update({(node, endpoint): None for endpoint in _controller_listener(quorum, registration.endpoints)})
    leader = last_polled_leader(quorum)
    return sorted(known, key=lambda pair: (pair[0] != leader, pair[0]))


def _controller_listener(quorum: Quorum, endpoints: Iterable[Endpoint]) -> list[Endpoint]:
    """Returns those endpoints of a registration whose listener is the one that voters dial."""
    voters = quorum.committed.voters if quorum.committed else ()
    names = {endpoint.listener for voter in voters for endpoint in voter.endpoints[:1]}
    return [endpoint for endpoint in endpoints if endpoint.listener in names]


def _reachability(quorum: Quorum, node: NodeId, endpoint: Endpoint) -> _Reachability:
    probe = quorum.probes.get(probe_key(node, endpoint))
    if probe is not None:
        return _by_probe(probe)
    unresolved = any(each.resolution is Resolution.NAME_NOT_FOUND for each in _probes_of(quorum, endpoint.host))
    return _Reachability.BAD if unresolved or str(endpoint) in _failing(quorum) else _Reachability.UNTRIED


def _failing(quorum: Quorum) -> set[str]:
    """Returns where attempts fail now. A node that reports no leader does answer."""
    return {failure.endpoint for failure in quorum.failures if failure.reason not in _ANSWERING_REASONS}


def _by_probe(probe: Probe) -> _Reachability:
    if (
        probe.connection is Connection.ACCEPTED
        and other_responder(probe) is None
        and probe.answer is not Answer.NO_ANSWER
    ):
        return _Reachability.ANSWERS
    return _Reachability.BAD


def _probes_of(quorum: Quorum, host: str) -> list[Probe]:
    return [probe for probe in quorum.probes.values() if probe.endpoint.host == host]


def _reporting_no_leader(quorum: Quorum) -> list[str]:
    """Returns the controllers that report no leader, unless their name no longer resolves. Brokers never report it."""
    unresolved = _unresolved_hosts(quorum)
    answers = {each.endpoint for each in quorum.failures if each.reason in NO_LEADER_REASONS and each.endpoint}
    return sorted(address for address in answers if host_of(address) not in unresolved)


def _unresolved_hosts(quorum: Quorum) -> set[str]:
    """Returns the hosts whose names do not resolve (NXDOMAIN)."""
    return {probe.endpoint.host for probe in quorum.probes.values() if probe.resolution is Resolution.NAME_NOT_FOUND}


def _configured(quorum: Quorum, known: set[str]) -> list[str]:
    """Returns the configured addresses that do not fail, are no broker's, and are not among the known ones."""
    unresolved = _unresolved_hosts(quorum)
    return [
        address
        for address in quorum.bootstrap
        if address not in known | _brokers(quorum) | _failing(quorum) and host_of(address) not in unresolved
    ]


def _brokers(quorum: Quorum) -> set[str]:
    return {str(endpoint) for broker in quorum.brokers.values() for endpoint in broker.endpoints} | _log_unsupported(
        quorum
    )


def _last_addresses(quorum: Quorum, named: Iterable[tuple[NodeId, Endpoint]]) -> list[str]:
    """Returns the addresses that names resolved to before they stopped to resolve."""
    return [
        host_and_port(quorum.addresses[endpoint.host][0], endpoint.port)
        for _, endpoint in named
        if quorum.addresses.get(endpoint.host)
        and any(probe.resolution is Resolution.NAME_NOT_FOUND for probe in _probes_of(quorum, endpoint.host))
    ]


def _quoted(address: str) -> str:
    """Returns the address quoted for the shell, which would take the brackets of an IPv6 address for a pattern."""
    return shlex.quote(address)
