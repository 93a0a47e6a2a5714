"""KIP-856, votes and majorities as rules and the rescue plan evaluate them: disks, voter sets, log ends."""

from dataclasses import replace
from pathlib import Path

import pytest

from rules.analysis.electability import RestartedController, forecast_election, restarted_voters
from rules.analysis.endpoint_status import endpoint_statuses
from rules.evaluate import thresholds_for
from rules.model.identifiers import Epoch, Offset
from rules.model.membership import Voter, VoterSet
from rules.model.quorum import Quorum
from rules.rescue.node_decisions import DiskSurvival, NodeAction, StoppedDisk, disk_survival, node_decisions
from streaming.rescue.rescue_plan import make_plan
from streaming.status.from_log_dir import replay_log_dir
from tests.kips.test_kip_595_records import voters_record
from tests.unit.connectors.logdir.log_dirs import leader_change, noops, write_log_dir
from tests.unit.connectors.metadata.metadata_bytes import batch, control
from tests.unit.rules.situation import endpoint, healthy, key, observer, voter_not_fetching, voters_lagging

THRESHOLDS = thresholds_for({})["stale-voter-endpoint"]
KRAFT_VERSION_1 = control(5, b"\0\0\0\1\0")


def electable(quorum: Quorum) -> bool:
    """Returns whether a voter could win an election now."""
    return forecast_election(restarted_voters(quorum, endpoint_statuses(quorum, quorum.poll, THRESHOLDS))).electable


@pytest.mark.kip("A008", "A088")
def test_a_voter_on_a_new_disk_cannot_give_the_vote_of_the_old_one() -> None:
    one_down = voter_not_fetching(healthy(3), 1)
    assert electable(one_down)

    replaced = observer(voter_not_fetching(one_down, 2), 2, directory="newDirOf2")

    assert not electable(replaced), "controllers 2 and 3 run, and of three voters one is left"


@pytest.mark.kip("K035")
@pytest.mark.parametrize(("lag_ms", "end"), [(500, 10_000), (5_000, 10_000), (5_001, 9_000)])
def test_a_follower_that_is_a_fetch_behind_counts_as_level_with_the_leader(lag_ms: int, end: int) -> None:
    """An idle follower of Kafka fetches every half second."""
    quorum = voters_lagging(healthy(3), 1, for_ms=lag_ms)

    standings = restarted_voters(quorum, endpoint_statuses(quorum, quorum.poll, THRESHOLDS))

    assert [one.position for one in standings] == [(7, end), (7, 10_000), (7, 10_000)]


@pytest.mark.kip("D041")
def test_a_voter_of_which_no_fetch_is_known_counts_as_alive() -> None:
    unknown = restarted_voters(healthy(3), endpoint_statuses(healthy(3), None, THRESHOLDS))

    assert [one.alive for one in unknown] == [True] * 3
    assert forecast_election(unknown).electable


def disk(node: int, end: int, *voters: int) -> StoppedDisk:
    """Returns a controller's disk with this log end and the voters of its newest VotersRecord."""
    held = tuple(Voter(key=key(one), endpoints=(endpoint(one),)) for one in voters)
    newest = VoterSet(voters=held, offset=Offset(end - 1), leader_epoch=Epoch(1), timestamp_ms=None)
    return StoppedDisk(key=key(node), epoch=Epoch(1), end_offset=Offset(end), voters=newest)


def left(*disks: StoppedDisk) -> DiskSurvival:
    found = disk_survival(disks)
    assert found is not None
    return found


@pytest.mark.kip("A009", "A037", "A038", "A087", "K007")
def test_an_addition_on_some_disks_needs_the_vote_of_a_voter_without_the_record() -> None:
    """Controller 1 of two added a third, and stopped when 2 had the record and 3 did not."""
    second, third = disk(2, 11, 1, 2, 3), disk(3, 10, 1, 2)
    assert third.key not in third.voters.keys, "by its own log it is no voter"

    assert not left(second).electable, "of three voters, by the only log that says so"
    assert left(second, third).electable
    assert left(second, third).best == (second.key,)
    (candidate,) = forecast_election(map(restarted, (second, third))).candidates
    assert (candidate.key, candidate.reached, candidate.wins) == (second.key, (second.key, third.key), True)


@pytest.mark.kip("A037")
def test_an_addition_that_only_some_have_may_leave_nobody_electable() -> None:
    """Controller 1 of three added a fourth, and stopped with it when only 2 had the record."""
    second, third = disk(2, 11, 1, 2, 3, 4), disk(3, 10, 1, 2, 3)

    forecast = forecast_election(map(restarted, (second, third)))

    assert [(one.key.id, len(one.reached), one.needed) for one in forecast.candidates] == [(2, 2, 3), (3, 1, 2)]
    assert not forecast.electable
    with_first = forecast_election(map(restarted, (disk(1, 11, 1, 2, 3, 4), second, third)))
    assert [one.wins for one in with_first.candidates] == [True, True, False]


def restarted(one: StoppedDisk) -> RestartedController:
    """Returns a controller that starts with this disk, at the endpoint that the others dial."""
    return RestartedController(key=one.key, alive=True, endpoint=None, position=one.position, voters=one.voters)


@pytest.mark.kip("A008", "A014", "A088")
def test_a_replica_with_another_directory_id_has_no_vote_of_the_voter_with_its_id() -> None:
    second, third = disk(2, 11, 1, 2, 3), replace(disk(3, 11, 1, 2, 3), key=key(3, "newDirOf3"))

    assert (left(second, third).present, left(second, third).electable) == ((second.key,), False)
    assert {one.action for one in node_decisions([second, third], second.voters)} == {NodeAction.REFUSE}
    (candidate,) = forecast_election(map(restarted, (second, third))).candidates
    assert (candidate.key, candidate.reached) == (second.key, (second.key,))


@pytest.mark.kip("A009", "A010", "A087")
def test_each_candidate_needs_a_majority_of_the_voters_of_its_own_log() -> None:
    candidates = forecast_election(map(restarted, (disk(1, 10, 1, 2), disk(2, 11, 1, 2, 3, 4)))).candidates

    assert [(one.key.id, one.needed, one.wins) for one in candidates] == [(1, 2, False), (2, 3, False)]
    assert [len(one.reached) + len(one.barred) for one in candidates] == [2, 4]


@pytest.mark.kip("A038", "A058", "A087", "D051", "K007")
def test_a_voter_grants_its_vote_to_a_candidate_that_its_own_log_does_not_list() -> None:
    second, third = disk(2, 10, 1, 2), disk(3, 11, 1, 2, 3)

    (_, candidate) = forecast_election(map(restarted, (second, third))).candidates

    assert (candidate.key, candidate.reached, candidate.wins) == (third.key, (second.key, third.key), True)


@pytest.mark.kip("A039", "D049", "D050", "D075")
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


@pytest.mark.kip("A058")
def test_a_voter_with_its_own_uncommitted_addition_can_be_elected() -> None:
    third = disk(3, 11, 1, 2, 3)

    alone_ahead = left(disk(2, 10, 1, 2), third)

    assert alone_ahead.best == (third.key,)
    assert alone_ahead.electable, "the newest record counts, committed or not"
    assert not left(disk(2, 10, 1, 2), disk(3, 10, 1, 2)).electable, "without the record it has no vote"


@pytest.mark.kip("A045")
def test_a_rescue_is_planned_with_the_newest_voters_of_a_disk_though_it_does_not_show_that_they_are_committed(
    tmp_path: Path,
) -> None:
    begun = leader_change() + batch([KRAFT_VERSION_1, voters_record(1, 2)], base_offset=1) + noops(3, 1)
    folder = write_log_dir(tmp_path, {0: begun + batch([voters_record(1, 2, 3)], base_offset=4)})
    (folder / "meta.properties").write_text("node.id=1\n")

    (planned,) = make_plan([replay_log_dir(folder)], None).disks

    assert planned.disk.committed_below is None
    assert planned.voters.ids == {1, 2, 3}
