"""Which of the alerts that were sent to it Alertmanager silences: its silences hold for the other sinks too.

An alert that Alertmanager has is silenced if it says so, whatever the matchers are. A restarted Alertmanager has its
silences and no alerts: what it silenced before stays silenced until it has received the alerts again. An alert that
begins during a silence may be sent to the other sinks before Alertmanager has it: for those the silences count whose
matchers are all equal to one of cluster, alertname, subject and severity.
"""

import glob
import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlencode

from connectors.errors import KraftwatchError
from connectors.process.wall_clock import wall_ms
from connectors.sinks.alertmanager.alert_list import unreadable
from connectors.sinks.following import FollowerThread
from connectors.sinks.http_request import HttpResponse
from connectors.sinks.sink import Retry
from rules.formatting import shortened, visible
from rules.model.identifiers import Millis
from rules.notifications.route import SilenceOfService

_LOG = logging.getLogger(__name__)
POLL_S: Final = 10.0
_LASTS_MS: Final = 300_000
"""How long a silence holds that cannot be read again, or whose alert Alertmanager no longer has: who ended it in
Alertmanager must not wait for ever."""
_MOST: Final = 1_000
_ALERTS: Final = "/api/v2/alerts?" + urlencode(
    {"active": "false", "silenced": "true", "inhibited": "false", "unprocessed": "false", "filter": 'incident=~".+"'}
)
_SILENCES: Final = "/api/v2/silences"
_PATTERNS: Final[Mapping[str, str]] = {
    "cluster": "cluster",
    "alertname": "rule",
    "subject": "subject",
    "severity": "severity",
}
"""The label of each pattern of a silence."""
_NAMING: Final = frozenset({"cluster", "cluster_id", "alertname"})
"""Labels that every alert of ours has."""


class SilencesPoll(FollowerThread):
    """Polls while the job follows."""

    def __init__(
        self, name: str, *, read: Callable[[str], HttpResponse | Retry], secrets: Callable[[], Sequence[str]]
    ) -> None:
        """`name` of the sink; `read` returns the answer to a GET of a path; `secrets`: what no text may contain."""
        super().__init__(name)
        self._read, self._secrets = read, secrets
        self._failing = False
        self._silenced: dict[tuple[tuple[str, str], ...], tuple[str, Millis]] = {}
        """By the labels of an alert: the silence that applied to it, and when Alertmanager had it last."""

    def _run(self, ended: threading.Event) -> None:
        while not ended.is_set():
            self.poll()
            ended.wait(POLL_S)

    def poll(self) -> None:
        """Reads the silences once; a failure changes nothing."""
        responses = self._responses
        if responses is None:
            return
        try:
            silences, alerts = (self._list(path) for path in (_SILENCES, _ALERTS))
            now_ms = wall_ms()
            found = [*self._silences(silences, alerts, now_ms)][:_MOST]
        except _UnreadableError as problem:
            self._report(str(problem))
        except (LookupError, TypeError, ValueError, AttributeError, OverflowError):
            self._report("the answer is not Alertmanager's")
        except KraftwatchError as problem:
            self._report(str(problem))
        else:
            self._failing = False
            responses.silenced_there(self._name, found)

    def _silences(self, silences: Sequence[Any], alerts: Sequence[Any], now_ms: Millis) -> Iterator[SilenceOfService]:
        active = {str(silence["id"]): silence for silence in silences if silence["status"]["state"] == "active"}
        for one in active.values():
            labels = {each["name"]: each["value"] for each in one["matchers"] if _is_equality(each)}
            if labels and len(labels) == len(one["matchers"]) and labels.keys() <= _PATTERNS.keys():
                yield _silence(one, labels, now_ms)
        for alert in alerts:
            by = [id_ for id_ in alert["status"]["silencedBy"] if id_ in active]
            # An alert of another program may lack these labels: without a pattern, all alerts would be silenced.
            if by and alert["labels"].keys() >= _NAMING:
                self._silenced[tuple(sorted(alert["labels"].items()))] = by[0], now_ms
        self._silenced = {
            labels: (id_, at_ms)
            for labels, (id_, at_ms) in self._silenced.items()
            if id_ in active and now_ms - at_ms < _LASTS_MS
        }
        for alert_labels, (id_, _) in self._silenced.items():
            yield _silence(active[id_], dict(alert_labels), now_ms)

    def _report(self, problem: str) -> None:
        if not self._failing:
            _LOG.warning("sink %s: silences in Alertmanager cannot be read: %s", self._name, problem)
        self._failing = True

    def _list(self, path: str) -> Sequence[Any]:
        response = self._read(path)
        problem = unreadable(response, "", self._secrets())
        if problem is not None or not isinstance(response, HttpResponse) or not isinstance(response.json, list):
            raise _UnreadableError(problem or "the answer is not Alertmanager's")
        return response.json


class _UnreadableError(Exception):
    """Why a list cannot be read, without a secret."""


def _is_equality(matcher: Mapping[str, Any]) -> bool:
    return not matcher["isRegex"] and matcher.get("isEqual", True)


def _silence(one: Mapping[str, Any], labels: Mapping[str, str], now_ms: Millis) -> SilenceOfService:
    ends_ms, starts_ms = (
        round(datetime.fromisoformat(one[each]).timestamp() * 1000) for each in ("endsAt", "startsAt")
    )
    patterns = {pattern: glob.escape(labels[label]) for label, pattern in _PATTERNS.items() if label in labels}
    return SilenceOfService(
        id=str(one["id"]),
        **patterns,
        starts_at_ms=Millis(min(starts_ms, now_ms)),
        ends_at_ms=Millis(min(ends_ms, now_ms + _LASTS_MS)),
        author=f"Alertmanager ({shortened(visible(str(one['createdBy'])), 80)})",
        comment=shortened(visible(str(one["comment"])), 300),
    )
