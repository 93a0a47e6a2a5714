"""A PageFixture: quorums in miniature, judged by the job's own pure path, shown by the job's own server.

What a browser sees is what the job would show: the step's portraits, the ledger's history, the sinks' tallies. Only
Spark and Kafka are left out, so that a scene is set in milliseconds and time goes as fast as it is wanted.
"""

from collections.abc import Sequence
from pathlib import Path

from connectors.delivery.dispatcher import Dispatcher
from connectors.delivery.ledger import Ledger
from connectors.sinks.sink import Sink
from rules.alert import Alert
from rules.evaluate import thresholds_for
from rules.finding import Plain
from rules.model.identifiers import Millis
from rules.model.monitoring import Vantage
from rules.notifications.silence import Silence
from streaming.replay.cluster_monitor import ClusterMonitor
from streaming.status.cluster_status import portrait
from streaming.status.status_store import StatusStore
from streaming.web.api import api
from streaming.web.fleet_view import FleetView
from streaming.web.pages import pages
from streaming.web.server import Server
from tests.scripts.script_quorum import ScriptedQuorum

START = 1_795_161_600_000
"""2026-11-20T08:00:00Z."""


class Cluster:
    """One quorum in miniature, and the watch that judges it."""

    def __init__(self, name: str, *, now_ms: int) -> None:
        self.name = name
        self.world = ScriptedQuorum(now_ms=now_ms)
        self.world.begin([1, 2, 3], [101, 102, 103])
        self.watch = ClusterMonitor.from_bytes(
            None,
            cluster=name,
            cluster_id=f"id-of-{name}",
            bootstrap=self.world.bootstrap,
            vantage=Vantage.INSIDE,
            thresholds=thresholds_for({}),
        )

    def second(self) -> tuple[Alert, ...]:
        """One second passes."""
        return self.watch.observe(list(self.world.advance_one_second()))

    def portrait(self) -> dict[str, Plain]:
        watch = self.watch
        return portrait(watch.machine.quorum(), watch.thresholds, watch.evaluation(), watch.tracked)


class PageFixture:
    """Clusters, the fleet and the ledger behind a server on loopback."""

    def __init__(self, folder: Path, names: Sequence[str], *, sinks: Sequence[Sink] = ()) -> None:
        """All begin at the same moment; nothing is seen of them before `pass_s`."""
        self.now_ms = START
        self.clusters = {name: Cluster(name, now_ms=START) for name in names}
        self.fleet = StatusStore(names)
        self.silences: list[Silence] = []
        self._ledger = Ledger(folder / "ledger.jsonl")
        self._delivery = Dispatcher(self._ledger, sinks)
        dossiers = FleetView(fleet=self.fleet, silences=lambda _: self.silences, now_ms=lambda: Millis(self.now_ms))
        self._server = Server(("127.0.0.1", 0), [pages(dossiers), api(dossiers)])

    def __enter__(self) -> "PageFixture":
        self._server.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.__exit__(None, None, None)
        self._ledger.close()

    def url(self, path: str = "/") -> str:
        return f"http://127.0.0.1:{self._server.port}{path}"

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self._server.port}"

    def __getitem__(self, name: str) -> ScriptedQuorum:
        return self.clusters[name].world

    def pass_s(self, seconds: int) -> None:
        """So many seconds pass for all, each one judged; then the newest is shown."""
        for _ in range(seconds):
            self.now_ms += 1_000
            alerts = [alert for cluster in self.clusters.values() for alert in cluster.second()]
            report = self._delivery.deliver(alerts, now_ms=Millis(self.now_ms))
            self.fleet.tell(report, self._ledger.history, at_ms=Millis(self.now_ms))
        for name, cluster in self.clusters.items():
            self.fleet.show(name, cluster.portrait(), at_ms=Millis(self.now_ms))
