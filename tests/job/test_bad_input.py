"""What cannot be is refused with one sentence and exit code 2; what can be watched all the same is watched."""

import subprocess
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from deploy.lab.lab import Lab
from streaming.demo.job_process import JobProcess
from tests.eventually import eventually
from tests.job.conftest import holding, nobody_in
from tests.job.job_state import wait_until_resolved

pytestmark = [pytest.mark.lab, pytest.mark.spark, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def lab(folder: Path) -> Iterator[Lab]:
    with Lab(folder / "lab", brokers=0, named=True) as lab:
        yield lab


@pytest.fixture(scope="module")
def job(folder: Path, lab: Lab) -> Iterator[JobProcess]:
    job = JobProcess(
        folder=folder / "watch",
        name="test",
        bootstrap=lab.bootstrap,
        hosts_file=lab.hosts_file,
        settings=holding("monitor-blind", "stale-voter-endpoint"),
    )
    job.start()
    yield job
    job.stop()


def refused(*arguments: str) -> str:
    """The one sentence of a `run` that is refused."""
    command = [sys.executable, "-m", "streaming", "run", *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert ended.returncode == 2, ended.stderr
    assert ended.stdout == ""
    assert "Traceback" not in ended.stderr
    (sentence,) = ended.stderr.strip().splitlines()
    return sentence


def contents(folder: Path) -> dict[str, str]:
    """What a checkpoint remembers. Its logs are no memory: a Java that is still ending takes its files away there."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file() and folder / "log" not in path.parents)
    return {str(path): sha256(path.read_bytes()).hexdigest() for path in files}


def test_a_checkpoint_that_is_in_use(lab: Lab, job: JobProcess, tmp_path: Path) -> None:
    said = refused(
        *["--cluster", f"test={','.join(lab.bootstrap)}", "--hosts-file", str(lab.hosts_file)],
        *["--checkpoint", str(job.checkpoint), "--sink", f"jsonl:{tmp_path / 'alerts'}"],
    )

    assert "is still in use after 10 s: another kraftwatch holds its lock" in said


def test_the_dns_incident_does_not_kill_the_monitor(lab: Lab, job: JobProcess) -> None:
    since = len(job.alerts())
    names = [lab.node(node).host for node in lab.controllers]
    job.stop()
    lab.names.drop(*names)

    job.start()
    # Where the polls had failed for longer than the log it is a warning first.
    job.wait_for("monitor-blind", severity="critical", since=since, within_s=180)
    stale = job.wait_for("stale-voter-endpoint", severity="critical", since=since, within_s=180)

    assert stale.line["evidence"]["probe_result"] == "the name does not resolve (NXDOMAIN)"
    lab.names.add(*names)
    wait_until_resolved(job, within_s=180)


def test_another_cluster_at_the_same_address(lab: Lab, job: JobProcess) -> None:
    job.stop()
    # A Java that is still ending may yet tidy up.
    eventually(lambda: nobody_in(job.folder), within_s=60)
    identity = job.checkpoint / "cluster.json"
    true_identity = identity.read_text()
    identity.write_text('{"test": "AnotherClusterIdXXXXXX"}')
    before = contents(job.checkpoint)

    said = refused(
        *["--cluster", f"test={','.join(lab.bootstrap)}", "--hosts-file", str(lab.hosts_file)],
        *["--checkpoint", str(job.checkpoint), "--sink", f"jsonl:{job.jsonl}"],
    )

    assert f"answers as cluster {lab.cluster_id}, but this checkpoint belongs to cluster AnotherClusterIdXXXXXX" in said
    assert contents(job.checkpoint) == before
    identity.write_text(true_identity)


def test_a_restored_journal_that_spark_did_not_plan_on(lab: Lab, job: JobProcess) -> None:
    job.stop()
    journal = job.checkpoint / "journal"
    journal.rename(job.checkpoint / "kept")

    said = refused(
        *["--cluster", f"test={','.join(lab.bootstrap)}", "--hosts-file", str(lab.hosts_file)],
        *["--checkpoint", str(job.checkpoint), "--sink", f"jsonl:{job.jsonl}"],
    )

    assert "has Spark's offsets but no journal/" in said
    assert not journal.exists()
