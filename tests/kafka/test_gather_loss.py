"""Loss of committed metadata: a controller whose disk is restored from an older copy."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from connectors.observations.observation import ObservationFailed, ObservationKind
from rules.model.monitoring import Reason
from tests.eventually import eventually
from tests.kafka.gatherer_run import GathererRun, cluster_of, run_gatherer
from tests.lab import Lab

pytestmark = pytest.mark.lab


def losses(gatherer: GathererRun) -> list[ObservationFailed]:
    events = gatherer.events(ObservationKind.FAILED)
    return [one for one in events if isinstance(one, ObservationFailed) and one.reason is Reason.METADATA_LOST]


def assert_recorded(gatherer: GathererRun, marker: bytes) -> None:
    assert marker in gatherer.log


def assert_loss_recorded(gatherer: GathererRun) -> None:
    assert losses(gatherer)


def assert_log_read_twice(gatherer: GathererRun) -> None:
    assert sum(row.base_offset == 0 for row in gatherer.rows(ObservationKind.RECORDS) if row.payload) == 2


@pytest.mark.parametrize("meanwhile", ["gatherer runs", "gatherer is down"])
def test_restored_disk_is_recorded_once_and_the_log_is_read_again(
    lab: Callable[..., Lab], tmp_path: Path, meanwhile: str
) -> None:
    quorum = lab(controllers=1, brokers=1)
    (controller,) = quorum.controllers
    data, copy = quorum.node(controller).data, tmp_path / "copy"

    def restore() -> None:
        quorum.kill(controller)
        shutil.rmtree(data)
        shutil.copytree(copy, data)
        quorum.start(controller, wait=False)

    quorum.kill(controller)
    shutil.copytree(data, copy)
    quorum.start(controller)
    for at in range(30):
        quorum.create_topic(f"lost-topic-{at}")
    with run_gatherer(tmp_path / "gatherer", cluster_of(quorum)) as gatherer:
        eventually(lambda: assert_recorded(gatherer, b"lost-topic-29"), within_s=30)
        if meanwhile == "gatherer runs":
            restore()
            # Wait until the log is read again: a gatherer that ends before that resumes and records the loss again.
            eventually(lambda: assert_log_read_twice(gatherer), within_s=30)
            assert losses(gatherer)
    if meanwhile != "gatherer runs":
        restore()
    with run_gatherer(tmp_path / "gatherer", cluster_of(quorum)) as gatherer:
        eventually(lambda: assert_loss_recorded(gatherer), within_s=30)
        eventually(lambda: assert_log_read_twice(gatherer), within_s=30)

    assert len(losses(gatherer)) == 1
    assert "was committed" in losses(gatherer)[0].detail
