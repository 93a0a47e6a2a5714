"""A static quorum of three old controllers, hurt: Kafka 3.6 tells who leads and not where, and no directory ids."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from connectors.decode_observation import events_of
from connectors.observation import Kind, Observation
from deploy.lab.lab import Lab
from rules.evaluate import evaluate, thresholds_for
from rules.finding import Finding, Severity
from rules.model.identifiers import Millis
from rules.model.monitoring import Vantage
from streaming.cli import app
from streaming.replay.machine import Machine
from tests.eventually import eventually
from tests.kafka.gatherer_run import NAME, cluster_of, gathering
from tests.kafka.version_table import VOTERS_IN_THE_LOG

pytestmark = [pytest.mark.lab, pytest.mark.long]
SOON_SILENT = ("--set", "stale-voter-endpoint.silent=2", "--set", "failure-tolerance.silent=2")


@pytest.fixture(scope="module")
def lab(shared_lab: Callable[..., Lab]) -> Lab:
    return shared_lab(controllers=3, brokers=2, version="3.6.2", properties={"broker.session.timeout.ms": "3000"})


def kraftwatch(lab: Lab, verb: str, *more: str) -> Result:
    return CliRunner().invoke(app, [verb, *more, "--cluster", f"{NAME}={','.join(lab.bootstrap)}", "--json"])


def said(lab: Lab, verb: str, *more: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(kraftwatch(lab, verb, *more).stdout)
    return answer


def leader_of(lab: Lab) -> int:
    return lab.await_state(lambda state: True, what="a leader").leader_id


def judged(rows: list[Observation]) -> tuple[Finding, ...]:
    """What the rules find at the newest of these rows, by their default thresholds."""
    machine = Machine(NAME, None, (), Vantage.INSIDE)
    for row in rows:
        machine.apply(events_of(row).events(), sequence=machine.sequence + 1, observed_at_ms=Millis(row.observed_at_ms))
    return evaluate(machine.quorum(), thresholds_for({})).findings


@pytest.mark.kip("D097", "D098", "D099", "E012")
def test_healthy_it_is_what_kafkas_own_tool_says(lab: Lab) -> None:
    before = said(lab, "status")
    theirs, rows = lab.describe_status(), lab.describe_replication()
    after = said(lab, "status")
    ours = said(lab, "replication")["replicas"]

    for status in (before, after):
        assert (status["leader_id"], status["leader_epoch"]) == (int(theirs["LeaderId"]), int(theirs["LeaderEpoch"]))
        assert [one["id"] for one in status["current_voters"]] == json.loads(theirs["CurrentVoters"]) == [1, 2, 3]
        assert [one["id"] for one in status["current_observers"]] == json.loads(theirs["CurrentObservers"])
    assert before["high_watermark"] <= int(theirs["HighWatermark"]) <= after["high_watermark"]
    assert [(row["node_id"], row["status"]) for row in ours] == [(int(row["NodeId"]), row["Status"]) for row in rows]
    checked = kraftwatch(lab, "check")
    shown = json.loads(checked.stdout)
    assert (checked.exit_code, shown["cannot_tell"], shown["missing"]) == (0, [], [])
    assert {one["rule"] for one in shown["not_applicable"]} >= VOTERS_IN_THE_LOG
    assert (
        kraftwatch(lab, "safe-to-restart", str(next(one for one in (1, 2, 3) if one != leader_of(lab)))).exit_code == 0
    )


def test_a_leader_that_dies_is_found_again_among_the_named_controllers(lab: Lab, tmp_path: Path) -> None:
    with gathering(tmp_path, cluster_of(lab)) as gathered:
        eventually(lambda: bool(gathered.rows(Kind.RECORDS)), within_s=15)
        old = leader_of(lab)
        lab.kill(old)
        new = lab.await_state(lambda state: state.leader_id != old, what="another leader")

        def read_on() -> None:
            assert max(row.leader_epoch or 0 for row in gathered.rows(Kind.RECORDS)) >= new.leader_epoch

        eventually(read_on, within_s=15)

    def known_to_be_down() -> Result:
        checked = kraftwatch(lab, "check", *SOON_SILENT)
        assert "failure-tolerance" in {one["rule"] for one in json.loads(checked.stdout)["findings"]}
        return checked

    assert eventually(known_to_be_down, within_s=20).exit_code == 1
    assert kraftwatch(lab, "safe-to-restart", str(new.leader_id), *SOON_SILENT[:2]).exit_code == 2
    assert said(lab, "status")["leader_id"] == new.leader_id
    lab.start(old)


def test_recovering_partitions_are_seen(lab: Lab) -> None:
    lab.strand_recovering("orders", partitions=2)

    def listed() -> None:
        found = said(lab, "partitions")["recovering"]
        assert {(one["topic"], one["partition"]) for one in found} == {("orders", 0), ("orders", 1)}

    eventually(listed, within_s=10)


def test_a_leader_that_lost_its_majority_leads_on_and_is_critical_and_so_is_none(lab: Lab, tmp_path: Path) -> None:
    # Check quorum, by which such a leader resigns, came with Kafka 3.7 (KAFKA-15489).
    leader = leader_of(lab)
    left, other = (node for node in lab.controllers if node != leader)
    lab.kill(left, other)

    def cannot_commit() -> None:
        checked = kraftwatch(lab, "check", *SOON_SILENT)
        found = {one["rule"]: one["severity"] for one in json.loads(checked.stdout)["findings"]}
        assert (checked.exit_code, found.get("failure-tolerance")) == (2, "critical")

    eventually(cannot_commit, within_s=20)
    assert said(lab, "status")["leader_id"] == leader
    with gathering(tmp_path, cluster_of(lab)) as gathered:

        def stalled() -> None:
            findings = {one.rule: one.severity for one in judged(gathered.rows())}
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
    assert said(lab, "status", "--timeout", "2")["leader_id"] is None
