"""`kraftwatch run` with an invalid checkpoint or cluster: one sentence, exit code 2. Failing DNS is no error."""

import subprocess
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from deploy.lab.addresses import Ports
from deploy.lab.lab import Lab
from streaming.demo.job_process import JobProcess
from streaming.pipeline.checkpoint import Checkpoint
from tests.eventually import eventually
from tests.job.configured_job import ConfiguredJob
from tests.job.conftest import assert_no_process_in, short_thresholds
from tests.job.job_state import wait_until_resolved

pytestmark = [pytest.mark.lab, pytest.mark.spark, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def lab(folder: Path) -> Iterator[Lab]:
    with Lab(folder / "lab", brokers=0, named=True) as lab:
        yield lab


@pytest.fixture(scope="module")
def job(folder: Path, lab: Lab) -> Iterator[JobProcess]:
    job = JobProcess(
        folder=folder / "job",
        name="test",
        bootstrap=lab.bootstrap,
        hosts_file=lab.hosts_file,
        settings=short_thresholds("monitor-blind", "stale-voter-endpoint"),
    )
    job.start()
    yield job
    job.stop()


def refusal_of_run(*arguments: str) -> str:
    """Returns the one sentence with which `kraftwatch run` refuses these arguments."""
    command = [sys.executable, "-m", "streaming", "run", *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert result.returncode == 2, result.stderr
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    (sentence,) = result.stderr.strip().splitlines()
    return sentence


_OF_SQLITE = (".db-shm", ".db-wal")


def hashes(folder: Path) -> dict[str, str]:
    """Returns the hash of each file of a checkpoint, without its logs and the files that SQLite makes to read.

    An ending Java still deletes files in the folder of the logs.
    """
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and folder / "log" not in path.parents)
    return {str(path): sha256(path.read_bytes()).hexdigest() for path in files if path.suffix not in _OF_SQLITE}


def test_checkpoint_in_use_is_refused(lab: Lab, job: JobProcess, tmp_path: Path) -> None:
    sentence = refusal_of_run(
        *["--cluster", f"test={','.join(lab.bootstrap)}", "--hosts-file", str(lab.hosts_file)],
        *["--checkpoint", str(job.checkpoint), "--sink", f"jsonl:{tmp_path / 'alerts'}"],
    )

    assert "is still in use after 10 s: another kraftwatch holds its lock" in sentence


@pytest.mark.long
def test_job_starts_while_no_controller_name_resolves(lab: Lab, job: JobProcess) -> None:
    since = len(job.alerts())
    names = [lab.node(node).host for node in lab.controllers]
    job.stop()
    lab.names.drop(*names)

    job.start()
    # The alert is a warning at first if the polls failed for longer than the reads of the log.
    job.wait_for("monitor-blind", severity="critical", since=since, within_s=180)
    stale = job.wait_for("stale-voter-endpoint", severity="critical", since=since, within_s=180)

    assert stale.line["evidence"]["probe_result"] == "the name does not resolve (NXDOMAIN)"
    lab.names.add(*names)
    wait_until_resolved(job, within_s=180)


@pytest.mark.long
def test_a_new_disk_watches_a_cluster_that_is_down_by_its_configured_id(folder: Path) -> None:
    """After an outage of the whole room: the monitor's disk is lost, and no controller is up yet."""
    job = ConfiguredJob(folder=folder / "new-disk", name="test", bootstrap=(f"127.0.0.1:{Ports().claim()}",))
    clusters = [{"name": "test", "cluster_id": "Zm9yLXRlc3RzLW9ubHkhIQ", "bootstrap": list(job.bootstrap)}]
    job.write_config(clusters=clusters, thresholds={"no-leader": {"hold": 2}})

    with job:
        alert = job.wait_for("no-leader", within_s=120)

    assert alert.line["cluster_id"] == "Zm9yLXRlc3RzLW9ubHkhIQ"


def test_checkpoint_of_another_cluster_is_refused(lab: Lab, job: JobProcess) -> None:
    job.stop()
    # An ending Java still deletes files.
    eventually(lambda: assert_no_process_in(job.folder), within_s=60)
    identity = job.checkpoint / "cluster.json"
    original = identity.read_text()
    Checkpoint(folder=job.checkpoint).record_cluster_ids({"test": "AnotherClusterIdXXXXXX"})
    before = hashes(job.checkpoint)

    sentence = refusal_of_run(
        *["--cluster", f"test={','.join(lab.bootstrap)}", "--hosts-file", str(lab.hosts_file)],
        *["--checkpoint", str(job.checkpoint), "--sink", f"jsonl:{job.jsonl}"],
    )

    assert (
        f"answers as cluster {lab.cluster_id}, but this checkpoint belongs to cluster AnotherClusterIdXXXXXX"
        in sentence
    )
    assert hashes(job.checkpoint) == before
    identity.write_text(original)


def test_checkpoint_without_its_journal_is_refused(lab: Lab, job: JobProcess) -> None:
    job.stop()
    journal = job.checkpoint / "journal"
    journal.rename(job.checkpoint / "kept")

    sentence = refusal_of_run(
        *["--cluster", f"test={','.join(lab.bootstrap)}", "--hosts-file", str(lab.hosts_file)],
        *["--checkpoint", str(job.checkpoint), "--sink", f"jsonl:{job.jsonl}"],
    )

    assert "has Spark's offsets but no journal/" in sentence
    assert not journal.exists()
