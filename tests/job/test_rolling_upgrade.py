"""Rolling upgrades of healthy clusters, with the default holds: nothing is alerts but what is worth knowing."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from deploy.lab.lab import Lab
from streaming.cli import app
from streaming.demo.job_process import JobProcess
from tests.job.conftest import every_voter_fetches
from tests.job.elections import worth_telling
from tests.job.job_state import wait_until_delivered

pytestmark = [pytest.mark.lab, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(1200)]
NEW, RELEASE, METADATA_VERSION = "4.3.1", "4.3", 30
CALM_S = 30.0
"""How long nothing must come of it afterwards."""


@pytest.fixture(scope="module", params=[("4.2.1", False), ("3.9.2", True)], ids=["4.2.1", "3.9.2-static"])
def lab(folder: Path, request: pytest.FixtureRequest) -> Iterator[Lab]:
    version, static = request.param
    with Lab(folder / f"lab-{version}", version=version, static=static) as lab:
        yield lab


@pytest.fixture(scope="module")
def job(folder: Path, lab: Lab) -> Iterator[JobProcess]:
    with JobProcess(folder=folder / f"watch-{lab.version}", name="test", bootstrap=lab.bootstrap) as job:
        yield job


def test_every_node_upgraded_in_turn_and_the_features_at_the_end_page_nobody(lab: Lab, job: JobProcess) -> None:
    lab.create_topic("orders", partitions=4, replication=2)
    leader = lab.await_state(lambda state: True, what="a leader").leader_id
    controllers = [*(node for node in lab.controllers if node != leader), leader]
    assert status(lab)["kraft_version"] == (0 if lab.static else 1)

    for node in (*controllers, *lab.brokers):
        lab.stop(node)
        lab.install(node, NEW)
        lab.start(node)
        every_voter_fetches(lab)
    assert lab.version == NEW
    lab.upgrade_features("--release-version", RELEASE)
    if lab.static:
        lab.upgrade_features("--feature", "kraft.version=1")
    wait_until_delivered(job, after_s=CALM_S)

    now = status(lab)
    assert (now["kraft_version"], now["metadata_version"]) == (1, METADATA_VERSION), "the upgrade was finished"
    assert [one["id"] for one in now["committed_voters"]["voters"]] == lab.controllers
    assert [one["verdict"] for one in now["endpoints"]] == ["ok", "ok", "ok"]
    true = worth_telling(lab)
    assert [
        (alert.rule, alert.severity, alert.line["summary"]) for alert in job.alerts() if alert.rule not in true
    ] == []
    assert [*(job.checkpoint / "quarantine").rglob("*")] == [], "records of both Kafkas are read"


def status(lab: Lab) -> dict[str, Any]:
    said = CliRunner().invoke(app, ["status", "--cluster", f"test={','.join(lab.bootstrap)}", "--json"])
    shown: dict[str, Any] = json.loads(said.stdout)
    return shown
