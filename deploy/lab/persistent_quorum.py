"""A quorum that outlives the command that made it: `up` and `down`, for playing."""

import json
import os
import re
import shutil
import signal
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from deploy.lab.child_process import processes
from deploy.lab.jars import KAFKA_VERSION
from deploy.lab.lab import Lab
from deploy.lab.lab_errors import LabError
from deploy.lab.wait_until import until

STATE_FILE = "lab.json"
END_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How to reach a quorum that stands: what `lab.json` in its folder holds."""

    directory: str
    version: str
    cluster_id: str
    bootstrap: tuple[str, ...]
    """HOST:PORT of the controllers."""
    broker_bootstrap: tuple[str, ...]
    hosts_file: str | None
    """Resolves the controllers' names, where they have names."""
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
) -> Standing:
    """Starts a quorum in `directory` that stays until `down`, and returns when it answers.

    What a former lab left there is removed first: each `up` is a new cluster with a new id.

    Raises:
        LabError: one stands there already; the folder holds something else; the quorum did not come up.
    """
    directory = directory.absolute()
    if _processes(directory):
        raise LabError(f"a lab is up in {directory} already: `down` ends it")
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
        held=False,
    )
    # Entered and not left: leaving would end it. If entering fails it ends what it has started itself.
    lab.__enter__()
    standing = Standing(
        directory=str(directory),
        version=version,
        cluster_id=lab.cluster_id,
        bootstrap=tuple(lab.bootstrap),
        broker_bootstrap=tuple(lab.broker_bootstrap),
        hosts_file=None if lab.hosts_file is None else str(lab.hosts_file),
        nodes={str(id_): str(lab.node(id_).folder) for id_ in sorted({*lab.controllers, *lab.brokers})},
    )
    (directory / STATE_FILE).write_text(json.dumps(asdict(standing), indent=2) + "\n", encoding="utf-8")
    return standing


def down(directory: Path) -> int:
    """Ends every node of the lab in `directory`, and returns how many ran; folder and logs stay.

    Found by their command lines, so that an `up` that was killed half-way is ended too.

    Raises:
        LabError: no lab was ever there, or a process does not end.
    """
    directory = directory.absolute()
    found = _processes(directory)
    if not found and not any(directory.glob("node-*")):
        raise LabError(f"there is no lab in {directory}")
    for pid in found:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    until(lambda: not _processes(directory), timeout_s=END_TIMEOUT_S, what=f"the end of the nodes in {directory}")
    return len(found)


def _processes(directory: Path) -> list[int]:
    """The pids of the nodes whose configuration lies in this folder."""
    node = re.compile(rf" kafka\.Kafka {re.escape(str(directory))}/node-\d+/server\.properties$")
    return [one.pid for one in processes() if node.search(one.command)]


def _clear(directory: Path) -> None:
    """Removes a former lab; refuses a folder with anything that no lab wrote."""
    ours = re.compile(r"node-\d+|lab\.json|hosts|hosts\.new|log4j2\.xml|log4j\.properties|java\.security")
    left = sorted(directory.iterdir()) if directory.exists() else []
    if foreign := [path.name for path in left if not ours.fullmatch(path.name)]:
        raise LabError(f"{directory} holds something that is no lab's ({foreign[0]}): name an empty or new folder")
    for path in left:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
