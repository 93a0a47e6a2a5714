"""A heartbeat service: a real HTTP server on loopback."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SECRET = "4f1c2a90-do-not-print-me"


class HeartbeatService:
    """Records the requested paths and answers with `status`."""

    def __init__(self) -> None:
        self.status = 200
        self.paths: list[str] = []
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                service.paths.append(self.path)
                self.send_response(service.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self.url = f"http://127.0.0.1:{self._server.server_port}/ping/{SECRET}"

    def __enter__(self) -> "HeartbeatService":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
