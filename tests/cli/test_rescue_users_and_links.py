"""`rescue apply` and `undo` of other users, through links, and while links and folders are swapped."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from connectors.errors import UsageError
from connectors.logdir.log_dir_files import PARTITION
from streaming.rescue.apply_voters import apply_voters
from tests.cli.fault_at_call import at_call
from tests.cli.program import OTHER_USER, owned_by_another_user
from tests.cli.rescue_apply import SNAPSHOT, contents, refusal, rescue
from tests.cli.rescue_copies import BACKUP, LOG, OPTIONS, OTHER, copies
from tests.unit.connectors.logdir.log_dirs import MOVED


@pytest.fixture
def node(stopped: Path) -> Path:
    return stopped / "node-1"


@pytest.mark.parametrize("more", [(), ("--yes",), ("--yes", "--backup", "of [node] 1")])
def test_root_on_a_folder_of_another_user_is_refused_with_the_command_of_that_user(
    node: Path, monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...]
) -> None:
    owned_by_another_user(node / PARTITION / LOG, monkeypatch)
    before = contents(node.parent)
    user = f"user {OTHER_USER}" if (node / PARTITION / LOG).stat().st_uid == OTHER_USER else ""

    message = refusal("apply", node, "--initial-controllers", MOVED, *more)

    backup = " --backup 'of [node] 1'" if "--backup" in more else ""
    yes = " --yes" if more else ""
    assert f"{node / PARTITION} belongs to {user}" in message
    assert "and this command runs as root: run it as that user: sudo -u " in message
    assert message.endswith(f" kraftwatch rescue apply --log-dir {node}{backup} --initial-controllers {MOVED}{yes}")
    assert "kraftwatch rescue undo --log-dir" in refusal("undo", node)
    assert contents(node.parent) == before
    assert not (node / ".lock").exists()


def as_user(uid: int, act: Callable[[], None]) -> None:
    """Acts in a process of this user; in one of the test's own user if that is not root."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            if os.geteuid() == 0:
                os.setgid(uid)
                os.setuid(uid)
            act()
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.fixture
def of_kafka(stopped: Path) -> Iterator[tuple[Path, int]]:
    """A node in a folder that belongs to another user, as Kafka's does, and this user; without root, the test's own."""
    uid = OTHER_USER if os.geteuid() == 0 else os.geteuid()
    # The other user may not read the modules that a command imports.
    rescue("apply", stopped / "node-2", "--initial-controllers", MOVED)
    folder = Path("/tmp") / f"kraftwatch-{os.getpid()}-{stopped.parent.name}"
    shutil.copytree(stopped, folder)
    folder.chmod(0o755)
    for path in (folder, *folder.rglob("*")):
        if os.geteuid() == 0:
            os.chown(path, uid, uid)
    yield folder / "node-1", uid
    shutil.rmtree(folder)


@pytest.mark.parametrize("umask", [0o022, 0o777, 0o000])
def test_written_files_belong_to_the_user_of_kafka_alone_whatever_the_umask(
    of_kafka: tuple[Path, int], umask: int
) -> None:
    node, uid = of_kafka

    def act() -> None:
        os.umask(umask)
        assert rescue("apply", node, *OPTIONS).exit_code == 0

    as_user(uid, act)

    backup = node.with_name(node.name + BACKUP)
    written = [node / PARTITION / SNAPSHOT, node / ".lock", *backup.iterdir()]
    assert {(path.stat().st_uid, path.stat().st_mode & 0o777) for path in written} == {(uid, 0o600)}
    assert (backup.stat().st_uid, backup.stat().st_mode & 0o777) == (uid, 0o700)
    as_user(uid, lambda: None if rescue("undo", node).exit_code == 0 else os._exit(1))
    assert not (node / PARTITION / SNAPSHOT).exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as two users")
def test_user_who_is_not_kafkas_is_refused_in_one_sentence(of_kafka: tuple[Path, int]) -> None:
    node, uid = of_kafka
    before = contents(node.parent)

    def act() -> None:
        message = refusal("apply", node, *OPTIONS)
        assert f"belongs to user {uid}, and this command runs as user {uid + 1}: run it as that user" in message

    as_user(uid + 1, act)

    assert contents(node.parent) == before


def lock_of(folder: Path) -> "subprocess.Popen[str]":
    """Returns a process that holds the lock of a log directory, as Kafka does."""
    hold = (
        "import fcntl, sys; lock = open(sys.argv[1], 'w'); fcntl.lockf(lock, fcntl.LOCK_EX); "
        "print('held', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", hold, str(folder / ".lock")]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def linked(node: Path, kind: str) -> tuple[Path, Path]:
    """Returns the log directory that a running Kafka locks, and another path by which its metadata log is named."""
    others = node.parent / "others"
    others.mkdir()
    match kind:
        case "log directory":
            (others / "link").symlink_to(node)
            return node, others / "link"
        case "partition":
            (others / "link").symlink_to(node / PARTITION)
            return node, others / "link"
        case "folder of links":
            (others / PARTITION).symlink_to(node / PARTITION)
            shutil.copy(node / "meta.properties", others)
            return node, others
        case "relative link":
            (others / PARTITION).symlink_to(f"../{node.name}/{PARTITION}")
            return node, others
        case _:
            # Kafka's own log directory holds a link to another disk, and a link leads to this link.
            (node / PARTITION).rename(others / "meta")
            (node / PARTITION).symlink_to(others / "meta")
            (others / "link").symlink_to(node / PARTITION)
            return node, others / "link"


LINKS = ("log directory", "partition", "folder of links", "relative link", "link to a link")


@pytest.mark.parametrize("kind", LINKS)
def test_running_kafka_is_found_through_links(node: Path, kind: str) -> None:
    log_dir, given = linked(node, kind)
    process = lock_of(log_dir)
    try:
        before = contents(node.parent)

        for more in ((), ("--yes",)):
            assert f"{log_dir} is locked: a Kafka process uses it" in refusal(
                "apply", given, "--initial-controllers", MOVED, *more
            )
        assert "is locked" in refusal("undo", given)
        assert contents(node.parent) == before
    finally:
        process.communicate()


@pytest.mark.parametrize("kind", LINKS)
def test_node_is_rescued_and_undone_through_links_and_the_backup_is_beside_its_log_directory(
    node: Path, kind: str
) -> None:
    log_dir, given = linked(node, kind)
    before = contents(node)

    ended = rescue("apply", given, *OPTIONS)

    assert ended.exit_code == 0, ended.output
    assert (log_dir / PARTITION / SNAPSHOT).is_file()
    assert [path.name for path in node.parent.glob("*.before-*")] == [f"node-1{BACKUP}"]
    assert rescue("undo", given).exit_code == 0
    assert contents(node) == before


def test_folder_behind_a_link_is_refused_without_the_log_directory_that_has_the_lock(node: Path) -> None:
    linked(node, "link to a link")
    before = contents(node.parent)

    for verb, more in (("apply", OPTIONS), ("undo", ())):
        assert "no meta.properties is in" in refusal(verb, node.parent / "others" / "meta", *more)
    assert contents(node.parent) == before


@pytest.mark.parametrize("name", ["a[b", "[abc]", "*", "?", "a{b,c}", "with space", "$HOME", "-v"])
def test_backup_of_a_log_directory_of_any_name_is_found(node: Path, name: str) -> None:
    log_dir = node.rename(node.parent / name)
    before = contents(log_dir)

    assert rescue("apply", log_dir, *OPTIONS).exit_code == 0
    undone = rescue("undo", log_dir)

    assert (undone.exit_code, "Restored from" in undone.stdout) == (0, True), undone.output
    assert contents(log_dir) == before


@pytest.mark.parametrize("kind", ["link", "folder"])
def test_folder_that_is_swapped_at_any_operation_gets_no_file(node: Path, kind: str) -> None:
    """Neither the folder that a link leads to meanwhile, nor the one that takes the place of the node's."""
    for call, copy in copies(node):
        partition, aside, victim = copy / PARTITION, copy.parent / "aside", copy.parent / "victim"
        shutil.copytree(node.parent / "node-3" / PARTITION, victim)
        before = contents(victim)

        def swap(_: str, partition: Path = partition, aside: Path = aside, victim: Path = victim) -> None:
            partition.rename(aside)
            if kind == "link":
                partition.symlink_to(victim)
            else:
                victim.rename(partition)

        # The first operation opens the folder: which one it is, is the user's choice.
        with at_call(call + 1, swap) as called:
            try:
                apply_voters(copy, MOVED, write=True)
            except UsageError as refused:
                assert "\n" not in str(refused)
        swapped = aside.exists()
        assert swapped == (len(called) > call)
        if not swapped:
            assert call > 40, "every operation was tried"
            break
        assert contents(partition) == before


def test_file_that_takes_the_place_of_a_link_is_not_written_through(node: Path, tmp_path: Path) -> None:
    """Links of the names that a rescue writes: none leads a write to another file."""
    mine = tmp_path / "mine"
    mine.write_text("mine")
    for name in (f"{SNAPSHOT}.part", SNAPSHOT):
        (node / PARTITION / name).symlink_to(mine)

    applied = rescue("apply", node, *OPTIONS)

    assert applied.exit_code == 0, applied.output
    assert not (node / PARTITION / SNAPSHOT).is_symlink()
    assert mine.read_text() == "mine"


def test_files_that_are_hard_linked_to_others_are_replaced_and_not_overwritten(node: Path, tmp_path: Path) -> None:
    apply_voters(node, OTHER, write=True, backup=tmp_path / "first")
    (tmp_path / "linked").mkdir()
    for path in (node / PARTITION).iterdir():
        os.link(path, tmp_path / "linked" / path.name)
    os.link(node / PARTITION / LOG, node / PARTITION / f"{SNAPSHOT}.part")
    before = contents(tmp_path / "linked")

    assert rescue("apply", node, *OPTIONS).exit_code == 0

    assert contents(tmp_path / "linked") == before
    assert not (node / PARTITION / f"{SNAPSHOT}.part").exists()
    assert rescue("undo", node).exit_code == 0
    assert contents(tmp_path / "linked") == before
    assert (node / PARTITION / SNAPSHOT).read_bytes() == before[SNAPSHOT]
