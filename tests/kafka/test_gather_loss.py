"""Committed metadata that is gone: a controller whose disk was restored from an older copy."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from connectors.event import ObservationFailed
from connectors.observation import Kind
from deploy.lab.lab import Lab
from rules.model.monitoring import Reason
from tests.eventually import eventually
from tests.kafka.gatherer_run import Gathering, cluster_of, gathering

pytestmark = pytest.mark.lab


def lost(gathered: Gathering) -> list[ObservationFailed]:
    events = gathered.events(Kind.UNSEEN)
    return [one for one in events if isinstance(one, ObservationFailed) and one.reason is Reason.METADATA_LOST]


def holds(gathered: Gathering, marker: bytes) -> None:
    assert marker in gathered.log


def told_lost(gathered: Gathering) -> None:
    assert lost(gathered)


def read_again(gathered: Gathering) -> None:
    assert sum(row.base_offset == 0 for row in gathered.rows(Kind.RECORDS) if row.payload) == 2


@pytest.mark.parametrize("meanwhile", ["watching", "gatherer was down"])
def test_a_restored_disk_is_told_once_and_the_log_is_read_again(
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
        quorum.create_topic(f"doomed-{at}")
    with gathering(tmp_path / "gathered", cluster_of(quorum)) as gathered:
        eventually(lambda: holds(gathered, b"doomed-29"), within_s=30)
        if meanwhile == "watching":
            restore()
            # Not before it has begun anew: one that ends in between goes on where it was, and is denied once more.
            eventually(lambda: read_again(gathered), within_s=30)
            assert lost(gathered)
    if meanwhile != "watching":
        restore()
    with gathering(tmp_path / "gathered", cluster_of(quorum)) as gathered:
        eventually(lambda: told_lost(gathered), within_s=30)
        eventually(lambda: read_again(gathered), within_s=30)

    assert len(lost(gathered)) == 1
    assert "was committed" in lost(gathered)[0].detail
