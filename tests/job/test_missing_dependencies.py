"""A job names what it waits for: at its start and while it runs, in /healthz, /metrics and on the terminal."""

import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from deploy.lab.addresses import Ports
from deploy.lab.lab import Lab
from tests.eventually import eventually
from tests.job.configured_job import ConfiguredJob, section
from tests.job.relay_process import RelayProcess
from tests.job.spark_cluster import assert_logged, start_java
from tests.sinks.server import HttpDouble
from tests.unit.streaming.metrics.exposition import Samples
from tests.unit.streaming.metrics.otlp_metrics import as_samples, metrics, received

pytestmark = [pytest.mark.lab, pytest.mark.live, pytest.mark.spark, pytest.mark.timeout(900)]

LAB = {"controllers": 1, "brokers": 0}


MISSING = ("dependency_missing", (("dependency", "topic"),))


def sent(receiver: HttpDouble) -> Samples:
    """Returns what the newest message by OTLP has."""
    return as_samples(metrics(received(receiver)[-1]))


def test_brokers_of_the_topic_that_are_away_are_named_and_awaited(
    lab: Lab, relay: RelayProcess, topic_lab: Lab, tmp_path: Path, webhook: HttpDouble
) -> None:
    job = ConfiguredJob(folder=tmp_path / "job", bootstrap=(), name="test")
    otlp = {"url": f"{webhook.url}/v1/metrics", "every": 1}
    job.write_config(clusters=[section("test", lab)], source="kafka", relay=relay.section, otlp=otlp)
    (broker,) = topic_lab.controllers
    topic_lab.pause(broker)
    with starting(job) as started:
        # Within seconds: the page is there before anything else, and a first attempt takes a quarter of a minute.
        eventually(lambda: healthz(job), within_s=15, every_s=0.2)
        eventually(lambda: assert_waits(job, "topic"), within_s=60)
        assert 'dependency_missing{dependency="topic"} 1' in page(job, "/metrics")
        eventually(lambda: sent(webhook)[MISSING] == 1, within_s=20)
        assert "Waiting" in page(job, "/")
        topic_lab.resume(broker)
        started()
        eventually(lambda: job.logged("monitoring test"), within_s=60)
        assert job.logged("topic: it is there again after ")
        assert healthz(job) == "ok"
        eventually(lambda: sent(webhook).get(("watchdog", ())) == 1, within_s=20)
        assert sent(webhook)[MISSING] == 0

        topic_lab.pause(broker)
        eventually(lambda: assert_waits(job, "topic"), within_s=30)
        topic_lab.resume(broker)
        eventually(lambda: assert_status(job, "ok"), within_s=60)
    assert "Traceback" not in job.log.read_text()


@pytest.mark.long
def test_a_spark_cluster_without_a_core_is_named_and_awaited(lab: Lab, tmp_path: Path) -> None:
    ports = Ports()
    port, page_port, worker_page = ports.claim(), ports.claim(), ports.claim()
    url = f"spark://127.0.0.1:{port}"
    job = ConfiguredJob(folder=tmp_path / "job", bootstrap=(), name="test")
    job.write_config(clusters=[section("test", lab)], master=url)
    master = ["org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port)]
    worker = ["org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", "--cores", "1", "--memory", "1g"]
    worker += ["--webui-port", str(worker_page), "--work-dir", str(tmp_path / "work"), url]
    with ExitStack() as stack, starting(job) as started:
        eventually(lambda: assert_status(job, "waiting for spark"), within_s=120)
        log = start_java(stack, tmp_path / "master", [*master, "--webui-port", str(page_port)])
        eventually(lambda: assert_logged(log, "I have been elected leader"), within_s=60)
        eventually(lambda: assert_status(job, "waiting for cores"), within_s=120)
        assert not job.logged("monitoring test")
        start_java(stack, tmp_path / "worker", worker)
        started()
        eventually(lambda: assert_status(job, "ok"), within_s=60)


@contextmanager
def starting(job: ConfiguredJob) -> Iterator[Callable[[], None]]:
    """Starts a job; yields a function that waits until it has started."""
    # `start` waits for the first batch.
    with ThreadPoolExecutor(1) as pool:
        starts = pool.submit(job.start)
        try:
            yield starts.result
        finally:
            job.stop()


def assert_waits(job: ConfiguredJob, name: str) -> None:
    assert_status(job, f"waiting for {name}")


def assert_status(job: ConfiguredJob, status: str) -> None:
    assert healthz(job) == status


def healthz(job: ConfiguredJob) -> str:
    answer: dict[str, Any] = json.loads(page(job, "/healthz"))
    return str(answer["status"])


def page(job: ConfiguredJob, path: str) -> str:
    try:
        with urllib.request.urlopen(f"http://{job.address}{path}", timeout=10) as answer:
            return str(answer.read().decode())
    except (urllib.error.URLError, ConnectionError, TimeoutError) as problem:
        raise AssertionError(str(problem)) from None
