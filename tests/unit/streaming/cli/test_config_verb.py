"""`kraftwatch config`: the summary of a valid file, the errors of an invalid one, and the test notification."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import Result

from streaming.config import Config
from streaming.config.sentences import PATTERN_SENTENCES
from tests.cli.program import kraftwatch, owned_by_another_user
from tests.sinks.server import HttpDouble, HttpReply, serving
from tests.unit.streaming.config.section_models import all_models

CLUSTER = {"name": "prod", "bootstrap": ["c1:9093"]}
SECRET = "do-not-print-me"


@pytest.fixture
def server() -> Iterator[HttpDouble]:
    """A webhook, and the service of a heartbeat."""
    with serving() as server:
        yield server


def requested(server: HttpDouble, method: str) -> int:
    return sum(each.method == method for each in server.requests)


def write_config(folder: Path, **keys: Any) -> Path:
    path = folder / "kraftwatch.yaml"
    path.write_text(yaml.safe_dump({"clusters": [CLUSTER], "checkpoint": str(folder / "checkpoint"), **keys}))
    path.chmod(0o644)
    return path


def checked(path: Path, *options: str) -> Result:
    ended = kraftwatch("config", "check", path, *options)
    assert SECRET not in ended.output
    return ended


def test_check_prints_clusters_sinks_rules_and_warnings_and_writes_nothing(tmp_path: Path) -> None:
    chosen = {"include": ["voter-*", "no-leader"], "exclude": ["voter-lagging"]}
    path = write_config(
        tmp_path,
        clusters=[
            {**CLUSTER, "rules": {"no-leader": {"severity": "warning"}}},
            {"name": "lab", "bootstrap": ["l1:9093"]},
        ],
        watch={"exclude": ["lab"]},
        sinks=[
            {"console": {"rules": chosen}},
            f"jsonl:{tmp_path / 'alerts.jsonl'}",
            {"webhook": {"url": f"https://hook.example/{SECRET}"}},
        ],
        rules={"version-drift": {"enabled": False}},
        listen="0.0.0.0:9847",
        maintenance=[{"days": ["sat"], "from": "22:00", "for": "4h", "comment": "CHG-1"}],
        thresholds={"no-leader": {"hold": 9}},
    )

    summary = json.loads(checked(path, "--json").stdout)
    ended = checked(path)

    assert ended.exit_code == 0
    assert [one["name"] for one in summary["watched"]] == ["prod"]
    assert summary["not_watched"] == ["lab"]
    assert [(one["name"], one["each_transition"], one["test"]) for one in summary["sinks"]] == [
        ("console", True, None),
        (f"jsonl:{tmp_path / 'alerts.jsonl'}", True, None),
        ("webhook:hook.example", False, None),
    ]
    assert (summary["maintenance"][0]["from"], summary["thresholds"]) == ("22:00", {"no-leader.hold": 9.0})
    assert summary["rules"] == {"version-drift": {"severity": None, "enabled": False}}
    assert summary["watched"][0]["rules"] == {"no-leader": {"severity": "warning", "enabled": None}}
    assert [summary["sinks"][0][key] for key in ("rules", "excluded_rules")] == [chosen["include"], chosen["exclude"]]
    of_file, of_page = summary["warnings"]
    assert of_page.startswith("listen: 0.0.0.0:9847 is not a loopback address")
    assert of_file.endswith(f"is readable by every user of this machine: chmod 600 {path}")
    text = " ".join(ended.stdout.split())
    for part in (
        *("prod", "not watched lab", "webhook:hook.example", "repeat_s 14400", "CHG-1"),
        "rules voter-* no-leader, excluded_rules voter-lagging",
        "rules no-leader severity warning",
        "rules version-drift enabled no",
        *(f"warning: {sentence}" for sentence in summary["warnings"]),
    ):
        assert part in text
    assert list(tmp_path.iterdir()) == [path]


def test_each_error_is_reported_in_its_own_sentence(tmp_path: Path) -> None:
    path = write_config(tmp_path, master=["console"], listen="nowhere")

    ended = checked(path, "--json")

    assert (ended.exit_code, json.loads(ended.stdout)["ok"]) == (2, False)
    assert ended.stderr.splitlines() == [f"kraftwatch: {each}" for each in json.loads(ended.stdout)["mistakes"]]
    assert len(ended.stderr.splitlines()) == 2


def test_unreadable_files_in_the_configuration_are_reported(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("abc\n")
    (tmp_path / "key").chmod(0o600)
    nowhere = tmp_path / "nowhere" / "alerts.jsonl"
    path = write_config(
        tmp_path,
        clusters=[{**CLUSTER, "security_protocol": "SSL", "ssl_cafile": str(tmp_path / "ca.pem")}],
        sinks=[f"jsonl:{nowhere}", {"pagerduty": {"routing_key_file": str(tmp_path / "key")}}],
        heartbeat={"url_file": str(tmp_path / "url")},
        listen="127.0.0.1:9847",
        listen_token_file=str(tmp_path / "token"),
    )

    ended = checked(path)

    assert ended.exit_code == 2
    for line, (sentence, file) in zip(
        ended.stderr.splitlines(),
        [
            ("cluster prod: ssl_cafile: cannot read", "ca.pem: no such file or directory"),
            ("heartbeat.url_file: cannot read", "url: no such file or directory"),
            ("listen_token_file: cannot read", "token: no such file or directory"),
            ("sinks.0: the folder", "nowhere does not exist: create it, or name another file"),
            ("sinks.1: routing_key in", "key has 3 characters, but an integration key has 32 letters and digits: "),
        ],
        strict=True,
    ):
        assert line.startswith(f"kraftwatch: {path}: {sentence} {tmp_path / file}")


def test_test_notification_is_sent_to_each_sink_and_resolved_at_once(tmp_path: Path, server: HttpDouble) -> None:
    path = write_config(
        tmp_path, sinks=[{"webhook": {"url": f"{server.url}/{SECRET}"}}, f"jsonl:{tmp_path / 'alerts.jsonl'}"]
    )

    ended = checked(path, "--send-test")

    assert ended.exit_code == 0, ended.output
    lines = [json.loads(line) for line in (tmp_path / "alerts.jsonl").read_text().splitlines()]
    assert [(line["rule"], line["state"]) for line in lines] == [("test", "firing"), ("test", "resolved")]
    assert "this is a test" in lines[0]["summary"].lower()
    assert requested(server, "POST") == 2
    assert ended.stdout.count("test delivered") == 2

    server.behave = lambda _: HttpReply(status=403)
    again = checked(path, "--send-test", "--json")
    assert again.exit_code == 1
    rejected, delivered = (one["test"] for one in json.loads(again.stdout)["sinks"])
    assert ("403" in rejected, delivered) == (True, "delivered")


def test_root_does_not_create_a_file_that_the_user_of_the_job_could_not_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "jobs"
    folder.mkdir()
    owned_by_another_user(folder, monkeypatch)
    path = write_config(tmp_path, sinks=[f"jsonl:{folder / 'alerts.jsonl'}"])

    ended = checked(path, "--send-test", "--json")

    assert (ended.exit_code, list(folder.iterdir())) == (1, []), "the job would end with exit code 2 at its next start"
    assert json.loads(ended.stdout)["sinks"][0]["test"] == (
        f"root would create {folder / 'alerts.jsonl'}, which the job's user could not write: run the test as that user"
    )


def test_send_test_sends_one_heartbeat_and_reports_its_failure(tmp_path: Path, server: HttpDouble) -> None:
    path = write_config(tmp_path, heartbeat={"url": f"{server.url}/{SECRET}"})
    assert "heartbeat    every_s 60\n" in checked(path).stdout
    assert requested(server, "GET") == 0

    assert "heartbeat    every_s 60, test delivered" in checked(path, "--send-test").stdout
    assert requested(server, "GET") == 1

    server.behave = lambda _: HttpReply(status=404)
    failed = checked(path, "--send-test", "--json")
    assert failed.exit_code == 1
    assert json.loads(failed.stdout)["heartbeat"] == {"every_s": 60.0, "test": "the service answered 404"}


def test_send_test_sends_one_message_without_metrics_by_otlp(tmp_path: Path, server: HttpDouble) -> None:
    path = write_config(tmp_path, otlp={"url": f"{server.url}/v1/metrics?key={SECRET}"})
    assert "otlp         every_s 60\n" in checked(path).stdout
    assert requested(server, "POST") == 0

    assert "otlp         every_s 60, test delivered" in checked(path, "--send-test").stdout
    assert requested(server, "POST") == 1

    server.behave = lambda _: HttpReply(status=403)
    failed = checked(path, "--send-test", "--json")
    assert failed.exit_code == 1
    assert json.loads(failed.stdout)["otlp"] == {"every_s": 60.0, "test": "HTTP 403: permission denied"}


def test_every_pattern_of_the_configuration_has_its_sentence() -> None:
    fields = [field for model in all_models(Config) for field in model.model_fields.values()]
    patterns = {getattr(each, "pattern", None) for field in fields for each in field.metadata} - {None}
    assert len(patterns) > 5
    assert patterns == {*PATTERN_SENTENCES}
