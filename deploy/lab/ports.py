"""Free TCP ports on 127.0.0.1, and who has been given them."""

import secrets
import socket
import weakref

from deploy.lab.lab_errors import LabError

FIRST, LAST = 20_000, 32_000
"""Below the ranges from which Linux and macOS take the ports of outgoing connections, so that a stopped
node's port is still free when it starts again."""


class Ports:
    """The ports of one lab: no other lab on this machine is given one of them, not even while its node is stopped.

    A port is claimed by binding the UDP port of the same number, which Kafka does not use and every process sees. A
    claim ends with this object, or with its process however that ends.
    """

    def __init__(self) -> None:
        self._claims: list[socket.socket] = []
        weakref.finalize(self, _close, self._claims)

    def claim(self) -> int:
        """A port that nobody listens on and no lab was given, chosen at random.

        Raises:
            LabError: there is none.
        """
        for _ in range(1_000):
            port = FIRST + secrets.randbelow(LAST - FIRST)
            claim = socket.socket(type=socket.SOCK_DGRAM)
            try:
                claim.bind(("127.0.0.1", port))
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", port))
            except OSError:
                claim.close()
                continue
            self._claims.append(claim)
            return port
        raise LabError(f"found no free port on 127.0.0.1 between {FIRST} and {LAST}")


def _close(claims: list[socket.socket]) -> None:
    for claim in claims:
        claim.close()
