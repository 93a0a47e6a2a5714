"""Which roles a node runs with: by its own process.roles, else by what it registered since its newest start.

A node with both roles registers both within seconds of each start: a role that registered later than the other one by
more than `REGISTERS_MS` was started without it. A registration as a broker stays in the log when its node is started
without that role. Kafka fences it, and still places replicas of new topics on it (StripedReplicaPlacer).
"""

from collections.abc import Mapping

from rules.facts.node import Nodes, Process
from rules.formatting import utc_text
from rules.model.ages import REGISTERS_MS
from rules.model.history import NodeKind
from rules.model.identifiers import START, Millis, NodeId
from rules.model.quorum import Quorum


def known_controllers(quorum: Quorum) -> frozenset[NodeId]:
    """Returns every controller that the log or the poll names: voters, and registered controllers without a vote."""
    polled = quorum.poll.voter_ids if quorum.poll else set()
    return frozenset({*polled, *quorum.controllers, *quorum.voter_ids})


def controllers_only(nodes: Nodes) -> Mapping[NodeId, str]:
    """Returns the nodes that run as controllers only and were brokers, or may have been: each with what shows it.

    A node that is alive as a broker is none of them, nor one that does not run.
    """
    found = {node: _controller_only(nodes, node) for node in nodes.quorum.controllers if not _alive(nodes.quorum, node)}
    return {node: why for node, why in found.items() if why is not None}


def leftover_brokers(quorum: Quorum, controllers_only: Mapping[NodeId, str]) -> Mapping[NodeId, str]:
    """Returns those of them that are still registered as brokers."""
    return {node: why for node, why in controllers_only.items() if node in quorum.brokers}


def fenced_ms(quorum: Quorum) -> Mapping[NodeId, Millis]:
    """Returns when each broker was fenced last, as far as the log shows it: the interruptions are in its order."""
    return {interruption.id: interruption.timestamp_ms for interruption in quorum.history.interruptions}


def _alive(quorum: Quorum, node: NodeId) -> bool:
    return node in quorum.brokers and quorum.brokers[node].alive


def _controller_only(nodes: Nodes, node: NodeId) -> str | None:
    quorum = nodes.quorum
    facts, broker, newest = nodes[node], quorum.brokers.get(node), quorum.newest_timestamp_ms
    runs = facts.process is Process.RUNNING or (facts.process is Process.UNKNOWN and facts.following.fetches)
    if not runs:
        return None
    if facts.probe is not None and facts.probe.roles is not None:
        return "runs as a controller only" if facts.probe.roles == (NodeKind.CONTROLLER,) else None
    started = quorum.controllers[node].at
    if broker is None or newest is None or newest - started.timestamp_ms <= REGISTERS_MS:
        return None
    # A killed broker is fenced some seconds later, when its node may run again.
    served_since = fenced_ms(quorum).get(node, START) - started.timestamp_ms > REGISTERS_MS
    if served_since or started.timestamp_ms - broker.at.timestamp_ms <= REGISTERS_MS:
        return None
    return f"runs, and has registered as a controller only since {utc_text(started.timestamp_ms)}"
