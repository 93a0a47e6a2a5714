"""KIP-856, the uuid of a log directory: where it is stored, and its different field names."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from connectors.errors import UsageError
from connectors.logdir.log_dir_files import PARTITION, ElectionState, read_election_state, read_meta_properties
from connectors.metadata.record_schemas import record_schemas
from connectors.observations.log_event import VotersReplaced
from rules.model.identifiers import DirectoryId, NodeId, ReplicaKey
from streaming.rescue.rescue_plan import make_plan
from streaming.status.build_status import log_dir_status
from streaming.status.from_log_dir import replay_log_dir
from tests.kips.test_kip_595_records import events, voters_record
from tests.kips.test_kip_853_voter_endpoints import decoded
from tests.unit.connectors.logdir.log_dirs import stopped_quorum
from tests.unit.connectors.metadata.metadata_bytes import batch, control
from tests.unit.connectors.metadata.metadata_record_schemas import written

TWO = "AgICAgICAgICAgICAgICAg"
"""16 times the byte 2, as Kafka writes it: URL-safe base64."""


@pytest.mark.kip("A008", "A017", "A018", "D014")
def test_directory_id_voter_directory_id_and_voted_directory_id_name_one_replica(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text(f"version=1\nnode.id=2\ndirectory.id={TWO}\n")
    (tmp_path / PARTITION).mkdir()
    vote = {"leaderId": -1, "leaderEpoch": 3, "votedId": 2, "votedDirectoryId": TWO, "data_version": 1}
    (tmp_path / PARTITION / "quorum-state").write_text(json.dumps(vote))
    of_disk, election = read_meta_properties(tmp_path), read_election_state(tmp_path / PARTITION)
    (written,) = (event for event in events(batch([voters_record(2)])) if isinstance(event, VotersReplaced))

    assert of_disk
    assert isinstance(election, ElectionState)
    two = ReplicaKey(id=NodeId(2), directory_id=DirectoryId(TWO))
    assert (of_disk.key, election.voted, written.voters[0].key) == (two, two, two)


@pytest.mark.kip("A018", "A062", "D020", "K002")
@pytest.mark.parametrize("version", [0, 1])
def test_the_leader_and_the_vote_of_a_quorum_state_are_not_confused(tmp_path: Path, version: int) -> None:
    state = {"data_version": version, "leaderId": 3, "leaderEpoch": 9, "votedId": 2}
    (tmp_path / "quorum-state").write_text(json.dumps(state))

    found = read_election_state(tmp_path)

    assert isinstance(found, ElectionState)
    assert (found.version, found.leader_epoch, found.leader_id) == (version, 9, 3)
    assert found.voted == ReplicaKey(id=NodeId(2))
    (tmp_path / "quorum-state").write_text(
        json.dumps(state | {"leaderId": 0, "votedId": 0, "votedDirectoryId": "A" * 22})
    )
    zero = read_election_state(tmp_path)
    assert isinstance(zero, ElectionState)
    assert (zero.leader_id, zero.voted) == (0, ReplicaKey(id=NodeId(0))), "0 is a node id, and the zero UUID none"
    (tmp_path / "quorum-state").write_text(json.dumps(state | {"leaderId": -1, "leaderEpoch": -1, "votedId": -1}))
    nobody = read_election_state(tmp_path)
    assert isinstance(nobody, ElectionState)
    assert (nobody.leader_epoch, nobody.leader_id, nobody.voted) == (-1, None, None)
    (tmp_path / "quorum-state").write_text(json.dumps(state | {"data_version": 2}))
    assert read_election_state(tmp_path) == "quorum-state has version 2, which no known Kafka writes"


@pytest.mark.kip("A002", "A013", "A065", "D004")
def test_meta_properties_identify_a_metadata_log_dir(
    tmp_path: Path,
) -> None:
    folder = stopped_quorum(tmp_path) / "node-2"
    properties = folder / "meta.properties"
    of_disk = replay_log_dir(folder)
    assert of_disk.folder == folder / "__cluster_metadata-0", "the metadata log lies under metadata.log.dir"
    assert of_disk.meta_properties is not None
    assert f"directory.id={of_disk.meta_properties.directory_id}" in properties.read_text().splitlines()

    assert log_dir_status(of_disk).directory_id == of_disk.meta_properties.directory_id
    for directory in ("-_MwV-qnTvyuNU_bIKMYFQ", "AaorEeDFTeqhbYUKWjaZFw"):
        properties.write_text(f"node.id=2\ndirectory.id={directory}\n")
        assert replay_log_dir(folder).meta_properties == replace(
            of_disk.meta_properties, version=None, cluster_id=None, directory_id=DirectoryId(directory)
        )

    properties.write_text("version=1\nnode.id=2\n")
    assert replay_log_dir(folder).meta_properties == replace(
        of_disk.meta_properties, version=1, cluster_id=None, directory_id=None
    ), "formatted before directories had ids"
    properties.unlink()

    assert replay_log_dir(folder).meta_properties is None
    with pytest.raises(UsageError, match=r"the node is unknown: copy its meta\.properties too"):
        make_plan([replay_log_dir(folder)], None)


@pytest.mark.kip("A054", "A104")
def test_a_leader_change_has_leader_voters_and_granting_voters_with_directory_ids_from_version_1() -> None:
    def said(version: int) -> dict[str, object]:
        one, two = ({"voter_id": node, "voter_directory_id": bytes([node] * 16)} for node in (1, 2))
        if version == 0:
            del one["voter_directory_id"], two["voter_directory_id"]
        fields = {"version": version, "leader_id": 2, "voters": [one, two], "granting_voters": [two]}
        record = decoded(control(2, written(record_schemas().control[2].versions[version][0], fields)))
        return {name: record[name] for name in ("leaderId", "voters", "grantingVoters")}

    assert said(0) == {"leaderId": 2, "voters": [{"voterId": 1}, {"voterId": 2}], "grantingVoters": [{"voterId": 2}]}
    two = {"voterId": 2, "voterDirectoryId": TWO}
    one = {"voterId": 1, "voterDirectoryId": "AQEBAQEBAQEBAQEBAQEBAQ"}
    assert said(1) == {"leaderId": 2, "voters": [one, two], "grantingVoters": [two]}
