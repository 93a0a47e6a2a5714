"""The names and ports of one lab: a hosts file, which the JVMs and the monitor read at each lookup; free TCP ports."""

import secrets
import socket
import weakref
from pathlib import Path

from deploy.lab import LabError

DOMAIN = "kraftwatch.invalid"
"""`.invalid` never exists in DNS (RFC 6761, section 6.4). A name that is removed from the hosts file therefore does
not resolve (NXDOMAIN) wherever there is a DNS, and never resolves to a real machine."""

LOOPBACK = "127.0.0.1"

FIRST, LAST = 20_000, 32_000
"""Below the range from which Linux takes the ports of outgoing connections, so that a stopped
node's port is still free when the node starts again."""


class HostsFile:
    """The names that resolve now, all to 127.0.0.1. Each change replaces the whole file atomically."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._names: set[str] = set()
        self._write()

    def add(self, *names: str) -> None:
        """Makes these names resolve."""
        self._names.update(names)
        self._write()

    def drop(self, *names: str) -> None:
        """Removes these names; ignores a name that is not in the file."""
        self._names.difference_update(names)
        self._write()

    def _write(self) -> None:
        new = self.file.with_name(self.file.name + ".new")
        lines = [f"{LOOPBACK} localhost", *(f"{LOOPBACK} {name}" for name in sorted(self._names))]
        new.write_text("\n".join(lines) + "\n", encoding="utf-8")
        new.replace(self.file)


class Ports:
    """The ports of one lab. No other lab on this machine gets one of them, even while its node is stopped.

    A claim binds the UDP port of the same number, which Kafka does not use and every process sees. It ends with this
    object, or with its process.
    """

    def __init__(self) -> None:
        self._claims: list[socket.socket] = []
        weakref.finalize(self, _close, self._claims)

    def claim(self) -> int:
        """Returns a random port on which no process listens and that no lab has claimed."""
        for _ in range(1_000):
            port = FIRST + secrets.randbelow(LAST - FIRST)
            claim = socket.socket(type=socket.SOCK_DGRAM)
            try:
                claim.bind((LOOPBACK, port))
                with socket.socket() as probe:
                    probe.bind((LOOPBACK, port))
            except OSError:
                claim.close()
                continue
            self._claims.append(claim)
            return port
        raise LabError(f"found no free port on 127.0.0.1 between {FIRST} and {LAST}")


def _close(claims: list[socket.socket]) -> None:
    for claim in claims:
        claim.close()
