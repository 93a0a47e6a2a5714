"""A rolling upgrade of a healthy cluster, with the default holds: nothing is told but what is worth knowing."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from deploy.lab.quorum import Lab
from streaming.cli import app
from streaming.demo.watcher import Watcher
from tests.eventually import eventually
from tests.job.test_rolling_restart import gathered_at_s

pytestmark = [pytest.mark.lab, pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(600)]
OLD, NEW = "4.2.1", "4.3.1"
RELEASE = "4.3"
CALM_S = 30.0
"""How long nothing must come of it afterwards."""


@pytest.fixture(scope="module")
def settings() -> dict[str, float]:
    return {}


@pytest.fixture(scope="module")
def lab(folder: Path) -> Iterator[Lab]:
    with Lab(folder / "lab", version=OLD) as lab:
        yield lab


def versions(lab: Lab) -> tuple[int, int]:
    """kraft.version and metadata.version."""
    said = CliRunner().invoke(app, ["status", "--cluster", f"test={','.join(lab.bootstrap)}", "--json"])
    shown = json.loads(said.stdout)
    return shown["kraft_version"], shown["metadata_version"]


def test_every_node_upgraded_in_turn_and_the_metadata_version_at_the_end_page_nobody(
    lab: Lab, watcher: Watcher
) -> None:
    lab.create_topic("orders", partitions=4, replication=2)
    kraft, metadata = versions(lab)
    leader = lab.await_state(lambda state: True, what="a leader").leader_id
    controllers = [*(node for node in lab.controllers if node != leader), leader]

    for node in (*controllers, *lab.brokers):
        lab.stop(node)
        lab.install(node, NEW)
        lab.start(node)
        lab.await_state(
            lambda state: all(each.log_end_offset > 0 for each in state.voters), what="every voter fetching"
        )
    assert lab.version == NEW
    lab.upgrade_features("--release-version", RELEASE)
    began = gathered_at_s(watcher)
    eventually(lambda: gathered_at_s(watcher) > began + CALM_S, within_s=2 * CALM_S)

    assert versions(lab) == (kraft, metadata + 1) == (1, metadata + 1), "the upgrade was finished"
    assert [(told.rule, told.severity) for told in watcher.told()] == []
    assert [*(watcher.checkpoint / "quarantine").rglob("*")] == [], "records of both Kafkas are read"
