"""Damaged files of a checkpoint: whoever reads them continues without them, or refuses them in one sentence.

SQLite has no checksums: a byte that changes inside a payload is found by the checksum of Kafka's batch, or not at all.
"""

import json
import shutil
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from random import Random

from connectors.delivery.ledger import Ledger
from connectors.errors import KraftwatchError
from connectors.gather.gatherer_stats import ClusterCounts, LoopCounts, WrittenStats, read_stats, write_stats
from connectors.gather.node_directory import stored_endpoints
from connectors.sinks.jsonl import JsonlSink
from connectors.store.audit_results import AuditResults
from connectors.store.collection import SilenceStore, quarantine_of
from connectors.store.journal_reader import JournalReader
from connectors.store.journal_writer import JournalWriter
from connectors.store.tables import job_database
from rules.model.identifiers import Millis
from rules.notifications.notification import Notification, NotifyReason
from rules.notifications.route import Silence
from streaming.metrics.batch_stats import BatchStats
from streaming.metrics.job_metrics import JobNow, JobSources, job_registry
from streaming.pipeline.checkpoint import Checkpoint
from streaming.status.status_store import StatusStore
from tests.hostile.byte_mutation import mutated
from tests.recordings import TWO_CLUSTERS, recorded_checkpoint
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, alert

_ONE = Notification(incident="i", reason=NotifyReason.FIRING, alerts=(alert(),), new_transitions=(alert(),))
_ROWS = TWO_CLUSTERS.observations()[:1]
_FILES = (
    *("cluster.json", "kraftwatch.db", "alerts.jsonl", "log/gather-stats.json"),
    *("journal/observations.db", "spark/metadata", "spark/offsets/1", "spark/offsets/2", "spark/commits/1"),
)


class DamagedCheckpoint:
    """A checkpoint with every file. Each case damages one file of a copy and reads all of them."""

    def __init__(self, folder: Path) -> None:
        self._original = recorded_checkpoint(folder / "original")
        self._copy = Checkpoint(folder=folder / "checkpoint")
        self._write_files()
        self._write_database()

    def _write_files(self) -> None:
        checkpoint = self._original
        JsonlSink(checkpoint.folder / "alerts.jsonl").send([_ONE], sent_at_ms=NOON_MS, deadline_s=1.0)
        checkpoint.logs.mkdir()
        counts = ClusterCounts(requests_sent=1, busiest_second=1, failed_observations={"log": {"refused": 1}})
        written = WrittenStats(
            at_ms=NOON_MS,
            cpu_s=1.2,
            rss_bytes=9,
            rows=4,
            publications=2,
            loop=LoopCounts(pid=1, turn_at_s=2.0, longest_stall_s=0.1),
            clusters={"prod": counts},
        )
        write_stats(checkpoint.logs / "gather-stats.json", written)
        offset = json.dumps({"journal": JournalReader(checkpoint.journal).journal_id, "sequence": 7})
        for name, lines in {
            "metadata": ['{"id":"0ba4334d-2055-4055-a778-43a26bc0a837"}'],
            "offsets/1": ["v1", '{"batchWatermarkMs":0,"batchTimestampMs":1,"conf":{}}', offset],
            "offsets/2": ["v1", '{"batchWatermarkMs":0,"batchTimestampMs":2,"conf":{}}', offset],
            "commits/1": ["v1", '{"nextBatchWatermarkMs":0}'],
        }.items():
            path = checkpoint.spark / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("\n".join(lines))

    def _write_database(self) -> None:
        silence = Silence(id="s-1", starts_at_ms=NOON_MS, ends_at_ms=Millis(NOON_MS + 1), author="ada", comment="disks")
        with closing(job_database(self._original.folder)) as database:
            SilenceStore(database).add(silence, now_ms=NOON_MS)
            Ledger(database).record([alert()], NOON_MS)
            quarantine_of(database).put({"prod-1-0": {"cluster": "prod", "sequence": 1, "reason": "r"}})

    def damage(self, rng: Random) -> str:
        """Damages one file and reads the checkpoint as the job, the page and the commands do."""
        folder = self._copy.folder
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self._original.folder, folder)
        path = folder / rng.choice(_FILES)
        match rng.randrange(10):
            case 0:
                path.unlink()
            case 1:
                path.write_bytes(b"")
            case 2:
                path.write_bytes((folder / rng.choice(_FILES)).read_bytes())
            case 3:
                path.write_bytes(rng.choice((b"null", b"[]", b"{}", b"0", b'"x"', b"[" * 100_000, b"\xff\xfe", b"\0")))
            case _:
                path.write_bytes(mutated(path.read_bytes(), rng, times=rng.choice((1, 1, 3))))
        refused = [self._refuses(read) for read in self._readers()]
        return "refused" if any(refused) else "read"

    def _refuses(self, read: Callable[[], object]) -> bool:
        try:
            read()
        except KraftwatchError as problem:
            assert "\n" not in str(problem), f"more than one line: {problem}"
            assert str(self._copy.folder) in str(problem), f"it does not name the file: {problem}"
            return True
        return False

    def _readers(self) -> list[Callable[[], object]]:
        checkpoint = self._copy
        stats = checkpoint.logs / "gather-stats.json"
        alerts = checkpoint.folder / "alerts.jsonl"
        return [
            checkpoint.cluster_ids,
            checkpoint.check_observations,
            lambda: checkpoint.why_no_state(1),
            self._read_database,
            self._read_metrics,
            self._read_journal,
            self._write_journal,
            self._read_journal,
            lambda: stored_endpoints(JournalReader(checkpoint.journal).endpoints().get("prod")),
            lambda: read_stats(stats),
            lambda: JsonlSink(alerts).send([_ONE], sent_at_ms=NOON_MS, deadline_s=1.0),
        ]

    def _read_database(self) -> None:
        with closing(job_database(self._copy.folder, read_only=True)) as database:
            Ledger(database)
            SilenceStore(database).read()
            quarantine_of(database).items()

    def _read_metrics(self) -> None:
        with closing(job_database(self._copy.folder, read_only=True)) as database:
            sources = JobSources(
                store=StatusStore(["prod"]),
                batch_stats=BatchStats(),
                journal=self._copy.journal,
                quarantine=quarantine_of(database),
                audits=AuditResults(database),
                stats=self._copy.logs / "gather-stats.json",
                now=partial(JobNow, is_alive=True, gatherer_runs=True, gatherer_pid=1, now_ms=NOON_MS),
            )
            list(job_registry(sources).collect())

    def _read_journal(self) -> None:
        reader = JournalReader(self._copy.journal)
        first = reader.first_sequence()
        for number, row in enumerate(reader.read(first, reader.published_end())):
            assert row.sequence == first + number, f"row {row.sequence} is not the next one"
            assert isinstance(row.cluster, str)
            assert isinstance(row.payload, bytes)

    def _write_journal(self) -> None:
        with JournalWriter(self._copy.journal, lock_timeout_s=0.1) as writer:
            writer.append(_ROWS)
            writer.publish()
