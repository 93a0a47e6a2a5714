"""Silences of a real Alertmanager hold for the other sinks of a job."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import requests

from connectors.process.wall_clock import wall_ms
from connectors.settings.secret import Secret
from connectors.sinks.alertmanager.config import AlertmanagerSection
from connectors.sinks.alertmanager.send import AlertmanagerSink
from connectors.sinks.sink_config import MessageLinks
from rules.model.identifiers import Millis
from tests.eventually import eventually
from tests.sinks.pagerduty_double import PagerdutyDouble
from tests.sinks.real_alertmanager import RealAlertmanager
from tests.sinks.responding_job import RespondingJob, lagging
from tests.sinks.server import HttpDouble
from tests.sinks.sink_kind import SECRET, local_pagerduty
from tests.unit.connectors.kafka.certificates import CertificateAuthority

pytestmark = pytest.mark.debian("prometheus-alertmanager")


class SilencedJob(RespondingJob):
    """A job with Alertmanager and PagerDuty."""

    def __init__(self, alertmanager: RealAlertmanager, server: HttpDouble, ca_file: Path, folder: Path) -> None:
        self.alertmanager, self.pagerduty = alertmanager, PagerdutyDouble()
        server.behave = self.pagerduty.reply
        sections = (
            AlertmanagerSection(url=Secret(text=alertmanager.url)),
            local_pagerduty(server.url, ca_file, SECRET, repeat="never"),
        )
        super().__init__(folder, lambda: [each.open(MessageLinks(), folder) for each in sections])

    def silence(self, *matchers: tuple[str, str], regex: bool = False) -> str:
        """A person silences in Alertmanager; returns the id."""
        now = datetime.now(UTC)
        body = {
            "matchers": [{"name": name, "value": value, "isRegex": regex, "isEqual": True} for name, value in matchers],
            "startsAt": now.isoformat(),
            "endsAt": (now + timedelta(hours=1)).isoformat(),
            "createdBy": "eva",
            "comment": "disks",
        }
        answer = requests.post(f"{self.alertmanager.url}/api/v2/silences", json=body, timeout=60)
        assert answer.ok, answer.text
        return str(answer.json()["silenceID"])

    def end(self, silence: str) -> None:
        assert requests.delete(f"{self.alertmanager.url}/api/v2/silence/{silence}", timeout=60).ok

    def poll(self) -> None:
        sink = self.sinks[0]
        assert isinstance(sink, AlertmanagerSink)
        sink._silences._responses = self.responses
        sink._silences.poll()
        self.notifying.send()

    @property
    def in_force(self) -> list[str]:
        return [one.author for one in self.active(Millis(wall_ms()))]

    @property
    def paged(self) -> list[str]:
        return [one.events[0]["payload"]["component"] for one in self.pagerduty.alerts]


@pytest.fixture(scope="module")
def alertmanager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealAlertmanager]:
    with RealAlertmanager(tmp_path_factory.mktemp("alertmanager")) as running:
        yield running


@pytest.fixture
def job(
    alertmanager: RealAlertmanager, server: HttpDouble, trusted: CertificateAuthority, tmp_path: Path
) -> SilencedJob:
    return SilencedJob(alertmanager, server, Path(trusted.file), tmp_path)


def test_an_alert_that_begins_while_alertmanager_silences_its_cluster_is_sent_when_that_ends(job: SilencedJob) -> None:
    silence = job.silence(("cluster", "prod"), ("alertname", "voter-lagging"))
    job.poll()
    assert job.in_force == ["Alertmanager (eva)"]
    job.fire(lagging())
    assert job.paged == []

    def active_there() -> None:
        assert ("voter 2", "warning") in job.alertmanager.active_alerts()

    eventually(active_there, within_s=20)
    job.end(silence)
    job.poll()
    assert (job.in_force, job.paged) == ([], ["voter 2"])


def test_a_job_that_starts_holds_back_what_the_one_before_read(
    job: SilencedJob, server: HttpDouble, trusted: CertificateAuthority, tmp_path: Path
) -> None:
    silence = job.silence(("cluster", "prod"))
    job.poll()
    job.fire(lagging())
    restarted = SilencedJob(job.alertmanager, server, Path(trusted.file), tmp_path)
    restarted.notifying.send()
    assert ({*restarted.in_force}, restarted.paged) == ({"Alertmanager (eva)"}, [])
    job.end(silence)

    def paged() -> None:
        restarted.poll()
        assert (restarted.in_force, restarted.paged) == ([], ["voter 2"])

    eventually(paged, within_s=20)
    restarted.fire()


@pytest.mark.parametrize("regex", [False, True])
def test_an_alert_that_alertmanager_has_and_silences_by_any_matcher_is_held_back(job: SilencedJob, regex: bool) -> None:
    one = lagging(3)
    job.fire(one)
    pages = len(job.pagerduty.alerts)
    (found,) = [each for (subject, _), each in job.alertmanager.active_alerts().items() if subject == "voter 3"][:1]
    labels: dict[str, Any] = found["labels"]
    silence = job.silence(("incident", labels["incident"]), regex=regex)

    def silenced() -> None:
        job.poll()
        assert job.in_force == ["Alertmanager (eva)"]

    eventually(silenced, within_s=20)
    assert len(job.pagerduty.alerts) == pages
    job.end(silence)
    job.poll()
    assert job.in_force == []
    job.fire()


def test_silences_that_cannot_be_read_are_logged_once(job: SilencedJob, caplog: pytest.LogCaptureFixture) -> None:
    sink = AlertmanagerSection(url=Secret(text="http://127.0.0.1:9")).open(MessageLinks(), Path())
    sink._silences._responses = job.responses
    for _ in range(2):
        sink._silences.poll()
    assert caplog.text.count("silences in Alertmanager cannot be read: connection refused") == 1
