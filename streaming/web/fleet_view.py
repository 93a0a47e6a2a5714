"""All configured clusters as the page and the API show them, now and at the time of the parameter `at`."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from flask import request

from connectors.errors import UsageError
from connectors.observations.point_in_time import parse_time
from connectors.process.wall_clock import wall_ms
from rules.alert import Alert, AlertState
from rules.formatting import LATEST_MS
from rules.model.identifiers import Millis
from rules.notifications.acknowledgement import Acknowledgement
from rules.notifications.route import Silence
from streaming.query.past_replay import PastState
from streaming.status.event_history import event_key
from streaming.status.health import Health
from streaming.status.status_store import StatusStore
from streaming.web.api_objects import FleetObject
from streaming.web.cluster_view import ClusterView, worst_first
from streaming.web.past_states import PastStates

NO_CLUSTER = {"status": "no cluster of that name is configured"}


@dataclass(frozen=True, kw_only=True)
class FleetView:
    """The status store and the silences."""

    store: StatusStore
    silences: Callable[[Millis], Sequence[Silence]] = lambda _: ()
    """Returns the silences; the argument is the wall clock."""
    acknowledgements: Callable[[], Sequence[Acknowledgement]] = tuple
    now_ms: Callable[[], Millis] = wall_ms
    starting: Callable[[], bool] = bool
    """Returns whether the job has not completed a batch yet."""
    past: PastStates | None = None
    """The past states; None: the timeline has no control."""
    changeable: bool = False
    """Whether the page offers to acknowledge and to silence."""
    missing: Callable[[], Sequence[str]] = tuple
    """Returns why the job waits, a sentence for each thing that is missing."""

    def all(self) -> list[ClusterView]:
        """Returns every configured cluster, worst first."""
        return worst_first(self._views().values())

    def firing(self) -> Sequence[Alert]:
        """Returns the newest transition of each firing alert, of all clusters and of the job."""
        delivery = self.store.delivery
        newest = {alert.fingerprint: alert for alert in (delivery.history if delivery else ())}
        return [alert for alert in newest.values() if alert.state is AlertState.FIRING]

    def requested(self, name: str) -> tuple[ClusterView, ClusterView, Millis | None] | None:
        """Returns one cluster as of the parameter `at`, the cluster whose events the timeline shows, and that time.

        The timeline of a past state shows the present cluster with all events of the journal that are known so far.
        Without the parameter both are the present cluster. None where no cluster of that name is configured.

        Raises:
            UsageError: the parameter is no time, or that time is not held.
            ReplayingError: the journal is being replayed.
        """
        now = self._views().get(name)
        at_ms = None if now is None else time_parameter("at")
        if now is None or at_ms is None:
            return None if now is None else (now, now, None)
        if self.past is None:
            raise UsageError("this job shows no past states")
        past = self.past.at(name, at_ms)
        silences = [
            silence for silence in self.silences(at_ms) if silence.active(at_ms) and fnmatchcase(name, silence.cluster)
        ]
        history = [alert for alert in now.history if alert.observed_at_ms <= at_ms]
        then = replace(now, now_ms=at_ms, received=past.shown, history=history, silences=silences, acknowledgements=())
        return then, _with_known_events(now, past), at_ms

    def present(self, name: str) -> ClusterView | None:
        """Returns one cluster now; None where no cluster of that name is configured."""
        return self._views().get(name)

    def _views(self) -> dict[str, ClusterView]:
        delivery, now_ms = self.store.delivery, self.now_ms()
        histories: dict[str, list[Alert]] = {}
        for alert in delivery.history if delivery else ():
            histories.setdefault(alert.cluster, []).append(alert)
        silences = [silence for silence in self.silences(now_ms) if silence.ends_at_ms > now_ms]
        acknowledgements = [
            acknowledgement for acknowledgement in self.acknowledgements() if acknowledgement.active(now_ms)
        ]
        return {
            name: ClusterView(
                name=name,
                now_ms=now_ms,
                received=self.store.newest(name),
                history=histories.get(name, ()),
                silences=[silence for silence in silences if fnmatchcase(name, silence.cluster)],
                acknowledgements=acknowledgements,
                starting=self.starting(),
            )
            for name in self.store.names
        }


def time_parameter(name: str) -> Millis | None:
    """Returns a parameter that is a time, ISO 8601 or milliseconds; None without it, UsageError if it is neither."""
    text = request.args.get(name, "").strip()
    if not text:
        return None
    digits = text.isascii() and text.isdigit() and len(text) < 16
    try:
        at_ms = Millis(int(text)) if digits else parse_time(text)
    except ValueError:
        at_ms = Millis(-1)
    if not 0 <= at_ms <= LATEST_MS:
        raise UsageError(f"{name}={text[:64]}: expected a time such as 2026-11-20T08:15:00Z, or milliseconds")
    return at_ms


def _with_known_events(now: ClusterView, past: PastState) -> ClusterView:
    """Returns the present cluster with the events that the journal and the present status hold, for the timeline."""
    if now.received is None:
        return replace(now, received=replace(past.shown, status=past.events, ended_recoveries=()))
    older, newer = past.events, now.received.status
    merged: dict[str, Any] = {}
    for name in ("elections", "voter_changes", "starts", "unclean"):
        merged[name] = tuple({event_key(one): one for one in (*getattr(older, name), *getattr(newer, name))}.values())
    return replace(now, received=replace(now.received, status=replace(newer, **merged)))


def fleet_json(view: FleetView) -> FleetObject:
    """Returns the fields of `/api/clusters`."""
    every, delivery, engine = view.all(), view.store.delivery, view.store.engine
    counts = Counter(one.health for one in every)
    return {
        "now_ms": view.now_ms(),
        "counts": {health: counts[health] for health in Health},
        "clusters": [one.row_json() for one in every],
        "delivered_at_ms": delivery.at_ms if delivery else None,
        "sinks": [
            {
                "name": name,
                "pending": result.pending,
                "silenced": result.silenced,
                "failing": result.failing,
                "set_aside": result.set_aside,
            }
            for name, result in (delivery.sinks.items() if delivery else ())
        ],
        "engine": None if engine is None else engine.name.value,
        "engine_since_ms": None if engine is None else engine.since_ms,
    }
