"""Changes at the controllers of a farm, and how old each is when its alert is delivered to a webhook.

A change fences or unfences a broker: one record, which fires or resolves one alert of `broker-fenced`.
"""

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

RULE = "broker-fenced"
_FIRING = {True: "firing", False: "resolved"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change of one cluster."""

    cluster: str
    fenced: bool
    at: float
    """Seconds since the Unix epoch: when the farm was told to write the record."""


@dataclass(slots=True)
class AlertArrivals:
    """The HTTP endpoint that the job's webhook notifies."""

    arrivals: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    """By cluster and state: when the requests with alerts of the rule arrived."""

    @contextmanager
    def listening(self) -> Iterator[str]:
        """Yields the URL."""
        arrived = self._arrived

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                at = time.time()
                arrived(json.loads(self.rfile.read(int(self.headers["Content-Length"]))), at)
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base class
                pass

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            threading.Thread(target=server.serve_forever, name="alert arrivals", daemon=True).start()
            yield f"http://127.0.0.1:{server.server_address[1]}/alerts"
            server.shutdown()

    def _arrived(self, document: Mapping[str, Any], at: float) -> None:
        for alert in document["news"]:
            if alert["rule"] == RULE:
                self.arrivals.setdefault((str(alert["cluster"]), str(alert["state"])), []).append(at)

    def age_s(self, change: Change) -> float | None:
        """Returns the age of a change when its alert arrived; None if none did."""
        arrived = self.arrivals.get((change.cluster, _FIRING[change.fenced]), ())
        return next((at - change.at for at in arrived if at >= change.at), None)


def make_changes(
    clusters: Sequence[int],
    command: Callable[[str], None],
    name_of: Callable[[int], str],
    *,
    seconds: float,
    interval_s: float,
) -> list[Change]:
    """Makes a change every `interval_s`, in one cluster after the other, for so many seconds."""
    changes: list[Change] = []
    began = time.monotonic()
    fenced: dict[int, bool] = {}
    while (due := began + len(changes) * interval_s) < began + seconds:
        time.sleep(max(0.0, due - time.monotonic()))
        number = clusters[len(changes) % len(clusters)]
        fenced[number] = not fenced.get(number, False)
        changes.append(Change(cluster=name_of(number), fenced=fenced[number], at=time.time()))
        command(f"{'fence' if fenced[number] else 'unfence'} {number}")
    return changes
