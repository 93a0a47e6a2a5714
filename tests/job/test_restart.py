"""The job killed with -9 in the middle of a scene: what it told and tells is as if it had never been killed."""

from pathlib import Path

import psutil
import pytest

from deploy.lab.quorum import Lab
from streaming.demo.watcher import Told, Watcher
from tests.eventually import eventually

pytestmark = [pytest.mark.lab, pytest.mark.spark, pytest.mark.timeout(300)]


def essence(told: list[Told]) -> list[tuple[str, str, str]]:
    return [(each.rule, each.subject, each.state) for each in told]


def test_killed_before_it_told_and_again_before_it_resolved(lab: Lab, watcher: Watcher) -> None:
    leader = lab.await_state(lambda state: True, what="a leader").leader_id
    node = next(node for node in lab.controllers if node != leader)
    lab.stop(node)
    lab.wipe_disk(node)
    lab.start(node)
    lab.await_state(lambda state: node in {each.id for each in state.observers}, what="the new disk as an observer")

    watcher.kill()
    watcher.start()

    firing = watcher.wait_for("voter-disk-replaced", within_s=60)
    for line in firing.remedy:
        lab.run_remedy(line, node_properties=lab.node(node).properties_file)

    watcher.kill()
    watcher.start()

    watcher.wait_for("voter-disk-replaced", "resolved", within_s=60)
    watcher.kill()
    watcher.start()

    def told_once() -> None:
        assert essence(watcher.told()) == [
            ("voter-disk-replaced", f"controller {node}", "firing"),
            ("voter-disk-replaced", f"controller {node}", "resolved"),
        ]

    eventually(told_once, within_s=1)


def test_a_gatherer_that_dies_is_started_again_and_nothing_is_lost(lab: Lab, watcher: Watcher) -> None:
    since = len(watcher.told())
    children = gatherers(watcher.pid)
    assert len(children) == 1

    children[0].kill()

    def another() -> None:
        now = gatherers(watcher.pid)
        assert len(now) == 1
        assert now[0].pid != children[0].pid

    eventually(another, within_s=15)
    lab.pause(*lab.controllers[:2])
    watcher.wait_for("no-leader", since=since, within_s=40)
    lab.resume(*lab.controllers[:2])
    watcher.wait_until_calm(within_s=40)


def test_the_gatherer_ends_with_the_job_however_that_ends(watcher: Watcher) -> None:
    (gatherer,) = gatherers(watcher.pid)

    watcher.kill()

    eventually(lambda: not_running(gatherer.pid), within_s=15)
    watcher.start()


def test_told_to_stop_as_a_group_it_stops_in_good_order_and_says_nothing_of_it(watcher: Watcher) -> None:
    said = watcher.log.stat().st_size

    code = watcher.end_group()

    assert code == 0
    assert watcher.log.read_text()[said:] == ""
    watcher.start()


def not_running(pid: int) -> None:
    assert not Path(f"/proc/{pid}").exists()


def gatherers(pid: int) -> list[psutil.Process]:
    children = [child for child in psutil.Process(pid).children() if child.status() != psutil.STATUS_ZOMBIE]
    return [child for child in children if "connectors.gather" in child.cmdline()]
