"""The fleet: the newest portrait of every watched cluster and what was told, for whoever serves pages and metrics."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from connectors.delivery.dispatcher import Report, Tally
from rules.alert import Alert
from rules.finding import Plain
from rules.model.identifiers import Millis

EPISODES = 64
"""Recoveries that ended, the newest ones, that are remembered of each cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """A topic whose partitions were RECOVERING, and are no more."""

    topic: str | None
    topic_id: str
    since_ms: Millis
    """By the log's own time."""
    ended_ms: Millis
    """The cluster's own now when a portrait no longer had it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One cluster's newest portrait."""

    portrait: Mapping[str, Plain]
    """The fields of `streaming.status.cluster_status`."""
    received_at_ms: Millis
    """The wall clock when its batch was delivered."""
    recovered: tuple[Recovered, ...] = ()
    """Since this job started, oldest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What the newest delivery came to."""

    history: Sequence[Alert]
    """Every transition that the ledger remembers, of all clusters, oldest first."""
    sinks: Mapping[str, Tally]
    """By name: how the newest delivery went."""
    at_ms: Millis
    """The wall clock of the newest delivery."""


class Fleet:
    """Written by the delivery of each batch, read by any thread."""

    def __init__(self, names: Sequence[str]) -> None:
        """`names` of all configured clusters, in their order: one that was never seen is shown as such."""
        self._lock = threading.Lock()
        self._names = tuple(names)
        self._seen: dict[str, Seen] = {}
        self._told: Told | None = None

    @property
    def names(self) -> Sequence[str]:
        """Every configured cluster, in the configuration's order."""
        return self._names

    @property
    def told(self) -> Told | None:
        """What was told; None before the first delivery."""
        return self._told

    def watch(self, names: Sequence[str]) -> None:
        """These are the configured clusters from now on; what is known of one that stays is kept."""
        with self._lock:
            self._names = tuple(names)
            self._seen = {name: seen for name, seen in self._seen.items() if name in set(names)}

    def show(self, cluster: str, portrait: Mapping[str, Plain], *, at_ms: Millis) -> None:
        """Take a cluster's newest portrait."""
        with self._lock:
            before = self._seen.get(cluster)
            recovered = () if before is None else (*before.recovered, *_ended(before.portrait, portrait))
            self._seen[cluster] = Seen(portrait=portrait, received_at_ms=at_ms, recovered=recovered[-EPISODES:])

    def tell(self, report: Report, history: Callable[[], Sequence[Alert]], *, at_ms: Millis) -> None:
        """Take what a delivery came to; the history is asked for only when it grew."""
        before = self._told
        grew = before is None or report.recorded > 0
        self._told = Told(
            history=history() if grew or before is None else before.history, sinks=report.sinks, at_ms=at_ms
        )

    def portraits(self) -> Mapping[str, Mapping[str, Plain]]:
        """The newest portrait of each cluster that was seen."""
        with self._lock:
            return {name: seen.portrait for name, seen in self._seen.items()}

    def seen(self, cluster: str) -> Seen | None:
        """The newest portrait; None while none came."""
        with self._lock:
            return self._seen.get(cluster)


def _ended(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Recovered]:
    """The topics that are no longer in recovery; none where the log is not known, or too many to be all named."""
    still = {each["topic_id"] for each in after.get("recoveries") or ()}
    if after.get("recovering_partitions") is None:
        return []
    return [
        Recovered(
            topic=each["topic"],
            topic_id=each["topic_id"],
            since_ms=each["since_ms"],
            ended_ms=Millis(after["now_ms"]),
        )
        for each in before.get("recoveries") or ()
        if each["topic_id"] not in still
    ]
