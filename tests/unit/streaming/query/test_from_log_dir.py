"""The state of one controller's log directory, now and as of a point in time."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from connectors.errors import UsageError
from connectors.logdir.log_dir_files import PARTITION, ElectionState
from connectors.observations.point_in_time import AtOffset, AtTime
from rules.evaluate import thresholds_for
from rules.model.identifiers import Millis, Offset
from streaming.query.from_log_dir import replay_log_dir
from streaming.query.recording import recorded_state
from streaming.status import check_output
from streaming.status.build_status import cluster_status
from streaming.status.cluster_status import ClusterState, status_json
from streaming.status.health import Health, health
from streaming.status.log_dir_status import LogDirContents
from streaming.status.status_tables import log_dir_lines
from tests.present import present
from tests.unit.connectors.logdir.log_dirs import (
    AT,
    leader_change,
    noops,
    stopped_quorum,
    write_log_dir,
    write_quorum_state,
)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stopped_quorum(tmp_path_factory.mktemp("stopped"))


def state_of(replayed: LogDirContents) -> ClusterState:
    return recorded_state(replayed, thresholds_for({}))


def status(folder: Path, upto: AtOffset | AtTime | None = None) -> dict[str, Any]:
    return status_json(cluster_status(state_of(replay_log_dir(folder, upto))))


def test_static_quorum_without_a_kraft_version_record_is_recognised(tmp_path: Path) -> None:
    """Before Kafka 3.9 there is no KRaftVersionRecord."""
    folder = write_log_dir(tmp_path, {0: leader_change() + noops(1, 3)})

    fields = status(folder)

    assert (fields["mode"], fields["kraft_version"], fields["leader_id"], fields["last_offset"]) == ("static", 0, 1, 3)
    assert (fields["initial_controllers"], fields["log_dir"]["voter_sets"]) == (None, [])
    middle = write_log_dir(tmp_path / "middle", {7: noops(7, 3)})
    assert status(middle)["mode"] is None, "whatever came before"


def test_all_voter_sets_of_a_log_directory_are_counted(stopped: Path) -> None:
    found = replay_log_dir(stopped / "node-2")
    repeated = replace(found, voter_sets=found.voter_sets * 2)

    shown = [str(dict(log_dir_lines(one))["Voter sets"]) for one in (found, repeated)]

    assert shown == [f"{count} on this disk, the latest at offset 36" for count in (4, 8)]


def test_rules_that_need_an_answer_are_unknown_without_a_finding(stopped: Path) -> None:
    state = state_of(replay_log_dir(stopped / "node-1"))

    checked = check_output.check_json(state)

    assert health(cluster_status(state)) is Health.UNKNOWN
    assert checked["exit_code"] == 3
    assert checked["findings"] == []
    assert {one.rule for one in state.evaluation.unknown} >= {"failure-tolerance", "voter-lagging"}


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        ({"votedId": -1, "votedDirectoryId": "AAAAAAAAAAAAAAAAAAAAAA", "data_version": 1}, "no vote (version 1)"),
        (
            {"votedId": 1, "votedDirectoryId": "AaorEeDFTeqhbYUKWjaZFw", "data_version": 1},
            "voted for 1-AaorEeDFTeqhbYUKWjaZFw (version 1)",
        ),
        (
            {"votedId": 2, "currentVoters": [{"voterId": 1}, {"voterId": 2}], "data_version": 0},
            "voted for 2, voters by its configuration: 1 and 2 (version 0)",
        ),
    ],
)
def test_the_current_vote_of_the_disk_is_shown(tmp_path: Path, content: dict[str, Any], shown: str) -> None:
    folder = stopped_quorum(tmp_path) / "node-1"
    write_quorum_state(folder, leaderId=-1, leaderEpoch=9, **content)

    status = cluster_status(state_of(replay_log_dir(folder)))

    made = present(status.log_dir)
    assert status.leader_epoch == 9, "the newer one"
    assert dict(log_dir_lines(made))["Quorum state"] == f"epoch 9, no leader known, {shown}"
    assert made.epoch == 1, "that of its newest record"


def test_the_first_epoch_is_0_and_an_empty_log_has_none(tmp_path: Path) -> None:
    logs = {"first": noops(0, 1, epoch=0), "empty": b""}
    read = {name: replay_log_dir(write_log_dir(tmp_path / name, {0: log})) for name, log in logs.items()}

    assert (read["first"].epoch, read["empty"].epoch) == (0, None)
    shown = {name: dict(log_dir_lines(one))["Log"] for name, one in read.items()}
    assert shown == {"first": "offsets 0 to 0, epoch 0", "empty": "no records"}
    write_quorum_state(tmp_path / "first", leaderId=-1, leaderEpoch=0, votedId=-1, data_version=1)
    election = replay_log_dir(tmp_path / "first").election
    assert isinstance(election, ElectionState)
    assert election.leader_epoch == 0


def test_torn_and_absent_files_are_missing(tmp_path: Path) -> None:
    folder = write_log_dir(tmp_path, {7: noops(7, 3) + noops(10, 1)[:50]})

    disk = replay_log_dir(folder)

    assert disk.end_offset == 10
    missing = "; ".join(disk.missing)
    assert "the log before offset 7" in missing
    assert "there is no meta.properties" in missing
    assert "there is no quorum-state" in missing
    assert "00000000000000000007.log from byte" in missing
    assert "the last batch is torn (50 bytes do not count)" in missing


@pytest.mark.parametrize(("offset", "port"), [(2, 23627), (35, 23627), (36, 28223), (60, 28223)])
def test_log_directory_as_of_an_offset(stopped: Path, offset: int, port: int) -> None:
    fields = status(stopped / "node-2", AtOffset(offset=Offset(offset)))

    assert fields["last_offset"] == offset
    assert fields["initial_controllers"].startswith(f"1@127.0.0.1:{port}:")
    assert fields["leader_id"] == (2 if offset < 36 else None), (
        "a snapshot tells no leader, and of later nothing is missing"
    )


def test_log_directory_as_of_an_offset_inside_a_batch(stopped: Path) -> None:
    """The first records of a leader stand in one batch: LeaderChange, KRaftVersion, Voters."""
    fields = status(stopped / "node-1", AtOffset(offset=Offset(1)))

    assert (fields["last_offset"], fields["leader_id"]) == (1, 2)
    assert fields["committed_voters"]["offset"] == -1, "the set that the directory was formatted with"


def test_log_directory_as_of_a_time(stopped: Path) -> None:
    newest = present(replay_log_dir(stopped / "node-1").newest_ms)

    fields = status(stopped / "node-1", AtTime(at_ms=Millis(newest - 2_000)))

    assert fields["last_offset"] == 56
    assert fields["observed_at"] == "2026-11-20T08:24:00.440Z"


@pytest.mark.parametrize(
    ("upto", "why"),
    [
        (AtOffset(offset=Offset(61)), "--at 61: .* ends with 60"),
        (AtTime(at_ms=Millis(0)), "--at 1970-01-01T00:00:00.000Z: .* begins with 2026-11-20T08:23"),
        (AtTime(at_ms=Millis(AT * 2)), "ends with 2026-11-20T08:24:02.443Z"),
    ],
)
def test_point_in_time_outside_the_log_is_refused_with_the_bound(
    stopped: Path, upto: AtOffset | AtTime, why: str
) -> None:
    with pytest.raises(UsageError, match=why):
        replay_log_dir(stopped / "node-2", upto)


def test_log_without_its_beginning_starts_at_the_oldest_snapshot(tmp_path: Path) -> None:
    folder = stopped_quorum(tmp_path) / "node-101"
    log = folder / PARTITION / "00000000000000000000.log"
    log.unlink()

    with pytest.raises(UsageError, match=r"--at 35: .* begins with 36"):
        replay_log_dir(folder, AtOffset(offset=Offset(35)))
    assert replay_log_dir(folder, AtOffset(offset=Offset(36))).end_offset == 37


def test_log_directory_is_not_modified(stopped: Path) -> None:
    def files() -> list[tuple[str, int, int]]:
        return sorted((str(path), path.stat().st_mtime_ns, path.stat().st_size) for path in stopped.rglob("*"))

    before = files()
    replay_log_dir(stopped / "node-1")
    assert files() == before
