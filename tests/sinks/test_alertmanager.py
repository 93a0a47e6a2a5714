"""The sink for Alertmanager, against a real one."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from connectors.delivery.dispatcher import Delivery
from connectors.delivery.ledger import Ledger
from connectors.sinks.alertmanager import REPEAT_S
from connectors.sinks.sink import Sink
from connectors.sinks.sink_factory import open_sink
from deploy.lab.security import Security
from rules.alert import Alert
from rules.finding import Severity
from rules.model.identifiers import Millis
from streaming.config import checked
from tests.eventually import eventually
from tests.sinks.real_alertmanager import RealAlertmanager
from tests.unit.connectors.sinks.sink_alerts import alert

pytestmark = pytest.mark.debian("prometheus-alertmanager")

DOCS_URL = "https://docs.example.com/kraftwatch"
PASSWORD = "hunter2"
_HASH = "$2b$04$c1h/GK9K.JfoY7QW4dM4QujB.jurdvN9IKNYw7ULoSLOEzOGQscka"
"""Of that password, as its web configuration wants it (bcrypt)."""
_MINUTE_MS = 60_000


def now_ms() -> Millis:
    return Millis(round(time.time() * 1000))


@pytest.fixture(scope="module")
def alertmanager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealAlertmanager]:
    with RealAlertmanager(tmp_path_factory.mktemp("alertmanager")) as running:
        yield running


def opened(entry: Any, tmp_path: Path) -> Sink:
    """As the configuration opens it."""
    config = checked(
        {"clusters": [{"name": "alpha", "bootstrap": ["c1:9093"]}], "sinks": [entry], "docs_url": DOCS_URL}, "test"
    )
    (only,) = config.wanted()
    return open_sink(only, memory=tmp_path)


class Telling:
    """A delivery to one sink, at times that the test gives: minutes before now."""

    def __init__(self, sink: Sink, tmp_path: Path) -> None:
        self._began_ms = now_ms()
        self._delivery = Delivery(Ledger(tmp_path / "ledger"), [sink], deadline_s=60, patience_s=60)

    def tell(self, *alerts: Alert, minutes_ago: float = 0) -> str | None:
        """Why it could not be told."""
        at_ms = Millis(self._began_ms - round(minutes_ago * _MINUTE_MS))
        (tally,) = self._delivery.deliver(alerts, at_ms).sinks.values()
        assert not tally.rejected
        return tally.failing


def fired(subject: str, *, minutes_ago: float, **changed: Any) -> Alert:
    return alert(
        subject,
        cluster_id=changed.pop("cluster_id", "kP1x"),
        started_at_ms=now_ms() - round(minutes_ago * _MINUTE_MS),
        **changed,
    )


def test_what_fires_is_there_with_its_labels_and_what_helps(alertmanager: RealAlertmanager, tmp_path: Path) -> None:
    sink = opened(f"alertmanager:{alertmanager.url}", tmp_path)
    assert sink.terms.name == f"alertmanager:{alertmanager.url.removeprefix('http://')}"
    telling = Telling(sink, tmp_path)
    began = fired("labels", minutes_ago=3)
    assert telling.tell(began, minutes_ago=3) is None
    there = alertmanager.standing()["labels", "critical"]
    incident = there["labels"]["incident"]
    assert there["labels"] == {
        "alertname": "no-leader",
        "cluster": "alpha",
        "cluster_id": "kP1x",
        "subject": "labels",
        "severity": "critical",
        "incident": incident,
    }
    assert there["annotations"] == {
        "summary": "Nobody leads.",
        "evidence": "leader_epoch: 7\nasked: c1:9093, c2:9093",
        "remedy": "# Start a controller.\nbin/kafka-server-start.sh $NODE_PROPERTIES",
        "docs": f"{DOCS_URL}/rules/no-leader/",
    }
    assert there["status"]["state"] == "active"
    assert telling.tell(alert("labels", started_at_ms=began.started_at_ms, resolved=True)) is None
    eventually(lambda: ("labels", "critical") not in alertmanager.standing(), within_s=10)


def test_alerts_of_one_incident_are_grouped_and_can_be_silenced_there(
    alertmanager: RealAlertmanager, tmp_path: Path
) -> None:
    telling = Telling(opened(f"alertmanager:{alertmanager.url}", tmp_path), tmp_path)
    telling.tell(fired("one", minutes_ago=2, cluster_id="grouped"), fired("two", minutes_ago=2, cluster_id="grouped"))

    def grouped() -> None:
        # It takes them at once and groups one after the other.
        groups = alertmanager.get("/api/v2/alerts/groups?filter=cluster_id=grouped")
        assert [{each["labels"]["subject"] for each in group["alerts"]} for group in groups] == [{"one", "two"}]

    eventually(grouped, within_s=10)
    silence = {
        "matchers": [{"name": "subject", "value": "one", "isRegex": False}],
        "startsAt": "2026-01-01T00:00:00Z",
        "endsAt": "2099-01-01T00:00:00Z",
        "createdBy": "eva",
        "comment": "planned",
    }
    alertmanager.post("/api/v2/silences", silence)

    def state_of(subject: str) -> object:
        return alertmanager.standing()[subject, "critical"]["status"]["state"]

    eventually(lambda: state_of("one") == "suppressed", within_s=10)
    assert state_of("two") == "active"


def test_what_stands_is_told_again_before_it_would_lapse_and_to_one_that_was_restarted(
    alertmanager: RealAlertmanager, tmp_path: Path
) -> None:
    telling = Telling(opened(f"alertmanager:{alertmanager.url}", tmp_path), tmp_path)
    telling.tell(fired("standing", minutes_ago=4), minutes_ago=4)
    lapses_at = alertmanager.standing()["standing", "critical"]["endsAt"]
    telling.tell(minutes_ago=4 - 0.9 * REPEAT_S / 60)
    assert alertmanager.standing()["standing", "critical"]["endsAt"] == lapses_at
    telling.tell(minutes_ago=3)
    assert alertmanager.standing()["standing", "critical"]["endsAt"] > lapses_at
    alertmanager.stop()
    assert telling.tell(minutes_ago=2) == "the connection is refused"
    alertmanager.start()
    assert alertmanager.standing() == {}
    assert telling.tell(minutes_ago=1) is None
    assert set(alertmanager.standing()) == {("standing", "critical")}


def test_another_severity_is_another_alert_there_and_the_one_before_it_ends(
    alertmanager: RealAlertmanager, tmp_path: Path
) -> None:
    telling = Telling(opened(f"alertmanager:{alertmanager.url}", tmp_path), tmp_path)
    began = fired("worse", minutes_ago=2, severity=Severity.WARNING)
    telling.tell(began, minutes_ago=2)
    assert ("worse", "warning") in alertmanager.standing()
    critical = fired("worse", minutes_ago=1)
    telling.tell(alert("worse", started_at_ms=began.started_at_ms, observed_at_ms=critical.observed_at_ms))

    def stands() -> set[str]:
        return {severity for subject, severity in alertmanager.standing() if subject == "worse"}

    eventually(lambda: stands() == {"critical"}, within_s=10)
    telling.tell(alert("worse", started_at_ms=began.started_at_ms, observed_at_ms=now_ms(), resolved=True))
    eventually(lambda: stands() == set(), within_s=10)


def test_an_end_that_came_while_it_was_away_is_an_end_there(alertmanager: RealAlertmanager, tmp_path: Path) -> None:
    telling = Telling(opened(f"alertmanager:{alertmanager.url}", tmp_path), tmp_path)
    began, gone = fired("stays", minutes_ago=3), fired("goes", minutes_ago=3)
    telling.tell(began, gone, minutes_ago=3)
    alertmanager.stop()
    assert telling.tell(alert("goes", started_at_ms=gone.started_at_ms, resolved=True), minutes_ago=2)
    alertmanager.start()
    assert telling.tell() is None
    assert set(alertmanager.standing()) == {("stays", "critical")}


@pytest.mark.parametrize("login", ["right", "wrong"])
def test_behind_tls_and_a_login(tmp_path: Path, login: str) -> None:
    security = Security(tmp_path / "tls", [])
    served = f"{{cert_file: {tmp_path}/tls/server.pem, key_file: {tmp_path}/tls/server.pem}}"
    web_config = f"tls_server_config: {served}\nbasic_auth_users: {{kraftwatch: {_HASH!r}}}"
    running = RealAlertmanager(tmp_path / "alertmanager", web_config=web_config)
    running.asking = {"verify": str(security.ca_file), "auth": ("kraftwatch", PASSWORD)}
    (tmp_path / "password").write_text((PASSWORD if login == "right" else "hunter3") + "\n")
    with running:
        entry = {
            "url": running.url,
            "username": "kraftwatch",
            "password_file": str(tmp_path / "password"),
            "ca_file": str(security.ca_file),
        }
        sink = opened({"alertmanager": entry}, tmp_path)
        failing = Telling(sink, tmp_path).tell(fired("secured", minutes_ago=1))
        there = running.standing()
    assert (failing, set(there)) == (
        (None, {("secured", "critical")})
        if login == "right"
        else ("HTTP 401: the login is not accepted (Unauthorized)", set())
    )
