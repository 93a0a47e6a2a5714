"""The files of a log directory: names, meta.properties, quorum-state and recorded voter sets."""

import json
from pathlib import Path

import pytest

from connectors.errors import UsageError
from connectors.logdir.log_dir_files import (
    PARTITION,
    ElectionState,
    checkpoint_name,
    find_partition,
    open_files,
    read_election_state,
    read_meta_properties,
)
from connectors.logdir.log_dir_reader import VoterSetReader, voter_sets_in_files
from connectors.metadata.batch_writer import ControlRecordType, control_record
from rules.model.identifiers import DirectoryId, Epoch, NodeId, ReplicaKey
from tests.unit.connectors.logdir.dynamic_log import VOTER, VOTERS
from tests.unit.connectors.logdir.log_dirs import noops, stopped_quorum, write_log_dir, write_quorum_state
from tests.unit.connectors.metadata.metadata_bytes import batch

OF_2 = ReplicaKey(id=NodeId(2), directory_id=DirectoryId("wPvHPGZoRSmdGaO9smPpMQ"))


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    return stopped_quorum(tmp_path)


def test_the_log_is_found_in_the_metadata_log_dir_or_named_directly(stopped: Path) -> None:
    partition, of_another_topic = stopped / "node-1" / PARTITION, stopped / "node-1" / "A-0"
    of_another_topic.mkdir()
    (of_another_topic / "00000000000000000000.log").touch()

    assert find_partition(stopped / "node-1") == partition
    assert find_partition(partition) == partition
    for other in (stopped, stopped / "nowhere", stopped / "node-1" / "meta.properties"):
        with pytest.raises(UsageError, match=r"no metadata log is in .* name a controller's metadata\.log\.dir"):
            find_partition(other)


def test_snapshot_names_hold_end_offset_and_epoch_and_unfinished_or_deleted_files_are_ignored(
    stopped: Path,
) -> None:
    partition = stopped / "node-2" / PARTITION
    for name in (
        "00000000000000000099-0000000001.checkpoint.part",
        "00000000000000000098-0000000001.checkpoint.deleted",
    ):
        (partition / name).write_bytes(b"half")
    (partition / "00000000000000000099.log.deleted").write_bytes(b"gone")

    with open_files(partition) as files:
        assert [(one.end_offset, one.epoch) for one in files.snapshots] == [(0, 0), (37, 1)]
        assert [one.name for one in files.snapshots] == [checkpoint_name(0, 0), checkpoint_name(37, 1)]
        assert [one.base_offset for one in files.segments] == [0]
    assert checkpoint_name(4601, 9) == "00000000000000004601-0000000009.checkpoint", "the KIP's own example"


def test_a_file_that_kafka_deletes_during_reading_is_read_to_its_end(tmp_path: Path) -> None:
    partition = write_log_dir(tmp_path, {0: noops(0, 3)}) / PARTITION

    with open_files(partition) as files:
        (partition / "00000000000000000000.log").unlink()
        assert files.segments[0].file.read() == noops(0, 3)


def test_files_that_disappear_on_every_attempt_are_reported(tmp_path: Path) -> None:
    partition = write_log_dir(tmp_path, {0: noops(0, 3)}) / PARTITION
    (partition / "00000000000000000003.log").symlink_to("gone")

    with (
        pytest.raises(UsageError, match="were replaced by Kafka on each of 10 attempts: try again"),
        open_files(partition),
    ):
        pass


def test_meta_properties_hold_cluster_node_and_directory_id(stopped: Path) -> None:
    properties = read_meta_properties(stopped / "node-2" / PARTITION)

    assert properties is not None
    assert (properties.version, properties.cluster_id, properties.key) == (1, "vUKL8329QBu98AEWDcwiEw", OF_2)


def test_meta_properties_of_version_0_with_broker_id_and_java_escapes(tmp_path: Path) -> None:
    folder = write_log_dir(tmp_path, {0: b""})
    (folder / "meta.properties").write_text("#\n#Mon\nversion=0\nbroker.id = 7\ncluster.id:a\\=b\\:c\n\n")

    properties = read_meta_properties(folder / PARTITION)

    assert properties is not None
    assert (properties.version, properties.node_id, properties.cluster_id, properties.directory_id) == (
        0,
        7,
        "a=b:c",
        None,
    )
    (folder / "meta.properties").write_text("version=1\nbroker.id=7\nnode.id=0\n")
    assert (newer := read_meta_properties(folder / PARTITION)) is not None
    assert newer.node_id == 0, "a broker id that is left over does not count beside the node id"
    (folder / "meta.properties").unlink()
    assert read_meta_properties(folder / PARTITION) is None


def test_quorum_state_version_1_holds_the_last_election_and_the_directory_voted_for(
    stopped: Path,
) -> None:
    assert read_election_state(stopped / "node-1" / PARTITION) == ElectionState(
        version=1, leader_epoch=Epoch(1), leader_id=NodeId(2), voted=OF_2, static_voters=()
    )


def test_quorum_state_version_0_lists_the_voters_of_a_static_quorum(tmp_path: Path, stopped: Path) -> None:
    folder = write_log_dir(tmp_path / "static", {0: b""})
    voters = [{"voterId": 1}, {"voterId": 2}]
    write_quorum_state(
        folder,
        clusterId="",
        leaderId=-1,
        leaderEpoch=3,
        votedId=2,
        appliedOffset=0,
        currentVoters=voters,
        data_version=0,
    )

    state = read_election_state(folder / PARTITION)

    assert isinstance(state, ElectionState)
    assert (state.version, state.leader_id, state.leader_epoch, state.static_voters) == (0, None, 3, (1, 2))
    assert state.voted == ReplicaKey(id=NodeId(2))
    broker = read_election_state(stopped / "node-101" / PARTITION)
    assert isinstance(broker, ElectionState)
    assert (broker.version, broker.leader_id, broker.voted, broker.static_voters) == (0, 2, None, ())


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "is damaged"),
        ('{"leaderId": 1', "is damaged"),
        ("[]", "is damaged"),
        (json.dumps({"leaderId": 1, "data_version": 1}), "is damaged"),
        (json.dumps({"leaderId": 1, "leaderEpoch": 3, "votedId": 2}), "is damaged"),
        (json.dumps({"leaderId": 1, "leaderEpoch": -5, "votedId": -1, "data_version": 1}), "negative epoch"),
        (json.dumps({"data_version": 2}), "has version 2"),
    ],
)
def test_a_missing_or_invalid_quorum_state_is_reported(tmp_path: Path, content: str, reason: str) -> None:
    partition = write_log_dir(tmp_path, {0: b""}) / PARTITION
    assert "there is no quorum-state" in str(read_election_state(partition))

    (partition / "quorum-state").write_text(content)

    assert reason in str(read_election_state(partition))


def test_recorded_voter_sets_of_the_log_and_of_the_snapshots(stopped: Path) -> None:
    with open_files(stopped / "node-2" / PARTITION) as files:
        sets = voter_sets_in_files(files)

    assert [(one.voters.offset, one.voters.leader_epoch, one.in_snapshot) for one in sets] == [
        (-1, 0, True),
        (2, 1, False),
        (36, 1, False),
        (36, 1, True),
    ]
    ports = [[voter.endpoints[0].port for voter in one.voters.voters] for one in sets]
    assert ports == [[23627, 26108, 25578]] * 2 + [[28223, 26108, 25578]] * 2, "controller 1 restarted on another port"
    assert all(OF_2 in one.voters.keys for one in sets)


def voters_at(offset: int, port: int, *, epoch: int = 1) -> bytes:
    recorded = {**VOTERS, "voters": [{**VOTER, "endpoints": [{"name": "CONTROLLER", "host": "c1", "port": port}]}]}
    one = control_record(ControlRecordType.VOTERS, recorded)
    return batch([(one.key or b"", one.value)], base_offset=offset, epoch=epoch)


def test_of_a_log_that_is_read_again_only_what_was_appended_is_read_unless_it_was_truncated(tmp_path: Path) -> None:
    partition = write_log_dir(tmp_path, {0: voters_at(0, 1) + noops(1, 2) + voters_at(3, 2)}) / PARTITION
    log, reader = partition / f"{0:020d}.log", VoterSetReader()

    def ports() -> list[int]:
        with open_files(partition) as files:
            sets = reader.read(files)
        return [one.voters.voters[0].endpoints[0].port for one in sets]

    assert ports() == ports() == [1, 2]
    # What was read before is not looked at, and the end of a batch that Kafka writes now comes later.
    newest = voters_at(4, 3)
    log.write_bytes(b"\1" + log.read_bytes()[1:] + newest[:-1])
    assert ports() == [1, 2]
    log.write_bytes(log.read_bytes() + newest[-1:])
    assert ports() == [1, 2, 3]
    log.write_bytes(voters_at(0, 1) + noops(1, 2) + voters_at(3, 4, epoch=2) + voters_at(4, 5, epoch=2))
    assert ports() == [1, 4, 5]
    log.write_bytes(voters_at(0, 1))
    assert ports() == [1]
    (partition / f"{1:020d}.log").write_bytes(voters_at(1, 6))
    assert ports() == [1, 6]
    log.unlink()
    assert ports() == [6]
