"""The lab does what it says, on a real quorum. Other tests here believe it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from connectors.metadata.dump_log import Transcribed, transcript
from deploy.lab.lab import Lab
from deploy.lab.lab_errors import LabError
from deploy.lab.persistent_quorum import down, up
from tests.eventually import eventually
from tests.kafka.voter_requests import (
    DUPLICATE_VOTER,
    INCONSISTENT_CLUSTER_ID,
    NOT_LEADER,
    TIMED_OUT,
    VOTER_NOT_FOUND,
    add_voter,
    remove_voter,
)

pytestmark = pytest.mark.lab

MakeLab = Callable[..., Lab]

QUICK = {"broker.session.timeout.ms": "3000"}


@pytest.fixture(scope="module")
def quorum(shared_lab: MakeLab) -> Lab:
    """Three controllers and two brokers, named, shared: each test leaves it healthy, with three voters."""
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
def test_who_voted_for_a_leader_is_a_majority_and_stands_in_its_first_record(quorum: Lab) -> None:
    follower = quorum.node(follower_of(quorum))
    # One that fetches for the first time has nothing yet.
    await_caught_up(quorum, follower.id)
    records = [
        entry.data
        for path in sorted(follower.metadata_log.glob("*.log"))
        for entry in transcript(path.read_bytes())
        if isinstance(entry, Transcribed) and entry.data and "grantingVoters" in entry.data
    ]

    assert records
    for record in records:
        voters, granting = ([one["voterId"] for one in record[of]] for of in ("voters", "grantingVoters"))
        assert set(granting) <= set(voters)
        assert len(granting) >= len(voters) // 2 + 1


@pytest.mark.kip("A098")
def test_kafkas_own_tool_and_the_lab_agree_about_a_healthy_quorum(quorum: Lab) -> None:
    status, rows = quorum.describe_status(), quorum.describe_replication()
    state = quorum.await_state(lambda state: state.leader_id == int(status["LeaderId"]), what="the leader that is told")

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


def test_a_killed_leader_is_followed_by_another_and_comes_back(quorum: Lab) -> None:
    old = leader_of(quorum)
    quorum.kill(old)
    assert quorum.node(old).pid is None

    quorum.await_state(lambda state: state.leader_id != old, what="another leader")
    quorum.start(old)
    await_caught_up(quorum, old)


def test_a_paused_majority_leads_nowhere_until_it_is_resumed(quorum: Lab) -> None:
    leader = leader_of(quorum)
    two = [leader, next(id_ for id_ in quorum.controllers if id_ != leader)]
    quorum.pause(*two)
    assert all(psutil.Process(quorum.node(id_).pid).status() == psutil.STATUS_STOPPED for id_ in two)

    eventually(lambda: quorum.state is None, within_s=30)
    quorum.resume(*two)
    quorum.await_state(lambda state: len(state.voters) == 3, what="the quorum again")


def test_a_moved_endpoint_reaches_the_voter_set(quorum: Lab) -> None:
    node = follower_of(quorum)
    before = quorum.node(node).endpoint
    with pytest.raises(LabError, match=rf"^node {node} runs: stop it before its endpoint moves$"):
        quorum.move_endpoint(node)
    quorum.stop(node)
    quorum.move_endpoint(node)
    quorum.start(node)

    after = quorum.node(node).endpoint
    assert after != before
    quorum.await_state(lambda state: state.endpoints.get(node) == (after,), what="the new endpoint")
    await_caught_up(quorum, node)


def test_a_replaced_disk_is_mended_by_the_printed_lines(quorum: Lab) -> None:
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
    at = f"--bootstrap-controller {quorum.node(leader_of(quorum)).endpoint}"
    who = f"--controller-id {node} --controller-directory-id {old}"
    for line in (
        "# Remove the old directory first: Kafka allows one voter an id.",
        f"kafka-metadata-quorum.sh {at} remove-controller {who}",
        f"kafka-metadata-quorum.sh {at} --command-config $NODE_PROPERTIES add-controller",
    ):
        quorum.run_remedy(line, node_properties=quorum.node(node).properties_file)

    quorum.await_state(
        lambda state: (node, new) in {(one.id, one.directory_id) for one in state.voters}, what="the new voter"
    )


def test_a_remedy_that_kafka_refuses_says_why(quorum: Lab) -> None:
    node = follower_of(quorum)
    line = (
        f"kafka-metadata-quorum.sh --bootstrap-controller {quorum.node(leader_of(quorum)).endpoint} "
        f"remove-controller --controller-id {node} --controller-directory-id AAAAAAAAAAAAAAAAAAAAAQ"
    )

    with pytest.raises(LabError, match="VoterNotFoundException"):
        quorum.run_remedy(line)


@pytest.mark.kip("A020", "A066", "A068", "A072", "A073", "A074", "A078")
def test_voter_changes_are_asked_of_the_leader_and_refused_with_kafkas_own_errors(quorum: Lab) -> None:
    """The codes that shipped: those of the text never did. Who cannot be a voter yet is a time-out at once."""
    us, stranger = quorum.cluster_id, "AAAAAAAAAAAAAAAAAAAAAQ"

    def refused() -> None:
        leader = leader_of(quorum)
        follower = quorum.node(next(id_ for id_ in quorum.controllers if id_ != leader))
        leads, follows = quorum.node(leader).controller_port, follower.controller_port
        assert leads
        assert follows
        known = (follower.id, follower.directory_id, follower.endpoint)
        assert add_voter(leads, us, *known) == DUPLICATE_VOTER
        assert add_voter(follows, us, *known) == NOT_LEADER
        assert add_voter(leads, "another-cluster", *known) == INCONSISTENT_CLUSTER_ID
        assert add_voter(leads, us, 99, stranger, "127.0.0.1:1") == TIMED_OUT
        assert remove_voter(leads, us, follower.id, stranger) == VOTER_NOT_FOUND
        assert remove_voter(leads, us, 99, follower.directory_id) == VOTER_NOT_FOUND
        assert remove_voter(follows, us, follower.id, stranger) == NOT_LEADER

    def handed_on() -> None:
        # A broker hands it to the leader that it last found, and looks again only when it is told NOT_CONTROLLER, as
        # these requests never are: one that has just started knows the leader of now.
        follower, broker = quorum.node(follower_of(quorum)), quorum.node(quorum.brokers[0])
        quorum.kill(broker.id)
        quorum.start(broker.id)
        port, known = broker.broker_port, (follower.id, follower.directory_id, follower.endpoint)
        assert port
        assert add_voter(port, us, *known) == DUPLICATE_VOTER, "the broker hands it to the leader"
        assert remove_voter(port, us, follower.id, stranger) == VOTER_NOT_FOUND

    # Whole, by who leads then: an election on the way makes one of them the answer of a leader that is none.
    eventually(refused, within_s=20)
    eventually(handed_on, within_s=60)

    assert quorum.await_state(lambda state: True, what="a leader").voter_ids == {1, 2, 3}


@pytest.mark.long
@pytest.mark.kip("A002", "A065")
def test_a_controller_starts_from_no_directory_without_meta_properties(quorum: Lab) -> None:
    node = quorum.node(follower_of(quorum))
    properties = node.data / "meta.properties"
    named = dict(line.split("=", 1) for line in properties.read_text().splitlines() if "=" in line)
    assert named["version"] == "1"
    assert named["node.id"] == str(node.id)
    assert named["directory.id"] == node.directory_id
    quorum.stop(node.id)
    kept = properties.rename(properties.with_suffix(".kept"))
    with pytest.raises(LabError, match=r"meta\.properties"):
        quorum.start(node.id)
    assert node.program
    assert node.program.wait(60)
    kept.rename(properties)

    quorum.start(node.id)
    await_caught_up(quorum, node.id)


def test_a_further_controller_becomes_a_voter_and_is_removed_again(quorum: Lab) -> None:
    waiting = quorum.new_controller()
    state = quorum.await_state(lambda state: True, what="a leader")
    assert waiting not in state.voter_ids
    assert waiting in {observer.id for observer in state.observers}

    quorum.add_controller(waiting)
    assert quorum.await_state(lambda state: True, what="a leader").voter_ids == {1, 2, 3, waiting}

    quorum.remove_controller(waiting)
    assert quorum.await_state(lambda state: True, what="a leader").voter_ids == {1, 2, 3}
    quorum.stop(waiting)


def test_names_that_vanish_hurt_only_who_asks_again_and_a_rename_reaches_the_voter_set(quorum: Lab) -> None:
    node = follower_of(quorum)
    old, new = quorum.node(node).host, f"c{node}-new.kraftwatch.invalid"
    everybody = [quorum.node(id_).host for id_ in quorum.controllers]

    def only_who_asks_again_is_hurt() -> None:
        # After an attempt in vain they are to have found each other again.
        for voter in (1, 2, 3):
            await_caught_up(quorum, voter)
        quorum.names.drop(*everybody)
        try:
            # Who asks now is told that there is no such name ...
            with pytest.raises(LabError, match=r"^kafka-metadata-quorum .* failed"):
                quorum.describe_status()
            # ... while who stands connected goes on: the high watermark moves.
            before = quorum.await_state(lambda state: True, what="a leader", timeout_s=15).high_watermark
            quorum.await_state(lambda state: state.high_watermark > before + 4, what="it to move on", timeout_s=15)
        except LabError as error:
            # Where the machine stands still for two seconds, they give their connections up, and have to ask again.
            raise AssertionError(str(error)) from error
        finally:
            quorum.names.add(*everybody)

    eventually(only_who_asks_again_is_hurt, within_s=60, every_s=5)
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


def test_stranded_partitions_are_recovering_in_the_log_and_heal_when_the_dead_broker_returns(quorum: Lab) -> None:
    stranded = quorum.strand_recovering("orders", "payments", partitions=2)
    assert not quorum.node(stranded.dead).running

    recovering = [change for change in changes_of(quorum) if change.get("leaderRecoveryState") == 1]
    assert len(recovering) == 4
    assert all(change["isr"] == [stranded.leader] == [change["leader"]] for change in recovering)

    quorum.start(stranded.dead)
    eventually(
        lambda: sum(change.get("leaderRecoveryState") == 0 for change in changes_of(quorum)) == 4,
        within_s=60,
        every_s=1.0,
    )


def changes_of(lab: Lab) -> list[dict[str, object]]:
    """The data of every PartitionChangeRecord, as Kafka's own tool decodes them."""
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


def test_a_node_that_cannot_start_is_told_with_the_end_of_its_log_and_leaves_nothing_running(
    kafka_jars: Path, tmp_path: Path
) -> None:
    broken = Lab(tmp_path / "lab", controllers=1, brokers=0, properties={"num.io.threads": "none"})

    with pytest.raises(LabError, match=r"num\.io\.threads"), broken:
        pytest.fail("it must not come up")
    assert nodes_in(tmp_path) == []


MAKER = """
import sys
from pathlib import Path
from deploy.lab.persistent_quorum import up
up(Path(sys.argv[1]), controllers=1, brokers=1)
"""

OWNER = """
import sys, time
from pathlib import Path
from deploy.lab.lab import Lab
with Lab(Path(sys.argv[1]), controllers=1, brokers=1) as lab:
    lab.pause(101)
    print(*(lab.node(id_).pid for id_ in (1, 101)), flush=True)
    time.sleep(600)
"""


def test_no_node_outlives_an_owner_that_is_killed(kafka_jars: Path, tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path / "lab")], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as owner:
        assert owner.stdout is not None
        pids = [int(pid) for pid in owner.stdout.readline().split()]
        assert len(pids) == 2
        assert all("kafka.Kafka" in psutil.Process(pid).cmdline() for pid in pids)

        os.killpg(owner.pid, signal.SIGKILL)

    eventually(lambda: not any(psutil.pid_exists(pid) for pid in pids), within_s=10)
    eventually(lambda: nodes_in(tmp_path) == [], within_s=10)


def test_a_standing_quorum_outlives_its_maker_and_is_taken_down(kafka_jars: Path, tmp_path: Path) -> None:
    folder = tmp_path / "lab"
    subprocess.run([sys.executable, "-c", MAKER, str(folder)], check=True, timeout=300)
    try:
        told = json.loads((folder / "lab.json").read_text())
        assert len(nodes_in(folder)) == 2
        assert sorted(told["nodes"]) == ["1", "101"]
        with pytest.raises(LabError, match=r"is up in .* already"):
            up(folder)
    finally:
        assert down(folder) == 2
    assert nodes_in(folder) == []
    assert down(folder) == 0


def nodes_in(folder: Path) -> list[int]:
    """The pids of all processes, leashes included, that have anything of this folder on their command line."""
    return [
        process.pid
        for process in psutil.process_iter(["cmdline"])
        if any(str(folder) in word for word in process.info["cmdline"] or ()) and process.pid != os.getpid()
    ]
