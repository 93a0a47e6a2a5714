"""`kraftwatch replay` and `timeline` on a recorded journal and on the disk of a real controller."""

from pathlib import Path
from typing import Any

import pytest

from connectors.delivery.ledger import stored_alerts
from connectors.store.tables import job_database
from tests.cli.program import json_lines, kraftwatch, usage_error


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


def entries(*options: object) -> list[dict[str, Any]]:
    return json_lines(kraftwatch("timeline", *options, "--json"))


def test_journal_gives_log_events_and_the_alerts_of_the_ledger_in_order(recorded: Path) -> None:
    found = entries("--journal", recorded)

    for name in {one["cluster"] for one in found}:
        times = [one["at"] for one in found if one["cluster"] == name]
        assert times == sorted(times)
    assert {"election", "alert", "controller-start"} <= {one["kind"] for one in found}
    assert not stored_alerts(job_database(recorded, read_only=True)) or sum(one["kind"] == "alert" for one in found) > 0


def test_span_and_cluster_are_selected(recorded: Path) -> None:
    found = entries("--journal", recorded)
    one = found[len(found) // 2]

    part = entries("--journal", recorded, "--cluster", one["cluster"], "--from", one["at"], "--to", one["at"])

    assert part == [each for each in found if (each["cluster"], each["at"]) == (one["cluster"], one["at"])]


@pytest.mark.parametrize(
    ("span", "reason"),
    [
        (
            ("--from", "2026-11-20T04:48:00Z", "--to", "2026-11-20T04:47:00Z"),
            "--from 2026-11-20T04:48:00.000Z: the start must be before the end, 2026-11-20T04:47:00.000Z",
        ),
        (("--from", "2027-01-01"), "--from 2027-01-01T00:00:00.000Z: {} ends with 2026-11-20T04:48:49.300Z"),
    ],
)
def test_time_in_which_nothing_was_recorded_is_refused(recorded: Path, span: tuple[str, ...], reason: str) -> None:
    # An empty timeline would say that nothing happened.
    assert usage_error("timeline", "--journal", recorded, *span) == reason.format(recorded)


def test_log_directory_gives_the_events_of_its_log(stopped: Path) -> None:
    ended = kraftwatch("timeline", "--log-dir", stopped / "node-1")

    assert ended.exit_code == 0, ended.output
    assert "was elected, epoch 1" in ended.stdout
    assert "endpoint of 1 changed" in ended.stdout
