"""Loss of committed metadata: a controller whose disk is restored from an older copy."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from connectors.observations.observation import ObservationKind
from rules.model.monitoring import FailedObservation, Reason
from tests.eventually import eventually
from tests.kafka.gatherer_run import GathererRun, cluster_of, run_gatherer
from tests.lab import Lab

pytestmark = [pytest.mark.lab, pytest.mark.live]


def losses(gatherer: GathererRun) -> list[FailedObservation]:
    return [one for _, one in gatherer.failures() if one.reason is Reason.METADATA_LOST]


def assert_log_read_twice(gatherer: GathererRun) -> None:
    assert sum(row.base_offset == 0 for row in gatherer.rows(ObservationKind.RECORDS) if row.payload) == 2


def test_restored_disk_is_recorded_once_and_the_log_is_read_again(lab: Callable[..., Lab], tmp_path: Path) -> None:
    quorum = lab(controllers=1, brokers=1)
    (controller,) = quorum.controllers
    data, copy = quorum.node(controller).data, tmp_path / "copy"
    quorum.kill(controller)
    shutil.copytree(data, copy)
    quorum.start(controller)
    for at in range(30):
        quorum.create_topic(f"lost-topic-{at}")
    with run_gatherer(tmp_path / "gatherer", cluster_of(quorum)) as gatherer:
        eventually(lambda: b"lost-topic-29" in gatherer.log, within_s=30)
        quorum.kill(controller)
        shutil.rmtree(data)
        shutil.copytree(copy, data)
        quorum.start(controller, wait=False)
        # Wait until the log is read again: a gatherer that ends before that resumes and records the loss again.
        eventually(lambda: assert_log_read_twice(gatherer), within_s=30)

    with run_gatherer(tmp_path / "gatherer", cluster_of(quorum)) as restarted:
        records = len(restarted.rows(ObservationKind.RECORDS))
        eventually(lambda: len(restarted.rows(ObservationKind.RECORDS)) > records, within_s=30)

    assert_log_read_twice(restarted)
    (loss,) = losses(restarted)
    assert "was committed" in loss.detail
