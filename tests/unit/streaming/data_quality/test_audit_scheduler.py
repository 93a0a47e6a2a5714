"""The audit scheduler on a real journal: a separate process audits the newest rows, and its result is recorded."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from connectors.event import to_json
from connectors.journal.writer import JournalWriter
from connectors.observation import Observation, ObservationKind
from connectors.observation_event import ObservationFailed, ObservationsAudited
from rules.evaluate import thresholds_for
from rules.finding import Plain
from rules.model.monitoring import ObservationSource, Reason
from streaming.data_quality import audit_scheduler
from streaming.data_quality.audit_scheduler import AuditScheduler
from streaming.status.build_status import job_cluster_status
from streaming.status.status_json import status_json
from tests.eventually import eventually
from tests.unit.rules.situation import healthy

NOW = 1_800_000_000_000
LOOK = to_json(ObservationFailed(source=ObservationSource.LOG, endpoint="", reason=Reason.TIMED_OUT, detail=""))


@dataclass
class Job:
    """What the job passes to the scheduler."""

    folder: Path
    every_s: float = 0
    found: dict[str, ObservationsAudited] = field(default_factory=dict)

    def recorded(self, *rows: Observation) -> None:
        with JournalWriter(self.folder / "journal") as recorder:
            recorder.append(list(rows))
            recorder.publish()

    def statuses(self) -> Mapping[str, Mapping[str, Plain]]:
        return {name: status_json(job_cluster_status(healthy(), thresholds_for({}))) for name in ("prod", "well")}

    def scheduler(self) -> AuditScheduler:
        return AuditScheduler(
            journal=self.folder / "journal",
            ledger=self.folder / "ledger.jsonl",
            statuses=self.statuses,
            record=self.found.__setitem__,
            every_s=lambda: self.every_s,
        )


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path)


def row(cluster: str, kind: ObservationKind) -> Observation:
    return Observation(cluster=cluster, kind=kind, observed_at_ms=NOW, payload=LOOK)


def test_a_violation_is_reported_for_its_cluster_only(job: Job) -> None:
    job.recorded(
        row("prod", ObservationKind.FAILED), row("prod", ObservationKind.PROBE), row("well", ObservationKind.FAILED)
    )

    sample = job.scheduler()
    sample.audit()

    assert sample.failing is None
    assert (job.found["well"].broken, job.found["well"].rows) == ((), 3)
    (broken,) = job.found["prod"].broken
    assert (broken.contract, broken.rows, broken.sequence) == ("observation-is-of-its-kind", 1, 1)
    assert broken.example == "row 1, misfiled observation-failed"


def test_a_failed_audit_is_logged_and_raises_nothing(job: Job, caplog: pytest.LogCaptureFixture) -> None:
    sample = job.scheduler()
    sample.audit()

    assert sample.failing == "the audit of a sample failed: SubprocessError"
    assert "holds no journal" in caplog.text
    assert job.found == {}


def test_the_scheduler_stops_at_once_during_an_audit(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_scheduler, "_CHECK_S", 0.01)
    job.recorded(row("prod", ObservationKind.FAILED))
    job.every_s = 0.01

    with job.scheduler() as sample:
        eventually(lambda: sample.running, within_s=30)

    assert not sample.running
