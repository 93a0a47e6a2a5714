"""`kraftwatch rescue apply` and `undo` on the disks of a real, stopped quorum: what is written, and what is refused."""

import fcntl
import json
import os
import signal
from pathlib import Path

import pytest

from tests.cli.program import log_dirs
from tests.cli.rescue_apply import SNAPSHOT, contents, refusal, rescue
from tests.unit.connectors.logdir.log_dirs import MOVED, leader_change, noops, write_log_dir


@pytest.fixture
def node(stopped: Path) -> Path:
    """The log directory of controller 1."""
    return stopped / "node-1"


def test_dry_run_writes_nothing(node: Path) -> None:
    before = contents(node.parent)

    ended = rescue("apply", node, "--initial-controllers", MOVED)

    assert ended.exit_code == 0
    assert "DRY RUN" in ended.stdout
    assert SNAPSHOT in ended.stdout
    assert not list(node.parent.glob("*.before-*"))
    assert contents(node.parent) == before


def test_one_snapshot_is_added_and_undone_and_the_second_time_there_is_nothing_to_do(node: Path) -> None:
    before = contents(node)

    ended = rescue("apply", node, "--initial-controllers", MOVED, "--yes", "--json")
    again = rescue("apply", node, "--initial-controllers", MOVED, "--yes", "--json")

    assert (ended.exit_code, again.exit_code) == (0, 0)
    first, second = json.loads(ended.stdout), json.loads(again.stdout)
    assert (first["outcome"], first["written"], first["records"]) == ("passed", True, 55)
    assert (second["outcome"], second["written"], second["snapshot"]) == ("no-change", False, None)
    added = contents(node).keys() - before.keys()
    assert added == {f"__cluster_metadata-0/{SNAPSHOT}"}
    assert {name: content for name, content in contents(node).items() if name not in added} == before
    assert (node / "__cluster_metadata-0" / SNAPSHOT).stat().st_mode & 0o777 == 0o600
    undone, twice = rescue("undo", node), rescue("undo", node)
    assert (undone.exit_code, twice.exit_code) == (0, 0)
    assert "Restored" in undone.stdout
    assert "Nothing to do" in twice.stdout
    assert contents(node) == before


@pytest.mark.parametrize(
    ("inside", "given"),
    [("", "."), ("__cluster_metadata-0", ".."), ("..", "node-1")],
)
def test_log_directory_may_be_the_working_directory(
    node: Path, monkeypatch: pytest.MonkeyPatch, inside: str, given: str
) -> None:
    before = contents(node)
    monkeypatch.chdir(node / inside)

    ended = rescue("apply", Path(given), "--initial-controllers", MOVED, "--yes")

    assert ended.exit_code == 0, ended.output
    assert [path.name for path in node.parent.glob("*.before-*")] == [
        f"node-1.before-{SNAPSHOT.removesuffix('.checkpoint')}"
    ]
    assert not (node / "__cluster_metadata-0" / ".lock").exists()
    monkeypatch.chdir(node.parent.parent)
    assert rescue("undo", node).exit_code == 0
    assert contents(node) == before


def test_undo_is_refused_after_the_node_was_started(node: Path) -> None:
    rescue("apply", node, "--initial-controllers", MOVED, "--yes")
    (node / "__cluster_metadata-0" / "quorum-state").write_text("{}")

    assert "the node was started, so nothing is undone" in refusal("undo", node)
    assert (node / "__cluster_metadata-0" / SNAPSHOT).exists()


def test_snapshot_that_ends_at_the_logs_end_is_replaced_and_restored(node: Path) -> None:
    rescue("apply", node, "--initial-controllers", MOVED, "--yes")
    before = contents(node)
    other = MOVED.replace("c1.new", "c1.other")

    assert rescue("apply", node, "--initial-controllers", other, "--yes", "--backup", f"{node}.second").exit_code == 0
    assert contents(node) != before
    assert rescue("undo", node, "--backup", f"{node}.second").exit_code == 0
    assert contents(node) == before


def test_running_node_is_refused(node: Path) -> None:
    with (node / ".lock").open("w") as lock:
        # In another process: a process never waits for its own lock.
        child = os.fork()
        if child == 0:
            fcntl.lockf(lock, fcntl.LOCK_EX)
            os.kill(os.getpid(), signal.SIGSTOP)
            os._exit(0)
        os.waitpid(child, os.WUNTRACED)
        try:
            for verb, more in (("apply", ("--initial-controllers", MOVED)), ("undo", ("--backup", str(node)))):
                assert "a Kafka process uses it" in refusal(verb, node, *more)
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def test_static_quorum_is_refused(tmp_path: Path) -> None:
    folder = write_log_dir(tmp_path / "static", {0: leader_change() + noops(1, 3)})
    (folder / "meta.properties").write_text("version=1\ncluster.id=a\nnode.id=1\ndirectory.id=AaorEeDFTeqhbYUKWjaZFw\n")

    assert "its voters are in controller.quorum.voters, change them there" in refusal(
        "apply", folder, "--initial-controllers", MOVED
    )


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        (MOVED.replace("AaorEeDFTeqhbYUKWjaZFw", "BaorEeDFTeqhbYUKWjaZFw"), "node ids or directory ids change"),
        (MOVED.replace("3@c3", "4@c3"), "node ids or directory ids change"),
        (MOVED.rsplit(",", 1)[0], "node ids or directory ids change"),
        ("1@c1", "is not ID@HOST:PORT:DIRECTORY_ID"),
    ],
)
def test_list_that_changes_more_than_endpoints_is_refused(node: Path, wanted: str, reason: str) -> None:
    before = contents(node.parent)

    assert reason in refusal("apply", node, "--initial-controllers", wanted, "--yes")
    assert contents(node.parent) == before


def test_plan_of_all_nodes_is_followed(node: Path, tmp_path: Path) -> None:
    """Controller 1 has ten records that no other controller has."""
    log = node / "__cluster_metadata-0" / "00000000000000000000.log"
    log.write_bytes(log.read_bytes() + noops(61, 10))
    written = rescue("plan", node, *log_dirs(node.parent, 2, 3), "--initial-controllers", MOVED, "--json")
    plan = tmp_path / "plan.json"
    plan.write_text(written.stdout)
    options = ("--initial-controllers", MOVED, "--plan", str(plan))

    assert "no majority of the voters has its records from offset 61 to 70" in refusal("apply", node, *options)
    assert rescue("apply", node.parent / "node-2", *options).exit_code == 0
    other = MOVED.replace("c3.new", "c4.new")
    assert "is a plan for other voters" in refusal(
        "apply", node.parent / "node-2", "--initial-controllers", other, "--plan", str(plan)
    )
    assert "does not have node 101-" in refusal("apply", node.parent / "node-101", *options)
    third = node.parent / "node-3" / "__cluster_metadata-0" / "00000000000000000000.log"
    third.write_bytes(third.read_bytes() + noops(57, 1))
    assert "ended at offset 57 in epoch 1 when the plan was made, and ends at 58" in refusal(
        "apply", node.parent / "node-3", *options
    )
    plan.write_text("[]")
    assert "is not a plan" in refusal("apply", node.parent / "node-2", *options)


@pytest.mark.parametrize(
    ("backup", "reason"),
    [("node-1/backup", "is inside of the log directory"), ("file/inside", "choose another place with --backup")],
)
def test_backup_with_which_kafka_would_not_start_or_that_cannot_be_written_is_refused(
    node: Path, backup: str, reason: str
) -> None:
    (node.parent / "file").write_text("")
    before = contents(node)

    options = ("--initial-controllers", MOVED, "--yes", "--backup", str(node.parent / backup))
    assert reason in refusal("apply", node, *options)
    assert contents(node) == before
