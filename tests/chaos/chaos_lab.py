"""ChaosLab: a quorum in which each path from a node to a controller can be broken by itself."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from deploy.lab.addresses import LOOPBACK
from deploy.lab.jars import kafka_jars
from deploy.lab.jvm import Jvm
from deploy.lab.node import Node
from tests.chaos import small_disk
from tests.chaos.packet_filter import MONITOR, PacketFilter, address
from tests.kafka.lab_helpers import compiled_policy, second_log_directory, use_log_directory
from tests.lab import Lab

PROPERTIES = {
    "broker.session.timeout.ms": "6000",
    "min.insync.replicas": "1",
}
DISK_MB = 100
"""Of a controller's disk."""


class ChaosLab(Lab):
    """Each node and the monitor have a hosts file of their own, with an address of their own for each controller.

    The lab's own requests and Kafka's tools use 127.0.0.1, which is never cut.
    """

    def __init__(
        self,
        directory: Path,
        *,
        controllers: int,
        brokers: int,
        properties: Mapping[str, str] | None = None,
        **options: Any,
    ) -> None:
        properties = {**PROPERTIES, **(properties or {})}
        super().__init__(
            directory, controllers=controllers, brokers=brokers, named=True, properties=properties, **options
        )
        self.filter = PacketFilter()
        self._policy = compiled_policy(directory)
        self.second_directory: Node | None = None
        """The second log directory of the first broker."""
        self.own_properties: dict[int, Mapping[str, str]] = {}
        """What a controller has otherwise than the others, from its next start on."""
        self.unknown_names: set[tuple[int, int]] = set()
        """Which node does not resolve the name of which controller."""
        self._dropped: set[int] = set()

    def _format_all(self) -> None:
        for node in self.layout.controllers:
            node.disk = small_disk.mount(node.folder / "disk", megabytes=DISK_MB)
        self.layout.configure()
        super()._format_all()
        for first in self.layout.brokers[:1]:
            self.second_directory = second_log_directory(first)

    @property
    def monitor_hosts_file(self) -> Path:
        """The hosts file of the monitor."""
        return self._hosts_of(MONITOR)

    def start(self, *ids: int, wait: bool = True) -> None:
        self.write_hosts()
        for node in self.layout.controllers:
            # At the address that each node has for it.
            node.bind = "0.0.0.0"
        self.layout.configure()
        self._complete_properties()
        for id_ in ids:
            node = self.node(id_)
            node.launch(self._jvm_at(node), supervised=True)
        for id_ in ids if wait else ():
            node = self.node(id_)
            node.wait_for_start(self._jvm_at(node), self.connect, supervised=True, timeout_s=180)

    def wipe_disk(self, id_: int) -> str:
        # kafka-storage reads the properties of a node that is new.
        self.layout.configure()
        return super().wipe_disk(id_)

    def _complete_properties(self) -> None:
        """Adds what kafka-storage must not read: it would look for the class, and format both directories."""
        for node in self.layout.controllers:
            added = {"create.topic.policy.class.name": "WaitingPolicy", **self.own_properties.get(node.id, {})}
            with node.properties_file.open("a", encoding="utf-8") as properties:
                properties.writelines(f"{name}={value}\n" for name, value in added.items())
        if self.second_directory is not None:
            use_log_directory(self.layout.brokers[0], self.second_directory)

    def waits(self, node: int) -> Path:
        """The file while which exists the policy for new topics waits in this controller."""
        return self.directory / f"waits-{node}"

    def drop_names(self, nodes: Iterable[int]) -> None:
        """From now on the names of these controllers, and only of these, do not resolve anywhere."""
        self._dropped = {*nodes}
        self.write_hosts()

    def write_hosts(self) -> None:
        """Writes the hosts file of each node and of the monitor."""
        for source in (*(node.id for node in self.layout), MONITOR):
            known = [one for one in self.layout.controllers if (source, one.id) not in self.unknown_names]
            lines = [f"{address(source, one.id)} {one.host}" for one in known if one.id not in self._dropped]
            file = self._hosts_of(source)
            new = file.with_suffix(".new")
            new.write_text("\n".join([f"{LOOPBACK} localhost", *lines]) + "\n", encoding="utf-8")
            new.replace(file)

    def _hosts_of(self, source: int) -> Path:
        return self.directory / f"hosts-{source}"

    def _jvm_at(self, node: Node) -> Jvm:
        jars = kafka_jars(node.version)
        policy = ("-cp", f"{jars}/*:{self._policy}", f"-Dwaits={self.waits(node.id)}")
        return Jvm(
            jars=jars,
            folder=self.directory,
            hosts_file=self._hosts_of(node.id),
            options=(*self.java_options, *policy),
        )
