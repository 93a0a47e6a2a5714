"""`rescue apply` and `undo` while disks fail, and while processes compete or are killed."""

import errno
import json
import os
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from connectors.errors import UsageError
from connectors.logdir.log_dir_files import PARTITION
from rules.model.identifiers import NodeId
from streaming.rescue.apply_voters import apply_quorum, apply_voters, undo
from tests.cli.fault_at_call import CALLS, at_call, fails_with
from tests.cli.killed_process import killed_at
from tests.cli.program import kraftwatch
from tests.cli.rescue_apply import SNAPSHOT, contents, refusal, rescue
from tests.cli.rescue_copies import BACKUP, OPTIONS, OTHER, copies
from tests.unit.connectors.logdir.log_dirs import MOVED

ROOT = Path(__file__).parents[2]


@pytest.fixture
def node(stopped: Path) -> Path:
    return stopped / "node-1"


def is_empty(path: str) -> bool:
    return Path(path).is_dir() and not any(Path(path).iterdir())


def leftovers(folder: Path) -> list[str]:
    return [str(path) for path in folder.rglob("*") if path.name.endswith((".part", ".new", ".incomplete"))]


@pytest.mark.parametrize("replaces", [False, True], ids=["new snapshot", "replaced snapshot"])
def test_killed_at_any_operation_the_node_is_as_before_or_finished(node: Path, replaces: bool) -> None:
    if replaces:
        apply_voters(node, OTHER, write=True)
    before = contents(node)
    for call, copy in copies(node):
        killed = killed_at(call, [(os, name) for name in CALLS], partial(apply_voters, copy, MOVED, write=True))
        left = {name: content for name, content in contents(copy).items() if not name.endswith(".part")}
        finished = left != before
        assert not finished or changed(before, left) == {f"{PARTITION}/{SNAPSHOT}"}
        assert finished or killed

        assert apply_voters(copy, MOVED, write=True).written != finished
        assert leftovers(copy.parent) == []
        assert undo(copy)[1]
        assert contents(copy) == before
        if not killed:
            assert call > 40, "every operation was tried"
            break


def test_killed_at_any_operation_the_node_has_the_voters_of_before_or_the_new_quorum(node: Path) -> None:
    name = "00000000000000000061-0001000000.checkpoint"
    plan_file = node.parent / "plan.json"
    planned = ("--log-dir", str(node), "--lost", "2,3", "--accept-loss", "--no-probe", "--json")
    plan_file.write_text(kraftwatch("rescue", "plan", *planned).stdout)
    before = contents(node)
    for call, copy in copies(node):
        apply = partial(apply_quorum, copy, [NodeId(2), NodeId(3)], write=True, plan_file=plan_file)
        killed = killed_at(call, [(os, one) for one in CALLS], apply)
        left = {file: content for file, content in contents(copy).items() if not file.endswith(".part")}
        finished = left != before
        assert not finished or changed(before, left) == {f"{PARTITION}/{name}"}
        assert finished or killed

        assert apply().written != finished
        assert leftovers(copy.parent) == []
        assert undo(copy)[1]
        assert contents(copy) == before
        if not killed:
            assert call > 40, "every operation was tried"
            break


@pytest.mark.parametrize("replaces", [False, True], ids=["new snapshot", "replaced snapshot"])
def test_undo_that_is_killed_at_any_operation_is_finished_by_another_one(node: Path, replaces: bool) -> None:
    if replaces:
        apply_voters(node, OTHER, write=True)
    before = contents(node)
    for call, copy in copies(node):
        apply_voters(copy, MOVED, write=True)
        applied = contents(copy)
        killed = killed_at(call, [(os, name) for name in CALLS], partial(undo, copy))
        left = {name: content for name, content in contents(copy).items() if not name.endswith(".part")}

        assert left in (before, applied)
        assert killed or left == before
        undo(copy)
        assert contents(copy).keys() - before.keys() <= {f"{PARTITION}/{SNAPSHOT}.part"}, "which Kafka deletes"
        if not killed:
            assert call > 8, "every operation was tried"
            break


def changed(before: dict[str, bytes], after: dict[str, bytes]) -> set[str]:
    return {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}


@pytest.mark.parametrize(
    ("error", "then_on", "replaces"),
    [
        (errno.EIO, False, False),
        (errno.EIO, False, True),
        (errno.ENOSPC, True, False),
        (errno.EROFS, True, False),
    ],
    ids=["EIO", "EIO, an existing snapshot", "ENOSPC", "EROFS"],
)
def test_disk_that_fails_at_any_operation_leaves_the_node_as_before_or_finished_and_the_message_says_which(
    node: Path, error: int, then_on: bool, replaces: bool
) -> None:
    if replaces:
        apply_voters(node, OTHER, write=True)
    before = contents(node)
    fail = fails_with(error)
    # A full disk still forgets names, and a read-only one is still read.
    spared = {errno.EIO: {"unlink"}, errno.ENOSPC: {"unlink", "read"}, errno.EROFS: {"read"}}[error]

    def happens(name: str) -> None:
        if name not in spared:
            fail(name)

    for call, copy in copies(node):
        with at_call(call, happens, then_on=then_on) as called:
            try:
                message = None if apply_voters(copy, MOVED, write=True).written else "nothing to do"
            except UsageError as refused:
                message = str(refused)
        in_place = changed(before, contents(copy)) == {f"{PARTITION}/{SNAPSHOT}"}
        left = {name: content for name, content in contents(copy).items() if not name.endswith(".part")}
        assert in_place or left == before, "nothing else changed"
        assert error == errno.EROFS or [one for one in leftovers(copy.parent) if not is_empty(one)] == []
        if message is not None:
            assert in_place == (
                f"the snapshot {copy / PARTITION / SNAPSHOT} is in place, but the disk did not" in message
            )
            assert "\n" not in message
        assert apply_voters(copy, MOVED, write=True).written != in_place
        assert undo(copy)[1]
        assert contents(copy) == before
        if len(called) < call:
            assert call > 40, "every operation was tried"
            break


def small_disk(node: Path, disk: Path) -> list[dict[str, Any]]:
    disk.mkdir()
    command = ["unshare", "-rm", sys.executable, "-m", "tests.cli.small_disk", str(node), str(disk)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stderr
    return [json.loads(line) for line in ended.stdout.splitlines()]


@pytest.mark.skipif(
    shutil.which("unshare") is None or subprocess.run(["unshare", "-rm", "true"], check=False).returncode != 0,
    reason="this kernel lets the user mount no disk",
)
def test_full_or_read_only_disk_leaves_the_node_as_before(node: Path, tmp_path: Path) -> None:
    before = sorted(f"{node.name}/{path.relative_to(node)}" for path in node.rglob("*"))

    *full, finished, read_only, dry_run = small_disk(node, tmp_path / "disk")

    backup = f"{node.name}{BACKUP}"
    assert {one["ended"].partition(": ")[0] for one in full} >= {
        f"cannot write the backup {tmp_path / 'disk' / backup}",
        f"cannot write {tmp_path / 'disk' / node.name / PARTITION / SNAPSHOT}",
    }
    for one in (*full, read_only, dry_run):
        assert [name for name in one["files"] if not name.startswith(backup)] == [node.name, *before], one
    assert all("no space left on device" in one["ended"] for one in full)
    assert finished["ended"] == "done"
    assert "read-only file system" in read_only["ended"]
    assert "run this as the user" not in read_only["ended"]
    assert dry_run["ended"] == "False", "and a dry run reads a read-only disk"


def test_failed_sync_after_the_rename_says_what_is_on_the_disk_and_what_to_do(node: Path) -> None:
    def happens(name: str) -> None:
        if name == "fsync" and (node / PARTITION / SNAPSHOT).exists():
            fails_with(errno.EIO)(name)

    with at_call(1, happens, then_on=True):
        message = refusal("apply", node, *OPTIONS)
        again = refusal("apply", node, *OPTIONS)

    assert message == (
        f"the snapshot {node / PARTITION / SNAPSHOT} is in place, but the disk did not confirm it (input/output error)"
        ", so a power failure may revert it: check the disk, and run this command again before the node is started, or "
        f"remove the snapshot: kraftwatch rescue undo --log-dir {node}"
    )
    assert again.startswith(f"{node / PARTITION} already holds these voters, but the disk did not confirm it")
    assert rescue("undo", node).exit_code == 0


def test_failed_sync_of_an_undo_says_that_the_snapshot_is_gone(node: Path) -> None:
    rescue("apply", node, *OPTIONS)

    with at_call(1, lambda name: fails_with(errno.EIO)(name) if name == "fsync" else None, then_on=True):
        message = refusal("undo", node)

    assert message.startswith(
        f"{node / PARTITION} is as before the rescue, but the disk did not confirm it (input/output"
    )
    assert not (node / PARTITION / SNAPSHOT).exists()


@pytest.mark.parametrize("verb", ["apply", "undo"])
def test_kafka_cannot_start_while_a_rescue_changes_its_node(node: Path, verb: str) -> None:
    if verb == "undo":
        apply_voters(node, MOVED, write=True)
    locked = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    starts: list[int] = []

    def start_kafka(name: str) -> None:
        if name in ("rename", "unlink"):
            starts.append(subprocess.run([sys.executable, "-c", locked, node / ".lock"], check=False).returncode)

    with at_call(1, start_kafka, then_on=True):
        assert apply_voters(node, MOVED, write=True).written if verb == "apply" else undo(node)[1]

    assert starts
    assert 0 not in starts


def test_of_two_rescues_at_once_one_writes_and_the_other_is_refused_or_has_nothing_to_do(node: Path) -> None:
    command = [
        str(Path(sys.executable).parent / "kraftwatch"),
        "rescue",
        "apply",
        "--log-dir",
        str(node),
        "--initial-controllers",
    ]
    wanted = (MOVED, OTHER, MOVED, OTHER)
    processes = [
        subprocess.Popen(
            [*command, voters, "--yes", "--backup", f"{node}.{number}"],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number, voters in enumerate(wanted)
    ]
    ended = [(process.communicate(), process.returncode) for process in processes]

    for (out, err), code in ended:
        assert code == 0 or (code == 2 and "a Kafka process uses it, or another rescue" in err), (out, err)
    assert any(code == 0 and "DONE" in out for (out, _), code in ended)
    assert leftovers(node.parent) == []
    last = rescue("apply", node, *OPTIONS)
    assert last.exit_code == 0, last.output


def test_rescues_of_two_nodes_with_the_same_backup_do_not_mix_their_files(stopped: Path) -> None:
    """The second one begins while the first one copies."""
    backup = stopped / "backup"
    second: list[UsageError] = []

    def other(name: str) -> None:
        if name == "fsync" and not second:
            with pytest.raises(UsageError) as refused:
                apply_voters(stopped / "node-2", MOVED, write=True, backup=backup)
            second.append(refused.value)

    with at_call(1, other, then_on=True):
        assert apply_voters(stopped / "node-1", MOVED, write=True, backup=backup).written

    assert "another rescue writes the backup" in str(second[0])
    assert undo(stopped / "node-1", backup) == (backup, True)


@pytest.mark.parametrize(
    "name", [f"{PARTITION}/00000000000000000099.log", f"{PARTITION}/quorum-state", "meta.properties"]
)
def test_pipe_in_the_place_of_a_file_stops_no_command(node: Path, name: str) -> None:
    (node / name).unlink(missing_ok=True)
    os.mkfifo(node / name)

    for ended in (kraftwatch("status", "--log-dir", node), rescue("apply", node, *OPTIONS)):
        assert ended.exit_code == 0 or isinstance(ended.exception, UsageError), ended.exception


def test_what_killed_rescues_and_kafka_left_is_ignored_or_replaced(node: Path) -> None:
    before = contents(node)
    partition, incomplete = node / PARTITION, node.with_name(node.name + BACKUP + ".incomplete")
    for name in (f"{SNAPSHOT}.part", f"{SNAPSHOT}.part.new", "00000000000000000070-0000000002.checkpoint.deleted"):
        (partition / name).write_bytes(b"left")
    (partition / "00000000000000000070-0000000002-123.checkpoint.part").write_bytes(b"left")
    incomplete.mkdir()
    (incomplete / "left").write_text("left")

    assert rescue("apply", node, *OPTIONS).exit_code == 0

    assert not incomplete.exists()
    backup = node.with_name(node.name + BACKUP)
    assert {path.name for path in backup.iterdir()} == {"rescue.json"} | {Path(name).name for name in before} - {
        "meta.properties"
    }
    assert rescue("undo", node).exit_code == 0
    assert contents(node).items() >= before.items()


def test_file_of_the_user_in_the_place_of_the_incomplete_backup_is_not_removed(node: Path) -> None:
    incomplete = node.with_name(node.name + BACKUP + ".incomplete")
    (incomplete / "kept").mkdir(parents=True)
    (incomplete / "kept" / "file").write_text("kept")

    message = refusal("apply", node, *OPTIONS)

    assert "cannot write the backup" in message
    assert (incomplete / "kept" / "file").read_text() == "kept"


def test_plan_is_refused_after_a_snapshot_of_a_later_epoch_appeared(node: Path, tmp_path: Path) -> None:
    """The node was started meanwhile; without the plan, the new snapshot is its newest state, as for Kafka."""
    plan = tmp_path / "plan.json"
    nodes = [word for number in (1, 2, 3) for word in ("--log-dir", str(node.parent / f"node-{number}"))]
    plan.write_text(kraftwatch("rescue", "plan", *nodes, "--initial-controllers", MOVED, "--json").stdout)
    apply_voters(node.parent / "node-2", OTHER, write=True)
    later = SNAPSHOT.replace("1.checkpoint", "5.checkpoint")
    shutil.copy(node.parent / "node-2" / PARTITION / SNAPSHOT, node / PARTITION / later)
    before = contents(node)

    message = refusal("apply", node, *OPTIONS, "--plan", str(plan))

    assert "ended at offset 61 in epoch 1 when the plan was made, and ends at 61 in epoch 5 now" in message
    assert contents(node) == before
    assert rescue("apply", node, *OPTIONS).exit_code == 0
    assert changed(before, contents(node)) == {f"{PARTITION}/{later}"}


def test_undo_refuses_a_backup_whose_file_changed(node: Path, tmp_path: Path) -> None:
    apply_voters(node, OTHER, write=True, backup=tmp_path / "first")
    apply_voters(node, MOVED, write=True)
    backup = node.with_name(node.name + BACKUP)
    (backup / SNAPSHOT).write_bytes(b"damaged")
    before = contents(node)

    assert f"{backup / SNAPSHOT} is not the file that was copied: nothing was changed" in refusal("undo", node)
    assert contents(node) == before
