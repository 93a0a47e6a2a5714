"""A quorum that is down, to be rescued."""

from pathlib import Path

from tests.kafka.election_prediction import elects_a_leader, stop_controllers
from tests.lab import Lab

AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


def snapshots(partition: Path) -> list[Path]:
    return sorted(partition.glob("*.checkpoint"))


def fill_with_metadata(quorum: Lab) -> None:
    """Creates what a metadata log may hold: topics, configurations, ACLs, SCRAM users, quotas."""
    quorum.create_topic("orders", partitions=3, replication=len(quorum.brokers), configs={"retention.ms": "3600000"})
    at = f"--bootstrap-server {','.join(quorum.running_brokers)}"
    alter = f"kafka-configs.sh {at} --alter --entity-type users --entity-name alice"
    for line in (
        f"kafka-acls.sh {at} --add --allow-principal User:alice --operation Read --topic orders",
        f"{alter} --add-config SCRAM-SHA-256=[password=pw-x]",
        f"{alter} --add-config producer_byte_rate=1000000",
    ):
        quorum.run_remedy(line)
    quorum.produce("orders", 20)


def stop_all(quorum: Lab) -> None:
    """Stops brokers first: their controlled shutdown needs a leader."""
    quorum.stop(*quorum.brokers)
    stop_controllers(quorum, quorum.controllers)


def require_dead(quorum: Lab) -> None:
    """Starts the controllers, watches that they elect no leader, and stops them."""
    assert not elects_a_leader(quorum)
    quorum.kill(*quorum.controllers)


def every_node(quorum: Lab) -> list[int]:
    return [*quorum.controllers, *quorum.brokers]


def voters(quorum: Lab) -> str:
    """The list for `--initial-controllers`, with the current endpoints."""
    nodes = [quorum.node(id_) for id_ in quorum.controllers]
    return ",".join(f"{node.id}@{node.endpoint}:{node.directory_id}" for node in nodes)
