"""Usage errors: one sentence on stderr, exit code 2, no traceback, no files left behind."""

import subprocess
import sys
from pathlib import Path

import pytest

FREE = "127.0.0.1:1"
A = ["--cluster", f"a={FREE}"]


def kraftwatch(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "streaming", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, timeout=180)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "no cluster is given: give --cluster NAME=HOST:PORT,… or --config FILE"),
        (["--cluster", "prod"], "--cluster prod: expected NAME=HOST:PORT,…, such as prod=c1:9093,c2:9093"),
        (["--cluster", "prod=c1"], "--cluster prod: 'c1' is not HOST:PORT; expected the listeners of controllers"),
        (["--cluster", "pr od=c1:1"], "clusters.0.name: write letters, digits"),
        (["--config", "nowhere.yaml"], "--config: cannot read nowhere.yaml: no such file or directory"),
        ([*A, "--set", "no-leadr.hold=1"], "unknown rule 'no-leadr' in 'no-leadr.hold': did you mean 'no-l"),
        ([*A, "--set", "no-leader.hld=1"], "rule 'no-leader' has no threshold 'hld': did you mean 'hold'?"),
        (
            [*A, "--set", "no-leader.hold=soon"],
            "--set no-leader.hold=soon: invalid value 'soon': expected seconds or a duration such as 30s, 5m, 1h",
        ),
        ([*A, "--set", "no-leader.hold=-1"], "--set no-leader.hold=-1: invalid value '-1': expected seconds or a"),
        ([*A, "--set", "hold=1"], "--set hold=1: expected RULE.NAME=VALUE"),
        ([*A, "--resolve", "c1"], "--resolve c1: expected HOST=ADDR"),
        ([*A, "--hosts-file", "nowhere"], "cluster a: hosts_file: cannot read nowhere"),
        ([*A, "--listen", "9847"], "listen: '9847' is not HOST:PORT"),
        ([*A, "--sink", "slak:x"], "'slak' is not a kind of sink; the kinds are console, jsonl:PATH, webhook:URL"),
        ([*A, "--sink", "jsonl:/nowhere/at/all"], "/nowhere/at/all"),
        (A, f"cluster a: none of {FREE} could be queried"),
        (["--cluster", "a=nosuch.invalid:9093"], "nosuch.invalid does not resolve"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else "",
)  # fmt: skip
def test_usage_error_is_one_sentence_with_exit_code_2(arguments: list[str], sentence: str, tmp_path: Path) -> None:
    ended = kraftwatch("run", *arguments, folder=tmp_path)

    assert ended.returncode == 2
    assert ended.stdout == ""
    (message,) = ended.stderr.strip().splitlines()
    assert message.startswith("kraftwatch: ")
    assert sentence in message
    # `run` may have created the checkpoint folder and its lock.
    assert {path.name for path in tmp_path.rglob("*")} <= {"kraftwatch-checkpoint", "lock"}


def test_page_that_other_machines_can_read_is_a_warning_before_the_start(tmp_path: Path) -> None:
    ended = kraftwatch("run", *A, "--listen", "0.0.0.0:9847", folder=tmp_path)

    assert ended.stderr.splitlines()[0] == (
        "kraftwatch: warning: listen: 0.0.0.0:9847 is not a loopback address, and everyone who can connect reads the "
        "page, unencrypted: set listen_certfile and listen_token_file, or listen on 127.0.0.1"
    )


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_stream_is_no_error(closed: str, tmp_path: Path) -> None:
    # `config check` writes to a file of its own: it must not be at the number of a closed stream.
    (tmp_path / "kraftwatch.yaml").write_text(f"clusters: [{{name: prod, bootstrap: ['{FREE}']}}]\nsinks: ['jsonl:a']")
    command = f"{sys.executable} -m streaming config check kraftwatch.yaml {closed}"
    ended = subprocess.run(
        ["sh", "-c", command], capture_output=True, text=True, check=False, cwd=tmp_path, timeout=180
    )

    assert (ended.returncode, ended.stderr) == (0, "")


def test_unknown_option_suggests_the_nearest(tmp_path: Path) -> None:
    ended = kraftwatch("run", "--clutser", "x", folder=tmp_path)

    assert ended.returncode == 2
    assert "--cluster" in ended.stderr


def test_every_verb_has_help(tmp_path: Path) -> None:
    for verb in ([], ["run"], ["demo"], ["decode"], ["lab"], ["lab", "up"], ["lab", "down"]):
        ended = kraftwatch(*verb, "--help", folder=tmp_path)
        assert ended.returncode == 0
        assert "Usage:" in ended.stdout


def test_help_describes_the_program_and_the_first_steps(tmp_path: Path) -> None:
    text = " ".join(kraftwatch("--help", folder=tmp_path).stdout.split())

    assert "Usage: kraftwatch " in text
    assert "Monitors the KRaft metadata quorum of Apache Kafka clusters." in text
    steps = [
        "kraftwatch demo",
        "kraftwatch status --cluster",
        "kraftwatch doctor --cluster",
        "kraftwatch run --cluster",
    ]
    assert sorted(steps, key=text.index) == steps
    assert "--install-completion" in text


def test_missing_lab_is_reported(tmp_path: Path) -> None:
    ended = kraftwatch("lab", "down", "--directory", "empty", folder=tmp_path)

    assert ended.returncode == 2
    assert ended.stderr == f"kraftwatch: there is no lab in {tmp_path / 'empty'}\n"


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        (
            ["sinks:", "- webhook: {url: 'http://127.0.0.1:1/', clusters: ['prd*']}"],
            "line 3: sinks.0.webhook.clusters.0: 'prd*' matches no cluster; did you mean 'prod'?",
        ),
        (["sinks:", "- pagerduty: {routing_key_file: key}"], "line 3: sinks.0: routing_key in key has 3 characters"),
        (
            ["defaults: {security_protocol: SSL, ssl_cafile: nowhere.pem}"],
            "line 2: cluster prod: ssl_cafile: cannot read nowhere.pem: no such file or directory",
        ),
        (
            ["defaults:", "  security_protocol: SASL_SSL", "  sasl_mechanism: GSSAPI"],
            "line 4: cluster prod: sasl_mechanism GSSAPI needs the Python package gssapi",
        ),
        (["thresholds: {no-leader: {hold: true}}"], "line 2: thresholds.no-leader.hold: invalid value 'true'"),
    ],
)  # fmt: skip
def test_run_refuses_what_config_check_refuses_with_the_same_line(
    lines: list[str], sentence: str, tmp_path: Path
) -> None:
    (tmp_path / "key").write_text("abc")
    file = tmp_path / "kraftwatch.yaml"
    file.write_text("\n".join([f"clusters: [{{name: prod, bootstrap: ['{FREE}']}}]", *lines]))

    for verb in (["run", "--config"], ["config", "check"]):
        ended = kraftwatch(*verb, "kraftwatch.yaml", folder=tmp_path)

        assert (ended.returncode, ended.stdout) == (2, "")
        (message,) = ended.stderr.strip().splitlines()
        assert message.startswith(f"kraftwatch: kraftwatch.yaml: {sentence}")


def test_sink_of_a_file_may_name_a_cluster_of_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "kraftwatch.yaml"
    file.write_text(
        "clusters: [{name: prod, bootstrap: ['c1:9093']}]\n"
        "sinks: [{webhook: {url: 'http://127.0.0.1:1/', clusters: [a]}}]\n"
    )
    alone = kraftwatch("run", "--config", "kraftwatch.yaml", folder=tmp_path)
    assert "line 2: sinks.0.webhook.clusters.0: 'a' matches no cluster; known: prod" in alone.stderr

    ended = kraftwatch("run", "--config", "kraftwatch.yaml", *A, "--only", "a", folder=tmp_path)

    assert f"cluster a: none of {FREE} could be queried" in ended.stderr
