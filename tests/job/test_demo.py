"""The demo: its four scenarios end as expected, and it reports that in its output and exit code."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.lab, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]


def test_every_expected_alert_fires_and_no_false_one(tmp_path: Path) -> None:
    # A demo that fails keeps its folder.
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    result = subprocess.run(
        [sys.executable, "-m", "streaming", "demo"], capture_output=True, text=True, check=False, env=environment
    )

    assert result.returncode == 0, result.stderr
    assert "Every expected alert fired, no false alert fired." in result.stderr
    assert result.stdout == ""
    # Begins, gets worse, ends. Nothing can end the last one.
    table = result.stderr.partition("Notifications to people")[2]
    assert [line.split()[-3:] for line in table.splitlines() if re.search(r"\d +\d +\d *$", line)] == [
        ["1", "0", "1"],
        ["1", "0", "1"],
        ["1", "0", "1"],
        ["1", "0", "0"],
    ]
