"""/healthz and /readyz of the job itself: is it alive, and does it see."""

import json
import logging
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType

from connectors.errors import UsageError

CLIENT_S = 10.0
"""A client that says nothing for so long is hung up on: each holds a thread and a descriptor."""
STALE_S = 30.0
"""A batch ends every second when all is well; this long without one is a job that hangs."""

log = logging.getLogger(__name__)

LastBatch = Callable[[], float | None]


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away before its answer: the library would print a traceback between the alerts."""
        log.debug("a client of --listen was not answered", exc_info=True)


class HealthServer:
    """Serves two pages on HOST:PORT: 200 when well, 503 with the reason when not."""

    def __init__(self, address: tuple[str, int], last_batch_at: LastBatch, gatherer_alive: Callable[[], bool]) -> None:
        """`last_batch_at` gives monotonic seconds of the newest finished batch, None before the first.

        Raises:
            UsageError: the address cannot be listened on.
        """
        self._last_batch_at = last_batch_at
        self._gatherer_alive = gatherer_alive
        self._started = time.monotonic()
        answer = self._answer

        class Page(BaseHTTPRequestHandler):
            timeout = CLIENT_S

            def do_GET(self) -> None:
                status, body = answer(self.path)
                payload = json.dumps(body).encode() + b"\n"
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(payload)))
                self.end_headers()
                self.wfile.write(payload)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
                """Probes come every few seconds: they are not news."""

        try:
            self._server = _Server(address, Page)
        except OSError as problem:
            reason = (problem.strerror or "cannot be used").lower()
            raise UsageError(f"--listen {address[0]}:{address[1]}: {reason}; choose another address") from None
        self._thread = threading.Thread(target=self._server.serve_forever, name="health", daemon=True)

    @property
    def port(self) -> int:
        """The port that is listened on."""
        return self._server.server_address[1]

    def __enter__(self) -> "HealthServer":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, path: str) -> tuple[int, dict[str, object]]:
        match path.partition("?")[0]:
            case "/healthz":
                return self._health()
            case "/readyz":
                ready = self._last_batch_at() is not None
                return (200, {"status": "ready"}) if ready else (503, {"status": "waiting for the first batch"})
            case _:
                return 404, {"status": "there are /healthz and /readyz here"}

    def _health(self) -> tuple[int, dict[str, object]]:
        last = self._last_batch_at()
        age_s = time.monotonic() - (self._started if last is None else last)
        body: dict[str, object] = {"seconds_since_last_batch": round(age_s, 1), "gatherer": self._gatherer_alive()}
        limit_s = STALE_S if last is not None else 4 * STALE_S
        if age_s > limit_s:
            return 503, {"status": "no batch ended for too long", **body}
        if not self._gatherer_alive():
            return 503, {"status": "the gatherer does not run", **body}
        return 200, {"status": "ok", **body}
