"""Recorded data is evaluated with the job's thresholds: those of --config, or those that a bundle holds."""

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from connectors.errors import UsageError
from streaming.cli import app
from tests.recordings import recorded_checkpoint

RULE = "unclean-election"
"""A rule whose alerts the recorded job sent."""


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded_checkpoint(tmp_path_factory.mktemp("recorded")).folder


@pytest.fixture(scope="module")
def without_ledger(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("journal-alone")
    (folder / "journal").symlink_to(checkpoint / "journal")
    return folder


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The rule is off in one cluster and only informs in the other."""
    file = tmp_path_factory.mktemp("config") / "kraftwatch.yaml"
    file.write_text(
        f"""clusters:
  - {{name: prod, bootstrap: [c1.test:9093], rules: {{{RULE}: {{enabled: false}}}}}}
  - {{name: staging, bootstrap: [c2.test:9093]}}
thresholds: {{no-leader: {{hold: 7m}}}}
rules: {{{RULE}: {{severity: info}}}}
"""
    )
    return file


def run(*options: object) -> Result:
    ended = CliRunner().invoke(app, [str(each) for each in options])
    assert ended.exit_code == 0, f"{ended.output} {ended.exception}"
    return ended


def lines(*options: object) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run(*options).stdout.splitlines()]


def newest(checkpoint: Path) -> str:
    times = [one["observed_at"] for one in lines("status", "--journal", checkpoint, "--json")]
    return str(min(times))


def evaluated_as_configured(statuses: list[dict[str, Any]]) -> bool:
    by_name = {one["cluster"]: one for one in statuses}
    off = RULE in {one["rule"] for one in by_name["prod"]["not_applicable"]}
    return off and by_name["staging"]["changed_severities"] == [{"rule": RULE, "severity": "info"}]


def test_past_state_is_evaluated_with_the_configuration(checkpoint: Path, config: Path) -> None:
    at = newest(checkpoint)
    plain = lines("status", "--journal", checkpoint, "--at", at, "--json")
    configured = lines("status", "--journal", checkpoint, "--at", at, "--json", "--config", config)

    assert not evaluated_as_configured(plain)
    assert evaluated_as_configured(configured)
    assert [one["cluster"] for one in configured] == ["prod", "staging"]
    assert [one["cluster"] for one in lines(
        "status", "--journal", checkpoint, "--at", at, "--json", "--config", config, "--only", "prod"
    )] == ["prod"]  # fmt: skip


def test_past_state_has_the_access_of_the_configuration(checkpoint: Path, tmp_path: Path) -> None:
    polls_only = tmp_path / "polls-only.yaml"
    polls_only.write_text("clusters: [{name: prod, bootstrap: [c1.test:9093], metadata_log: false}]\n")

    def not_applicable(*more: object) -> set[str]:
        (status,) = lines(
            "status", "--journal", checkpoint, "--only", "prod", "--at", newest(checkpoint), "--json", *more
        )
        return {one["why"] for one in status["not_applicable"]}

    reason = "only polls are observed here (metadata_log: false)"
    assert reason in not_applicable("--config", polls_only)
    assert reason not in not_applicable()


def test_past_state_of_a_given_cluster_is_still_refused(checkpoint: Path) -> None:
    options = ["status", "--journal", str(checkpoint), "--at", "2026-11-20T08:00:00Z", "--cluster", "a=c1:9093"]
    ended = CliRunner().invoke(app, options)

    assert isinstance(ended.exception, UsageError)
    assert "--at shows a past state" in str(ended.exception)


def test_timeline_evaluates_again_with_the_configuration(without_ledger: Path, config: Path) -> None:
    def alerts(*more: object) -> list[tuple[str, str]]:
        found = lines("timeline", "--journal", without_ledger, "--json", *more)
        return [(one["cluster"], one["text"]) for one in found if one["kind"] == "alert" and f"{RULE} " in one["text"]]

    assert any(cluster == "prod" for cluster, _ in alerts())
    assert not any(cluster == "prod" for cluster, _ in alerts("--config", config))


def test_report_is_evaluated_with_the_configuration(without_ledger: Path, config: Path, tmp_path: Path) -> None:
    def html(*more: object) -> str:
        out = tmp_path / "report.html"
        run("report", "--journal", without_ledger, "--only", "prod", "--out", out, *more)
        return out.read_text()

    assert f"{RULE} · " in html()
    assert f"{RULE} · " not in html("--config", config)
    assert "disabled by the configuration" in html("--config", config)


def test_bundle_holds_the_thresholds_and_its_reader_uses_them(checkpoint: Path, config: Path, tmp_path: Path) -> None:
    file, plain = tmp_path / "incident.tar.gz", tmp_path / "plain.tar.gz"
    run("bundle", "--checkpoint", checkpoint, "--output", file, "--config", config)
    run("bundle", "--checkpoint", checkpoint, "--output", plain)

    with tarfile.open(file) as packed:
        member = packed.extractfile("bundle.json")
        assert member is not None
        manifest = json.loads(member.read())
    assert evaluated_as_configured(manifest["status"])
    assert evaluated_as_configured(lines("status", "--journal", file, "--json"))
    assert not evaluated_as_configured(lines("status", "--journal", plain, "--json"))
    for verb in (("replay",), ("timeline",)):
        assert lines(*verb, "--journal", file, "--json") == lines(
            *verb, "--journal", file, "--json", "--config", config
        )
    assert not {RULE} & {
        one["rule"] for one in lines("replay", "--journal", file, "--json") if one["cluster"] == "prod"
    }
    assert {RULE} & {one["rule"] for one in lines("replay", "--journal", plain, "--json") if one["cluster"] == "prod"}


def test_set_overrides_the_configuration_of_a_bundle(checkpoint: Path, config: Path, tmp_path: Path) -> None:
    file = tmp_path / "incident.tar.gz"
    run("bundle", "--checkpoint", checkpoint, "--output", file, "--config", config)
    held = lines("replay", "--journal", file, "--json")
    at_once = lines("replay", "--journal", file, "--json", "--set", "no-leader.hold=1")

    def first(alerts: list[dict[str, Any]]) -> list[str]:
        return [one["observed_at"] for one in alerts if one["rule"] == "no-leader"]

    assert len(first(at_once)) > len(first(held))
