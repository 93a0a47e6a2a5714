"""The Alertmanager sink, against a real Alertmanager."""

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from connectors.delivery.ledger import Ledger
from connectors.sinks.alertmanager import REPEAT_S, AlertmanagerSection
from connectors.sinks.sink import Sink
from connectors.store.tables import job_database
from rules.alert import Alert
from rules.finding import Severity
from rules.model.identifiers import Millis
from streaming.config import checked
from tests.eventually import eventually
from tests.lab_security import Security
from tests.recording_dispatcher import RecordingDispatcher
from tests.sinks.real_alertmanager import RealAlertmanager
from tests.sinks.server import HttpReply, ReceivedRequest
from tests.sinks.sink_kind import SECRET, SinkKind
from tests.unit.connectors.sinks.sink_alerts import alert


def alertmanager_reply(request: ReceivedRequest) -> HttpReply:
    """By `postableAlerts` of its OpenAPI document; test_alertmanager uses a real one."""
    assert request.path == f"/{SECRET}/api/v2/alerts"
    for posted in json.loads(request.body):
        assert posted.keys() <= {"labels", "annotations", "startsAt", "endsAt", "generatorURL"}
        texts = {**posted["labels"], **posted["annotations"]}
        assert all(isinstance(text, str) and text for text in texts.values())
        assert posted["labels"]["alertname"]
        assert datetime.fromisoformat(posted["startsAt"]) <= datetime.fromisoformat(posted["endsAt"])
    return HttpReply()


KINDS = [
    SinkKind(
        kind="alertmanager",
        section=lambda url, ca_file: AlertmanagerSection(
            url=SecretStr(f"{url}/{SECRET}/"), token=SecretStr(SECRET), ca_file=ca_file
        ),
        reply=alertmanager_reply,
    ),
]

pytestmark = pytest.mark.debian("prometheus-alertmanager")

DOCS_URL = "https://docs.example.com/kraftwatch"
PASSWORD = "hunter2"
_HASH = "$2b$04$c1h/GK9K.JfoY7QW4dM4QujB.jurdvN9IKNYw7ULoSLOEzOGQscka"
"""The bcrypt hash of that password, for its web configuration."""
_MINUTE_MS = 60_000


def now_ms() -> Millis:
    return Millis(round(time.time() * 1000))


@pytest.fixture(scope="module")
def alertmanager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealAlertmanager]:
    with RealAlertmanager(tmp_path_factory.mktemp("alertmanager")) as running:
        yield running


def opened(entry: Any, tmp_path: Path) -> Sink:
    """Opens the sink from a config entry."""
    config = checked(
        {"clusters": [{"name": "alpha", "bootstrap": ["c1:9093"]}], "sinks": [entry], "docs_url": DOCS_URL}, "test"
    )
    return config.sinks[0].section.open(config.links, tmp_path)


class TimedDelivery:
    """Delivers to one sink at times that the test sets, in minutes before now."""

    def __init__(self, sink: Sink, tmp_path: Path) -> None:
        self._began_ms = now_ms()
        self._dispatcher = RecordingDispatcher(Ledger(job_database(tmp_path)), [sink], deadline_s=60, patience_s=60)

    def deliver(self, *alerts: Alert, minutes_ago: float = 0) -> str | None:
        """Delivers and returns why the delivery failed."""
        at_ms = Millis(self._began_ms - round(minutes_ago * _MINUTE_MS))
        (result,) = self._dispatcher.deliver(alerts, at_ms).sinks.values()
        assert not result.rejected
        return result.failing


@pytest.fixture
def delivery(alertmanager: RealAlertmanager, tmp_path: Path) -> TimedDelivery:
    return TimedDelivery(opened(f"alertmanager:{alertmanager.url}", tmp_path), tmp_path)


def fired(subject: str, *, minutes_ago: float, **changed: Any) -> Alert:
    return alert(
        subject,
        cluster_id=changed.pop("cluster_id", "kP1x"),
        started_at_ms=now_ms() - round(minutes_ago * _MINUTE_MS),
        **changed,
    )


def test_a_firing_alert_has_its_labels_and_annotations(alertmanager: RealAlertmanager, tmp_path: Path) -> None:
    sink = opened(f"alertmanager:{alertmanager.url}", tmp_path)
    assert sink.options.name == f"alertmanager:{alertmanager.url.removeprefix('http://')}"
    delivery = TimedDelivery(sink, tmp_path)
    began = fired("labels", minutes_ago=3)
    assert delivery.deliver(began, minutes_ago=3) is None
    active = alertmanager.active_alerts()["labels", "critical"]
    incident = active["labels"]["incident"]
    assert active["labels"] == {
        "alertname": "no-leader",
        "cluster": "alpha",
        "cluster_id": "kP1x",
        "subject": "labels",
        "severity": "critical",
        "incident": incident,
    }
    assert active["annotations"] == {
        "summary": "No leader elected.",
        "evidence": "leader_epoch: 7\nasked: c1:9093, c2:9093",
        "remedy": "# Start a controller.\nbin/kafka-server-start.sh $NODE_PROPERTIES",
        "docs": f"{DOCS_URL}/rules/no-leader/",
    }
    assert active["status"]["state"] == "active"
    assert delivery.deliver(fired("late", minutes_ago=50.5, cluster_id="late"), minutes_ago=3) is None
    found_late = alertmanager.active_alerts()["late", "critical"]["annotations"]
    assert found_late["late"] == "read 47 min late"
    assert delivery.deliver(alert("labels", started_at_ms=began.started_at_ms, resolved=True)) is None
    eventually(lambda: ("labels", "critical") not in alertmanager.active_alerts(), within_s=10)


def test_a_firing_alert_is_sent_again_before_it_ends_and_after_a_restart(
    alertmanager: RealAlertmanager, delivery: TimedDelivery
) -> None:
    delivery.deliver(fired("firing", minutes_ago=4), minutes_ago=4)
    ends_at = alertmanager.active_alerts()["firing", "critical"]["endsAt"]
    delivery.deliver(minutes_ago=4 - 0.9 * REPEAT_S / 60)
    assert alertmanager.active_alerts()["firing", "critical"]["endsAt"] == ends_at
    delivery.deliver(minutes_ago=3)
    assert alertmanager.active_alerts()["firing", "critical"]["endsAt"] > ends_at
    alertmanager.stop()
    assert delivery.deliver(minutes_ago=2) == "connection refused"
    alertmanager.start()
    assert alertmanager.active_alerts() == {}
    assert delivery.deliver(minutes_ago=1) is None
    assert set(alertmanager.active_alerts()) == {("firing", "critical")}


def test_an_alert_that_becomes_critical_is_new_in_a_new_group_and_the_previous_one_ends(
    alertmanager: RealAlertmanager, delivery: TimedDelivery
) -> None:
    began = fired("worse", minutes_ago=2, severity=Severity.WARNING)
    delivery.deliver(began, minutes_ago=2)
    assert ("worse", "warning") in alertmanager.active_alerts()
    critical = fired("worse", minutes_ago=1)
    delivery.deliver(alert("worse", started_at_ms=began.started_at_ms, observed_at_ms=critical.observed_at_ms))

    def active() -> list[tuple[str, str]]:
        found = [each["labels"] for each in alertmanager.get("/api/v2/alerts?active=true")]
        return [(each["severity"], each["incident"]) for each in found if each["subject"] == "worse"]

    eventually(lambda: active() == [("critical", f"{began.fingerprint}-1")], within_s=10)
    delivery.deliver(alert("worse", started_at_ms=began.started_at_ms, observed_at_ms=now_ms(), resolved=True))
    eventually(lambda: active() == [], within_s=10)


def test_an_alert_that_is_no_longer_critical_is_a_warning_only(
    alertmanager: RealAlertmanager, delivery: TimedDelivery
) -> None:
    began = fired("milder", minutes_ago=3)
    delivery.deliver(began, minutes_ago=3)
    milder = alert(
        "milder",
        severity=Severity.WARNING,
        started_at_ms=began.started_at_ms,
        observed_at_ms=Millis(began.observed_at_ms + _MINUTE_MS),
    )
    delivery.deliver(milder, minutes_ago=1.9)
    delivery.deliver()

    def severities() -> list[str]:
        return [severity for subject, severity in alertmanager.active_alerts() if subject == "milder"]

    eventually(lambda: severities() == ["warning"], within_s=10)


def test_an_alert_that_resolved_while_it_was_down_is_resolved(
    alertmanager: RealAlertmanager, delivery: TimedDelivery
) -> None:
    stays, ends = fired("stays", minutes_ago=3), fired("goes", minutes_ago=3)
    delivery.deliver(stays, ends, minutes_ago=3)
    alertmanager.stop()
    delivery.deliver(alert("goes", started_at_ms=ends.started_at_ms, resolved=True), minutes_ago=2)
    assert delivery.deliver(minutes_ago=1), "one of two alerts of an incident: sent after a minute, and not delivered"
    alertmanager.start()
    assert delivery.deliver() is None
    assert set(alertmanager.active_alerts()) == {("stays", "critical")}


def test_alert_from_before_the_clock_was_set_back_ends_at_once(
    alertmanager: RealAlertmanager, delivery: TimedDelivery
) -> None:
    """The times of the rows never go back: they are an hour ahead of the job's clock after it was corrected."""
    ahead = fired("ahead", minutes_ago=-60)
    delivery.deliver(ahead, minutes_ago=-60)
    delivery.deliver()
    assert alertmanager.active_alerts()["ahead", "critical"]["startsAt"] <= f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"

    delivery.deliver(alert("ahead", started_at_ms=ahead.started_at_ms, resolved=True))
    eventually(lambda: assert_not_active(alertmanager, "ahead"), within_s=10)


@pytest.mark.parametrize("minutes_ago", [60, 5, -60])
def test_an_alert_is_active_and_ends_although_the_clock_of_this_host_is_wrong(
    alertmanager: RealAlertmanager, delivery: TimedDelivery, minutes_ago: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Alertmanager answers 200 for an alert that is over by its own clock, and drops it."""
    subject = f"clock {minutes_ago}"
    began = fired(subject, minutes_ago=minutes_ago)
    assert delivery.deliver(began, minutes_ago=minutes_ago) is None
    active = alertmanager.active_alerts()[subject, "critical"]
    # It keeps the earlier of two starts.
    assert abs(datetime.fromisoformat(active["startsAt"]).timestamp() * 1000 - now_ms()) < 6 * _MINUTE_MS
    assert "ahead of this host's" in caplog.text if minutes_ago > 0 else "behind this host's" in caplog.text

    over = alert(subject, started_at_ms=began.started_at_ms, cluster_id="kP1x", resolved=True)
    assert delivery.deliver(over, minutes_ago=minutes_ago) is None
    eventually(lambda: (subject, "critical") not in alertmanager.active_alerts(), within_s=10)


def assert_not_active(alertmanager: RealAlertmanager, subject: str) -> None:
    assert (subject, "critical") not in alertmanager.active_alerts()


@pytest.mark.parametrize("login", ["right", "wrong"])
def test_with_tls_and_basic_authentication(tmp_path: Path, login: str) -> None:
    security = Security(tmp_path / "tls", [])
    served = f"{{cert_file: {tmp_path}/tls/server.pem, key_file: {tmp_path}/tls/server.pem}}"
    web_config = f"tls_server_config: {served}\nbasic_auth_users: {{kraftwatch: {_HASH!r}}}"
    running = RealAlertmanager(tmp_path / "alertmanager", web_config=web_config)
    running.request_options = {"verify": str(security.ca_file), "auth": ("kraftwatch", PASSWORD)}
    (tmp_path / "password").write_text((PASSWORD if login == "right" else "hunter3") + "\n")
    with running:
        entry = {
            "url": running.url,
            "username": "kraftwatch",
            "password_file": str(tmp_path / "password"),
            "ca_file": str(security.ca_file),
        }
        sink = opened({"alertmanager": entry}, tmp_path)
        failing = TimedDelivery(sink, tmp_path).deliver(fired("secured", minutes_ago=1))
        active = running.active_alerts()
    assert (failing, set(active)) == (
        (None, {("secured", "critical")})
        if login == "right"
        else ("HTTP 401: the credentials are not accepted (Unauthorized)", set())
    )
