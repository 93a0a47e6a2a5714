"""The server of `--listen`: Flask blueprints on waitress' threads, read-only.

The pages show details of a cluster and have no login, so they belong on loopback or a private network. Against DNS
rebinding the server answers only requests for an IP address, `localhost`, the host of `--listen` and the host of
`page_url`.
"""

import ipaddress
import logging
import os
import socket
import threading
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

from flask import Blueprint, Flask, request
from flask.typing import ResponseReturnValue
from waitress.server import create_server
from waitress.wasyncore import close_all
from werkzeug.exceptions import HTTPException

from connectors.errors import UsageError

CLIENT_S = 10
"""The server closes a connection that is idle for this long: each holds a file descriptor."""
_THREADS = 4
_CONNECTION_LIMIT = 100


class Server:
    """Serves blueprints on HOST:PORT in its own threads while entered."""

    def __init__(
        self,
        address: tuple[str, int],
        blueprints: Iterable[Blueprint],
        *,
        page_url: Callable[[], str | None] = lambda: None,
    ) -> None:
        """Listens on the address; the server answers once entered.

        Args:
            address: HOST and PORT.
            blueprints: each with its own paths.
            page_url: returns the URL at which people reach the page; its host is accepted.

        Raises:
            UsageError: the address cannot be used.
        """
        host, port = address
        app = application(blueprints, host=host, page_url=page_url)
        # waitress logs a warning when requests queue; the response times show that already.
        logging.getLogger("waitress").setLevel(logging.ERROR)
        try:
            family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
            self._socket = socket.create_server((host, port), family=family)
        except OSError as problem:
            # The error text of Python contains the address; an unknown host name has a negative error number.
            number = problem.errno or 0
            reason = (os.strerror(number) if number > 0 else problem.strerror or "cannot be used").lower()
            raise UsageError(f"--listen {host}:{port}: {reason}; choose another address") from None
        self._clients: dict[int, Any] = {}
        """The sockets of waitress' loop, by file descriptor."""
        # Any: with one socket this is waitress' TcpWSGIServer, whose types are incomplete.
        self._server: Any = create_server(
            app,
            map=self._clients,
            sockets=[self._socket],
            threads=_THREADS,
            channel_timeout=CLIENT_S,
            cleanup_interval=max(1, CLIENT_S // 2),
            connection_limit=_CONNECTION_LIMIT,
            ident=None,
        )
        self._thread = threading.Thread(target=self._server.run, name="web", daemon=True)

    @property
    def port(self) -> int:
        """The port of the server."""
        port: int = self._socket.getsockname()[1]
        return port

    def __enter__(self) -> "Server":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.task_dispatcher.shutdown()
        # The loop closes its own sockets and then ends: closing one while the loop waits on it would be an error.
        self._server.trigger.pull_trigger(lambda: close_all(self._clients))
        self._thread.join(5)


def application(
    blueprints: Iterable[Blueprint], *, host: str, page_url: Callable[[], str | None] = lambda: None
) -> Flask:
    """Returns the blueprints behind the check of the Host header; errors are answered as JSON.

    Args:
        blueprints: each with its own paths.
        host: the host of `--listen`.
        page_url: returns the URL at which people reach the page; its host is accepted.
    """
    app = Flask("kraftwatch", static_folder=None)
    app.json.sort_keys = False  # type: ignore[attr-defined]  # Flask's default provider has it
    for each in blueprints:
        app.register_blueprint(each)

    @app.before_request
    def refuse_unknown_host() -> ResponseReturnValue | None:
        name = _host_of(request.host)
        if name in ("localhost", host.lower(), urlsplit(page_url() or "").hostname) or _is_address(name):
            return None
        return {"status": "unknown host: use an IP address, or the host of --listen or page_url"}, 421

    @app.errorhandler(HTTPException)
    def error_as_json(problem: HTTPException) -> ResponseReturnValue:
        paths = sorted(rule.rule for rule in app.url_map.iter_rules())
        if problem.code == 404:
            return {"status": f"not found; the paths are {', '.join(paths)}"}, 404
        return {"status": problem.name.lower()}, problem.code or 500

    return app


def _host_of(header: str) -> str:
    """Returns the host of a Host header, without port and without the brackets of an IPv6 address."""
    name = header.rpartition(":")[0] if header.rpartition(":")[2].isdigit() else header
    return name.removeprefix("[").removesuffix("]").lower()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
