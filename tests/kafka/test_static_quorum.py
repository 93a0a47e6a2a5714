"""Faults in a static quorum of three Kafka 3.6 controllers, which report no leader address and no directory ids."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from connectors.observations.observation import ObservationKind
from tests.cli import program
from tests.eventually import eventually
from tests.kafka.gatherer_run import NAME, cluster_of, run_gatherer
from tests.lab import Lab

pytestmark = [pytest.mark.lab, pytest.mark.long]
SHORT_FETCH_AGE = ("--set", "stale-voter-endpoint.fetch_age=2", "--set", "failure-tolerance.fetch_age=2")


@pytest.fixture(scope="module")
def lab(shared_lab: Callable[..., Lab]) -> Lab:
    return shared_lab(controllers=3, brokers=2, version="3.6.2", properties={"broker.session.timeout.ms": "3000"})


def kraftwatch(lab: Lab, verb: str, *more: str) -> Result:
    return program.kraftwatch(verb, *more, "--cluster", f"{NAME}={','.join(lab.bootstrap)}", "--json")


def json_of(lab: Lab, verb: str, *more: str) -> dict[str, Any]:
    output: dict[str, Any] = json.loads(kraftwatch(lab, verb, *more).stdout)
    return output


def test_new_leader_is_found_after_the_leader_is_killed(lab: Lab, tmp_path: Path) -> None:
    with run_gatherer(tmp_path, cluster_of(lab)) as gatherer:
        eventually(lambda: bool(gatherer.rows(ObservationKind.RECORDS)), within_s=15)
        old = lab.leader
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
