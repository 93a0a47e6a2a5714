"""Conditions that rules find in probes, views and failed observations, by the ground truth."""

from collections.abc import Iterator

from tests.simulation.condition import Condition
from tests.simulation.network import EndpointState
from tests.simulation.simulated_world import SimulatedWorld

VIEWS_MS = 12_000
"""A controller is asked for its leader every ten seconds."""
KEPT_MS = 3_600_000
"""How long the product remembers a broken invariant."""
SLACK_MS = 15_000


def monitor_blind(world: SimulatedWorld) -> Iterator[Condition]:
    denied = world.gatherer.faults.log_denied and world.settled_leader is not None
    yield from (Condition("monitor-blind", "quorum", denied or not world.reached) for _ in range(_is_blind(world)))
    reached = {node.id for node in world.reached}
    silent = [node.id for node in world.nodes if node.id not in reached]
    # Never for the five minutes of its hold.
    yield from (Condition("monitor-blind", f"controller {node}", must=False) for node in silent if reached)
    if world.gatherer.faults.resolver_fails:
        yield Condition("monitor-blind", "names", bool(world.gatherer.recorded()) and world.reportable)


def _is_blind(world: SimulatedWorld) -> bool:
    return world.leader is None or not world.gatherer.served_log or not world.reached


def no_leader(world: SimulatedWorld) -> Iterator[Condition]:
    if world.leader is None:
        reached = len(world.reached) == len(world.nodes)
        knows_none = all(not node.up or (not node.leads and node.leader is None) for node in world.nodes)
        waits = all(node.up and not node.leads for node in world.nodes)
        yield Condition("no-leader", "quorum", reached and (knows_none or waits))


def views_disagree(world: SimulatedWorld) -> Iterator[Condition]:
    reached = {node.id for node in world.reached}
    for node, since_ms in world.disagrees_since_ms.items():
        lasts = world.now_ms - since_ms > VIEWS_MS
        yield Condition(
            "views-disagree", f"controller {node}", world.reportable and node in reached and lasts, since_ms
        )


def raft_invariant_broken(world: SimulatedWorld) -> Iterator[Condition]:
    for at_ms in world.gatherer.false_polls:
        age_ms = world.now_ms - at_ms
        if age_ms <= KEPT_MS + SLACK_MS:
            yield Condition("raft-invariant-broken", "two-leaders", age_ms <= KEPT_MS - SLACK_MS)


def certificate_expiring(world: SimulatedWorld) -> Iterator[Condition]:
    gatherer = world.gatherer
    if gatherer.faults.certificates_expire_at_ms is None:
        return
    reached = any(
        node in world.reached and node.endpoint == endpoint and endpoint not in world.network.endpoint_states
        for node, endpoint in gatherer.recorded()
    )
    must = reached and world.reportable and not gatherer.faults.resolver_fails
    yield Condition("certificate-expiring", "certificates", must)


def stale_voter_endpoint(world: SimulatedWorld) -> Iterator[Condition]:
    yield from _surely_stale(world)
    observed, committed = world.observed.oracle, world.committed
    votes = (committed.voters or frozenset()) & (observed.voters or frozenset())
    led = any(node.leads for node in world.nodes)
    for node, endpoint in world.gatherer.recorded():
        registered = observed.controllers.get(node.id, ("", node.endpoint))[1]
        sound = node.endpoint == endpoint == registered and endpoint not in world.network.endpoint_states
        if not sound or node.voter.key not in votes or (not node.up and not led):
            yield Condition("stale-voter-endpoint", f"voter {node.id}", must=False)


def _surely_stale(world: SimulatedWorld) -> Iterator[Condition]:
    leader = world.settled_leader
    if leader is None:
        return
    probed = world.gatherer.recorded()
    for key, endpoint in world.observed.oracle.endpoints.items():
        node = world.nodes[key.id - 1]
        if (node, endpoint) not in probed or world.gatherer.faults.resolver_fails:
            continue
        place = world.network.endpoint_states.get(endpoint)
        fetches = node is leader or (node.key == key and leader.is_fetching(node.key, world.now_ms))
        lives_elsewhere = place is EndpointState.CLOSED or node.endpoint != endpoint
        # Other rules report a voter that does not fetch and has no name, unless no leader could be elected.
        unresolved = place is EndpointState.NAME_NOT_FOUND and fetches
        lives_elsewhere = lives_elsewhere and fetches and node in world.reached and node.up
        if unresolved or lives_elsewhere or place is EndpointState.TAKEN:
            yield Condition("stale-voter-endpoint", f"voter {node.id}", which=endpoint)
