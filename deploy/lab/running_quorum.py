"""The lab's processes: a quorum brought up, looked at, its nodes started, stopped, killed and paused."""

import base64
import signal
import socket
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from deploy.lab import kafka_requests
from deploy.lab.cluster_layout import Roster
from deploy.lab.disks import format_disk
from deploy.lab.hosts_file import Names
from deploy.lab.jars import KAFKA_VERSION, kafka_jars
from deploy.lab.jvm import Jvm
from deploy.lab.kafka_versions import is_dynamic
from deploy.lab.lab_errors import LabError
from deploy.lab.node import BROKER, CONTROLLER, Listener, Node
from deploy.lab.security import Security
from deploy.lab.tools import Tools
from deploy.lab.wait_until import until

START_TIMEOUT_S = 180.0
STOP_TIMEOUT_S = 120.0
CHANGE_TIMEOUT_S = 120.0


class RunningQuorum:
    """A quorum of `controllers`, `combined` nodes and `brokers`; a context manager.

    Entering brings it up and returns when it answers; leaving kills every process and leaves the folder,
    logs included. Whatever else ends this Python process ends them too, kill -9 included.
    Every verb is synchronous and bounded, and raises LabError with one sentence when it could not be done.
    Not for use by several threads at once.
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
        users: Sequence[str] | None = None,
        plaintext: Sequence[str] = (),
        listeners: Sequence[Listener] = (),
        held: bool = True,
    ) -> None:
        """`directory` is made if need be and must hold no lab; `properties` go into every node's configuration.

        `named`: controllers advertise names that only the lab's hosts file knows, instead of 127.0.0.1.
        `static`: voters by controller.quorum.voters, kraft.version 0; unless told, only where the Kafka knows no other.
        `users`: not None makes it a secured quorum with these users beside the admin (see `deploy.lab.security`),
        `plaintext` those of its listeners that are open to all, `listeners` what its controllers listen on besides.
        `held=False`: the processes outlive this one (see `deploy.lab.persistent_quorum`).
        """
        if controllers + combined < 1 or min(controllers, brokers, combined) < 0:
            raise LabError("a lab needs at least one controller or combined node, and no negative number of any")
        self.directory = directory.absolute()
        if any(character in str(self.directory) for character in ",\\"):
            raise LabError(f"{self.directory}: Kafka takes no comma and no backslash in a folder's name")
        self.version = version
        self.static = not is_dynamic(version) if static is None else static
        if not self.static and not is_dynamic(version):
            raise LabError(f"Kafka {version} has static quorums only: voters in the log came with 3.9")
        self.cluster_id = _new_uuid()
        self._counts = {"controllers": controllers, "combined": combined, "brokers": brokers}
        self._properties = dict(properties or {})
        self._named = named
        self._users = users
        self._security: Security | None = None
        self._plaintext, self._listeners = plaintext, listeners
        self._held = held

    def __enter__(self) -> Self:
        """Brings it up; kills what it has started if that fails."""
        kafka_jars(self.version)
        if self.directory.exists() and any(self.directory.glob("node-*")):
            raise LabError(f"{self.directory} holds a lab already: give it a folder of its own")
        self.directory.mkdir(parents=True, exist_ok=True)
        self._names = Names(self.directory / "hosts") if self._named else None
        if self._users is not None:
            self._security = Security(self.directory / "security", self._users, plaintext=self._plaintext)
        secured = {} if self._security is None else self._security.node_properties()
        self._roster = Roster(
            self.directory,
            names=self._names,
            extra=secured | self._properties,
            version=self.version,
            static=self.static,
            listeners=self._listeners,
        )
        self._jvm.prepare()
        admin_file = None if self._security is None else self._security.admin_file
        login_file = None if CONTROLLER in self._plaintext else admin_file
        self.tools = Tools(jvm=self._jvm, roster=self._roster, command_config=login_file)
        try:
            self._roster.populate(**self._counts)
            self._format_all()
            self.start(*(node.id for node in self._roster))
            self.await_state(self._whole, what="all voters and brokers in the quorum", timeout_s=START_TIMEOUT_S)
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        """Kills every process."""
        self.end()

    # ---- what is there

    @property
    def controllers(self) -> list[int]:
        """Node ids with the controller role: voters and observers, running or not."""
        return [node.id for node in self._roster.controllers]

    @property
    def brokers(self) -> list[int]:
        """Node ids with the broker role, running or not."""
        return [node.id for node in self._roster.brokers]

    @property
    def bootstrap(self) -> list[str]:
        """HOST:PORT of every controller, as its configuration advertises it now."""
        return self._roster.bootstrap

    @property
    def broker_bootstrap(self) -> list[str]:
        """HOST:PORT of every broker."""
        return [node.broker_endpoint for node in self._roster.brokers]

    def node(self, id_: int) -> Node:
        """One node: endpoint, directory_id, properties_file, log_file, pid, metadata_log."""
        return self._roster[id_]

    @property
    def names(self) -> Names:
        """The name service of a lab that is `named`: `drop` and `add` names."""
        if self._names is None:
            raise LabError("this lab uses addresses, not names: make it with named=True")
        return self._names

    @property
    def hosts_file(self) -> Path | None:
        """What a monitor is given as its hosts file; None unless `named`."""
        return None if self._names is None else self._names.file

    @property
    def security(self) -> Security:
        """The users and certificates of a secured quorum."""
        if self._security is None:
            raise LabError("this lab is not secured: make it with users=[...]")
        return self._security

    @property
    def dial(self) -> kafka_requests.Dial:
        """How a node of this quorum is connected to."""
        return kafka_requests.plaintext if self._security is None else self._dial

    @property
    def login(self) -> Mapping[str, str | int]:
        """What librdkafka needs for that."""
        return {} if self._security is None or BROKER in self._plaintext else self._security.client()

    @property
    def state(self) -> kafka_requests.QuorumState | None:
        """The quorum as its leader answers now; None while no running controller leads.

        A controller that was paused believes for a moment that it still leads: the newest epoch is the truth.
        """
        asked = [(node.controller_port, is_dynamic(node.version)) for node in self._roster.controllers if node.running]
        answers = [
            kafka_requests.quorum_state(port, dynamic=dynamic, dial=self.dial)
            for port, dynamic in asked
            if port is not None
        ]
        return max(filter(None, answers), key=lambda state: state.leader_epoch, default=None)

    def await_state(
        self, wanted: Callable[[kafka_requests.QuorumState], bool], *, what: str, timeout_s: float = CHANGE_TIMEOUT_S
    ) -> kafka_requests.QuorumState:
        """Waits until the leader answers a state that is `wanted`, and returns it."""

        def look() -> kafka_requests.QuorumState | None:
            state = self.state
            return state if state is not None and wanted(state) else None

        return until(look, timeout_s=timeout_s, what=what)

    # ---- processes

    def start(self, *ids: int, wait: bool = True) -> None:
        """Starts nodes side by side.

        With `wait`, returns when each controller accepts connections (it needs no leader for that) and each
        broker is unfenced (it needs one: without a quorum, say wait=False).
        """
        for id_ in ids:
            node = self.node(id_)
            node.launch(self._jvm_of(node.version), held=self._held)
        for id_ in ids if wait else ():
            node = self.node(id_)
            node.await_start(self._jvm_of(node.version), self.dial, held=self._held, timeout_s=START_TIMEOUT_S)

    def stop(self, *ids: int) -> None:
        """SIGTERM, and waits for the clean end, for which a broker needs a quorum: it hands its leaderships over."""
        self._signal(ids, signal.SIGTERM)
        self._await_end(ids, STOP_TIMEOUT_S)

    def kill(self, *ids: int) -> None:
        """SIGKILL, all at once."""
        self._signal(ids, signal.SIGKILL)
        self._await_end(ids, STOP_TIMEOUT_S)

    def pause(self, *ids: int) -> None:
        """SIGSTOP: the process stays, its sockets stay open, nothing answers."""
        for id_ in ids:
            self.node(id_).running_program().pause()

    def resume(self, *ids: int) -> None:
        """SIGCONT."""
        self._signal(ids, signal.SIGCONT)

    def end(self) -> None:
        """Kills every process that is left."""
        for node in self._roster:
            with suppress(LabError):
                node.running_program().signal(signal.SIGKILL)
        for node in self._roster:
            if node.program is not None:
                node.program.kill()

    # ---- inside

    @property
    def _jvm(self) -> Jvm:
        """Of the lab's own version: it formats disks and runs the tools."""
        return self._jvm_of(self.version)

    def _jvm_of(self, version: str) -> Jvm:
        options = () if self._security is None else self._security.java_options
        return Jvm(jars=kafka_jars(version), folder=self.directory, hosts_file=self.hosts_file, options=options)

    def _dial(self, port: int) -> socket.socket:
        listener = BROKER if port in {node.broker_port for node in self._roster} else CONTROLLER
        return kafka_requests.plaintext(port) if listener in self._plaintext else self.security.dial(port)

    def _format_all(self) -> None:
        voters = [(node, _new_uuid()) for node in self._roster.controllers]
        initial = [f"{node.id}@{node.endpoint}:{directory}" for node, directory in voters]

        def initial_of(node: Node) -> Sequence[str] | None:
            return None if self.static else initial if node.is_controller else ()

        with ThreadPoolExecutor(max_workers=4) as pool:
            formatted = [
                pool.submit(format_disk, self._jvm, node, self.cluster_id, initial=initial_of(node))
                for node in self._roster
            ]
            for one in formatted:
                one.result()

    def _whole(self, state: kafka_requests.QuorumState) -> bool:
        # A replica that has not fetched yet has no log end offset (-1).
        voters = {voter.id for voter in state.voters if voter.log_end_offset >= 0}
        observers = {observer.id for observer in state.observers if observer.log_end_offset >= 0}
        return set(self.controllers) <= voters and set(self.brokers) <= voters | observers

    def _signal(self, ids: Sequence[int], number: signal.Signals) -> None:
        for id_ in ids:
            self.node(id_).running_program().signal(number)

    def _await_end(self, ids: Sequence[int], timeout_s: float) -> None:
        for id_ in ids:
            program = self.node(id_).program
            if program is not None and not program.wait(timeout_s):
                raise LabError(f"node {id_} did not end within {timeout_s:g} s ({self.node(id_).log_file})")


def _new_uuid() -> str:
    """22 characters of URL-safe base64, none that begins with `-`, which tools would take for an option."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text
