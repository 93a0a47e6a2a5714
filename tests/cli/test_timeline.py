"""`kraftwatch timeline` on a recorded journal and on the disk of a real controller."""

from pathlib import Path
from typing import Any

import pytest

from connectors.delivery.ledger import stored_alerts
from connectors.store.tables import job_database
from tests.cli.program import json_lines, kraftwatch, usage_error


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
