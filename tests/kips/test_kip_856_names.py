"""KIP-856, the uuid of a log directory: under whatever name Kafka writes it, it is one and the same replica's."""

import json
import uuid
from pathlib import Path

import pytest

from connectors.event import VotersSet
from connectors.kafka.messages import fetch
from connectors.logdir.election import ElectionState, election_state
from connectors.logdir.files import PARTITION
from connectors.logdir.identity import identity
from rules.quorum import DirectoryId, NodeId, ReplicaKey
from tests.kips.test_kip_595_records import events, voters_record
from tests.unit.connectors.metadata.metadata_bytes import batch

TWO = "AgICAgICAgICAgICAgICAg"
"""16 times the byte 2, as Kafka writes it: URL-safe base64."""


@pytest.mark.kip("A018")
def test_directory_id_voter_directory_id_and_voted_directory_id_name_one_replica(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text(f"version=1\nnode.id=2\ndirectory.id={TWO}\n")
    (tmp_path / PARTITION).mkdir()
    vote = {"leaderId": -1, "leaderEpoch": 3, "votedId": 2, "votedDirectoryId": TWO, "data_version": 1}
    (tmp_path / PARTITION / "quorum-state").write_text(json.dumps(vote))
    of_disk, election = identity(tmp_path), election_state(tmp_path / PARTITION)
    (written,) = (event for event in events(batch([voters_record(2)])) if isinstance(event, VotersSet))

    assert of_disk
    assert isinstance(election, ElectionState)
    two = ReplicaKey(id=NodeId(2), directory_id=DirectoryId(TWO))
    assert (of_disk.key, election.voted, written.voters[0].key) == (two, two, two)


@pytest.mark.kip("A079")
@pytest.mark.parametrize(("version", "carried"), [(13, False), (14, False), (16, False), (17, True), (18, True)])
def test_a_fetch_carries_the_directory_id_from_version_17_on_and_ours_has_none(version: int, carried: bool) -> None:
    """The text has it in version 14; in what shipped it is a tagged field of version 17. We fetch as nobody."""
    request = fetch(
        cluster_id=None, leader_epoch=1, offset=0, last_epoch=0, high_watermark=None, max_wait_ms=1, max_bytes=1
    )
    ours = bytes(request.encode(version=version))
    partition = request.topics[0].partitions[0]
    assert partition.replica_directory_id is None

    directory = uuid.UUID(int=0x0102030405060708090A0B0C0D0E0F10)
    partition.replica_directory_id = directory
    theirs = bytes(request.encode(version=version))

    assert (directory.bytes in theirs) is carried
    assert (theirs == ours) is not carried
