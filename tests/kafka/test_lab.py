"""The lab on a real quorum: the other tests of this folder rely on it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from connectors.metadata.dump_log import DumpedRecord, dump_records
from deploy.lab import LabError
from deploy.lab.persistent_quorum import down, up
from tests.eventually import eventually
from tests.kafka.lab_helpers import start_new_controller
from tests.kafka.voter_requests import (
    DUPLICATE_VOTER,
    INCONSISTENT_CLUSTER_ID,
    NOT_LEADER,
    TIMED_OUT,
    VOTER_NOT_FOUND,
    add_voter,
    remove_voter,
)
from tests.lab import Lab

pytestmark = pytest.mark.lab

MakeLab = Callable[..., Lab]

QUICK = {"broker.session.timeout.ms": "3000"}


@pytest.fixture(scope="module")
def quorum(shared_lab: MakeLab) -> Lab:
    """Starts three named controllers and two brokers; each test leaves the quorum healthy, with three voters."""
    return shared_lab(controllers=3, brokers=2, named=True, properties=QUICK)


def leader_of(lab: Lab) -> int:
    return lab.await_state(lambda state: True, what="a leader").leader_id


def follower_of(lab: Lab) -> int:
    leader = leader_of(lab)
    return next(id_ for id_ in lab.controllers if id_ != leader)


def await_caught_up(lab: Lab, voter: int) -> None:
    directory = lab.node(voter).directory_id

    def fetched(end: int, rows: dict[str, int]) -> bool:
        return rows.get(directory, -1) >= end

    before = lab.await_state(lambda state: state.high_watermark >= 0, what="a leader that commits").high_watermark
    lab.await_state(
        lambda state: fetched(before, {one.directory_id: one.log_end_offset for one in state.voters}),
        what=f"voter {voter} caught up",
    )


@pytest.mark.kip("A055")
def test_first_record_of_a_leader_has_a_majority_of_granting_voters(quorum: Lab) -> None:
    follower = quorum.node(follower_of(quorum))
    # A new follower has no records yet.
    await_caught_up(quorum, follower.id)
    records = [
        entry.data
        for path in sorted(follower.metadata_log.glob("*.log"))
        for entry in dump_records(path.read_bytes())
        if isinstance(entry, DumpedRecord) and entry.data and "grantingVoters" in entry.data
    ]

    assert records
    for record in records:
        voters, granting = ([one["voterId"] for one in record[of]] for of in ("voters", "grantingVoters"))
        assert set(granting) <= set(voters)
        assert len(granting) >= len(voters) // 2 + 1


@pytest.mark.kip("A098")
def test_lab_reports_the_same_state_as_kafkas_tool(quorum: Lab) -> None:
    status, rows = quorum.describe_status(), quorum.describe_replication()
    state = quorum.await_state(
        lambda state: state.leader_id == int(status["LeaderId"]), what="the leader that the tool reports"
    )

    assert status["ClusterId"] == quorum.cluster_id
    voters = {voter["id"]: voter for voter in json.loads(status["CurrentVoters"])}
    assert voters.keys() == set(quorum.controllers) == state.voter_ids
    for id_ in quorum.controllers:
        assert voters[id_]["directoryId"] == quorum.node(id_).directory_id
        assert voters[id_]["endpoints"] == [f"CONTROLLER://{quorum.node(id_).endpoint}"]
        assert state.endpoints[id_] == (quorum.node(id_).endpoint,)
    assert {int(row["NodeId"]): row["Status"] for row in rows if row["Status"] == "Observer"} == dict.fromkeys(
        quorum.brokers, "Observer"
    )


def test_another_leader_is_elected_after_the_leader_is_killed(quorum: Lab) -> None:
    old = leader_of(quorum)
    quorum.kill(old)
    assert quorum.node(old).pid is None

    quorum.await_state(lambda state: state.leader_id != old, what="another leader")
    quorum.start(old)
    await_caught_up(quorum, old)


def test_quorum_with_a_paused_majority_has_no_leader_until_it_is_resumed(quorum: Lab) -> None:
    leader = leader_of(quorum)
    two = [leader, next(id_ for id_ in quorum.controllers if id_ != leader)]
    quorum.pause(*two)
    assert all(psutil.Process(quorum.node(id_).pid).status() == psutil.STATUS_STOPPED for id_ in two)

    eventually(lambda: quorum.state is None, within_s=30)
    quorum.resume(*two)
    quorum.await_state(lambda state: len(state.voters) == 3, what="all voters after the pause")


def test_moved_endpoint_is_written_to_the_voter_set(quorum: Lab) -> None:
    node = follower_of(quorum)
    before = quorum.node(node).endpoint
    with pytest.raises(LabError, match=rf"^node {node} is running: stop it before its endpoint is moved$"):
        quorum.move_endpoint(node)
    quorum.stop(node)
    quorum.move_endpoint(node)
    quorum.start(node)

    after = quorum.node(node).endpoint
    assert after != before
    quorum.await_state(lambda state: state.endpoints.get(node) == (after,), what="the new endpoint")
    await_caught_up(quorum, node)


def test_replaced_disk_is_fixed_by_the_printed_commands(quorum: Lab) -> None:
    node = follower_of(quorum)
    old = quorum.node(node).directory_id
    quorum.stop(node)
    new = quorum.wipe_disk(node)
    quorum.start(node)
    assert new == quorum.node(node).directory_id != old

    state = quorum.await_state(
        lambda state: (node, new) in {(one.id, one.directory_id) for one in state.observers}, what="the new directory"
    )
    assert (node, old) in {(one.id, one.directory_id) for one in state.voters}
    bootstrap = f"--bootstrap-controller {quorum.node(leader_of(quorum)).endpoint}"
    old_voter = f"--controller-id {node} --controller-directory-id {old}"
    for line in (
        "# Remove the old directory first: Kafka allows one voter for each id.",
        f"kafka-metadata-quorum.sh {bootstrap} remove-controller {old_voter}",
        f"kafka-metadata-quorum.sh {bootstrap} --command-config $NODE_PROPERTIES add-controller",
    ):
        quorum.run_remedy(line, node_properties=quorum.node(node).properties_file)

    quorum.await_state(
        lambda state: (node, new) in {(one.id, one.directory_id) for one in state.voters}, what="the new voter"
    )


def test_refused_command_raises_kafkas_error(quorum: Lab) -> None:
    node = follower_of(quorum)
    line = (
        f"kafka-metadata-quorum.sh --bootstrap-controller {quorum.node(leader_of(quorum)).endpoint} "
        f"remove-controller --controller-id {node} --controller-directory-id AAAAAAAAAAAAAAAAAAAAAQ"
    )

    with pytest.raises(LabError, match="VoterNotFoundException"):
        quorum.run_remedy(line)


@pytest.mark.kip("A020", "A066", "A068", "A072", "A073", "A074", "A078")
def test_invalid_voter_changes_are_refused_with_kafkas_error_codes(quorum: Lab) -> None:
    """Kafka's real error codes differ from the KIP's. An unreachable new voter is an immediate time-out."""
    cluster_id, unknown_directory = quorum.cluster_id, "AAAAAAAAAAAAAAAAAAAAAQ"

    def leader_and_follower_refuse() -> None:
        leader = leader_of(quorum)
        follower = quorum.node(next(id_ for id_ in quorum.controllers if id_ != leader))
        leads, follows = quorum.node(leader).controller_port, follower.controller_port
        assert leads
        assert follows
        known = (follower.id, follower.directory_id, follower.endpoint)
        assert add_voter(leads, cluster_id, *known) == DUPLICATE_VOTER
        assert add_voter(follows, cluster_id, *known) == NOT_LEADER
        assert add_voter(leads, "another-cluster", *known) == INCONSISTENT_CLUSTER_ID
        assert add_voter(leads, cluster_id, 99, unknown_directory, "127.0.0.1:1") == TIMED_OUT
        assert remove_voter(leads, cluster_id, follower.id, unknown_directory) == VOTER_NOT_FOUND
        assert remove_voter(leads, cluster_id, 99, follower.directory_id) == VOTER_NOT_FOUND
        assert remove_voter(follows, cluster_id, follower.id, unknown_directory) == NOT_LEADER

    def broker_forwards_to_the_leader() -> None:
        # A broker forwards the request to its cached leader and refreshes the cache only on NOT_CONTROLLER, which these
        # requests never return. A broker that has just started knows the current leader.
        follower, broker = quorum.node(follower_of(quorum)), quorum.node(quorum.brokers[0])
        quorum.kill(broker.id)
        quorum.start(broker.id)
        port, known = broker.broker_port, (follower.id, follower.directory_id, follower.endpoint)
        assert port
        assert add_voter(port, cluster_id, *known) == DUPLICATE_VOTER, "the broker forwards the request to the leader"
        assert remove_voter(port, cluster_id, follower.id, unknown_directory) == VOTER_NOT_FOUND

    # Repeated as a whole: after an election during the requests, one of the responses is from a former leader.
    eventually(leader_and_follower_refuse, within_s=20)
    eventually(broker_forwards_to_the_leader, within_s=60)

    assert quorum.await_state(lambda state: True, what="a leader").voter_ids == {1, 2, 3}


@pytest.mark.long
@pytest.mark.kip("A002", "A065")
def test_controller_does_not_start_without_meta_properties(quorum: Lab) -> None:
    node = quorum.node(follower_of(quorum))
    properties = node.data / "meta.properties"
    values = dict(line.split("=", 1) for line in properties.read_text().splitlines() if "=" in line)
    assert values["version"] == "1"
    assert values["node.id"] == str(node.id)
    assert values["directory.id"] == node.directory_id
    quorum.stop(node.id)
    moved = properties.rename(properties.with_suffix(".moved"))
    with pytest.raises(LabError, match=r"meta\.properties"):
        quorum.start(node.id)
    assert node.process
    assert node.process.wait(60)
    moved.rename(properties)

    quorum.start(node.id)
    await_caught_up(quorum, node.id)


def test_new_controller_is_added_as_a_voter_and_removed(quorum: Lab) -> None:
    observer_id = start_new_controller(quorum)
    state = quorum.await_state(lambda state: True, what="a leader")
    assert observer_id not in state.voter_ids
    assert observer_id in {observer.id for observer in state.observers}

    quorum.add_controller(observer_id)
    assert quorum.await_state(lambda state: True, what="a leader").voter_ids == {1, 2, 3, observer_id}

    quorum.remove_controller(observer_id)
    assert quorum.await_state(lambda state: True, what="a leader").voter_ids == {1, 2, 3}
    quorum.stop(observer_id)


def test_dropped_names_affect_only_new_connections_and_a_rename_is_written_to_the_voter_set(quorum: Lab) -> None:
    node = follower_of(quorum)
    old, new = quorum.node(node).host, f"c{node}-new.kraftwatch.invalid"
    hosts = [quorum.node(id_).host for id_ in quorum.controllers]

    def only_new_connections_fail() -> None:
        # After a failed attempt, the voters must be connected again.
        for voter in (1, 2, 3):
            await_caught_up(quorum, voter)
        quorum.names.drop(*hosts)
        try:
            # A new client cannot resolve the names ...
            with pytest.raises(LabError, match=r"^kafka-metadata-quorum .* failed"):
                quorum.describe_status()
            # ... but the voters stay connected: the high watermark advances.
            before = quorum.await_state(lambda state: True, what="a leader", timeout_s=15).high_watermark
            quorum.await_state(
                lambda state: state.high_watermark > before + 4, what="a higher high watermark", timeout_s=15
            )
        except LabError as error:
            # If the machine stalls for two seconds, the voters close their connections and resolve the names again.
            raise AssertionError(str(error)) from error
        finally:
            quorum.names.add(*hosts)

    eventually(only_new_connections_fail, within_s=60, every_s=5)
    quorum.names.add(new)
    quorum.stop(node)
    quorum.rename(node, new)
    quorum.start(node)
    quorum.await_state(
        lambda state: state.endpoints.get(node) == (quorum.node(node).endpoint,), what="the new name in the voter set"
    )
    quorum.names.drop(old)
    await_caught_up(quorum, node)
    assert quorum.node(node).endpoint.startswith(f"{new}:")


def test_unclean_partitions_are_recovering_until_the_killed_broker_starts(quorum: Lab) -> None:
    unclean = quorum.leave_partitions_recovering("orders", "payments", partitions=2)
    assert not quorum.node(unclean.killed_broker).running

    recovering = [change for change in partition_changes(quorum) if change.get("leaderRecoveryState") == 1]
    assert len(recovering) == 4
    assert all(change["isr"] == [unclean.leader] == [change["leader"]] for change in recovering)

    quorum.start(unclean.killed_broker)
    eventually(
        lambda: sum(change.get("leaderRecoveryState") == 0 for change in partition_changes(quorum)) == 4,
        within_s=60,
        every_s=1.0,
    )


def partition_changes(lab: Lab) -> list[dict[str, object]]:
    """Returns the data of every PartitionChangeRecord, as decoded by Kafka's tool."""
    payloads = (line.partition("payload: ")[2] for line in lab.dump_log(leader_of(lab)).splitlines())
    records = [json.loads(payload) for payload in payloads if payload.startswith("{")]
    return [record["data"] for record in records if record["type"] == "PARTITION_CHANGE_RECORD"]


def test_combined_nodes_are_voters_and_brokers(lab: MakeLab) -> None:
    pair = lab(controllers=0, combined=1, brokers=1)
    pair.create_topic("orders", partitions=2, replication=2)
    pair.produce("orders", 20)

    assert pair.controllers == [1]
    assert pair.brokers == [1, 101]
    assert leader_of(pair) == 1


def test_error_of_a_failed_start_has_the_end_of_the_log_and_no_process_remains(
    kafka_jars: Path, tmp_path: Path
) -> None:
    broken = Lab(tmp_path / "lab", controllers=1, brokers=0, properties={"num.io.threads": "none"})

    with pytest.raises(LabError, match=r"num\.io\.threads"), broken:
        pytest.fail("the quorum must not start")
    assert pids_in(tmp_path) == []


STARTER = """
import sys
from pathlib import Path
from deploy.lab.persistent_quorum import up
from deploy.lab.running_quorum import RunningQuorum
up(RunningQuorum(Path(sys.argv[1]), controllers=1, brokers=1, supervised=False))
"""

OWNER = """
import sys, time
from pathlib import Path
from tests.lab import Lab
with Lab(Path(sys.argv[1]), controllers=1, brokers=1) as lab:
    lab.pause(101)
    print(*(lab.node(id_).pid for id_ in (1, 101)), flush=True)
    time.sleep(600)
"""


def test_nodes_end_when_their_owner_is_killed(kafka_jars: Path, tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path / "lab")], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as owner:
        assert owner.stdout is not None
        pids = [int(pid) for pid in owner.stdout.readline().split()]
        assert len(pids) == 2
        assert all("kafka.Kafka" in psutil.Process(pid).cmdline() for pid in pids)

        os.killpg(owner.pid, signal.SIGKILL)

    eventually(lambda: not any(psutil.pid_exists(pid) for pid in pids), within_s=10)
    eventually(lambda: pids_in(tmp_path) == [], within_s=10)


def test_persistent_quorum_outlives_the_process_that_started_it(kafka_jars: Path, tmp_path: Path) -> None:
    folder = tmp_path / "lab"
    subprocess.run([sys.executable, "-c", STARTER, str(folder)], check=True, timeout=300)
    try:
        assert len(pids_in(folder)) == 2
        with pytest.raises(LabError, match=r"^a lab is already running in "):
            up(Lab(folder, supervised=False))
    finally:
        assert down(folder) == 2
    assert pids_in(folder) == []
    assert down(folder) == 0


def pids_in(folder: Path) -> list[int]:
    """Returns the pids of all processes, guards included, whose command line contains this folder."""
    return [
        process.pid
        for process in psutil.process_iter(["cmdline"])
        if any(str(folder) in word for word in process.info["cmdline"] or ()) and process.pid != os.getpid()
    ]
