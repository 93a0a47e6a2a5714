"""A rolling restart of a healthy cluster, with the default holds: nothing is told but what is worth knowing."""

import json

import pytest

from deploy.lab.quorum import Lab
from streaming.demo.watcher import Watcher
from tests.eventually import eventually

pytestmark = [pytest.mark.lab, pytest.mark.spark, pytest.mark.timeout(280)]


@pytest.fixture(scope="module")
def settings() -> dict[str, float]:
    return {}


def test_every_node_restarted_in_turn_pages_nobody(lab: Lab, watcher: Watcher) -> None:
    lab.create_topic("orders", partitions=4, replication=2)
    leader = lab.await_state(lambda state: True, what="a leader").leader_id
    controllers = [*(node for node in lab.controllers if node != leader), leader]

    for node in (*controllers, *lab.brokers):
        lab.stop(node)
        lab.start(node)
        lab.await_state(
            lambda state: all(each.log_end_offset > 0 for each in state.voters), what="every voter fetching"
        )
    began = gathered_at_s(watcher)
    eventually(lambda: gathered_at_s(watcher) > began + 20, within_s=40)

    assert [(told.rule, told.severity) for told in watcher.told()] == []


def gathered_at_s(watcher: Watcher) -> float:
    """The gatherer's clock at its newest statistics."""
    stats = json.loads((watcher.checkpoint / "log" / "gather-stats.json").read_text())
    return float(stats["at_ms"]) / 1000
