"""The PagerDuty sink against a double that accepts only documented events, and beside PagerDuty's own client."""

import json
import ssl
from dataclasses import replace
from pathlib import Path

import pytest
from pagerduty import EventsApiV2Client

from connectors.delivery.ledger import Ledger
from connectors.sinks.sink import Delivered, Outcome, Retry
from connectors.sinks.sink_config import MessageLinks
from connectors.store.store_place import StorePlace
from connectors.store.tables import job_database
from rules.finding import Severity
from rules.model.identifiers import Millis
from rules.notifications.notification import Notification, NotifyReason
from tests.recording_dispatcher import RecordingDispatcher
from tests.sinks.pagerduty_double import PagerdutyDouble
from tests.sinks.server import Behaviour, HttpDouble, HttpReply, ReceivedRequest, ResetInReply
from tests.sinks.sink_kind import SECRET, SinkKind, local_pagerduty
from tests.unit.connectors.kafka.certificates import CertificateAuthority
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, alert

KINDS = [
    SinkKind(
        kind="pagerduty",
        section=lambda url, ca_file: local_pagerduty(url, ca_file, SECRET),
        reply=PagerdutyDouble().reply,
    ),
]

KEY = "0123456789abcdef0123456789abcdef"
LINKS = MessageLinks(docs_url="https://docs.example.com", page_url="https://watch.example.com")
FIRING = alert("quorum")
OTHER = alert("voter 3", rule="voter-lagging", severity=Severity.WARNING, summary="Voter 3 lags.")
RESOLVED = alert("quorum", resolved=True, observed_at_ms=Millis(NOON_MS + 60_000))
STARTED = Notification(
    incident="1n",
    reason=NotifyReason.FIRING,
    alerts=(FIRING, OTHER),
    new_transitions=(FIRING, OTHER),
    previously_notified=False,
)
REPEATED = replace(STARTED, reason=NotifyReason.REPEATED, new_transitions=(), previously_notified=True)
ENDED = Notification(incident="1n", reason=NotifyReason.RESOLVED, alerts=(RESOLVED,), new_transitions=(RESOLVED,))


class PagerdutyService:
    """A double of PagerDuty and the sink that sends to it; `restart` opens the sink again, as after a restart."""

    def __init__(self, server: HttpDouble, ca_file: Path, store: StorePlace) -> None:
        self.pagerduty = PagerdutyDouble()
        self.server = server
        server.behave = self.pagerduty.reply
        self._config = local_pagerduty(server.url, ca_file, KEY)
        self._store = store
        self.restart()

    def restart(self) -> None:
        self.sink = self._config.open(LINKS, self._store)

    def send(self, notification: Notification) -> Outcome:
        (outcome,) = self.sink.send([notification], sent_at_ms=NOON_MS, deadline_s=30)
        assert self.pagerduty.invalid == []
        return outcome

    def lose_response(self, number: int) -> None:
        """PagerDuty accepts each event, and the sink does not get the response to this one."""

        def reply(request: ReceivedRequest) -> Behaviour:
            accepted = self.pagerduty.reply(request)
            return ResetInReply() if len(self.server.requests) == number else accepted

        self.server.behave = reply


@pytest.fixture
def service(server: HttpDouble, trusted: CertificateAuthority, tmp_path: Path) -> PagerdutyService:
    return PagerdutyService(server, Path(trusted.file), tmp_path)


def test_an_incident_is_one_alert_from_trigger_to_resolve(service: PagerdutyService) -> None:
    assert [service.send(notification) for notification in (STARTED, REPEATED, ENDED)] == [Delivered()] * 3
    (found,) = service.pagerduty.alerts
    assert (found.key, found.state, found.pages, len(found.events)) == ("1n", "resolved", 1, 2)
    assert service.pagerduty.dropped == []


def test_two_clusters_with_one_id_are_two_alerts_also_of_two_jobs(
    server: HttpDouble, trusted: CertificateAuthority, tmp_path: Path
) -> None:
    double = PagerdutyDouble()
    server.behave = double.reply
    for name, ends in (("dev", True), ("prod", False)):
        folder = tmp_path / name
        folder.mkdir()
        sink = local_pagerduty(server.url, Path(trusted.file), KEY).open(LINKS, folder)
        job = RecordingDispatcher(Ledger(job_database(folder)), [sink], deadline_s=30, patience_s=30)
        for resolved in (False, True)[: 2 if ends else 1]:
            job.deliver([alert("quorum", cluster=name, names_cluster=True, resolved=resolved)], NOON_MS)
    assert [(found.state, found.pages) for found in double.alerts] == [("resolved", 1), ("triggered", 1)]
    assert double.dropped == []


def test_the_content_of_a_trigger(service: PagerdutyService) -> None:
    service.send(STARTED)
    (event,) = service.pagerduty.alerts[0].events
    payload = event.pop("payload")
    details = payload.pop("custom_details")
    assert event == {
        "routing_key": KEY,
        "event_action": "trigger",
        "dedup_key": "1n",
        "client": "kraftwatch",
        "client_url": "https://watch.example.com/clusters/alpha",
        "links": [
            {"href": "https://docs.example.com/rules/no-leader/", "text": "What it means and what to do"},
            {"href": "https://watch.example.com/clusters/alpha", "text": "Cluster status"},
        ],
    }
    assert payload == {
        "summary": "alpha: No leader elected.",
        "source": "alpha",
        "severity": "critical",
        "timestamp": "2026-11-20T05:01:02.345Z",
        "component": "quorum",
        "group": "alpha",
        "class": "no-leader",
    }
    assert details == {
        "what to do": "# Start a controller.\nbin/kafka-server-start.sh $NODE_PROPERTIES",
        "evidence": "leader_epoch: 7\nasked: c1:9093, c2:9093",
        "also in this incident": "firing warning voter-lagging voter 3: Voter 3 lags.",
        "metadata offset": 991,
        "cluster id": "kP1x",
    }


def test_requests_are_those_of_pagerdutys_own_client(service: PagerdutyService, trusted: CertificateAuthority) -> None:
    service.send(STARTED)
    service.send(ENDED)
    sent = [(each.method, each.path, json.loads(each.body)) for each in service.server.requests]
    service.server.requests.clear()

    trust = ssl.create_default_context(cafile=trusted.file)
    with EventsApiV2Client(KEY, base_url=service.server.url, verify=trust) as client:
        for _, _, event in sent:
            further = {name: value for name, value in event.items() if name not in ("routing_key", "event_action")}
            client.send_event(event["event_action"], **further)
    assert [(each.method, each.path, json.loads(each.body)) for each in service.server.requests] == sent


def test_lines_of_a_storm_incident_name_their_cluster(service: PagerdutyService) -> None:
    elsewhere = replace(OTHER, cluster="beta", cluster_id="b")
    service.send(replace(STARTED, alerts=(FIRING, elsewhere), new_transitions=(FIRING, elsewhere)))
    details = service.pagerduty.alerts[0].events[0]["payload"]["custom_details"]
    assert details["also in this incident"] == "firing warning beta voter-lagging voter 3: Voter 3 lags."


def test_invisible_characters_in_evidence_are_escaped_and_do_not_prevent_delivery(service: PagerdutyService) -> None:
    one = alert(evidence={"na\u202eme": ["broken \udc80", "\x1b[31m"], "age_ms": 3, "seen_at_ms": 1_790_000_000_000})
    assert service.send(replace(STARTED, alerts=(one,), new_transitions=(one,))) == Delivered()
    details = service.pagerduty.alerts[0].events[0]["payload"]["custom_details"]
    assert details["evidence"].splitlines() == [
        "na\\u202eme: broken \\udc80, \\x1b[31m",
        "age: 0.0 s",
        "seen_at: 2026-09-21T14:13:20.000Z",
    ]


ESCALATED = replace(REPEATED, reason=NotifyReason.CHANGED, new_transitions=(FIRING,), escalations=1)
"""It was notified of as a warning before."""


def test_an_incident_that_escalates_pages_again_and_ends_the_page_before(service: PagerdutyService) -> None:
    service.send(STARTED)
    service.pagerduty.alerts[0].state = "acknowledged"
    service.send(ESCALATED)
    assert [(each.key, each.state) for each in service.pagerduty.alerts] == [("1n", "resolved"), ("1n-1", "triggered")]
    service.send(replace(ENDED, escalations=1, escalations_before=1))
    assert [each.state for each in service.pagerduty.alerts] == ["resolved", "resolved"]
    assert service.pagerduty.dropped == []


@pytest.mark.parametrize("lost", [2, 3], ids=["trigger", "resolve"])
def test_a_lost_response_while_an_incident_escalates_pages_once(service: PagerdutyService, lost: int) -> None:
    service.lose_response(lost)
    service.send(STARTED)
    assert isinstance(service.send(ESCALATED), Retry)
    service.restart()
    assert service.send(ESCALATED) == Delivered()
    assert [(each.key, each.state, each.pages) for each in service.pagerduty.alerts] == [
        ("1n", "resolved", 1),
        ("1n-1", "triggered", 1),
    ]


def test_an_incident_that_resolved_while_unreachable_is_in_the_history_as_info(service: PagerdutyService) -> None:
    service.send(replace(ENDED, new_transitions=(FIRING, RESOLVED), previously_notified=False))
    (found,) = service.pagerduty.alerts
    assert found.state == "resolved"
    payload = found.events[0]["payload"]
    assert payload["severity"] == "info"
    assert payload["summary"] == "alpha: No leader elected. Fired and resolved before PagerDuty could be notified."


def test_an_alert_that_was_found_in_a_backlog_says_how_late_it_was_read(service: PagerdutyService) -> None:
    late = tuple(replace(one, late_ms=Millis(47 * 60_000)) for one in (FIRING, RESOLVED))
    service.send(replace(STARTED, incident="first", alerts=late[:1], new_transitions=late[:1]))
    missed = replace(ENDED, incident="second", alerts=late[1:], new_transitions=late, previously_notified=False)
    service.send(missed)
    assert [found.events[0]["payload"]["summary"] for found in service.pagerduty.alerts] == [
        "alpha: No leader elected. Read 47 min late.",
        "alpha: No leader elected. Fired and resolved unnoticed, read 47 min late.",
    ]


MISSED = replace(ENDED, new_transitions=(FIRING, RESOLVED), previously_notified=False)
"""Fired and resolved before PagerDuty could be notified."""


@pytest.mark.parametrize("lost", [2, 0], ids=["lost response to the resolve", "killed job"])
def test_a_resolved_alert_that_is_sent_again_is_not_opened_again(service: PagerdutyService, lost: int) -> None:
    service.lose_response(lost)
    service.send(MISSED)
    service.restart()
    assert service.send(MISSED) == Delivered(), "the ledger did not record the delivery, so it is sent again"
    assert [(each.state, each.pages) for each in service.pagerduty.alerts] == [("resolved", 1)]


def test_an_incident_whose_trigger_failed_is_triggered_and_resolved(service: PagerdutyService) -> None:
    service.server.behave = lambda _: HttpReply(status=503)
    assert isinstance(service.send(MISSED), Retry)
    service.server.behave = service.pagerduty.reply
    assert service.send(MISSED) == Delivered()
    assert [(each.key, each.state) for each in service.pagerduty.alerts] == [("1n", "resolved")]


def test_an_unknown_routing_key_is_retried(service: PagerdutyService) -> None:
    errors = {"status": "invalid event", "errors": [f"'routing_key' is invalid: {KEY}"]}
    service.server.behave = lambda _: HttpReply(status=400, body=json.dumps(errors).encode())
    outcome = service.send(STARTED)
    assert isinstance(outcome, Retry)
    assert outcome.reason.startswith("PagerDuty does not know the routing key (")
    assert KEY not in outcome.reason


def test_an_event_never_exceeds_the_size_limit(service: PagerdutyService) -> None:
    wide = "\U0001f600"
    huge = alert(evidence={f"line {at}": wide * 1_000 for at in range(2_000)}, remedy=(wide * 100_000,) * 9)
    crowd = tuple(alert(f"voter {at}", summary=wide * 5_000) for at in range(500))
    assert service.send(replace(STARTED, alerts=(huge, *crowd), new_transitions=(huge,))) == Delivered()
