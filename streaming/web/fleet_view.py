"""All configured clusters as the page and the API show them."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from connectors.errors import UsageError
from rules.alert import Alert
from rules.model.identifiers import Millis
from rules.notifications.silence import Silence
from streaming.status.status_store import StatusStore
from streaming.web.cluster_view import ClusterView, worst_first
from streaming.web.past_states import PastStates
from streaming.web.past_view import past_view, with_known_events


@dataclass(frozen=True, kw_only=True)
class FleetView:
    """The status store and the silences."""

    store: StatusStore
    silences: Callable[[Millis], Sequence[Silence]] = lambda _: ()
    """Returns the silences; the argument is the wall clock."""
    now_ms: Callable[[], Millis] = lambda: Millis(time.time_ns() // 1_000_000)
    starting: Callable[[], bool] = lambda: False
    """Whether the job has not completed a batch yet."""
    past: PastStates | None = None
    """The past states; None: the timeline has no control."""

    def all(self) -> list[ClusterView]:
        """Returns every configured cluster, worst first."""
        delivery = self.store.delivery
        by_cluster: dict[str, list[Alert]] = {}
        for alert in delivery.history if delivery else ():
            by_cluster.setdefault(alert.cluster, []).append(alert)
        now_ms = self.now_ms()
        silences = self._silences(now_ms)
        return worst_first(self._view(name, now_ms, by_cluster.get(name, ()), silences) for name in self.store.names)

    def of(self, name: str) -> ClusterView | None:
        """Returns one cluster; None where none of that name is configured."""
        if name not in self.store.names:
            return None
        delivery, now_ms = self.store.delivery, self.now_ms()
        history = [alert for alert in delivery.history if alert.cluster == name] if delivery else ()
        return self._view(name, now_ms, history, self._silences(now_ms))

    def at(self, name: str, at_ms: Millis) -> tuple[ClusterView, ClusterView] | None:
        """Returns one cluster at a past time, and as it is now with all events of the journal that are known so far.

        None where no cluster of that name is configured.

        Raises:
            UsageError: that time is not held.
            ReplayingError: the journal is being replayed.
        """
        now = self.of(name)
        if now is None:
            return None
        if self.past is None:
            raise UsageError("this job shows no past states")
        past = self.past.at(name, at_ms)
        silences = [one for one in self.silences(at_ms) if one.active(at_ms) and fnmatchcase(name, one.cluster)]
        return past_view(replace(now, silences=silences), past, at_ms), with_known_events(now, past)

    def _silences(self, now_ms: Millis) -> Sequence[Silence]:
        return [one for one in self.silences(now_ms) if one.ends_at_ms > now_ms]

    def _view(self, name: str, now_ms: Millis, history: Sequence[Alert], silences: Sequence[Silence]) -> ClusterView:
        return ClusterView(
            name=name,
            now_ms=now_ms,
            received=self.store.newest(name),
            history=history,
            silences=[one for one in silences if fnmatchcase(name, one.cluster)],
            starting=self.starting(),
        )
