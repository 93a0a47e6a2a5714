"""The Alertmanager sink, against a real Alertmanager."""

import itertools
import json
import random
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from threading import Event
from typing import Any
from urllib.parse import parse_qs

import pytest
import requests

from connectors.delivery.ledger import Ledger
from connectors.settings.secret import Secret
from connectors.sinks.alertmanager.alert_list import LIST_BYTES
from connectors.sinks.alertmanager.config import AlertmanagerSection
from connectors.sinks.alertmanager.send import REPEAT_S
from connectors.sinks.sink import Delivered, Sink
from connectors.store.tables import job_database
from rules.alert import Alert
from rules.finding import Severity
from rules.formatting import iso
from rules.model.identifiers import Millis
from rules.notifications.notification import Notification, NotifyReason, single_alert_notification
from streaming.config import checked
from tests.eventually import eventually
from tests.lab_security import Security
from tests.recording_dispatcher import RecordingDispatcher
from tests.sinks.real_alertmanager import QUIET, RealAlertmanager
from tests.sinks.server import HttpDouble, HttpReply, NoReply, ReceivedRequest, serving
from tests.sinks.sink_kind import SECRET, SinkKind
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, alert


class AlertmanagerDouble:
    """By `postableAlerts` and `gettableAlerts` of its OpenAPI document; test_alertmanager uses a real one."""

    def __init__(self) -> None:
        self.labels: list[dict[str, str]] = []
        """Of what is active at NOON_MS."""

    def reply(self, request: ReceivedRequest) -> HttpReply:
        path, _, query = request.path.partition("?")
        if path == f"/{SECRET}/api/v2/status":
            return HttpReply(
                body=json.dumps({"uptime": "2026-09-21T14:00:00Z", "cluster": {"status": "ready"}}).encode()
            )
        assert path == f"/{SECRET}/api/v2/alerts"
        if request.method == "GET":
            (found,) = parse_qs(query)["filter"]
            listed = [each for each in self.labels if f'incident="{each["incident"]}"' == found]
            return HttpReply(body=json.dumps([{"labels": each} for each in listed]).encode())
        for posted in json.loads(request.body):
            assert posted.keys() <= {"labels", "annotations", "startsAt", "endsAt", "generatorURL"}
            texts = {**posted["labels"], **posted["annotations"]}
            assert all(isinstance(text, str) and text for text in texts.values())
            assert posted["labels"]["alertname"]
            starts, ends = (datetime.fromisoformat(posted[each]) for each in ("startsAt", "endsAt"))
            assert starts <= ends
            self.labels = [each for each in self.labels if each != posted["labels"]]
            self.labels += [posted["labels"]] if ends.timestamp() * 1000 > NOON_MS else []
        return HttpReply()


KINDS = [
    SinkKind(
        kind="alertmanager",
        section=lambda url, ca_file: AlertmanagerSection(
            url=Secret(text=f"{url}/{SECRET}/"), token=Secret(text=SECRET), ca_file=ca_file
        ),
        reply=AlertmanagerDouble().reply,
    ),
]

pytestmark = pytest.mark.debian("prometheus-alertmanager")

DOCS_URL = "https://docs.example.com/kraftwatch"
PASSWORD = "hunter2"
_HASH = "$2b$04$c1h/GK9K.JfoY7QW4dM4QujB.jurdvN9IKNYw7ULoSLOEzOGQscka"
"""The bcrypt hash of that password, for its web configuration."""
_MINUTE_MS = 60_000
JSON = {"Content-Type": "application/json"}


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
        self._began_ms, self.sink = now_ms(), sink
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
        "since": iso(began.started_at_ms),
    }
    assert active["status"]["state"] == "active"
    assert delivery.deliver(fired("late", minutes_ago=50.5, cluster_id="late"), minutes_ago=3) is None
    found_late = alertmanager.active_alerts()["late", "critical"]
    assert found_late["annotations"]["late"] == "read 47 min late"
    at = datetime.fromisoformat(found_late["startsAt"]) - datetime.fromisoformat(found_late["annotations"]["since"])
    assert 47 <= at.total_seconds() / 60 < 48, "it starts when it was recorded: group_wait begins then"
    assert delivery.deliver(alert("labels", started_at_ms=began.started_at_ms, resolved=True)) is None
    eventually(lambda: ("labels", "critical") not in alertmanager.active_alerts(), within_s=10)


@pytest.mark.parametrize("jobs", [1, 2])
def test_two_clusters_with_one_id_have_alerts_of_their_own(
    alertmanager: RealAlertmanager, tmp_path: Path, jobs: int
) -> None:
    """dev and prod are formatted with one id; one job monitors both, or two jobs send to one Alertmanager."""
    subject = f"one id, {jobs} jobs"
    folders = [tmp_path / str(number) for number in range(jobs)]
    for folder in folders:
        folder.mkdir()
    deliveries = [TimedDelivery(opened(f"alertmanager:{alertmanager.url}", folder), folder) for folder in folders]
    of_job = {"dev": deliveries[0], "prod": deliveries[-1]}
    began = {name: fired(subject, minutes_ago=1, cluster=name, names_cluster=True) for name in of_job}
    for name, delivery in of_job.items():
        assert delivery.deliver(began[name]) is None

    def active() -> list[str]:
        listed = [each["labels"] for each in alertmanager.get("/api/v2/alerts")]
        return sorted(labels["cluster"] for labels in listed if labels["subject"] == subject)

    eventually(lambda: active() == ["dev", "prod"], within_s=10)
    at_ms = began["dev"].started_at_ms
    ended = alert(subject, cluster="dev", names_cluster=True, started_at_ms=at_ms, resolved=True)
    assert of_job["dev"].deliver(ended) is None
    eventually(lambda: active() == ["prod"], within_s=10)


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


def test_an_alert_keeps_its_start_when_the_job_and_alertmanager_restart(
    alertmanager: RealAlertmanager, delivery: TimedDelivery, tmp_path: Path
) -> None:
    began = fired("starts", minutes_ago=2, observed_at_ms=now_ms())
    assert delivery.deliver(began) is None
    alertmanager.stop()
    alertmanager.start()
    restarted = TimedDelivery(opened(f"alertmanager:{alertmanager.url}", tmp_path), tmp_path)
    assert restarted.deliver(minutes_ago=-1.5) is None
    active = alertmanager.active_alerts()["starts", "critical"]
    assert (active["startsAt"], active["annotations"]["since"]) == (iso(began.observed_at_ms), iso(began.started_at_ms))


GROUPED = """
route: {{receiver: people, group_by: [incident], group_wait: 5s, group_interval: 5m}}
receivers: [{{name: people, webhook_configs: [{{url: "{url}"}}]}}]
"""


@pytest.mark.parametrize(
    ("first", "late_ms"),
    [("alone", None), ("read late", Millis(240_000)), ("in an escalated incident", None)],
)
def test_alerts_of_one_incident_that_fire_one_after_the_other_are_one_notification(
    tmp_path: Path, first: str, late_ms: Millis | None
) -> None:
    """Their conditions began, or were observed, before group_wait. The alert of another program is sent at once."""
    now, escalations = now_ms(), int(first == "in an escalated incident")

    def fires(subject: str, *, observed_ms: int, severity: Severity = Severity.CRITICAL) -> Alert:
        fired = alert(subject, severity=severity, started_at_ms=now - 300_000, observed_at_ms=Millis(observed_ms))
        return replace(fired, late_ms=late_ms)

    before = [fires("before", observed_ms=now - 200_000, severity=Severity.WARNING)] * escalations
    one, two = (fires(subject, observed_ms=now - (late_ms or 0)) for subject in ("one", "two"))

    def notified() -> list[list[str]]:
        found = [json.loads(request.body)["alerts"] for request in webhook.requests]
        return [sorted(each["labels"].get("subject", "other") for each in alerts) for alerts in found]

    with (
        serving() as webhook,
        RealAlertmanager(tmp_path / "grouped", config=GROUPED.format(url=webhook.url)) as running,
    ):
        sink = opened(f"alertmanager:{running.url}", tmp_path)

        def send(*alerts: Alert) -> None:
            notification = Notification(
                incident=one.fingerprint,
                reason=NotifyReason.FIRING,
                alerts=alerts,
                new_transitions=alerts[-1:],
                escalations=escalations,
            )
            assert sink.send([notification], sent_at_ms=now_ms(), deadline_s=60) == [Delivered()]

        send(*before, one)
        other = [{"labels": {"alertname": "other"}, "startsAt": iso(Millis(now - 300_000))}]
        requests.post(f"{running.url}/api/v2/alerts", json=other, timeout=60).raise_for_status()
        eventually(lambda: ["other"] in notified(), within_s=30)
        assert notified() == [["other"]]
        send(*before, one, two)
        all_of_them = [each.subject for each in (*before, one, two)]
        eventually(lambda: all_of_them in notified(), within_s=30)
        assert notified() == [["other"], all_of_them]


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


class Proxy:
    """A proxy before Alertmanager, over HTTP: passes requests on."""

    def __init__(self, alertmanager: RealAlertmanager, server: HttpDouble) -> None:
        self._alertmanager, self.server = alertmanager, server
        server.behave = self.reply
        self.minutes_ago: float | None = None
        """By how much its clock is behind, which its Date shows; None: it removes the Date."""
        self.reads: HttpReply | None = None
        """Its own answer to a GET request."""
        self.drops = False
        """Whether it answers a POST request without passing it on."""

    @property
    def methods(self) -> list[str]:
        """Of what it was sent about alerts."""
        return [request.method for request in self.server.requests if request.path.startswith("/api/v2/alerts")]

    def reply(self, request: ReceivedRequest) -> HttpReply:
        date = {}
        if self.minutes_ago is not None:
            at = datetime.fromtimestamp(time.time() - self.minutes_ago * 60, UTC)
            date["Date"] = format_datetime(at, usegmt=True)
        if request.method == "GET" and self.reads is not None:
            return self.reads
        if request.method == "POST" and self.drops:
            return HttpReply(headers=date)
        found = requests.request(
            request.method, self._alertmanager.url + request.path, data=request.body, headers=JSON, timeout=60
        )
        return HttpReply(status=found.status_code, headers=date, body=found.content)


@pytest.fixture
def proxy(alertmanager: RealAlertmanager) -> Iterator[Proxy]:
    with serving() as server:
        yield Proxy(alertmanager, server)


@pytest.fixture
def through_proxy(proxy: Proxy, tmp_path: Path) -> TimedDelivery:
    return TimedDelivery(opened(f"alertmanager:{proxy.server.url}", tmp_path), tmp_path)


def test_a_new_alert_is_read_back_once_and_not_when_it_is_sent_again(
    proxy: Proxy, through_proxy: TimedDelivery, alertmanager: RealAlertmanager
) -> None:
    assert through_proxy.deliver(fired('once \\ "é"', minutes_ago=4), minutes_ago=4) is None
    assert proxy.methods == ["POST", "GET"]
    assert through_proxy.deliver(minutes_ago=2) is None
    assert through_proxy.deliver() is None
    assert proxy.methods == ["POST", "GET", "POST", "POST"]
    assert ('once \\ "é"', "critical") in alertmanager.active_alerts()


@pytest.mark.parametrize("minutes_ago", [60, -60])
def test_a_wrong_clock_of_a_proxy_changes_no_times(
    proxy: Proxy,
    through_proxy: TimedDelivery,
    alertmanager: RealAlertmanager,
    minutes_ago: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Alertmanager's own clock is the one by which it has received an alert, and is right."""

    def minutes_left(subject: str) -> float:
        ends_at = datetime.fromisoformat(alertmanager.active_alerts()[subject, "critical"]["endsAt"])
        return (ends_at - datetime.now(UTC)).total_seconds() / 60

    before, after = f"before {minutes_ago}", f"after {minutes_ago}"
    assert through_proxy.deliver(fired(before, minutes_ago=3, cluster_id=before), minutes_ago=3) is None

    proxy.minutes_ago = minutes_ago
    assert through_proxy.deliver(minutes_ago=1.5) is None
    assert 3 < minutes_left(before) < 4, "sent again"
    assert through_proxy.deliver(fired(after, minutes_ago=0, cluster_id=after)) is None
    assert 4 < minutes_left(before) < 6
    assert 4 < minutes_left(after) < 6
    assert "clock" not in caplog.text
    assert proxy.methods == ["POST", "GET"] * 2 + ["POST"] * 2 + ["GET"], "one look at the clock"


@pytest.mark.parametrize("minutes_ago", [60, 0])
def test_an_alert_that_was_accepted_and_is_not_there_is_no_delivery(
    proxy: Proxy, through_proxy: TimedDelivery, alertmanager: RealAlertmanager, minutes_ago: int
) -> None:
    """The clock of this host, and of the proxy on it, is an hour behind; or something drops the request."""
    proxy.minutes_ago, proxy.drops = minutes_ago, not minutes_ago
    began = fired(f"lost {minutes_ago}", minutes_ago=minutes_ago)

    assert through_proxy.deliver(began, minutes_ago=minutes_ago) == (
        f"Alertmanager accepted no-leader lost {minutes_ago} and does not have it: check its clock (the Date of its "
        "answers: no difference to this host's), its limits, and what is behind the URL"
    )

    proxy.minutes_ago, proxy.drops = 0, False
    assert through_proxy.deliver(minutes_ago=-1) is None
    assert (f"lost {minutes_ago}", "critical") in alertmanager.active_alerts()


def test_two_that_take_turns_behind_one_address_both_get_each_alert_and_it_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        RealAlertmanager(tmp_path / "first") as first,
        RealAlertmanager(tmp_path / "second") as second,
        serving() as server,
    ):
        proxies, turns = [Proxy(each, server) for each in (first, second)], itertools.count()
        server.behave = lambda request: proxies[next(turns) % 2].reply(request)
        delivery = TimedDelivery(opened(f"alertmanager:{server.url}", tmp_path), tmp_path)

        assert delivery.deliver(fired("one", minutes_ago=4), minutes_ago=4) is None
        assert delivery.deliver(fired("two", minutes_ago=3), minutes_ago=3) is None
        assert delivery.deliver(minutes_ago=1) is None

        assert (
            first.active_alerts().keys() == second.active_alerts().keys() == {("one", "critical"), ("two", "critical")}
        )
        methods = [f"{request.method} {request.path.partition('?')[0]}" for request in server.requests]
    alerts, status = "/api/v2/alerts", "/api/v2/status"
    assert methods[:8] == [f"POST {alerts}", f"GET {alerts}", *[f"GET {status}"] * 6]
    assert {*methods[8:]} == {f"POST {alerts}"}, "their lists differ: none is read again"
    assert caplog.text.count("2 Alertmanagers take turns behind the URL") == 1


def test_three_that_are_chosen_at_random_behind_one_address_all_get_each_alert(tmp_path: Path) -> None:
    with ExitStack() as stack:
        members = [stack.enter_context(RealAlertmanager(tmp_path / str(each))) for each in range(3)]
        server, chance = stack.enter_context(serving()), random.Random(57)
        proxies = [Proxy(each, server) for each in members]
        server.behave = lambda request: chance.choice(proxies).reply(request)
        delivery = TimedDelivery(opened(f"alertmanager:{server.url}", tmp_path), tmp_path)

        assert delivery.deliver(fired("one", minutes_ago=4), minutes_ago=4) is None
        assert delivery.deliver(fired("two", minutes_ago=3), minutes_ago=3) is None

        for member in members:
            assert member.active_alerts().keys() == {("one", "critical"), ("two", "critical")}


def test_a_member_that_is_down_behind_one_address_fails_no_delivery(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        RealAlertmanager(tmp_path / "first") as first,
        RealAlertmanager(tmp_path / "second") as second,
        serving() as server,
    ):
        turns, down, down_too = itertools.count(), Event(), Event()
        members = [(Proxy(first, server), down_too), (Proxy(second, server), down)]

        def reply(request: ReceivedRequest) -> HttpReply:
            member, is_down = members[next(turns) % 2]
            return HttpReply(status=502, body=b"no live upstreams") if is_down.is_set() else member.reply(request)

        server.behave = reply
        delivery = TimedDelivery(opened(f"alertmanager:{server.url}", tmp_path), tmp_path)
        assert delivery.deliver(fired("one", minutes_ago=4), minutes_ago=4) is None
        down.set()
        assert delivery.deliver(fired("two", minutes_ago=3), minutes_ago=3) is None
        assert delivery.deliver(minutes_ago=1) is None
        assert first.active_alerts().keys() == {("one", "critical"), ("two", "critical")}
        down_too.set()
        assert str(delivery.deliver(minutes_ago=-1)).startswith("HTTP 502")
    assert caplog.text.count("delivery failed") == 1


def test_behind_a_balancer_whose_other_member_never_answered_each_alert_is_delivered_within_a_second(
    alertmanager: RealAlertmanager, tmp_path: Path
) -> None:
    with serving() as server:
        turns, member = itertools.count(), Proxy(alertmanager, server).reply
        server.behave = lambda request: member(request) if next(turns) % 2 else HttpReply(status=503)
        delivery = TimedDelivery(opened(f"alertmanager:{server.url}", tmp_path), tmp_path)
        for minutes_ago in (4.0, 3.0, 1.5):
            began = fired(f"half {minutes_ago}", minutes_ago=minutes_ago)
            if delivery.deliver(began, minutes_ago=minutes_ago) is not None:
                assert delivery.deliver(minutes_ago=minutes_ago - 0.02) is None, "after a second"
            assert (began.subject, "critical") in alertmanager.active_alerts()


def test_an_incident_with_a_thousand_alerts_is_read_back(delivery: TimedDelivery) -> None:
    storm = [fired(f"voter {number}", minutes_ago=1, cluster_id="storm") for number in range(1_000)]
    notification = Notification(
        incident="57" * 8, reason=NotifyReason.FIRING, alerts=tuple(storm), new_transitions=tuple(storm)
    )
    assert delivery.sink.send([notification], sent_at_ms=now_ms(), deadline_s=60) == [Delivered()]


def test_a_silenced_alert_is_delivered(alertmanager: RealAlertmanager, delivery: TimedDelivery) -> None:
    matcher = {"name": "subject", "value": "silenced", "isRegex": False}
    ends = datetime.now(UTC) + timedelta(hours=1)
    silence = {"matchers": [matcher], "startsAt": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"}
    silence |= {"endsAt": f"{ends:%Y-%m-%dT%H:%M:%SZ}", "createdBy": "eva", "comment": "test"}
    requests.post(f"{alertmanager.url}/api/v2/silences", json=silence, timeout=60).raise_for_status()

    assert delivery.deliver(fired("silenced", minutes_ago=1)) is None
    assert alertmanager.active_alerts()["silenced", "critical"]["status"]["state"] == "suppressed"


def test_an_inhibited_alert_is_delivered(tmp_path: Path) -> None:
    rule = """{source_matchers: ['severity="critical"'], target_matchers: ['severity="warning"'], equal: [cluster]}"""
    with RealAlertmanager(tmp_path / "inhibits", config=f"{QUIET}\ninhibit_rules: [{rule}]") as inhibiting:
        delivery = TimedDelivery(opened(f"alertmanager:{inhibiting.url}", tmp_path), tmp_path)
        assert delivery.deliver(fired("source", minutes_ago=2), minutes_ago=2) is None
        target = fired("target", minutes_ago=1, severity=Severity.WARNING, cluster_id="other")
        assert delivery.deliver(target) is None
        assert inhibiting.active_alerts()["target", "warning"]["status"]["state"] == "suppressed"


def test_a_list_that_is_not_answered_costs_no_more_than_the_deadline_and_is_no_failure(
    proxy: Proxy, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    answer = proxy.reply
    proxy.server.behave = lambda request: NoReply() if request.method == "GET" else answer(request)
    sink = opened(f"alertmanager:{proxy.server.url}", tmp_path)
    assert sink.send([single_alert_notification(fired("hangs", minutes_ago=1))], sent_at_ms=now_ms(), deadline_s=2) == [
        Delivered()
    ]
    assert "what Alertmanager accepts cannot be read back: no response in time" in caplog.text


@pytest.mark.parametrize("status", [302, 401, 403, 404, 405, "too long"])
def test_a_list_that_cannot_be_read_is_no_failure_and_reported_once(
    proxy: Proxy, through_proxy: TimedDelivery, caplog: pytest.LogCaptureFixture, status: int | str
) -> None:
    long = HttpReply(body=b"[" + b" " * LIST_BYTES + b"]")
    proxy.reads = HttpReply(status=status) if isinstance(status, int) else long
    for number in range(3):
        one = fired("unread", minutes_ago=3, cluster_id=f"unread {number}")
        assert through_proxy.deliver(one, minutes_ago=3 - number) is None
    assert caplog.text.count("what Alertmanager accepts cannot be read back") == 1
    assert proxy.methods.count("GET") == 3, "for each new alert"


def test_an_alert_that_cannot_be_read_now_is_read_with_the_next_notification(
    proxy: Proxy, through_proxy: TimedDelivery
) -> None:
    proxy.reads = HttpReply(status=503)
    assert through_proxy.deliver(fired("overloaded", minutes_ago=4), minutes_ago=4) is None
    proxy.reads = HttpReply(body=b"[]")
    failing = through_proxy.deliver(minutes_ago=2)
    assert failing is not None
    assert failing.startswith("Alertmanager accepted no-leader overloaded and does not have it")
    proxy.reads = None
    assert through_proxy.deliver() is None
    assert through_proxy.deliver(minutes_ago=-1.1) is None
    assert proxy.methods == ["POST", "GET"] * 3 + ["POST"]


def test_a_difference_of_the_clocks_leaves_time_to_send_an_alert_again(
    alertmanager: RealAlertmanager, delivery: TimedDelivery
) -> None:
    """It ends by Alertmanager's clock, and is sent again after a minute, or some retries later."""
    assert delivery.deliver(fired("drifted", minutes_ago=3.9), minutes_ago=3.9) is None
    ends = datetime.fromisoformat(alertmanager.active_alerts()["drifted", "critical"]["endsAt"])
    assert (ends - datetime.now(UTC)).total_seconds() > 1.5 * REPEAT_S


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
            "password": {"file": str(tmp_path / "password")},
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
