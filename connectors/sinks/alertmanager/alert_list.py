"""Which alerts Alertmanager has, and which process it is: responses of `GET /api/v2/alerts` and `/api/v2/status`."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TypeAlias
from urllib.parse import urlencode

from connectors.sinks.http_request import HttpResponse, outcome_of_response
from connectors.sinks.sink import Delivered, Retry

LABELS = ("alertname", "cluster", "cluster_id", "subject", "severity", "incident")
"""The labels of each alert that is sent: they identify it."""
LIST_BYTES = 4 << 20
"""How much of a list is read: an incident with some thousand alerts."""
_ALL = {"active": "true", "silenced": "true", "inhibited": "true", "unprocessed": "true"}
"""Whatever Alertmanager does with them."""
Identity: TypeAlias = tuple[str, ...]


def list_query(incident: str) -> str:
    """Returns the query of the list of an incident's alerts; its key needs no escaping."""
    return urlencode({"filter": f'incident="{incident}"', **_ALL})


def identity(labels: Mapping[str, object]) -> Identity:
    """Returns the values of LABELS; a proxy may add others, and Alertmanager has none that is empty."""
    return tuple(str(labels.get(name, "")) for name in LABELS)


def unreadable(response: HttpResponse | Retry, url: str, secrets: Sequence[str]) -> str | None:
    """Returns why a response does not show which alerts there are; None if it does, or is not Alertmanager's."""
    if isinstance(response, Retry):
        return response.reason
    if response.accepts:
        return None if len(response.body) < LIST_BYTES else "the list is too long"
    outcome = outcome_of_response(response, url, secrets)
    return None if isinstance(outcome, Delivered) else outcome.reason


def stays_unreadable(response: HttpResponse | Retry) -> bool:
    """Returns whether a list that cannot be read cannot be read soon either: it is forbidden, or too long."""
    return isinstance(response, HttpResponse) and response.status < 500 and response.status != 429


def listed_alerts(response: HttpResponse | Retry) -> Mapping[Identity, float | None] | None:
    """Returns the alerts that Alertmanager has; None if it is not its response.

    The values are the milliseconds, by its own clock, at which it received them last; None if they are missing.
    """
    found = response.json if isinstance(response, HttpResponse) and response.status == 200 else None
    if not isinstance(found, list):
        return None
    alerts = [each for each in found if isinstance(each, dict) and isinstance(each.get("labels"), dict)]
    if len(alerts) < len(found):
        return None
    return {identity(alert["labels"]): _time_ms(alert.get("updatedAt")) for alert in alerts}


def process_of(response: HttpResponse | Retry) -> tuple[str, str] | None:
    """Returns what identifies the process that answers: its name in its cluster, which one without a cluster lacks, and
    when it started; None if it is not its response.
    """
    match response.json if isinstance(response, HttpResponse) and response.status == 200 else None:
        case {"uptime": str(started), "cluster": {**cluster}}:
            return str(cluster.get("name", "")), started
        case _:
            return None


def _time_ms(text: object) -> float | None:
    try:
        return datetime.fromisoformat(str(text)).timestamp() * 1000
    except (ValueError, OverflowError):
        return None
