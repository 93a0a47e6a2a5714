"""Incidents: what happens to a healthy quorum, or to what observes it, and the alerts that must follow.

First those that the metadata log shows: brokers, partitions, transactions, elections, registrations, snapshots. Then
those of controllers, their disks and endpoints, of brokers as observers, and of the monitor's own host.
"""

from collections.abc import Iterator

from connectors.observations.log_event import (
    BrokerChanged,
    BrokerUnregistered,
    ControllerUnregistered,
    MinInSyncReplicasSet,
    PartitionSet,
    ProducerIdsAllocated,
    TopicCreated,
    TopicRemoved,
    TransactionBegan,
    TransactionEnded,
    UnknownRecords,
    VotersReplaced,
)
from rules.model.ages import Ages
from rules.model.identifiers import DirectoryId, Endpoint, Millis, NodeId, TopicId
from tests.simulation.gatherer import MONITOR_ID
from tests.simulation.incident_simulation import NOTICED_MS, Incident, IncidentSimulation, incident
from tests.simulation.metadata import new_partition
from tests.simulation.network import EndpointState
from tests.simulation.simulated_monitor import (
    CHURN_WINDOW_S,
    DUPLICATE_WINDOW_S,
    FLAPPING_WINDOW_S,
    KEEP_FIRING_S,
    RESTART_PAUSE_S,
    RESTART_WINDOW_S,
    SHUTTING_DOWN_FOR_S,
    SNAPSHOT_AGE_S,
)

HOUR_MS = 3_630_000
"""Longer than the product remembers what nothing undoes."""
DAY_MS = 86_400_000
LOST_RECORDS = 15
RESTORED_RECORDS = 30
CERTAIN_S = 22.0
"""How long it takes until a replica that does not fetch counts as such in every poll."""


@incident("broker-fenced", static=True)
def fence_broker(scene: IncidentSimulation) -> Iterator[int]:
    broker = NodeId(scene.choices.choice((101, 102, 103)))
    scene.write(BrokerChanged, id=broker, fenced=True, in_controlled_shutdown=None)
    yield scene.fires("broker-fenced", f"broker {broker}")
    scene.write(BrokerChanged, id=broker, fenced=False, in_controlled_shutdown=None)


@incident("node-not-registered", static=True)
def unregister_running_broker(scene: IncidentSimulation) -> Iterator[int]:
    broker = scene.choices.choice(scene.brokers)
    broker.refused = True
    scene.write(BrokerUnregistered, id=NodeId(broker.id))
    yield scene.fires("node-not-registered", f"node {broker.id}")
    broker.refused = False
    scene.register_broker(broker.id)


@incident("broker-registrations-conflict", static=True)
def advertise_the_address_of_another_broker(scene: IncidentSimulation) -> Iterator[int]:
    """A broker starts with the configuration of another one, but for its node.id."""
    one, other = scene.brokers[:2]
    address = Endpoint(listener="PLAINTEXT", host=f"b{one.id}.test", port=9092)
    scene.register_broker(other.id, endpoints=(address,))
    yield scene.fires("broker-registrations-conflict", f"endpoint {address}")
    scene.register_broker(other.id)


@incident("no-broker", static=True)
def unregister_all_brokers(scene: IncidentSimulation) -> Iterator[int]:
    for broker in scene.brokers:
        scene.write(BrokerUnregistered, id=NodeId(broker.id))
    yield scene.fires("no-broker", "brokers")
    for broker in scene.brokers:
        scene.register_broker(broker.id)


@incident("operation-unfinished", static=True)
def hang_in_controlled_shutdown(scene: IncidentSimulation) -> Iterator[int]:
    broker = NodeId(scene.choices.choice((101, 102, 103)))
    scene.write(BrokerChanged, id=broker, fenced=None, in_controlled_shutdown=True)
    yield scene.fires("operation-unfinished", f"broker {broker}", after_s=SHUTTING_DOWN_FOR_S)
    scene.register_broker(broker)


@incident("broker-flapping", static=True)
def flap_broker(scene: IncidentSimulation) -> Iterator[int]:
    broker = NodeId(scene.choices.choice((101, 102, 103)))
    for _ in range(5):
        for fenced in (True, False):
            scene.write(BrokerChanged, id=broker, fenced=fenced, in_controlled_shutdown=None)
            yield 3_000
    yield scene.fires("broker-flapping", f"broker {broker}")
    yield int(FLAPPING_WINDOW_S * 1_000)


@incident("open-transaction", static=True)
def leave_transaction(scene: IncidentSimulation) -> Iterator[int]:
    scene.write(TransactionBegan, name="left open")
    yield scene.fires("open-transaction", "metadata log")
    scene.write(TransactionEnded, aborted=scene.choices.random() < 0.5)


@incident("record-not-replayable", static=True)
def write_what_cannot_be_replayed(scene: IncidentSimulation) -> Iterator[int]:
    """Kafka never writes it; the next snapshot ends the condition."""
    for node in scene.nodes:
        node.snapshots_fail = True
    scene.write(ControllerUnregistered, id=NodeId(99))
    yield scene.fires("record-not-replayable", "metadata log")
    for node in scene.nodes:
        node.snapshots_fail = False


@incident("committed-metadata-lost", also=("no-leader",))
def lose_metadata(scene: IncidentSimulation) -> Iterator[int]:
    """The idle quorum loses NoOps only: which records are lost does not matter. Its first election may take long."""
    yield LOST_RECORDS * 1_000
    end = len(scene.ground_truth.committed) - LOST_RECORDS
    for node in scene.nodes:
        node.stop()
    for node in scene.nodes:
        node.lose_records(end)
        node.start(scene.now_ms)
    scene.ground_truth.lose(end)
    yield scene.fires("committed-metadata-lost", "metadata log", after_s=10.0)
    scene.suspend(HOUR_MS)
    yield NOTICED_MS


@incident("data-contract-broken", static=True)
def damage_record(scene: IncidentSimulation) -> Iterator[int]:
    scene.gatherer.damaged = True
    yield scene.fires("data-contract-broken", "every-record-decodes")
    yield int(KEEP_FIRING_S * 1_000)


@incident("metadata-log-damaged", static=True)
def damage_disk(scene: IncidentSimulation) -> Iterator[int]:
    scene.gatherer.disk_damaged = True
    yield scene.fires("metadata-log-damaged", f"controller {scene.leader.id}")
    scene.suspend(HOUR_MS)
    yield NOTICED_MS


@incident("unknown-records", static=True)
def write_unknown_records(scene: IncidentSimulation) -> Iterator[int]:
    """A newer Kafka writes records that kraftwatch knows after an upgrade only."""
    scene.write(UnknownRecords, name="record type 501 version 0", kafka_class=None)
    yield scene.fires("unknown-records", "records")
    scene.gatherer.upgraded = True


@incident("epoch-churn", static=True)
def churn(scene: IncidentSimulation) -> Iterator[int]:
    """As many elections as all controllers' starts explain, and a few more."""
    for _ in range(6 + len(scene.nodes)):
        scene.leader.resign(scene.now_ms)
        yield 5_000
    yield scene.fires("epoch-churn", "quorum", after_s=15.0)
    yield int(CHURN_WINDOW_S * 1_000) - 60_000


@incident("node-restarting", static=True)
def restart_again(scene: IncidentSimulation) -> Iterator[int]:
    node = scene.followers[0]
    for _ in range(3):
        scene.restart(node)
        yield 10_000
    yield scene.fires("node-restarting", f"controller {node.id}", after_s=10.0)
    yield int(RESTART_WINDOW_S * 1_000)


@incident("restarts-without-end", static=True)
def restart_brokers_in_turn(scene: IncidentSimulation) -> Iterator[int]:
    brokers = [one.id for one in scene.brokers]
    for broker in (*brokers * 3, brokers[0]):
        scene.write(BrokerChanged, id=NodeId(broker), fenced=None, in_controlled_shutdown=True)
        scene.write(BrokerChanged, id=NodeId(broker), fenced=True, in_controlled_shutdown=None)
        yield 3_000
        scene.register_broker(broker)
        yield 3_000
    yield scene.fires("restarts-without-end", "nodes")
    yield int(RESTART_PAUSE_S * 1_000)


@incident("duplicate-node-id", static=True)
def register_copy(scene: IncidentSimulation) -> Iterator[int]:
    """A second process of a controller and the first one register in turn; the first one stays."""
    node = scene.followers[0].id
    own = scene.ground_truth.oracle.controllers[node]
    for incarnation in ("copy", own.incarnation_id) * 4:
        scene.register(node, incarnation, own.endpoints[0])
        yield 8_000
    yield scene.fires("duplicate-node-id", f"node {node}")
    yield int(DUPLICATE_WINDOW_S * 1_000)


@incident("voter-without-controller")
def run_no_controller(scene: IncidentSimulation) -> Iterator[int]:
    """A voter fetches, and no controller is registered under its id, as with a broker that was made a voter."""
    node = scene.followers[0]
    node.registers = False
    scene.write(ControllerUnregistered, id=NodeId(node.id))
    yield scene.fires("voter-without-controller", f"voter {node.id}")
    node.registers = True
    yield 5_000


@incident("forced-reconfiguration", controllers=(5,))
def force_voters(scene: IncidentSimulation) -> Iterator[int]:
    leader, removed = scene.leader, scene.followers[:2]
    left = scene.voters_without(*removed)
    within_ms = scene.fires("forced-reconfiguration", f"voter set at offset {len(leader.log)}")
    scene.write(VotersReplaced, voters=left)
    yield within_ms
    yield int(KEEP_FIRING_S * 1_000)


@incident("ghost-registration", controllers=(3,))
def leave_registration(scene: IncidentSimulation) -> Iterator[int]:
    """A controller registered long ago and was switched off; later it is started again."""
    node = len(scene.nodes) + 1
    endpoint = Endpoint(listener="CONTROLLER", host=f"c{node}.test", port=9_093, protocol=scene.leader.protocol)
    scene.register(node, f"former {node}", endpoint)
    yield scene.fires("ghost-registration", f"controller {node}")
    scene.fault_injection.add_controller(scene.now_ms)
    yield 1


@incident("partition-stuck-recovering", "unclean-election", static=True)
def elect_uncleanly(scene: IncidentSimulation) -> Iterator[int]:
    topic, subject = _elected_uncleanly(scene)
    scene.fires("unclean-election", subject)
    stuck_ms = scene.fires("partition-stuck-recovering", subject)
    yield stuck_ms
    if scene.choices.random() < 0.5:
        scene.write(TopicRemoved, topic_id=topic)
    else:
        scene.change(topic, isr=(102, 101), recovering=False)
        yield 2_000
        scene.write(TopicRemoved, topic_id=topic)
    yield int(KEEP_FIRING_S * 1_000) - stuck_ms + NOTICED_MS


@incident("partitions-offline", static=True)
def lose_the_only_replica(scene: IncidentSimulation) -> Iterator[int]:
    """The log directory of the only replica fails; then the topic is deleted, or the directory is back."""
    topic, broker = _in_directories(scene, 101), NodeId(101)
    scene.change(topic, isr=(), elr=(broker,), last_known_elr=(broker,), leader_set=True)
    _register_directories(scene, broker, "a")
    yield scene.fires("partitions-offline", "broker 101")
    if scene.choices.random() < 0.5:
        _register_directories(scene, broker, "a", "b")
        scene.change(topic, isr=(101,), elr=(), last_known_elr=(), leader=101)
        yield 2_000
    scene.write(TopicRemoved, topic_id=topic)


@incident("records-rewritten", static=True)
def change_an_isr_again_and_again(scene: IncidentSimulation) -> Iterator[int]:
    name, replicas = f"churning-{scene.at.offset}", (NodeId(101), NodeId(102))
    topic = TopicId(f"id-{name}")
    scene.write(TopicCreated, topic_id=topic, name=name)
    scene.write(PartitionSet, **new_partition(topic, 0, replicas, in_sync=2))
    # Twenty changes are many, and the hold has begun with the first one.
    scene.fires("records-rewritten", "partitions", after_s=40.0)
    for _ in range(65):
        for isr in ((101,), (101, 102)):
            scene.change(topic, isr=isr)
            yield 5_000
    scene.write(TopicRemoved, topic_id=topic)
    yield 360_000


@incident("records-rewritten", static=True)
def use_up_producer_ids(scene: IncidentSimulation) -> Iterator[int]:
    scene.fires("records-rewritten", "producer ids", after_s=225.0)
    for _ in range(45):
        scene.write(ProducerIdsAllocated, broker=NodeId(101))
        yield 15_000
    yield 120_000


@incident("partitions-under-min-isr", static=True)
def shrink_an_isr(scene: IncidentSimulation) -> Iterator[int]:
    """The ISR shrinks below the topic's min.insync.replicas; then it grows again, or the topic is deleted."""
    name, replicas = f"needs-two-{scene.at.offset}", (NodeId(101), NodeId(102))
    topic = TopicId(f"id-{name}")
    scene.write(TopicCreated, topic_id=topic, name=name)
    scene.write(MinInSyncReplicasSet, topic=name, value=2)
    scene.write(PartitionSet, **new_partition(topic, 0, replicas, in_sync=2))
    scene.change(topic, isr=(101,))
    yield scene.fires("partitions-under-min-isr", "broker 102")
    if scene.choices.random() < 0.5:
        scene.change(topic, isr=(101, 102))
        yield 2_000
    scene.write(TopicRemoved, topic_id=topic)


@incident("broker-disk-replaced", static=True)
def replace_a_broker_s_disk(scene: IncidentSimulation) -> Iterator[int]:
    """The broker of the only replica starts with another disk and leads, empty; then it has the former disk again."""
    topic, broker = _in_directories(scene, 101), 101
    scene.register_broker(broker, "a", "c")
    scene.change(topic, isr=(broker,), directories=(DirectoryId("c"),))
    yield scene.fires("broker-disk-replaced", f"broker {broker}")
    scene.register_broker(broker, "a", "b")
    scene.change(topic, isr=(broker,), directories=(DirectoryId("b"),))
    yield 2_000
    scene.write(TopicRemoved, topic_id=topic)


@incident("log-directory-offline", static=True)
def lose_one_replica(scene: IncidentSimulation) -> Iterator[int]:
    """A log directory fails whose partitions other brokers lead; then the disk is replaced, and has them again."""
    topic, broker = _in_directories(scene, 102, 101), NodeId(101)
    scene.change(topic, isr=(102,))
    _register_directories(scene, broker, "a")
    yield scene.fires("log-directory-offline", "broker 101")
    _register_directories(scene, broker, "a", "c")
    scene.change(topic, isr=(102,), directories=(DirectoryId("z"), DirectoryId("c")))
    scene.change(topic, isr=(102, 101))
    yield 2_000
    scene.write(TopicRemoved, topic_id=topic)


def _in_directories(scene: IncidentSimulation, *replicas: int) -> TopicId:
    """Creates a topic whose last replica, of broker 101, is in its second log directory; returns its id."""
    name, nodes = f"in-directories-{scene.at.offset}", tuple(map(NodeId, replicas))
    topic, directories = TopicId(f"id-{name}"), (DirectoryId("z"), DirectoryId("b"))[-len(replicas) :]
    _register_directories(scene, NodeId(101), "a", "b")
    scene.write(TopicCreated, topic_id=topic, name=name)
    partition = new_partition(topic, 0, nodes, in_sync=len(nodes))
    scene.write(PartitionSet, **{**partition, "directories": directories})
    return topic


def _register_directories(scene: IncidentSimulation, broker: NodeId, *directories: str) -> None:
    """Writes that these log directories of a broker are online."""
    log_dirs = tuple(map(DirectoryId, directories))
    scene.write(BrokerChanged, id=broker, fenced=None, in_controlled_shutdown=None, log_dirs=log_dirs)


@incident("recovery-invariant-broken", static=True, also=("unclean-election",))
def grow_isr(scene: IncidentSimulation) -> Iterator[int]:
    topic, subject = _elected_uncleanly(scene)
    yield 5_000
    scene.change(topic, isr=(102, 101))
    yield scene.fires("recovery-invariant-broken", subject, after_s=5.0)
    scene.write(TopicRemoved, topic_id=topic)


def _elected_uncleanly(scene: IncidentSimulation) -> tuple[TopicId, str]:
    """Creates a topic and elects its leader uncleanly; returns its id and the subject of its alerts."""
    name, replicas = f"uncleanly-{scene.at.offset}", (NodeId(101), NodeId(102))
    topic = TopicId(f"id-{name}")
    scene.write(TopicCreated, topic_id=topic, name=name)
    scene.write(PartitionSet, **new_partition(topic, 0, replicas, in_sync=1))
    scene.change(topic, isr=(102,), leader=102, recovering=True)
    return topic, f"topic {name}"


@incident("snapshot-stale", static=True)
def stop_snapshots(scene: IncidentSimulation) -> Iterator[int]:
    for node in scene.nodes:
        node.snapshots_fail = True
    yield scene.fires("snapshot-stale", "metadata log", after_s=SNAPSHOT_AGE_S + 20.0)
    for node in scene.nodes:
        node.snapshots_fail = False
    yield 20_000


@incident("version-drift", static=True)
def upgrade_half(scene: IncidentSimulation) -> Iterator[int]:
    """One controller is started with a newer version, or with one that no longer supports the finalized level."""
    node = scene.followers[0]
    node.highest_level = scene.choices.choice((26, 28))
    scene.restart(node)
    if node.highest_level == 26:
        scene.fires("version-drift", f"controller {node.id}", after_s=10.0)
    yield scene.fires("version-drift", "nodes", after_s=10.0)
    node.highest_level = 27
    scene.restart(node)
    yield 5_000


@incident("failure-tolerance", static=True)
def kill_reserve(scene: IncidentSimulation) -> Iterator[int]:
    """Exactly a majority keeps running."""
    stopped = scene.followers[: (len(scene.followers) + 1) // 2]
    for node in stopped:
        node.stop()
    yield scene.fires("failure-tolerance", "quorum", after_s=CERTAIN_S)
    for node in stopped:
        node.start(scene.now_ms)


@incident("voter-lagging", controllers=(5,), static=True)
def kill_voter(scene: IncidentSimulation) -> Iterator[int]:
    node = scene.followers[0]
    node.stop()
    yield scene.fires("voter-lagging", f"voter {node.id}", after_s=CERTAIN_S)
    node.start(scene.now_ms)


@incident("no-leader", static=True)
def fill_disks(scene: IncidentSimulation) -> Iterator[int]:
    """The followers fetch and cannot append: the leader stays, and nothing is committed."""
    followers = scene.followers
    for node in followers:
        node.disk_full = True
    yield scene.fires("no-leader", "quorum", after_s=10.0)
    for node in followers:
        node.disk_full = False


@incident("commits-slow", static=True)
def slow_followers(scene: IncidentSimulation) -> Iterator[int]:
    """Each follower runs for a moment and stands still, again and again; so it fetches before an election is due."""
    followers = scene.followers
    for node in followers:
        node.pause_ms = 1_800
    yield scene.fires("commits-slow", "quorum", after_s=60.0)
    for node in followers:
        node.pause_ms = 0


@incident("leader-slow", static=True)
def slow_leader(scene: IncidentSimulation) -> Iterator[int]:
    """It runs for a moment and stands still, again and again: a poll waits, and no follower lags."""
    leader = scene.leader
    leader.answers_after_ms = 700
    yield scene.fires("leader-slow", f"controller {leader.id}", after_s=100.0)
    leader.answers_after_ms = 0


@incident("controller-stuck", static=True)
def hang_event_thread(scene: IncidentSimulation) -> Iterator[int]:
    leader = scene.leader
    leader.hangs = True
    yield scene.fires("controller-stuck", "active controller", after_s=12.0)
    leader.stop()
    leader.start(scene.now_ms)


@incident("voter-change-stuck")
def block_voter_change(scene: IncidentSimulation) -> Iterator[int]:
    leader, followers = scene.leader, scene.followers
    for node in followers:
        node.disk_full = True
    assert leader.change_voters(scene.now_ms, scene.voters_without(followers[0]))
    yield scene.fires("voter-change-stuck", "quorum")
    for node in followers:
        node.disk_full = False
    yield 5_000


@incident("monitor-blind", static=True)
def cut_monitor_off(scene: IncidentSimulation) -> Iterator[int]:
    scene.network.one_way |= {(MONITOR_ID, node.id) for node in scene.nodes}
    yield scene.fires("monitor-blind", "quorum")
    scene.network.one_way.clear()


@incident("monitor-blind", static=True)
def deny_log(scene: IncidentSimulation) -> Iterator[int]:
    scene.gatherer.log_denied = True
    yield scene.fires("monitor-blind", "quorum") + 10_000
    scene.gatherer.log_denied = False


@incident("controller-not-observed", static=True)
def reject_monitor(scene: IncidentSimulation) -> Iterator[int]:
    node = scene.followers[0]
    scene.network.rejected.add((MONITOR_ID, node.id))
    yield scene.fires("controller-not-observed", f"controller {node.id}", after_s=10.0)
    scene.network.restore_access()
    yield 10_000


@incident("resolver-failing")
def break_resolver(scene: IncidentSimulation) -> Iterator[int]:
    scene.gatherer.resolver_fails = True
    yield scene.fires("resolver-failing", "names")
    scene.gatherer.resolver_fails = False
    yield 10_000


@incident("no-leader", static=True)
def cut_off_controllers(scene: IncidentSimulation) -> Iterator[int]:
    scene.cut_off(*scene.nodes)
    yield scene.fires("no-leader", "quorum") + 10_000
    scene.network.one_way.clear()
    yield 10_000


@incident("views-disagree", static=True, also=("voter-lagging", "failure-tolerance"))
def cut_off_voter(scene: IncidentSimulation) -> Iterator[int]:
    node = scene.followers[0]
    scene.cut_off(node)
    yield scene.fires("views-disagree", f"controller {node.id}", after_s=15.0)
    scene.network.one_way.clear()
    yield 5_000


@incident("two-quorums", static=True)
def format_standalone(scene: IncidentSimulation) -> Iterator[int]:
    """A new controller's disk is formatted with --standalone and the cluster's id; later it is stopped."""
    scene.gatherer.other_leader = NodeId(len(scene.nodes) + 1)
    yield scene.fires("two-quorums", "quorum", after_s=10.0)
    scene.gatherer.other_leader = None
    yield Ages().view_ms


@incident("node-records-conflict", controllers=(3,), also=("observer-could-be-voter",))
def clone_disk(scene: IncidentSimulation) -> Iterator[int]:
    """A new controller is started on a copy of another one's disk; later its own directory is formatted."""
    clone = scene.fault_injection.add_controller(scene.now_ms, copy_of=scene.followers[0])
    yield scene.fires("node-records-conflict", f"directory {clone.directory}", after_s=5.0)
    clone.lose_disk(f"dir{clone.id}")
    clone.start(scene.now_ms)
    yield 5_000


@incident("node-records-conflict")
def change_protocol(scene: IncidentSimulation) -> Iterator[int]:
    node = scene.followers[0]
    before, node.protocol = node.protocol, "PLAINTEXT"
    scene.restart(node)
    yield scene.fires("node-records-conflict", f"voter {node.id}", after_s=10.0)
    node.protocol = before
    scene.restart(node)
    yield 5_000


@incident("observer-could-be-voter", controllers=(3,))
def add_observer(scene: IncidentSimulation) -> Iterator[int]:
    observer = scene.fault_injection.add_controller(scene.now_ms)
    yield scene.fires("observer-could-be-voter", f"observer {observer.key}", after_s=10.0)


@incident("leader-clock-skew", static=True)
def set_leader_clock(scene: IncidentSimulation) -> Iterator[int]:
    """The clock of the leader's host is set some hours ahead or back. No age may change."""
    leader = scene.leader
    leader.skew_ms = scene.choices.choice((3, -2)) * 3_600_000
    yield scene.fires("leader-clock-skew", f"controller {leader.id}", after_s=10.0)
    leader.skew_ms = 0
    yield 5_000


@incident("observer-lagging", static=True)
def stop_broker_fetches(scene: IncidentSimulation) -> Iterator[int]:
    broker = scene.choices.choice(scene.brokers)
    broker.fetches = False
    yield scene.fires("observer-lagging", f"broker {broker.id}", after_s=CERTAIN_S)
    broker.fetches = True
    yield 1_000


@incident("observer-lagging", static=True)
def stop_broker_progress(scene: IncidentSimulation) -> Iterator[int]:
    broker = scene.choices.choice(scene.brokers)
    broker.applies = False
    yield scene.fires("observer-lagging", f"broker {broker.id}", after_s=45.0)
    broker.applies = True
    yield 1_000


@incident("quorum-shape", also=("observer-could-be-voter",))
def remove_voter(scene: IncidentSimulation) -> Iterator[int]:
    left = scene.voters_without(scene.followers[0])
    assert scene.leader.change_voters(scene.now_ms, left)
    # Three that become two tolerate no failure any more: that is said sooner.
    yield scene.fires("quorum-shape", "quorum", after_s=5.0, hold_s=120.0 if len(left) == 2 else None)


@incident("raft-invariant-broken", static=True)
def impersonate_leader(scene: IncidentSimulation) -> Iterator[int]:
    other = scene.followers[0]
    scene.gatherer.impostor = NodeId(other.id)
    yield 3_000
    scene.gatherer.impostor = None
    yield scene.fires("raft-invariant-broken", "two-leaders")
    scene.suspend(HOUR_MS)
    yield NOTICED_MS


@incident("stale-voter-endpoint")
def break_endpoint(scene: IncidentSimulation) -> Iterator[int]:
    node = scene.followers[0]
    endpoint = node.endpoint
    scene.network.endpoint_states[endpoint] = scene.choices.choice([*EndpointState])
    yield scene.fires("stale-voter-endpoint", f"voter {node.id}", after_s=5.0)
    del scene.network.endpoint_states[endpoint]
    yield 5_000


@incident("certificate-expiring")
def let_certificates_expire(scene: IncidentSimulation) -> Iterator[int]:
    """The certificates of all controllers expire in some days, and are renewed."""
    scene.gatherer.certificates_expire_at_ms = Millis(scene.now_ms + scene.choices.randint(1, 13) * DAY_MS)
    yield scene.fires("certificate-expiring", "certificates", after_s=5.0)
    scene.gatherer.certificates_expire_at_ms = None
    yield 10_000


@incident("scram-between-controllers", static=True)
def log_in_with_scram(scene: IncidentSimulation) -> Iterator[int]:
    """All controllers log in to each other with SCRAM, whose credentials are in the log; later with PLAIN."""
    scene.gatherer.login = "SCRAM-SHA-512"
    yield scene.fires("scram-between-controllers", "logins", after_s=5.0)
    scene.gatherer.login = "PLAIN"
    yield 10_000


@incident("voter-disk-replaced")
def replace_disk(scene: IncidentSimulation) -> Iterator[int]:
    node = scene.followers[0]
    node.lose_disk(f"{node.directory}-{scene.at.offset}")
    node.start(scene.now_ms)
    yield scene.fires("voter-disk-replaced", f"controller {node.id}", after_s=CERTAIN_S)


@incident("voter-log-regressed", static=True)
def restore_log(scene: IncidentSimulation) -> Iterator[int]:
    """A voter's directory is restored from an older copy, and it catches up slowly."""
    yield RESTORED_RECORDS * 1_000
    node = scene.followers[0]
    node.stop()
    node.lose_records(len(node.log) - RESTORED_RECORDS)
    node.disk_full = True
    node.start(scene.now_ms)
    yield 12_000
    node.disk_full = False
    yield scene.fires("voter-log-regressed", f"voter {node.id}")
    yield int(KEEP_FIRING_S * 1_000) - 30_000


INCIDENTS = {name: one for name, one in globals().items() if isinstance(one, Incident)}
"""All incidents, by the name of their function."""
