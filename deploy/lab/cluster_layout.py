"""The nodes of a lab: ids, roles, ports, host names, and the configuration that they share."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from deploy.lab import LabError
from deploy.lab.addresses import DOMAIN, LOOPBACK, HostsFile, Ports
from deploy.lab.jars import KAFKA_VERSION
from deploy.lab.node import Listener, Node

FIRST_BROKER = 101


@dataclass(slots=True, kw_only=True)
class ClusterLayout:
    """Controllers are numbered from 1, combined nodes follow them, brokers are numbered from 101."""

    folder: Path
    """Contains one folder for each node."""
    names: HostsFile | None = None
    """Resolves the controllers' names; without it controllers advertise 127.0.0.1."""
    extra: Mapping[str, str] = field(default_factory=dict)
    """Properties of every node."""
    version: str = KAFKA_VERSION
    static: bool = False
    """Every configuration lists the voters; otherwise the log contains them."""
    listeners: Sequence[Listener] = ()
    """Additional listeners of every controller."""
    _nodes: dict[int, Node] = field(default_factory=dict)
    _ports: Ports = field(default_factory=Ports)

    def __iter__(self) -> Iterator[Node]:
        return iter(self._nodes[id_] for id_ in sorted(self._nodes))

    def __getitem__(self, id_: int) -> Node:
        if id_ not in self._nodes:
            raise LabError(f"the lab has no node {id_}; it has {', '.join(map(str, sorted(self._nodes)))}")
        return self._nodes[id_]

    @property
    def controllers(self) -> list[Node]:
        """Nodes with the controller role, including combined ones."""
        return [node for node in self if node.is_controller]

    @property
    def brokers(self) -> list[Node]:
        """Nodes with the broker role, including combined ones."""
        return [node for node in self if node.is_broker]

    @property
    def quorum(self) -> dict[str, str]:
        """The property that locates the controllers."""
        if self.static:
            # A different name than the advertised one, so that tests see which of both an endpoint was taken from.
            hosts = [(node, "localhost" if node.host == LOOPBACK else node.host) for node in self.controllers]
            voters = ",".join(f"{node.id}@{host}:{node.controller_port}" for node, host in hosts)
            return {"controller.quorum.voters": voters}
        return {"controller.quorum.bootstrap.servers": ",".join(self.bootstrap)}

    @property
    def bootstrap(self) -> list[str]:
        """HOST:PORT of every controller."""
        return [node.endpoint for node in self.controllers]

    def populate(self, *, controllers: int, combined: int, brokers: int) -> None:
        """Adds and configures the initial nodes."""
        for id_ in range(1, controllers + combined + 1):
            self._add(id_, controller=True, broker=id_ > controllers)
        for id_ in range(FIRST_BROKER, FIRST_BROKER + brokers):
            self._add(id_, controller=False, broker=True)
        self.configure()

    def add_controller(self) -> Node:
        """Adds a controller with the next free id and updates every configuration."""
        node = self._add(max(node.id for node in self.controllers) + 1, controller=True, broker=False)
        self.configure()
        return node

    def move(self, ids: Sequence[int]) -> None:
        """Gives these nodes ports that no node of the lab has had."""
        for node in map(self.__getitem__, ids):
            node.controller_port = self._ports.claim() if node.is_controller else None
            node.broker_port = self._ports.claim() if node.is_broker else None
        self.configure()

    def rename(self, id_: int, name: str) -> None:
        """Changes the advertised host name of a controller."""
        self[id_].host = name
        self.configure()

    def configure(self) -> None:
        """Writes every node's server.properties."""
        for node in self:
            node.configure(self.quorum, self.extra)

    def _add(self, id_: int, *, controller: bool, broker: bool) -> Node:
        host = LOOPBACK
        if self.names is not None and controller:
            host = f"c{id_}.{DOMAIN}"
            self.names.add(host)
        self._nodes[id_] = Node(
            id=id_,
            folder=self.folder / f"node-{id_}",
            controller_port=self._ports.claim() if controller else None,
            broker_port=self._ports.claim() if broker else None,
            host=host,
            version=self.version,
            listeners=tuple((listener, self._ports.claim()) for listener in self.listeners) if controller else (),
        )
        return self._nodes[id_]
