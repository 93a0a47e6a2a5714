"""`kraftwatch rescue apply` on real quorums that cannot elect a leader, because all recorded endpoints have moved."""

from collections.abc import Iterable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from deploy.lab.jars import kafka_jars
from deploy.lab.lab import Lab
from deploy.lab.lab_errors import LabError
from streaming.cli import app
from tests.kafka.conftest import MakeLab
from tests.kafka.metadata_image import kafka_records

pytestmark = pytest.mark.lab
DEAD_S = 20
"""How long a quorum is watched before it counts as unable to elect a leader: the default election timeout is 1 s."""
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


def test_three_moved_endpoints_are_rescued_and_no_metadata_is_lost(lab: MakeLab, tmp_path: Path) -> None:
    quorum = lab(controllers=3, brokers=2, properties=AUTHORIZER)
    fill_with_metadata(quorum)
    stop_all(quorum)
    before = {node: kafka_records(quorum.node(node).metadata_log) for node in every_node(quorum)}
    quorum.move_endpoint(*quorum.controllers)
    require_dead(quorum)

    for node in every_node(quorum):
        applied = rescue(quorum, "apply", node, "--initial-controllers", voters(quorum), "--yes")
        assert applied.exit_code == 0, applied.output
        again = rescue(quorum, "apply", node, "--initial-controllers", voters(quorum), "--yes")
        assert (again.exit_code, "NOTHING TO DO" in again.output) == (0, True), again.output
    assert {node: kafka_records(quorum.node(node).metadata_log) for node in every_node(quorum)} == before

    quorum.start(*every_node(quorum))
    state = quorum.await_state(lambda state: state.leader_id in quorum.controllers, what="a leader")
    assert state.voter_ids == set(quorum.controllers)
    running = rescue(quorum, "apply", quorum.controllers[0], "--initial-controllers", voters(quorum), "--yes")
    assert (running.exit_code, "a Kafka process uses it" in str(running.exception)) == (1, True)
    quorum.produce("orders", 20)
    quorum.create_topic("after", replication=2)


def fill_with_metadata(quorum: Lab) -> None:
    """Creates what a metadata log may hold: topics, configurations, ACLs, SCRAM users, quotas."""
    quorum.create_topic("orders", partitions=3, replication=2, configs={"retention.ms": "3600000"})
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
    quorum.stop(*quorum.controllers)


def require_dead(quorum: Lab) -> None:
    """Starts the controllers, watches that they elect no leader, and stops them."""
    quorum.start(*quorum.controllers, wait=False)
    with pytest.raises(LabError):
        quorum.await_state(lambda state: state.leader_id in quorum.controllers, what="a leader", timeout_s=DEAD_S)
    quorum.kill(*quorum.controllers)


def every_node(quorum: Lab) -> Iterable[int]:
    return [*quorum.controllers, *quorum.brokers]


def voters(quorum: Lab) -> str:
    """The list for `--initial-controllers`, with the current endpoints."""
    nodes = [quorum.node(id_) for id_ in quorum.controllers]
    return ",".join(f"{node.id}@{node.endpoint}:{node.directory_id}" for node in nodes)


def rescue(quorum: Lab, verb: str, node: int, *more: str) -> Result:
    """Runs one verb of `kraftwatch rescue` for a node; Kafka's own reader checks too."""
    home = ["--kafka-home", str(kafka_jars(quorum.version))] if verb == "apply" else []
    return CliRunner().invoke(app, ["rescue", verb, "--log-dir", str(quorum.node(node).data), *more, *home])
