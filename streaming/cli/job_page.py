"""The page of a running job, `--job URL`: what the job knows of its clusters, to be continued or shown.

Only the newest state is read, by GET requests with the token of the page. No proxy's login page or foreign server is
taken for a job: the answer must be one of its API.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode

from connectors.errors import KraftwatchError, UsageError
from connectors.process.wall_clock import wall_ms
from connectors.settings.secret import Secret
from connectors.settings.sections import url_problem
from rules.formatting import utc_text
from rules.model.identifiers import Millis
from streaming.cli.output import print_progress

if TYPE_CHECKING:
    from streaming.query.past_replay import StoredCluster
    from streaming.query.recording import ReplayedJournal, SettingsOf
    from streaming.replay.cluster_settings import ClusterSettings
    from streaming.status.cluster_status import ClusterState

_REQUEST_S: Final = 10.0
_REPEAT_S: Final = 1.0
_REPLAYING_TIMES: Final = 6
"""While the job replays its journal, a request may take this many times the time limit."""
_OBSERVING_TIMES: Final = 2
"""The same until it has observed everything once: it probes every five seconds, and rows that change nothing wait."""
_REPORT_AFTER_S: Final = 2.0
_BYTES: Final = 256 << 20
"""Of a state, at most: that of millions of partitions."""


class JobPageError(KraftwatchError):
    """The page of the job does not answer as one, or not in time."""


class JobPage:
    """The page of one job."""

    def __init__(self, url: str, token_file: Path | None, *, timeout_s: float) -> None:
        """Connects to nothing yet.

        Args:
            url: of the page; a path of it, such as that of a proxy, is kept.
            token_file: a file with the page's token; None: it has none.
            timeout_s: how long a state may take.

        Raises:
            UsageError: the URL is none.
        """
        if (problem := url_problem(url)) is not None:
            raise UsageError(f"--job: {problem}")
        self.url = url.rstrip("/")
        self._token = None if token_file is None else Secret(file=token_file)
        self._timeout_s = timeout_s

    def cluster_ids(self) -> Mapping[str, str | None]:
        """Returns the cluster id of each cluster by its name; None where it is not known yet."""
        match self._get("/api/clusters"):
            case {"clusters": [*rows]} if all(isinstance(row, dict) and "name" in row for row in rows):
                return {str(row["name"]): row.get("cluster_id") for row in rows}
            case _:
                raise self._foreign()

    def stored(self, name: str) -> "StoredCluster":
        """Returns the newest state of a cluster, once the job has replayed its journal; prints what it waits for."""
        from pydantic import TypeAdapter, ValidationError

        from streaming.query.past_replay import StoredCluster

        answer = self._get(f"/api/recorded/{quote(name, safe='')}")
        try:
            return TypeAdapter(StoredCluster).validate_python(answer)
        except ValidationError:
            raise self._foreign() from None

    def states(self, settings_of: "SettingsOf") -> "Mapping[str, ReplayedJournal]":
        """Returns the states of the clusters that have settings, by the names in these."""
        found = {}
        for name in self.cluster_ids():
            if (settings := settings_of(name)) is not None:
                found[settings.name] = _restored(self.stored(name), settings)
        return found

    def current_states(self, names: Iterable[str]) -> "Sequence[ClusterState]":
        """Returns the states of clusters, each with what the job observes from now on, by its host's clock.

        What it knows already may be from before something that has just been done.
        """
        now_ms = self.now_ms()
        return [self._current(name, now_ms) for name in names]

    def restart(self, name: str, node: int, despite: str | None) -> Mapping[str, Any]:
        """Returns the job's answer whether a node may be restarted, by what it observes from now on."""
        since_ms, end = self.now_ms(), time.monotonic() + self._timeout_s * _OBSERVING_TIMES
        query = {"since": str(since_ms), **({} if despite is None else {"despite": despite})}
        path = f"/api/clusters/{quote(name, safe='')}/safe-to-restart/{node}?{urlencode(query)}"
        while True:
            answer = self._get(path)
            if not isinstance(answer, dict) or not {"safe", "reasons", "current"} <= answer.keys():
                raise self._foreign()
            if answer["current"] or answer["safe"] is False or time.monotonic() >= end:
                return answer
            time.sleep(_REPEAT_S)

    def now_ms(self) -> Millis:
        """Returns the time of its host's clock."""
        match self._get("/api/clusters"):
            case {"now_ms": int(now_ms)}:
                return Millis(now_ms)
            case _:
                raise self._foreign()

    def _current(self, name: str, since_ms: Millis) -> "ClusterState":

        began, said = time.monotonic(), ""
        while True:
            stored = self.stored(name)
            one = _restored(stored, stored.settings)
            state = _state(one, since_ms)
            decided = not state.missing or state.facts.leaderless is not None
            passed_s = time.monotonic() - began
            if (decided and one.newest_ms >= since_ms) or passed_s > self._timeout_s * _OBSERVING_TIMES:
                break
            if passed_s > _REPORT_AFTER_S and said != (said := ", ".join(state.missing)):
                print_progress(f"still waiting for what the job observes of {name}: {said}")
            time.sleep(_REPEAT_S)
        if one.newest_ms < since_ms:
            raise JobPageError(
                f"--job {self.url}: the job has recorded nothing of cluster {name} since {utc_text(one.newest_ms)}: "
                "its gatherer does not run"
            )
        return state

    def _get(self, path: str) -> Any:
        """Returns the JSON of an answer; while the job replays, it is asked again."""
        from connectors.sinks.http_request import get
        from connectors.sinks.sink import Retry

        headers = {} if self._token is None else {"Authorization": f"Bearer {self._token.read()}"}
        until, said = time.monotonic() + self._timeout_s * _REPLAYING_TIMES, ""
        while True:
            answer = get(self.url + path, seconds=_REQUEST_S, headers=headers, ca_file=None, answer_bytes=_BYTES)
            if isinstance(answer, Retry):
                raise JobPageError(f"--job {self.url}: {answer.reason}")
            body = answer.json
            status = str(body["status"]) if isinstance(body, dict) and isinstance(body.get("status"), str) else ""
            if answer.accepts and body is not None:
                return body
            if answer.status == 401:
                raise UsageError(f"--job {self.url}: the page needs its token: give --job-token-file FILE")
            if not status:
                raise self._foreign()
            if answer.status in {400, 404}:
                raise UsageError(f"--job {self.url}: {status}")
            if answer.status != 503 or time.monotonic() > until:
                raise JobPageError(f"--job {self.url}: {status}")
            if status != said:
                print_progress(f"waiting for the job: {status}")
                said = status
            time.sleep(_REPEAT_S)

    def _foreign(self) -> JobPageError:
        return JobPageError(f"--job {self.url}: the answer is not that of a job of this version: check the URL")


def _restored(stored: "StoredCluster", settings: "ClusterSettings") -> "ReplayedJournal":
    from streaming.query.recording import ReplayedJournal

    return ReplayedJournal.restored(stored.state, settings, stored.newest_ms)


def _state(one: "ReplayedJournal", since_ms: Millis) -> "ClusterState":
    from streaming.query.recording import missing_since
    from streaming.status.cluster_status import ClusterState

    return ClusterState(
        facts=one.monitor.facts,
        evaluation=one.monitor.evaluation(),
        thresholds=one.monitor.settings.thresholds,
        taken_at_ms=Millis(wall_ms()),
        queried_since_ms=since_ms,
        recorded_at_ms=one.newest_ms,
        missing=tuple(missing_since(one.machine, since_ms, log=one.monitor.settings.access.log)),
    )
