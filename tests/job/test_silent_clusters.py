"""A job, or a relay, that starts before its clusters answer: it says so, and begins when they do."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.eventually import eventually
from tests.farm.farm import address
from tests.farm.farm_process import running_farm
from tests.job.configured_job import ConfiguredJob, section
from tests.job.relay_process import RelayProcess
from tests.lab import Lab

pytestmark = [pytest.mark.lab, pytest.mark.spark, pytest.mark.live, pytest.mark.timeout(900)]

LAB = {"controllers": 1, "brokers": 0}
FIRE_SOON = {"alerts": {"clear": 3}, "monitor-blind": {"hold": 6}, "quorum-shape": {"hold": 1}}
"""quorum-shape fires for a quorum of one voter after an hour by default."""


@pytest.fixture
def silent(lab: Lab) -> Iterator[dict[str, Any]]:
    """The section of the lab's cluster, whose controller does not run; a test starts it."""
    lab.stop(*lab.controllers)
    yield section("late", lab)
    if not lab.node(lab.controllers[0]).running:
        lab.start(*lab.controllers)


def ids_of(job: ConfiguredJob) -> dict[str, str]:
    ids: dict[str, str] = json.loads((job.checkpoint / "cluster.json").read_text())["cluster_ids"]
    return ids


def test_a_new_job_starts_before_its_cluster_and_monitors_it_once_it_answers(
    lab: Lab, silent: dict[str, Any], folder: Path
) -> None:
    job = ConfiguredJob(folder=folder / "late", bootstrap=(), name="late")
    job.write_config(clusters=[silent], thresholds=FIRE_SOON)
    with job:
        assert job.logged("cluster late: none of 127.0.0.1:")
        assert job.logged("and its cluster id is not known yet: it is monitored")
        fired = job.wait_for("monitor-blind")
        assert (fired.severity, fired.line["cluster_id"], ids_of(job)) == ("critical", "", {})
        job.stop()
        job.start()
        lab.start(*lab.controllers)
        ended = job.wait_for("monitor-blind", "resolved")
        eventually(lambda: job.logged(f"cluster late answers: its cluster id is {lab.cluster_id}"), within_s=60)
        assert ids_of(job) == {"late": lab.cluster_id}
        shape = job.wait_for("quorum-shape")
        assert (ended.line["fingerprint"], shape.line["cluster_id"]) == (fired.line["fingerprint"], lab.cluster_id)
    blind = [line for line in job.alerts() if line.rule == "monitor-blind"]
    assert {line.started_at for line in blind} == {fired.started_at}, "the restarted job continues it"
    assert [line.state for line in blind].count("resolved") == 1
    assert "Traceback" not in job.log.read_text()

    with running_farm(1) as farm:
        other = {"name": "late", "bootstrap": [f"{address(0, 1)}:{farm.port}"]}
        job.write_config(clusters=[other], thresholds=FIRE_SOON)
        refused = subprocess.run(
            [sys.executable, "-m", "streaming", "run", "--config", str(job.file)],
            capture_output=True,
            text=True,
            check=False,
        )
    assert (refused.returncode, f"belongs to cluster {lab.cluster_id}" in refused.stderr) == (2, True)


def test_a_silent_cluster_does_not_hold_up_another_one_and_may_be_added_while_the_job_runs(
    lab: Lab, silent: dict[str, Any], folder: Path
) -> None:
    job = ConfiguredJob(folder=folder / "two", bootstrap=(), name="farm")
    with running_farm(1) as farm:
        first = {"name": "farm", "bootstrap": [f"{address(0, 1)}:{farm.port}"]}
        job.write_config(clusters=[first], thresholds=FIRE_SOON)
        with job:
            assert ids_of(job).keys() == {"farm"}
            job.write_config(clusters=[first, silent], thresholds=FIRE_SOON)
            eventually(lambda: job.logged("was reloaded: changed clusters"), within_s=60)
            job.wait_for("monitor-blind")
            job.stop()
            job.start()
            lab.start(*lab.controllers)
            job.wait_for("monitor-blind", "resolved")
            eventually(lambda: ids_of(job)["late"] == lab.cluster_id, within_s=60)


def test_a_cluster_that_answers_later_and_does_not_name_its_id_is_reported(folder: Path) -> None:
    with Lab(folder / "secured", users=["monitor"], controllers=0, combined=1, brokers=0) as lab:
        lab.allow_monitoring("User:monitor")
        lab.stop(*lab.controllers)
        login = {
            "security_protocol": "SASL_SSL",
            "ssl_cafile": str(lab.security.ca_file),
            "sasl_mechanism": "PLAIN",
            "sasl_plain_username": "monitor",
            "sasl_plain_password": lab.security.passwords["monitor"],
        }
        thresholds = {**FIRE_SOON, "monitor-degraded": {"hold": 1}}
        job = ConfiguredJob(folder=folder / "nameless", bootstrap=(), name="late")
        job.write_config(clusters=[section("late", lab, **login)], thresholds=thresholds)
        with job:
            lab.start(*lab.controllers)
            fired = job.wait_for("monitor-degraded", subject="id of late")
            assert fired.remedy[0].startswith("# Set cluster_id of late in the configuration")
            job.write_config(clusters=[section("late", lab, **login, cluster_id=lab.cluster_id)], thresholds=thresholds)
            job.wait_for("monitor-degraded", "resolved", subject="id of late")
            assert ids_of(job) == {"late": lab.cluster_id}


def test_a_relay_starts_before_its_clusters_and_relays_each_once_it_answers(
    lab: Lab, topic_lab: Lab, silent: dict[str, Any], folder: Path
) -> None:
    relay = RelayProcess(folder / "relay", topic_lab, topic="late", clusters=[silent])
    relay.start()
    try:
        eventually(lambda: "cluster id is not known yet: it is relayed once it answers" in relay.log, within_s=60)
        lab.start(*lab.controllers)
        relay.wait_for_rows(1)
        assert f"late: cluster id {lab.cluster_id}" in relay.log
    finally:
        relay.stop()
    assert "Traceback" not in relay.log
