"""Kafka's own commands for the lines of a remedy, filled in for this cluster.

Each line is one shell command, or one sentence that begins with `#`. `$BOOTSTRAP` appears only if no endpoint is known
that could answer. `$NODE_PROPERTIES` is the configuration file of the named node, or of any node if none is named: at a
secured listener every command takes its login from there. Values that come from the cluster are quoted for the shell,
because operators paste these lines.
"""

import shlex
from collections.abc import Iterable, Sequence

from rules.claims.statement import Statement, statement
from rules.claims.words import do_not_change
from rules.facts.asked_once import asked_once
from rules.facts.following import Following
from rules.facts.following_text import path_text
from rules.facts.node import NodeFacts, Process
from rules.facts.quorum import Facts
from rules.facts.registered_node import UNREGISTERS_CONTROLLERS
from rules.formatting import numbered
from rules.model.history import Throttle
from rules.model.identifiers import NodeId, ReplicaKey
from rules.model.quorum import Quorum
from rules.remedies.bootstrap_address import (
    UNKNOWN_BOOTSTRAP,
    broker_bootstrap,
    controller_bootstrap,
    controller_is_usable,
)
from rules.remedies.endpoint_steps import endpoint_steps
from rules.remedies.start_conditions import COPY_METADATA_FIRST
from rules.remedies.step import Act, Step, asks_leader, forbids, may_restart, restarts, starts, waits
from rules.rescue.voter_override import initial_controllers, registered_voters

QUORUM_TOOL = "kafka-metadata-quorum.sh"
FEATURES_TOOL = "kafka-features.sh"
_CLUSTER_TOOL = "kafka-cluster.sh"
LEGEND = (
    "# $NODE_PROPERTIES: a node's own configuration file, with an administrator's security.protocol, sasl.* and ssl.* "
    "in it"
)
"""The last line of a remedy for a secured cluster: the tools do not read the listener.name.* keys of a node."""
SCRAM_NEEDS_A_LEADER = (
    "# With SCRAM a restarted controller accepts no login before there is a leader, because the credentials are in the "
    "metadata log: give the controllers' listener PLAIN, GSSAPI or mutual TLS"
)
"""After a step about controllers that may reject each other's logins."""
WAIT_FOR_LEADER = waits("# Wait until a leader is elected: without one the next command times out", Act.LEAD)
_PROCESS_STATES = "T is stopped (kill -CONT PID), D waits for a disk"
_LOGIN_OPTION = "--command-config $NODE_PROPERTIES"
_OLD_LOGIN_OPTION = "--config $NODE_PROPERTIES"
"""Of kafka-cluster before Kafka 4.2 (KIP-1147)."""
_TOOLS_REACH_CONTROLLERS = 15
"""The first metadata.version of Kafka 3.7, whose tools were the first with --bootstrap-controller (KIP-919)."""
_CONTROLLERS_JOIN = 28
"""The first metadata.version of Kafka 4.2, the first with controller.quorum.auto.join.enable, and with --command-config
in kafka-cluster."""
_ACLS_REACH_CONTROLLERS = 22
"""The first metadata.version of Kafka 4.0, whose kafka-acls was the first with --bootstrap-controller."""


def remove_controller(facts: Facts, key: ReplicaKey, *, for_good: bool = False) -> str:
    """Returns the command that removes one (id, directory id) from the voter set (KIP-853).

    `for_good`: no controller of this id remains, so its registration is removed too where Kafka can do that.
    """
    quorum = facts.quorum
    unregister = for_good and (quorum.metadata_version or 0) >= UNREGISTERS_CONTROLLERS and key.id in quorum.controllers
    return asks_leader(
        f"{QUORUM_TOOL} {_connection(facts, excluding=key.id)} remove-controller "
        f"--controller-id {key.id} --controller-directory-id {shlex.quote(str(key.directory_id))}"
        f"{' --unregister' if unregister else ''}",
        key.id,
    )


def add_controller(facts: Facts, node: NodeId) -> tuple[str, ...]:
    """Returns where to run the command, and the command that makes a running controller a voter (KIP-853)."""
    return (
        f"# On controller {node}'s host, with its own configuration file as $NODE_PROPERTIES",
        asks_leader(
            f"{QUORUM_TOOL} {' '.join(_bootstrap(facts, excluding=node))} {_LOGIN_OPTION} add-controller", node
        ),
    )


def no_change_while_both_run(node: NodeId) -> Step:
    """Returns the step that forbids to change a voter of whose id two processes run."""
    return forbids(statement("# ", do_not_change(node), " while both run"), Act.CHANGE_VOTER, (node,))


def unless_it_joins(quorum: Quorum, node: NodeId) -> tuple[str, ...]:
    """Returns the step before the commands that make a controller a voter; none if it cannot do that itself."""
    step = (
        f"# If controller.quorum.auto.join.enable is true on controller {node}, do not run the commands below: it "
        "removes the voter with its id and another directory, and adds itself once it has caught up; if it did not "
        "within a minute, its log says why"
    )
    return (step,) if _can_join(quorum, node) else ()


def _can_join(quorum: Quorum, node: NodeId) -> bool:
    registration = quorum.controllers.get(node)
    levels = registration.features if registration else ()
    return any(level.name == "metadata.version" and level.highest >= _CONTROLLERS_JOIN for level in levels)


def describe_status(facts: Facts, excluding: NodeId | None = None) -> str:
    """Returns the command that shows the leader, the voters and their endpoints."""
    return asks_leader(f"{QUORUM_TOOL} {_connection(facts, excluding=excluding)} describe --status")


def describe_replication(facts: Facts, at: str | None = None, excluding: NodeId | None = None) -> str:
    """Returns the command that shows what a leader's replicas fetch; `at`: HOST:PORT of a certain controller."""
    where = (
        _connection(facts, excluding=excluding)
        if at is None
        else _with_login(facts, "--bootstrap-controller", shlex.quote(at))
    )
    return asks_leader(f"{QUORUM_TOOL} {where} describe --replication")


def compare_log_ends(facts: Facts) -> tuple[str, str]:
    """Returns the step and the command that show where the log of each voter ends: `describe --status` does not."""
    return "# Check the log end offset of each voter", describe_replication(facts)


def who_follows(facts: Facts, excluding: NodeId | None = None) -> tuple[str, str]:
    """Returns the step and the command that show the leader and who fetches from it."""
    step = "# Check which controller is the leader now and which voters follow it"
    return step, describe_replication(facts, excluding=excluding)


def contradiction_steps(facts: Facts) -> tuple[str, ...]:
    """Returns the steps for controllers that contradict each other in a way that Raft excludes."""
    return (
        COPY_METADATA_FIRST,
        "# Find out whether a controller's disk was restored or copied, or a second quorum answers at these addresses",
        describe_status(facts),
    )


def describe_topic(facts: Facts, topic: str, leaders: Iterable[NodeId]) -> str:
    """Returns the command that shows a topic's partitions, sent to one of its leaders if one is alive."""
    where = _with_login(facts, "--bootstrap-server", broker_bootstrap(facts, leaders))
    return f"kafka-topics.sh {where} --describe --topic {shlex.quote(topic)}"


def describe_partitions(facts: Facts, which: str) -> str:
    """Returns the command that lists the `unavailable` partitions, which lack a leader, or those `under-min-isr`."""
    where = _with_login(facts, "--bootstrap-server", broker_bootstrap(facts))
    return f"kafka-topics.sh {where} --describe --{which}-partitions"


def list_reassignments(facts: Facts) -> str:
    """Returns the command that lists the partitions that are being reassigned."""
    where = _with_login(facts, "--bootstrap-server", broker_bootstrap(facts))
    return f"kafka-reassign-partitions.sh {where} --list"


def remove_throttle(facts: Facts, throttle: Throttle) -> str:
    """Returns the command that removes a throttle. A controller does it for a broker that is down too, where a broker
    waits for it and times out."""
    whose = (
        f"--entity-type topics --entity-name {shlex.quote(throttle.topic)}"
        if throttle.topic is not None
        else "--entity-type brokers --entity-default"
        if throttle.broker is None
        else f"--entity-type brokers --entity-name {throttle.broker}"
    )
    return f"kafka-configs.sh {_connection(facts)} --alter {whose} --delete-config {','.join(throttle.settings)}"


def set_default(facts: Facts, setting: str) -> str:
    """Returns the command that sets a dynamic default of all brokers."""
    where = _with_login(facts, "--bootstrap-server", broker_bootstrap(facts))
    return f"kafka-configs.sh {where} --alter --entity-type brokers --entity-default --add-config {setting}"


def describe_log_dirs(facts: Facts, broker: NodeId) -> str:
    """Returns the command that shows a broker's log directories, and the size of each partition in them."""
    where = _with_login(facts, "--bootstrap-server", broker_bootstrap(facts, (broker,)))
    return f"kafka-log-dirs.sh {where} --describe --broker-list {broker}"


def register_again(facts: Facts, broker: NodeId) -> str:
    """Returns the step after which a broker that was unregistered is registered again."""
    if broker in facts.unregistered_running:
        return restarts(
            f"# Restart broker {broker} with its own disks: it runs, and registers only when it starts", broker
        )
    return starts(f"# Start broker {broker} with its own disks: it registers again when it starts", broker)


def directory_steps(facts: Facts, broker: NodeId) -> tuple[str, ...]:
    """Returns the steps that bring an offline log directory of a broker that runs back."""
    return (
        f"# Find the path: the log directory with an error (the reason is in the server.log of broker {broker})",
        describe_log_dirs(facts, broker),
        restarts(f"# Repair or mount the disk with its content, then restart broker {broker}", broker),
    )


def allow(facts: Facts, operations: Iterable[str]) -> tuple[str, ...]:
    """Returns the command that allows the monitor's principal these operations on CLUSTER; none if it is unknown."""
    principal = facts.quorum.access.principal
    if principal is None:
        return ()
    allowed = " ".join(f"--operation {operation}" for operation in operations)
    grantee = f"--add --allow-principal {shlex.quote(principal)}"
    return (f"kafka-acls.sh {_connection(facts, since=_ACLS_REACH_CONTROLLERS)} {grantee} {allowed} --cluster",)


def with_legend(quorum: Quorum, remedy: tuple[str, ...]) -> tuple[str, ...]:
    """Returns the remedy, with the line that explains `$NODE_PROPERTIES` if a listener is secured."""
    logins = [line for line in remedy if _LOGIN_OPTION in line or line.endswith(_OLD_LOGIN_OPTION)]
    # Without security add-controller needs the file only for the node's own id, directory and listeners.
    needed = any(quorum.access.secured or not line.endswith("add-controller") for line in logins)
    return (*remedy, LEGEND) if needed else remedy


def before_a_change(facts: Facts, *nodes: NodeId) -> tuple[str, ...]:
    """Returns the steps before these controllers are added to the voters, or removed.

    The leader rejects a change while another one is pending (KIP-853). Two processes with one node id remove each
    other.
    """
    pending = waits("# Wait until the pending change of the voter set is committed or dropped", Act.SETTLE)
    shared = (no_change_while_both_run(node) for node in nodes if facts.nodes.is_shared(node))
    return (*((pending,) if facts.change_is_pending else ()), *shared)


def after_election(facts: Facts, remedy: Iterable[str]) -> Iterable[str]:
    """Yields the remedy; while there is no leader, its first command that needs one comes after a step that waits."""
    waited = facts.leaderless is None
    for step in remedy:
        acts = {action.act for action in step.plan.does} if isinstance(step, Step) else set()
        if not waited and Act.ASK in acts:
            yield WAIT_FOR_LEADER
        waited = waited or not acts.isdisjoint({Act.ASK, Act.LEAD})
        yield step


def _connection(facts: Facts, excluding: NodeId | None = None, since: int = _TOOLS_REACH_CONTROLLERS) -> str:
    return _with_login(facts, *_bootstrap(facts, excluding=excluding, since=since))


def _with_login(facts: Facts, option: str, address: str) -> str:
    return f"{option} {address} {_LOGIN_OPTION}" if _secured(facts, address) else f"{option} {address}"


@asked_once
def _secured(facts: Facts, address: str) -> bool:
    """Returns whether a listener requires TLS or a login: by its registration, else like the monitor's own listener."""
    (word,) = shlex.split(address)
    own = "SSL" if facts.quorum.access.secured else "PLAINTEXT"
    return facts.protocols.get(word, own) != "PLAINTEXT"


def _bootstrap(facts: Facts, *, excluding: NodeId | None, since: int = _TOOLS_REACH_CONTROLLERS) -> tuple[str, str]:
    """Returns the tool's bootstrap option: a controller, or a broker if only brokers can be reached.

    `excluding`: the controller that the remedy is about. `since`: the metadata.version of the first Kafka whose tool
    reaches controllers.
    """
    brokers = facts.answering_brokers
    if brokers and not controller_is_usable(facts, excluding):
        return "--bootstrap-server", shlex.quote(brokers[0])
    if facts.quorum.metadata_version is not None and facts.quorum.metadata_version < since:
        others = (node for node in facts.broker_ids if node != excluding)
        broker = broker_bootstrap(facts, others)
        if broker != UNKNOWN_BOOTSTRAP:
            return "--bootstrap-server", broker
    return "--bootstrap-controller", controller_bootstrap(facts, excluding=excluding)


def describe_features(facts: Facts) -> str:
    """Returns the command that shows each feature's finalized level and the levels the active controller supports."""
    return asks_leader(f"{FEATURES_TOOL} {_connection(facts)} describe")


def upgrade_feature(facts: Facts, name: str, level: int) -> str:
    """Returns the command that finalizes a feature at a higher level (KIP-584)."""
    return asks_leader(f"{FEATURES_TOOL} {_connection(facts)} upgrade --feature {shlex.quote(name)}={level}")


def unregister_broker(facts: Facts, node: NodeId) -> str:
    """Returns the command that removes a broker's registration."""
    option = _LOGIN_OPTION if (facts.quorum.metadata_version or 0) >= _CONTROLLERS_JOIN else _OLD_LOGIN_OPTION
    where = _connection(facts, excluding=node).replace(_LOGIN_OPTION, option)
    return asks_leader(f"{_CLUSTER_TOOL} unregister --id {node} {where}")


def unregister_controller(facts: Facts, node: NodeId) -> str:
    """Returns the command that removes a controller's registration (KIP-1312)."""
    return asks_leader(f"{_CLUSTER_TOOL} unregister-controller --id {node} {_connection(facts, excluding=node)}")


def bring_back(facts: Facts, node: NodeId) -> Iterable[str]:
    """Yields the steps for a voter that does not fetch: start it, or find out why it hangs before it is restarted."""
    known = facts.nodes.get(node)
    probed = known.probe.endpoint if known is not None and known.probe is not None else None
    endpoint = facts.quorum.recorded_endpoint(node) or probed
    at = f" at {endpoint}" if endpoint else ""
    match facts.nodes.process(node):
        case Process.DOWN:
            yield starts(f"# Start controller {node} so that it listens{at}: connections are refused there", node)
        case Process.SLOW:
            yield from find_what_is_slow([node])
        case Process.HUNG:
            yield from restart_hung(node, at)
        case Process.NOT_REACHED:
            yield from find_host(node, at)
        case Process.RUNNING:
            yield (
                f"# Check in the log of controller {node} why it does not fetch from the leader: its process accepts "
                f"connections{at}"
            )
            yield may_restart(
                f"# If controller {node} hangs, take a thread dump before you restart it: jcmd PID Thread.print", node
            )
        case Process.UNKNOWN:
            listens = f" so that it listens{at}" if at else ""
            yield starts(
                f"# Start controller {node}{listens}, or check in its log why it does not fetch from the leader", node
            )
            yield from endpoint_steps(facts, node)


def bring_in_sync(facts: Facts, status: NodeFacts) -> Iterable[str]:
    """Yields the steps for a voter as the leader reports it; none if it is in sync."""
    match status.following:
        case Following.IN_SYNC:
            return
        case Following.NOT_FETCHING | Following.UNKNOWN:
            yield from bring_back(facts, status.id)
        case Following.LAGGING:
            yield from find_delay(facts, status)


def find_delay(facts: Facts, status: NodeFacts) -> Iterable[str]:
    """Yields the steps for a voter that fetches, and late."""
    given_up = ": a fetch that takes longer than controller.quorum.request.timeout.ms (2 s) is given up and repeated"
    yield statement(check_path(facts, status), given_up)
    yield f"# Check the metadata disk and the CPU of controller {status.id}"


def check_path(facts: Facts, voter: NodeFacts) -> Statement:
    """Returns the step for the network between a voter and the leader."""
    return statement("# Check the path ", path_text(facts.nodes, voter), " for long round trips and lost packets")


def check_host(controller: str) -> str:
    """Returns the step for a controller whose own work is slow."""
    return (
        "# Check the metadata disk (iostat -x 1: w_await, f_await), the CPU and the garbage collection log of "
        f"controller {controller}"
    )


def find_what_is_slow(nodes: Sequence[NodeId]) -> Iterable[str]:
    """Yields the steps for controllers that answer, and late: a restart makes no disk and no host faster."""
    names = numbered("controller", nodes)
    what = f"{names} answers" if len(nodes) == 1 else f"{names} answer"
    where = "its host" if len(nodes) == 1 else "their hosts, and what they share (storage, hypervisor, network)"
    yield (
        f"# Check the disks of metadata.log.dir (iostat -x 1: w_await, f_await), the CPU and the memory of {where}: "
        f"{what}, but late"
    )
    yield forbids(
        f"# Do not restart {names}, which makes no disk faster: in a thread dump (jcmd PID Thread.print) a thread "
        "kafka-ID-raft-io-thread in force() waits for the disk",
        Act.STOP,
        nodes,
    )


def restart_hung(node: NodeId, at: str) -> Iterable[str]:
    """Yields the steps for a controller that accepts connections and does not answer; `at`: ` at HOST:PORT`."""
    yield may_restart(
        f"# Controller {node} hangs, it accepts connections{at} and does not answer: take a thread dump on its host "
        "before you restart it (jcmd PID Thread.print, or jstack PID)",
        node,
    )
    yield f"# If the thread dump of controller {node} hangs too, check its state with ps: {_PROCESS_STATES}"
    yield may_restart(f"# Then restart controller {node}", node)


def find_host(node: NodeId, at: str) -> Iterable[str]:
    """Yields the steps for a controller to which connections time out or have no route; `at`: ` at HOST:PORT`."""
    yield (
        f"# Check the host of controller {node}: connections{at} time out or have no route; it is down or cut off, or "
        "the controller hangs and accepts none"
    )
    yield may_restart(
        f"# If its host runs, take a thread dump of controller {node} before you restart it (jcmd PID Thread.print); "
        f"if that hangs too, check the state with ps: {_PROCESS_STATES}",
        node,
    )


def rescue_if_moved(quorum: Quorum) -> Iterable[str]:
    """Yields the rescue for controllers that run at other endpoints for good, with the list of this cluster."""
    known = initial_controllers(registered_voters(quorum.voters, quorum.controllers))
    # A list with an escaped host would be a list of another host.
    if known is None or not known.isprintable():
        return
    yield (
        "# If controllers run at other endpoints for good, stop them all and rescue each: `kraftwatch rescue plan`, "
        "with a copy of every metadata.log.dir and this list with the new hosts and ports: "
        f"--initial-controllers {known}"
    )
