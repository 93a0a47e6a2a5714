"""A served API."""

from pathlib import Path
from typing import Any

import requests

from connectors.delivery.delivery_report import DeliveryReport, SinkResult
from connectors.delivery.ledger import Ledger
from connectors.process.wall_clock import wall_ms
from connectors.settings.secret import Secret
from connectors.store.acknowledgements import AcknowledgementStore
from connectors.store.collection import SilenceStore
from connectors.store.tables import job_database
from rules.evaluate import thresholds_for
from rules.facts.quorum import Facts
from rules.model.witness import WitnessRow
from streaming.status.build_status import job_cluster_status
from streaming.status.status_store import StatusStore
from streaming.web.api import Changes, api
from streaming.web.fleet_view import FleetView
from streaming.web.page_access import PageAccess
from streaming.web.pages import pages
from streaming.web.server import Server
from tests.situation.commands import situation
from tests.unit.connectors.sinks.sink_alerts import alert

TOKEN = "canary-token-5f2c"


ALERT = alert("voter 2", rule="voter-lagging", cluster="prod", observed_at_ms=wall_ms())


BEARER = {"Authorization": f"Bearer {TOKEN}"}
READER = {"Authorization": "Bearer of a screen"}
WITNESS = {"Authorization": "Bearer of a host"}


class Served(Server):
    """The page and the API of a job with one alert, which Ana may acknowledge."""

    def __init__(
        self, folder: Path, *, token: str | None = TOKEN, starting: bool = False, relayed: bool = False
    ) -> None:
        database = job_database(folder)
        ledger = Ledger(database)
        ledger.record([ALERT], ALERT.observed_at_ms)
        store = StatusStore(["prod"])
        store.put_status(job_cluster_status(Facts(situation()), thresholds_for({})), at_ms=wall_ms())
        results = {"slack": SinkResult(pending=1)}
        store.put_delivery(DeliveryReport(recorded=1, sinks=results), ledger.history, at_ms=wall_ms())
        self.reported: list[tuple[str, WitnessRow]] = []
        self.gatherer_takes = True
        self.changes = Changes(
            acknowledgements=AcknowledgementStore(database),
            silences=SilenceStore(database),
            report_witness=None if relayed else self._report,
        )
        view = FleetView(
            store=store,
            silences=lambda _: self.changes.silences.read(),
            acknowledgements=self.changes.acknowledgements.read,
            changeable=token is not None,
        )
        access = PageAccess()
        if token is not None:
            reader, witness = Secret(text="of a screen"), Secret(text="of a host")
            access = PageAccess(token=Secret(text=token), read_token=reader, witness_token=witness)
        super().__init__(("127.0.0.1", 0), [pages(view), api(view, None if starting else self.changes)], access=access)

    def send(self, method: str, path: str, body: Any = None, headers: Any = BEARER, **more: Any) -> requests.Response:
        url = f"http://127.0.0.1:{self.port}{path}"
        return requests.request(method, url, json=body, headers=headers, timeout=60, **more)

    def _report(self, cluster: str, row: WitnessRow) -> bool:
        if self.gatherer_takes:
            self.reported.append((cluster, row))
        return self.gatherer_takes

    def acknowledged(self) -> list[str]:
        return [one.who for one in self.changes.acknowledgements.read() if one.active(wall_ms())]
