"""Free TCP ports on 127.0.0.1."""

import secrets
import socket
from collections.abc import Collection

from deploy.lab.errors import LabError

FIRST, LAST = 20_000, 32_000
"""Below the ranges from which Linux and macOS take the ports of outgoing connections, so that a stopped
node's port is still free when it starts again."""


def free_port(taken: Collection[int]) -> int:
    """A port that nobody listens on and that is not in `taken`, chosen at random so that labs seldom meet."""
    for _ in range(1_000):
        port = FIRST + secrets.randbelow(LAST - FIRST)
        if port in taken:
            continue
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise LabError(f"found no free port on 127.0.0.1 between {FIRST} and {LAST}")
