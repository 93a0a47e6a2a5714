"""`kraftwatch rescue plan`: a dry run for people and programs, with the promised exit codes."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from connectors.errors import UsageError
from streaming.cli import app
from tests.unit.connectors.logdir.log_dirs import stopped_quorum

NEW = "1@c1.new:9093:AaorEeDFTeqhbYUKWjaZFw,2@c2.new:9093:wPvHPGZoRSmdGaO9smPpMQ,3@c3.new:9093:Q6ZWoxLOS3O_aT7VKTK-sg"


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    return stopped_quorum(tmp_path)


def planned(stopped: Path, nodes: tuple[int, ...], *more: str) -> Result:
    named = [part for node in nodes for part in ("--log-dir", str(stopped / f"node-{node}"))]
    return CliRunner().invoke(app, ["rescue", "plan", *named, *more])


def test_new_endpoints_pass_and_the_disks_the_doubts_and_the_steps_are_shown(stopped: Path) -> None:
    ended = planned(stopped, (1, 2, 3), "--initial-controllers", NEW)

    assert ended.exit_code == 0
    said = " ".join(ended.stdout.split())
    assert "PASSED cluster vUKL8329QBu98AEWDcwiEw: only endpoints change; nothing was written" in said
    assert "3-Q6ZWoxLOS3O_aT7VKTK-sg (voter" in said
    assert "go on with 1-AaorEeDFTeqhbYUKWjaZFw and 2-wPvHPGZoRSmdGaO9smPpMQ" in said
    assert "mind: the logs end differently" in said
    assert "$ kafka-storage.sh format" in said


def test_another_directory_id_is_refused_with_2(stopped: Path) -> None:
    ended = planned(stopped, (2,), "--json", "--initial-controllers", NEW.replace("wPvH", "aaaa"))

    assert ended.exit_code == 2
    said = json.loads(ended.stdout)
    assert (said["outcome"], said["steps"]) == ("rejected", [])
    assert said["disks"][0]["difference"].startswith("VoterSetDiff{hasVoterIdChanges=false, hasDirectoryIdChanges=true")


def test_without_a_list_the_disks_alone_are_assessed(stopped: Path) -> None:
    ended = planned(stopped, (3, 101), "--json")

    assert ended.exit_code == 0
    said = json.loads(ended.stdout)
    assert (said["outcome"], said["holds_all_committed"], said["electable"]) == (None, False, False)
    assert said["go_on_with"] == ["3-Q6ZWoxLOS3O_aT7VKTK-sg"]
    assert said["initial_controllers"].startswith("1@127.0.0.1:28223:AaorEeDFTeqhbYUKWjaZFw,2@")
    assert [one["voter"] for one in said["disks"]] == [True, False]


def test_a_list_that_is_none_is_a_mistake(stopped: Path) -> None:
    ended = planned(stopped, (2,), "--initial-controllers", "1@c1")

    assert isinstance(ended.exception, UsageError)
