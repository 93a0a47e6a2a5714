"""Records that no controller writes, appended to the metadata logs of a real quorum while its controllers are down.

Kafka's controllers and brokers replay them without a check. Each test leaves the quorum healthy.
"""

from collections.abc import Iterator

import pytest

from tests.eventually import eventually
from tests.kafka.conftest import MakeLab
from tests.kafka.forged_log import append_to_every_log, begin_transaction, recovering_partition
from tests.kafka.monitored_cluster import MonitoredCluster, monitor_cluster
from tests.lab import Lab

pytestmark = pytest.mark.lab
TOPIC = "orders"


@pytest.fixture(scope="module")
def lab(shared_lab: MakeLab) -> Lab:
    return shared_lab(controllers=3, brokers=2, properties={"broker.session.timeout.ms": "6000"})


@pytest.fixture(scope="module")
def monitor(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MonitoredCluster]:
    with monitor_cluster(lab, tmp_path_factory.mktemp("journal")) as monitor:
        yield monitor


def append_while_down(lab: Lab, *records: bytes) -> None:
    """Kills all controllers, appends the records to their logs, and starts them."""
    lab.kill(*lab.controllers)
    append_to_every_log(lab, *records)
    lab.start(*lab.controllers)


@pytest.mark.long
def test_recovery_without_an_election_and_with_a_follower_in_sync(lab: Lab, monitor: MonitoredCluster) -> None:
    leader, follower = lab.brokers
    lab.create_topic(TOPIC, assignment=[[leader, follower]])
    monitor.start_scenario({"recovery-invariant-broken.hold": 0, "broker-fenced.hold": 300})
    topic_id = next(id_ for id_, topic in monitor.machine.log.partitions.topics.items() if topic.name == TOPIC)

    append_while_down(lab, recovering_partition(topic_id, 0))
    fired = monitor.wait_for("recovery-invariant-broken", within_s=60)
    # When the follower joins the in-sync replicas again, the leader sends that the partition has recovered.
    lab.stop(follower)
    lab.start(follower)
    monitor.wait_for("recovery-invariant-broken", "resolved", within_s=60)

    assert (fired.severity, fired.subject) == ("critical", f"topic {TOPIC}")
    assert fired.summary == (
        f"1 partition of topic {TOPIC} violates KIP-704 during recovery. Partition 0 is RECOVERING with "
        f"leader {leader} and ISR {leader} and {follower}: a replica that lacks records may count as in sync."
    )
    partitions = fired.evidence["partitions"]
    assert isinstance(partitions, list)
    assert len(partitions) == 2
    assert "since a record that elected no leader" in str(partitions[1])
    assert monitor.rules == {"recovery-invariant-broken"}


@pytest.mark.long
def test_new_leader_aborts_an_open_transaction(lab: Lab, monitor: MonitoredCluster) -> None:
    monitor.start_scenario({"open-transaction.hold": 5})
    before = lab.await_state(lambda state: True, what="a leader")

    append_while_down(lab, begin_transaction("forged"))
    after = lab.await_state(lambda state: state.leader_epoch > before.leader_epoch, what="another leader")

    def aborted() -> None:
        assert "ABORT_TRANSACTION_RECORD" in lab.dump_log(after.leader_id)

    eventually(aborted, within_s=30)
    assert monitor.rules == set()
