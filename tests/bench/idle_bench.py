"""The idle job: CPU and memory over one minute, with a real quorum of 3 controllers and 2 brokers, and the defaults."""

import tempfile
import time
from pathlib import Path
from typing import Any

from deploy.lab.lab import Lab
from streaming.demo.job_process import JobProcess
from tests.bench.job_cost import JobCost

WARM_UP_S = 40.0
MEASURED_S = 60.0


def figures() -> dict[str, Any]:
    """Returns CPU in percent of a core and memory in MB, of the job and by process, and micro-batches a second."""
    with tempfile.TemporaryDirectory(prefix="kraftwatch-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with Lab(folder / "lab") as lab, JobProcess(folder=folder / "watch", bootstrap=lab.bootstrap) as job:
            time.sleep(WARM_UP_S)
            cost = JobCost(job)
            time.sleep(MEASURED_S)
            return cost.end()
