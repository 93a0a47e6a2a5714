"""`kraftwatch replay` and `timeline` on a recorded journal and on the disk of a real controller."""

import json
from pathlib import Path
from typing import Any

import pytest

from connectors.delivery.ledger import stored_alerts
from connectors.store.tables import job_database
from tests.cli.program import json_lines, kraftwatch, usage_error


def alerts(*options: object) -> list[dict[str, Any]]:
    return json_lines(kraftwatch("replay", *options, "--json"))


@pytest.fixture(scope="module")
def fired(recorded: Path) -> list[dict[str, Any]]:
    return alerts("--journal", recorded)


def test_recorded_journal_fires_and_resolves_the_same_each_time(recorded: Path, fired: list[dict[str, Any]]) -> None:
    assert alerts("--journal", recorded) == fired
    assert {one["state"] for one in fired} == {"firing", "resolved"}
    assert all(one["sent_at"] == one["observed_at"] for one in fired)


def test_longer_hold_sends_fewer_or_later_alerts(recorded: Path, fired: list[dict[str, Any]], tmp_path: Path) -> None:
    clusters = [{"name": name, "bootstrap": [f"{name}.test:9093"]} for name in ("prod", "staging")]
    rules = {str(one["rule"]) for one in fired} - {"data-contract-broken", "version-drift"}
    now, then = tmp_path / "now.yaml", tmp_path / "then.yaml"
    now.write_text(json.dumps({"clusters": clusters}))
    then.write_text(json.dumps({"clusters": clusters, "thresholds": {rule: {"hold": "10m"} for rule in rules}}))
    compare = ("replay", "--journal", recorded, "--config", now, "--compare")

    assert "No difference" in kraftwatch(*compare, now).stdout
    (found,) = json_lines(kraftwatch(*compare, then, "--json"))
    assert found["notifications_then"] < found["notifications"]
    assert found["gone"]
    assert found["new"] == []


def test_log_directory_shows_what_its_log_shows(stopped: Path) -> None:
    quiet = alerts("--log-dir", stopped / "node-1")
    churn = alerts("--log-dir", stopped / "node-1", "--set", "epoch-churn.elections=1")

    assert not any(one["rule"] == "monitor-blind" for one in quiet), "no node was to be polled"
    assert len(churn) >= len(quiet)
    printed = kraftwatch("timeline", "--log-dir", stopped / "node-1").stdout
    assert "was elected, epoch 1" in printed
    assert "endpoint of 1 changed" in printed


def entries(*options: object) -> list[dict[str, Any]]:
    return json_lines(kraftwatch("timeline", *options, "--json"))


def test_journal_gives_log_events_and_the_alerts_of_the_ledger_in_order_of_all_or_of_a_span(recorded: Path) -> None:
    found = entries("--journal", recorded)

    assert [one["at"] for one in found] == sorted(one["at"] for one in found)
    one = found[len(found) // 2]
    part = entries("--journal", recorded, "--only", one["cluster"], "--from", one["at"], "--to", one["at"])
    assert part == [each for each in found if (each["cluster"], each["at"]) == (one["cluster"], one["at"])]
    assert {"election", "alert", "controller-start"} <= {one["kind"] for one in found}
    assert not stored_alerts(job_database(recorded, read_only=True)) or sum(one["kind"] == "alert" for one in found) > 0


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
