"""A rescue by someone who only reads the plan: every command as printed, every sentence done, on real quorums."""

import json
import shutil
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from connectors.logdir.log_dir_files import META_PROPERTIES
from deploy.lab.jars import KAFKA_VERSION
from deploy.lab.kafka_requests import QuorumState
from deploy.lab.node import format_disk
from rules.rescue.voter_override import initial_controllers
from streaming.query.from_log_dir import replay_log_dir
from streaming.status.log_dir_status import LogDirContents
from tests.cli.program import kraftwatch
from tests.eventually import eventually
from tests.kafka.conftest import MakeLab
from tests.kafka.dead_quorum import (
    AUTHORIZER,
    every_node,
    fill_with_metadata,
    require_dead,
    snapshots,
    stop_all,
    voters,
)
from tests.kafka.metadata_image import kafka_records
from tests.kafka.plan_follower import PlanFollower, log_dirs, rescue_plan, steps_in_text
from tests.kafka.version_table import DYNAMIC_KAFKAS
from tests.lab import Lab

pytestmark = pytest.mark.lab
TAIL = "never-committed"
"""The topic whose record only the last leader has, and the brokers, which fetch what is not committed."""


@pytest.mark.long
def test_reader_of_the_printed_plan_gives_formatted_controllers_their_votes_back(lab: MakeLab, tmp_path: Path) -> None:
    quorum = lab(controllers=3, brokers=0)
    stop_with_equal_logs(quorum)
    recorded = {node: quorum.node(node).directory_id for node in quorum.controllers}
    for node in quorum.controllers[:2]:
        (quorum.node(node).data / META_PROPERTIES).unlink()
        format_disk(quorum.jvm, quorum.node(node), quorum.cluster_id, initial=())
        assert quorum.node(node).directory_id != recorded[node]
    require_dead(quorum)

    plan = kraftwatch("rescue", "plan", "--no-probe", *log_dirs(quorum, *quorum.controllers))
    PlanFollower(quorum, tmp_path).follow(steps_in_text(plan.stdout))

    assert plan.exit_code == 0
    assert {node: quorum.node(node).directory_id for node in quorum.controllers} == recorded


@pytest.mark.long
@pytest.mark.timeout(400)
@pytest.mark.parametrize("version", DYNAMIC_KAFKAS)
def test_reader_of_the_printed_plan_rescues_controllers_and_brokers(lab: MakeLab, tmp_path: Path, version: str) -> None:
    quorum = lab(controllers=3, brokers=2, version=version, properties=AUTHORIZER)
    fill_with_metadata(quorum)
    stop_with_equal_logs(quorum)
    before = settings_of(quorum, 1)
    quorum.move_endpoint(*quorum.controllers)
    require_dead(quorum)

    plan = rescue_plan(quorum, voters(quorum), *every_node(quorum))
    ran = PlanFollower(quorum, tmp_path).follow(steps_in_text(plan.stdout))

    assert plan.exit_code == 0
    assert [command.split()[:3] for command in ran[:4]] == [
        ["kraftwatch", "rescue", verb] for verb in ("plan", "apply", "apply", "apply")
    ]
    assert sum("rescue apply" in command for command in ran) == 5, "each controller and each broker once"
    assert settings_of(quorum, 1) == before
    require_rescued(quorum)


@pytest.mark.long
@pytest.mark.timeout(400)
@pytest.mark.parametrize("version", [KAFKA_VERSION, "3.9.2"])
@pytest.mark.parametrize("last_leader_moves", [True, False], ids=["all move", "the last leader stays"])
def test_controller_with_records_of_its_own_joins_and_loses_them(
    lab: MakeLab, tmp_path: Path, version: str, last_leader_moves: bool
) -> None:
    # While the other controllers are paused, the leader leads for 1.5 times the fetch timeout.
    properties = AUTHORIZER | {"controller.quorum.fetch.timeout.ms": "8000"}
    quorum = lab(controllers=3, brokers=1, version=version, properties=properties)
    fill_with_metadata(quorum)
    leader = stop_with_a_tail(quorum)
    others = [node for node in quorum.controllers if node != leader]
    quorum.move_endpoint(*others, *([leader] if last_leader_moves else []))
    assert any(TAIL in record for record in kafka_records(quorum.node(leader).metadata_log)), "in one log"
    require_dead(quorum)

    plan = json.loads(rescue_plan(quorum, voters(quorum), *every_node(quorum), as_json=True).stdout)
    ran = PlanFollower(quorum, tmp_path).follow(plan["steps"])

    assert {one["node_id"]: one["action"] for one in plan["disks"]} == {
        **dict.fromkeys(others, "apply"),
        leader: "leave",
        **dict.fromkeys(quorum.brokers, "fetch-again"),
    }
    assert sum("rescue apply" in command for command in ran) == len(quorum.controllers)
    require_rescued(quorum)
    assert not any(TAIL in record for record in kafka_records(quorum.node(leader).metadata_log))
    quorum.create_topic(TAIL)
    quorum.await_state(lambda state: leader in state.voter_ids, what="the former leader among the voters")


@pytest.mark.live
def test_lost_majority_is_refused_with_what_remains(lab: MakeLab, tmp_path: Path) -> None:
    quorum = lab(controllers=3, brokers=0)
    survivor, _ = quorum.followers
    others = [node for node in quorum.controllers if node != survivor]

    def holds_records(state: QuorumState) -> bool:
        return any(one.id == survivor and one.log_end_offset > 0 for one in state.voters)

    quorum.await_state(holds_records, what="records that the survivor has")
    quorum.kill(survivor)
    end = contents(quorum, survivor).end_offset
    quorum.await_state(lambda state: state.high_watermark > end + 2, what="records that the survivor does not have")
    quorum.stop(*others)
    wanted = voters(quorum).replace("127.0.0.1:", "c.new:")
    for node in others:
        shutil.rmtree(quorum.node(node).data)
    # The disk of one of them is new, and formatted.
    (new,) = others[:1]
    quorum.node(new).data.mkdir()
    options = ["--config", str(quorum.node(new).properties_file), "--no-initial-controllers"]
    quorum.jvm.tool("kafka-storage", ["format", "--cluster-id", quorum.cluster_id, *options])

    text, as_json = (rescue_plan(quorum, wanted, survivor, new, as_json=as_json) for as_json in (False, True))
    plan_file = tmp_path / "rescue-plan.json"
    plan_file.write_text(as_json.stdout)
    held = sorted(path.name for path in quorum.node(survivor).metadata_log.iterdir())
    apply = ["rescue", "apply", *log_dirs(quorum, survivor), "--initial-controllers", wanted]
    refused = kraftwatch(*apply, "--plan", str(plan_file), "--yes")

    assert (text.exit_code, as_json.exit_code) == (2, 2), text.exception
    assert "only 1 of 3 voters' disks are given, 2 are needed" in json.loads(as_json.stdout)["refused"]
    output = " ".join(text.stdout.split())
    assert "REFUSED" in output
    assert f"{quorum.node(new).directory_id} (empty: not a voter," in output
    assert f"Find controllers {others[0]} and {others[1]}, or their disks: with 1 more" in output
    assert f"The most complete log that remains is of controller {survivor}, up to offset {end} of epoch" in output
    assert "Records that were committed after it are on the lost disks only" in output
    assert f"plan a quorum of the voters that are left with --lost {others[0]},{others[1]}: it says" in output
    assert "$ " not in text.stdout, "no command"
    assert "the plan refuses the rescue: only 1 of 3" in str(refused.exception)
    assert sorted(path.name for path in quorum.node(survivor).metadata_log.iterdir()) == held


def stop_with_equal_logs(quorum: Lab) -> None:
    """Stops all nodes so that each can be rescued at once: no controller has records that only it holds.

    The last leader may have some, because controllers end one after the other on a busy machine.
    """
    elsewhere = voters(quorum).replace("127.0.0.1:", "c.new:")

    def each_can_be_rescued_at_once() -> bool:
        stop_all(quorum)
        plan = json.loads(rescue_plan(quorum, elsewhere, *every_node(quorum), as_json=True).stdout)
        return {one["action"] for one in plan["disks"]} == {"apply"}

    for _ in range(12):
        if each_can_be_rescued_at_once():
            return
        quorum.start(*every_node(quorum))
    pytest.fail("the logs differ after each of twelve stops")


def stop_with_a_tail(quorum: Lab) -> int:
    """Kills all nodes when of the voters only the leader has a topic that was being created; returns the leader."""
    leader = quorum.leader
    admin = AdminClient({"bootstrap.servers": ",".join(quorum.broker_bootstrap), "log_level": 0})
    admin.list_topics(timeout=30)
    quorum.pause(*(node for node in quorum.controllers if node != leader))
    requested = admin.create_topics([NewTopic(TAIL, 1, 1)], request_timeout=20)
    eventually(lambda: all(has_tail(quorum, node) for node in (leader, *quorum.brokers)), within_s=10)
    quorum.kill(leader)
    quorum.kill(*(node for node in every_node(quorum) if node != leader))
    with pytest.raises(KafkaException):
        requested[TAIL].result(30)
    return leader


def settings_of(quorum: Lab, node: int) -> list[str]:
    """What people have set, by Kafka's image of a node: no registrations and no leaders of partitions."""
    kinds = (
        "TopicRecord",
        "ConfigRecord",
        "AccessControlEntryRecord",
        "UserScramCredentialRecord",
        "ClientQuotaRecord",
    )
    records = [record.removeprefix("ApiMessageAndVersion(") for record in kafka_records(quorum.node(node).metadata_log)]
    found = [record for record in records if record.startswith(kinds)]
    assert {record.partition("(")[0] for record in found} == {*kinds}
    return found


def has_tail(quorum: Lab, node: int) -> bool:
    return any(TAIL.encode() in path.read_bytes() for path in quorum.node(node).metadata_log.glob("*.log"))


def contents(quorum: Lab, node: int) -> LogDirContents:
    return replay_log_dir(quorum.node(node).data)


def require_rescued(quorum: Lab) -> None:
    """Every node holds the new endpoints, and the cluster works."""

    def recorded(node: int) -> str | None:
        committed = contents(quorum, node).machine.quorum().committed
        return None if committed is None else initial_controllers(committed.voters)

    eventually(lambda: {recorded(node) for node in every_node(quorum)} == {voters(quorum)}, within_s=20)
    quorum.create_topic("after", replication=len(quorum.brokers))
    quorum.produce("orders", 20)
    assert snapshots(quorum.node(quorum.controllers[0]).metadata_log)
