"""PagerDuty's change events: what differs from what was reported before, once, after restarts and failures too."""

import json
import ssl
from collections.abc import Mapping
from pathlib import Path

import pytest
from pagerduty import EventsApiV2Client

from connectors.sinks.pagerduty.config import PagerdutySection
from connectors.sinks.pagerduty.send import PagerdutySink, change_event
from connectors.sinks.sink import KnownState
from connectors.sinks.sink_config import MessageLinks
from connectors.store.tables import job_database
from tests.sinks.pagerduty_double import PagerdutyDouble
from tests.sinks.server import HttpDouble, HttpReply
from tests.sinks.sink_kind import local_pagerduty
from tests.unit.connectors.kafka.certificates import CertificateAuthority
from tests.unit.connectors.sinks.sink_alerts import NOON_MS

KEY = "0123456789abcdef0123456789abcdef"
LINKS = MessageLinks(page_url="https://watch.example.com")
VOTERS = "1 (CONTROLLER://c1:9093); 2 (CONTROLLER://c2:9093); 3 (CONTROLLER://c3:9093)"
MOVED = VOTERS.replace("c3", "new")


def state(of: str = "prod", **facts: str) -> KnownState:
    return KnownState(of=of, at_ms=NOON_MS, facts=facts)


class Reporting:
    """The sink, PagerDuty, and the job's store."""

    def __init__(self, server: HttpDouble, section: PagerdutySection, folder: Path) -> None:
        self.pagerduty, self.server = PagerdutyDouble(), server
        server.behave = self.pagerduty.reply
        self._section, self._folder = section, folder
        job_database(folder).create()
        self.restart()

    def restart(self) -> None:
        self._sink: PagerdutySink = self._section.open(LINKS, self._folder)

    def report(self, *states: KnownState) -> str | None:
        problem = self._sink.report(states, deadline_s=20)
        assert self.pagerduty.invalid == []
        return problem

    @property
    def summaries(self) -> list[str]:
        return [one["payload"]["summary"] for one in self.pagerduty.changes]


@pytest.fixture
def reporting(server: HttpDouble, trusted: CertificateAuthority, tmp_path: Path) -> Reporting:
    return Reporting(server, local_pagerduty(server.url, Path(trusted.file), KEY), tmp_path)


def test_what_is_known_for_the_first_time_is_no_change(reporting: Reporting) -> None:
    assert reporting.report(state(voters=VOTERS), state("kraftwatch", configuration="a")) is None
    reporting.restart()
    assert reporting.report(state(voters=VOTERS), state("other", voters=VOTERS)) is None

    assert reporting.pagerduty.changes == []


@pytest.mark.parametrize(
    ("facts", "summary"),
    [
        (
            {"voters": MOVED},
            "prod: voters changed: added 3 (CONTROLLER://new:9093); removed 3 (CONTROLLER://c3:9093)",
        ),
        ({"voters": VOTERS.rpartition(";")[0]}, "prod: voters changed: removed 3 (CONTROLLER://c3:9093)"),
        ({"metadata.version": "29"}, "prod: metadata.version changed from 27 to 29"),
    ],
)
def test_a_change_is_sent_once_also_after_a_restart(
    reporting: Reporting, facts: Mapping[str, str], summary: str
) -> None:
    reporting.report(state(**{"voters": VOTERS, "metadata.version": "27"}))
    for _ in range(2):
        reporting.restart()
        assert reporting.report(state(**facts)) is None

    assert reporting.summaries == [summary]
    (link,) = reporting.pagerduty.changes[0]["links"]
    assert link["href"] == "https://watch.example.com/clusters/prod"


def test_a_change_that_is_not_accepted_is_sent_again(reporting: Reporting) -> None:
    reporting.report(state(voters=VOTERS))
    reporting.server.behave = lambda _: HttpReply(status=500, body=b"later")
    problem = reporting.report(state(voters=MOVED))
    assert problem is not None
    assert KEY not in problem
    reporting.server.behave = reporting.pagerduty.reply
    assert reporting.report(state(voters=MOVED)) is None

    assert len(reporting.pagerduty.changes) == 1


def test_without_change_events_nothing_is_sent(
    server: HttpDouble, trusted: CertificateAuthority, tmp_path: Path
) -> None:
    section = local_pagerduty(server.url, Path(trusted.file), KEY).model_copy(update={"change_events": False})
    reporting = Reporting(server, section, tmp_path)
    for voters in (VOTERS, MOVED):
        assert reporting.report(state(voters=voters)) is None

    assert reporting.pagerduty.changes == []


def test_pagerdutys_own_client_sends_the_same(server: HttpDouble, trusted: CertificateAuthority) -> None:
    pagerduty = PagerdutyDouble()
    server.behave = pagerduty.reply
    ours = change_event(state(voters=MOVED), "voters", VOTERS, LINKS)
    trust = ssl.create_default_context(cafile=trusted.file)
    payload = ours["payload"]
    with EventsApiV2Client(KEY, base_url=server.url, verify=trust) as client:
        client.submit(
            payload["summary"],
            source=payload["source"],
            custom_details=payload["custom_details"],
            links=ours["links"],
            timestamp=payload["timestamp"],
        )

    assert pagerduty.invalid == []
    assert pagerduty.changes == [{"routing_key": KEY, **ours}]
    assert json.loads(server.requests[-1].body)["routing_key"] == KEY
