"""The verbs for the person on call: mistakes are one sentence, answers have the promised exit codes."""

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
        (["status"], "nothing to watch: give --cluster NAME=HOST:PORT,… or --config FILE"),
        (["check", "--cluster", "prod"], "--cluster prod: expected NAME=HOST:PORT,…"),
        (["check", *A, "--set", "no-leader.hld=1"], "rule 'no-leader' has no threshold 'hld': did you mean 'hold'?"),
        (["replication", "--journal", "nowhere"], "--journal nowhere: no journal is there"),
        (["partitions", "--journal", ".", "--watch"], "--watch needs a cluster to look at"),
        (["status", "--log-dir", "."], "no metadata log is in .: name a controller's metadata.log.dir"),
        (["status", "--log-dir", ".", *A], "--log-dir shows what one disk holds: give no --cluster"),
        (["status", "--at", "5", *A], "--at shows the past: give --journal DIR or --log-dir DIR with it"),
        (["check", "--at", "5"], "--at shows the past: give --journal DIR or --log-dir DIR with it"),
        (["status", "--at", "now", "--journal", "."], "--at now: expected an OFFSET or a TIME as 2026-11-20T08:15:00Z"),
        (["status", *A, "--hosts-file", "nowhere"], "cluster a: hosts_file: cannot read nowhere"),
        (["safe-to-restart", "1", *A, "--cluster", f"b={FREE}"], "one cluster is judged at a time, 2 are given"),
        (["explain", "no-leadr"], "unknown rule 'no-leadr': did you mean 'no-leader'?"),
        (["explain", "zzz"], "unknown rule 'zzz': there are "),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else "",
)
def test_one_sentence_and_exit_code_2(arguments: list[str], sentence: str, tmp_path: Path) -> None:
    ended = kraftwatch(*arguments, folder=tmp_path)

    assert ended.returncode == 2
    assert ended.stdout == ""
    *_, said = ended.stderr.strip().splitlines()
    assert said.startswith("kraftwatch: ")
    assert sentence in said
    assert list(tmp_path.iterdir()) == [], "nothing is left behind"


def test_explain_lists_every_rule_and_tells_each_ones_numbers(tmp_path: Path) -> None:
    listed = kraftwatch("explain", folder=tmp_path)
    page = kraftwatch("explain", "stale_voter_endpoint", folder=tmp_path)

    assert listed.returncode == page.returncode == 0
    assert "no-leader " in listed.stdout
    assert "What not to do" in page.stdout
    assert "stale-voter-endpoint.hold" in page.stdout
    assert "30 s" in page.stdout


def test_all_refuse_is_critical_and_only_json_goes_to_stdout(tmp_path: Path) -> None:
    ended = kraftwatch("check", *A, "--json", folder=tmp_path)

    assert ended.returncode == 2
    said = json.loads(ended.stdout)
    assert (said["cluster"], said["health"], said["exit_code"]) == ("a", "critical", 2)
    assert [one["rule"] for one in said["findings"]] == ["no-leader"]
    assert "still waiting" in ended.stderr


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(("verb", "code"), [("check", 3), ("status", 1)])
def test_output_to_a_full_disk_is_one_sentence_and_no_warning(
    verb: str, code: int, unbuffered: str, tmp_path: Path
) -> None:
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


def test_a_reader_that_stops_early_gets_no_traceback() -> None:
    command = [sys.executable, "-m", "streaming", "explain", "no-leader"]
    environment = {**os.environ, "PYTHONUNBUFFERED": ""}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as printing:
        assert printing.stdout and printing.stderr
        printing.stdout.close()
        stderr = printing.stderr.read()

    assert stderr == b""
    assert printing.returncode == 1


def test_a_terminal_that_knows_ascii_alone_misses_a_dash_and_not_the_answer(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "streaming", "status", *A, "--timeout", "4"]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    ended = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=180, env=environment
    )

    assert ended.returncode == 0
    assert "CRITICAL" in ended.stdout
    assert "Traceback" not in ended.stderr


def test_a_name_that_is_gone_cannot_be_told_from_an_outage(tmp_path: Path) -> None:
    ended = kraftwatch("check", "--cluster", "a=nosuch.invalid:9093", "--timeout", "2", folder=tmp_path)

    assert ended.returncode == 3
    assert "CANNOT TELL" in ended.stdout


def test_the_quorum_is_shown_as_far_as_it_is_known(tmp_path: Path) -> None:
    shown = kraftwatch("status", *A, "--timeout", "1", folder=tmp_path)

    assert shown.returncode == 0
    assert "no leader answered, and no recorded state was given" in shown.stdout


def test_a_restart_that_cannot_be_judged_is_not_safe(tmp_path: Path) -> None:
    ended = kraftwatch("safe-to-restart", "1", *A, "--timeout", "1", "--json", folder=tmp_path)

    assert ended.returncode == 2
    assert json.loads(ended.stdout)["safe"] is False


def test_help_teaches(tmp_path: Path) -> None:
    for verb in ("status", "replication", "partitions", "check", "safe-to-restart", "explain"):
        ended = kraftwatch(verb, "--help", folder=tmp_path)
        assert ended.returncode == 0
        assert "Exit codes: 0" in " ".join(ended.stdout.split())
