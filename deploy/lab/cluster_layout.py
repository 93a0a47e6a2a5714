"""Who is in the lab: the nodes, their numbers, ports and names, and the configuration they share."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from deploy.lab.hosts_file import DOMAIN, Names
from deploy.lab.jars import KAFKA_VERSION
from deploy.lab.lab_errors import LabError
from deploy.lab.node import LOOPBACK, Listener, Node
from deploy.lab.ports import Ports

FIRST_BROKER = 101


class Roster:
    """Controllers are numbered from 1, combined nodes follow them, brokers from 101."""

    def __init__(
        self,
        folder: Path,
        *,
        names: Names | None,
        extra: Mapping[str, str],
        version: str = KAFKA_VERSION,
        static: bool = False,
        listeners: Sequence[Listener] = (),
    ) -> None:
        """Of a quorum of this Kafka; a `static` one is named in every configuration, others keep it in the log."""
        self._folder = folder
        self._version = version
        self._static = static
        self._names = names
        self._extra = dict(extra)
        self._listeners = tuple(listeners)
        self._nodes: dict[int, Node] = {}
        self._ports = Ports()

    def __iter__(self) -> Iterator[Node]:
        """The nodes, by number."""
        return iter(self._nodes[id_] for id_ in sorted(self._nodes))

    def __getitem__(self, id_: int) -> Node:
        """The node of this number.

        Raises:
            LabError: there is none.
        """
        if id_ not in self._nodes:
            raise LabError(f"the lab has no node {id_}; it has {', '.join(map(str, sorted(self._nodes)))}")
        return self._nodes[id_]

    @property
    def controllers(self) -> list[Node]:
        """Nodes with the controller role, combined ones too."""
        return [node for node in self if node.is_controller]

    @property
    def brokers(self) -> list[Node]:
        """Nodes with the broker role, combined ones too."""
        return [node for node in self if node.is_broker]

    @property
    def quorum(self) -> dict[str, str]:
        """The line of a configuration that leads to the controllers."""
        if self._static:
            # By another name than they advertise, so that it shows where an endpoint was taken from.
            named = [(node, "localhost" if node.host == LOOPBACK else node.host) for node in self.controllers]
            voters = ",".join(f"{node.id}@{host}:{node.controller_port}" for node, host in named)
            return {"controller.quorum.voters": voters}
        return {"controller.quorum.bootstrap.servers": ",".join(self.bootstrap)}

    @property
    def bootstrap(self) -> list[str]:
        """HOST:PORT of every controller."""
        return [node.endpoint for node in self.controllers]

    def populate(self, *, controllers: int, combined: int, brokers: int) -> None:
        """Adds the nodes that a lab begins with, and configures them."""
        for id_ in range(1, controllers + combined + 1):
            self._add(id_, controller=True, broker=id_ > controllers)
        for id_ in range(FIRST_BROKER, FIRST_BROKER + brokers):
            self._add(id_, controller=False, broker=True)
        self.configure()

    def add_controller(self) -> Node:
        """Adds one further controller under the next free number, and tells every configuration of it."""
        node = self._add(max(node.id for node in self.controllers) + 1, controller=True, broker=False)
        self.configure()
        return node

    def move(self, ids: Sequence[int]) -> None:
        """Gives these nodes ports that nobody in the lab ever had."""
        for node in map(self.__getitem__, ids):
            node.controller_port = self._ports.claim() if node.is_controller else None
            node.broker_port = self._ports.claim() if node.is_broker else None
        self.configure()

    def rename(self, id_: int, name: str) -> None:
        """Advertises another name for a controller."""
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
