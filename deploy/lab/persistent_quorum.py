"""A quorum that outlives the command that starts it: `kraftwatch lab up` and `lab down`."""

import os
import re
import shutil
import signal
from contextlib import suppress
from pathlib import Path

from deploy.lab import LabError
from deploy.lab.child_process import processes, wait_until
from deploy.lab.running_quorum import RunningQuorum

END_TIMEOUT_S = 60.0


def up(quorum: RunningQuorum) -> None:
    """Starts a quorum that was created with `supervised=False`, and returns when it answers; it runs until `down`.

    Deletes the files of an earlier lab first: each `up` creates a new cluster with a new id.

    Raises:
        LabError: a lab is running there, the folder contains other files, or the quorum did not start.
    """
    directory = quorum.directory
    if _node_pids(directory):
        raise LabError(
            f"a lab is already running in {directory}: stop it with `kraftwatch lab down --directory {directory}`"
        )
    _clear(directory)
    # Entered but never exited, because __exit__ kills the nodes. If __enter__ fails, it kills what it has started.
    quorum.__enter__()


def down(directory: Path) -> int:
    """Kills every node of the lab in `directory` and returns how many were running; folder and logs are kept.

    Finds the nodes by their command lines, so that it also stops the nodes of an `up` that was killed.

    Raises:
        LabError: the folder contains no lab, or a process does not end.
    """
    directory = directory.absolute()
    pids = _node_pids(directory)
    if not pids and not any(directory.glob("node-*")):
        raise LabError(f"there is no lab in {directory}")
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not _node_pids(directory), timeout_s=END_TIMEOUT_S, what=f"the end of the nodes in {directory}")
    return len(pids)


def _node_pids(directory: Path) -> list[int]:
    """Returns the pids of the nodes whose configuration is in this folder."""
    node = re.compile(rf" kafka\.Kafka {re.escape(str(directory))}/node-\d+/server\.properties$")
    return [one.pid for one in processes() if node.search(one.command)]


def _clear(directory: Path) -> None:
    """Deletes the files of an earlier lab; raises LabError if the folder contains other files."""
    lab_files = re.compile(r"node-\d+|hosts|hosts\.new|log4j2\.xml|log4j\.properties|java\.security")
    paths = sorted(directory.iterdir()) if directory.exists() else []
    if foreign := [path.name for path in paths if not lab_files.fullmatch(path.name)]:
        raise LabError(f"{directory} contains {foreign[0]}, which is no file of a lab: choose an empty or new folder")
    for path in paths:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
