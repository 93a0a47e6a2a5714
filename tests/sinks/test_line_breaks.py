"""A line break in a name from a cluster spreads over lines in no sink, and neither on the page nor on a terminal."""

import io
import json
import logging
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest
from rich.console import Console

from connectors.errors import ObservationError
from connectors.sinks.alert_json import to_line
from connectors.sinks.console import ConsoleSink
from connectors.sinks.jsonl import JsonlSink
from connectors.sinks.sink import Delivered, Sink
from rules.alert import Alert
from rules.model.identifiers import Millis
from rules.model.monitoring import Reason
from rules.model.quorum import Quorum
from rules.notifications.notification import Notification, NotifyReason
from streaming.cli import output
from streaming.status import check_output, status_tables
from streaming.status.build_status import cluster_status
from streaming.status.status_store import ReceivedStatus
from streaming.status.what_if import Change, controllers_of_quorum, what_if, what_if_text
from streaming.web.cluster_view import ClusterView
from streaming.web.templating import render_cluster
from tests.sinks.server import HttpDouble, ReceivedRequest
from tests.sinks.sink_kind import SinkKind
from tests.sinks.subjects import SINK_KINDS
from tests.situation.commands import situation
from tests.situation.situation import NOW
from tests.unit.connectors.kafka.certificates import CertificateAuthority
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, alert
from tests.unit.rules.hidden_text import LINE_BREAKS, fired, texts, with_hosts
from tests.unit.streaming.job.captured_log import logged_to
from tests.unit.streaming.status.statuses import state_of

EVIL = "EVIL"
MACHINE_KINDS = {"webhook"}
"""What they send is data: a program reads it, and the JSON escapes what people must not see."""


def hostile(line_break: str) -> Quorum:
    """Names from a cluster are those of hosts, and of topics."""
    quorum = situation("probe 1,2,3 name-not-found", "unclean c1 0", "fenced 101")
    found: Quorum = with_hosts(quorum, line_break, EVIL)
    return found


def notification(one: Alert) -> Notification:
    other = alert(f"voter 3{EVIL}", cluster="beta", summary=one.summary, remedy=one.remedy, evidence=one.evidence)
    return Notification(
        incident=one.fingerprint, reason=NotifyReason.FIRING, alerts=(one, other), new_transitions=(one, other)
    )


def of_rules(line_break: str) -> Notification:
    """An alert that a rule has made of such names."""
    found = notification(fired(hostile(line_break)))
    assert EVIL in str(texts(found.alerts))
    return found


def of_anything(line_break: str) -> Notification:
    """An alert with such a name in every text, whatever made it."""
    name = f"c1{line_break}{EVIL}"
    evidence = {name: [name, {name: name}], "rows": [{"a": name}, {"a": name}]}
    return notification(alert(name, cluster=name, summary=name, evidence=evidence, remedy=(f"run {name}", f"# {name}")))


def spread(shown: str | list[str]) -> list[str]:
    """Returns the lines that begin with what follows a line break in a name."""
    whole = [shown] if isinstance(shown, str) else shown
    return [line for each in whole for line in each.splitlines() if line.strip().startswith(EVIL)]


def received_texts(request: ReceivedRequest) -> list[str]:
    """Returns every text in a request, as the service reads it."""
    body = request.body.decode()
    try:
        return texts(json.loads(body))
    except ValueError:
        return [text for pair in parse_qsl(body) for text in pair]


@pytest.mark.parametrize("kind", SINK_KINDS, ids=str)
@pytest.mark.parametrize("made", [of_rules, of_anything])
def test_no_sink_for_people_shows_a_name_on_several_lines(
    kind: SinkKind,
    made: Any,
    server: HttpDouble,
    trusted: CertificateAuthority,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # For a library that has no option for certificate authorities.
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", trusted.file)
    server.behave = kind.reply
    sink = kind.open(server.url, Path(trusted.file), tmp_path)
    for number, line_break in enumerate(LINE_BREAKS):
        begun = made(line_break)
        named = Notification(
            incident=f"{number}", reason=begun.reason, alerts=begun.alerts, new_transitions=begun.new_transitions
        )
        assert sink.send([named], sent_at_ms=NOON_MS, deadline_s=60) == [Delivered()]

    assert len(server.requests) >= len(LINE_BREAKS)
    for request in server.requests:
        assert spread(request.body.decode()) == []
        if made is of_rules or kind.kind not in MACHINE_KINDS:
            assert spread(received_texts(request)) == []
    assert any(EVIL in request.body.decode() for request in server.requests)


@pytest.fixture
def stream() -> io.StringIO:
    return io.StringIO()


@pytest.mark.parametrize("line_break", LINE_BREAKS, ids=ascii)
@pytest.mark.parametrize("made", [of_rules, of_anything])
def test_console_and_files_keep_a_name_on_its_line(
    line_break: str, made: Any, stream: io.StringIO, tmp_path: Path
) -> None:
    sinks: list[Sink] = [ConsoleSink(stream), JsonlSink(tmp_path / "alerts.jsonl")]
    for sink in sinks:
        assert sink.send([made(line_break)], sent_at_ms=NOON_MS, deadline_s=60) == [Delivered()]

    lines = (tmp_path / "alerts.jsonl").read_text()
    assert spread([stream.getvalue(), lines]) == []
    assert EVIL in stream.getvalue()
    assert len(lines.splitlines()) == 2
    # A topic has the same lines.
    assert spread(to_line(made(line_break).root, NOON_MS).decode()) == []


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
    moved = what_if(controllers_of_quorum(state.quorum), nothing)
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
