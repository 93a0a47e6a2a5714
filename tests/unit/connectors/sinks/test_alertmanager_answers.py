"""What Alertmanager, or what answers in its place, says of silences: a silence of everything is never taken over."""

import json
from collections.abc import Sequence
from typing import Any
from unittest.mock import Mock

import pytest

from connectors.sinks.alertmanager_silences import SilencesPoll
from connectors.sinks.http_request import HttpResponse
from rules.notifications.route import SilenceOfService

SILENCE = {
    "id": "1",
    "status": {"state": "active"},
    "startsAt": "2026-11-20T05:00:00Z",
    "endsAt": "2036-11-20T05:00:00Z",
    "createdBy": "eva",
    "comment": "disks",
}
OURS = {"cluster": "prod", "cluster_id": "x", "alertname": "no-leader", "subject": "quorum", "severity": "critical"}


def taken(matchers: Sequence[dict[str, Any]], labels: dict[str, str]) -> Sequence[SilenceOfService]:
    """Returns what the job gets of one silence, and of one alert that it silences."""

    def read(path: str) -> HttpResponse:
        alerts = [{"labels": labels, "status": {"silencedBy": ["1"]}}]
        found = [{**SILENCE, "matchers": matchers}] if path.endswith("silences") else alerts
        return HttpResponse(status=200, headers={"Content-Type": "application/json"}, body=json.dumps(found).encode())

    poll, responses = SilencesPoll("alertmanager", read=read, secrets=tuple), Mock()
    poll._responses = responses
    poll.poll()
    _, silences = responses.silenced_there.call_args.args
    found: Sequence[SilenceOfService] = silences
    return found


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
