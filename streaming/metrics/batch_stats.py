"""The witness: what the job notes of its own work as it goes, for /metrics to tell."""

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import Histogram

from connectors.delivery.dispatcher import Report, Tally
from rules.alert import Alert
from streaming.metrics.metric import PREFIX
from streaming.metrics.rates import Pace

BATCH_DURATION = PREFIX + "batch_duration_seconds"
DURATION_WORDS = "How long a micro-batch took, from Spark's call to the end of delivery."
_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """One micro-batch that was delivered."""

    took_s: float
    """From Spark's call to our answer: the plan of the batch, delivery and all."""
    portraits: Mapping[str, Mapping[str, Any]]
    """By cluster."""
    quarantined: Mapping[str, int]
    """By cluster: what did not decode."""
    report: Report


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """Everything noted so far, at one moment."""

    batches: int = 0
    quarantined: Mapping[str, int] = field(default_factory=dict)
    """By cluster, since the job started."""
    sinks: Mapping[str, Tally] = field(default_factory=dict)
    """Of the newest delivery."""
    told: Mapping[tuple[str, ...], int] = field(default_factory=dict)
    """By sink and outcome, since the job started."""
    firing: Sequence[Alert] | None = None
    """After the newest batch; None before the first."""
    paces: Mapping[str, Pace] = field(default_factory=dict)
    """By cluster."""


class Witness:
    """Told by the thread that delivers, read by any."""

    def __init__(self, *, firing: Callable[[], Sequence[Alert]]) -> None:
        """`firing` is asked at the end of each batch, in the thread that delivers: the ledger is its alone."""
        self._firing = firing
        self._lock = threading.Lock()
        self._noted = Noted()
        self.durations = Histogram(
            BATCH_DURATION,
            DURATION_WORDS,
            buckets=_BUCKETS,
            registry=None,
        )

    @property
    def noted(self) -> Noted:
        """What was noted up to now."""
        with self._lock:
            return self._noted

    def take(self, batch: Batch) -> None:
        """Note a batch that was delivered."""
        before = self.noted
        paces = dict(before.paces)
        for cluster, portrait in batch.portraits.items():
            paces.setdefault(cluster, Pace()).take(portrait)
        told = dict(before.told)
        for sink, tally in batch.report.sinks.items():
            for outcome, number in (
                ("delivered", tally.delivered),
                ("retry", tally.retry),
                ("rejected", tally.rejected),
            ):
                told[sink, outcome] = told.get((sink, outcome), 0) + number
        noted = Noted(
            batches=before.batches + 1,
            quarantined=Counter(before.quarantined) + Counter(batch.quarantined),
            sinks=batch.report.sinks,
            told=told,
            firing=self._firing(),
            paces=paces,
        )
        self.durations.observe(batch.took_s)
        with self._lock:
            self._noted = noted
