"""A combined node is a controller and a broker in one process, with one disk."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.lab.lab import Lab
from streaming.demo.job_process import JobProcess
from tests.job.conftest import short_thresholds

pytestmark = [pytest.mark.lab, pytest.mark.spark, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def settings() -> dict[str, float]:
    return short_thresholds("voter-disk-replaced", "no-leader")


@pytest.fixture(scope="module")
def lab(folder: Path) -> Iterator[Lab]:
    properties = {"broker.session.timeout.ms": "3000"}
    with Lab(folder / "lab", controllers=2, combined=1, brokers=1, properties=properties) as lab:
        yield lab


def test_replaced_disk_is_one_alert_and_printed_commands_fix_it(lab: Lab, job: JobProcess) -> None:
    (node,) = (node for node in lab.controllers if node in lab.brokers)
    lab.create_topic("orders", partitions=2, assignment=[[node, lab.brokers[-1]], [lab.brokers[-1], node]])
    lab.produce("orders", 10)

    lab.stop(node)
    lab.wipe_disk(node)
    lab.start(node, wait=False)
    alert = job.wait_for("voter-disk-replaced", subject=str(node), within_s=180)
    for line in alert.remedy:
        lab.run_remedy(line, node_properties=lab.node(node).properties_file)
    job.wait_for("voter-disk-replaced", "resolved", subject=str(node), within_s=180)

    assert node in lab.await_state(lambda state: True, what="a leader").voter_ids
    assert {each.rule for each in job.alerts()} == {"voter-disk-replaced"}
