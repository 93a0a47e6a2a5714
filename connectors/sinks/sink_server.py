"""SinkServer: a server of a sink, to which the doctor connects without a request."""

import os
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from ssl import SSLCertVerificationError, SSLError
from urllib.parse import urlsplit

from requests.utils import get_environ_proxies, select_proxy

from connectors.errors import UsageError
from connectors.secret import Secret
from connectors.sinks.http_request import CallDeadline

TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkServer:
    """One server that a sink connects to."""

    host: str
    port: int
    tls: bool = False
    """Whether the connection begins with a TLS handshake whose certificate is verified as the sink does."""
    ca_file: Path | None = None
    proxy: bool = False
    """The HTTP proxy of the environment, through which the sink reaches its server."""

    def __str__(self) -> str:
        """Returns HOST:PORT."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'proxy ' if self.proxy else ''}{host}:{self.port}"

    def problem(self) -> str | None:
        """Connects; returns why the server cannot be reached, None if it can."""
        try:
            with CallDeadline(TIMEOUT_S) as deadline:
                connection = socket.create_connection((self.host, self.port), timeout=TIMEOUT_S)
                if self.tls:
                    connection = deadline.context(self.ca_file).wrap_socket(connection, server_hostname=self.host)
                connection.close()
        except SSLCertVerificationError as error:
            return f"TLS: certificate verify failed: {error.verify_message}"
        except SSLError as error:
            return f"TLS: {(error.reason or 'the handshake failed').lower().replace('_', ' ')}"
        except OSError as error:
            return network_error(error)
        return None


def network_error(error: OSError) -> str:
    """Returns what failed, in the words of the operating system and without the address."""
    if isinstance(error, socket.gaierror):
        missing = error.errno in (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME))
        return "the name does not resolve" if missing else "the name service does not answer"
    if isinstance(error, TimeoutError):
        return f"no answer within {TIMEOUT_S:.0f} s"
    return os.strerror(error.errno).lower() if error.errno else "the connection failed"


def url_server(url: Secret, ca_file: Path | None = None) -> SinkServer:
    """Returns the server of a URL, or the HTTP proxy through which it is reached.

    Raises:
        UsageError: the URL cannot be read.
    """
    text = url.read()
    proxy = select_proxy(text, get_environ_proxies(text))
    try:
        parts = urlsplit(proxy or text)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        raise UsageError("invalid url: write https://HOST/PATH") from None
    if proxy:
        return SinkServer(host=parts.hostname or "", port=port, proxy=True)
    return SinkServer(host=parts.hostname or "", port=port, tls=parts.scheme == "https", ca_file=ca_file)


def connected(servers: Sequence[SinkServer]) -> Iterator[tuple[SinkServer, str | None]]:
    """Connects to each server; yields it and why it cannot be reached, None if it can."""
    for server in servers:
        yield server, server.problem()
