"""Incidents of controllers, their disks and endpoints, brokers as observers, and the monitor's own host."""

from collections.abc import Iterator

from rules.model.identifiers import Millis, NodeId
from tests.simulation.gatherer import MONITOR_ID
from tests.simulation.incident_trace import NOTICED_MS, IncidentScene, incident
from tests.simulation.metadata_incidents import HOUR_MS
from tests.simulation.network import EndpointState
from tests.simulation.simulated_thresholds import KEEP_FIRING_S

DAY_MS = 86_400_000
CERTAIN_S = 22.0
"""How long it takes until a replica that does not fetch counts as such in every poll."""
RESTORED_RECORDS = 30


@incident("failure-tolerance", static=True)
def stop_reserve(scene: IncidentScene) -> Iterator[int]:
    """Exactly a majority keeps running."""
    stopped = scene.followers[: (len(scene.followers) + 1) // 2]
    for node in stopped:
        node.stop()
    yield scene.fires("failure-tolerance", "quorum", after_s=CERTAIN_S)
    for node in stopped:
        node.start(scene.now_ms)


@incident("voter-lagging", controllers=(5,), static=True)
def stop_voter(scene: IncidentScene) -> Iterator[int]:
    node = scene.followers[0]
    node.stop()
    yield scene.fires("voter-lagging", f"voter {node.id}", after_s=CERTAIN_S)
    node.start(scene.now_ms)


@incident("high-watermark-stalled", static=True)
def fill_disks(scene: IncidentScene) -> Iterator[int]:
    """The followers fetch and cannot append: the leader stays, and nothing is committed."""
    followers = scene.followers
    for node in followers:
        node.disk_full = True
    yield scene.fires("high-watermark-stalled", "quorum", after_s=10.0)
    for node in followers:
        node.disk_full = False


@incident("voter-change-stuck")
def block_voter_change(scene: IncidentScene) -> Iterator[int]:
    leader, followers = scene.leader, scene.followers
    for node in followers:
        node.disk_full = True
    left = tuple(voter for voter in leader.log.voters if voter.key != followers[0].key)
    assert leader.change_voters(scene.now_ms, left)
    yield scene.fires("voter-change-stuck", "quorum")
    for node in followers:
        node.disk_full = False
    yield 5_000


@incident("monitor-blind", static=True)
def cut_monitor_off(scene: IncidentScene) -> Iterator[int]:
    scene.simulation.network.one_way |= {(MONITOR_ID, node.id) for node in scene.simulation.nodes}
    yield scene.fires("monitor-blind", "quorum")
    scene.simulation.network.one_way.clear()


@incident("monitor-blind", static=True)
def deny_log(scene: IncidentScene) -> Iterator[int]:
    scene.simulation.gatherer.faults.log_denied = True
    yield scene.fires("monitor-blind", "quorum") + 10_000
    scene.simulation.gatherer.faults.log_denied = False


@incident("monitor-blind")
def break_resolver(scene: IncidentScene) -> Iterator[int]:
    scene.simulation.gatherer.faults.resolver_fails = True
    yield scene.fires("monitor-blind", "names")
    scene.simulation.gatherer.faults.resolver_fails = False
    yield 10_000


@incident("no-leader", static=True)
def separate_controllers(scene: IncidentScene) -> Iterator[int]:
    scene.cut_off(*scene.simulation.nodes)
    yield scene.fires("no-leader", "quorum") + 10_000
    scene.simulation.network.one_way.clear()
    yield 10_000


@incident("views-disagree", static=True, also=("voter-lagging", "failure-tolerance"))
def isolate_voter(scene: IncidentScene) -> Iterator[int]:
    node = scene.followers[0]
    scene.cut_off(node)
    yield scene.fires("views-disagree", f"controller {node.id}", after_s=15.0)
    scene.simulation.network.one_way.clear()
    yield 5_000


@incident("node-records-conflict", controllers=(3,), also=("observer-could-be-voter",))
def clone_disk(scene: IncidentScene) -> Iterator[int]:
    """A new controller is started on a copy of another one's disk; later its own directory is formatted."""
    clone = scene.simulation.fault_injection.add_controller(scene.now_ms, copy_of=scene.followers[0])
    yield scene.fires("node-records-conflict", f"directory {clone.directory}", after_s=5.0)
    clone.lose_disk(f"dir{clone.id}")
    clone.start(scene.now_ms)
    yield 5_000


@incident("node-records-conflict")
def change_protocol(scene: IncidentScene) -> Iterator[int]:
    node = scene.followers[0]
    before, node.protocol = node.protocol, "PLAINTEXT"
    scene.restart(node)
    yield scene.fires("node-records-conflict", f"voter {node.id}", after_s=10.0)
    node.protocol = before
    scene.restart(node)
    yield 5_000


@incident("observer-could-be-voter", controllers=(3,))
def add_observer(scene: IncidentScene) -> Iterator[int]:
    observer = scene.simulation.fault_injection.add_controller(scene.now_ms)
    yield scene.fires("observer-could-be-voter", f"observer {observer.key}", after_s=10.0)


@incident("leader-clock-skew", static=True)
def set_leader_clock(scene: IncidentScene) -> Iterator[int]:
    """The clock of the leader's host is set some hours ahead or back. No age may change."""
    leader = scene.leader
    leader.clock_ahead_ms = scene.random.choice((3, -2)) * 3_600_000
    yield scene.fires("leader-clock-skew", f"controller {leader.id}", after_s=10.0)
    leader.clock_ahead_ms = 0
    yield 5_000


@incident("observer-lagging", static=True)
def stop_broker_fetches(scene: IncidentScene) -> Iterator[int]:
    broker = scene.random.choice(scene.simulation.brokers)
    broker.fetches = False
    yield scene.fires("observer-lagging", f"broker {broker.id}", after_s=CERTAIN_S)
    broker.fetches = True
    yield 1_000


@incident("observer-lagging", static=True)
def stop_broker_progress(scene: IncidentScene) -> Iterator[int]:
    broker = scene.random.choice(scene.simulation.brokers)
    broker.applies = False
    yield scene.fires("observer-lagging", f"broker {broker.id}", after_s=45.0)
    broker.applies = True
    yield 1_000


@incident("quorum-shape", also=("observer-could-be-voter",))
def remove_voter(scene: IncidentScene) -> Iterator[int]:
    leader, removed = scene.leader, scene.followers[0]
    left = tuple(voter for voter in leader.log.voters if voter.key != removed.key)
    assert leader.change_voters(scene.now_ms, left)
    yield scene.fires("quorum-shape", "quorum", after_s=5.0)


@incident("raft-invariant-broken", static=True)
def impersonate_leader(scene: IncidentScene) -> Iterator[int]:
    simulation, other = scene.simulation, scene.followers[0]
    simulation.gatherer.faults.impostor = NodeId(other.id)
    yield 3_000
    simulation.gatherer.faults.impostor = None
    yield scene.fires("raft-invariant-broken", "two-leaders")
    simulation.suspend(HOUR_MS)
    yield NOTICED_MS


@incident("stale-voter-endpoint")
def break_endpoint(scene: IncidentScene) -> Iterator[int]:
    node = scene.followers[0]
    endpoint = node.endpoint
    scene.simulation.network.endpoint_states[endpoint] = scene.random.choice([*EndpointState])
    yield scene.fires("stale-voter-endpoint", f"voter {node.id}", after_s=5.0)
    del scene.simulation.network.endpoint_states[endpoint]
    yield 5_000


@incident("certificate-expiring")
def let_certificates_expire(scene: IncidentScene) -> Iterator[int]:
    """The certificates of all controllers expire in some days, and are renewed."""
    scene.simulation.gatherer.faults.certificates_expire_at_ms = Millis(
        scene.now_ms + scene.random.randint(1, 13) * DAY_MS
    )
    yield scene.fires("certificate-expiring", "certificates", after_s=5.0)
    scene.simulation.gatherer.faults.certificates_expire_at_ms = None
    yield 10_000


@incident("voter-disk-replaced")
def replace_disk(scene: IncidentScene) -> Iterator[int]:
    node = scene.followers[0]
    node.lose_disk(f"{node.directory}-{scene.at.offset}")
    node.start(scene.now_ms)
    yield scene.fires("voter-disk-replaced", f"controller {node.id}", after_s=CERTAIN_S)


@incident("voter-log-regressed", static=True)
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
    yield scene.fires("voter-log-regressed", f"voter {node.id}")
    yield int(KEEP_FIRING_S * 1_000) - 30_000
