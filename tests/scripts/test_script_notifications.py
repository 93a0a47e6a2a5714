"""How many notifications a sink for people gets in each script: a real dispatcher and ledger, a real HTTP sink.

`notifications.table` lists them by script. A fault is one notification when it begins, one when it gets worse and one
when it ends. `KRAFTWATCH_REWRITE_GOLDENS=1 pytest tests/scripts` writes the table: understand each difference.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from connectors.delivery.dispatcher import Dispatcher
from connectors.delivery.ledger import Ledger
from connectors.secret import Secret
from connectors.sinks.sink_config import SinkSpec, Webhook
from connectors.sinks.sink_factory import open_sink
from rules.alert import Alert
from rules.model.identifiers import Millis
from tests.scripts.script_quorum import SECOND, START
from tests.scripts.test_scripts import REWRITE, SCRIPTS, ScriptRun, blocks
from tests.sinks.server import HttpDouble, serving

TABLE = Path(__file__).parent / "notifications.table"


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


def notifications(script: Path, server: HttpDouble, folder: Path) -> list[str]:
    """Runs a script and returns a line for each request that the HTTP sink got."""
    lines: list[str] = []
    sink = open_sink(SinkSpec(config=Webhook(url=Secret(text=f"{server.url}/hook"))), state_folder=folder)
    dispatcher = Dispatcher(Ledger(folder / "ledger.jsonl"), [sink], deadline_s=60, patience_s=60)

    def deliver(alerts: tuple[Alert, ...], now_ms: Millis) -> None:
        before = len(server.requests)
        dispatcher.deliver(alerts, now_ms)
        documents = [json.loads(request.body) for request in server.requests[before:]]
        lines.extend(f"{(now_ms - START) / SECOND:.0f}s {_line(document)}" for document in documents)

    run = DeliveringRun(deliver)
    for above, _ in blocks(script.read_text()):
        for command in above:
            if command and not command.startswith("#"):
                list(run.run(command))
    # What was collected at the end of the script is sent.
    deliver((), Millis(run.cluster.now_ms + 120 * SECOND))
    return lines


def _line(document: Mapping[str, Any]) -> str:
    rules = Counter(each["rule"] for each in document["alerts"])
    named = ", ".join(rule if count == 1 else f"{count} {rule}" for rule, count in rules.items())
    return f"{document['reason']} {document['severity']}: {named}"


def table() -> Mapping[str, list[str]]:
    """Returns the lines of each script."""
    blocks = TABLE.read_text().strip().split("\n\n") if TABLE.exists() else []
    return {block.split("\n")[0]: [line.strip() for line in block.split("\n")[1:]] for block in blocks}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_each_script_sends_the_notifications_of_the_table(script: Path, server: HttpDouble, tmp_path: Path) -> None:
    sent = notifications(script, server, tmp_path)
    if REWRITE:
        rows = {**table(), script.stem: sent}
        joined = ["\n".join([name, *(f"  {line}" for line in rows[name])]) for name in sorted(rows)]
        TABLE.write_text("\n\n".join(joined) + "\n")
    assert table().get(script.stem) == sent
