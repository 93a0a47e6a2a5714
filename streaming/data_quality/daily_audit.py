"""The job's audit: at most once a day a process of its own audits the newest rows, and its result is recorded.

No batch waits for it: the scheduler has its own thread, and only the process, which ends within seconds, loads Great
Expectations: `python -m streaming.data_quality.daily_audit` reads an `AuditSource` and prints an `AuditSample`.
"""

import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from pydantic import TypeAdapter

from connectors.errors import StoreError
from connectors.observations.observation import Observation, ObservationsAudited
from connectors.relay.relay_message import RecordedTopic
from connectors.store.audit_results import AuditResults, ContractResult
from connectors.store.journal_reader import JournalReader
from connectors.store.store_place import StorePlace
from connectors.wall_clock import wall_ms
from rules.model.identifiers import Millis
from streaming.replay.contract_violations import DECODES
from streaming.status.recording import JournalRecording

if TYPE_CHECKING:
    from streaming.data_quality.audit import Audit

log = logging.getLogger(__name__)

INTERVAL_S = 86_400.0
"""The shortest time between two audits, also across restarts."""
TIMEOUT_S = 3_600.0
"""An audit takes seconds, and at its low priority many minutes on a busy machine: a longer one hangs and is killed."""
SAMPLE_ROWS_MAX = 5_000
"""Newest rows of the journal in a sample: a quarter of an hour of one cluster, at five rows a second."""
_TOPIC_SAMPLE_MS = 300_000
"""Of a topic, the newest rows of this time are a sample, at most as many as of a journal."""
SAMPLE_ALERTS_MAX = 500
"""Newest alerts of the ledger in a sample."""
_REPORTED_MAX = 8
"""Most broken contracts of a cluster, the most severe first: its result must fit into one pipe write (4,096 bytes)."""
_NICE = 10
_CHECK_S = 60.0
"""Seconds between two checks whether the interval is over: a reload may change the interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditSource:
    """What the process reads. It is passed on its standard input: the store may have a password."""

    journal: Path
    """Of the gatherer; without one, what relays wrote to `topics` is audited."""
    store: StorePlace
    topics: tuple[RecordedTopic, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditSample:
    """What an audit of the newest rows found."""

    clusters: Mapping[str, ObservationsAudited]
    contracts: tuple[ContractResult, ...]


_SOURCE = TypeAdapter(AuditSource)
_SAMPLE = TypeAdapter(AuditSample)


class DailyAudit:
    """Starts audits at an interval while entered."""

    def __init__(
        self,
        folder: Path,
        *,
        source: Callable[[], AuditSource],
        record: Callable[[str, ObservationsAudited], None],
        results: AuditResults,
        every_s: Callable[[], float],
    ) -> None:
        """`record` records the result of a cluster in the journal; with an interval of 0 audits are off."""
        self._source = source
        self._newest = folder / "last-audit"
        """A file whose time is that of the last audit."""
        self._record = record
        self._results = results
        self._every_s = every_s
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="daily audit", daemon=True)

    def __enter__(self) -> Self:
        """Starts the thread; a new checkpoint is audited after one interval."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stops the thread; an audit that runs ends within seconds, and its result is dropped."""
        self._stopping.set()

    def audit(self) -> None:
        """Runs one audit, waits for it and records its result; an error is logged."""
        try:
            found = _SAMPLE.validate_json(self._output())
        except (OSError, ValueError, StoreError, subprocess.SubprocessError) as problem:
            log.warning("the daily audit failed: %s: %s", type(problem).__name__, problem)
            return
        if self._stopping.is_set():
            return
        for cluster, audited in found.clusters.items():
            self._record(cluster, audited)
        try:
            self._results.add(found.contracts)
        except StoreError as problem:
            log.warning("the results of the daily audit are not in the store: %s", problem)

    def due(self) -> bool:
        """Returns whether an audit is due, and if so begins the next interval."""
        every_s = self._every_s()
        if every_s == 0:
            return False
        known = self._newest.exists()
        if known and time.time() - self._newest.stat().st_mtime < max(every_s, INTERVAL_S):
            return False
        self._newest.touch()
        return known

    def _run(self) -> None:
        while not self._stopping.wait(_CHECK_S):
            with suppress(OSError):
                if self.due():
                    self.audit()

    def _output(self) -> bytes:
        source = _SOURCE.dump_json(self._source())
        command = [sys.executable, "-m", "streaming.data_quality.daily_audit"]
        done = subprocess.run(command, input=source, capture_output=True, timeout=TIMEOUT_S, check=False)
        if done.returncode:
            last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
            raise subprocess.SubprocessError(f"exit code {done.returncode}: {' '.join(last)[:300]}")
        return done.stdout


def audit_sample(source: AuditSource) -> AuditSample:
    """Evaluates every contract on a sample; JournalError without a journal, StoreError without the store."""
    # Imported here: only the process of an audit loads Great Expectations.
    from streaming.data_quality.audit import Audit
    from streaming.data_quality.suite_rows import ledger_alerts

    audit = Audit()
    extents = _audit_topics(audit, source) if source.topics else _audit_journal(audit, JournalReader(source.journal))
    audit.alerts([*ledger_alerts(source.store)][-SAMPLE_ALERTS_MAX:])
    # The replay itself reports what does not decode.
    violated = [one for one in audit.broken if one.contract.name != DECODES]
    clusters = {
        name: ObservationsAudited(
            rows=last - first + 1,
            first_sequence=first,
            last_sequence=last,
            broken=tuple(filter(None, (one.of(name) for one in violated)))[:_REPORTED_MAX],
        )
        for name, (first, last) in sorted(extents.items())
    }
    return AuditSample(clusters=clusters, contracts=tuple(audit.results(wall_ms())))


def _audit_journal(audit: "Audit", journal: JournalReader) -> Mapping[str, tuple[int, int]]:
    """Audits the newest rows; returns the first and the last sequence of the sample, by cluster."""
    end = journal.published_end()
    first = max(journal.first_sequence(), end - SAMPLE_ROWS_MAX)
    names = {row.cluster for row in journal.read(first, end)}
    audit.recording(journal.read(first, end), JournalRecording(journal, str(journal.directory)).restarts_logs)
    return dict.fromkeys(names, (first, end - 1))


def _audit_topics(audit: "Audit", source: AuditSource) -> Mapping[str, tuple[int, int]]:
    """Audits the newest rows; returns the first and the last sequence of the sample, by cluster."""
    # Imported here: a job that gathers needs no library of Kafka's for it.
    from connectors.relay.topic_recording import TopicRecording

    recorded = TopicRecording(source.topics)
    since_ms = Millis(recorded.newest_ms() - _TOPIC_SAMPLE_MS)
    rows: list[Observation] = []
    restarts: set[tuple[str, int]] = set()
    for row in recorded.rows(since_ms=since_ms):
        if row.observed_at_ms >= since_ms:
            rows.append(row)
            if recorded.restarts_logs(row):
                restarts.add((row.cluster, row.sequence))
    rows = sorted(rows, key=lambda row: row.observed_at_ms)[-SAMPLE_ROWS_MAX:]
    audit.recording(rows, lambda row: (row.cluster, row.sequence) in restarts)
    extents: dict[str, tuple[int, int]] = {}
    for row in rows:
        extents[row.cluster] = (extents.get(row.cluster, (row.sequence, 0))[0], row.sequence)
    return extents


if __name__ == "__main__":
    os.nice(_NICE)
    sys.stdout.buffer.write(_SAMPLE.dump_json(audit_sample(_SOURCE.validate_json(sys.stdin.buffer.read()))))
