"""The state that one controller's disk tells, now and as of then."""

from pathlib import Path
from typing import Any

import pytest

from connectors.errors import UsageError
from connectors.logdir.log_dir_files import PARTITION
from connectors.point_in_time import AtOffset, AtTime
from rules.evaluate import thresholds_for
from rules.model.identifiers import Millis, Offset
from streaming.status import check_output, overview
from streaming.status.cluster_state import Glimpse
from streaming.status.from_journal import remembered
from streaming.status.from_log_dir import OnDisk, on_disk
from streaming.status.health import Health, health
from tests.unit.connectors.logdir.log_dirs import AT, leading, noops, quorum_state, stopped_quorum, written


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stopped_quorum(tmp_path_factory.mktemp("stopped"))


def glimpse(read: OnDisk) -> Glimpse:
    disk = read.disk
    return remembered(read.machine, read.newest_ms, thresholds_for({}), missing=disk.missing, disk=disk)


def status(folder: Path, upto: AtOffset | AtTime | None = None) -> dict[str, Any]:
    return overview.status(glimpse(on_disk(folder, upto)))


@pytest.mark.kip("E080")
def test_the_quorum_as_it_is_recorded_there(stopped: Path) -> None:
    said = status(stopped / "node-3")

    assert (said["source"], said["observed_at"]) == ("log-dir", "2026-11-20T08:24:00.440Z")
    assert (said["mode"], said["kraft_version"], said["metadata_version"]) == ("dynamic", 1, 30)
    assert (said["leader_id"], said["leader_epoch"], said["last_offset"]) == (2, 1, 56)
    assert said["committed_voters"]["offset"] == 36
    assert said["committed_voters"]["voters"][0]["endpoints"] == ["CONTROLLER://127.0.0.1:28223"]
    assert (said["voters"], said["votes_needed"], said["voters_fetching"], said["electable"]) == (3, 2, None, None)
    assert said["brokers"] == {"registered": 1, "fenced": []}
    log = said["log_dir"]
    assert (log["node_id"], log["directory_id"]) == (3, "Q6ZWoxLOS3O_aT7VKTK-sg")
    assert log["quorum_state"]["leader_id"] == 2
    assert (log["committed_below"], log["first_offset"], log["log_end_offset"], log["last_epoch"]) == (37, 37, 57, 1)
    assert [one["offset"] for one in log["voter_sets"]] == [-1, 2, 36, 36], "how many, and where the latest stands"


@pytest.mark.kip("E080")
def test_a_static_quorum_is_said_to_be_one_also_where_no_record_says_so(tmp_path: Path) -> None:
    """Before Kafka 3.9 there is no KRaftVersionRecord."""
    folder = written(tmp_path, {0: leading() + noops(1, 3)})

    said = status(folder)

    assert (said["mode"], said["kraft_version"], said["leader_id"], said["last_offset"]) == ("static", 0, 1, 3)
    assert (said["initial_controllers"], said["log_dir"]["voter_sets"]) == (None, [])
    middle = written(tmp_path / "middle", {7: noops(7, 3)})
    assert status(middle)["mode"] is None, "whatever came before"


@pytest.mark.kip("E076")
def test_the_list_of_controllers_can_be_printed_when_nobody_is_there_to_tell_it(stopped: Path) -> None:
    assert status(stopped / "node-101")["initial_controllers"] == (
        "1@127.0.0.1:28223:AaorEeDFTeqhbYUKWjaZFw,"
        "2@127.0.0.1:26108:wPvHPGZoRSmdGaO9smPpMQ,"
        "3@127.0.0.1:25578:Q6ZWoxLOS3O_aT7VKTK-sg"
    )


@pytest.mark.kip("E051")
def test_what_is_committed_cannot_be_told_but_by_the_snapshot_and_that_is_said(stopped: Path) -> None:
    ends = {node: status(stopped / f"node-{node}") for node in (1, 2, 3)}

    assert [said["log_dir"]["log_end_offset"] for said in ends.values()] == [61, 61, 57], "each disk has its own end"
    assert {said["high_watermark"] for said in ends.values()} == {None}
    committed = "what is committed: one disk cannot tell whether"
    assert ends[2]["missing"][0].startswith(f"{committed} offset 37 and later are")
    assert ends[1]["missing"][0].startswith(f"{committed} any of its records are")


def test_rules_that_need_an_answer_cannot_tell_and_nobody_is_blamed_for_it(stopped: Path) -> None:
    seen = glimpse(on_disk(stopped / "node-1"))

    checked = check_output.checked(seen)

    assert health(seen) is Health.UNKNOWN
    assert checked["exit_code"] == 3
    assert checked["findings"] == []
    assert {one.rule for one in seen.evaluation.unknown} >= {"failure-tolerance", "voter-lagging"}


def test_replicas_are_not_known_and_partitions_are(stopped: Path) -> None:
    seen = glimpse(on_disk(stopped / "node-1"))

    assert overview.replication(seen)["replicas"] == []
    assert overview.partitions(seen)["recovering"] == []


def test_a_candidates_epoch_is_in_no_log_yet(tmp_path: Path) -> None:
    folder = stopped_quorum(tmp_path) / "node-1"
    quorum_state(
        folder, leaderId=-1, leaderEpoch=9, votedId=1, votedDirectoryId="AaorEeDFTeqhbYUKWjaZFw", data_version=1
    )

    said = status(folder)

    assert (said["leader_id"], said["leader_epoch"]) == (None, 9)
    assert said["log_dir"]["quorum_state"]["voted_id"] == 1
    assert said["log_dir"]["last_epoch"] == 1


def test_what_is_torn_or_not_there_is_said(tmp_path: Path) -> None:
    folder = written(tmp_path, {7: noops(7, 3) + noops(10, 1)[:50]})

    disk = on_disk(folder).disk

    assert disk.end_offset == 10
    told = "; ".join(disk.missing)
    assert "what came before offset 7" in told
    assert "there is no meta.properties" in told
    assert "there is no quorum-state" in told
    assert "00000000000000000007.log from byte" in told
    assert "the last batch is torn (50 bytes do not count)" in told


@pytest.mark.parametrize(("offset", "port"), [(2, 23627), (35, 23627), (36, 28223), (60, 28223)])
def test_as_of_an_offset(stopped: Path, offset: int, port: int) -> None:
    said = status(stopped / "node-2", AtOffset(offset=Offset(offset)))

    assert said["last_offset"] == offset
    assert said["initial_controllers"].startswith(f"1@127.0.0.1:{port}:")
    assert said["leader_id"] == (2 if offset < 36 else None), "a snapshot tells no leader, and of later nothing is told"


def test_an_offset_in_the_middle_of_a_batch(stopped: Path) -> None:
    """The first records of a leader stand in one batch: LeaderChange, KRaftVersion, Voters."""
    said = status(stopped / "node-1", AtOffset(offset=Offset(1)))

    assert (said["last_offset"], said["leader_id"]) == (1, 2)
    assert said["committed_voters"]["offset"] == -1, "the set that the directory was formatted with"


def test_as_of_a_time(stopped: Path) -> None:
    newest = on_disk(stopped / "node-1").newest_ms

    said = status(stopped / "node-1", AtTime(at_ms=Millis(newest - 2_000)))

    assert said["last_offset"] == 56
    assert said["observed_at"] == "2026-11-20T08:24:00.440Z"


@pytest.mark.parametrize(
    ("upto", "why"),
    [
        (AtOffset(offset=Offset(61)), "--at 61: .* ends with 60"),
        (AtTime(at_ms=Millis(0)), "--at 1970-01-01T00:00:00.000Z: .* begins with 2026-11-20T08:23"),
        (AtTime(at_ms=Millis(AT * 2)), "ends with 2026-11-20T08:24:02.443Z"),
    ],
)
def test_a_moment_outside_is_refused_and_the_bound_is_named(stopped: Path, upto: AtOffset | AtTime, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        on_disk(stopped / "node-2", upto)


def test_a_log_whose_beginning_is_gone_tells_nothing_before_its_oldest_snapshot(tmp_path: Path) -> None:
    folder = stopped_quorum(tmp_path) / "node-101"
    log = folder / PARTITION / "00000000000000000000.log"
    log.unlink()

    with pytest.raises(UsageError, match=r"--at 35: .* begins with 36"):
        on_disk(folder, AtOffset(offset=Offset(35)))
    assert on_disk(folder, AtOffset(offset=Offset(36))).disk.end_offset == 37


def test_nothing_in_the_directory_is_touched(stopped: Path) -> None:
    def seen() -> list[tuple[str, int, int]]:
        return sorted((str(path), path.stat().st_mtime_ns, path.stat().st_size) for path in stopped.rglob("*"))

    before = seen()
    on_disk(stopped / "node-1")
    assert seen() == before
