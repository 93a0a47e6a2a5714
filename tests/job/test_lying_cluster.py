"""Three real clusters; a controller that lies replaces one of them: the alerts of the others arrive as before."""

import contextlib
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.lab.lab import Lab
from streaming.demo.job_process import AlertLine
from tests.eventually import eventually
from tests.job.configured_job import ConfiguredJob, section
from tests.unit.connectors.kafka.fake_node import FakeNode
from tests.unit.connectors.kafka.lying_node import LARGEST, LIES, controller

pytestmark = [pytest.mark.lab, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(3_600)]

HOLDS = {"broker-fenced": {"hold": 1, "clear": 1}, "monitor-blind": {"hold": 5, "clear": 3}}
PROPERTIES = {"broker.session.timeout.ms": "3000"}
HONEST = ("first", "second")
WITHIN_S = 60
ROUNDS = 2
MEMORY_MB = 300


@pytest.fixture(scope="module")
def labs(folder: Path) -> Iterator[dict[str, Lab]]:
    with contextlib.ExitStack() as stack:
        honest = {name: Lab(folder / name, controllers=1, brokers=1, properties=PROPERTIES) for name in HONEST}
        labs = honest | {"replaced": Lab(folder / "replaced", controllers=1, brokers=0)}
        yield {name: stack.enter_context(lab) for name, lab in labs.items()}


@pytest.fixture(scope="module")
def job(folder: Path, labs: dict[str, Lab]) -> Iterator[ConfiguredJob]:
    job = ConfiguredJob(folder=folder / "job", bootstrap=())
    job.write_config(clusters=[section(name, lab) for name, lab in labs.items()], thresholds=HOLDS)
    with job:
        yield job


def detection_s(job: ConfiguredJob, labs: dict[str, Lab]) -> list[float]:
    """Pauses the brokers of the honest clusters in turn; returns the seconds until each alert was written."""
    found = []
    for name in HONEST * ROUNDS:
        since = len(job.alerts())
        began = time.time()
        labs[name].pause(*labs[name].brokers)
        found.append(written(job, name, "firing", since).sent_at - began)
        labs[name].resume(*labs[name].brokers)
        written(job, name, "resolved", since)
    return found


def written(job: ConfiguredJob, cluster: str, state: str, since: int, *, rule: str = "broker-fenced") -> AlertLine:
    def line() -> AlertLine:
        lines = [each for each in job.alerts()[since:] if (each.rule, each.state) == (rule, state)]
        found = [each for each in lines if each.line["cluster"] == cluster]
        assert found, f"no {rule} of {cluster} is {state}"
        return found[0]

    return eventually(line, within_s=WITHIN_S)


def health(job: ConfiguredJob) -> str:
    try:
        with urllib.request.urlopen(f"http://{job.address}/healthz", timeout=10) as answer:
            return str(answer.read().decode())
    except urllib.error.HTTPError as problem:
        return str(problem.read().decode())


def gatherer_mb(job: ConfiguredJob) -> int:
    """Returns the largest size that a gatherer of the job has had."""
    sizes: list[int] = []
    for status in Path("/proc").glob("[0-9]*/status"):
        with contextlib.suppress(OSError, ValueError):
            command = (status.parent / "cmdline").read_bytes()
            folder = (status.parent / "cwd").readlink()
            if b"connectors.gather" in command and folder == job.folder:
                peak = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
                sizes.append(int(peak.split()[1]) // 1024)
    return max(sizes)


@pytest.mark.parametrize("lie", [*LIES, "largest-answers"])
def test_other_clusters_are_monitored_while_one_lies(lie: str, job: ConfiguredJob, labs: dict[str, Lab]) -> None:
    liar = labs["replaced"]
    port = int(liar.bootstrap[0].rpartition(":")[2])
    honest = detection_s(job, labs)
    idle_mb = gatherer_mb(job)
    since = len(job.alerts())
    liar.stop(*liar.controllers)
    try:
        with FakeNode(controller(LARGEST) if lie == "largest-answers" else LIES[lie]).up(port):
            if lie != "largest-answers":
                written(job, "replaced", "firing", since, rule="monitor-blind")
            lied_to = detection_s(job, labs)
            assert "ok" in health(job)
    finally:
        liar.start(*liar.controllers)
    assert gatherer_mb(job) < idle_mb + MEMORY_MB
    print(f"{lie}: {max(honest):.2f} s before, {max(lied_to):.2f} s beside the lie")  # noqa: T201
    eventually(lambda: assert_recovered(job, since), within_s=WITHIN_S)


def assert_recovered(job: ConfiguredJob, since: int) -> None:
    firing = {(each.line["cluster"], each.rule) for each in job.firing() if each.rule in HOLDS}
    assert firing == set()
