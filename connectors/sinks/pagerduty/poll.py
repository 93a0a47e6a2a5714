"""Reads who has acknowledged an incident in PagerDuty, by its REST API.

https://developer.pagerduty.com/api-reference/9d0b4b12e36f9-list-incidents
"""

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any, Final
from urllib.parse import urlencode

from connectors.errors import KraftwatchError
from connectors.settings.secret import Secret
from connectors.sinks.following import FollowerThread
from connectors.sinks.http_request import HttpResponse, get, outcome_of_response
from connectors.sinks.sink import Delivered, OpenIncident, Retry
from rules.formatting import shortened, visible
from rules.model.identifiers import Millis

_LOG = logging.getLogger(__name__)
SERVICE: Final = "PagerDuty"
POLL_S: Final = 20.0
"""How often all open incidents are read, one after the other."""
_MOST: Final = 20
"""Incidents that are read in one poll, the oldest ones: PagerDuty allows 960 requests in a minute for all programs."""
_REQUEST_S: Final = 5.0
_ANSWER_BYTES: Final = 1 << 20
_MAX_NAME = 80
_NEVER = Millis(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentState:
    """An incident as PagerDuty has it."""

    acknowledged: bool
    """Also if a program has acknowledged it."""
    person: str | None = None
    """Who has acknowledged it last; None: no person."""
    at_ms: Millis = _NEVER
    """When, by PagerDuty's clock."""


class AcknowledgementPoll(FollowerThread):
    """Polls while the job follows."""

    def __init__(
        self,
        name: str,
        *,
        api_url: str,
        token: Secret,
        get_options: Callable[[], dict[str, Any]],
        key_of: Callable[[OpenIncident], str],
        believed: Callable[[str, str, bool], bool],
        acknowledge: Callable[[str, str], None],
    ) -> None:
        """Reads the token once, so that an unreadable one is reported at start-up.

        Args:
            name: of the sink.
            api_url: of the REST API.
            token: of the REST API.
            get_options: further arguments of `get`.
            key_of: returns the `dedup_key` of an incident.
            believed: takes the id of an incident, its key, and whether it is acknowledged there; returns whether that
                is newer than what the sink has sent.
            acknowledge: takes the id and the key of an incident that is acknowledged here, and no longer there.
        """
        super().__init__(name)
        self._api_url, self._token, self._get_options = api_url, token, get_options
        self._key_of, self._believed, self._acknowledge = key_of, believed, acknowledge
        self._failing = False
        token.read()

    def _run(self, ended: threading.Event) -> None:
        while not ended.wait(POLL_S):
            self.poll()

    def poll(self) -> None:
        """Reads the open incidents once."""
        responses = self._responses
        if responses is None:
            return
        try:
            for incident in islice(responses.open_incidents(self._name), _MOST):
                key = self._key_of(incident)
                state = self._state(key)
                if isinstance(state, str):
                    self._report(state)
                    return
                if self._believed(incident.id, key, state.acknowledged):
                    holds = responses.acknowledged_there(
                        incident.alerts, service=SERVICE, person=state.person, at_ms=state.at_ms
                    )
                    if holds and not state.acknowledged:
                        self._acknowledge(incident.id, key)
            self._failing = False
        except KraftwatchError as problem:
            self._report(str(problem))

    def _report(self, problem: str) -> None:
        if not self._failing:
            _LOG.warning("%s: acknowledgements in PagerDuty cannot be read: %s", self._name, problem)
        self._failing = True

    def _state(self, key: str) -> IncidentState | str:
        """Returns the state of an incident, or why it is unknown."""
        token = self._token.read()
        query = urlencode(
            [("incident_key", key), ("statuses[]", "triggered"), ("statuses[]", "acknowledged"), ("limit", "5")]
        )
        response = get(
            f"{self._api_url}/incidents?{query}",
            seconds=_REQUEST_S,
            headers={"Authorization": f"Token token={token}", "Accept": "application/vnd.pagerduty+json;version=2"},
            answer_bytes=_ANSWER_BYTES,
            **self._get_options(),
        )
        outcome = outcome_of_response(response, "", [token], server=SERVICE, accepted=_is_list)
        if isinstance(response, Retry) or not isinstance(outcome, Delivered):
            return outcome.reason if not isinstance(outcome, Delivered) else ""
        return state_of(response.json["incidents"])


def state_of(incidents: Sequence[dict[str, Any]]) -> IncidentState:
    """Returns the state of what the API lists for one key; a closed incident is not acknowledged."""
    acknowledged = [incident for incident in incidents if incident.get("status") == "acknowledged"]
    if not acknowledged or len(acknowledged) < len(incidents):
        return IncidentState(acknowledged=False)
    people = [
        (Millis(round(datetime.fromisoformat(each["at"]).timestamp() * 1000)), str(each["acknowledger"]["summary"]))
        for one in acknowledged
        for each in one.get("acknowledgements", ())
        if str(each["acknowledger"].get("type", "")).startswith("user")
    ]
    if not people:
        return IncidentState(acknowledged=True)
    at_ms, person = max(people)
    return IncidentState(acknowledged=True, person=shortened(visible(person), _MAX_NAME), at_ms=at_ms)


def _is_list(response: HttpResponse) -> bool:
    """Returns whether an answer is a list of incidents that can be read."""
    found = response.json if response.status == 200 else None
    if not isinstance(found, dict) or not isinstance(found.get("incidents"), list):
        return False
    try:
        state_of(found["incidents"])
    except (LookupError, TypeError, ValueError, AttributeError):
        return False
    return True
