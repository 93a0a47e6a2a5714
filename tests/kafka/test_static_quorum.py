"""Faults in a static quorum of three Kafka 3.6 controllers, which report no leader address and no directory ids."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from connectors.observations.observation import Observation, ObservationKind
from rules.evaluate import evaluate, thresholds_for
from rules.finding import Finding, Severity
from rules.model.identifiers import Millis
from streaming.cli import app
from streaming.replay.cluster_settings import ClusterSettings
from streaming.replay.decoded_row import decode_observation
from streaming.replay.machine import Machine
from tests.eventually import eventually
from tests.kafka.gatherer_run import NAME, cluster_of, run_gatherer
from tests.kafka.version_table import VOTERS_IN_THE_LOG
from tests.lab import Lab

pytestmark = [pytest.mark.lab, pytest.mark.long]
SHORT_FETCH_AGE = ("--set", "stale-voter-endpoint.fetch_age=2", "--set", "failure-tolerance.fetch_age=2")


@pytest.fixture(scope="module")
def lab(shared_lab: Callable[..., Lab]) -> Lab:
    return shared_lab(controllers=3, brokers=2, version="3.6.2", properties={"broker.session.timeout.ms": "3000"})


def kraftwatch(lab: Lab, verb: str, *more: str) -> Result:
    return CliRunner().invoke(app, [verb, *more, "--cluster", f"{NAME}={','.join(lab.bootstrap)}", "--json"])


def json_of(lab: Lab, verb: str, *more: str) -> dict[str, Any]:
    output: dict[str, Any] = json.loads(kraftwatch(lab, verb, *more).stdout)
    return output


def leader_of(lab: Lab) -> int:
    return lab.await_state(lambda state: True, what="a leader").leader_id


def findings_of(rows: list[Observation]) -> tuple[Finding, ...]:
    """Evaluates the rules after these rows with the default thresholds."""
    machine = Machine(ClusterSettings(name=NAME))
    for row in rows:
        machine.apply(
            decode_observation(row).events(), sequence=machine.sequence + 1, observed_at_ms=Millis(row.observed_at_ms)
        )
    return evaluate(machine.quorum(), thresholds_for({})).findings


@pytest.mark.kip("D097", "D098", "D099", "E012")
def test_healthy_quorum_is_reported_as_by_kafkas_own_tool(lab: Lab) -> None:
    before = json_of(lab, "status")
    expected, rows = lab.describe_status(), lab.describe_replication()
    after = json_of(lab, "status")
    replicas = json_of(lab, "replication")["replicas"]

    for status in (before, after):
        assert (status["leader_id"], status["leader_epoch"]) == (
            int(expected["LeaderId"]),
            int(expected["LeaderEpoch"]),
        )
        assert [one["id"] for one in status["current_voters"]] == json.loads(expected["CurrentVoters"]) == [1, 2, 3]
        assert [one["id"] for one in status["current_observers"]] == json.loads(expected["CurrentObservers"])
    assert before["high_watermark"] <= int(expected["HighWatermark"]) <= after["high_watermark"]
    assert [(row["node_id"], row["status"]) for row in replicas] == [
        (int(row["NodeId"]), row["Status"]) for row in rows
    ]
    checked = kraftwatch(lab, "check")
    output = json.loads(checked.stdout)
    assert (checked.exit_code, output["cannot_tell"], output["missing"]) == (0, [], [])
    assert {one["rule"] for one in output["not_applicable"]} >= VOTERS_IN_THE_LOG
    assert (
        kraftwatch(lab, "safe-to-restart", str(next(one for one in (1, 2, 3) if one != leader_of(lab)))).exit_code == 0
    )


def test_new_leader_is_found_after_the_leader_is_killed(lab: Lab, tmp_path: Path) -> None:
    with run_gatherer(tmp_path, cluster_of(lab)) as gatherer:
        eventually(lambda: bool(gatherer.rows(ObservationKind.RECORDS)), within_s=15)
        old = leader_of(lab)
        lab.kill(old)
        new = lab.await_state(lambda state: state.leader_id != old, what="another leader")

        def new_epoch_is_recorded() -> None:
            assert max(row.leader_epoch or 0 for row in gatherer.rows(ObservationKind.RECORDS)) >= new.leader_epoch

        eventually(new_epoch_is_recorded, within_s=15)

    def failed_voter_is_found() -> Result:
        checked = kraftwatch(lab, "check", *SHORT_FETCH_AGE)
        assert "failure-tolerance" in {one["rule"] for one in json.loads(checked.stdout)["findings"]}
        return checked

    assert eventually(failed_voter_is_found, within_s=20).exit_code == 1
    assert kraftwatch(lab, "safe-to-restart", str(new.leader_id), *SHORT_FETCH_AGE[:2]).exit_code == 2
    assert json_of(lab, "status")["leader_id"] == new.leader_id
    lab.start(old)


def test_leader_without_majority_and_quorum_without_leader_are_critical(lab: Lab, tmp_path: Path) -> None:
    # Such a leader resigns only from Kafka 3.7 on (check quorum, KAFKA-15489).
    leader = leader_of(lab)
    left, other = (node for node in lab.controllers if node != leader)
    lab.kill(left, other)

    def cannot_commit() -> None:
        checked = kraftwatch(lab, "check", *SHORT_FETCH_AGE)
        findings = {one["rule"]: one["severity"] for one in json.loads(checked.stdout)["findings"]}
        assert (checked.exit_code, findings.get("failure-tolerance")) == (2, "critical")

    eventually(cannot_commit, within_s=20)
    assert json_of(lab, "status")["leader_id"] == leader
    with run_gatherer(tmp_path, cluster_of(lab)) as gatherer:

        def stalled() -> None:
            findings = {one.rule: one.severity for one in findings_of(gatherer.rows())}
            assert findings.get("high-watermark-stalled") is Severity.CRITICAL
            assert "no-leader" not in findings

        eventually(stalled, within_s=60, every_s=2)
    lab.start(left)
    lab.kill(leader)

    def leaderless() -> None:
        checked = kraftwatch(lab, "check", "--timeout", "2")
        assert checked.exit_code == 2
        assert "no-leader" in {one["rule"] for one in json.loads(checked.stdout)["findings"]}

    eventually(leaderless, within_s=30)
    assert json_of(lab, "status", "--timeout", "2")["leader_id"] is None
