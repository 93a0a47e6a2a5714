"""ChaosLab: a quorum in which each path from a node to a controller can be broken by itself."""

import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import Self

from deploy.lab.addresses import LOOPBACK
from deploy.lab.jars import kafka_jars
from deploy.lab.jvm import Jvm
from deploy.lab.node import Node
from tests.chaos import small_disk
from tests.chaos.packet_filter import MONITOR, PacketFilter, address
from tests.lab import Lab
from tests.lab_security import SCRAM

PROPERTIES = {
    "broker.session.timeout.ms": "6000",
    "min.insync.replicas": "1",
}
DISK_MB = 100
"""Of a controller's disk."""
SESSION_S = 15.0
"""A login of the monitor at a secured quorum is valid for so long."""
_LISTENER = "listener.name.controller."
SECURED = {
    f"{_LISTENER}ssl.client.auth": "required",
    f"{_LISTENER}sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    f"{_LISTENER}scram-sha-256.sasl.jaas.config": SCRAM.properties["scram-sha-256.sasl.jaas.config"],
    f"{_LISTENER}scram-sha-256.connections.max.reauth.ms": str(int(SESSION_S * 1000)),
}
"""Controllers require a certificate and a login; that of the monitor is with SCRAM, and its sessions end."""
USER = "kraftwatch"


class ChaosLab(Lab):
    """Each node and the monitor have a hosts file of their own, with an address of their own for each controller.

    The lab's own requests and Kafka's tools use 127.0.0.1, which is never cut. A secured one has TLS with
    certificates of both sides, and logins.
    """

    def __init__(self, directory: Path, *, controllers: int, brokers: int, secured: bool) -> None:
        super().__init__(
            directory,
            controllers=controllers,
            brokers=brokers,
            named=True,
            properties=PROPERTIES | (SECURED if secured else {}),
            users=[] if secured else None,
        )
        self.secured = secured
        self.filter = PacketFilter()
        self.certificates: dict[int, Path] = {}
        """The certificates of controllers, from their next start on, that are not those of the quorum."""
        self._forgotten: set[int] = set()

    def __enter__(self) -> Self:
        super().__enter__()
        if self.secured:
            self.allow_monitoring(f"User:{USER}")
            self.change_password()
            self.tell_password()
        return self

    def _format_all(self) -> None:
        for node in self.layout.controllers:
            node.disk = small_disk.mount(node.folder / "disk", megabytes=DISK_MB)
        self.layout.configure()
        super()._format_all()

    def change_password(self) -> None:
        """Changes the monitor's password at the quorum alone."""
        self._password = secrets.token_urlsafe(12)
        self.set_scram_password(USER, self._password)

    def tell_password(self) -> None:
        """Writes the password to the monitor's file."""
        new = self._password_file.with_suffix(".new")
        new.write_text(self._password, encoding="utf-8")
        new.replace(self._password_file)

    @property
    def _password_file(self) -> Path:
        return self.directory / "monitor-password"

    def monitor_login(self) -> dict[str, str]:
        """Returns the monitor's settings for this quorum."""
        if not self.secured:
            return {}
        certificate = str(self.security.authority.issue("monitor"))
        return {
            "security_protocol": "SASL_SSL",
            "ssl_cafile": str(self.security.ca_file),
            "ssl_certfile": certificate,
            "ssl_keyfile": certificate,
            "sasl_mechanism": "SCRAM-SHA-256",
            "sasl_plain_username": USER,
            "sasl_plain_password_file": str(self._password_file),
        }

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
        for id_, certificate in self.certificates.items():
            with self.node(id_).properties_file.open("a", encoding="utf-8") as properties:
                properties.write(f"ssl.keystore.location={certificate}\n")
        for id_ in ids:
            node = self.node(id_)
            node.launch(self._jvm_at(node), supervised=True)
        for id_ in ids if wait else ():
            node = self.node(id_)
            node.wait_for_start(self._jvm_at(node), self.connect, supervised=True, timeout_s=180)

    def forget_names(self, nodes: Iterable[int]) -> None:
        """From now on the names of these controllers, and only of these, do not resolve anywhere."""
        self._forgotten = {*nodes}
        self.write_hosts()

    def write_hosts(self) -> None:
        """Writes the hosts file of each node and of the monitor."""
        for source in (*(node.id for node in self.layout), MONITOR):
            names = [(address(source, each.id), each) for each in self.layout.controllers]
            lines = [f"{place} {each.host}" for place, each in names if each.id not in self._forgotten]
            file = self._hosts_of(source)
            new = file.with_suffix(".new")
            new.write_text("\n".join([f"{LOOPBACK} localhost", *lines]) + "\n", encoding="utf-8")
            new.replace(file)

    def _hosts_of(self, source: int) -> Path:
        return self.directory / f"hosts-{source}"

    def _jvm_at(self, node: Node) -> Jvm:
        return Jvm(
            jars=kafka_jars(node.version),
            folder=self.directory,
            hosts_file=self._hosts_of(node.id),
            options=self.java_options,
        )
