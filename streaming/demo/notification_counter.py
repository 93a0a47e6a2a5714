"""NotificationCounter: an HTTP server on loopback that stores the notifications of the demo's job."""

import json
import threading
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(slots=True)
class NotificationCounter:
    """The documents of the webhook sink, oldest first."""

    url: str
    documents: list[Mapping[str, Any]] = field(default_factory=list)

    @property
    def incidents(self) -> Sequence[str]:
        """The incidents, each once, in the order in which they were notified of."""
        return list(dict.fromkeys(document["incident"] for document in self.documents))

    def counts(self, incidents: Collection[str]) -> Counter[str]:
        """Counts the notifications of these incidents by their reason: firing, changed or resolved."""
        return Counter(document["reason"] for document in [*self.documents] if document["incident"] in incidents)


@contextmanager
def notification_counter() -> Iterator[NotificationCounter]:
    """Runs the server."""
    counter = NotificationCounter(url="")

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            counter.documents.append(json.loads(body))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """The demo's output has its own lines."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        counter.url = f"http://127.0.0.1:{server.server_address[1]}/"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield counter
        finally:
            server.shutdown()
