"""`kraftwatch rescue plan` with a damaged log, and with the disks of a static quorum."""

import json
from pathlib import Path
from typing import Any

import pytest

from connectors.logdir.log_dir_files import PARTITION
from connectors.metadata.batches import RecordBatch, scan
from tests.cli.program import kraftwatch, log_dirs, usage_error
from tests.unit.connectors.logdir.log_dirs import MOVED, noops, write_log_dir, write_quorum_state


def plan(stopped: Path, *nodes: int, more: tuple[str, ...] = ()) -> dict[str, Any]:
    ended = kraftwatch("rescue", "plan", "--no-probe", *log_dirs(stopped, *nodes), *more, "--json")
    assert ended.exit_code in (0, 2), ended.exception
    found: dict[str, Any] = json.loads(ended.stdout)
    text = kraftwatch("rescue", "plan", "--no-probe", *log_dirs(stopped, *nodes), *more)
    assert text.exit_code == ended.exit_code
    return found | {"headline": text.stdout.split("  ")[0].strip(), "exit_code": ended.exit_code}


def damage(stopped: Path, node: int, *, header: bool = False) -> int:
    """Damages a batch in the middle of a node's log: its length, or only its base offset; returns its offset."""
    segment = stopped / f"node-{node}" / PARTITION / f"{0:020}.log"
    content = bytearray(segment.read_bytes())
    one = [each for each in scan(bytes(content)) if isinstance(each, RecordBatch)][-4]
    at = one.position if header else one.position + 8
    content[at : at + 4] = b"\x7f" * 4 if header else bytes(4)
    segment.write_bytes(content)
    return one.base_offset


def test_a_controller_whose_log_is_damaged_is_started_last(stopped: Path) -> None:
    offset = damage(stopped, 2)

    found = plan(stopped, 1, 2, 3)

    assert found["headline"] == "NO RESCUE IS NEEDED"
    assert [one.partition("-")[0] for one in found["startable"]] == ["1", "3"]
    assert found["damaged_voters"] == ["2-wPvHPGZoRSmdGaO9smPpMQ"]
    first, not_yet, copy, then, disk = found["steps"]
    assert first == "# No rescue is needed: start controllers 1 and 3, and wait for a leader"
    assert not_yet.startswith(f"# Do not start controller 2 with them: its log is damaged at offset {offset} (")
    assert copy == "# Copy the log directory of controller 2: its start changes it"
    assert then == (
        f"# When there is a leader, start controller 2: its start cuts the log off at offset {offset}, and it fetches "
        "what follows"
    )
    assert disk.startswith("# Check the disk of controller 2's host")
    assert any(one.startswith(f"the log of 2 is damaged at offset {offset} (") for one in found["warnings"])


def test_a_damaged_offset_is_not_found_by_kafkas_start(stopped: Path) -> None:
    damage(stopped, 2, header=True)

    steps = plan(stopped, 1, 2, 3)["steps"]

    folder = stopped / "node-2" / PARTITION
    assert steps[3].startswith(f"# When there is a leader, move {folder} away: Kafka's start does not find")
    assert steps[4] == "# Then start controller 2: it fetches the log again"


@pytest.mark.parametrize(("nodes", "damaged"), [((1, 2, 3), (2, 3)), ((1, 2), (2,))])
@pytest.mark.parametrize("more", [(), ("--initial-controllers", MOVED)], ids=["assessed", "with a list"])
def test_without_a_majority_of_sound_logs_no_damaged_controller_is_started(
    stopped: Path, nodes: tuple[int, ...], damaged: tuple[int, ...], more: tuple[str, ...]
) -> None:
    for node in damaged:
        damage(stopped, node)

    found = plan(stopped, *nodes, more=more)

    assert (found["headline"], found["startable"]) == ("DAMAGED", [])
    assert found["exit_code"] == (2 if more else 0)
    assert not any("start controllers 1" in one for one in found["steps"])
    refused, do_not, copy, find, _ = found["steps"]
    assert refused.startswith("# No rescue: only 1 of 3 voters' logs are given and sound, 2 are needed: that of ")
    names = "controllers 2 and 3" if len(damaged) > 1 else "controller 2"
    assert do_not.startswith(f"# Do not start {names}: a start cuts off what follows the damage")
    assert copy.startswith("# Copy the log directories of all")
    assert find.startswith("# Find 1 more sound log, ")
    assert {one["action"] for one in found["disks"]} == {"refuse"}


def test_a_rescue_leaves_the_damaged_controller_until_there_is_a_leader(stopped: Path) -> None:
    offset = damage(stopped, 2)

    found = plan(stopped, 1, 2, 3, more=("--initial-controllers", MOVED))

    assert [one["action"] for one in found["disks"]] == ["apply", "leave", "apply"]
    steps = found["steps"]
    left = next(one for one in steps if one.startswith("# Do not change controller 2: its log is damaged at offset "))
    start = steps.index("# Start controllers 1 and 3, the most complete log first, and wait for a leader")
    last = next(one for one in steps if f"start controller 2: its start cuts the log off at offset {offset}" in one)
    assert steps.index(left) < start < steps.index(last)


def static_disk(folder: Path, node: int, end: int, *, voters: tuple[int, ...] = (1, 2, 3)) -> None:
    """A disk as Kafka 3.7 writes it: the log holds no voters, and quorum-state those of the configuration."""
    written = write_log_dir(folder / f"node-{node}", {0: noops(0, end)})
    (written / "meta.properties").write_text(f"version=1\ncluster.id=the-cluster\nnode.id={node}\n")
    write_quorum_state(
        written,
        clusterId="",
        leaderId=1,
        leaderEpoch=1,
        votedId=-1,
        appliedOffset=0,
        currentVoters=[{"voterId": one} for one in voters],
        data_version=0,
    )


def test_disks_of_a_static_quorum_are_assessed(tmp_path: Path) -> None:
    for node, end in ((1, 40), (2, 30), (3, 40)):
        static_disk(tmp_path, node, end)

    found = plan(tmp_path, 1, 2, 3)

    assert (found["headline"], found["static"], found["exit_code"]) == ("NO RESCUE IS NEEDED", True, 0)
    assert (found["startable"], found["go_on_with"]) == (["1", "2", "3"], ["1", "3"])
    assert found["steps"] == ["# No rescue is needed: start controllers 1, 2 and 3"]
    text = kraftwatch("rescue", "plan", "--no-probe", *log_dirs(tmp_path, 1, 2, 3)).stdout
    assert "recorded: controller.quorum.voters (static), nodes 1, 2 and 3" in text


def test_a_damaged_disk_of_a_static_quorum_is_started_last(tmp_path: Path) -> None:
    for node in (1, 2, 3):
        static_disk(tmp_path, node, 40)
    offset = damage(tmp_path, 3)

    found = plan(tmp_path, 1, 2, 3)

    assert (found["startable"], found["damaged_voters"]) == (["1", "2"], ["3"])
    assert f"start controller 3: its start cuts the log off at offset {offset}" in found["steps"][3]


def test_a_minority_of_a_static_quorum_is_not_started(tmp_path: Path) -> None:
    static_disk(tmp_path, 2, 40)

    found = plan(tmp_path, 2)

    assert (found["startable"], found["absent_voters"]) == ([], ["1", "3"])
    assert found["steps"][0].startswith("# No rescue: only 1 of 3 voters' disks are given, 2 are needed")


def test_static_disks_with_other_voters_are_named(tmp_path: Path) -> None:
    static_disk(tmp_path, 1, 40)
    static_disk(tmp_path, 2, 40, voters=(1, 2))

    found = plan(tmp_path, 1, 2)

    assert found["startable"] == []
    assert any(one.startswith("the nodes hold different VOTERS") for one in found["warnings"])


def test_a_static_quorum_takes_no_list_and_needs_its_quorum_state(tmp_path: Path) -> None:
    static_disk(tmp_path, 1, 40)
    options = log_dirs(tmp_path, 1)
    refused = usage_error("rescue", "plan", *options, "--initial-controllers", MOVED)
    assert "belongs to a static quorum: its voters are in controller.quorum.voters, change them there" in refused

    (tmp_path / "node-1" / PARTITION / "quorum-state").unlink()
    unknown = usage_error("rescue", "plan", *options)
    assert "belongs to a static quorum, and its voters are unknown: there is no quorum-state" in unknown
