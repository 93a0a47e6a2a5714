"""Changes at the controllers of a farm, and how old each is when its alert is delivered.

A change fences or unfences a broker: one record, which fires or resolves one alert of `broker-fenced`.
"""

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Self

RULE = "broker-fenced"
_STATE = {True: "firing", False: "resolved"}
_FOLLOW_EVERY_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A change of one cluster."""

    cluster: str
    fenced: bool
    at: float
    """Seconds since the Unix epoch: when the farm received the command to write the record."""


@dataclass(slots=True)
class AlertArrivals:
    """Follows the file of a jsonl sink: when the lines of the rule's alerts arrived. A context manager.

    A webhook would not show it: it gets one notification for many incidents of the same moment.
    """

    path: Path
    _arrivals: dict[tuple[str, str], list[float]] = field(default_factory=dict)
    """By cluster and state."""
    _others: set[tuple[str, str, str]] = field(default_factory=set)
    """Firing alerts of other rules: cluster, rule, subject."""
    _ended: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread = field(init=False)

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._follow, name="alert arrivals", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _at: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _follow(self) -> None:
        position, rest = 0, b""
        while not self._ended.wait(_FOLLOW_EVERY_S):
            if not self.path.exists():
                continue
            with self.path.open("rb") as file:
                file.seek(position)
                piece, at = file.read(), time.time()
            position += len(piece)
            *lines, rest = (rest + piece).split(b"\n")
            for alert in map(json.loads, lines):
                key = alert["cluster"], alert["rule"], alert["subject"]
                if alert["rule"] == RULE:
                    self._arrivals.setdefault((alert["cluster"], alert["state"]), []).append(at)
                elif alert["state"] == "resolved":
                    self._others.discard(key)
                else:
                    self._others.add(key)

    def age_s(self, change: Change) -> float | None:
        """Returns the age of a change when its alert arrived; None if none did."""
        arrived = self._arrivals.get((change.cluster, _STATE[change.fenced]), ())
        return next((at - change.at for at in arrived if at >= change.at), None)

    def other_alerts(self, clusters: Container[str]) -> Counter[str]:
        """Returns how many alerts of other rules are firing in these clusters, by rule."""
        return Counter(rule for cluster, rule, _ in sorted(self._others) if cluster in clusters)


@contextmanager
def accepting_webhook() -> Iterator[str]:
    """Yields the URL of an HTTP endpoint that accepts every notification."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base class
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, name="webhook", daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/alerts"
        server.shutdown()


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
