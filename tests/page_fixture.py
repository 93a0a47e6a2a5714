"""Scripted quorums, evaluated by the job's own pure code and served by the job's own server.

The browser sees what the job would show: the processor's statuses, the ledger's history, the sinks' results. Spark and
Kafka are left out, so that a scenario takes milliseconds and time passes as fast as a test wants.
"""

from collections.abc import Sequence
from pathlib import Path

import requests

from connectors.delivery.ledger import Ledger
from connectors.sinks.sink import Sink
from connectors.store.tables import job_database
from rules.alert import Alert
from rules.evaluate import thresholds_for
from rules.facts.quorum import Facts
from rules.model.identifiers import Millis
from rules.notifications.acknowledgement import Acknowledgement
from rules.notifications.route import Silence
from streaming.replay.cluster_monitor import ClusterMonitor
from streaming.replay.cluster_settings import ClusterSettings
from streaming.status.build_status import job_cluster_status
from streaming.status.cluster_status import ClusterStatus, from_json, to_bytes
from streaming.status.status_store import StatusStore
from streaming.web.api import api
from streaming.web.fleet_view import FleetView
from streaming.web.page_access import PageAccess, Permission
from streaming.web.pages import pages
from streaming.web.past_states import PastStates
from streaming.web.server import Server
from tests.recording_dispatcher import RecordingDispatcher
from tests.scripts.script_quorum import ScriptedQuorum

START = 1_795_161_600_000
"""2026-11-20T08:00:00Z."""


class FixtureCluster:
    """One scripted quorum and its monitor."""

    def __init__(self, name: str, *, now_ms: int) -> None:
        self.name = name
        self.quorum = ScriptedQuorum(start_ms=now_ms)
        self.quorum.begin([1, 2, 3], [101, 102, 103])
        self.monitor = ClusterMonitor(
            ClusterSettings(
                name=name, cluster_id=f"id-of-{name}", bootstrap=self.quorum.bootstrap, thresholds=thresholds_for({})
            ),
        )

    def second(self) -> tuple[Alert, ...]:
        """Lets one second pass and returns the alerts."""
        return self.monitor.apply(list(self.quorum.advance_one_second())).alerts

    def status(self) -> ClusterStatus:
        """The status as the driver receives it from the processor."""
        monitor = self.monitor
        return from_json(
            to_bytes(
                job_cluster_status(
                    Facts(monitor.machine.quorum()), monitor.settings.thresholds, monitor.evaluation(), monitor.tracked
                )
            )
        )


class AllMayChange(PageAccess):
    """Takes every request as one with the token."""

    def permission(self, authorization: str | None) -> Permission:
        return Permission.CHANGE


class ServedPages(Server):
    """The page and the API of a view, on loopback while entered."""

    def __init__(self, view: FleetView, *, access: PageAccess | None = None) -> None:
        super().__init__(("127.0.0.1", 0), [pages(view), api(view)], access=access)

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    def url(self, path: str = "/") -> str:
        return f"http://{self.host}{path}"

    def get(self, path: str = "/", **headers: str) -> requests.Response:
        """Requests a path; `_` in the name of a header is `-`."""
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        return requests.get(self.url(path), headers=given, timeout=60)


class PageFixture(ServedPages):
    """Clusters, status store and ledger behind a server on loopback."""

    def __init__(
        self,
        folder: Path,
        names: Sequence[str],
        *,
        sinks: Sequence[Sink] = (),
        past: PastStates | None = None,
        changeable: bool = False,
    ) -> None:
        """All clusters begin at the same time; there is no observation before `pass_s`.

        With `changeable` the page has the buttons that a job with a token shows to who has it.
        """
        self.now_ms = START
        self.clusters = {name: FixtureCluster(name, now_ms=START) for name in names}
        self.store = StatusStore(names)
        self.silences: list[Silence] = []
        self.acknowledgements: list[Acknowledgement] = []
        self._ledger = Ledger(job_database(folder))
        self._delivery = RecordingDispatcher(self._ledger, sinks)
        view = FleetView(
            store=self.store,
            silences=lambda _: self.silences,
            acknowledgements=lambda: self.acknowledgements,
            now_ms=lambda: Millis(self.now_ms),
            past=past,
            changeable=changeable,
        )
        super().__init__(view, access=AllMayChange() if changeable else None)

    def __getitem__(self, name: str) -> ScriptedQuorum:
        return self.clusters[name].quorum

    def pass_s(self, seconds: int) -> None:
        """Lets seconds pass for all clusters, evaluates each second, then stores the newest statuses."""
        for _ in range(seconds):
            self.now_ms += 1_000
            alerts = [alert for cluster in self.clusters.values() for alert in cluster.second()]
            report = self._delivery.deliver(alerts, now_ms=Millis(self.now_ms))
            self.store.put_delivery(report, self._ledger.history, at_ms=Millis(self.now_ms))
        for cluster in self.clusters.values():
            self.store.put_status(cluster.status(), at_ms=Millis(self.now_ms))
