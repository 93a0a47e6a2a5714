"""Usage errors: one sentence, which tests/unit/streaming/cli/test_main.py prints, and no files left behind."""

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from connectors.errors import UsageError
from streaming.cli import app

FREE = "127.0.0.1:1"
A = ["--cluster", f"a={FREE}"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def mistake(*arguments: str) -> str:
    """Returns the sentence with which a command ends; it prints nothing on stdout."""
    ended = CliRunner().invoke(app, [*arguments])
    assert isinstance(ended.exception, UsageError), f"{ended.output} {ended.exception}"
    assert ended.stdout == ""
    message = str(ended.exception)
    assert "\n" not in message
    return message


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
def test_usage_error_of_run_is_one_sentence(arguments: list[str], sentence: str, folder: Path) -> None:
    assert sentence in mistake("run", *arguments)
    # `run` may have created the checkpoint folder and its lock.
    assert {path.name for path in folder.rglob("*")} <= {"kraftwatch-checkpoint", "lock"}


def test_page_that_other_machines_can_read_is_a_warning_before_the_start() -> None:
    ended = CliRunner().invoke(app, ["run", *A, "--listen", "0.0.0.0:9847"])

    assert ended.stderr.startswith("kraftwatch: warning: listen: 0.0.0.0:9847 is not a loopback address, and everyone")


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_stream_is_no_error(closed: str, folder: Path) -> None:
    # `config check` writes to a file of its own: it must not be at the number of a closed stream.
    (folder / "kraftwatch.yaml").write_text(f"clusters: [{{name: prod, bootstrap: ['{FREE}']}}]\nsinks: ['jsonl:a']")
    command = f"{sys.executable} -m streaming config check kraftwatch.yaml {closed}"
    ended = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False, timeout=180)

    assert (ended.returncode, ended.stderr) == (0, "")


def test_unknown_option_suggests_the_nearest() -> None:
    ended = CliRunner().invoke(app, ["run", "--clutser", "x"])

    assert ended.exit_code == 2
    assert "--cluster" in ended.stderr


def test_help_describes_the_program_and_the_first_steps() -> None:
    text = " ".join(CliRunner().invoke(app, ["--help"], prog_name="kraftwatch").stdout.split())

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


def test_missing_lab_is_reported(folder: Path) -> None:
    assert mistake("lab", "down", "--directory", "empty") == f"there is no lab in {folder / 'empty'}"


def test_missing_section_of_a_relay_is_reported(folder: Path) -> None:
    (folder / "kraftwatch.yaml").write_text(f"clusters: [{{name: prod, bootstrap: ['{FREE}']}}]")

    assert mistake("relay", "--config", "kraftwatch.yaml", "--only", "prod") == (
        "relay is missing in the configuration: add relay with the bootstrap and topic to write to"
    )


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
    lines: list[str], sentence: str, folder: Path
) -> None:
    (folder / "key").write_text("abc")
    (folder / "kraftwatch.yaml").write_text("\n".join([f"clusters: [{{name: prod, bootstrap: ['{FREE}']}}]", *lines]))

    assert mistake("run", "--config", "kraftwatch.yaml").startswith(f"kraftwatch.yaml: {sentence}")
    checked = CliRunner().invoke(app, ["config", "check", "kraftwatch.yaml"])
    assert (checked.exit_code, checked.stdout) == (2, "")
    (message,) = checked.stderr.strip().splitlines()
    assert message.startswith(f"kraftwatch: kraftwatch.yaml: {sentence}")


def test_sink_of_a_file_may_name_a_cluster_of_the_command_line(folder: Path) -> None:
    (folder / "kraftwatch.yaml").write_text(
        "clusters: [{name: prod, bootstrap: ['c1:9093']}]\n"
        "sinks: [{webhook: {url: 'http://127.0.0.1:1/', clusters: [a]}}]\n"
    )
    run = ["run", "--config", "kraftwatch.yaml"]

    assert "line 2: sinks.0.webhook.clusters.0: 'a' matches no cluster; known: prod" in mistake(*run)
    assert f"cluster a: none of {FREE} could be queried" in mistake(*run, *A, "--only", "a")
