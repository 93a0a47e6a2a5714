"""The steps that remove the registration of a node that no longer exists.

Kafka refuses a level that a registered node does not support, whether a process serves the registration or not
(FeatureControlManager.reasonNotSupported). A broker can be unregistered at any level, a controller only from
metadata.version 33 on (KIP-1312, ClusterControlManager.unregisterController). So a controller that last ran Kafka 4.3
or older blocks the level that its own removal needs (KAFKA-20295). Only a registration with the new levels ends that:
the controller is started once more.
"""

import shlex
from collections.abc import Iterable, Iterator, Sequence

from rules.facts.quorum import Facts
from rules.facts.registered_node import (
    METADATA_VERSION,
    UNREGISTERS_CONTROLLERS,
    RegisteredNode,
)
from rules.formatting import and_join
from rules.model.identifiers import NodeId
from rules.model.quorum import Quorum
from rules.remedies.remedy_commands import unregister_broker, unregister_controller, upgrade_feature
from rules.remedies.start_conditions import start_as_broker
from rules.remedies.step import restarts, starts

_MOST_STARTED = 4
"""How many controllers a remedy starts once more: all remedies together must not grow with the square."""


def leftover_steps(facts: Facts, node: NodeId) -> Iterator[str]:
    """Yields the steps for the registration of a broker whose node runs as a controller only."""
    yield restarts(f"# If node {node} should be a broker as well, {start_as_broker(node)}", node)
    yield f"# Otherwise move the replicas of broker {node} to other brokers with kafka-reassign-partitions.sh"
    yield unregister_broker(facts, node)


def unregister_steps(facts: Facts, gone: Sequence[RegisteredNode]) -> Iterator[str]:
    """Yields the steps that remove the registrations of these nodes, which no longer exist."""
    brokers = [node.registration.id for node in gone if node.role == "broker"]
    if brokers:
        yield "# Of a broker, after its partitions have moved to others"
        yield from (unregister_broker(facts, node) for node in brokers)
    controllers = [node.registration.id for node in gone if node.role == "controller"]
    if controllers:
        yield from _controller_steps(facts, controllers, gone)


def _controller_steps(facts: Facts, controllers: list[NodeId], gone: Sequence[RegisteredNode]) -> Iterator[str]:
    if facts.quorum.metadata_version is not None and facts.quorum.metadata_version >= UNREGISTERS_CONTROLLERS:
        yield from (unregister_controller(facts, node) for node in controllers)
        return
    short = facts.short_of_unregistering
    if any(node.running for node in short):
        yield (
            f"# Kafka removes a controller's registration only from metadata.version {UNREGISTERS_CONTROLLERS} (Kafka "
            f"4.4) on, which not every running node supports: {_named(node for node in short if node.running)}"
        )
        yield (
            f"# Before you upgrade metadata.version to a lower level, start a controller with node.id "
            f"{and_join(controllers)} once in the new version, as an observer: it registers again with what it supports"
        )
        return
    leaving = {node.registration.id for node in gone if node.role == "broker"}
    brokers = [node for node in short if node.role == "broker" and node.registration.id not in leaving]
    for node in (broker for broker in brokers if broker.left_over):
        yield f"# First move the replicas of {node.name} to others: its node runs as a controller only"
        yield unregister_broker(facts, node.registration.id)
    if brokers := [node for node in brokers if not node.left_over]:
        ids = [node.registration.id for node in brokers]
        yield starts(
            f"# First start {_named(brokers)} in Kafka 4.4 or newer, or unregister it if it no longer exists", *ids
        )
    blocking = [node for node in short if node.role == "controller"]
    yield from _raise_level(facts, blocking)
    ids = [node.registration.id for node in blocking[:_MOST_STARTED]]
    yield from (unregister_controller(facts, node) for node in dict.fromkeys([*ids, *controllers]))


def _raise_level(facts: Facts, blocking: list[RegisteredNode]) -> Iterator[str]:
    """Yields the steps to the level that unregisters controllers; registrations of these controllers block it."""
    level, static = UNREGISTERS_CONTROLLERS, facts.quorum.kraft_version == 0
    started = [node.registration.id for node in blocking[:_MOST_STARTED]]
    yield (
        f"# Kafka removes a controller's registration only from metadata.version {level} on; there is no safe way back "
        "from that level"
    )
    if blocking:
        yield (
            f"# What {_named(blocking)} registered with an older Kafka blocks that level: start each once more in the "
            "version of the others, as an observer with an empty disk"
        )
    if started and static:
        yield "# Restart no other controller while these run: they would be candidates in an election"
    for node in started:
        yield from _start_once(facts.quorum, node, static=static)
    if len(blocking) > _MOST_STARTED:
        yield f"# Do the same for the other {len(blocking) - _MOST_STARTED}"
    if started:
        yield "# A started controller registers within seconds; until then Kafka refuses the next command"
    yield upgrade_feature(facts, METADATA_VERSION, level)
    yield from (f"kafka-server-stop.sh --node-id={node}" for node in started)


def _start_once(quorum: Quorum, node: NodeId, *, static: bool) -> Iterator[str]:
    """Yields the steps that let a controller register once more. It needs no vote and gets none."""
    # In a static quorum a controller without the voters' list does not find the active controller to register with.
    voters = (
        f"{node}@HOST:PORT of that port added to controller.quorum.voters, in this file only"
        if static
        else "without controller.quorum.auto.join.enable"
    )
    yield (
        f"# $NODE_PROPERTIES of controller {node}: a copy of a running controller's, with node.id={node}, an empty "
        f"folder as log.dirs (and metadata.log.dir), an unused port in listeners and advertised.listeners, {voters}"
    )
    if quorum.cluster_id is None:
        yield "# Format its disk with the cluster.id of any node's meta.properties"
    else:
        initial = "" if static else " --no-initial-controllers"
        yield (
            f"kafka-storage.sh format --config $NODE_PROPERTIES --cluster-id {shlex.quote(quorum.cluster_id)}{initial}"
        )
    yield "kafka-server-start.sh -daemon $NODE_PROPERTIES"


def _named(nodes: Iterable[RegisteredNode]) -> str:
    return and_join((node.name for node in nodes), _MOST_STARTED)
