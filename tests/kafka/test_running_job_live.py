"""Commands beside a running job know what it knows, on a real quorum of which all controllers are killed."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from streaming.pipeline.checkpoint import Checkpoint
from tests.cli import program
from tests.kafka.conftest import MakeLab
from tests.kafka.gatherer_run import NAME
from tests.kafka.monitored_cluster import monitor_cluster

pytestmark = pytest.mark.lab


def test_commands_name_an_outage_as_the_running_job_does(
    lab: MakeLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One address is given, and nothing answers there: alone, a command could only say that it observes nothing."""
    quorum = lab(controllers=3, brokers=1)
    monkeypatch.chdir(tmp_path)
    checkpoint = Checkpoint(folder=Path("kraftwatch-checkpoint"))
    options = ["--cluster", f"{NAME}={quorum.bootstrap[0]}", "--json"]

    def answer(verb: str, *more: str) -> dict[str, Any]:
        ended = program.kraftwatch(verb, *more, *options)
        found: dict[str, Any] = json.loads(ended.stdout)
        return {**found, "exit_code": ended.exit_code, "stderr": ended.stderr}

    def rules(answered: dict[str, Any]) -> Sequence[tuple[str, str]]:
        return sorted((one["rule"], one["subject"]) for one in answered["findings"])

    with checkpoint.held(), monitor_cluster(quorum, checkpoint.folder) as monitor:
        checkpoint.record_cluster_ids({NAME: quorum.cluster_id})
        monitor.start_scenario({"no-leader.hold": 2})
        healthy = answer("check")
        quorum.kill(*quorum.controllers)
        fired = monitor.wait_for("no-leader")
        checked, status = answer("check"), answer("status")
        restart = answer("safe-to-restart", str(quorum.controllers[0]))
        doctor = {one["subject"]: one["said"] for one in answer("doctor")["checks"] if one["of"] == NAME}
        prediction = answer("what-if", "--lose", str(quorum.controllers[0]))
        monitor.wait_for_quorum(lambda _: True)
        job = monitor.monitor.evaluation().findings

    assert (healthy["source"], healthy["exit_code"]) == ("live", 0)
    assert fired.severity == "critical"
    assert (checked["source"], checked["exit_code"]) == ("journal", 2)
    assert rules(checked) == rules(status) == sorted((one.rule, str(one.subject)) for one in job)
    assert ("no-leader", "quorum") in rules(checked)
    assert doctor["no-leader"].startswith("quorum, by the job, which knows it until ")
    assert (prediction["exit_code"], prediction["electable"]) == (2, False), "no voter listens"
    assert restart["exit_code"] == 2
    assert restart["against"] == ["no controller leads the quorum (all refuse connections): fix that first"]
    assert healthy["recorded_at"] is not None
    assert f"known from the job in {checkpoint.folder} until " in checked["stderr"]
