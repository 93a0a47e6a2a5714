"""The demo itself: its four scenes end well, and it says so in words and by its exit code."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.lab, pytest.mark.spark, pytest.mark.timeout(900)]


def test_the_demo_tells_everything_and_nothing_false(tmp_path: Path) -> None:
    # A demo that did not end well keeps its folder.
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    played = subprocess.run(
        [sys.executable, "-m", "streaming", "demo"], capture_output=True, text=True, check=False, env=environment
    )

    assert played.returncode == 0, played.stderr
    assert "Everything was told, nothing false fired." in played.stderr
    assert played.stdout == ""
