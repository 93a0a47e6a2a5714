"""The lab on a real quorum: the other tests of this folder rely on it."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from connectors.metadata.dump_log import DumpedRecord, dump_records
from deploy.lab import LabError
from deploy.lab.running_quorum import down, up
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
from tests.lab import Lab

pytestmark = pytest.mark.lab

MakeLab = Callable[..., Lab]


@pytest.fixture(scope="module")
def quorum(shared_lab: MakeLab) -> Lab:
    """Starts three controllers and a broker; each test leaves the quorum healthy, with three voters."""
    return shared_lab(controllers=3, brokers=1)


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
from deploy.lab.running_quorum import RunningQuorum, up
up(RunningQuorum(Path(sys.argv[1]), controllers=1, brokers=1, supervised=False))
"""


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
