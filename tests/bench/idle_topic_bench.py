"""The idle job on a relay's topic: CPU, memory and micro-batches over one minute, with a real quorum."""

import tempfile
import time
from pathlib import Path
from typing import Any

from deploy.lab.lab import Lab
from tests.bench.idle_bench import MEASURED_S, WARM_UP_S
from tests.bench.job_cost import JobCost
from tests.job.configured_job import ConfiguredJob, section
from tests.job.relay_process import RelayProcess


def figures() -> dict[str, Any]:
    """Returns CPU in percent of a core and memory in MB, of the job and by process, and micro-batches a second."""
    with (
        tempfile.TemporaryDirectory(prefix="kraftwatch-bench-", ignore_cleanup_errors=True) as name,
        Lab(Path(name) / "lab", brokers=0) as lab,
        Lab(Path(name) / "topic", controllers=0, combined=1, brokers=0) as topic_lab,
    ):
        clusters = [section("test", lab)]
        relay = RelayProcess(Path(name) / "relay", topic_lab, topic="observations", clusters=clusters)
        relay.start()
        try:
            relay.wait_for_rows(10)
            job = ConfiguredJob(folder=Path(name) / "job", bootstrap=(), name="test")
            job.write_config(clusters=clusters, source="kafka", relay=relay.section)
            with job:
                time.sleep(WARM_UP_S)
                cost = JobCost(job)
                time.sleep(MEASURED_S)
                return cost.end()
        finally:
            relay.stop()
