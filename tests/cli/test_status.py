"""The on-call commands: usage errors, output and exit codes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

FREE = "127.0.0.1:1"
A = ("--cluster", f"a={FREE}")


def kraftwatch(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "streaming", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, timeout=180)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["status"], "no cluster is given: give --cluster NAME=HOST:PORT,… or --config FILE"),
        (["check", "--cluster", "prod"], "--cluster prod: expected NAME=HOST:PORT,…"),
        (["check", *A, "--set", "no-leader.hld=1"], "rule 'no-leader' has no threshold 'hld': did you mean 'hold'?"),
        (["replication", "--journal", "nowhere"], "--journal nowhere: no journal is there"),
        (["partitions", "--journal", ".", "--watch"], "--watch needs a cluster to query"),
        (["status", "--log-dir", "."], "no metadata log is in .: name a controller's metadata.log.dir"),
        (["status", "--log-dir", ".", *A], "--log-dir reads one disk: do not combine it with --cluster"),
        (["status", "--at", "5", *A], "--at shows a past state: use it with --config FILE, --journal DIR or --log-dir"),
        (["check", "--at", "5"], "--at shows a past state: use it with --config FILE, --journal DIR or --log-dir"),
        (
            ["status", "--at", "now", "--journal", "."],
            "--at now: expected an OFFSET or a TIME such as 2026-11-20T08:15:00Z",
        ),
        (["status", *A, "--hosts-file", "nowhere"], "cluster a: hosts_file: cannot read nowhere"),
        (["safe-to-restart", "1", *A, "--cluster", f"b={FREE}"], "expected one cluster, but 2 are given"),
        (["explain", "no-leadr"], "unknown rule 'no-leadr': did you mean 'no-leader'?"),
        (["explain", "zzz"], "unknown rule 'zzz': known rules: "),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else "",
)
def test_usage_error_is_one_sentence_with_exit_code_2(arguments: list[str], sentence: str, tmp_path: Path) -> None:
    ended = kraftwatch(*arguments, folder=tmp_path)

    assert ended.returncode == 2
    assert ended.stdout == ""
    *_, message = ended.stderr.strip().splitlines()
    assert message.startswith("kraftwatch: ")
    assert sentence in message
    assert list(tmp_path.iterdir()) == [], "no files are left behind"


def test_explain_prints_the_meaning_of_a_term(tmp_path: Path) -> None:
    shown = kraftwatch("explain", "failure tolerance", folder=tmp_path)
    assert shown.stdout.startswith("failure tolerance: How many more voters may fail")
    assert "kraftwatch explain glossary" in shown.stdout


def test_explain_lists_every_rule_and_prints_thresholds(tmp_path: Path) -> None:
    listed = kraftwatch("explain", folder=tmp_path)
    page = kraftwatch("explain", "stale_voter_endpoint", folder=tmp_path)

    assert listed.returncode == page.returncode == 0
    assert "no-leader " in listed.stdout
    assert "What not to do" in page.stdout
    assert "stale-voter-endpoint.hold" in page.stdout
    assert "30 s" in page.stdout


def test_refused_connections_are_critical_and_stdout_has_only_json(tmp_path: Path) -> None:
    ended = kraftwatch("check", *A, "--json", folder=tmp_path)

    assert ended.returncode == 2
    output = json.loads(ended.stdout)
    assert (output["cluster"], output["health"], output["exit_code"]) == ("a", "critical", 2)
    assert [one["rule"] for one in output["findings"]] == ["no-leader"]
    assert "still waiting" in ended.stderr


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(("verb", "code"), [("check", 3), ("status", 1)])
def test_full_disk_is_reported_in_one_sentence(verb: str, code: int, unbuffered: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "streaming", verb, *A, "--timeout", "1"]
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            command,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            cwd=tmp_path,
            timeout=180,
            env=environment,
        )

    assert ended.returncode == code
    assert ended.stderr.splitlines()[-1] == "kraftwatch: no space left on device"


def test_closed_pipe_prints_no_traceback() -> None:
    command = [sys.executable, "-m", "streaming", "explain", "no-leader"]
    environment = {**os.environ, "PYTHONUNBUFFERED": ""}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as printing:
        assert printing.stdout and printing.stderr
        printing.stdout.close()
        stderr = printing.stderr.read()

    assert stderr == b""
    assert printing.returncode == 1


def test_ascii_terminal_gets_the_output_without_an_error(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "streaming", "status", *A, "--timeout", "4"]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    ended = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=180, env=environment
    )

    assert ended.returncode == 0
    assert "CRITICAL" in ended.stdout
    assert "Traceback" not in ended.stderr


def test_unresolvable_name_is_unknown_and_not_an_outage(tmp_path: Path) -> None:
    ended = kraftwatch("check", "--cluster", "a=nosuch.invalid:9093", "--timeout", "2", folder=tmp_path)

    assert ended.returncode == 3
    assert " UNKNOWN " in ended.stdout


def test_status_without_a_leader_reports_what_is_missing(tmp_path: Path) -> None:
    ended = kraftwatch("status", *A, "--timeout", "1", folder=tmp_path)

    assert ended.returncode == 0
    assert "no leader answered, and no recorded state was given" in ended.stdout


def test_restart_without_a_leader_is_not_safe(tmp_path: Path) -> None:
    ended = kraftwatch("safe-to-restart", "1", *A, "--timeout", "1", "--json", folder=tmp_path)

    assert ended.returncode == 2
    assert json.loads(ended.stdout)["safe"] is False


def test_help_lists_the_exit_codes(tmp_path: Path) -> None:
    for verb in ("status", "replication", "partitions", "check", "safe-to-restart", "explain"):
        ended = kraftwatch(verb, "--help", folder=tmp_path)
        assert ended.returncode == 0
        assert "Exit codes: 0" in " ".join(ended.stdout.split())
