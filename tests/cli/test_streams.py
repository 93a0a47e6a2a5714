"""The streams of a command: closed, full, a terminal without UTF-8; and what goes to which while a query lasts."""

import json
import lzma
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.program import kraftwatch
from tests.unit.connectors.metadata.metadata_bytes import DATA

FREE = "127.0.0.1:1"
A = ("--cluster", f"a={FREE}")


@pytest.mark.usefixtures("folder")
def test_refused_connections_show_no_missing_leader_and_stdout_has_only_json() -> None:
    """Nothing has ever answered there: the controllers may listen elsewhere."""
    ended = kraftwatch("check", *A, "--json")

    assert ended.exit_code == 3
    output = json.loads(ended.stdout)
    assert (output["cluster"], output["health"], output["exit_code"]) == ("a", "unknown", 3)
    (finding,) = output["findings"]
    assert (finding["rule"], finding["severity"]) == ("monitor-blind", "critical")
    assert finding["remedy"][0].startswith("# Check the addresses, whether controllers run, and firewalls: ")
    assert "still waiting" in ended.stderr


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(("verb", "code", "unbuffered"), [("check", 3, ""), ("status", 1, "1")])
def test_full_disk_is_reported_in_one_sentence(verb: str, code: int, unbuffered: str) -> None:
    command = [sys.executable, "-m", "streaming", verb, *A, "--timeout", "1"]
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=180, env=environment
        )

    assert ended.returncode == code
    assert ended.stderr.splitlines()[-1] == "kraftwatch: no space left on device"


@pytest.mark.usefixtures("folder")
def test_ascii_terminal_gets_the_output_without_an_error() -> None:
    command = [sys.executable, "-m", "streaming", "status", *A, "--timeout", "4"]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=180, env=environment)

    assert ended.returncode == 0
    assert "UNKNOWN" in ended.stdout
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_stream_is_no_error(closed: str, folder: Path) -> None:
    # `config check` writes to a file of its own: it must not be at the number of a closed stream.
    (folder / "kraftwatch.yaml").write_text("clusters: [{name: prod, bootstrap: ['127.0.0.1:1']}]\nsinks: ['jsonl:a']")
    command = f"{sys.executable} -m streaming config check kraftwatch.yaml {closed}"
    ended = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False, timeout=180)

    assert (ended.returncode, ended.stderr) == (0, "")


def test_closed_pipe_prints_no_error(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(lzma.decompress((DATA / "tinylog.log.xz").read_bytes()))
    command = f"{sys.executable} -m streaming data decode {path} --json | head -1"
    ended = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False, timeout=180)

    assert ended.stderr == ""
    assert json.loads(ended.stdout)["offset"] == 0
