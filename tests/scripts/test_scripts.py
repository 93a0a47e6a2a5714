"""Scripts in plain text: what happens to a quorum, which alerts follow, and how many notifications people get of them.

They run the whole pure core; the dispatcher, the ledger and the HTTP sink are real. `script_text` has the format,
`script_run` the commands. `notifications.table` lists the notifications by script, `recorded_notifications.table` by
recorded journal of tests/data: a fault is one notification when it begins, one when it gets worse and one when it ends.
`make goldens` writes the output into the scripts and tables: read and understand each difference before you commit it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from rules.alert import Alert
from rules.model.identifiers import Millis
from streaming.replay.cluster_monitor import ClusterMonitor
from streaming.replay.decoded_row import DecodedRow
from tests.golden_file import assert_golden
from tests.recordings import BROKER_RESTART, TWO_CLUSTERS, decoded
from tests.remedy_conflicts import found_conflicts
from tests.scripts.script_quorum import START
from tests.scripts.script_run import ScriptRun
from tests.scripts.script_text import with_output
from tests.scripts.sent_notifications import SentNotifications, assert_notifications
from tests.sinks.server import HttpDouble, serving

SCRIPTS = sorted(Path(__file__).parent.glob("*.txt"))
LONG = frozenset({"node_restarting_slowly"})
"""Of a day."""
TABLE = Path(__file__).parent / "notifications.table"
RECORDED_TABLE = Path(__file__).parent / "recorded_notifications.table"


@pytest.fixture(scope="module")
def server() -> Iterator[HttpDouble]:
    with serving() as server:
        yield server


@dataclass(kw_only=True)
class TimedRun(ScriptRun):
    """A run of a script that keeps when which alerts came, for each second."""

    seconds: list[tuple[Millis, tuple[Alert, ...]]] = field(default_factory=list)

    def printed(self, alerts: tuple[Alert, ...]) -> Iterator[str]:
        self.seconds.append((Millis(self.cluster.now_ms), alerts))
        return super().printed(alerts)


@dataclass(frozen=True, kw_only=True)
class DoneScript:
    """A script that was run once, for all tests of it."""

    path: Path
    text: str
    """With its real output."""
    run: TimedRun


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(script, id=script.stem, marks=[pytest.mark.long] if script.stem in LONG else [])
        for script in SCRIPTS
    ],
)
def script(request: pytest.FixtureRequest) -> DoneScript:
    run = TimedRun()
    text = with_output(request.param.read_text(encoding="utf-8"), run.run, nothing="no alert")
    return DoneScript(path=request.param, text=text, run=run)


def test_script_prints_the_expected_output_and_remedies_that_agree(script: DoneScript) -> None:
    assert_golden(script.path, script.text)

    assert found_conflicts(script.run.alerts) == []


def test_each_script_sends_the_notifications_of_the_table(
    script: DoneScript, server: HttpDouble, tmp_path: Path
) -> None:
    sent = SentNotifications(server, tmp_path, start_ms=START)
    for now_ms, alerts in script.run.seconds:
        sent.deliver(alerts, now_ms)
    sent.deliver_rest(script.run.cluster.now_ms)

    assert_notifications(TABLE, script.path.stem, sent.lines)


def test_scripts_are_found() -> None:
    assert len(SCRIPTS) >= 10


def recorded_notifications(
    observed: Sequence[tuple[ClusterMonitor, DecodedRow]], server: HttpDouble, folder: Path
) -> list[str]:
    """Evaluates the rows of a journal in their order and returns a line for each request that the HTTP sink got."""
    sent = SentNotifications(server, folder, start_ms=observed[0][1].observed_at_ms)
    for monitor, row in observed:
        sent.deliver(monitor.apply([row]).alerts, row.observed_at_ms)
    sent.deliver_rest(observed[-1][1].observed_at_ms)
    return sent.lines


def test_journal_of_a_real_quorum_sends_the_notifications_of_the_table(server: HttpDouble, tmp_path: Path) -> None:
    monitor = BROKER_RESTART.monitor("lab")
    observed = [(monitor, row) for row in BROKER_RESTART.rows("lab")]

    sent = recorded_notifications(observed, server, tmp_path / "sent")

    assert_notifications(RECORDED_TABLE, BROKER_RESTART.name, sent)


def test_journal_of_two_clusters_sends_the_notifications_of_the_table(server: HttpDouble, tmp_path: Path) -> None:
    monitors = {cluster: TWO_CLUSTERS.monitor(cluster) for cluster in TWO_CLUSTERS.cluster_ids}
    observed = [(monitors[row.cluster], decoded(row)) for row in TWO_CLUSTERS.observations()]

    sent = recorded_notifications(observed, server, tmp_path / "sent")

    assert_notifications(RECORDED_TABLE, TWO_CLUSTERS.name, sent)
