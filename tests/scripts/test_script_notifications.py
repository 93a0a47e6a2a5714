"""How many notifications a sink for people gets in each script and for each recorded journal in tests/data.

The dispatcher, the ledger and the HTTP sink are real.

`notifications.table` lists them by script, `recorded_notifications.table` by recording. A fault is one notification
when it begins, one when it gets worse and one when it ends. `KRAFTWATCH_REWRITE_GOLDENS=1 pytest tests/scripts` writes
the tables: understand each difference.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from connectors.delivery.dispatcher import Dispatcher
from connectors.delivery.ledger import Ledger
from connectors.sinks.sink_config import MessageLinks
from connectors.sinks.webhook import WebhookSection
from connectors.store.tables import job_database
from rules.alert import Alert
from rules.finding import Severity
from rules.model.identifiers import Millis
from streaming.replay.cluster_monitor import ClusterMonitor
from streaming.replay.decoded_row import DecodedRow
from tests.golden_file import REWRITE
from tests.recordings import BROKER_RESTART, TWO_CLUSTERS, decoded
from tests.scripts.script_quorum import SECOND, START
from tests.scripts.script_run import ScriptRun
from tests.scripts.script_text import commands_of
from tests.scripts.test_scripts import SCRIPTS
from tests.sinks.server import HttpDouble, serving

TABLE = Path(__file__).parent / "notifications.table"
RECORDED_TABLE = Path(__file__).parent / "recorded_notifications.table"


@pytest.fixture(scope="module")
def server() -> Iterator[HttpDouble]:
    with serving() as server:
        yield server


class DeliveringRun(ScriptRun):
    """A run of a script that delivers the alerts of each second."""

    def __init__(self, deliver: Callable[[tuple[Alert, ...], Millis], None]) -> None:
        super().__init__()
        self._deliver = deliver

    def printed(self, alerts: tuple[Alert, ...]) -> Iterator[str]:
        self._deliver(alerts, Millis(self.cluster.now_ms))
        return super().printed(alerts)


class SentNotifications:
    """Delivers alerts to a real HTTP sink; has a line for each request that the sink got."""

    def __init__(
        self, server: HttpDouble, folder: Path, *, start_ms: int, min_severity: Severity = Severity.INFO
    ) -> None:
        section = WebhookSection(url=SecretStr(f"{server.url}/hook"), min_severity=min_severity)
        folder.mkdir(parents=True, exist_ok=True)
        sink = section.open(MessageLinks(), folder)
        self._dispatcher = Dispatcher(Ledger(job_database(folder)), [sink], deadline_s=60, patience_s=60)
        self._server, self._start_ms = server, start_ms
        self.lines: list[str] = []

    def deliver(self, alerts: tuple[Alert, ...], now_ms: Millis) -> None:
        """Delivers what is due now."""
        before = len(self._server.requests)
        self._dispatcher.deliver(alerts, now_ms)
        documents = [json.loads(request.body) for request in self._server.requests[before:]]
        self.lines += [f"{(now_ms - self._start_ms) / SECOND:.0f}s {_line(document)}" for document in documents]


def notifications(script: Path, server: HttpDouble, folder: Path) -> list[str]:
    """Runs a script and returns a line for each request that the HTTP sink got."""
    sent = SentNotifications(server, folder, start_ms=START)
    run = DeliveringRun(sent.deliver)
    for _, commands in commands_of(script.read_text()):
        for command in commands:
            list(run.run(command))
    # What was collected at the end of the script is sent.
    sent.deliver((), Millis(run.cluster.now_ms + 120 * SECOND))
    return sent.lines


def recorded_notifications(
    observed: Sequence[tuple[ClusterMonitor, DecodedRow]], server: HttpDouble, folder: Path
) -> list[str]:
    """Evaluates the rows of a journal in their order and returns a line for each request that the HTTP sink got."""
    sent = SentNotifications(server, folder, start_ms=observed[0][1].observed_at_ms)
    for monitor, row in observed:
        sent.deliver(monitor.apply([row]).alerts, row.observed_at_ms)
    sent.deliver((), Millis(observed[-1][1].observed_at_ms + 120 * SECOND))
    return sent.lines


def _line(document: Mapping[str, Any]) -> str:
    rules = Counter(each["rule"] for each in document["alerts"])
    named = ", ".join(rule if count == 1 else f"{count} {rule}" for rule, count in rules.items())
    return f"{document['reason']} {document['severity']}: {named}"


def read(table: Path) -> Mapping[str, list[str]]:
    """Returns the lines of each script or recording."""
    blocks = table.read_text().strip().split("\n\n") if table.exists() else []
    return {block.split("\n")[0]: [line.strip() for line in block.split("\n")[1:]] for block in blocks}


def compare_with(table: Path, name: str, sent: list[str]) -> None:
    """Asserts that the table has these lines; writes them before if goldens are rewritten."""
    if REWRITE:
        rows = {**read(table), name: sent}
        joined = ["\n".join([name, *(f"  {line}" for line in rows[name])]) for name in sorted(rows)]
        table.write_text("\n\n".join(joined) + "\n")
    assert read(table).get(name) == sent


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_each_script_sends_the_notifications_of_the_table(script: Path, server: HttpDouble, tmp_path: Path) -> None:
    compare_with(TABLE, script.stem, notifications(script, server, tmp_path))


def test_journal_of_a_real_quorum_sends_the_notifications_of_the_table(server: HttpDouble, tmp_path: Path) -> None:
    monitor = BROKER_RESTART.monitor("lab")
    observed = [(monitor, row) for row in BROKER_RESTART.rows("lab")]

    compare_with(RECORDED_TABLE, BROKER_RESTART.name, recorded_notifications(observed, server, tmp_path / "sent"))


def test_journal_of_two_clusters_sends_the_notifications_of_the_table(server: HttpDouble, tmp_path: Path) -> None:
    monitors = {cluster: TWO_CLUSTERS.monitor(cluster) for cluster in TWO_CLUSTERS.cluster_ids}
    observed = [(monitors[row.cluster], decoded(row)) for row in TWO_CLUSTERS.observations()]

    compare_with(RECORDED_TABLE, TWO_CLUSTERS.name, recorded_notifications(observed, server, tmp_path / "sent"))
