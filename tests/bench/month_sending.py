"""What sends the notifications of a month: the real ledger, dispatcher and sinks, before doubles of three services."""

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

from connectors.delivery.dispatcher import Dispatcher
from connectors.delivery.ledger import Ledger
from connectors.settings.secret import Secret
from connectors.sinks.sink_config import MessageLinks
from connectors.sinks.webhook import WebhookSection
from connectors.store.acknowledgements import AcknowledgementStore
from connectors.store.tables import job_database
from rules.finding import Severity
from rules.firing import Firing
from rules.model.identifiers import Millis
from rules.notifications.route import Hold, Silence
from tests.bench.month_oracle import REPEAT_S, Oracle
from tests.scripts.script_quorum import START
from tests.sinks.pagerduty_double import PagerdutyDouble
from tests.sinks.server import HttpReply, ReceivedRequest, serving
from tests.sinks.sink_kind import SECRET, local_pagerduty, local_slack
from tests.sinks.slack_double import SlackDouble
from tests.unit.connectors.kafka.certificates import authority


class Sending:
    """The real ledger, dispatcher and sinks, and the doubles of the services: a webhook, Slack and PagerDuty."""

    def __init__(self, folder: Path, oracle: Oracle, stack: ExitStack) -> None:
        self._folder, self._oracle = folder, oracle
        self.now_ms, self.away = int(START), False
        self.slack, self.pagerduty = SlackDouble(token=SECRET), PagerdutyDouble()
        trusted = authority(folder / "ca")
        context = trusted.server(trusted.issue("server"))
        self.servers = {name: stack.enter_context(serving(context)) for name in ("webhook", "Slack", "PagerDuty")}
        self.servers["webhook"].behave = self._webhook
        self.servers["Slack"].behave = lambda request: self._people("Slack", self.slack, request)
        self.servers["PagerDuty"].behave = lambda request: self._people("PagerDuty", self.pagerduty, request)
        webhook, slack, pagerduty = (self.servers[name].url for name in ("webhook", "Slack", "PagerDuty"))
        file = Path(trusted.file)
        at_slack = {"channel": "#kafka", "token": Secret(text=SECRET), "api_url": f"{slack}/api/"}
        self._sections = (
            WebhookSection(url=Secret(text=f"{webhook}/hook"), ca_file=file, repeat=REPEAT_S),
            local_slack(file, repeat=REPEAT_S, **at_slack),
            local_pagerduty(pagerduty, file, SECRET, repeat=REPEAT_S, min_severity=Severity.CRITICAL),
        )
        self.silences: list[Silence] = []
        self._firing: Firing | None = None
        self.open()

    def open(self) -> None:
        """Starts what sends, from the store."""
        self._database = job_database(self._folder)
        self.ledger = Ledger(self._database)
        self.acknowledgements = AcknowledgementStore(self._database)
        sinks = [each.open(MessageLinks(), self._folder) for each in self._sections]
        self._dispatcher = Dispatcher(self.ledger, sinks, deadline_s=60, patience_s=60)

    def deliver(self, firing: Callable[[Firing | None], Firing]) -> None:
        """Sends what is due now."""
        found = firing(self._firing)
        self.ledger.reconcile([found], Millis(self.now_ms))
        self._firing = replace(found, ended=())
        holds: list[Hold] = [*self.silences, *self.acknowledgements.read()]
        self._dispatcher.deliver(Millis(self.now_ms), holds)

    @property
    def store(self) -> Path:
        """The database file."""
        return self._folder / "kraftwatch.db"

    @property
    def store_bytes(self) -> tuple[int, int]:
        """The sizes of the alerts that the database keeps, and of all else in it."""
        with closing(sqlite3.connect(self.store)) as database:
            sizes = dict(database.execute("SELECT name = 'alerts', sum(pgsize) FROM dbstat GROUP BY 1"))
        return sizes[1], sizes[0]

    def back_up(self) -> None:
        """Copies the store."""
        with sqlite3.connect(self.store) as source, sqlite3.connect(self._folder / "copy") as target:
            source.backup(target)

    def restore(self) -> None:
        """Stops what sends, puts the copy in place of the store, and starts it again."""
        self._database.close()
        for file in self._folder.glob("kraftwatch.db*"):
            file.unlink()
        shutil.copy(self._folder / "copy", self.store)
        self.open()

    def _webhook(self, request: ReceivedRequest) -> HttpReply:
        self._oracle.documents.append((self._seconds, json.loads(request.body)))
        return HttpReply()

    def _people(self, name: str, double: SlackDouble | PagerdutyDouble, request: ReceivedRequest) -> HttpReply:
        if self.away:
            return HttpReply(status=503)
        before = len(double.effects)
        reply = double.reply(request)
        self._oracle.effects[name] += [(self._seconds, *effect) for effect in double.effects[before:]]
        return reply

    @property
    def _seconds(self) -> float:
        return (self.now_ms - START) / 1_000
