"""The fleet: the newest portrait of every watched cluster, for whoever serves pages and metrics."""

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rules.finding import Plain
from rules.quorum import Millis


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One cluster's newest portrait."""

    portrait: Mapping[str, Plain]
    """The fields of `streaming.portrait`."""
    received_at_ms: Millis
    """The wall clock when its batch was delivered."""


class Fleet:
    """Written by the delivery of each batch, read by any thread."""

    def __init__(self, names: Sequence[str]) -> None:
        """`names` of all configured clusters, in their order: one that was never seen is shown as such."""
        self._lock = threading.Lock()
        self._names = tuple(names)
        self._seen: dict[str, Seen] = {}

    @property
    def names(self) -> Sequence[str]:
        """Every configured cluster, in the configuration's order."""
        return self._names

    def watch(self, names: Sequence[str]) -> None:
        """These clusters from now on: what was seen of others is forgotten."""
        with self._lock:
            self._names = tuple(names)
            self._seen = {name: seen for name, seen in self._seen.items() if name in names}

    def show(self, cluster: str, portrait: Mapping[str, Plain], *, at_ms: Millis) -> None:
        """Take a cluster's newest portrait."""
        with self._lock:
            if cluster in self._names:
                self._seen[cluster] = Seen(portrait=portrait, received_at_ms=at_ms)

    def seen(self, cluster: str) -> Seen | None:
        """The newest portrait; None while none came."""
        with self._lock:
            return self._seen.get(cluster)
