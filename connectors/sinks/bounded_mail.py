"""Mail that ends at the deadline of `bounded`, however slowly the server answers: the timeouts of smtplib apply to each
wait for it.
"""

import smtplib
import socket
from typing import Any

from connectors.sinks.bounded_http import current_bound


class BoundedSmtp(smtplib.SMTP):
    """A connection that ends as `bounded` says; outside of it, as that of smtplib."""

    def _get_socket(self, *address: Any) -> socket.socket:
        # Typeshed does not know the method by which smtplib opens connections.
        opened: socket.socket = super()._get_socket(*address)  # type: ignore[misc]
        bound = current_bound()
        try:
            if bound is not None:
                bound.watch(opened)
        except OSError:
            opened.close()
            raise
        return opened


class BoundedSmtpTls(smtplib.SMTP_SSL, BoundedSmtp):
    """The same with TLS from the first byte on: the bound includes the handshake."""
