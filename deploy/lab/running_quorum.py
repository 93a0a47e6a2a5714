"""The lab's processes: start a quorum, query its state, and start, stop, kill and pause its nodes."""

import os
import re
import shutil
import signal
import socket
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Self

from deploy.lab import LabError, kafka_requests
from deploy.lab.addresses import HostsFile
from deploy.lab.child_process import processes, wait_until
from deploy.lab.cluster_layout import ClusterLayout
from deploy.lab.jars import KAFKA_VERSION, ensure_class_archive, kafka_jars
from deploy.lab.jvm import Jvm
from deploy.lab.node import Listener, Node, copy_format, format_disk, is_dynamic, new_uuid

START_TIMEOUT_S = 180.0
STOP_TIMEOUT_S = 120.0
CHANGE_TIMEOUT_S = 120.0


class RunningQuorum:
    """A quorum of `controllers`, `combined` nodes and `brokers`; a context manager.

    `__enter__` starts it and returns when it answers. `__exit__` kills every process and keeps the folder with its
    logs. The processes also end when this Python process ends for any reason, kill -9 included. Every method is
    synchronous, has a timeout and raises LabError if it fails. Not thread-safe.
    """

    def __init__(
        self,
        directory: Path,
        *,
        controllers: int = 3,
        brokers: int = 2,
        combined: int = 0,
        version: str = KAFKA_VERSION,
        static: bool | None = None,
        properties: Mapping[str, str] | None = None,
        named: bool = False,
        supervised: bool = True,
        class_archive: Path | None = None,
    ) -> None:
        """Starts nothing yet.

        Args:
            directory: created if missing; must not contain a lab.
            static: voters in controller.quorum.voters, kraft.version 0; the default only for versions without KIP-853.
            properties: added to every node's configuration.
            named: controllers advertise host names of the lab's hosts file instead of 127.0.0.1.
            supervised: False lets the processes outlive this one (see `up`).
            class_archive: the archive that a node of this lab writes when it ends; None reads that of the version.
        """
        if controllers + combined < 1 or min(controllers, brokers, combined) < 0:
            raise LabError("a lab needs at least one controller or combined node, and no negative count")
        self.directory = directory.absolute()
        if any(character in str(self.directory) for character in ",\\"):
            raise LabError(f"{self.directory}: Kafka does not support a comma or backslash in a folder's name")
        self.version = version
        self.static = not is_dynamic(version) if static is None else static
        if not self.static and not is_dynamic(version):
            raise LabError(f"Kafka {version} supports static quorums only: dynamic quorums need 3.9 or newer")
        self.cluster_id = new_uuid()
        self._counts = {"controllers": controllers, "combined": combined, "brokers": brokers}
        self._properties = dict(properties or {})
        self._named = named
        self._supervised, self._class_archive = supervised, class_archive

    def prepare(self) -> None:
        """Downloads the jars and has the class archive written, if they are missing in the cache."""
        jars = kafka_jars(self.version)
        if self.version == KAFKA_VERSION and self._class_archive is None:
            ensure_class_archive(jars, self._write_archive)

    def __enter__(self) -> Self:
        self.prepare()
        if self.directory.exists() and any(self.directory.glob("node-*")):
            raise LabError(f"{self.directory} already contains a lab: choose another folder")
        self.directory.mkdir(parents=True, exist_ok=True)
        self._names = HostsFile(self.directory / "hosts") if self._named else None
        self.layout = ClusterLayout(
            folder=self.directory,
            names=self._names,
            extra=self.node_properties(),
            version=self.version,
            static=self.static,
            listeners=self.listeners,
        )
        self.jvm.prepare()
        try:
            self.layout.populate(**self._counts)
            self._format_all()
            self.start(*(node.id for node in self.layout))
            self.await_state(self._is_complete, what="all voters and brokers in the quorum", timeout_s=START_TIMEOUT_S)
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    # ---- nodes and addresses

    @property
    def controllers(self) -> list[int]:
        """Node ids with the controller role: voters and observers, running or not."""
        return [node.id for node in self.layout.controllers]

    @property
    def brokers(self) -> list[int]:
        """Node ids with the broker role, running or not."""
        return [node.id for node in self.layout.brokers]

    @property
    def bootstrap(self) -> list[str]:
        """The advertised HOST:PORT of every controller."""
        return self.layout.bootstrap

    @property
    def broker_bootstrap(self) -> list[str]:
        """HOST:PORT of every broker."""
        return [node.broker_endpoint for node in self.layout.brokers]

    def node(self, id_: int) -> Node:
        """Returns one node."""
        return self.layout[id_]

    @property
    def names(self) -> HostsFile:
        """The hosts file of a lab with `named=True`: add and drop names."""
        if self._names is None:
            raise LabError("this lab uses addresses, not names: create it with named=True")
        return self._names

    @property
    def hosts_file(self) -> Path | None:
        """The path of the hosts file, for a monitor; None unless `named`."""
        return None if self._names is None else self._names.file

    # ---- what a secured quorum has otherwise

    listeners: Sequence[Listener] = ()
    """Additional listeners of every controller."""
    java_options: tuple[str, ...] = ()
    """Additional options of the JVMs that run nodes."""

    def node_properties(self) -> dict[str, str]:
        """Returns properties of every node."""
        return self._properties

    def connect(self, port: int) -> socket.socket:
        """Opens a connection to a node on 127.0.0.1:`port`."""
        return kafka_requests.plaintext(port)

    @property
    def login(self) -> Mapping[str, str | int]:
        """librdkafka's login settings for this quorum."""
        return {}

    # ---- state

    @property
    def state(self) -> kafka_requests.QuorumState | None:
        """The current state as reported by the leader; None if no running controller is the leader.

        A resumed controller may report for a moment that it is still the leader: the highest epoch is correct.
        """
        controllers = [
            (node.controller_port, is_dynamic(node.version)) for node in self.layout.controllers if node.running
        ]
        answers = [
            kafka_requests.quorum_state(port, dynamic=dynamic, connect=self.connect)
            for port, dynamic in controllers
            if port is not None
        ]
        return max(filter(None, answers), key=lambda state: state.leader_epoch, default=None)

    def await_state(
        self, condition: Callable[[kafka_requests.QuorumState], bool], *, what: str, timeout_s: float = CHANGE_TIMEOUT_S
    ) -> kafka_requests.QuorumState:
        """Waits until the leader reports a state that fulfils `condition`, and returns it."""

        def poll() -> kafka_requests.QuorumState | None:
            state = self.state
            return state if state is not None and condition(state) else None

        return wait_until(poll, timeout_s=timeout_s, what=what)

    @property
    def leader(self) -> int:
        """The leader, once there is one."""
        return self.await_state(lambda state: True, what="a leader").leader_id

    @property
    def followers(self) -> list[int]:
        """The other controllers."""
        leader = self.leader
        return [node for node in self.controllers if node != leader]

    def await_recorded_endpoint(self, id_: int) -> None:
        """Waits until the log records the endpoint at which this voter listens."""
        self.await_state(
            lambda state: self.node(id_).endpoint in state.endpoints.get(id_, ()),
            what=f"the new endpoint of voter {id_}",
        )

    # ---- processes

    def start(self, *ids: int, wait: bool = True) -> None:
        """Starts nodes concurrently.

        With `wait`, returns when each controller accepts connections, which needs no leader, and each broker is
        unfenced, which needs a leader: use wait=False while there is none.
        """
        for id_ in ids:
            node = self.node(id_)
            node.launch(self._jvm_of(node.version), supervised=self._supervised)
        for id_ in ids if wait else ():
            node = self.node(id_)
            node.wait_for_start(
                self._jvm_of(node.version), self.connect, supervised=self._supervised, timeout_s=START_TIMEOUT_S
            )

    def stop(self, *ids: int) -> None:
        """Sends SIGTERM and waits for the controlled shutdown, for which a broker needs a leader of the quorum."""
        self._signal(ids, signal.SIGTERM)
        self._await_end(ids, STOP_TIMEOUT_S)

    def kill(self, *ids: int) -> None:
        """Sends SIGKILL to all nodes, then waits for their end."""
        self._signal(ids, signal.SIGKILL)
        self._await_end(ids, STOP_TIMEOUT_S)

    def pause(self, *ids: int) -> None:
        """Sends SIGSTOP: the process and its sockets remain, but do not respond."""
        for id_ in ids:
            self.node(id_).running_process().pause()

    def resume(self, *ids: int) -> None:
        """Sends SIGCONT."""
        self._signal(ids, signal.SIGCONT)

    def end(self) -> None:
        """Kills every remaining process."""
        for node in self.layout:
            with suppress(LabError):
                node.running_process().signal(signal.SIGKILL)
        for node in self.layout:
            if node.process is not None:
                node.process.kill()

    # ---- internals

    @property
    def jvm(self) -> Jvm:
        """The JVM of the lab's version: it formats disks and runs the tools."""
        return self._jvm_of(self.version)

    def _jvm_of(self, version: str) -> Jvm:
        return Jvm(
            jars=kafka_jars(version),
            folder=self.directory,
            hosts_file=self.hosts_file,
            options=self.java_options,
            written_archive=self._class_archive,
        )

    def _write_archive(self, file: Path) -> None:
        """Runs a node of both roles once, for the classes that it loads."""
        with (
            tempfile.TemporaryDirectory(prefix="kraftwatch-archive-") as folder,
            RunningQuorum(Path(folder), controllers=0, combined=1, brokers=0, class_archive=file) as lab,
        ):
            lab.stop(*lab.controllers)

    def _format_all(self) -> None:
        voters = {node.id: new_uuid() for node in self.layout.controllers}
        initial = [f"{node.id}@{node.endpoint}:{voters[node.id]}" for node in self.layout.controllers]

        def format_alike(nodes: Sequence[Node]) -> None:
            first, *others = nodes
            of_node = None if self.static else initial if first.is_controller else ()
            format_disk(self.jvm, first, self.cluster_id, initial=of_node)
            for node in others:
                copy_format(first, node, directory_id=voters.get(node.id) or new_uuid())

        brokers = [node for node in self.layout if not node.is_controller]
        with ThreadPoolExecutor(max_workers=2) as pool:
            list(pool.map(format_alike, [nodes for nodes in (self.layout.controllers, brokers) if nodes]))

    def _is_complete(self, state: kafka_requests.QuorumState) -> bool:
        # A replica that has not fetched yet has no log end offset (-1).
        voters = {voter.id for voter in state.voters if voter.log_end_offset >= 0}
        observers = {observer.id for observer in state.observers if observer.log_end_offset >= 0}
        return set(self.controllers) <= voters and set(self.brokers) <= voters | observers

    def _signal(self, ids: Sequence[int], number: signal.Signals) -> None:
        for id_ in ids:
            self.node(id_).running_process().signal(number)

    def _await_end(self, ids: Sequence[int], timeout_s: float) -> None:
        for id_ in ids:
            process = self.node(id_).process
            if process is not None and not process.wait(timeout_s):
                raise LabError(f"node {id_} did not end within {timeout_s:g} s ({self.node(id_).log_file})")


def up(quorum: RunningQuorum) -> None:
    """Starts a quorum that was created with `supervised=False`, and returns when it answers; it outlives this process.

    Deletes the files of an earlier lab first: each `up` creates a new cluster with a new id.
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
    """
    directory = directory.absolute()
    pids = _node_pids(directory)
    if not pids and not any(directory.glob("node-*")):
        raise LabError(f"there is no lab in {directory}")
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not _node_pids(directory), timeout_s=STOP_TIMEOUT_S, what=f"the end of the nodes in {directory}")
    return len(pids)


def _node_pids(directory: Path) -> list[int]:
    node = re.compile(rf" kafka\.Kafka {re.escape(str(directory))}/node-\d+/server\.properties$")
    return [process.pid for process in processes() if node.search(process.command)]


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
