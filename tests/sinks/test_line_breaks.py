"""A line break in a name from a cluster spreads over lines in no sink, and neither on the page nor on a terminal."""

import logging
from pathlib import Path

import pytest
from rich.console import Console

from connectors.errors import ObservationError
from rules.answers.what_if import Change, controllers_of_quorum
from rules.facts.quorum import Facts
from rules.model.identifiers import Millis
from rules.model.monitoring import Reason
from streaming.cli import output
from streaming.status import check_output, restart_output, status_tables
from streaming.status.build_status import cluster_status
from streaming.status.status_store import ReceivedStatus
from streaming.status.what_if import what_if, what_if_text
from streaming.web.cluster_view import ClusterView
from streaming.web.templating import render_cluster
from tests.sinks.names_with_line_breaks import EVIL, hostile, of_anything, spread
from tests.situation.situation import NOW
from tests.unit.rules.hidden_text import LINE_BREAKS, fired
from tests.unit.streaming.job.captured_log import logged_to
from tests.unit.streaming.status.statuses import state_of


@pytest.mark.parametrize("line_break", LINE_BREAKS, ids=ascii)
def test_page_keeps_a_name_on_its_line(line_break: str) -> None:
    quorum = hostile(line_break)
    received = ReceivedStatus(status=cluster_status(state_of(quorum)), received_at_ms=NOW)
    history = (fired(quorum), *of_anything(line_break).alerts)
    view = ClusterView(name="prod", now_ms=NOW, received=received, history=history)

    html = render_cluster(view, timeline_ms=(Millis(NOW - 3_600_000), NOW), span="1h")

    assert EVIL in html
    assert f"{line_break}{EVIL}" not in html
    assert spread(html) == []


@pytest.mark.parametrize("line_break", LINE_BREAKS, ids=ascii)
def test_terminal_keeps_a_name_on_its_line(line_break: str, capsys: pytest.CaptureFixture[str]) -> None:
    state = state_of(hostile(line_break))
    status = cluster_status(state)
    nothing = Change(moved={}, lost=frozenset(), restarted=None)
    moved = what_if(controllers_of_quorum(Facts(state.quorum)), nothing)
    console = Console(width=4_000)
    with console.capture() as capture:
        for each in (
            *(getattr(status_tables, f"{name}_table")(status) for name in ("status", "replication", "partitions")),
            check_output.check_text(state),
            restart_output.restart_text(restart_output.restart_json(state, restart_output.evaluate_restart(state, 1))),
            what_if_text(moved),
        ):
            console.print(each)
    output.print_json(check_output.check_json(state))
    output.print_message(f"c1{line_break}{EVIL} does not answer")
    printed = capsys.readouterr()

    assert EVIL in capture.get()
    assert spread([capture.get(), printed.out, printed.err]) == []
    assert len(printed.out.splitlines()) == len(printed.err.splitlines()) == 1


@pytest.mark.parametrize("line_break", LINE_BREAKS, ids=ascii)
def test_log_and_failed_observation_keep_a_name_on_its_line(
    line_break: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    host = f"c1{line_break}{EVIL}"
    with logged_to(tmp_path):
        logging.getLogger("streaming").warning("%s does not answer", host)

    assert spread([(tmp_path / "driver.log").read_text(), capfd.readouterr().err]) == []
    error = ObservationError(Reason.UNRESOLVABLE, f"{host} does not resolve")
    assert spread([error.detail, str(error)]) == []
