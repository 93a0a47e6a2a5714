"""PagerDuty is told as its own client tells it, by a server that takes only what is documented and keeps its alerts."""

import json
import ssl
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from connectors.secret import Secret
from connectors.sinks.links import Links
from connectors.sinks.sink import Delivered, Outcome, Retry
from connectors.sinks.sink_config import Pagerduty as Place
from connectors.sinks.sink_config import Wanted
from connectors.sinks.sink_factory import open_sink
from rules.finding import Severity
from rules.model.identifiers import Millis
from rules.notifications.notification import Notice, NotifyReason
from tests.sinks.pagerduty_double import Pagerduty
from tests.sinks.server import Answer, serving
from tests.unit.connectors.kafka.certificates import Authority, authority
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, alert

KEY = "0123456789abcdef0123456789abcdef"
LINKS = Links(docs_url="https://docs.example.com", page_url="https://watch.example.com")
FIRING = alert("quorum")
OTHER = alert("voter 3", rule="voter-lagging", severity=Severity.WARNING, summary="Voter 3 lags.")
OVER = alert("quorum", resolved=True, observed_at_ms=Millis(NOON_MS + 60_000))
BEGUN = Notice(incident="1n", reason=NotifyReason.FIRING, alerts=(FIRING, OTHER), news=(FIRING, OTHER), known=False)
STANDS = replace(BEGUN, reason=NotifyReason.REPEATED, news=(), known=True)
ENDED = Notice(incident="1n", reason=NotifyReason.RESOLVED, alerts=(OVER,), news=(OVER,))


class Service:
    """A PagerDuty service, and the sink that tells it."""

    def __init__(self, url: str, ca_file: Path) -> None:
        self.pagerduty = Pagerduty()
        place = Place(routing_key=Secret(text=KEY), api_url=url, ca_file=ca_file)
        self.sink = open_sink(Wanted(place=place, links=LINKS), memory=Path("/nowhere"))

    def tell(self, notice: Notice) -> Outcome:
        (outcome,) = self.sink.tell([notice], sent_at_ms=NOON_MS, deadline_s=30)
        assert self.pagerduty.invalid == []
        return outcome


@pytest.fixture(scope="module")
def trusted(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture
def service(trusted: Authority) -> Iterator[Service]:
    context: ssl.SSLContext = trusted.server(trusted.issue("server"))
    with serving(context) as server:
        service = Service(server.url, Path(trusted.file))
        server.behave = service.pagerduty.answer
        yield service


def test_an_incident_is_one_alert_from_trigger_to_resolve(service: Service) -> None:
    assert [service.tell(notice) for notice in (BEGUN, STANDS, ENDED)] == [Delivered()] * 3
    (found,) = service.pagerduty.alerts
    assert (found.key, found.state, found.pages, len(found.events)) == ("1n", "resolved", 1, 2)
    assert service.pagerduty.dropped == []


def test_what_a_trigger_says(service: Service) -> None:
    service.tell(BEGUN)
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
            {"href": "https://docs.example.com/rules/no-leader/", "text": "What it means, and what to do"},
            {"href": "https://watch.example.com/clusters/alpha", "text": "The cluster now"},
        ],
    }
    assert payload == {
        "summary": "alpha: Nobody leads.",
        "source": "alpha",
        "severity": "critical",
        "timestamp": "2026-11-20T05:01:02.345Z",
        "component": "quorum",
        "group": "alpha",
        "class": "no-leader",
    }
    assert details == {
        "what to do": "# Start a controller.\nbin/kafka-server-start.sh $NODE_PROPERTIES",
        "evidence": {"leader_epoch": 7, "asked": ["c1:9093", "c2:9093"]},
        "with it": "firing warning voter-lagging voter 3: Voter 3 lags.",
        "metadata offset": 991,
        "cluster id": "kP1x",
    }


def test_of_a_storm_each_line_says_its_cluster(service: Service) -> None:
    elsewhere = replace(OTHER, cluster="beta", cluster_id="b")
    service.tell(replace(BEGUN, alerts=(FIRING, elsewhere), news=(FIRING, elsewhere)))
    details = service.pagerduty.alerts[0].events[0]["payload"]["custom_details"]
    assert details["with it"] == "firing warning beta voter-lagging voter 3: Voter 3 lags."


def test_evidence_shows_what_cannot_be_seen_and_never_keeps_an_incident_back(service: Service) -> None:
    told = alert(evidence={"na\u202eme": ["broken \udc80", {"x": "\x1b[31m"}], "age_ms": 3})
    assert service.tell(replace(BEGUN, alerts=(told,), news=(told,))) == Delivered()
    details = service.pagerduty.alerts[0].events[0]["payload"]["custom_details"]
    assert details["evidence"] == {"na\\u202eme": ["broken \\udc80", {"x": "\\x1b[31m"}], "age_ms": 3}


@pytest.mark.parametrize("severity", list(Severity))
def test_severities_are_pagerdutys(service: Service, severity: Severity) -> None:
    told = alert(severity=severity)
    service.tell(replace(BEGUN, alerts=(told,), news=(told,)))
    assert service.pagerduty.alerts[0].events[0]["payload"]["severity"] == severity.value


def test_what_somebody_acknowledged_is_neither_paged_again_nor_lost(service: Service) -> None:
    service.tell(BEGUN)
    (found,) = service.pagerduty.alerts
    found.state = "acknowledged"
    service.tell(STANDS)
    assert (found.state, found.pages) == ("acknowledged", 1)
    service.tell(ENDED)
    assert found.state == "resolved"


def test_what_somebody_closed_by_hand_and_still_stands_is_opened_again(service: Service) -> None:
    service.tell(BEGUN)
    service.pagerduty.alerts[0].state = "resolved"
    service.tell(STANDS)
    assert [each.state for each in service.pagerduty.alerts] == ["resolved", "triggered"]


def test_what_came_and_went_is_in_the_history_and_wakes_nobody(service: Service) -> None:
    service.tell(replace(ENDED, news=(FIRING, OVER), known=False))
    (found,) = service.pagerduty.alerts
    assert found.state == "resolved"
    payload = found.events[0]["payload"]
    assert payload["severity"] == "info"
    assert payload["summary"] == "alpha: Nobody leads. It came and went while you could not be told."


def test_a_routing_key_that_is_not_known_is_tried_again_once_it_is_mended(trusted: Authority) -> None:
    with serving(trusted.server(trusted.issue("server"))) as server:
        service = Service(server.url, Path(trusted.file))
        errors = {"status": "invalid event", "errors": [f"'routing_key' is invalid: {KEY}"]}
        server.behave = lambda _: Answer(status=400, body=json.dumps(errors).encode())
        outcome = service.tell(BEGUN)
    assert isinstance(outcome, Retry)
    assert outcome.reason.startswith("PagerDuty does not know the routing key (")
    assert KEY not in outcome.reason


def test_an_event_is_never_too_large(service: Service) -> None:
    huge = alert(evidence={f"line {at}": "x" * 1_000 for at in range(2_000)}, remedy=("y" * 100_000,) * 9)
    crowd = tuple(alert(f"voter {at}", summary="z" * 5_000) for at in range(500))
    assert service.tell(replace(BEGUN, alerts=(huge, *crowd), news=(huge,))) == Delivered()
