"""The lines of a remedy: Kafka's own commands, filled in for this cluster.

Each line is one shell command, or one sentence that begins with `#`. `$BOOTSTRAP` appears only where no
endpoint is known that could answer; `$NODE_PROPERTIES` is the configuration file of the node named, or of any node
where none is: at a secured listener every command takes its login from there. Whatever comes from the cluster is
quoted for the shell: people will paste these lines.
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
"""Goes with the commands for a secured cluster: what nodes read as listener.name.*, the tools do not."""
_LOGIN = "--command-config $NODE_PROPERTIES"
_REACH_CONTROLLERS = 15
"""The first metadata.version of Kafka 3.7, since which the tools know --bootstrap-controller (KIP-919)."""
_ACLS_REACH_CONTROLLERS = 22
"""The first one of Kafka 4.0: only there does kafka-acls know it."""
_WITHOUT_US = (*NO_LEADER_REASONS, Reason.DENIED, Reason.NOT_AUTHENTICATED)
"""A node that says this does answer; that it has nothing for us says nothing of an administrator."""


def remove_controller(quorum: Quorum, key: ReplicaKey) -> str:
    """The command that takes one (id, directory id) out of the voter set (KIP-853)."""
    return (
        f"{QUORUM_TOOL} {_reached(quorum, besides=key.id)} remove-controller "
        f"--controller-id {key.id} --controller-directory-id {shlex.quote(str(key.directory_id))}"
    )


def add_controller(quorum: Quorum, node: NodeId) -> tuple[str, str]:
    """Where to run it, and the command that makes a running controller a voter (KIP-853)."""
    return (
        f"# On controller {node}'s host, with its own configuration file as $NODE_PROPERTIES",
        f"{QUORUM_TOOL} {' '.join(_bootstrap(quorum, besides=node))} {_LOGIN} add-controller",
    )


def describe_status(quorum: Quorum, besides: NodeId | None = None) -> str:
    """The command that shows leader, voters and their endpoints."""
    return f"{QUORUM_TOOL} {_reached(quorum, besides=besides)} describe --status"


def against_raft(quorum: Quorum) -> tuple[str, ...]:
    """What to do where controllers contradict each other as Raft rules out."""
    return (
        "# Copy the metadata directory of every controller before anything is restarted",
        "# Find out whether a controller's disk was restored or copied, or a second quorum answers at these addresses",
        describe_status(quorum),
    )


def describe_topic(quorum: Quorum, topic: str, leaders: Iterable[NodeId]) -> str:
    """The command that shows a topic's partitions, asked of a leader if one lives."""
    where = _with_login(quorum, "--bootstrap-server", broker_bootstrap(quorum, leaders))
    return f"kafka-topics.sh {where} --describe --topic {shlex.quote(topic)}"


def allow(quorum: Quorum, operations: Iterable[str]) -> tuple[str, ...]:
    """The command that allows the monitor's principal these operations on CLUSTER; none where only Kafka knows it."""
    principal = quorum.access.principal
    if principal is None:
        return ()
    allowed = " ".join(f"--operation {operation}" for operation in operations)
    whom = f"--add --allow-principal {shlex.quote(principal)}"
    return (f"kafka-acls.sh {_reached(quorum, since=_ACLS_REACH_CONTROLLERS)} {whom} {allowed} --cluster",)


def with_legend(quorum: Quorum, remedy: tuple[str, ...]) -> tuple[str, ...]:
    """The remedy, and what its placeholder has to hold where a listener is secured."""
    logins = [line for line in remedy if _LOGIN in line]
    # An open quorum's add-controller names the file only for the node's own id, disk and listeners.
    asked = any(quorum.access.secured or not line.endswith("add-controller") for line in logins)
    return (*remedy, LEGEND) if asked else remedy


def _reached(quorum: Quorum, besides: NodeId | None = None, since: int = _REACH_CONTROLLERS) -> str:
    return _with_login(quorum, *_bootstrap(quorum, besides=besides, since=since))


def _with_login(quorum: Quorum, option: str, address: str) -> str:
    return f"{option} {address} {_LOGIN}" if _secured(quorum, address) else f"{option} {address}"


def _secured(quorum: Quorum, address: str) -> bool:
    """Whether that listener wants TLS or a login: by its registration, else as the listener that we come in by."""
    registered = [each for one in quorum.controllers.values() for each in one.endpoints]
    registered += [each for one in quorum.brokers.values() for each in one.endpoints]
    told = {_dialled(str(each)): each.protocol for each in registered if each.protocol}
    return told.get(address, "SSL" if quorum.access.secured else "PLAINTEXT") != "PLAINTEXT"


def _bootstrap(quorum: Quorum, *, besides: NodeId | None, since: int = _REACH_CONTROLLERS) -> tuple[str, str]:
    """The option that leads a tool to the quorum: by a controller, or by a broker where only those can be reached.

    Args:
        quorum: what is known.
        besides: the controller that is being mended.
        since: the metadata.version of the first Kafka whose tool reaches controllers.
    """
    brokers = _answering_brokers(quorum)
    if brokers and next(_promising(quorum, besides), None) is None:
        return "--bootstrap-server", _dialled(brokers[0])
    broker = broker_bootstrap(quorum, sorted(quorum.brokers.keys() - {besides}))
    if quorum.metadata_version is not None and quorum.metadata_version < since and broker != UNKNOWN_BOOTSTRAP:
        return "--bootstrap-server", broker
    return "--bootstrap-controller", controller_bootstrap(quorum, besides=besides)


def describe_features(quorum: Quorum) -> str:
    """The command that shows which level each feature is finalized at, and what the active controller supports."""
    return f"{FEATURES_TOOL} {_reached(quorum)} describe"


def upgrade_feature(quorum: Quorum, name: str, level: int) -> str:
    """The command that finalizes a feature at a higher level (KIP-584)."""
    return f"{FEATURES_TOOL} {_reached(quorum)} upgrade --feature {shlex.quote(name)}={level}"


def controller_bootstrap(quorum: Quorum, *, besides: NodeId | None = None) -> str:
    """HOST:PORT of a controller that answers as far as is known; the leader's if that is one of them.

    Where every name is gone, the address a name last resolved to stands in for it; where everything refuses, the
    recorded endpoint is named, because that is where a controller will answer when it is back.
    """
    named = [(node, endpoint) for node, endpoint in _controllers(quorum) if node != besides]
    for address in (*_promising(quorum, besides), *_stand_ins(quorum, named)):
        return _dialled(address)
    configured = [address for address in quorum.bootstrap if address not in _brokers(quorum)]
    return _dialled(str(named[0][1]) if named else configured[0]) if named or configured else UNKNOWN_BOOTSTRAP


def _promising(quorum: Quorum, besides: NodeId | None) -> Iterator[str]:
    """Where a controller answers, or nothing is known that speaks against it: the best first."""
    known = _controllers(quorum)
    named = [(node, endpoint) for node, endpoint in known if node != besides]
    answering = [str(endpoint) for node, endpoint in named if _known(quorum, node, endpoint) is _Known.ANSWERS]
    untried = [str(endpoint) for node, endpoint in named if _known(quorum, node, endpoint) is _Known.UNTRIED]
    yield from (*answering, *_leaderless(quorum), *untried)
    yield from _configured(quorum, {str(endpoint) for _, endpoint in known})


def _answering_brokers(quorum: Quorum) -> list[str]:
    """The configured addresses that serve no log, as brokers do, and do answer polls, be it by turning us away."""
    silent = {
        each.endpoint
        for each in quorum.failures
        if each.source is ObservationSource.QUORUM and each.reason not in _WITHOUT_US
    }
    return [address for address in quorum.bootstrap if address in _logless(quorum) - silent]


def _logless(quorum: Quorum) -> set[str]:
    """Where the metadata log is not served: a controller would."""
    return {
        each.endpoint
        for each in quorum.failures
        if (each.source, each.reason) == (ObservationSource.LOG, Reason.UNSUPPORTED)
    }


def broker_bootstrap(quorum: Quorum, preferred: Iterable[NodeId] = ()) -> str:
    """HOST:PORT of a broker that is alive by the log: one of `preferred` if any of them is."""
    order = [*preferred, *sorted(quorum.brokers)]
    for node in order:
        broker = quorum.brokers.get(node)
        if broker and broker.alive and broker.endpoints:
            return _dialled(str(broker.endpoints[0]))
    return UNKNOWN_BOOTSTRAP


class _Known(Enum):
    """What is known of an endpoint, before a command is sent there."""

    ANSWERS = "answers"
    UNTRIED = "untried"
    BAD = "bad"


def _controllers(quorum: Quorum) -> list[tuple[NodeId, Endpoint]]:
    """Every endpoint a controller is known by: the leader's first, then by node id; recorded, polled, registered."""
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
    """Of a registration's listeners those that voters are dialled at."""
    voters = quorum.committed.voters if quorum.committed else ()
    names = {endpoint.listener for voter in voters for endpoint in voter.endpoints[:1]}
    return [endpoint for endpoint in endpoints if endpoint.listener in names]


def _known(quorum: Quorum, node: NodeId, endpoint: Endpoint) -> _Known:
    probe = quorum.probes.get(probe_key(node, endpoint))
    if probe is not None:
        return _by(probe)
    gone = any(each.resolution is Resolution.NAME_NOT_FOUND for each in _probes_of(quorum, endpoint.host))
    return _Known.BAD if gone or str(endpoint) in _failing(quorum) else _Known.UNTRIED


def _failing(quorum: Quorum) -> set[str]:
    """Where looks fail now. A node that says it knows no leader does answer."""
    return {failure.endpoint for failure in quorum.failures if failure.reason not in _WITHOUT_US}


def _by(probe: Probe) -> _Known:
    if (
        probe.connection is Connection.ACCEPTED
        and other_responder(probe) is None
        and probe.answer is not Answer.NO_ANSWER
    ):
        return _Known.ANSWERS
    return _Known.BAD


def _probes_of(quorum: Quorum, host: str) -> list[Probe]:
    return [probe for probe in quorum.probes.values() if probe.endpoint.host == host]


def _leaderless(quorum: Quorum) -> list[str]:
    """Where somebody answers that no leader is known, unless the name is gone since: no broker says that."""
    gone = _gone(quorum)
    answers = {each.endpoint for each in quorum.failures if each.reason in NO_LEADER_REASONS and each.endpoint}
    return sorted(address for address in answers if host_of(address) not in gone)


def _gone(quorum: Quorum) -> set[str]:
    """Hosts whose names no longer exist."""
    return {probe.endpoint.host for probe in quorum.probes.values() if probe.resolution is Resolution.NAME_NOT_FOUND}


def _configured(quorum: Quorum, judged: set[str]) -> list[str]:
    """The configured addresses that nothing speaks against: not failing, no broker's, and not judged already."""
    gone = _gone(quorum)
    return [
        address
        for address in quorum.bootstrap
        if address not in judged | _brokers(quorum) | _failing(quorum) and host_of(address) not in gone
    ]


def _brokers(quorum: Quorum) -> set[str]:
    return {str(endpoint) for broker in quorum.brokers.values() for endpoint in broker.endpoints} | _logless(quorum)


def _stand_ins(quorum: Quorum, named: Iterable[tuple[NodeId, Endpoint]]) -> list[str]:
    """The addresses that vanished names had."""
    return [
        host_and_port(quorum.addresses[endpoint.host][0], endpoint.port)
        for _, endpoint in named
        if quorum.addresses.get(endpoint.host)
        and any(probe.resolution is Resolution.NAME_NOT_FOUND for probe in _probes_of(quorum, endpoint.host))
    ]


def _dialled(address: str) -> str:
    """As one word of a shell's, which would take the brackets of an IPv6 address for a pattern."""
    return shlex.quote(address)
