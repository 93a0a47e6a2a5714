"""One node of the lab: roles, ports, folder, what its Kafka version can do, log directory and process."""

import base64
import re
import shutil
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from deploy.lab import LabError, kafka_requests
from deploy.lab.addresses import LOOPBACK
from deploy.lab.child_process import ChildProcess, wait_until
from deploy.lab.jars import KAFKA_VERSION
from deploy.lab.jvm import Jvm

_PROTOCOLS = "listener.security.protocol.map"
_REGISTRATION_TIMED_OUT = "Unable to register the broker because the RPC got timed out before it could be sent"
_REGISTRATION_ATTEMPTS = 8
CONTROLLER, BROKER = "CONTROLLER", "PLAINTEXT"
"""The listeners' names."""
_VERSION = re.compile(r"(\d+)\.(\d+)(?:\.\d+)*")
_DYNAMIC_SINCE = (3, 9)
"""KIP-853: voters in the log, directory ids, DescribeQuorum v2, advertised listeners of controllers."""
_CONTROLLERS_ACCEPT_CLIENTS_SINCE = (3, 7)
"""KIP-919: Kafka's tools and DescribeCluster at the controllers' listener."""


def is_dynamic(version: str) -> bool:
    """Returns whether this Kafka can store its voters in the log (kraft.version 1) instead of its configuration."""
    return _release(version) >= _DYNAMIC_SINCE


def controllers_accept_clients(version: str) -> bool:
    """Returns whether controllers answer Kafka's tools and report their cluster id."""
    return _release(version) >= _CONTROLLERS_ACCEPT_CLIENTS_SINCE


def _release(version: str) -> tuple[int, int]:
    numbers = _VERSION.fullmatch(version)
    if numbers is None:
        raise LabError(f"{version!r} is not a Kafka version: expected one such as 4.3.1")
    return int(numbers[1]), int(numbers[2])


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """An additional listener of every controller for clients; the nodes themselves use the first one."""

    name: str
    """Upper case, such as MTLS."""
    protocol: str
    """PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL."""
    properties: Mapping[str, str] = field(default_factory=dict)
    """Properties without their prefix `listener.name.NAME.` (NAME in lower case)."""


@dataclass(slots=True, kw_only=True)
class Node:
    """A controller, a broker or both. A port is None without the role."""

    id: int
    folder: Path
    controller_port: int | None
    broker_port: int | None
    host: str = LOOPBACK
    """The advertised host of its controller listener: 127.0.0.1 or a name of the lab."""
    bind: str = LOOPBACK
    """The address at which its controller listener accepts connections."""
    version: str = KAFKA_VERSION
    """The Kafka version of its next start."""
    listeners: tuple[tuple[Listener, int], ...] = ()
    """Additional listeners of its controller role, each with its port."""
    disk: Path | None = None
    """The folder of its log directory, if it is not `folder`."""
    process: ChildProcess | None = field(default=None, repr=False)

    @property
    def is_controller(self) -> bool:
        """Whether `controller` is among its process.roles."""
        return self.controller_port is not None

    @property
    def is_broker(self) -> bool:
        """Whether `broker` is among its process.roles."""
        return self.broker_port is not None

    @property
    def endpoint(self) -> str:
        """The advertised HOST:PORT of its controller listener, or of its broker listener if it is no controller."""
        return self.broker_endpoint if self.controller_port is None else f"{self.host}:{self.controller_port}"

    @property
    def broker_endpoint(self) -> str:
        """HOST:PORT of its broker listener."""
        return f"{LOOPBACK}:{self.broker_port}"

    @property
    def ports(self) -> tuple[int, ...]:
        """Every port it listens on."""
        ports = (self.controller_port, self.broker_port, *(port for _, port in self.listeners))
        return tuple(port for port in ports if port is not None)

    @property
    def properties_file(self) -> Path:
        """The node's configuration file: $NODE_PROPERTIES in a remedy."""
        return self.folder / "server.properties"

    @property
    def log_file(self) -> Path:
        """The node's log since the lab was created, over all its starts."""
        return self.folder / "server.log"

    @property
    def data(self) -> Path:
        """The node's only log directory: metadata log, partitions, meta.properties."""
        return (self.disk or self.folder) / "data"

    @property
    def metadata_log(self) -> Path:
        """The directory of its `__cluster_metadata-0`: .log segments and .checkpoint files."""
        return self.data / "__cluster_metadata-0"

    @property
    def directory_id(self) -> str:
        """The directory id in its meta.properties, 22 characters."""
        meta = self.data / "meta.properties"
        lines = meta.read_text(encoding="utf-8").splitlines() if meta.exists() else []
        for line in lines:
            key, _, value = line.partition("=")
            if key.strip() == "directory.id":
                return value.strip()
        raise LabError(f"node {self.id} has no directory id in {meta}")

    @property
    def running(self) -> bool:
        """Whether the node's process exists, paused or not."""
        return self.process is not None and self.process.alive

    @property
    def pid(self) -> int | None:
        """The process id of its JVM; None while it is not running."""
        return self.process.pid if self.process is not None and self.running else None

    def configure(self, quorum: Mapping[str, str], extra: Mapping[str, str]) -> None:
        """Writes its server.properties, which a running node does not read again.

        `quorum` locates the controllers: controller.quorum.bootstrap.servers or .voters.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        properties = {**self._properties(), **quorum, **extra}
        for listener, _ in self.listeners:
            properties[_PROTOCOLS] += f",{listener.name}:{listener.protocol}"
            prefix = f"listener.name.{listener.name.lower()}."
            properties |= {prefix + key: value for key, value in listener.properties.items()}
        text = "".join(f"{key}={value}\n" for key, value in properties.items())
        self.properties_file.write_text(text, encoding="utf-8")

    def _properties(self) -> dict[str, str]:
        roles, listeners, advertised = [], [], []
        if self.is_controller:
            roles.append("controller")
            listeners.append(f"{CONTROLLER}://{self.bind}:{self.controller_port}")
            listeners += [f"{listener.name}://{LOOPBACK}:{port}" for listener, port in self.listeners]
            if is_dynamic(self.version):  # older versions refuse to start with it
                advertised.append(f"{CONTROLLER}://{self.endpoint}")
                advertised += [f"{listener.name}://{self.host}:{port}" for listener, port in self.listeners]
        if self.is_broker:
            roles.append("broker")
            listeners.append(f"{BROKER}://{self.broker_endpoint}")
            advertised.append(f"{BROKER}://{self.broker_endpoint}")
        properties = {
            "process.roles": ",".join(roles),
            "node.id": str(self.id),
            "controller.listener.names": ",".join([CONTROLLER, *(listener.name for listener, _ in self.listeners)]),
            "listeners": ",".join(listeners),
            _PROTOCOLS: f"{CONTROLLER}:PLAINTEXT,{BROKER}:PLAINTEXT",
            "log.dirs": str(self.data),
            "auto.create.topics.enable": "false",
            "group.initial.rebalance.delay.ms": "0",
            "offsets.topic.num.partitions": "1",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            # The default is one minute. On a busy machine the controllers may need longer to elect a leader.
            "initial.broker.registration.timeout.ms": "300000",
            "num.network.threads": "1",
            "num.io.threads": "2",
        }
        if advertised:
            properties["advertised.listeners"] = ",".join(advertised)
        return properties | ({"inter.broker.listener.name": BROKER} if self.is_broker else {})

    def launch(self, jvm: Jvm, *, supervised: bool) -> None:
        """Starts its process without waiting for it."""
        if self.running:
            raise LabError(f"node {self.id} is already running (pid {self.pid})")
        self.process = ChildProcess(jvm.node(self.properties_file), log=self.log_file, supervised=supervised)

    def running_process(self) -> ChildProcess:
        """Returns its process."""
        if self.process is None or not self.process.alive:
            raise LabError(f"node {self.id} is not running")
        return self.process

    def wait_for_start(self, jvm: Jvm, connect: kafka_requests.Connect, *, supervised: bool, timeout_s: float) -> None:
        """Waits until it accepts requests. Restarts a broker once whose registration is stuck."""
        what = f"node {self.id} ({self.log_file})"
        wait_until(
            lambda: self.accepts_requests(connect) or self._registration_is_stuck(), timeout_s=timeout_s, what=what
        )
        if not self.accepts_requests(connect):
            self.running_process().kill()
            self.launch(jvm, supervised=supervised)
            wait_until(lambda: self.accepts_requests(connect), timeout_s=timeout_s, what=what)

    def _registration_is_stuck(self) -> bool:
        """Whether the broker retries with a node that does not lead, each 4 s: Kafka 4.3.1 on a busy machine."""
        if self.broker_port is None:
            return False
        return self.log_tail(_REGISTRATION_ATTEMPTS).count(_REGISTRATION_TIMED_OUT) == _REGISTRATION_ATTEMPTS

    def accepts_requests(self, connect: kafka_requests.Connect) -> bool:
        """Returns whether the node accepts requests."""
        if not self.running:
            raise LabError(f"node {self.id} ended during its start; the end of {self.log_file}:\n{self.log_tail()}")
        if self.controller_port is not None and not kafka_requests.accepts_connections(self.controller_port):
            return False
        return self.broker_port is None or self.id in kafka_requests.unfenced_brokers(self.broker_port, connect=connect)

    def log_tail(self, lines: int = 12) -> str:
        """Returns the last lines of its log, for error messages."""
        text = self.log_file.read_text(encoding="utf-8", errors="replace") if self.log_file.exists() else ""
        return "\n".join(text.splitlines()[-lines:])


def format_disk(jvm: Jvm, node: Node, cluster_id: str, *, initial: Sequence[str] | None) -> None:
    """Runs `kafka-storage format`.

    `initial` lists the initial controllers (ID@HOST:PORT:DIRECTORY_ID); empty means --no-initial-controllers. None
    means a static quorum, whose log directories do not name its voters.
    """
    voters = ["--initial-controllers", ",".join(initial)] if initial else ["--no-initial-controllers"]
    if initial is None:
        voters = []
    jvm.tool("kafka-storage", ["format", "--config", str(node.properties_file), "--cluster-id", cluster_id, *voters])


def copy_format(formatted: Node, node: Node, *, directory_id: str) -> None:
    """Formats a disk as that of a node of the same roles, with other ids: the tool's Java takes a second for each."""
    shutil.copytree(formatted.data, node.data, dirs_exist_ok=True)
    write_ids(node, directory_id=directory_id)


def write_ids(node: Node, *, directory_id: str) -> None:
    """Writes a node's id and the id of its log directory into meta.properties, which is that of another one."""
    meta = node.data / "meta.properties"
    text = re.sub(r"(?m)^node\.id=.*$", f"node.id={node.id}", meta.read_text(encoding="utf-8"))
    meta.write_text(re.sub(r"(?m)^directory\.id=.*$", f"directory.id={directory_id}", text), encoding="utf-8")


def new_uuid() -> str:
    """Returns 22 characters of URL-safe base64 that do not start with `-`, which tools would parse as an option."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text
