"""Back-test: the alerts that the job would send for recorded observations, with any configuration.

The rows of a journal or of a log directory are applied by the same `ClusterMonitor` as in the job's processor, so the
alerts and their times are the job's. Sinks, routes and silences are not applied. The alerts of two configurations on
the same observations are compared: what is sent more, less, earlier or later.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import TypeAlias

from connectors.logdir.log_dir_files import find_partition, open_files
from connectors.logdir.log_dir_reader import read_log_dir
from connectors.metadata.batches import RecordBatch, scan
from connectors.metadata.record_framing import is_noop
from connectors.observations.observation import Observation, ObservationKind
from rules.alert import Alert, AlertState
from rules.finding import Plain
from rules.formatting import iso, ms_text, plural
from rules.model.identifiers import Millis
from streaming.query.recording import ReplayedJournal
from streaming.replay.cluster_monitor import ALWAYS

EVALUATE_BEFORE_MS = Millis(600_000)
"""Evaluation begins this long before the first time of interest, so that alerts that fired already are found."""


def back_test(
    read: Iterable[tuple[ReplayedJournal, Sequence[Alert]]], from_ms: Millis | None = None
) -> Iterator[Alert]:
    """Yields the alerts in the order in which the job would send them; those of a topic, partition by partition.

    Args:
        read: as `replayed` yields it.
        from_ms: only alerts from this time on; None: from the beginning.
    """
    for _, found in read:
        yield from (alert for alert in found if from_ms is None or alert.observed_at_ms >= from_ms)


def evaluation_start(from_ms: Millis | None) -> Millis:
    """Returns when the evaluation begins for alerts from a time on; None: from the beginning."""
    return ALWAYS if from_ms is None else Millis(from_ms - EVALUATE_BEFORE_MS)


QUIET_MS = 60_000
"""The longest time that one row of NoOp records covers: conditions that depend on time are evaluated as often."""


def log_dir_rows(folder: Path) -> Iterator[Observation]:
    """Yields what a gatherer would have recorded, had it followed the log from its beginning.

    The snapshot that the log continues comes first. Each batch is a row of its own, observed at the time of its newest
    record; batches that hold NoOp records only, as an idle controller writes them twice a second, are taken together
    for up to a minute.

    Raises:
        UsageError: there is no metadata log, or it cannot be read.
    """
    sequence = 0
    with open_files(find_partition(folder)) as files:
        for item in read_log_dir(files, folder.name):
            if not isinstance(item, Observation):
                continue
            for row in _rows(item):
                sequence += 1
                yield replace(row, sequence=sequence)


def _rows(read: Observation) -> Iterator[Observation]:
    if read.kind is not ObservationKind.RECORDS:
        yield read
        return

    def taken_together(batch: RecordBatch) -> tuple[bool, int]:
        quiet = is_noop(read.payload, batch)
        return quiet, batch.max_timestamp // QUIET_MS if quiet else batch.base_offset

    # The reader yields whole batches only.
    for _, batches in groupby((tail for tail in scan(read.payload) if isinstance(tail, RecordBatch)), taken_together):
        yield _row(read, [*batches])


def _row(read: Observation, batches: list[RecordBatch]) -> Observation:
    first, last = batches[0], batches[-1]
    return replace(
        read,
        observed_at_ms=max(batch.max_timestamp for batch in batches),
        base_offset=first.base_offset,
        last_offset=last.last_offset,
        leader_epoch=last.leader_epoch,
        payload=read.payload[first.position : last.end],
    )


Subject: TypeAlias = tuple[str, str, str]
"""Cluster, rule, subject."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertSpan:
    """One alert from its first notification to its resolution."""

    subject: Subject
    started_at_ms: Millis
    fired_at_ms: Millis
    resolved_at_ms: Millis | None
    """None: it still fires at the end."""

    def as_json(self) -> dict[str, Plain]:
        """Returns its fields, times in ISO 8601."""
        cluster, rule, subject = self.subject
        resolved = None if self.resolved_at_ms is None else iso(self.resolved_at_ms)
        return {
            "cluster": cluster,
            "rule": rule,
            "subject": subject,
            "started_at": iso(self.started_at_ms),
            "fired_at": iso(self.fired_at_ms),
            "resolved_at": resolved,
        }

    def overlaps(self, other: "AlertSpan") -> bool:
        """Whether both are about the same time."""
        ends = [firing.resolved_at_ms for firing in (self, other)]
        begins_before = ends[1] is None or self.started_at_ms <= ends[1]
        return begins_before and (ends[0] is None or other.started_at_ms <= ends[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertComparison:
    """The result: `now` is the first configuration, `then` the second."""

    notifications: tuple[int, int]
    """How many alerts are sent, resolutions included: now, then."""
    gone: tuple[AlertSpan, ...]
    """Alerts that would no longer be sent."""
    new: tuple[AlertSpan, ...]
    """Alerts that would be sent in addition."""
    delays_ms: tuple[tuple[Subject, Millis], ...]
    """For alerts that both send: how much later (or earlier, if negative) the second one sends them; 0 is left out."""

    def as_json(self) -> dict[str, Plain]:
        """Returns the fields of `replay --compare --json`."""
        now, then = self.notifications
        return {
            "notifications": now,
            "notifications_then": then,
            "gone": [firing.as_json() for firing in self.gone],
            "new": [firing.as_json() for firing in self.new],
            "delays": [
                {"cluster": cluster, "rule": rule, "subject": subject, "seconds": delay / 1000}
                for (cluster, rule, subject), delay in self.delays_ms
            ],
        }

    def sentences(self) -> Iterator[str]:
        """Yields the differences as sentences."""
        now, then = self.notifications
        if now != then:
            word = "fewer" if then < now else "more"
            yield f"{plural(abs(now - then), 'notification')} {word}: {then} instead of {now}"
        if self.gone:
            yield f"{plural(len(self.gone), 'alert')} would not be sent: {_listed(self.gone)}"
            longest = max(self.gone, key=_length_ms)
            yield f"the longest of them lasted {ms_text(_length_ms(longest))}"
        if self.new:
            yield f"{plural(len(self.new), 'alert')} would be sent in addition: {_listed(self.new)}"
        later = [delay for _, delay in self.delays_ms if delay > 0]
        earlier = [-delay for _, delay in self.delays_ms if delay < 0]
        for delays, word in ((later, "later"), (earlier, "earlier")):
            if delays:
                yield (
                    f"{plural(len(delays), 'alert')} would be sent {ms_text(Millis(min(delays)))} to "
                    f"{ms_text(Millis(max(delays)))} {word}"
                )
        if now == then and not (self.gone or self.new or self.delays_ms):
            yield "no difference: the same alerts at the same times"


def compare_alerts(now: Sequence[Alert], then: Sequence[Alert]) -> AlertComparison:
    """Compares the alerts of two back-tests of the same observations."""
    theirs = defaultdict(list)
    for firing in firings(then):
        theirs[firing.subject].append(firing)
    gone, delays = [], []
    for firing in firings(now):
        match = next((their for their in theirs[firing.subject] if their.overlaps(firing)), None)
        if match is None:
            gone.append(firing)
            continue
        theirs[firing.subject].remove(match)
        if match.fired_at_ms != firing.fired_at_ms:
            delays.append((firing.subject, Millis(match.fired_at_ms - firing.fired_at_ms)))
    return AlertComparison(
        notifications=(len(now), len(then)),
        gone=tuple(gone),
        new=tuple(one for remaining in theirs.values() for one in remaining),
        delays_ms=tuple(delays),
    )


def firings(alerts: Iterable[Alert]) -> tuple[AlertSpan, ...]:
    """Returns each alert once, from its first firing transition to its resolution, in order of the first one."""
    open_: dict[tuple[Subject, Millis], AlertSpan] = {}
    for alert in alerts:
        subject = (alert.cluster, alert.rule, alert.subject)
        key = (subject, alert.started_at_ms)
        fired_at_ms = open_[key].fired_at_ms if key in open_ else alert.observed_at_ms
        open_[key] = AlertSpan(
            subject=subject,
            started_at_ms=alert.started_at_ms,
            fired_at_ms=fired_at_ms,
            resolved_at_ms=alert.observed_at_ms if alert.state is AlertState.RESOLVED else None,
        )
    return tuple(open_.values())


def _length_ms(one: AlertSpan) -> Millis:
    return Millis((one.resolved_at_ms or one.fired_at_ms) - one.started_at_ms)


def _listed(found: Sequence[AlertSpan]) -> str:
    most = 5
    texts = [
        f"{rule} ({subject}) of {cluster}" for cluster, rule, subject in (firing.subject for firing in found[:most])
    ]
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return ", ".join(texts) + more
