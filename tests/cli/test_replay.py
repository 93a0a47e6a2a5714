"""`kraftwatch replay`: alerts of a recorded journal and of a log directory, and what another configuration changes."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from connectors.errors import UsageError
from streaming.cli import app
from tests.recordings import recorded_checkpoint
from tests.unit.connectors.logdir.log_dirs import stopped_quorum


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of a real job that recorded faults."""
    return recorded_checkpoint(tmp_path_factory.mktemp("recorded")).folder


def replay(*options: str) -> Result:
    return CliRunner().invoke(app, ["replay", *options])


def alerts(ended: Result) -> list[dict[str, object]]:
    assert ended.exit_code == 0, ended.output
    return [json.loads(line) for line in ended.stdout.splitlines()]


def test_recorded_journal_fires_and_resolves_the_same_each_time(checkpoint: Path) -> None:
    first, second = (alerts(replay("--journal", str(checkpoint), "--json")) for _ in range(2))

    assert first == second
    assert {one["state"] for one in first} == {"firing", "resolved"}
    assert all(one["sent_at"] == one["observed_at"] for one in first)


def test_longer_hold_sends_fewer_or_later_alerts(checkpoint: Path, tmp_path: Path) -> None:
    names = {str(one["cluster"]) for one in alerts(replay("--journal", str(checkpoint), "--json"))}
    clusters = [f"  - {{name: {name}, bootstrap: ['{name}.test:9093']}}" for name in sorted(names)]
    now, then = tmp_path / "now.yaml", tmp_path / "then.yaml"
    now.write_text("\n".join(["clusters:", *clusters, ""]))
    then.write_text("\n".join(["clusters:", *clusters, "thresholds:", "  voter-lagging: {hold: 10m}", ""]))
    same = replay("--journal", str(checkpoint), "--config", str(now), "--compare", str(now))
    assert "No difference" in same.stdout

    rules = {str(one["rule"]) for one in alerts(replay("--journal", str(checkpoint), "--config", str(now), "--json"))}
    holds = [f"  {rule}: {{hold: 10m}}" for rule in sorted(rules - {"data-contract-broken", "version-drift"})]
    then.write_text("\n".join(["clusters:", *clusters, "thresholds:", *holds, ""]))
    changed = replay("--journal", str(checkpoint), "--config", str(now), "--compare", str(then), "--json")

    found = json.loads(changed.stdout)
    assert found["notifications_then"] < found["notifications"]
    assert found["gone"]
    assert found["new"] == []


def test_log_directory_shows_what_its_log_shows(tmp_path: Path) -> None:
    stopped = stopped_quorum(tmp_path)

    quiet = replay("--log-dir", str(stopped / "node-1"), "--json")
    churn = replay("--log-dir", str(stopped / "node-1"), "--json", "--set", "epoch-churn.elections=1")

    assert not any(one["rule"] == "monitor-blind" for one in alerts(quiet)), "no node was to be polled"
    assert len(alerts(churn)) >= len(alerts(quiet))


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ((), "give --journal DIR or --log-dir DIR"),
        (("--journal", "/nowhere"), "no journal is there"),
        (("--log-dir", "/nowhere"), "no metadata log is in /nowhere"),
    ],
)
def test_missing_input_is_a_usage_error(options: tuple[str, ...], reason: str) -> None:
    ended = replay(*options)

    assert isinstance(ended.exception, UsageError), ended.output
    assert reason in str(ended.exception)
