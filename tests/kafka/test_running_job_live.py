"""Commands beside a running job know what it knows, on a real quorum of which all controllers are killed."""

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from connectors.process.wall_clock import wall_ms
from streaming.pipeline.checkpoint import Checkpoint
from streaming.status.status_store import StatusStore
from streaming.web.fleet_view import FleetView
from streaming.web.past_states import PastStates
from tests.cli import program
from tests.eventually import eventually
from tests.in_background import in_background
from tests.kafka.conftest import MakeLab
from tests.kafka.gatherer_run import NAME
from tests.kafka.monitored_cluster import monitor_cluster
from tests.page_fixture import ServedPages

pytestmark = [pytest.mark.lab, pytest.mark.live]


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
    assert restart["against"] == [
        "no controller leads the quorum (all refuse connections); not safe until a controller leads"
    ]
    assert healthy["recorded_at"] is not None
    assert f"known from the job in {checkpoint.folder} until " in checked["stderr"]


def test_a_controller_that_has_just_stopped_does_not_count_by_what_the_job_knew(
    lab: MakeLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next controller of a rolling restart is asked for at once: the job's record is from before the stop."""
    quorum = lab(controllers=3)
    monkeypatch.chdir(tmp_path)
    checkpoint = Checkpoint(folder=Path("kraftwatch-checkpoint").absolute())
    stopped, other = quorum.followers

    def safe(*options: str) -> bool:
        ended = program.kraftwatch("safe-to-restart", str(other), *options, "--json")
        assert ended.stdout, f"{ended.output} {ended.exception}"
        return bool(json.loads(ended.stdout)["safe"])

    with checkpoint.held(), monitor_cluster(quorum, checkpoint.folder) as monitor:
        settings = monitor.monitor.settings
        with PastStates(checkpoint.journal, lambda _: settings) as past:
            store = StatusStore([NAME])

            def publish(ended: Event) -> None:
                while not ended.wait(0.5):
                    store.put_status(monitor.status(), at_ms=wall_ms())

            with in_background(publish), ServedPages(FleetView(store=store, past=past)) as page:
                at_cluster = ("--cluster", f"{NAME}={','.join(quorum.bootstrap)}")
                at_page = ("--job", page.url().rstrip("/"))
                for options in (at_cluster, at_page):
                    eventually(partial(safe, *options), within_s=60)
                answers = []
                for options in (at_cluster, at_page):
                    quorum.kill(stopped)
                    answers.append(safe(*options))
                    quorum.start(stopped)
                    eventually(partial(safe, *at_cluster), within_s=60)

    assert answers == [False, False]
