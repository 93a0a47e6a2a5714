"""Conditions of the ground truth by rule and subject: those whose alert must fire in time, and those that may fire."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from tests.simulation.controller import SimulatedController
from tests.simulation.gatherer import MONITOR_ID
from tests.simulation.network import EndpointState

if TYPE_CHECKING:
    from tests.simulation.simulation import Simulation

CHECKED_RULES = ("broker-fenced", "observer-could-be-voter", "open-transaction", "stale-voter-endpoint")
"""Rules that may fire only for conditions that `possible` yields."""

NO_LEADER_CLEARS_MS = 15_000
"""`no-leader` inhibits the other rules until its alert has resolved: its clear time, and delayed observations."""


class Condition(NamedTuple):
    rule: str
    subject: str
    which: object = None
    """Distinguishes two occurrences of a condition: the hold starts again with each."""


def expected(simulation: "Simulation") -> Iterator[Condition]:
    """Yields the current conditions that the gatherer can observe."""
    nodes, network = simulation.nodes, simulation.network
    reached = [node for node in nodes if network.open(MONITOR_ID, node.id)]
    if not reached:
        yield Condition("monitor-blind", "quorum")
    if len(reached) == len(nodes) and all(node.up and not node.leads for node in nodes):
        yield Condition("no-leader", "quorum")
    leader, since_ms = simulation.gatherer.polled_leader, simulation.gatherer.led_since_ms
    if leader is None or since_ms is None or simulation.now_ms - since_ms < NO_LEADER_CLEARS_MS:
        return
    yield from _stale_endpoints(simulation, leader)
    if is_observable(simulation):
        yield from _from_log(simulation)
        yield from _from_poll(simulation, leader)


def _from_log(simulation: "Simulation") -> Iterator[Condition]:
    quorum, oracle = simulation.checker.monitor.machine.quorum(), simulation.checker.oracle
    for recovery in quorum.recovering:
        which = (recovery.topic_id, recovery.partition, recovery.since_offset)
        yield Condition("partition-stuck-recovering", f"topic {recovery.topic}", which)
    if oracle.transaction is not None:
        yield Condition("open-transaction", "metadata log", oracle.transaction.offset)
    for broker, (incarnation, fenced, _) in oracle.brokers.items():
        if fenced:
            yield Condition("broker-fenced", f"broker {broker}", incarnation)


def _from_poll(simulation: "Simulation", leader: SimulatedController) -> Iterator[Condition]:
    quorum, oracle = simulation.checker.monitor.machine.quorum(), simulation.checker.oracle
    for key in quorum.committed.keys if quorum.committed else ():
        node = simulation.nodes[key.id - 1]
        if node.key != key and leader.is_fetching(node.key, simulation.now_ms):
            yield Condition("voter-disk-replaced", f"controller {key.id}", node.directory)
    removed = {removal.key.id for removal in quorum.removals}
    for node in simulation.nodes:
        voting = oracle.voters is None or node.id in {key.id for key in oracle.voters | leader.log.keys}
        waits = (
            node.id in oracle.controllers and node.id not in removed and leader.is_fetching(node.key, simulation.now_ms)
        )
        if waits and not voting:
            yield Condition("observer-could-be-voter", f"observer {node.key}")


def is_observable(simulation: "Simulation") -> bool:
    """Returns whether the gatherer polls the real leader, a majority fetches from it, and the log is read."""
    leader = simulation.gatherer.polled_leader
    if leader is None or leader.high_watermark <= leader.epoch_start:
        return False
    newest = leader.epoch == max(node.epoch for node in simulation.nodes)
    return newest and simulation.checker.oracle.end >= len(simulation.ground_truth.committed) - 5


def _stale_endpoints(simulation: "Simulation", leader: SimulatedController) -> Iterator[Condition]:
    committed = simulation.checker.monitor.machine.quorum().committed
    probed = simulation.gatherer.recorded()
    for voter in committed.voters if committed else ():
        node, endpoint = simulation.nodes[voter.key.id - 1], voter.endpoints[0]
        if (node, endpoint) not in probed:
            continue
        place = simulation.network.endpoint_states.get(endpoint)
        reached = simulation.network.open(MONITOR_ID, node.id)
        fetches = node.key == voter.key and leader.is_fetching(node.key, simulation.now_ms)
        lives_elsewhere = place is EndpointState.CLOSED or node.endpoint != endpoint
        if place in (EndpointState.NAME_NOT_FOUND, EndpointState.TAKEN) or (
            lives_elsewhere and reached and fetches and node.up
        ):
            yield Condition("stale-voter-endpoint", f"voter {node.id}", endpoint)


def possible(simulation: "Simulation") -> Iterator[Condition]:
    """Yields the conditions for which a rule of CHECKED_RULES may fire now or a moment ago."""
    committed, mine = simulation.ground_truth.oracle, simulation.checker.oracle
    if committed.transaction is not None or mine.transaction is not None:
        yield Condition("open-transaction", "metadata log")
    for broker in {*committed.brokers, *mine.brokers}:
        if any(known.brokers.get(broker, ("", False, False))[1] for known in (committed, mine)):
            yield Condition("broker-fenced", f"broker {broker}")
    votes = (committed.voters or frozenset()) & (mine.voters or frozenset())
    for node in simulation.nodes:
        if node.key not in votes:
            yield Condition("observer-could-be-voter", f"observer {node.key}")
    led = any(node.leads for node in simulation.nodes)
    for node, endpoint in simulation.gatherer.recorded():
        registered = mine.controllers.get(node.id, ("", node.endpoint))[1]
        sound = node.endpoint == endpoint == registered and endpoint not in simulation.network.endpoint_states
        if not sound or node.voter.key not in votes or (not node.up and not led):
            yield Condition("stale-voter-endpoint", f"voter {node.id}")
