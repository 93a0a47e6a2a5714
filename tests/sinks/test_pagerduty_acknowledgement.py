"""Acknowledgements between kraftwatch and PagerDuty, in both directions, against a double of its two APIs."""

import logging
from pathlib import Path

import pytest

from connectors.process.wall_clock import wall_ms
from connectors.settings.secret import Secret
from connectors.sinks.pagerduty import poll as pagerduty_poll
from connectors.sinks.pagerduty.poll import IncidentState, state_of
from connectors.sinks.pagerduty.send import PagerdutySink
from connectors.sinks.sink_config import MessageLinks
from rules.finding import Severity
from rules.model.identifiers import Millis
from tests.eventually import eventually
from tests.sinks.pagerduty_double import PagerdutyAlert, PagerdutyDouble
from tests.sinks.responding_job import RespondingJob, lagging
from tests.sinks.server import HttpDouble
from tests.sinks.sink_kind import local_pagerduty
from tests.unit.connectors.kafka.certificates import CertificateAuthority

KEY, API_TOKEN = "0123456789abcdef0123456789abcdef", "u+canary-0123456789"
ALERT = lagging()


class PagerdutyJob(RespondingJob):
    """A job with one PagerDuty sink, and the double of PagerDuty."""

    def __init__(self, server: HttpDouble, ca_file: Path, folder: Path) -> None:
        self.pagerduty = PagerdutyDouble(api_token=API_TOKEN)
        server.behave = self.pagerduty.reply
        section = local_pagerduty(server.url, ca_file, KEY, api_token=Secret(text=API_TOKEN))
        self._open = lambda: [section.open(MessageLinks(), folder)]
        self._folder = folder
        super().__init__(folder, self._open)

    def restart(self) -> None:
        super().__init__(self._folder, self._open)

    def acknowledge(self, by: str = "Ana") -> None:
        self.acknowledgements.add(self.notifying.ledger.firing(), by=by, now_ms=wall_ms())
        self.notifying.send()

    def end(self) -> None:
        self.acknowledgements.end([ALERT.alert_id], now_ms=wall_ms())
        self.notifying.send()

    def poll(self) -> None:
        """The sink polls once, and what it has learned is sent."""
        (sink,) = self.sinks
        assert isinstance(sink, PagerdutySink)
        assert sink._poll is not None
        sink._poll._responses = self.responses
        sink._poll.poll()
        self.notifying.send()

    @property
    def states(self) -> list[str]:
        assert self.pagerduty.invalid == []
        return [one.state for one in self.pagerduty.alerts]

    @property
    def newest(self) -> PagerdutyAlert:
        return self.pagerduty.alerts[-1]


@pytest.fixture
def job(server: HttpDouble, trusted: CertificateAuthority, tmp_path: Path) -> PagerdutyJob:
    return PagerdutyJob(server, Path(trusted.file), tmp_path)


def test_what_is_acknowledged_here_is_acknowledged_there_and_pages_again_when_that_ends(job: PagerdutyJob) -> None:
    job.fire(ALERT)
    job.acknowledge()
    assert job.states == ["acknowledged"]
    job.restart()
    job.end()
    assert job.states == ["resolved", "triggered"], "a new alert pages, and the acknowledged one is closed"
    assert job.newest.key == f"{job.pagerduty.alerts[0].key}-r1"
    job.acknowledge()
    assert job.states == ["resolved", "acknowledged"]
    job.fire()
    assert job.states == ["resolved", "resolved"]


def test_another_alert_that_joins_an_acknowledged_incident_pages(job: PagerdutyJob) -> None:
    job.fire(ALERT)
    job.acknowledge()
    job.fire(ALERT, lagging(3, Severity.CRITICAL))
    assert [one.state for one in job.pagerduty.alerts][-1] == "triggered"


def test_who_acknowledges_there_has_acknowledged_here_as_long_as_there(job: PagerdutyJob) -> None:
    job.fire(ALERT)
    job.poll()
    assert job.acknowledged() == []
    job.newest.acknowledge("Eva", wall_ms())
    job.poll()
    assert job.acknowledged() == ["PagerDuty (Eva)"]
    job.newest.time_out()
    job.poll()
    job.poll()
    assert (job.acknowledged(), job.states) == ([], ["triggered"]), "PagerDuty pages by itself: no second alert"


def test_an_acknowledgement_there_that_was_ended_here_is_not_taken_again(job: PagerdutyJob) -> None:
    job.fire(ALERT)
    job.newest.acknowledge("Eva", wall_ms())
    job.poll()
    job.acknowledgements.end([ALERT.alert_id], now_ms=wall_ms())
    job.poll()
    job.poll()
    assert (job.acknowledged(), job.states) == ([], ["resolved", "triggered"])
    job.newest.acknowledge("Eva", wall_ms() + 1)
    job.poll()
    assert job.acknowledged() == ["PagerDuty (Eva)"]


def test_an_acknowledgement_of_this_job_is_not_read_back_as_one_of_a_person(job: PagerdutyJob) -> None:
    job.fire(ALERT)
    job.acknowledge()
    job.poll()
    assert job.acknowledged() == ["Ana"]
    job.end()
    job.poll()
    assert job.acknowledged() == []


def test_one_poll_that_does_not_see_an_acknowledgement_yet_changes_nothing(job: PagerdutyJob) -> None:
    """PagerDuty applies an event some time after it has accepted it."""
    job.fire(ALERT)
    job.acknowledge()
    job.newest.state = "triggered"
    job.poll()
    job.newest.state = "acknowledged"
    job.poll()
    job.end()
    assert job.states == ["resolved", "triggered"]


def test_a_refused_token_is_logged_once_without_the_token(
    job: PagerdutyJob, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pagerduty_poll, "POLL_S", 0.05)
    caplog.set_level(logging.DEBUG)
    job.pagerduty.api_token = "another"
    job.fire(ALERT)
    job.responses.follow(job.sinks)

    def logged() -> None:
        assert "pagerduty: acknowledgements in PagerDuty cannot be read: " in caplog.text

    eventually(logged, within_s=20)
    job.stop()
    assert caplog.text.count("cannot be read") == 1
    assert API_TOKEN not in caplog.text


@pytest.mark.parametrize(
    ("incidents", "state"),
    [
        ([], IncidentState(acknowledged=False)),
        ([{"status": "triggered"}], IncidentState(acknowledged=False)),
        ([{"status": "acknowledged", "acknowledgements": []}], IncidentState(acknowledged=True)),
        (
            [
                {
                    "status": "acknowledged",
                    "acknowledgements": [
                        {"at": "2026-11-20T05:00:00Z", "acknowledger": {"type": "user_reference", "summary": "Eva"}},
                        {"at": "2026-11-20T05:00:01Z", "acknowledger": {"type": "user_reference", "summary": "Ana"}},
                    ],
                }
            ],
            IncidentState(acknowledged=True, person="Ana", at_ms=Millis(1_795_150_801_000)),
        ),
    ],
)
def test_the_newest_person_is_read(incidents: list[dict[str, object]], state: IncidentState) -> None:
    assert state_of(incidents) == state
