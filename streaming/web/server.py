"""The server of `--listen`: Flask's pages on waitress' threads, read-only.

The pages show a cluster's insides and ask for no login, so they are for loopback or a network of one's own. A
browser that was lured to a name which leads here (DNS rebinding) is refused: only addresses, `localhost`, the name of
`--listen` itself and that of `page_url` are answered.
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
"""A client that says nothing for so long is hung up on: each holds a descriptor."""
_THREADS = 4
_CLIENTS_AT_MOST = 100


class Server:
    """Serves blueprints on HOST:PORT, in threads of its own, while it is entered."""

    def __init__(
        self, address: tuple[str, int], pages: Iterable[Blueprint], *, also: Callable[[], str | None] = lambda: None
    ) -> None:
        """Listen; answers come once it is entered.

        Args:
            address: HOST and PORT.
            pages: the blueprints, each with its own paths.
            also: a URL under whose name it is asked too.

        Raises:
            UsageError: the address cannot be listened on.
        """
        host, port = address
        app = application(pages, host=host, also=also)
        # Each pass of waitress over its clients is said to nobody: what matters is in the answers.
        logging.getLogger("waitress").setLevel(logging.ERROR)
        try:
            family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
            self._socket = socket.create_server((host, port), family=family)
        except OSError as problem:
            # Python adds the address to the sentence; a name that is not known has a number below 0.
            number = problem.errno or 0
            reason = (os.strerror(number) if number > 0 else problem.strerror or "cannot be used").lower()
            raise UsageError(f"--listen {host}:{port}: {reason}; choose another address") from None
        self._clients: dict[int, Any] = {}
        """What waitress' loop looks after, by descriptor."""
        # Any: with one socket it is waitress' plain server, of which its types know too little.
        self._server: Any = create_server(
            app,
            map=self._clients,
            sockets=[self._socket],
            threads=_THREADS,
            channel_timeout=CLIENT_S,
            cleanup_interval=max(1, CLIENT_S // 2),
            connection_limit=_CLIENTS_AT_MOST,
            ident=None,
        )
        self._thread = threading.Thread(target=self._server.run, name="web", daemon=True)

    @property
    def port(self) -> int:
        """The port that is listened on."""
        port: int = self._socket.getsockname()[1]
        return port

    def __enter__(self) -> "Server":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.task_dispatcher.shutdown()
        # By the loop itself, which ends with its last descriptor: one that is closed while it waits is an error there.
        self._server.trigger.pull_trigger(lambda: close_all(self._clients))
        self._thread.join(5)


def application(pages: Iterable[Blueprint], *, host: str, also: Callable[[], str | None] = lambda: None) -> Flask:
    """The pages behind the check of whom they are asked for; what there is not is answered as JSON.

    Args:
        pages: the blueprints, each with its own paths.
        host: the name of `--listen`.
        also: a URL under whose name it is asked too.
    """
    app = Flask("kraftwatch", static_folder=None)
    app.json.sort_keys = False  # type: ignore[attr-defined]  # Flask's default provider has it
    for each in pages:
        app.register_blueprint(each)

    @app.before_request
    def refuse_foreign() -> ResponseReturnValue | None:
        name = _host_of(request.host)
        if name in ("localhost", host.lower(), urlsplit(also() or "").hostname) or _is_address(name):
            return None
        return {"status": "no such host here: ask by address, or by the name of --listen or page_url"}, 421

    @app.errorhandler(HTTPException)
    def unknown(problem: HTTPException) -> ResponseReturnValue:
        paths = sorted(rule.rule for rule in app.url_map.iter_rules())
        if problem.code == 404:
            return {"status": f"there are {', '.join(paths)} here"}, 404
        return {"status": problem.name.lower()}, problem.code or 500

    return app


def _host_of(header: str) -> str:
    """The name in a Host header, without its port and an IPv6 address' brackets."""
    name = header.rpartition(":")[0] if header.rpartition(":")[2].isdigit() else header
    return name.removeprefix("[").removesuffix("]").lower()


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
