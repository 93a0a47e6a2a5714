"""Conditions: what is wrong in truth, by rule and subject: what must be told in time, and what may be told at all."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from tests.simulation.controller import Controller
from tests.simulation.gatherer import ME
from tests.simulation.network import Place

if TYPE_CHECKING:
    from tests.simulation.simulation import Simulation

JUDGED = ("broker-fenced", "observer-could-be-voter", "open-transaction", "stale-voter-endpoint")
"""Rules that may tell of nothing but what `possible` yields."""


class Condition(NamedTuple):
    rule: str
    subject: str
    which: object = None
    """Tells one life of it from the next: the hold begins anew with each."""


def standing(simulation: "Simulation") -> Iterator[Condition]:
    """What is so now and can be seen from where the gatherer stands."""
    nodes, network = simulation.nodes, simulation.network
    reached = [node for node in nodes if network.open(ME, node.id)]
    if not reached:
        yield Condition("monitor-blind", "quorum")
    if len(reached) == len(nodes) and all(node.up and not node.leads for node in nodes):
        yield Condition("no-leader", "quorum")
    leader = simulation.gatherer.found
    yield from _stale(simulation, leader)
    if leader is not None and in_sight(simulation):
        yield from _by_the_log(simulation)
        yield from _by_the_poll(simulation, leader)


def _by_the_log(simulation: "Simulation") -> Iterator[Condition]:
    quorum, oracle = simulation.judge.watch.machine.quorum(), simulation.judge.oracle
    for recovery in quorum.recovering:
        which = (recovery.topic_id, recovery.partition, recovery.since_offset)
        yield Condition("partition-stuck-recovering", f"topic {recovery.topic}", which)
    if oracle.transaction is not None:
        yield Condition("open-transaction", "metadata log", oracle.transaction.offset)
    for broker, (incarnation, fenced, _) in oracle.brokers.items():
        if fenced:
            yield Condition("broker-fenced", f"broker {broker}", incarnation)


def _by_the_poll(simulation: "Simulation", leader: Controller) -> Iterator[Condition]:
    quorum, oracle = simulation.judge.watch.machine.quorum(), simulation.judge.oracle
    for key in quorum.committed.keys if quorum.committed else ():
        node = simulation.nodes[key.id - 1]
        if node.key != key and leader.hears(node.key, simulation.now_ms):
            yield Condition("voter-disk-replaced", f"controller {key.id}", node.directory)
    removed = {removal.key.id for removal in quorum.removals}
    for node in simulation.nodes:
        voting = oracle.voters is None or node.id in {key.id for key in oracle.voters | leader.log.keys}
        waits = node.id in oracle.controllers and node.id not in removed and leader.hears(node.key, simulation.now_ms)
        if waits and not voting:
            yield Condition("observer-could-be-voter", f"observer {node.key}")


def in_sight(simulation: "Simulation") -> bool:
    """Whoever answers the gatherer is the leader of them all, hears a majority, and everything is read."""
    leader = simulation.gatherer.found
    if leader is None or leader.high_watermark <= leader.epoch_start:
        return False
    newest = leader.epoch == max(node.epoch for node in simulation.nodes)
    return newest and simulation.judge.oracle.end >= len(simulation.truth.committed) - 5


def _stale(simulation: "Simulation", leader: Controller | None) -> Iterator[Condition]:
    committed = simulation.judge.watch.machine.quorum().committed
    probed = simulation.gatherer.recorded()
    for voter in committed.voters if committed else ():
        node, endpoint = simulation.nodes[voter.key.id - 1], voter.endpoints[0]
        if (node, endpoint) not in probed:
            continue
        place = simulation.network.places.get(endpoint)
        reached = simulation.network.open(ME, node.id)
        fetches = leader is not None and node.key == voter.key and leader.hears(node.key, simulation.now_ms)
        lives_elsewhere = place is Place.CLOSED or node.endpoint != endpoint
        if place in (Place.NAME_GONE, Place.TAKEN) or (lives_elsewhere and reached and fetches and node.up):
            yield Condition("stale-voter-endpoint", f"voter {node.id}", endpoint)


def possible(simulation: "Simulation") -> Iterator[Condition]:
    """What the rules of JUDGED may tell now, or could have told a moment ago: any ground for it will do."""
    truth, mine = simulation.truth.oracle, simulation.judge.oracle
    if truth.transaction is not None or mine.transaction is not None:
        yield Condition("open-transaction", "metadata log")
    for broker in {*truth.brokers, *mine.brokers}:
        if any(known.brokers.get(broker, ("", False, False))[1] for known in (truth, mine)):
            yield Condition("broker-fenced", f"broker {broker}")
    votes = (truth.voters or frozenset()) & (mine.voters or frozenset())
    for node in simulation.nodes:
        if node.key not in votes:
            yield Condition("observer-could-be-voter", f"observer {node.key}")
    led = any(node.leads for node in simulation.nodes)
    for node, endpoint in simulation.gatherer.recorded():
        registered = mine.controllers.get(node.id, ("", node.endpoint))[1]
        sound = node.endpoint == endpoint == registered and endpoint not in simulation.network.places
        if not sound or node.voter.key not in votes or (not node.up and not led):
            yield Condition("stale-voter-endpoint", f"voter {node.id}")
