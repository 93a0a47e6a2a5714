"""A quorum that outlives the command that starts it: `kraftwatch lab up` and `lab down`."""

import json
import os
import re
import shutil
import signal
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from deploy.lab import LabError
from deploy.lab.child_process import processes, wait_until
from deploy.lab.jars import KAFKA_VERSION
from deploy.lab.lab import Lab

STATE_FILE = "lab.json"
END_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PersistentQuorum:
    """The addresses of a running quorum: the content of `lab.json` in its folder."""

    directory: str
    version: str
    cluster_id: str
    bootstrap: tuple[str, ...]
    """HOST:PORT of the controllers."""
    broker_bootstrap: tuple[str, ...]
    hosts_file: str | None
    """Resolves the controllers' names; None if they advertise 127.0.0.1."""
    nodes: Mapping[str, str]
    """Each node's folder (server.properties, server.log, data), by node id."""


def up(
    directory: Path,
    *,
    controllers: int = 3,
    brokers: int = 2,
    combined: int = 0,
    version: str = KAFKA_VERSION,
    static: bool | None = None,
    properties: Mapping[str, str] | None = None,
    named: bool = False,
) -> PersistentQuorum:
    """Starts a quorum in `directory` that runs until `down`, and returns when it answers.

    Deletes the files of an earlier lab first: each `up` creates a new cluster with a new id.

    Raises:
        LabError: a lab is running there, the folder contains other files, or the quorum did not start.
    """
    directory = directory.absolute()
    if _node_pids(directory):
        raise LabError(
            f"a lab is already running in {directory}: stop it with `kraftwatch lab down --directory {directory}`"
        )
    _clear(directory)
    lab = Lab(
        directory,
        controllers=controllers,
        brokers=brokers,
        combined=combined,
        version=version,
        static=static,
        properties=properties,
        named=named,
        supervised=False,
    )
    # Entered but never exited, because __exit__ kills the nodes. If __enter__ fails, it kills what it has started.
    lab.__enter__()
    quorum = PersistentQuorum(
        directory=str(directory),
        version=version,
        cluster_id=lab.cluster_id,
        bootstrap=tuple(lab.bootstrap),
        broker_bootstrap=tuple(lab.broker_bootstrap),
        hosts_file=None if lab.hosts_file is None else str(lab.hosts_file),
        nodes={str(id_): str(lab.node(id_).folder) for id_ in sorted({*lab.controllers, *lab.brokers})},
    )
    (directory / STATE_FILE).write_text(json.dumps(asdict(quorum), indent=2) + "\n", encoding="utf-8")
    return quorum


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
    lab_files = re.compile(r"node-\d+|lab\.json|hosts|hosts\.new|log4j2\.xml|log4j\.properties|java\.security")
    paths = sorted(directory.iterdir()) if directory.exists() else []
    if foreign := [path.name for path in paths if not lab_files.fullmatch(path.name)]:
        raise LabError(f"{directory} contains {foreign[0]}, which is no file of a lab: choose an empty or new folder")
    for path in paths:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
