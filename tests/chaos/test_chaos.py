"""Six minutes of `make chaos`: faults that overlap, and an oracle that knows only what was done.

And four faults after each of which what was called safe is done.
"""

import os
import subprocess
import sys

import pytest

pytestmark = [
    pytest.mark.lab,
    pytest.mark.long,
    pytest.mark.timeout(3_600),
    pytest.mark.debian("nftables", "iproute2"),
    pytest.mark.skipif(os.getuid() != 0, reason="only root can cut paths and mount disks"),
]


def assert_passes(**options: str) -> None:
    command = [sys.executable, "-m", "tests.chaos"]
    done = subprocess.run(command, env={**os.environ, **options}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.spark
def test_nothing_is_missed_false_or_sent_twice_while_faults_overlap() -> None:
    assert_passes(SEED="7", HOURS="0.1")


@pytest.mark.parametrize("seed", ["1", "2"])
def test_no_controller_is_called_safe_to_lose_that_the_quorum_needs(seed: str) -> None:
    assert_passes(SEED=seed, FORECAST="4")
