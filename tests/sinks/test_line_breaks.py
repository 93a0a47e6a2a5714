"""A line break in a name from a cluster spreads over lines in no sink, and neither on the page nor on a terminal."""

import logging
from pathlib import Path

import pytest
from rich.console import Console

from connectors.errors import ObservationError
from rules.alert import Alert
from rules.answers.what_if import Change, controllers_of_quorum
from rules.facts.quorum import Facts
from rules.model.identifiers import Millis
from rules.model.monitoring import Reason
from rules.model.quorum import Quorum
from rules.notifications.notification import Notification, NotifyReason
from streaming.cli import output
from streaming.status import check_output, status_tables
from streaming.status.build_status import cluster_status
from streaming.status.status_store import ReceivedStatus
from streaming.status.what_if import what_if, what_if_text
from streaming.web.cluster_view import ClusterView
from streaming.web.templating import render_cluster
from tests.situation.commands import situation
from tests.situation.situation import NOW
from tests.unit.connectors.sinks.sink_alerts import alert
from tests.unit.rules.hidden_text import LINE_BREAKS, fired, with_hosts
from tests.unit.streaming.job.captured_log import logged_to
from tests.unit.streaming.status.statuses import state_of

EVIL = "EVIL"
MACHINE_KINDS = {"webhook"}
"""What they send is data: a program reads it, and the JSON escapes what people must not see."""


def hostile(line_break: str) -> Quorum:
    """Names from a cluster are those of hosts, and of topics."""
    quorum = situation("probe 1,2,3 name-not-found", "unclean c1 0", "fence 101")
    found: Quorum = with_hosts(quorum, line_break, EVIL)
    return found


def notification(one: Alert) -> Notification:
    other = alert(f"voter 3{EVIL}", cluster="beta", summary=one.summary, remedy=one.remedy, evidence=one.evidence)
    return Notification(
        incident=one.fingerprint, reason=NotifyReason.FIRING, alerts=(one, other), new_transitions=(one, other)
    )


def of_anything(line_break: str) -> Notification:
    """An alert with such a name in every text, whatever made it."""
    name = f"c1{line_break}{EVIL}"
    evidence = {name: [name, {name: name}], "rows": [{"a": name}, {"a": name}]}
    return notification(alert(name, cluster=name, summary=name, evidence=evidence, remedy=(f"run {name}", f"# {name}")))


def spread(shown: str | list[str]) -> list[str]:
    """Returns the lines that begin with what follows a line break in a name."""
    whole = [shown] if isinstance(shown, str) else shown
    return [line for each in whole for line in each.splitlines() if line.strip().startswith(EVIL)]


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
            check_output.restart_text(state, check_output.evaluate_restart(state, 1)),
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
