"""The clocks of real controllers are set back and forwards, or a process is suspended; and what works afterwards.

Kafka's Raft timers count with the wall clock, which a library that is loaded first (`set_clock.c`) shifts in each
controller. The monitor's clock stays.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import pytest

from rules.facts.doubts import About
from rules.facts.quorum import Facts
from rules.model.quorum import Quorum
from tests.kafka.conftest import MakeLab
from tests.kafka.gatherer_run import cluster_of, run_gatherer
from tests.kafka.monitored_cluster import MonitoredCluster, monitored_cluster_of
from tests.lab import Lab
from tests.simulation.forecast import LOSE, LOSE_ALONE, RESTART, Answer, answers_of

pytestmark = [pytest.mark.lab, pytest.mark.live, pytest.mark.timeout(600)]
STEP_S = 3_600
LOST_MS = 20_000
"""Several times what an election takes in the lab, where a follower misses the leader after two seconds."""
LATER_MS = 60_000
"""When every answer rests on observations from after the step."""
SUSPENDED_MS = 8_000
LIBRARY = "set_clock.so"
TIMERS = frozenset({About.TIMERS})


@dataclass(kw_only=True)
class Clocks:
    """A quorum whose clocks can be set, and its monitor."""

    lab: Lab
    monitor: MonitoredCluster
    folder: Path

    def set(self, seconds: int, *nodes: int) -> None:
        """Sets the clocks of these controllers to so many seconds after the true time."""
        for node in nodes:
            path = self.folder / str(node)
            path.touch()
            # In place: a controller has mapped the file, and reading a map of an emptied file kills it (SIGBUS).
            with path.open("r+b", buffering=0) as file:
                file.write(seconds.to_bytes(8, "little", signed=True))

    def answers(self, seen: Quorum) -> list[Answer]:
        return [*answers_of(seen, self.monitor.monitor.settings.thresholds)]

    def await_all_positive(self) -> None:
        """Waits until each controller may be restarted or lost."""
        self.monitor.wait_for_quorum(lambda seen: all(one.positive for one in self.answers(seen)), within_s=90)

    def wait(self, ms: int) -> None:
        """Waits until so much more was observed."""
        until_ms = self.monitor.machine.quorum().now_ms + ms
        self.monitor.wait_for_quorum(lambda seen: seen.now_ms >= until_ms, within_s=ms / 1_000 + 30)

    def leads_after_loss(self) -> None:
        """Kills the leader, as the answers permit: another one leads. Then it comes back."""
        lost = self.lab.leader
        self.lab.kill(lost)
        self.lab.await_state(lambda state: state.leader_id != lost, what="another leader")
        self.start(lost)

    def start(self, *nodes: int) -> None:
        """Starts controllers whose clocks can be set."""
        for node in nodes:
            clock = {"LD_PRELOAD": str(self.folder / LIBRARY), "CLOCK_FILE": str(self.folder / str(node))}
            with patch.dict(os.environ, clock):
                self.lab.start(node)


@pytest.fixture
def clocks(lab: MakeLab, tmp_path: Path) -> Iterator[Clocks]:
    with _clocks(lab(controllers=3, brokers=0), tmp_path) as made:
        made.await_all_positive()
        yield made


@contextmanager
def _clocks(quorum: Lab, folder: Path) -> Iterator[Clocks]:
    if shutil.which("gcc") is None:
        pytest.skip("gcc is missing")
    source = Path(__file__).with_name("set_clock.c")
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(folder / LIBRARY), str(source), "-ldl"], check=True)
    quorum.stop(*quorum.controllers)
    with run_gatherer(folder / "monitor", cluster_of(quorum)) as gatherer:
        made = Clocks(lab=quorum, monitor=monitored_cluster_of(quorum, gatherer), folder=folder)
        made.set(0, *quorum.controllers)
        made.start(*quorum.controllers)
        # Each start is no loop of restarts.
        made.monitor.set_thresholds({})
        yield made


def test_after_clocks_were_set_back_no_lost_leader_is_missed_before_a_restart(clocks: Clocks) -> None:
    quorum, monitor = clocks.lab, clocks.monitor
    leader, followers = quorum.leader, quorum.followers

    clocks.set(-STEP_S, *quorum.controllers)

    monitor.wait_for_quorum(lambda seen: {*Facts(seen).doubts_about(TIMERS)} == {*followers}, within_s=60)
    clocks.wait(LATER_MS)
    said = {one.question: one for one in clocks.answers(monitor.machine.quorum()) if one.node == leader}
    assert {question: one.positive for question, one in said.items()} == {RESTART: None, LOSE_ALONE: None, LOSE: True}
    why = f"the clock of controller {leader} was set back by "
    assert why in said[RESTART].text and why in said[LOSE_ALONE].text, said

    quorum.kill(leader)
    clocks.wait(LOST_MS)
    assert quorum.state is None, "nobody misses the leader"

    quorum.stop(*followers)
    clocks.start(*followers)
    assert quorum.leader in followers, "restarted, they have new timers"
    clocks.start(leader)
    clocks.await_all_positive()
    clocks.leads_after_loss()


def test_after_clocks_were_set_forwards_all_is_as_before(clocks: Clocks) -> None:
    quorum = clocks.lab
    before = clocks.monitor.machine.quorum()

    clocks.set(STEP_S, *quorum.controllers)

    clocks.monitor.wait_for_quorum(lambda seen: (seen.leader_epoch or 0) > (before.leader_epoch or 0), within_s=60)
    clocks.await_all_positive()
    assert not Facts(clocks.monitor.machine.quorum()).doubts_about(TIMERS)
    clocks.leads_after_loss()
    clocks.await_all_positive()


@pytest.mark.parametrize("role", ["leader", "follower"])
def test_after_a_process_was_suspended_all_is_as_before(clocks: Clocks, role: str) -> None:
    quorum, monitor = clocks.lab, clocks.monitor
    suspended = quorum.leader if role == "leader" else quorum.followers[0]
    (other,) = {*quorum.followers} - {suspended} if role == "follower" else quorum.followers[:1]

    quorum.pause(suspended)
    monitor.wait_for_quorum(
        lambda seen: not any(one.positive for one in clocks.answers(seen) if one.node == other), within_s=60
    )
    clocks.wait(SUSPENDED_MS)
    quorum.resume(suspended)

    clocks.await_all_positive()
    clocks.leads_after_loss()
    clocks.await_all_positive()
