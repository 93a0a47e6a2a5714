"""KIP-856: the uuid of a log directory on disks and in records; elections by each disk's own voters and log end."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from connectors.errors import UsageError
from connectors.logdir.log_dir_files import PARTITION, ElectionState, read_election_state, read_meta_properties
from connectors.metadata.record_schemas import record_schemas
from connectors.observations.log_event import VotersReplaced
from rules.answers.forecast import forecast_election
from rules.answers.part import Elector
from rules.answers.what_if import Change
from rules.model.identifiers import DirectoryId, Epoch, NodeId, Offset, ReplicaKey
from rules.model.membership import Voter, VoterSet
from rules.rescue.node_decisions import DiskSurvival, NodeAction, StoppedDisk, disk_survival, node_decisions
from streaming.query.from_log_dir import replay_log_dir
from streaming.rescue.rescue_plan import make_plan
from streaming.status.status_tables import log_dir_lines
from streaming.status.what_if import controllers_of_disks, what_if
from tests.kips.kip_records import decoded, events, voters_record
from tests.situation.situation import controller_endpoint as endpoint
from tests.situation.situation import controller_key as key
from tests.unit.connectors.logdir.log_dirs import (
    leader_change,
    noops,
    stopped_quorum,
    write_log_dir,
    write_quorum_state,
)
from tests.unit.connectors.metadata.metadata_bytes import batch, control
from tests.unit.connectors.metadata.metadata_record_schemas import written

TWO = "AgICAgICAgICAgICAgICAg"
"""16 times the byte 2, as Kafka writes it: URL-safe base64."""


def test_directory_id_voter_directory_id_and_voted_directory_id_name_one_replica(tmp_path: Path) -> None:
    """They are the storage id, VoterUuid and VotedUuid of KIP-856."""
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


@pytest.mark.parametrize("voted", [0, 2])
def test_the_vote_on_a_disk_is_shown_with_its_epoch(tmp_path: Path, voted: int) -> None:
    folder = write_log_dir(tmp_path / "node", {0: leader_change() + noops(1, 3)})
    directory = "wPvHPGZoRSmdGaO9smPpMQ"
    state = {"data_version": 1, "leaderId": -1, "leaderEpoch": 9, "votedId": voted, "votedDirectoryId": directory}
    write_quorum_state(folder, **state)

    status = replay_log_dir(folder)

    assert isinstance(status.election, ElectionState)
    assert (status.election.leader_epoch, str(status.election.voted)) == (9, f"{voted}-{directory}")
    shown = {name: str(value) for name, value in log_dir_lines(status)}
    assert f"epoch 9, no leader known, voted for {voted}-{directory}" in shown["Quorum state"]
    assert json.loads((folder / PARTITION / "quorum-state").read_text()) == state, "it is only read"


def test_meta_properties_identify_a_metadata_log_dir(tmp_path: Path) -> None:
    folder = stopped_quorum(tmp_path) / "node-2"
    properties = folder / "meta.properties"
    of_disk = replay_log_dir(folder)
    assert of_disk.folder == folder / "__cluster_metadata-0", "the metadata log lies under metadata.log.dir"
    assert of_disk.meta_properties is not None
    assert of_disk.machine.cluster_id == of_disk.meta_properties.cluster_id is not None
    assert f"directory.id={of_disk.meta_properties.directory_id}" in properties.read_text().splitlines()

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

    nameless = replay_log_dir(folder)
    assert (nameless.meta_properties, nameless.machine.cluster_id) == (None, None)
    assert "which node the disk belongs to: there is no meta.properties" in nameless.missing
    with pytest.raises(UsageError, match=r"the node is unknown: copy its meta\.properties too"):
        make_plan([replay_log_dir(folder)], None)


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


KRAFT_VERSION_1 = control(5, b"\0\0\0\1\0")


def disk(node: int, end: int, *voters: int) -> StoppedDisk:
    """Returns a controller's disk with this log end and the voters of its newest VotersRecord."""
    held = tuple(Voter(key=key(one), endpoints=(endpoint(one),)) for one in voters)
    newest = VoterSet(voters=held, offset=Offset(end - 1), leader_epoch=Epoch(1), timestamp_ms=None)
    return StoppedDisk(key=key(node), epoch=Epoch(1), end_offset=Offset(end), voters=newest)


def left(*disks: StoppedDisk) -> DiskSurvival:
    found = disk_survival(disks)
    assert found is not None
    return found


def test_an_addition_on_some_disks_needs_the_vote_of_a_voter_without_the_record() -> None:
    """Controller 1 of two added a third, and stopped when 2 had the record and 3 did not."""
    second, third = disk(2, 11, 1, 2, 3), disk(3, 10, 1, 2)
    assert third.key not in third.voters.keys, "by its own log it is no voter"

    assert not left(second).electable, "of three voters, by the only log that says so"
    assert left(second, third).electable
    assert left(second, third).best == (second.key,)
    (candidate,) = forecast_election(map(restarted, (second, third))).candidates
    assert (candidate.key, candidate.reached, candidate.wins) == (second.key, (second.key, third.key), True)


def test_an_addition_that_only_some_have_may_leave_nobody_electable() -> None:
    """Controller 1 of three added a fourth, and stopped with it when only 2 had the record."""
    second, third = disk(2, 11, 1, 2, 3, 4), disk(3, 10, 1, 2, 3)

    forecast = forecast_election(map(restarted, (second, third)))

    assert [(one.key.id, len(one.reached), one.needed) for one in forecast.candidates] == [(2, 2, 3), (3, 1, 2)]
    assert not forecast.electable
    with_first = forecast_election(map(restarted, (disk(1, 11, 1, 2, 3, 4), second, third)))
    assert [one.wins for one in with_first.candidates] == [True, True, False]


def restarted(one: StoppedDisk) -> Elector:
    """Returns a controller that starts with this disk, at the endpoint that the others dial."""
    return Elector(key=one.key, log_end=one.position, voters=one.voters)


def test_a_replica_with_another_directory_id_has_no_vote_of_the_voter_with_its_id() -> None:
    second, third = disk(2, 11, 1, 2, 3), replace(disk(3, 11, 1, 2, 3), key=key(3, "new"))

    assert (left(second, third).present, left(second, third).electable) == ((second.key,), False)
    assert {one.action for one in node_decisions([second, third], second.voters)} == {NodeAction.REFUSE}
    (candidate,) = forecast_election(map(restarted, (second, third))).candidates
    assert (candidate.key, candidate.reached) == (second.key, (second.key,))


def test_each_candidate_needs_a_majority_of_the_voters_of_its_own_log() -> None:
    candidates = forecast_election(map(restarted, (disk(1, 10, 1, 2), disk(2, 11, 1, 2, 3, 4)))).candidates

    assert [(one.key.id, one.needed, one.wins) for one in candidates] == [(1, 2, False), (2, 3, False)]
    assert [len(one.reached) + len(one.barred) for one in candidates] == [2, 4]


def test_a_voter_grants_its_vote_to_a_candidate_that_its_own_log_does_not_list() -> None:
    second, third = disk(2, 10, 1, 2), disk(3, 11, 1, 2, 3)

    (_, candidate) = forecast_election(map(restarted, (second, third))).candidates

    assert (candidate.key, candidate.reached, candidate.wins) == (third.key, (second.key, third.key), True)


def test_a_longer_log_of_an_earlier_epoch_is_behind_on_disks_and_after_a_restart() -> None:
    longer, newer = disk(1, 20, 1, 2, 3), replace(disk(2, 10, 1, 2, 3), epoch=Epoch(2))

    assert left(longer, newer).best == (newer.key,)
    reached = {one.key: one.reached for one in forecast_election(map(restarted, (longer, newer))).candidates}
    assert reached == {longer.key: (longer.key,), newer.key: (longer.key, newer.key)}
    shared = {Epoch(1): Offset(8)}
    logs = [
        replace(one, key=each, epoch_ends={**shared, one.epoch: one.end_offset})
        for each, one in ((longer.key, longer), (newer.key, newer), (key(3), newer))
    ]
    actions = {one.key.id: one.action for one in node_decisions(logs, newer.voters)}
    assert actions == {1: NodeAction.LEAVE, 2: NodeAction.APPLY, 3: NodeAction.APPLY}


def test_a_voter_with_its_own_uncommitted_addition_can_be_elected() -> None:
    third = disk(3, 11, 1, 2, 3)

    alone_ahead = left(disk(2, 10, 1, 2), third)

    assert alone_ahead.best == (third.key,)
    assert alone_ahead.electable, "the newest record counts, committed or not"
    assert not left(disk(2, 10, 1, 2), disk(3, 10, 1, 2)).electable, "without the record it has no vote"


def test_a_rescue_is_planned_with_the_newest_voters_of_a_disk_though_it_does_not_show_that_they_are_committed(
    tmp_path: Path,
) -> None:
    begun = leader_change() + batch([KRAFT_VERSION_1, voters_record(1, 2)], base_offset=1) + noops(3, 1)
    folder = write_log_dir(tmp_path, {0: begun + batch([voters_record(1, 2, 3)], base_offset=4)})
    (folder / "meta.properties").write_text("node.id=1\n")

    (planned,) = make_plan([replay_log_dir(folder)], None).disks

    assert planned.disk.committed_below is None
    assert planned.voters.ids == {1, 2, 3}
    assert [one.voters.offset for one in planned.disk.voter_sets] == [2, 4]


@pytest.mark.parametrize("order", [(2, 3), (3, 2)])
def test_disks_of_which_only_some_have_an_addition_are_evaluated_by_the_voters_of_each(
    tmp_path: Path, order: tuple[int, ...]
) -> None:
    """Controller 1 of two added a third, and stopped when 2 had the record and 3 did not."""
    begun = leader_change() + batch([KRAFT_VERSION_1, voters_record(1, 2)], base_offset=1) + noops(3, 1)
    logs = {2: begun + batch([voters_record(1, 2, 3)], base_offset=4), 3: begun}
    directories = {2: TWO, 3: "AwMDAwMDAwMDAwMDAwMDAw"}
    for node, log in logs.items():
        folder = write_log_dir(tmp_path / str(node), {0: log})
        (folder / "meta.properties").write_text(
            f"version=1\ncluster.id=rescue\nnode.id={node}\ndirectory.id={directories[node]}\n"
        )
    disks = [replay_log_dir(tmp_path / str(node)) for node in order]

    answer = what_if(controllers_of_disks(disks), Change(moved={}, lost=frozenset({NodeId(1)}), restarted=None))

    assert answer.controllers.voters
    assert answer.controllers.voters.ids == {1, 2, 3}, "the newest voters"
    assert [(one.key.id, one.needed, [key.id for key in one.reached]) for one in answer.forecast.candidates] == [
        (2, 2, [2, 3])
    ], "3 is no voter of its own log, and votes"
    plan = make_plan(disks, None)
    assert any("the nodes hold different VOTERS, not only endpoints" in warning for warning in plan.warnings)
    assert plan.startable == ()
