"""Logs that child processes write through their stderr stay bounded, and the newest lines are never lost."""

import logging
import subprocess
import sys
from pathlib import Path

import pytest

from streaming.job import logging_setup
from tests.eventually import eventually
from tests.unit.streaming.job.captured_log import logged_to

ECHO = "import sys\nfor line in sys.stdin:\n    sys.stderr.write(line)\n    sys.stderr.flush()\n"


def test_a_log_that_a_child_process_holds_open_is_rotated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging_setup, "BYTES_MAX", 1000)
    log = tmp_path / "gather.log"
    (tmp_path / "spark.err").write_text("a few words\n")
    with log.open("ab") as errors:
        process = subprocess.Popen([sys.executable, "-c", ECHO], stdin=subprocess.PIPE, stderr=errors)
    assert process.stdin is not None
    with process:
        process.stdin.write(b"before\n" * 200)
        process.stdin.flush()
        eventually(lambda: log.stat().st_size == 1_400, within_s=20)
        logging_setup.rotate_child_logs(tmp_path)
        process.stdin.write(b"after\n")
        process.stdin.close()
        process.wait()

    assert log.read_bytes() == b"after\n", "the child appends: no hole where the old text was"
    assert log.with_name("gather.log.1").read_bytes() == b"before\n" * 200
    assert [path.name for path in tmp_path.glob("spark.err*")] == ["spark.err"], "it is small"


def test_text_of_a_node_in_a_warning_cannot_control_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with logged_to(tmp_path):
        logging.getLogger("streaming.job").warning("cluster %s answers", "\x1b[2J")

    assert "kraftwatch: cluster \\x1b[2J answers\n" in capsys.readouterr().err


def test_a_full_disk_prints_no_traceback(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "driver.log").symlink_to("/dev/full")
    with logged_to(tmp_path):
        logging.getLogger("streaming.job").warning("cluster a answers")

    assert capsys.readouterr().err == "kraftwatch: cluster a answers\n"
