"""`kraftwatch timeline` on a recorded journal and on the disk of a real controller."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from connectors.delivery.ledger import stored_alerts
from connectors.errors import UsageError
from connectors.store.tables import job_database
from streaming.cli import app
from tests.recordings import recorded_checkpoint
from tests.unit.connectors.logdir.log_dirs import stopped_quorum


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recorded_checkpoint(tmp_path_factory.mktemp("recorded")).folder


def timeline(*options: str) -> Result:
    return CliRunner().invoke(app, ["timeline", *options])


def entries(ended: Result) -> list[dict[str, str]]:
    assert ended.exit_code == 0, ended.output
    return [json.loads(line) for line in ended.stdout.splitlines()]


def test_journal_gives_log_events_and_the_alerts_of_the_ledger_in_order(checkpoint: Path) -> None:
    found = entries(timeline("--journal", str(checkpoint), "--json"))

    for name in {one["cluster"] for one in found}:
        times = [one["at"] for one in found if one["cluster"] == name]
        assert times == sorted(times)
    assert {"election", "alert", "controller-start"} <= {one["kind"] for one in found}
    assert (
        not stored_alerts(job_database(checkpoint, read_only=True)) or sum(one["kind"] == "alert" for one in found) > 0
    )


def test_span_and_cluster_are_selected(checkpoint: Path) -> None:
    found = entries(timeline("--journal", str(checkpoint), "--json"))
    one = found[len(found) // 2]

    part = entries(
        timeline(
            "--journal", str(checkpoint), "--json", "--cluster", one["cluster"], "--from", one["at"], "--to", one["at"]
        )
    )

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
def test_time_in_which_nothing_was_recorded_is_refused(checkpoint: Path, span: tuple[str, ...], reason: str) -> None:
    ended = timeline("--journal", str(checkpoint), *span)

    assert isinstance(ended.exception, UsageError), "an empty timeline would say that nothing happened"
    assert str(ended.exception) == reason.format(checkpoint)


def test_log_directory_gives_the_events_of_its_log(tmp_path: Path) -> None:
    ended = timeline("--log-dir", str(stopped_quorum(tmp_path) / "node-1"))

    assert ended.exit_code == 0, ended.output
    assert "was elected, epoch 1" in ended.stdout
    assert "endpoint of 1 changed" in ended.stdout


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ((), "give --journal DIR or --log-dir DIR"),
        (("--journal", "/nowhere"), "no journal is there"),
        (("--journal", "/nowhere", "--from", "yesterday"), "--from yesterday: expected a TIME"),
    ],
)
def test_invalid_options_are_usage_errors(options: tuple[str, ...], reason: str) -> None:
    ended = timeline(*options)

    assert isinstance(ended.exception, UsageError), ended.output
    assert reason in str(ended.exception)
