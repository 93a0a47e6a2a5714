"""One node of the lab: its roles, ports, folder and configuration; and its process while it runs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from deploy.lab import kafka_requests
from deploy.lab.child_process import Program
from deploy.lab.jars import KAFKA_VERSION
from deploy.lab.jvm import Jvm
from deploy.lab.kafka_versions import is_dynamic
from deploy.lab.lab_errors import LabError
from deploy.lab.wait_until import until

LOOPBACK = "127.0.0.1"
_PROTOCOLS = "listener.security.protocol.map"
_UNSENT, _TRIES = "Unable to register the broker because the RPC got timed out before it could be sent", 8
CONTROLLER, BROKER = "CONTROLLER", "PLAINTEXT"
"""The listeners' names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """A further listener of every controller, for clients alone: Kafka itself uses the first."""

    name: str
    """In capitals, such as MTLS."""
    protocol: str
    """PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL."""
    properties: Mapping[str, str] = field(default_factory=dict)
    """What stands behind `listener.name.NAME.`, with the name in small letters."""


@dataclass(slots=True, kw_only=True)
class Node:
    """A controller, broker or both. A port is None where it has no such role."""

    id: int
    folder: Path
    controller_port: int | None
    broker_port: int | None
    host: str = LOOPBACK
    """What its controller listener advertises: 127.0.0.1 or a name of the lab. It binds 127.0.0.1 either way."""
    version: str = KAFKA_VERSION
    """The Kafka that its next start runs."""
    listeners: tuple[tuple[Listener, int], ...] = ()
    """What its controller role listens on besides, each with its port."""
    program: Program | None = field(default=None, repr=False)

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
        """HOST:PORT, as advertised, of its controller listener; of its broker listener where it has no other."""
        return self.broker_endpoint if self.controller_port is None else f"{self.host}:{self.controller_port}"

    @property
    def broker_endpoint(self) -> str:
        """HOST:PORT of its broker listener."""
        return f"{LOOPBACK}:{self.broker_port}"

    def endpoint_of(self, listener: str) -> str:
        """HOST:PORT of one of its further listeners, by name."""
        return next(f"{self.host}:{port}" for one, port in self.listeners if one.name == listener)

    @property
    def ports(self) -> tuple[int, ...]:
        """Every port it listens on."""
        ports = (self.controller_port, self.broker_port, *(port for _, port in self.listeners))
        return tuple(port for port in ports if port is not None)

    @property
    def properties_file(self) -> Path:
        """Its configuration, what a remedy calls $NODE_PROPERTIES."""
        return self.folder / "server.properties"

    @property
    def log_file(self) -> Path:
        """What it logged since the lab began, over all its starts."""
        return self.folder / "server.log"

    @property
    def data(self) -> Path:
        """Its one log directory: metadata log, partitions, meta.properties."""
        return self.folder / "data"

    @property
    def metadata_log(self) -> Path:
        """The directory of its `__cluster_metadata-0`: .log segments and .checkpoint files."""
        return self.data / "__cluster_metadata-0"

    @property
    def directory_id(self) -> str:
        """The directory id that its disk holds now, 22 characters.

        Raises:
            LabError: it was never formatted.
        """
        meta = self.data / "meta.properties"
        lines = meta.read_text(encoding="utf-8").splitlines() if meta.exists() else []
        for line in lines:
            key, _, value = line.partition("=")
            if key.strip() == "directory.id":
                return value.strip()
        raise LabError(f"node {self.id} has no directory id: {meta} holds none")

    @property
    def running(self) -> bool:
        """Whether its process is there; a paused one is."""
        return self.program is not None and self.program.alive

    @property
    def pid(self) -> int | None:
        """The process id of its JVM, or None while it does not run."""
        return self.program.pid if self.program is not None and self.running else None

    def configure(self, quorum: Mapping[str, str], extra: Mapping[str, str]) -> None:
        """Writes its server.properties; a running node goes on with what it read at its start.

        `quorum` is what tells it of the controllers: controller.quorum.bootstrap.servers or .voters.
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
        roles, bound, advertised = [], [], []
        if self.is_controller:
            roles.append("controller")
            bound.append(f"{CONTROLLER}://{LOOPBACK}:{self.controller_port}")
            bound += [f"{one.name}://{LOOPBACK}:{port}" for one, port in self.listeners]
            if is_dynamic(self.version):  # older ones refuse to start with it
                advertised.append(f"{CONTROLLER}://{self.endpoint}")
                advertised += [f"{one.name}://{self.host}:{port}" for one, port in self.listeners]
        if self.is_broker:
            roles.append("broker")
            bound.append(f"{BROKER}://{self.broker_endpoint}")
            advertised.append(f"{BROKER}://{self.broker_endpoint}")
        properties = {
            "process.roles": ",".join(roles),
            "node.id": str(self.id),
            "controller.listener.names": ",".join([CONTROLLER, *(one.name for one, _ in self.listeners)]),
            "listeners": ",".join(bound),
            _PROTOCOLS: f"{CONTROLLER}:PLAINTEXT,{BROKER}:PLAINTEXT",
            "log.dirs": str(self.data),
            "auto.create.topics.enable": "false",
            "group.initial.rebalance.delay.ms": "0",
            "offsets.topic.num.partitions": "1",
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            # Kafka's minute is over before the controllers of a busy machine have elected a leader: a broker then ends.
            "initial.broker.registration.timeout.ms": "300000",
            "num.network.threads": "1",
            "num.io.threads": "2",
        }
        if advertised:
            properties["advertised.listeners"] = ",".join(advertised)
        return properties | ({"inter.broker.listener.name": BROKER} if self.is_broker else {})

    def launch(self, jvm: Jvm, *, held: bool) -> None:
        """Starts its process and returns at once.

        Raises:
            LabError: it runs already.
        """
        if self.running:
            raise LabError(f"node {self.id} runs already (pid {self.pid})")
        self.program = Program(
            jvm.node(self.properties_file), log=self.log_file, mark=str(self.properties_file), held=held
        )

    def running_program(self) -> Program:
        """Its process.

        Raises:
            LabError: it does not run.
        """
        if self.program is None or not self.program.alive:
            raise LabError(f"node {self.id} does not run")
        return self.program

    def await_start(self, jvm: Jvm, dial: kafka_requests.Dial, *, held: bool, timeout_s: float) -> None:
        """Waits until it takes requests; a broker that is shut out of its quorum is started once more.

        Raises:
            LabError: it has ended, or does not answer within `timeout_s`.
        """
        what = f"node {self.id} ({self.log_file})"
        until(lambda: self.answers(dial) or self._shut_out(), timeout_s=timeout_s, what=what)
        if not self.answers(dial):
            self.running_program().kill()
            self.launch(jvm, held=held)
            until(lambda: self.answers(dial), timeout_s=timeout_s, what=what)

    def _shut_out(self) -> bool:
        """It waits for a leader that never was one, every four seconds anew: seen of Kafka 4.3.1 on a busy machine."""
        return self.broker_port is not None and self.last_words(_TRIES).count(_UNSENT) == _TRIES

    def answers(self, dial: kafka_requests.Dial) -> bool:
        """Whether it takes requests.

        Raises:
            LabError: its process has ended.
        """
        if not self.running:
            raise LabError(f"node {self.id} ended while it started; the end of {self.log_file}:\n{self.last_words()}")
        if self.controller_port is not None and not kafka_requests.listens(self.controller_port):
            return False
        return self.broker_port is None or self.id in kafka_requests.live_brokers(self.broker_port, dial=dial)

    def last_words(self, lines: int = 12) -> str:
        """The end of its log, for the sentence that says why it did not come up."""
        text = self.log_file.read_text(encoding="utf-8", errors="replace") if self.log_file.exists() else ""
        return "\n".join(text.splitlines()[-lines:])
