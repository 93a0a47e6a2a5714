"""Conditions that rules find in polls of the quorum and in the voter set, by the ground truth."""

from collections.abc import Iterator

from rules.model.identifiers import ReplicaKey
from tests.simulation.condition import Condition
from tests.simulation.controller import SimulatedController
from tests.simulation.gatherer import OBSERVED_MS
from tests.simulation.simulated_thresholds import (
    BROKER_LAG_S,
    FETCH_AGE_S,
    KEEP_FIRING_S,
    REMOVED_FOR_S,
    SKEW_S,
    STILL_S,
)
from tests.simulation.simulated_world import SimulatedWorld

SURE_MS = int(FETCH_AGE_S * 1_000) + 12_000
"""A replica that has not fetched, or not caught up, for so long counts as such in every poll, whatever the clocks."""
MAYBE_MS = 3_000
"""One that has not for so long may count as such in a poll."""
CLOCKS_MS = 15_000
"""The leader's and the monitor's clock may change by so much, and a poll may be delivered late."""


def _silent(world: SimulatedWorld, key: ReplicaKey) -> bool:
    """Returns whether this replica counts as not fetching in every poll."""
    age_ms = world.fetch_age_ms(key)
    return age_ms is None or age_ms > SURE_MS


def _caught_up_age_ms(world: SimulatedWorld, leader: SimulatedController, key: ReplicaKey) -> int | None:
    progress = leader.progress.get(key)
    if progress is None or not progress.caught_up_at_ms:
        return None
    return world.now_ms + leader.skew_ms - progress.caught_up_at_ms


def _surely_missing(world: SimulatedWorld, leader: SimulatedController) -> set[ReplicaKey]:
    """Returns the voters of the leader's set that are in sync in no poll."""
    nodes = {node.key: node for node in world.nodes}
    missing = set()
    for key in leader.log.keys - {leader.key}:
        node, age_ms = nodes.get(key), _caught_up_age_ms(world, leader, key)
        lags = node is not None and node.disk_full and world.now_ms - leader.led_since_ms > SURE_MS
        if _silent(world, key) or (lags and (age_ms is None or age_ms > SURE_MS)):
            missing.add(key)
    return missing


def _maybe_missing(world: SimulatedWorld, leader: SimulatedController) -> set[ReplicaKey]:
    """Returns the voters of the leader's set that a poll may show as not in sync."""
    missing = set()
    for key in leader.log.keys - {leader.key}:
        fetched_ms, caught_up_ms = world.fetch_age_ms(key), _caught_up_age_ms(world, leader, key)
        if fetched_ms is None or fetched_ms > MAYBE_MS or caught_up_ms is None or caught_up_ms > MAYBE_MS:
            missing.add(key)
    return missing


def _replaced(world: SimulatedWorld, key: ReplicaKey) -> bool:
    """Returns whether the node of this voter has another directory now."""
    return any(node.id == key.id and node.key != key for node in world.nodes)


def failure_tolerance(world: SimulatedWorld) -> Iterator[Condition]:
    leader = world.leader
    if leader is None:
        return
    voters, surely, maybe = len(leader.log.keys), _surely_missing(world, leader), _maybe_missing(world, leader)
    needed = voters // 2 + 1
    if maybe and voters - len(maybe) <= needed:
        present = any(not _replaced(world, key) for key in surely)
        yield Condition("failure-tolerance", "quorum", world.reportable and present and voters - len(surely) <= needed)


def voter_lagging(world: SimulatedWorld) -> Iterator[Condition]:
    leader = world.leader
    if leader is None:
        return
    surely = _surely_missing(world, leader)
    for key in _maybe_missing(world, leader):
        must = world.reportable and key in surely and not _replaced(world, key)
        yield Condition("voter-lagging", f"voter {key.id}", must, key)


def high_watermark_stalled(world: SimulatedWorld) -> Iterator[Condition]:
    leader, moved_ms = world.leader, world.hw_moved_ms
    if leader is None or moved_ms is None:
        return
    still_ms = world.now_ms - moved_ms
    if max(still_ms, world.now_ms - world.committed_moved_ms) > STILL_S * 1_000 - 5_000:
        must = world.reportable and len(leader.log) > leader.high_watermark and still_ms > STILL_S * 1_000
        yield Condition("high-watermark-stalled", "quorum", must)


def leader_clock_skew(world: SimulatedWorld) -> Iterator[Condition]:
    leader = world.leader
    if leader is None:
        return
    skew_ms = abs(leader.skew_ms + leader.clock_ahead_ms - world.gatherer.skew_ms)
    if skew_ms > SKEW_S * 1_000 - CLOCKS_MS:
        must = world.reportable and skew_ms > SKEW_S * 1_000 + CLOCKS_MS
        yield Condition("leader-clock-skew", f"controller {leader.id}", must)


def voter_disk_replaced(world: SimulatedWorld) -> Iterator[Condition]:
    observed, leader = world.observed, world.leader
    voters, committed = observed.oracle.voters or frozenset(), world.committed.voters or frozenset()
    removed = observed.removed.keys()
    for node in world.nodes:
        former = [key for key in (*voters, *committed, *removed) if key.id == node.id and key != node.key]
        if not former:
            continue
        fetches = leader is not None and leader.is_fetching(node.key, world.now_ms)
        pending = leader is None or node.key in leader.log.keys
        half_done = all(key.id != node.id for key in voters) and any(key.id == node.id for key in removed)
        must = fetches and not pending and (half_done or any(key in voters and _silent(world, key) for key in former))
        half = half_done and any(key in removed for key in former)
        must = must and (half or not half_done)
        yield Condition("voter-disk-replaced", f"controller {node.id}", world.reportable and must, node.directory)


def observer_could_be_voter(world: SimulatedWorld) -> Iterator[Condition]:
    observed, leader = world.observed, world.leader
    voters, committed = observed.oracle.voters or frozenset(), world.committed.voters or frozenset()
    for node in world.nodes:
        if node.key in voters & committed:
            continue
        ids = {key.id for key in voters | (leader.log.keys if leader else frozenset())}
        removed_ms = {key: at for key, at in observed.removed.items() if key.id == node.id}
        since_removed_ms = world.now_ms - removed_ms.get(node.key, -(10**12))
        waits = (
            leader is not None
            and observed.oracle.voters is not None
            and node.id in observed.oracle.controllers
            and node.id not in ids
            and not removed_ms.keys() - {node.key}
            and since_removed_ms > REMOVED_FOR_S * 1_000 + CLOCKS_MS
            and leader.is_fetching(node.key, world.now_ms)
        )
        yield Condition("observer-could-be-voter", f"observer {node.key}", world.reportable and waits)


def observer_lagging(world: SimulatedWorld) -> Iterator[Condition]:
    leader = world.leader
    alive = {
        broker
        for known in (world.observed.oracle, world.committed)
        for broker, (_, fenced, _) in known.brokers.items()
        if not fenced
    }
    for broker in world.brokers:
        progress = leader.progress.get(broker.key) if leader is not None else None
        if leader is None or broker.id not in alive:
            continue
        if progress is None:
            # The leader does not list it: it counts as not fetching when that lasts.
            yield Condition("observer-lagging", f"broker {broker.id}", must=False)
            continue
        clock = world.now_ms + leader.skew_ms
        fetched_ms, lag_ms = clock - progress.fetched_at_ms, clock - progress.caught_up_at_ms
        if fetched_ms <= MAYBE_MS and lag_ms <= BROKER_LAG_S * 1_000 - CLOCKS_MS:
            continue
        registered = world.observed.oracle.brokers.get(broker.id)
        listed = fetched_ms < OBSERVED_MS - CLOCKS_MS
        sure = listed and (fetched_ms > SURE_MS or lag_ms > BROKER_LAG_S * 1_000 + CLOCKS_MS)
        must = world.reportable and sure and registered is not None and not registered[1]
        yield Condition("observer-lagging", f"broker {broker.id}", must)


def ghost_registration(world: SimulatedWorld) -> Iterator[Condition]:
    leader, observed = world.leader, world.observed.oracle
    observed_ids = {key.id for key in observed.voters or ()}
    committed_ids = {key.id for key in world.committed.voters or ()}
    if observed.voters is None or world.committed.voters is None:
        observed_ids = committed_ids = {node.key.id for node in world.nodes}
    for node in {*observed.controllers, *world.committed.controllers} - (observed_ids & committed_ids):
        keys = [key for key in world.fetched_ms if key.id == node]
        last_ms = min((world.fetch_age_ms(key) or 0 for key in keys), default=None)
        voting = observed_ids | ({key.id for key in leader.log.keys} if leader else set())
        absent = node not in voting and (last_ms is None or last_ms > OBSERVED_MS + CLOCKS_MS)
        yield Condition("ghost-registration", f"controller {node}", world.reportable and absent)


def voter_change_stuck(world: SimulatedWorld) -> Iterator[Condition]:
    observed, leader = world.observed.oracle, world.leader
    if leader is None or observed.voters is None or leader.log.static:
        return
    latest = {voter.key: voter.endpoints[0] for voter in leader.log.voters}
    if latest != observed.endpoints:
        which = (leader.epoch, leader.log.sets[-1][0])
        yield Condition("voter-change-stuck", "quorum", world.reportable, which)


def voter_log_regressed(world: SimulatedWorld) -> Iterator[Condition]:
    leader = world.leader
    for key, (at_ms, acknowledged) in world.regressed.items():
        age_ms = world.now_ms - at_ms
        progress = leader.progress.get(key) if leader is not None else None
        behind = progress is None or progress.end_offset < acknowledged
        if age_ms > KEEP_FIRING_S * 1_000 + CLOCKS_MS and not behind:
            continue
        listed = leader is not None and key in leader.log.keys
        must = world.reportable and listed and age_ms <= KEEP_FIRING_S * 1_000 - CLOCKS_MS
        yield Condition("voter-log-regressed", f"voter {key.id}", must, key)


def quorum_shape(world: SimulatedWorld) -> Iterator[Condition]:
    leader = world.leader
    latest = leader.log.keys if leader is not None else None
    observed = latest if world.observed.oracle.voters is None else world.observed.oracle.voters
    for voters, must in ((observed, world.reportable), (world.committed.voters, False), (latest, False)):
        if voters is not None and (len(voters) in (1, 2) or len(voters) % 2 == 0 or len(voters) > 7):
            yield Condition("quorum-shape", "quorum", must)


def node_records_conflict(world: SimulatedWorld) -> Iterator[Condition]:
    yield from _cloned_directories(world)
    yield from _other_protocols(world)


def _cloned_directories(world: SimulatedWorld) -> Iterator[Condition]:
    leader = world.leader
    for node in world.nodes:
        clones = [other for other in world.nodes if other.directory == node.directory]
        if len(clones) > 1 and leader is not None:
            fetching = [one is leader or leader.is_fetching(one.key, world.now_ms) for one in clones]
            must = world.reportable and all(fetching) and world.observed.oracle.voters is not None
            yield Condition("node-records-conflict", f"directory {node.directory}", must)


def _other_protocols(world: SimulatedWorld) -> Iterator[Condition]:
    for known, must in ((world.observed.oracle, world.reportable), (world.committed, False)):
        registered = {
            key.id: known.controllers[key.id][1].protocol for key in known.voters or () if key.id in known.controllers
        }
        protocols = list(registered.values())
        for node, protocol in registered.items():
            if len({*protocols}) > 1:
                minority = 2 * protocols.count(protocol) < len(protocols)
                yield Condition("node-records-conflict", f"voter {node}", must and minority)
