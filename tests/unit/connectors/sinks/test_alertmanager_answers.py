"""What Alertmanager, or what answers in its place, says of silences: a silence of everything is never taken over."""

import json
from collections.abc import Sequence
from typing import Any
from unittest.mock import Mock, patch

import pytest

from connectors.sinks.alertmanager import silences as alertmanager_silences
from connectors.sinks.alertmanager.silences import SilencesPoll
from connectors.sinks.http_request import HttpResponse
from rules.notifications.route import SilenceOfService
from tests.unit.connectors.sinks.sink_alerts import NOON_MS

SILENCE = {
    "id": "1",
    "status": {"state": "active"},
    "startsAt": "2026-11-20T05:00:00Z",
    "endsAt": "2036-11-20T05:00:00Z",
    "createdBy": "eva",
    "comment": "disks",
}
OURS = {"cluster": "prod", "cluster_id": "x", "alertname": "no-leader", "subject": "quorum", "severity": "critical"}


class PolledAlertmanager:
    """An Alertmanager and what the job gets of it."""

    def __init__(self, silence: dict[str, Any], alert: dict[str, Any]) -> None:
        self.silences, self.alerts = [silence], [alert]
        self._poll, self._responses = SilencesPoll("alertmanager", read=self._read, secrets=tuple), Mock()
        self._poll._responses = self._responses

    def _read(self, path: str) -> HttpResponse:
        found = self.silences if path.endswith("silences") else self.alerts
        return HttpResponse(status=200, headers={"Content-Type": "application/json"}, body=json.dumps(found).encode())

    def taken(self) -> Sequence[SilenceOfService]:
        self._poll.poll()
        _, silences = self._responses.silenced_there.call_args.args
        found: Sequence[SilenceOfService] = silences
        return found


def taken(matchers: Sequence[dict[str, Any]], labels: dict[str, str]) -> Sequence[SilenceOfService]:
    """Returns what the job gets of one silence, and of one alert that it silences."""
    return PolledAlertmanager({**SILENCE, "matchers": matchers}, silenced(labels)).taken()


def silenced(labels: dict[str, str]) -> dict[str, Any]:
    return {"labels": labels, "status": {"silencedBy": ["1"]}}


@pytest.mark.parametrize(
    "labels", [{"severity": "critical", "incident": "x"}, {"alertname": "DiskFull", "incident": "x"}, {}]
)
def test_an_alert_of_another_program_silences_nothing_of_ours(labels: dict[str, str]) -> None:
    assert taken([{"name": "team", "value": "db", "isRegex": False}], labels) == []


def test_a_silence_without_matchers_is_not_taken_over() -> None:
    assert taken([], {}) == []


def test_an_alert_of_ours_is_silenced_by_what_names_it() -> None:
    (one,) = taken([{"name": "team", "value": "db", "isRegex": False}], OURS)

    assert (one.cluster, one.rule, one.subject, one.severity) == ("prod", "no-leader", "quorum", "critical")


def test_a_restarted_alertmanager_that_has_no_alerts_yet_silences_what_it_silenced_before() -> None:
    """It keeps its silences. One that is made in its user interface names labels that no pattern has, as `incident`."""
    matchers = [{"name": "incident", "value": "9b1d", "isRegex": False}]
    polled = PolledAlertmanager({**SILENCE, "matchers": matchers}, silenced({**OURS, "incident": "9b1d"}))
    with patch.object(alertmanager_silences, "wall_ms") as clock:
        clock.return_value = NOON_MS
        before = polled.taken()
        polled.alerts.clear()
        clock.return_value = NOON_MS + 299_000
        assert [one.subject for one in polled.taken()] == [one.subject for one in before] == ["quorum"]
        clock.return_value = NOON_MS + 300_000
        assert polled.taken() == []


def test_a_silence_that_ends_ends_for_the_alerts_that_alertmanager_had() -> None:
    polled = PolledAlertmanager({**SILENCE, "matchers": []}, silenced(OURS))
    assert len(polled.taken()) == 1
    polled.alerts.clear()
    polled.silences[0] = {**polled.silences[0], "status": {"state": "expired"}}
    assert polled.taken() == []
