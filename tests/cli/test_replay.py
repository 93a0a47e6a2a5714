"""`kraftwatch replay`: alerts of a recorded journal and of a log directory, and what another configuration changes."""

from pathlib import Path
from typing import Any

from tests.cli.program import json_lines, kraftwatch


def alerts(*options: object) -> list[dict[str, Any]]:
    return json_lines(kraftwatch("replay", *options, "--json"))


def test_recorded_journal_fires_and_resolves_the_same_each_time(recorded: Path) -> None:
    first, second = (alerts("--journal", recorded) for _ in range(2))

    assert first == second
    assert {one["state"] for one in first} == {"firing", "resolved"}
    assert all(one["sent_at"] == one["observed_at"] for one in first)


def test_longer_hold_sends_fewer_or_later_alerts(recorded: Path, tmp_path: Path) -> None:
    names = {str(one["cluster"]) for one in alerts("--journal", recorded)}
    clusters = [f"  - {{name: {name}, bootstrap: ['{name}.test:9093']}}" for name in sorted(names)]
    now, then = tmp_path / "now.yaml", tmp_path / "then.yaml"
    now.write_text("\n".join(["clusters:", *clusters, ""]))
    then.write_text("\n".join(["clusters:", *clusters, "thresholds:", "  voter-lagging: {hold: 10m}", ""]))
    compare = ("replay", "--journal", recorded, "--config", now, "--compare")
    same = kraftwatch(*compare, now)
    assert "No difference" in same.stdout

    rules = {str(one["rule"]) for one in alerts("--journal", recorded, "--config", now)}
    holds = [f"  {rule}: {{hold: 10m}}" for rule in sorted(rules - {"data-contract-broken", "version-drift"})]
    then.write_text("\n".join(["clusters:", *clusters, "thresholds:", *holds, ""]))

    (found,) = json_lines(kraftwatch(*compare, then, "--json"))
    assert found["notifications_then"] < found["notifications"]
    assert found["gone"]
    assert found["new"] == []


def test_log_directory_shows_what_its_log_shows(stopped: Path) -> None:
    quiet = alerts("--log-dir", stopped / "node-1")
    churn = alerts("--log-dir", stopped / "node-1", "--set", "epoch-churn.elections=1")

    assert not any(one["rule"] == "monitor-blind" for one in quiet), "no node was to be polled"
    assert len(churn) >= len(quiet)
