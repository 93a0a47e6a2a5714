"""`kraftwatch rescue apply` and `undo` on the disks of a real, stopped quorum: what is written, and what is refused."""

import fcntl
import os
import signal
from pathlib import Path

import pytest

from tests.cli.rescue_apply import SNAPSHOT, contents, refusal, rescue
from tests.unit.connectors.logdir.log_dirs import MOVED


@pytest.fixture
def node(stopped: Path) -> Path:
    """The log directory of controller 1."""
    return stopped / "node-1"


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
