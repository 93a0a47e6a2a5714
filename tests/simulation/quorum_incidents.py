"""Incidents of controllers, their disks and endpoints, brokers as observers, and the monitor's own host."""

from collections.abc import Iterator

from rules.model.identifiers import Millis, NodeId
from tests.simulation.gatherer import MONITOR_ID
from tests.simulation.incident_scene import NOTICED_MS, IncidentScene, fires_within
from tests.simulation.metadata_incidents import HOUR_MS
from tests.simulation.network import EndpointState
from tests.simulation.simulated_thresholds import BROKER_LAG_S, FETCH_AGE_S, KEEP_FIRING_S, STILL_S

DAY_MS = 86_400_000
CERTAIN_S = FETCH_AGE_S + 12.0
RESTORED_RECORDS = 30


def stop_reserve(scene: IncidentScene) -> Iterator[int]:
    """Exactly a majority keeps running."""
    stopped = scene.followers[: (len(scene.followers) + 1) // 2]
    for node in stopped:
        node.stop()
    yield fires_within("failure-tolerance", CERTAIN_S)
    for node in stopped:
        node.start(scene.now_ms)


def stop_voter(scene: IncidentScene) -> Iterator[int]:
    node = scene.followers[0]
    node.stop()
    yield fires_within("voter-lagging", CERTAIN_S)
    node.start(scene.now_ms)


def fill_disks(scene: IncidentScene) -> Iterator[int]:
    """The followers fetch and cannot append: the leader stays, and nothing is committed."""
    followers = scene.followers
    for node in followers:
        node.disk_full = True
    yield fires_within("high-watermark-stalled", STILL_S)
    for node in followers:
        node.disk_full = False


def block_voter_change(scene: IncidentScene) -> Iterator[int]:
    leader, followers = scene.leader, scene.followers
    for node in followers:
        node.disk_full = True
    left = tuple(voter for voter in leader.log.voters if voter.key != followers[0].key)
    assert leader.change_voters(scene.now_ms, left)
    yield fires_within("voter-change-stuck")
    for node in followers:
        node.disk_full = False
    yield 5_000


def cut_monitor_off(scene: IncidentScene) -> Iterator[int]:
    scene.simulation.network.one_way |= {(MONITOR_ID, node.id) for node in scene.simulation.nodes}
    yield fires_within("monitor-blind")
    scene.simulation.network.one_way.clear()


def deny_log(scene: IncidentScene) -> Iterator[int]:
    scene.simulation.gatherer.faults.log_denied = True
    yield fires_within("monitor-blind") + 10_000
    scene.simulation.gatherer.faults.log_denied = False


def break_resolver(scene: IncidentScene) -> Iterator[int]:
    scene.simulation.gatherer.faults.resolver_fails = True
    yield fires_within("monitor-blind")
    scene.simulation.gatherer.faults.resolver_fails = False
    yield 10_000


def separate_controllers(scene: IncidentScene) -> Iterator[int]:
    scene.cut_off(*scene.simulation.nodes)
    yield fires_within("no-leader") + 10_000
    scene.simulation.network.one_way.clear()
    yield 10_000


def isolate_voter(scene: IncidentScene) -> Iterator[int]:
    scene.cut_off(scene.followers[0])
    yield fires_within("views-disagree") + 15_000
    scene.simulation.network.one_way.clear()
    yield 5_000


def clone_disk(scene: IncidentScene) -> Iterator[int]:
    """A new controller is started on a copy of another one's disk; later its own directory is formatted."""
    clone = scene.simulation.fault_injection.add_controller(scene.now_ms, copy_of=scene.followers[0])
    yield fires_within("node-records-conflict") + 5_000
    clone.lose_disk(f"dir{clone.id}")
    clone.start(scene.now_ms)
    yield 5_000


def change_protocol(scene: IncidentScene) -> Iterator[int]:
    node = scene.followers[0]
    before, node.protocol = node.protocol, "PLAINTEXT"
    scene.restart(node)
    yield fires_within("node-records-conflict") + 10_000
    node.protocol = before
    scene.restart(node)
    yield 5_000


def add_observer(scene: IncidentScene) -> Iterator[int]:
    scene.simulation.fault_injection.add_controller(scene.now_ms)
    yield fires_within("observer-could-be-voter") + 10_000


def set_leader_clock(scene: IncidentScene) -> Iterator[int]:
    """The clock of the leader's host is set some hours ahead or back. No age may change."""
    leader = scene.leader
    leader.clock_ahead_ms = scene.random.choice((3, -2)) * 3_600_000
    yield fires_within("leader-clock-skew") + 10_000
    leader.clock_ahead_ms = 0
    yield 5_000


def stop_broker_fetches(scene: IncidentScene) -> Iterator[int]:
    broker = scene.random.choice(scene.simulation.brokers)
    broker.fetches = False
    yield fires_within("observer-lagging", CERTAIN_S)
    broker.fetches = True
    yield 1_000


def stop_broker_progress(scene: IncidentScene) -> Iterator[int]:
    broker = scene.random.choice(scene.simulation.brokers)
    broker.applies = False
    yield fires_within("observer-lagging", BROKER_LAG_S + 15.0)
    broker.applies = True
    yield 1_000


def remove_voter(scene: IncidentScene) -> Iterator[int]:
    leader, removed = scene.leader, scene.followers[0]
    left = tuple(voter for voter in leader.log.voters if voter.key != removed.key)
    assert leader.change_voters(scene.now_ms, left)
    yield fires_within("quorum-shape") + 5_000


def impersonate_leader(scene: IncidentScene) -> Iterator[int]:
    simulation, other = scene.simulation, scene.followers[0]
    simulation.ground_truth.claimed_leaders.add((scene.leader.epoch, other.id))
    simulation.gatherer.faults.impostor = NodeId(other.id)
    yield 3_000
    simulation.gatherer.faults.impostor = None
    yield fires_within("raft-invariant-broken")
    simulation.suspend(HOUR_MS)
    yield NOTICED_MS


def break_endpoint(scene: IncidentScene) -> Iterator[int]:
    endpoint = scene.followers[0].endpoint
    scene.simulation.network.endpoint_states[endpoint] = scene.random.choice([*EndpointState])
    yield fires_within("stale-voter-endpoint") + 5_000
    del scene.simulation.network.endpoint_states[endpoint]
    yield 5_000


def let_certificates_expire(scene: IncidentScene) -> Iterator[int]:
    """The certificates of all controllers expire in some days, and are renewed."""
    scene.simulation.gatherer.faults.certificates_expire_at_ms = Millis(
        scene.now_ms + scene.random.randint(1, 13) * DAY_MS
    )
    yield fires_within("certificate-expiring") + 5_000
    scene.simulation.gatherer.faults.certificates_expire_at_ms = None
    yield 10_000


def replace_disk(scene: IncidentScene) -> Iterator[int]:
    node = scene.followers[0]
    node.lose_disk(f"{node.directory}-{scene.at.offset}")
    node.start(scene.now_ms)
    yield fires_within("voter-disk-replaced", CERTAIN_S)


def restore_log(scene: IncidentScene) -> Iterator[int]:
    """A voter's directory is restored from an older copy, and it catches up slowly."""
    yield RESTORED_RECORDS * 1_000
    node = scene.followers[0]
    node.stop()
    end = len(node.log) - RESTORED_RECORDS
    node.log.truncate(end)
    node.snapshots.end_offset = min(end, node.snapshots.end_offset)
    node.disk_full = True
    node.start(scene.now_ms)
    yield 12_000
    node.disk_full = False
    yield fires_within("voter-log-regressed")
    yield int(KEEP_FIRING_S * 1_000) - 30_000
