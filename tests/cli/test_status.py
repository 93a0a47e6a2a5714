"""The on-call commands: usage errors, output and exit codes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.program import kraftwatch

FREE = "127.0.0.1:1"
A = ("--cluster", f"a={FREE}")


pytestmark = pytest.mark.usefixtures("folder")


def test_explain_lists_every_rule_and_prints_thresholds() -> None:
    listed = kraftwatch("explain")
    page = kraftwatch("explain", "stale_voter_endpoint")

    term = kraftwatch("explain", "failure tolerance")

    assert term.stdout.startswith("failure tolerance: How many more voters may fail")
    assert listed.exit_code == page.exit_code == 0
    assert "no-leader " in listed.stdout
    assert "What not to do" in page.stdout
    assert "stale-voter-endpoint.hold" in page.stdout
    assert "30 s" in page.stdout


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


def test_ascii_terminal_gets_the_output_without_an_error() -> None:
    command = [sys.executable, "-m", "streaming", "status", *A, "--timeout", "4"]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=180, env=environment)

    assert ended.returncode == 0
    assert "UNKNOWN" in ended.stdout
    assert "Traceback" not in ended.stderr


def test_unresolvable_name_is_unknown_and_not_an_outage() -> None:
    ended = kraftwatch("check", "--cluster", "a=nosuch.invalid:9093", "--timeout", "2")

    assert ended.exit_code == 3
    assert " UNKNOWN " in ended.stdout


def test_restart_without_an_answer_is_unknown() -> None:
    ended = kraftwatch("safe-to-restart", "1", *A, "--timeout", "1", "--json")

    assert ended.exit_code == 3
    assert json.loads(ended.stdout)["safe"] is None
    assert " UNKNOWN " in kraftwatch("safe-to-restart", "1", *A, "--timeout", "1").stdout


def test_restart_is_unknown_if_no_name_resolves_and_the_name_is_in_the_answer() -> None:
    ended = kraftwatch("safe-to-restart", "1", "--cluster", "a=c1.invalid:9093", "--timeout", "1", "--json")

    assert ended.exit_code == 3
    answer = json.loads(ended.stdout)
    assert answer["unknown"] == ["nothing of the metadata log has been read yet"]
    assert "c1.invalid does not resolve" in answer["notes"][0]
