"""Incidents that the metadata log shows: brokers, partitions, transactions, elections, registrations, snapshots."""

from collections.abc import Iterator

from connectors.observations.log_event import (
    BrokerChanged,
    ControllerRegistered,
    PartitionChanged,
    PartitionSet,
    TopicCreated,
    TopicRemoved,
    TransactionBegan,
    TransactionEnded,
    VotersReplaced,
)
from rules.model.identifiers import Endpoint, NodeId, TopicId
from tests.simulation.incident_trace import NOTICED_MS, IncidentScene, incident
from tests.simulation.simulated_thresholds import (
    CHURN_WINDOW_S,
    DUPLICATE_WINDOW_S,
    FLAPPING_WINDOW_S,
    KEEP_FIRING_S,
    RESTART_WINDOW_S,
    SNAPSHOT_AGE_S,
)

HOUR_MS = 3_630_000
"""Longer than the product remembers what nothing undoes."""
LOST_RECORDS = 15


@incident("broker-fenced", static=True)
def fence_broker(scene: IncidentScene) -> Iterator[int]:
    broker = NodeId(scene.random.choice((101, 102, 103)))
    scene.write(BrokerChanged(at=scene.at, id=broker, fenced=True, in_controlled_shutdown=None))
    yield scene.fires("broker-fenced", f"broker {broker}")
    scene.write(BrokerChanged(at=scene.at, id=broker, fenced=False, in_controlled_shutdown=None))


@incident("broker-flapping", static=True)
def flap_broker(scene: IncidentScene) -> Iterator[int]:
    broker = NodeId(scene.random.choice((101, 102, 103)))
    for _ in range(5):
        for fenced in (True, False):
            scene.write(BrokerChanged(at=scene.at, id=broker, fenced=fenced, in_controlled_shutdown=None))
            yield 3_000
    yield scene.fires("broker-flapping", f"broker {broker}")
    yield int(FLAPPING_WINDOW_S * 1_000)


@incident("open-transaction", static=True)
def leave_transaction(scene: IncidentScene) -> Iterator[int]:
    scene.write(TransactionBegan(at=scene.at, name="left open"))
    yield scene.fires("open-transaction", "metadata log")
    scene.write(TransactionEnded(at=scene.at, aborted=scene.random.random() < 0.5))


@incident("committed-metadata-lost")
def lose_metadata(scene: IncidentScene) -> Iterator[int]:
    """The idle quorum loses NoOps only: which records are lost does not matter to the rule."""
    yield LOST_RECORDS * 1_000
    simulation = scene.simulation
    end = len(simulation.ground_truth.committed) - LOST_RECORDS
    for node in simulation.nodes:
        node.stop()
    for node in simulation.nodes:
        node.log.truncate(min(end, len(node.log)))
        node.snapshots.end_offset = min(end, node.snapshots.end_offset)
        node.start(scene.now_ms)
    simulation.ground_truth.lose(end)
    yield scene.fires("committed-metadata-lost", "metadata log", after_s=10.0)
    simulation.suspend(HOUR_MS)
    yield NOTICED_MS


@incident("data-contract-broken", static=True)
def damage_record(scene: IncidentScene) -> Iterator[int]:
    scene.simulation.gatherer.faults.damaged = True
    yield scene.fires("data-contract-broken", "every-record-decodes")
    yield int(KEEP_FIRING_S * 1_000)


@incident("epoch-churn", static=True)
def churn(scene: IncidentScene) -> Iterator[int]:
    """As many elections as all controllers' starts explain, and a few more."""
    for _ in range(6 + len(scene.simulation.nodes)):
        scene.leader.resign(scene.now_ms)
        yield 5_000
    yield scene.fires("epoch-churn", "quorum", after_s=15.0)
    yield int(CHURN_WINDOW_S * 1_000) - 60_000


@incident("node-restarting", static=True)
def restart_again(scene: IncidentScene) -> Iterator[int]:
    node = scene.followers[0]
    for _ in range(3):
        scene.restart(node)
        yield 10_000
    yield scene.fires("node-restarting", f"controller {node.id}", after_s=10.0)
    yield int(RESTART_WINDOW_S * 1_000)


@incident("duplicate-node-id", static=True)
def register_copy(scene: IncidentScene) -> Iterator[int]:
    """A second process of a controller and the first one register in turn; the first one stays."""
    node, oracle = scene.followers[0].id, scene.simulation.ground_truth.oracle
    own, endpoint = oracle.controllers[node]
    features = oracle.features["controller", node]
    for incarnation in (*("copy", own) * 4,):
        scene.write(
            ControllerRegistered(
                at=scene.at, id=NodeId(node), incarnation_id=incarnation, endpoints=(endpoint,), features=features
            )
        )
        yield 8_000
    yield scene.fires("duplicate-node-id", f"node {node}")
    yield int(DUPLICATE_WINDOW_S * 1_000)


@incident("forced-reconfiguration", controllers=(5,))
def force_voters(scene: IncidentScene) -> Iterator[int]:
    leader, removed = scene.leader, scene.followers[:2]
    left = tuple(voter for voter in leader.log.voters if voter.key not in {node.key for node in removed})
    scene.simulation.ground_truth.forced_offsets.add(len(leader.log))
    within_ms = scene.fires("forced-reconfiguration", f"voter set at offset {len(leader.log)}")
    scene.write(VotersReplaced(at=scene.at, voters=left))
    yield within_ms
    yield int(KEEP_FIRING_S * 1_000)


@incident("ghost-registration", controllers=(3,))
def leave_registration(scene: IncidentScene) -> Iterator[int]:
    """A controller registered long ago and was switched off; later it is started again."""
    node = len(scene.simulation.nodes) + 1
    endpoint = Endpoint(listener="CONTROLLER", host=f"c{node}.test", port=9_093, protocol=scene.leader.protocol)
    features = scene.simulation.ground_truth.oracle.features["controller", scene.leader.id]
    scene.write(
        ControllerRegistered(
            at=scene.at, id=NodeId(node), incarnation_id=f"former {node}", endpoints=(endpoint,), features=features
        )
    )
    yield scene.fires("ghost-registration", f"controller {node}")
    scene.simulation.fault_injection.add_controller(scene.now_ms)
    yield 1


@incident("partition-stuck-recovering", "unclean-election", static=True)
def elect_uncleanly(scene: IncidentScene) -> Iterator[int]:
    topic, subject = _elected_uncleanly(scene)
    scene.fires("unclean-election", subject)
    stuck_ms = scene.fires("partition-stuck-recovering", subject)
    yield stuck_ms
    if scene.random.random() < 0.5:
        scene.write(TopicRemoved(at=scene.at, topic_id=topic))
    else:
        scene.write(_changed(scene, topic, isr=(102, 101), recovering=False))
        yield 2_000
        scene.write(TopicRemoved(at=scene.at, topic_id=topic))
    yield int(KEEP_FIRING_S * 1_000) - stuck_ms + NOTICED_MS


@incident("recovery-invariant-broken", static=True, also=("unclean-election",))
def grow_isr(scene: IncidentScene) -> Iterator[int]:
    scene.simulation.ground_truth.faulty_recoveries = True
    topic, subject = _elected_uncleanly(scene)
    yield 5_000
    scene.write(_changed(scene, topic, isr=(102, 101)))
    yield scene.fires("recovery-invariant-broken", subject, after_s=5.0)
    scene.write(TopicRemoved(at=scene.at, topic_id=topic))
    yield 5_000
    scene.simulation.ground_truth.faulty_recoveries = False


def _elected_uncleanly(scene: IncidentScene) -> tuple[TopicId, str]:
    """Creates a topic and elects its leader uncleanly; returns its id and the subject of its alerts."""
    name, replicas = f"uncleanly-{scene.at.offset}", (NodeId(101), NodeId(102))
    topic = TopicId(f"id-{name}")
    scene.write(TopicCreated(at=scene.at, topic_id=topic, name=name))
    scene.write(
        PartitionSet(
            at=scene.at,
            topic_id=topic,
            partition=0,
            replicas=replicas,
            isr=replicas[:1],
            elr=(),
            leader=replicas[0],
            partition_leader_epoch=0,
            partition_epoch=0,
            recovering=False,
        )
    )
    scene.write(_changed(scene, topic, isr=(102,), leader=102, recovering=True))
    return topic, f"topic {name}"


def _changed(
    scene: IncidentScene,
    topic: TopicId,
    *,
    isr: tuple[int, ...],
    leader: int | None = None,
    recovering: bool | None = None,
) -> PartitionChanged:
    return PartitionChanged(
        at=scene.at,
        topic_id=topic,
        partition=0,
        replicas=None,
        isr=tuple(NodeId(node) for node in isr),
        elr=None,
        leader=None if leader is None else NodeId(leader),
        leader_set=leader is not None,
        recovering=recovering,
    )


@incident("snapshot-stale", static=True)
def stop_snapshots(scene: IncidentScene) -> Iterator[int]:
    for node in scene.simulation.nodes:
        node.snapshots.fails = True
    yield scene.fires("snapshot-stale", "metadata log", after_s=SNAPSHOT_AGE_S + 20.0)
    for node in scene.simulation.nodes:
        node.snapshots.fails = False
    yield 20_000


@incident("version-drift", static=True)
def upgrade_half(scene: IncidentScene) -> Iterator[int]:
    """One controller is started with a newer version, or with one that no longer supports the finalized level."""
    node = scene.followers[0]
    node.highest_level = scene.random.choice((26, 28))
    scene.restart(node)
    if node.highest_level == 26:
        scene.fires("version-drift", f"controller {node.id}", after_s=10.0)
    yield scene.fires("version-drift", "nodes", after_s=10.0)
    node.highest_level = 27
    scene.restart(node)
    yield 5_000
