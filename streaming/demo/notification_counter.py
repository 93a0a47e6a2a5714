"""NotificationCounter: an HTTP server on loopback that counts the notifications of the demo's job by incident."""

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from rules.finding import Severity


@dataclass(frozen=True, slots=True, kw_only=True)
class NotificationCounts:
    """How many notifications people got for a fault."""

    begin: int = 0
    worse: int = 0
    """A higher severity, or an alert of another rule."""
    end: int = 0
    other: int = 0
    """Neither: people did not need them."""

    def __str__(self) -> str:
        others = f", {self.other} other" if self.other else ""
        return f"{self.begin} / {self.worse} / {self.end}{others}"


@dataclass(slots=True)
class NotificationCounter:
    """The documents of the webhook sink, oldest first."""

    url: str
    documents: list[Mapping[str, Any]] = field(default_factory=list)

    @property
    def incidents(self) -> Sequence[str]:
        """The incidents, each once, in the order in which they were notified of."""
        return list(dict.fromkeys(document["incident"] for document in self.documents))

    def counts(self, incidents: Sequence[str]) -> NotificationCounts:
        """Counts the notifications of these incidents."""
        kinds = [kind for incident, kind in self.kinds() if incident in incidents]
        return NotificationCounts(**{kind: kinds.count(kind) for kind in ("begin", "worse", "end", "other")})

    def all_ended(self, incidents: Sequence[str]) -> bool:
        """Returns whether people were notified of the end of each of these incidents."""
        return {*incidents} <= {incident for incident, kind in self.kinds() if kind == "end"}

    def kinds(self) -> Sequence[tuple[str, str]]:
        """Returns the incident of each document, and begin, worse, end or other."""
        found: list[tuple[str, str]] = []
        known: dict[str, tuple[int, frozenset[str]]] = {}
        for document in list(self.documents):
            incident = str(document["incident"])
            severity = Severity(document["severity"]).rank
            rules = frozenset(str(alert["rule"]) for alert in document["alerts"] if alert["state"] == "firing")
            worst, before = known.get(incident, (-1, frozenset()))
            is_worse = severity > worst or bool(rules - before)
            found.append((incident, _kind(document["reason"], is_worse=is_worse)))
            known[incident] = max(worst, severity), rules | before
        return found


def _kind(reason: str, *, is_worse: bool) -> str:
    match reason:
        case "firing":
            return "begin"
        case "resolved":
            return "end"
        case "changed" if is_worse:
            return "worse"
        case _:
            return "other"


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
