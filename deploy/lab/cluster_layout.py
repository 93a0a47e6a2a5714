"""The nodes of a lab: ids, roles, ports, host names, and the configuration that they share."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from deploy.lab import LabError
from deploy.lab.addresses import DOMAIN, LOOPBACK, HostsFile, Ports
from deploy.lab.jars import KAFKA_VERSION
from deploy.lab.node import Listener, Node

FIRST_BROKER = 101


class ClusterLayout:
    """Controllers are numbered from 1, combined nodes follow them, brokers are numbered from 101."""

    def __init__(
        self,
        folder: Path,
        *,
        names: HostsFile | None,
        extra: Mapping[str, str],
        version: str = KAFKA_VERSION,
        static: bool = False,
        listeners: Sequence[Listener] = (),
    ) -> None:
        """Configures nothing yet.

        Args:
            folder: contains one folder for each node.
            names: resolves the controllers' names; without it controllers advertise 127.0.0.1.
            extra: properties of every node.
            static: every configuration lists the voters; otherwise the log contains them.
            listeners: additional listeners of every controller.
        """
        self._folder = folder
        self._version = version
        self._static = static
        self._names = names
        self._extra = dict(extra)
        self._listeners = tuple(listeners)
        self._nodes: dict[int, Node] = {}
        self._ports = Ports()

    def __iter__(self) -> Iterator[Node]:
        """Yields the nodes by id."""
        return iter(self._nodes[id_] for id_ in sorted(self._nodes))

    def __getitem__(self, id_: int) -> Node:
        """Returns the node with this id.

        Raises:
            LabError: there is none.
        """
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
        if self._static:
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
            node.configure(self.quorum, self._extra)

    def _add(self, id_: int, *, controller: bool, broker: bool) -> Node:
        host = LOOPBACK
        if self._names is not None and controller:
            host = f"c{id_}.{DOMAIN}"
            self._names.add(host)
        self._nodes[id_] = Node(
            id=id_,
            folder=self._folder / f"node-{id_}",
            controller_port=self._ports.claim() if controller else None,
            broker_port=self._ports.claim() if broker else None,
            host=host,
            version=self._version,
            listeners=tuple((one, self._ports.claim()) for one in self._listeners) if controller else (),
        )
        return self._nodes[id_]
