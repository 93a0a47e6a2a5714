"""The demo itself: its four scenes end well, and it says so in words and by its exit code."""

import subprocess
import sys

import pytest

pytestmark = [pytest.mark.lab, pytest.mark.spark, pytest.mark.timeout(480)]


def test_the_demo_tells_everything_and_nothing_false() -> None:
    played = subprocess.run([sys.executable, "-m", "streaming", "demo"], capture_output=True, text=True, check=False)

    assert played.returncode == 0, played.stderr
    assert "Everything was told, nothing false fired." in played.stderr
    assert played.stdout == ""
