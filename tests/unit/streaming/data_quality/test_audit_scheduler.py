"""The sampler on a real journal: a process of its own holds the newest rows, and what it finds is handed on."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from connectors.event import Audited, ObservationFailed, to_json
from connectors.journal.writer import Recorder
from connectors.observation import Kind, Observation
from rules.evaluate import thresholds_for
from rules.finding import Plain
from rules.model.monitoring import ObservationSource, Reason
from streaming.data_quality import audit_scheduler
from streaming.data_quality.audit_scheduler import Sampler
from streaming.status.cluster_status import portrait
from tests.eventually import eventually
from tests.unit.rules.situation import healthy

NOW = 1_800_000_000_000
LOOK = to_json(ObservationFailed(sight=ObservationSource.LOG, endpoint="", reason=Reason.TIMED_OUT, detail=""))


@dataclass
class Job:
    """What a sampler is given by the job."""

    folder: Path
    every_s: float = 0
    found: dict[str, Audited] = field(default_factory=dict)

    def recorded(self, *rows: Observation) -> None:
        with Recorder(self.folder / "journal") as recorder:
            recorder.append(list(rows))
            recorder.publish()

    def portraits(self) -> Mapping[str, Mapping[str, Plain]]:
        return {name: portrait(healthy(), thresholds_for({})) for name in ("prod", "well")}

    def sampler(self) -> Sampler:
        return Sampler(
            journal=self.folder / "journal",
            ledger=self.folder / "ledger.jsonl",
            portraits=self.portraits,
            record=self.found.__setitem__,
            every_s=lambda: self.every_s,
        )


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path)


def row(cluster: str, kind: Kind) -> Observation:
    return Observation(cluster=cluster, kind=kind, observed_at_ms=NOW, payload=LOOK)


def test_what_a_sample_breaks_is_found_of_its_cluster_alone(job: Job) -> None:
    job.recorded(row("prod", Kind.UNSEEN), row("prod", Kind.PROBE), row("well", Kind.UNSEEN))

    sample = job.sampler()
    sample.audit()

    assert sample.failing is None
    assert (job.found["well"].broken, job.found["well"].rows) == ((), 3)
    (broken,) = job.found["prod"].broken
    assert (broken.contract, broken.rows, broken.sequence) == ("look-is-of-its-kind", 1, 1)
    assert broken.example == "row 1, misfiled unseen"


def test_an_audit_that_cannot_be_is_noted_and_raises_nothing(job: Job, caplog: pytest.LogCaptureFixture) -> None:
    sample = job.sampler()
    sample.audit()

    assert sample.failing == "the audit of a sample failed: SubprocessError"
    assert "holds no journal" in caplog.text
    assert job.found == {}


def test_it_ends_at_once_while_an_audit_runs(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_scheduler, "_LOOK_S", 0.01)
    job.recorded(row("prod", Kind.UNSEEN))
    job.every_s = 0.01

    with job.sampler() as sample:
        eventually(lambda: sample.running, within_s=30)

    assert not sample.running
