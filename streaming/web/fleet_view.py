"""The dossiers of all watched clusters: where the page and its JSON get what they show."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from rules.alert import Alert
from rules.model.identifiers import Millis
from rules.notifications.silence import Silence
from streaming.status.status_store import Fleet
from streaming.web.cluster_view import Dossier, worst_first


@dataclass(frozen=True, kw_only=True)
class Dossiers:
    """The fleet, and what of it is silenced."""

    fleet: Fleet
    silences: Callable[[Millis], Sequence[Silence]] = lambda _: ()
    """What is silenced, asked with the wall clock."""
    now_ms: Callable[[], Millis] = lambda: Millis(time.time_ns() // 1_000_000)

    def all(self) -> list[Dossier]:
        """Every configured cluster, the worst first."""
        told = self.fleet.told
        by_cluster: dict[str, list[Alert]] = {}
        for alert in told.history if told else ():
            by_cluster.setdefault(alert.cluster, []).append(alert)
        now_ms = self.now_ms()
        silences = self._silences(now_ms)
        return worst_first(self._dossier(name, now_ms, by_cluster.get(name, ()), silences) for name in self.fleet.names)

    def of(self, name: str) -> Dossier | None:
        """One configured cluster; None where there is none of that name."""
        if name not in self.fleet.names:
            return None
        told, now_ms = self.fleet.told, self.now_ms()
        history = [alert for alert in told.history if alert.cluster == name] if told else ()
        return self._dossier(name, now_ms, history, self._silences(now_ms))

    def _silences(self, now_ms: Millis) -> Sequence[Silence]:
        return [one for one in self.silences(now_ms) if one.ends_at_ms > now_ms]

    def _dossier(self, name: str, now_ms: Millis, history: Sequence[Alert], silences: Sequence[Silence]) -> Dossier:
        return Dossier(
            name=name,
            now_ms=now_ms,
            seen=self.fleet.seen(name),
            history=history,
            silences=[one for one in silences if fnmatchcase(name, one.cluster)],
        )
