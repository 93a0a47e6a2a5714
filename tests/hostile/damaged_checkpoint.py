"""Damaged files of a checkpoint: whoever reads them continues without them, or refuses them in one sentence."""

import json
from collections.abc import Callable
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
from connectors.store.tables import job_database
from rules.model.identifiers import Millis
from rules.notifications.notification import Notification, NotifyReason
from rules.notifications.route import Silence
from streaming.metrics.batch_stats import BatchStats
from streaming.metrics.job_metrics import JobSources, job_registry
from streaming.pipeline.checkpoint import Checkpoint
from streaming.status.status_store import StatusStore
from tests.hostile.byte_mutation import mutated
from tests.recordings import recorded_checkpoint
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, alert

_ONE = Notification(incident="i", reason=NotifyReason.FIRING, alerts=(alert(),), new_transitions=(alert(),))
_FILES = (
    *("cluster.json", "kraftwatch.db", "alerts.jsonl", "log/gather-stats.json"),
    *("journal/observations.db", "spark/metadata", "spark/offsets/1", "spark/offsets/2", "spark/commits/1"),
)


class DamagedCheckpoint:
    """A checkpoint with every file. Each case damages one file and reads all of them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "checkpoint"
        checkpoint = recorded_checkpoint(self._folder)
        self._write_others(checkpoint)
        offset = json.dumps({"journal": JournalReader(checkpoint.journal).journal_id, "sequence": 7})
        self._write_spark(checkpoint, offset)
        self._write_database()
        self._original = {name: (self._folder / name).read_bytes() for name in _FILES}
        store, stats = StatusStore(["prod"]), BatchStats(firing=list)
        sources = JobSources(
            store=store,
            batch_stats=stats,
            is_alive=lambda: True,
            gatherer_runs=lambda: True,
            gatherer_pid=lambda: 1,
            journal=checkpoint.journal,
            quarantine=quarantine_of(job_database(self._folder, read_only=True)),
            audits=AuditResults(job_database(self._folder, read_only=True)),
            stats=self._folder / "log" / "gather-stats.json",
            wall_ms=lambda: NOON_MS,
        )
        self._metrics = job_registry(sources)
        self._checkpoint = checkpoint

    def _write_others(self, checkpoint: Checkpoint) -> None:
        JsonlSink(self._folder / "alerts.jsonl").send([_ONE], sent_at_ms=NOON_MS, deadline_s=1.0)
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

    def _write_spark(self, checkpoint: Checkpoint, offset: str) -> None:
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
        database = job_database(self._folder)
        silence = Silence(id="s-1", starts_at_ms=NOON_MS, ends_at_ms=Millis(NOON_MS + 1), author="ada", comment="disks")
        SilenceStore(database).add(silence, now_ms=NOON_MS)
        Ledger(database).record([alert()], NOON_MS)
        quarantine_of(database).put({"prod-1-0": {"cluster": "prod", "sequence": 1, "reason": "r"}})
        database.close()

    def _read_database(self) -> None:
        database = job_database(self._folder, read_only=True)
        try:
            Ledger(database)
            SilenceStore(database).read()
            quarantine_of(database).items()
        finally:
            database.close()

    def damage(self, rng: Random) -> str:
        """Damages one file and reads the checkpoint as the job, the page and the commands do."""
        name = rng.choice(_FILES)
        path = self._folder / name
        match rng.randrange(8):
            case 0:
                path.write_bytes(b"")
            case 1:
                path.write_bytes(rng.choice((b"null", b"[]", b"{}", b"0", b'"x"', b"[" * 100_000, b"\xff\xfe", b"\0")))
            case _:
                path.write_bytes(mutated(self._original[name], rng, times=rng.choice((1, 1, 3))))
        try:
            refused = [self._refuses(read) for read in self._readers(rng)]
        finally:
            path.write_bytes(self._original[name])
        return "refused" if any(refused) else "read"

    def _refuses(self, read: Callable[[], object]) -> bool:
        try:
            read()
        except KraftwatchError as problem:
            assert "\n" not in str(problem), f"more than one line: {problem}"
            assert str(self._folder) in str(problem), f"it does not name the file: {problem}"
            return True
        return False

    def _readers(self, rng: Random) -> list[Callable[[], object]]:
        checkpoint = self._checkpoint
        stats = self._folder / "log" / "gather-stats.json"

        def write_alert() -> None:
            sink = JsonlSink(self._folder / "alerts.jsonl")
            if rng.randrange(4) == 0:
                sink.send([_ONE], sent_at_ms=Millis(NOON_MS), deadline_s=1.0)

        return [
            checkpoint.cluster_ids,
            checkpoint.check_journal,
            checkpoint.check_spark,
            self._read_database,
            lambda: stored_endpoints(JournalReader(checkpoint.journal).endpoints().get("prod")),
            lambda: read_stats(stats),
            lambda: list(self._metrics.collect()),
            write_alert,
        ]
