"""Six minutes of `make chaos`: faults that overlap, and an oracle that knows only what was done."""

import os
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.lab, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(3_600)]


@pytest.mark.debian("nftables", "iproute2")
@pytest.mark.skipif(os.getuid() != 0, reason="only root can cut paths and mount disks")
def test_nothing_is_missed_false_or_sent_twice_while_faults_overlap() -> None:
    environment = {**os.environ, "SEED": "7", "HOURS": "0.1"}
    done = subprocess.run([sys.executable, "-m", "tests.chaos"], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
