"""Commands on the machine of a running job, of whose cluster no controller runs any more."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from connectors.wall_clock import wall_ms
from rules.model.identifiers import Endpoint, NodeId
from streaming.cli import recorded_states
from streaming.pipeline.checkpoint import Checkpoint
from tests.cli.program import kraftwatch
from tests.unit.streaming.status.status_journal import journal, observed, polled

CLUSTER_ID = "cluster-id"


@pytest.fixture
def job(folder: Path) -> Checkpoint:
    """The checkpoint of a job, in the working directory: two seconds ago controller 1 led in epoch 7."""
    checkpoint = Checkpoint(folder=folder / "kraftwatch-checkpoint")
    nodes = {NodeId(node): (Endpoint(listener="CONTROLLER", host="127.0.0.1", port=node),) for node in (1, 2)}
    journal(checkpoint.journal, [observed(replace(polled(7), nodes=nodes), wall_ms() - 2_000)])
    checkpoint.record_cluster_ids({"a": CLUSTER_ID})
    return checkpoint


@pytest.fixture
def runs(job: Checkpoint) -> Iterator[Checkpoint]:
    with job.held():
        yield job


def answer(verb: str, *more: str, cluster: str = "a=127.0.0.1:1") -> dict[str, Any]:
    ended = kraftwatch(verb, *more, "--cluster", cluster, "--json")
    assert ended.exception is None or isinstance(ended.exception, SystemExit), ended.exception
    found: dict[str, Any] = json.loads(ended.stdout)
    return {**found, "exit_code": ended.exit_code, "stderr": ended.stderr}


def rules(answered: dict[str, Any]) -> set[str]:
    return {one["rule"] for one in answered["findings"]}


def test_check_and_status_name_the_outage(runs: Checkpoint) -> None:
    checked, status = answer("check"), answer("status")

    assert (checked["exit_code"], checked["source"], status["source"]) == (2, "journal", "journal")
    assert "no-leader" in rules(checked) & rules(status)
    assert checked["recorded_at"] is not None
    assert f"cluster a: known from the job in {runs.folder.name} until " in checked["stderr"]


def test_safe_to_restart_and_what_if_answer_of_what_the_job_knows(runs: Checkpoint) -> None:
    restart, prediction = answer("safe-to-restart", "1"), answer("what-if", "--lose", "2")

    assert restart["against"] == ["no controller leads the quorum (all refuse connections): fix that first"]
    assert prediction["assumed"][0].endswith(" old: no leader answered now")


def test_a_job_that_has_ended_is_not_asked_by_default(job: Checkpoint) -> None:
    checked = answer("check")

    assert (checked["exit_code"], checked["source"], rules(checked)) == (3, "none", {"monitor-blind"})


def test_a_cluster_that_the_job_knows_by_another_name_is_found_by_its_id(
    runs: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streaming.status.live.identify", lambda *_: CLUSTER_ID)
    checked = answer("check", cluster="other=127.0.0.1:1")

    assert (checked["cluster"], checked["source"]) == ("other", "journal")
    assert "no-leader" in rules(checked)


def test_what_a_job_recorded_of_another_cluster_is_not_used(runs: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streaming.status.live.identify", lambda *_: "another-id")
    checked = answer("check", "--timeout", "1")

    assert (checked["source"], rules(checked)) == ("none", {"monitor-blind"})
    assert "cluster a has the id another-id, and the job in " in checked["stderr"]
    assert "is of another cluster and is not used" in checked["stderr"]


def test_the_checkpoint_of_the_service_is_found_from_any_folder(
    runs: Checkpoint, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorded_states, "SERVICE_CHECKPOINT", runs.folder)
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))

    assert "no-leader" in rules(answer("check"))
