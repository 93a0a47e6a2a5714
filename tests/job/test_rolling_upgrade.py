"""Rolling upgrades of healthy clusters fire no alert with the default holds, except for long or many elections.

With a short hold, `version-drift` fires while the nodes have different versions.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from connectors.store.collection import quarantine_of
from connectors.store.tables import job_database
from streaming.cli import app
from tests.job.configured_job import ConfiguredJob, second_section, section
from tests.job.conftest import await_fetches_of_all_voters
from tests.job.elections import rules_expected_by_elections
from tests.job.job_state import wait_until_delivered
from tests.lab import Lab

pytestmark = [pytest.mark.lab, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(1200)]
NEW, RELEASE, METADATA_VERSION = "4.4.0", "4.4", 33
VERSIONS = [("4.3.1", False), ("3.9.2", False), ("3.9.2", True)]
"""The Kafka before, and whether its quorum is static."""
SHORT_HOLD_S = 5
AFTERWARDS_S = 30.0
"""How long the job runs after the upgrade without an alert."""


@pytest.fixture(scope="module", params=VERSIONS, ids=["4.3.1", "3.9.2", "3.9.2-static"])
def lab(folder: Path, request: pytest.FixtureRequest) -> Iterator[Lab]:
    version, static = request.param
    with Lab(folder / f"lab-{version}-{static}", version=version, static=static) as lab:
        yield lab


@pytest.fixture(scope="module")
def job(folder: Path, lab: Lab, request: pytest.FixtureRequest) -> Iterator[ConfiguredJob]:
    job = ConfiguredJob(folder=folder / f"job-{lab.version}-{lab.static}", bootstrap=(), name="test")
    job.folder.mkdir()
    short = {"version-drift": {"hold": SHORT_HOLD_S}}
    job.write_config(
        clusters=[
            section("test", lab),
            second_section("short-hold", lab, job.folder / "hosts", thresholds=short),
        ]
    )
    with job:
        yield job


def test_rolling_upgrade_and_feature_upgrade_fire_no_alert(lab: Lab, job: ConfiguredJob) -> None:
    lab.create_topic("orders", partitions=4, replication=2)
    leader = lab.await_state(lambda state: True, what="a leader").leader_id
    controllers = [*(node for node in lab.controllers if node != leader), leader]
    assert status(lab)["kraft_version"] == (0 if lab.static else 1)

    for node in (*controllers, *lab.brokers):
        lab.stop(node)
        lab.install(node, NEW)
        lab.start(node)
        await_fetches_of_all_voters(lab)
    assert lab.version == NEW
    if lab.static:
        lab.upgrade_features("--feature", f"metadata.version={METADATA_VERSION}")
        lab.upgrade_features("--feature", "kraft.version=1")
    else:
        lab.upgrade_features("--release-version", RELEASE)
    wait_until_delivered(job, after_s=AFTERWARDS_S)

    now = status(lab)
    assert (now["kraft_version"], now["metadata_version"]) == (1, METADATA_VERSION), "the upgrade is complete"
    assert [one["id"] for one in now["committed_voters"]["voters"]] == lab.controllers
    assert [one["verdict"] for one in now["endpoints"]] == ["ok", "ok", "ok"]
    expected = rules_expected_by_elections(lab)
    alerts = [alert for alert in job.alerts() if alert.rule not in expected]
    assert [each.line["summary"] for each in alerts if each.line["cluster"] == "test"] == []
    drift = [(each.rule, each.state) for each in alerts if each.severity == "warning"]
    assert drift == [("version-drift", "firing"), ("version-drift", "resolved")]
    assert {(each.rule, each.line["cluster"]) for each in alerts} == {("version-drift", "short-hold")}
    assert [each.line["summary"] for each in job.firing()] == []
    assert quarantine_of(job_database(job.checkpoint, read_only=True)).items() == {}, (
        "the records of both versions decode"
    )


def status(lab: Lab) -> dict[str, Any]:
    result = CliRunner().invoke(app, ["status", "--cluster", f"test={','.join(lab.bootstrap)}", "--json"])
    fields: dict[str, Any] = json.loads(result.stdout)
    return fields
