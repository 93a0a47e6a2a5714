"""A quorum whose controllers move from a PLAINTEXT listener to a TLS listener, in three rolls of one node at a time."""

import socket
import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from deploy.lab import kafka_requests
from deploy.lab.addresses import LOOPBACK, Ports
from deploy.lab.node import BROKER, CONTROLLER, Node
from tests.job.conftest import await_fetches_of_all_voters
from tests.lab import Lab
from tests.lab_certificate_authority import LabCertificateAuthority

TLS: Final = f"{CONTROLLER}_SSL"
_STORES = ("keystore", "truststore")


class ListenerMigrationLab(Lab):
    """`roll` changes the listeners of the controllers; each keeps the port that it has for a listener."""

    def __init__(self, directory: Path, **options: Any) -> None:
        """The first listener is CONTROLLER, with PLAINTEXT."""
        super().__init__(directory, **options)
        self.authority = LabCertificateAuthority(directory.parent / "certificates")
        """Issued the certificate of all nodes."""
        self._certificate = self.authority.issue("server")
        self._ports: dict[str, dict[int, int]] = {}

    def connect(self, port: int) -> socket.socket:
        connection = kafka_requests.plaintext(port)
        if port not in self._ports.get(TLS, {}).values():
            return connection
        context = ssl.create_default_context(cafile=str(self.authority.file))
        return context.wrap_socket(connection, server_hostname=LOOPBACK)

    def endpoints(self, listener: str) -> list[str]:
        """Returns HOST:PORT of every controller at this listener."""
        if not self._ports:
            claimed = Ports()
            self._ports[CONTROLLER] = {node.id: node.controller_port or 0 for node in self.layout.controllers}
            self._ports[TLS] = {node: claimed.claim() for node in self._ports[CONTROLLER]}
        return [f"{LOOPBACK}:{port}" for port in self._ports[listener].values()]

    def roll(self, *listeners: str, among: Sequence[int] = ()) -> None:
        """Restarts these nodes, by default all, with these listeners of the controllers; Raft uses the first one."""
        for number in among or (*self.controllers, *self.brokers):
            self._configure(self.node(number), listeners)
            self.stop(number)
            if listeners == (TLS,) and number in self._ports[TLS]:
                self.node(number).controller_port = self._ports[TLS][number]
            self.start(number)
            await_fetches_of_all_voters(self)

    def _configure(self, node: Node, listeners: Sequence[str]) -> None:
        bootstrap = self.endpoints(listeners[0])
        places = [f"{name}://{LOOPBACK}:{self._ports[name][node.id]}" for name in listeners if node.is_controller]
        places += [f"{BROKER}://{node.broker_endpoint}"] if node.is_broker else []
        stores = {f"ssl.{store}.type": "PEM" for store in _STORES}
        changed = stores | {
            "ssl.keystore.location": str(self._certificate),
            "ssl.truststore.location": str(self.authority.file),
            "controller.listener.names": ",".join(listeners),
            "controller.quorum.bootstrap.servers": ",".join(bootstrap),
            "listeners": ",".join(places),
            "advertised.listeners": ",".join(places),
            "listener.security.protocol.map": f"{CONTROLLER}:PLAINTEXT,{TLS}:SSL,{BROKER}:PLAINTEXT",
        }
        lines = (line.partition("=") for line in node.properties_file.read_text(encoding="utf-8").splitlines())
        properties = {key: value for key, _, value in lines} | changed
        text = "".join(f"{key}={value}\n" for key, value in properties.items())
        node.properties_file.write_text(text, encoding="utf-8")
