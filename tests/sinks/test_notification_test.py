"""`config check --send-test` reaches the receivers behind a sink: a real Alertmanager's routes and a pager."""

import json
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from connectors.sinks.sink_config import MessageLinks
from rules.finding import Severity
from streaming.cli import app
from streaming.doctor.sink_check import check_sink
from tests.eventually import eventually
from tests.sinks.pagerduty_double import PagerdutyDouble
from tests.sinks.real_alertmanager import RealAlertmanager
from tests.sinks.server import HttpReply, ReceivedRequest, serving
from tests.sinks.sink_kind import local_pagerduty
from tests.unit.connectors.kafka.certificates import CertificateAuthority

ROUTES = """
route:
  receiver: rest
  group_by: [alertname]
  group_wait: 2s
  routes: [{matchers: ['severity="critical"'], receiver: pager}]
receivers:
- {name: pager, webhook_configs: [{url: URL/pager}]}
- {name: rest, webhook_configs: [{url: URL/rest}]}
"""
KEY = "0123456789abcdef0123456789abcdef"


def send_test(folder: Path, sinks: list[Any], *options: str) -> Result:
    file = folder / "kraftwatch.yaml"
    clusters = [{"name": "prod", "bootstrap": ["c1:9093"]}]
    file.write_text(yaml.safe_dump({"clusters": clusters, "checkpoint": str(folder / "checkpoint"), "sinks": sinks}))
    return CliRunner().invoke(app, ["config", "check", str(file), "--send-test", *options])


@pytest.mark.debian("prometheus-alertmanager")
def test_alertmanager_notifies_the_receiver_of_the_severity(tmp_path: Path) -> None:
    received: list[tuple[str, dict[str, Any]]] = []

    def reply(request: ReceivedRequest) -> HttpReply:
        received.append((request.path, json.loads(request.body)))
        return HttpReply(status=200, body=b"")

    with (
        serving() as receiver,
        RealAlertmanager(tmp_path / "am", config=ROUTES.replace("URL", receiver.url)) as alertmanager,
    ):
        receiver.behave = reply
        for severity, path in (("critical", "/pager"), ("warning", "/rest")):
            ended = send_test(tmp_path, [f"alertmanager:{alertmanager.url}"], "--severity", severity)

            assert ended.exit_code == 0, ended.output
            eventually(partial(assert_received, received, path), within_s=30)
            text = " ".join(ended.stdout.split())
            assert f"Alertmanager routes alertname test, cluster kraftwatch, severity {severity}" in text
            assert "it ends after 5 min" in text


def assert_received(received: list[tuple[str, dict[str, Any]]], path: str) -> None:
    alerts = [each for to, body in received if to == path for each in body["alerts"]]
    states = [each["status"] for each in alerts if each["labels"]["alertname"] == "test"]
    assert states == ["firing"], received


def test_pager_keeps_the_test_open_and_then_resolves_it(
    tmp_path: Path, trusted: CertificateAuthority, monkeypatch: pytest.MonkeyPatch
) -> None:
    double = PagerdutyDouble()
    open_during_the_pause: list[str] = []

    def pause(_: float) -> None:
        open_during_the_pause.extend(each.state for each in double.alerts)

    monkeypatch.setattr("streaming.doctor.sink_check.time", SimpleNamespace(sleep=pause))
    with serving(trusted.server(trusted.issue("server"))) as server:
        server.behave = double.reply
        config = local_pagerduty(server.url, Path(trusted.file), KEY)
        section = config.model_copy(update={"min_severity": Severity.WARNING})
        check = check_sink(section, MessageLinks(), send_test=True)

    assert (check.test_error, check.not_sent) == (None, None)
    (alert,) = double.alerts
    assert open_during_the_pause == ["triggered"]
    assert (alert.state, alert.events[0]["payload"]["severity"]) == ("resolved", "warning")
    assert check.expect == (
        "PagerDuty pages for the service of this key: an alert of severity warning, open for 30 s and then resolved"
    )


def test_the_test_fails_where_another_program_accepts_it(tmp_path: Path) -> None:
    with serving() as server:
        ended = send_test(tmp_path, [f"alertmanager:{server.url}", f"slack:{server.url}/services/T0/B0/x"], "--json")

    assert ended.exit_code == 1
    tests = [each["test"] for each in json.loads(ended.stdout)["sinks"]]
    assert tests == [
        f"HTTP 200, but the answer is not that of {service}: check the URL and the proxy (an empty body)"
        for service in ("Alertmanager", "Slack")
    ]


def test_sink_gets_the_test_with_a_severity_of_its_route(tmp_path: Path) -> None:
    sinks = [
        {"jsonl": {"path": str(tmp_path / name), "name": name, "min_severity": severity}}
        for name, severity in (("all", "info"), ("pager", "critical"))
    ]

    by_default = send_test(tmp_path, sinks, "--json")

    assert by_default.exit_code == 0
    assert [severities(tmp_path / name) for name in ("all", "pager")] == [["info"] * 2, ["critical"] * 2]
    tests = [(each["test"], each["expect"]) for each in json.loads(by_default.stdout)["sinks"]]
    assert tests == [
        ("delivered", f"{tmp_path / name} has two new lines with rule test: firing and resolved")
        for name in ("all", "pager")
    ]

    as_warning = send_test(tmp_path, sinks, "--json", "--severity", "warning")

    assert as_warning.exit_code == 0
    assert [severities(tmp_path / name) for name in ("all", "pager")] == [
        ["info"] * 2 + ["warning"] * 2,
        ["critical"] * 2,
    ]
    assert [each["test"] for each in json.loads(as_warning.stdout)["sinks"]] == [
        "delivered",
        "not sent: the sink takes critical or worse",
    ]


def severities(file: Path) -> list[str]:
    return [json.loads(line)["severity"] for line in file.read_text().splitlines()]
