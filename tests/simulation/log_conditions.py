"""Conditions that rules find in the metadata log, by the ground truth."""

from collections.abc import Iterator

from tests.simulation.condition import Condition
from tests.simulation.observed_log import ObservedLog
from tests.simulation.oracle import Oracle, RegisteredFeatures
from tests.simulation.simulated_thresholds import (
    CHURN_ELECTIONS,
    CHURN_WINDOW_S,
    DUPLICATE_WINDOW_S,
    EPOCH_JUMP,
    FENCINGS,
    FINALIZE_S,
    FLAPPING_WINDOW_S,
    HOLD_S,
    KEEP_FIRING_S,
    RESTART_WINDOW_S,
    RESTARTS,
    SNAPSHOT_AGE_S,
)
from tests.simulation.simulated_world import SimulatedWorld

SLACK_MS = 15_000
"""Leaders' clocks differ by at most ten seconds, and the gatherer may read the log later."""
KEPT_MS = 3_600_000
"""How long the product remembers an event that nothing undoes."""
UPGRADES_KRAFT = 26
"""The first metadata.version that can upgrade kraft.version."""


def broker_fenced(world: SimulatedWorld) -> Iterator[Condition]:
    observed, committed = world.observed.oracle, world.committed
    for broker, (incarnation, fenced, _) in observed.brokers.items():
        if fenced:
            yield Condition("broker-fenced", f"broker {broker}", world.reportable, incarnation)
    for broker, (_, fenced, _) in committed.brokers.items():
        if fenced:
            yield Condition("broker-fenced", f"broker {broker}", must=False)


def broker_flapping(world: SimulatedWorld) -> Iterator[Condition]:
    observed, window_ms = world.observed, int(FLAPPING_WINDOW_S * 1_000)
    for broker in observed.oracle.brokers:
        ages = [observed.newest_ms - at_ms for node, at_ms in observed.fencings if node == broker]
        restarted = {one.timestamp_ms for one in observed.starts if (one.role, one.node) == ("broker", broker)}
        if sum(age <= window_ms + SLACK_MS for age in ages) >= FENCINGS:
            sure = [age for age in ages if age <= window_ms - SLACK_MS]
            # A broker that is fenced now may be restarting.
            by_heartbeats = any(observed.newest_ms - age not in restarted for age in sure[:-1])
            must = world.reportable and len(sure) >= FENCINGS and by_heartbeats
            yield Condition("broker-flapping", f"broker {broker}", must)


def open_transaction(world: SimulatedWorld) -> Iterator[Condition]:
    observed, committed = world.observed.oracle.transaction, world.committed.transaction
    if observed is not None:
        yield Condition("open-transaction", "metadata log", world.reportable, observed.offset)
    if committed is not None:
        yield Condition("open-transaction", "metadata log", must=False)


def partition_stuck_recovering(world: SimulatedWorld) -> Iterator[Condition]:
    observed = world.observed.oracle
    for (topic, partition), one in observed.recovering.items():
        subject = f"topic {observed.topics[topic]}"
        yield Condition("partition-stuck-recovering", subject, world.reportable, (topic, partition, one.since))
    # The hold counts from the record, also if its transaction ends later.
    effective = world.committed.with_transaction_applied()
    for topic, _ in effective.recovering:
        yield Condition("partition-stuck-recovering", f"topic {effective.topics[topic]}", must=False)


def recovery_invariant_broken(world: SimulatedWorld) -> Iterator[Condition]:
    for known, must in ((world.observed.oracle, world.reportable), (world.committed, False)):
        for (topic, partition), one in known.recovering.items():
            if len(one.isr) > 1 or (one.leader is not None and one.isr != (one.leader,)):
                yield Condition("recovery-invariant-broken", f"topic {known.topics[topic]}", must, (topic, partition))


def unclean_election(world: SimulatedWorld) -> Iterator[Condition]:
    newest = world.observed.newest_ms
    for known, must in ((world.observed.unclean, world.reportable), (world.committed.unclean, False)):
        for topic_id, (topic, at_ms) in known.items():
            sure = must and newest - at_ms <= KEEP_FIRING_S * 1_000 - SLACK_MS
            read_ms = max(at_ms, world.observed.unclean_read_ms.get(topic_id, 0))
            if sure or newest - read_ms <= KEEP_FIRING_S * 1_000 + SLACK_MS:
                yield Condition("unclean-election", f"topic {topic}", sure, topic)


def node_restarting(world: SimulatedWorld) -> Iterator[Condition]:
    observed, window_ms = world.observed, int(RESTART_WINDOW_S * 1_000)

    def enough(times: list[int], ms: int) -> bool:
        groups = zip(times, times[RESTARTS - 1 :], strict=False)
        return any(last - first <= ms and observed.newest_ms - last <= ms for first, last in groups)

    starts: dict[tuple[str, int], list[int]] = {}
    for one in observed.starts:
        if not one.first:
            starts.setdefault((one.role, one.node), []).append(one.timestamp_ms)
    for (role, node), times in starts.items():
        if enough(times, window_ms + SLACK_MS):
            must = world.reportable and enough(times, window_ms - SLACK_MS)
            yield Condition("node-restarting", f"{role} {node}", must)


def duplicate_node_id(world: SimulatedWorld) -> Iterator[Condition]:
    observed, window_ms = world.observed, int(DUPLICATE_WINDOW_S * 1_000)
    for node, at_ms in observed.returned.items():
        age_ms = observed.newest_ms - at_ms
        if age_ms <= window_ms + SLACK_MS:
            yield Condition("duplicate-node-id", f"node {node}", world.reportable and age_ms <= window_ms - SLACK_MS)
    recent = [key.id for key in world.fetched_ms if (world.fetch_age_ms(key) or 0) <= SLACK_MS]
    for node in {one for one in recent if recent.count(one) > 1}:
        yield Condition("duplicate-node-id", f"node {node}", must=False)


def _explained(observed: ObservedLog) -> set[int]:
    """Returns the offsets of the elections that the start of the controller that lost or won them explains."""
    explained: set[int] = set()
    for start in observed.starts:
        earlier = [one for one in observed.elections if one.offset < start.offset and start.role == "controller"]
        if earlier and earlier[-1].leader == start.node:
            explained.add(earlier[-1].offset)
        lost = [one.offset for one in earlier if one.previous == start.node]
        explained.update(lost[-1:])
    return explained


def epoch_churn(world: SimulatedWorld) -> Iterator[Condition]:
    observed, window_ms = world.observed, int(CHURN_WINDOW_S * 1_000)
    explained = _explained(observed)
    times = {one.offset: (one.timestamp_ms, one.previous) for one in observed.elections if one.offset not in explained}
    most = sum(at >= observed.newest_ms - window_ms - SLACK_MS for at, _ in times.values())
    least = sum(at >= observed.newest_ms - window_ms + SLACK_MS for at, who in times.values() if who is not None)
    if most >= CHURN_ELECTIONS:
        must = world.reportable and least >= CHURN_ELECTIONS and bool(observed.oracle.controllers)
        yield Condition("epoch-churn", "quorum", must)
    for one in observed.elections:
        age_ms = observed.newest_ms - one.timestamp_ms
        if one.skipped >= EPOCH_JUMP and one.skipped * 1_000 > one.after_ms and age_ms <= window_ms + SLACK_MS:
            yield Condition("epoch-churn", f"epoch {one.epoch}", world.reportable and age_ms <= window_ms - SLACK_MS)


def forced_reconfiguration(world: SimulatedWorld) -> Iterator[Condition]:
    for offset, at_ms in world.observed.forced.items():
        age_ms = world.observed.newest_ms - at_ms
        if age_ms <= KEEP_FIRING_S * 1_000 + SLACK_MS:
            must = world.reportable and age_ms <= KEEP_FIRING_S * 1_000 - SLACK_MS
            yield Condition("forced-reconfiguration", f"voter set at offset {offset}", must)


def version_drift(world: SimulatedWorld) -> Iterator[Condition]:
    yield from _drift(world, world.observed.oracle, world.reportable)
    yield from _drift(world, world.committed, must=False)


def _drift(world: SimulatedWorld, known: Oracle, must: bool) -> Iterator[Condition]:
    features = known.features
    levels = {**known.levels, **({"kraft.version": known.kraft_version} if known.kraft_version else {})}
    for (role, node), one in features.items():
        if any(not _supports(one, name, level) for name, level in levels.items()):
            yield Condition("version-drift", f"{role} {node}", must)
    if len({one.supported for one in features.values()}) > 1:
        yield Condition("version-drift", "nodes", must)
        return
    age_ms = world.observed.newest_ms - max((one.since_ms for one in features.values()), default=0)
    # By the log's clock the hold has passed when the level can be finalized: it began that much earlier.
    if not features or age_ms < (FINALIZE_S - HOLD_S["version-drift"]) * 1_000 - SLACK_MS:
        return
    # A registration that was read in a snapshot has the time of the snapshot.
    must = must and age_ms >= FINALIZE_S * 1_000 + SLACK_MS and not world.gatherer.snapshots
    highest = _highest(next(iter(features.values())), "metadata.version")
    if highest > known.levels.get("metadata.version", highest):
        yield Condition("version-drift", "metadata.version", must)
    if known.kraft_version == 0 and highest >= UPGRADES_KRAFT and known.controllers:
        yield Condition("version-drift", "kraft.version", must)


def _supports(node: RegisteredFeatures, name: str, level: int) -> bool:
    return any(one.name == name and one.lowest <= level <= one.highest for one in node.supported)


def _highest(node: RegisteredFeatures, name: str) -> int:
    return max((one.highest for one in node.supported if one.name == name), default=0)


def snapshot_stale(world: SimulatedWorld) -> Iterator[Condition]:
    for node in world.nodes:
        log = node.log
        if not node.leads or not log.entries:
            continue
        end = node.snapshots.newest_end(log)
        registered = world.observed.oracle.features.get(("controller", node.id))
        started_ms = registered.registered_ms if registered else 0
        age_ms = world.observed.newest_ms - max(log.entries[max(0, end - 1)].timestamp_ms, started_ms)
        if age_ms > SNAPSHOT_AGE_S * 1_000 - SLACK_MS:
            must = world.reportable and node is world.leader and age_ms > SNAPSHOT_AGE_S * 1_000 + SLACK_MS
            yield Condition("snapshot-stale", "metadata log", must)


def data_contract_broken(world: SimulatedWorld) -> Iterator[Condition]:
    for at_ms in world.gatherer.undecodable:
        age_ms = world.now_ms - at_ms
        if age_ms <= KEEP_FIRING_S * 1_000 + SLACK_MS:
            must = age_ms <= KEEP_FIRING_S * 1_000 - SLACK_MS
            yield Condition("data-contract-broken", "every-record-decodes", must)


def committed_metadata_lost(world: SimulatedWorld) -> Iterator[Condition]:
    for at_ms in world.lost_ms:
        age_ms = world.now_ms - at_ms
        if age_ms <= KEPT_MS + SLACK_MS:
            yield Condition("committed-metadata-lost", "metadata log", age_ms <= KEPT_MS - SLACK_MS)
