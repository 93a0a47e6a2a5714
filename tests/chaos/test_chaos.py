"""Half an hour of `make chaos`: faults that overlap, and an oracle that knows only what was done."""

import os
import shutil
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.lab, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(3_600)]


@pytest.mark.skipif(shutil.which("nft") is None or os.getuid() != 0, reason="needs nft (nftables) and root")
def test_nothing_is_missed_false_or_sent_twice_in_half_an_hour_of_chaos() -> None:
    environment = {**os.environ, "SEED": "7", "HOURS": "0.5"}
    done = subprocess.run([sys.executable, "-m", "tests.chaos"], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
