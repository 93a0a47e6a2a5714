"""The notifications that a real HTTP sink gets of alerts, behind the real dispatcher and ledger, and tables of them."""

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from connectors.delivery.ledger import Ledger
from connectors.settings.secret import Secret
from connectors.sinks.sink_config import MessageLinks
from connectors.sinks.webhook import WebhookSection
from connectors.store.tables import job_database
from rules.alert import Alert
from rules.finding import Severity
from rules.model.identifiers import Millis
from tests.golden_file import REWRITE
from tests.recording_dispatcher import RecordingDispatcher
from tests.scripts.script_quorum import SECOND
from tests.sinks.server import HttpDouble


class SentNotifications:
    """Delivers alerts to a real HTTP sink; has a line for each request that the sink got."""

    def __init__(
        self, server: HttpDouble, folder: Path, *, start_ms: int, min_severity: Severity = Severity.INFO
    ) -> None:
        section = WebhookSection(url=Secret(text=f"{server.url}/hook"), min_severity=min_severity)
        folder.mkdir(parents=True, exist_ok=True)
        sink = section.open(MessageLinks(), folder)
        self._dispatcher = RecordingDispatcher(Ledger(job_database(folder)), [sink], deadline_s=60, patience_s=60)
        self._server, self._start_ms = server, start_ms
        self.lines: list[str] = []

    def deliver(self, alerts: tuple[Alert, ...], now_ms: Millis) -> None:
        """Delivers what is due now."""
        before = len(self._server.requests)
        self._dispatcher.deliver(alerts, now_ms)
        documents = [json.loads(request.body) for request in self._server.requests[before:]]
        self.lines += [f"{(now_ms - self._start_ms) / SECOND:.0f}s {_line(document)}" for document in documents]

    def deliver_rest(self, now_ms: int) -> None:
        """Delivers what was collected until now."""
        self.deliver((), Millis(now_ms + 120 * SECOND))


def _line(document: Mapping[str, Any]) -> str:
    rules = Counter(each["rule"] for each in document["alerts"])
    named = ", ".join(rule if count == 1 else f"{count} {rule}" for rule, count in rules.items())
    return f"{document['reason']} {document['severity']}: {named}"


def assert_notifications(table: Path, name: str, sent: list[str]) -> None:
    """Asserts that the table has these lines; writes them before if goldens are rewritten."""
    if REWRITE:
        rows = {**_read(table), name: sent}
        joined = ["\n".join([name, *(f"  {line}" for line in rows[name])]) for name in sorted(rows)]
        table.write_text("\n\n".join(joined) + "\n")
    assert _read(table).get(name) == sent


def _read(table: Path) -> Mapping[str, list[str]]:
    """Returns the lines of each script or recording."""
    blocks = table.read_text().strip().split("\n\n") if table.exists() else []
    return {block.split("\n")[0]: [line.strip() for line in block.split("\n")[1:]] for block in blocks}
