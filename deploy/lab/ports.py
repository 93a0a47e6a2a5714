"""Claims free TCP ports on 127.0.0.1 for one lab."""

import secrets
import socket
import weakref

from deploy.lab.lab_errors import LabError

FIRST, LAST = 20_000, 32_000
"""Below the ranges from which Linux and macOS take the ports of outgoing connections, so that a stopped
node's port is still free when the node starts again."""


class Ports:
    """The ports of one lab. No other lab on this machine gets one of them, even while its node is stopped.

    A claim binds the UDP port of the same number, which Kafka does not use and every process sees. It ends with this
    object, or with its process.
    """

    def __init__(self) -> None:
        self._claims: list[socket.socket] = []
        weakref.finalize(self, _close, self._claims)

    def claim(self) -> int:
        """Returns a random port on which no process listens and that no lab has claimed.

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
