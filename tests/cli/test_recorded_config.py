"""Recorded data is evaluated with the job's thresholds: those of --config, or those that a bundle holds."""

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.cli.program import json_lines, kraftwatch

RULE = "unclean-election"
"""A rule whose alerts the recorded job sent."""

NO_LOG = "only polls are observed here (metadata_log: false)"


@pytest.fixture(scope="module")
def without_ledger(recorded: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("journal-alone")
    (folder / "journal").symlink_to(recorded / "journal")
    return folder


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The rule is off in one cluster and only informs in the other, of which the log is not read."""
    file = tmp_path_factory.mktemp("config") / "kraftwatch.yaml"
    file.write_text(
        f"""clusters:
  - {{name: prod, bootstrap: [c1.test:9093], rules: {{{RULE}: {{enabled: false}}}}}}
  - {{name: staging, bootstrap: [c2.test:9093], metadata_log: false}}
thresholds: {{no-leader: {{hold: 7m}}}}
rules: {{{RULE}: {{severity: info}}}}
"""
    )
    return file


def lines(*words: object) -> list[dict[str, Any]]:
    return json_lines(kraftwatch(*words))


def evaluated_as_configured(statuses: list[dict[str, Any]]) -> bool:
    by_name = {one["cluster"]: one for one in statuses}
    off = RULE in {one["rule"] for one in by_name["prod"]["not_applicable"]}
    polls_only = {one["why"] for one in by_name["staging"]["not_applicable"]} >= {NO_LOG}
    return off and polls_only and by_name["staging"]["changed_severities"] == [{"rule": RULE, "severity": "info"}]


def test_report_is_evaluated_with_the_configuration(without_ledger: Path, config: Path, tmp_path: Path) -> None:
    def html(*more: object) -> str:
        out = tmp_path / "report.html"
        kraftwatch("report", "--journal", without_ledger, "--only", "prod", "--output", out, *more)
        return out.read_text()

    assert f"{RULE} · " in html()
    assert f"{RULE} · " not in html("--config", config)
    assert "disabled by the configuration" in html("--config", config)


def test_bundle_holds_the_thresholds_and_its_reader_uses_them(recorded: Path, config: Path, tmp_path: Path) -> None:
    file, plain = tmp_path / "incident.tar.gz", tmp_path / "plain.tar.gz"
    kraftwatch("bundle", "--checkpoint", recorded, "--output", file, "--config", config)
    kraftwatch("bundle", "--checkpoint", recorded, "--output", plain)

    with tarfile.open(file) as packed:
        member = packed.extractfile("bundle.json")
        assert member is not None
        manifest = json.loads(member.read())
    assert evaluated_as_configured(manifest["status"])
    assert evaluated_as_configured(lines("status", "--journal", file, "--json"))
    assert not evaluated_as_configured(lines("status", "--journal", plain, "--json"))
    held = lines("replay", "--journal", file, "--json")
    at_once = lines("replay", "--journal", file, "--json", "--set", "no-leader.hold=1")
    assert [one["rule"] for one in at_once].count("no-leader") > [one["rule"] for one in held].count("no-leader")
    assert not [one for one in held if (one["rule"], one["cluster"]) == (RULE, "prod")]
