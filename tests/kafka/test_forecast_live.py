"""What safe-to-restart and what-if promise of a real quorum with random faults is tried: the quorum survives it.

`tests/simulation/test_forecast.py` does the same for each second of simulated quorums. Here a seed chooses faults of
one or two controllers, and, once they are observed, one of the positive answers: that controller is restarted or
killed.
"""

import os
import random
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from rules.analysis.electability import failures_left
from rules.model.membership import majority
from rules.model.quorum import Quorum
from tests.eventually import eventually
from tests.kafka.conftest import MakeLab
from tests.kafka.monitored_cluster import MonitoredCluster, monitor_cluster
from tests.kafka.test_unlike_controllers import deny_others
from tests.lab import Lab
from tests.simulation.forecast import LOSE, LOSE_ALONE, RESTART, Answer, answers_of

pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.timeout(7_200)]
FAULTS_EACH = 20
"""Of a quorum."""
SURVIVES_S, OBSERVED_S, HEALTHY_S = 45, 60, 120
SEEN_AFTER_MS = 12_000
"""A fetch counts for ten seconds (`Ages.fetch_ms`): so old is what a fault may not have changed yet."""
_SLOW = """
import os, signal, sys, time
while True:
    for number, seconds in ((signal.SIGSTOP, 0.35), (signal.SIGCONT, 0.15)):
        os.kill(int(sys.argv[1]), number)
        time.sleep(seconds)
"""


def start_all(lab: Lab) -> None:
    """Starts the controllers that are down."""
    lab.start(*(each for each in lab.controllers if not lab.node(each).running))


@contextmanager
def killed(lab: Lab, node: int) -> Iterator[None]:
    lab.kill(node)
    yield
    start_all(lab)


@contextmanager
def paused(lab: Lab, node: int) -> Iterator[None]:
    lab.pause(node)
    yield
    if lab.node(node).running:
        lab.resume(node)


@contextmanager
def slow(lab: Lab, node: int) -> Iterator[None]:
    """It runs for 150 of each 500 ms."""
    pid = lab.node(node).pid
    slowing = subprocess.Popen([sys.executable, "-S", "-c", _SLOW, str(pid)], stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        slowing.kill()
        slowing.wait()
        if lab.node(node).pid == pid:
            lab.resume(node)


@contextmanager
def without_name(lab: Lab, node: int) -> Iterator[None]:
    lab.names.drop(lab.node(node).host)
    yield
    lab.names.add(lab.node(node).host)


@contextmanager
def denying(lab: Lab, node: int) -> Iterator[None]:
    """It restarts with an authorizer that denies what the other controllers send."""
    file = lab.node(node).properties_file
    before = file.read_text(encoding="utf-8")
    deny_others(lab, node)
    yield
    if lab.node(node).running:
        lab.stop(node)
    file.write_text(before, encoding="utf-8")
    lab.start(node)


@contextmanager
def emptied(lab: Lab, node: int) -> Iterator[None]:
    """It starts with a new disk, and is an observer; later the disk is made a voter."""
    before = lab.node(node).directory_id
    lab.stop(node)
    lab.wipe_disk(node)
    lab.start(node)
    yield
    start_all(lab)
    lab.remove_controller(node, before)
    lab.add_controller(node)


@contextmanager
def replaced_by_another_process(lab: Lab, node: int) -> Iterator[None]:
    """It is down, and something that does not answer listens at its endpoint."""
    lab.kill(node)
    port = lab.node(node).controller_port
    with socket.create_server(("127.0.0.1", port or 0)):
        yield
    start_all(lab)


FAULTS: dict[str, Callable[[Lab, int], Iterator[None]]] = {
    "killed": killed,
    "paused": paused,
    "slow": slow,
    "name lost": without_name,
    "denies": denying,
    "new disk": emptied,
    "another process": replaced_by_another_process,
}


def observed_since(quorum: Quorum, since_ms: float) -> bool:
    """Returns whether all that an answer rests on is newer than this, or does not come any more."""
    poll = quorum.poll
    probes = [quorum.probe(voter.key.id, voter.endpoint) for voter in quorum.voters]
    polled = poll is not None and poll.observed_at_ms > since_ms + SEEN_AFTER_MS
    probed = all(each is not None and each.observed_at_ms > since_ms for each in probes)
    return (polled and probed) or quorum.now_ms > since_ms + 40_000


def carried_out(lab: Lab, answer: Answer) -> None:
    """Does what the answer is about; a controller may have ended by itself."""
    if lab.node(answer.node).running:
        lab.kill(answer.node)
    if answer.question == LOSE:
        others = [each for each in lab.controllers if each != answer.node and lab.node(each).running]
        lab.kill(*others)
        lab.start(*others, wait=False)
    elif answer.question == RESTART:
        lab.start(answer.node, wait=False)


def survives(lab: Lab, answer: Answer) -> bool:
    """Returns whether a leader commits records within `SURVIVES_S`, and a restarted controller has them."""
    end, first = time.monotonic() + SURVIVES_S, None
    while time.monotonic() < end:
        state = lab.state
        if state is not None:
            place = (state.leader_epoch, state.high_watermark)
            first = place if first is None or place[0] != first[0] else first
            ends = [one.log_end_offset for one in state.voters if one.id == answer.node]
            rejoined = answer.question != RESTART or bool(ends and ends[0] > first[1])
            if place[1] > first[1] + 1 and rejoined:
                return True
        time.sleep(0.5)
    return False


def healed(lab: Lab, monitor: MonitoredCluster) -> None:
    """Starts what is down, and waits until the monitor sees that every voter counts."""
    start_all(lab)
    spare = len(lab.controllers) - majority(len(lab.controllers))
    monitor.wait_for_quorum(lambda seen: failures_left(seen) == spare, within_s=HEALTHY_S)


def asked(monitor: MonitoredCluster) -> list[Answer]:
    return [*answers_of(monitor.machine.quorum(), monitor.monitor.settings.thresholds)]


@pytest.mark.parametrize(("controllers", "seed"), [(3, 1), (3, 2), (5, 3)])
def test_a_real_quorum_survives_what_is_said_to_be_safe(
    lab: MakeLab, tmp_path: Path, controllers: int, seed: int
) -> None:
    drawn, quorum = random.Random(seed), lab(controllers=controllers, brokers=0, named=True)
    counts: Counter[str] = Counter()
    false: list[str] = []
    with monitor_cluster(quorum, tmp_path) as monitor:
        # The faults restart the nodes more often than any operator.
        monitor.set_thresholds({})
        healed(quorum, monitor)
        for number in range(int(os.environ.get("FORECAST_FAULTS") or FAULTS_EACH)):
            names = drawn.sample(sorted(FAULTS), 1 if drawn.random() < 0.6 else 2)
            nodes = drawn.sample(sorted(quorum.controllers), len(names))
            with ExitStack() as stack:
                for name, node in zip(names, nodes, strict=True):
                    stack.enter_context(FAULTS[name](quorum, node))
                since_ms = time.time() * 1_000
                monitor.wait_for_quorum(lambda seen: observed_since(seen, since_ms), within_s=OBSERVED_S)  # noqa: B023
                answers = asked(monitor)
                counts.update(f"{one.question}: {one.positive}" for one in answers)
                positive = [one for one in answers if one.positive]
                said = ", ".join(f"{name} {node}" for name, node in zip(names, nodes, strict=True))
                tried = drawn.choice(positive) if positive else None
                if tried is not None:
                    carried_out(quorum, tried)
                    holds = survives(quorum, tried)
                    counts[f"tried {tried.question}: {'survives' if holds else 'FALSE'}"] += 1
                    false += [] if holds else [f"{number}: {said}: {tried.question} {tried.node}: {tried.text}"]
                doing = "nothing is positive" if tried is None else f"{tried.question} {tried.node}"
                print(f"{time.strftime('%H:%M:%S')} {number}: {said}: {doing}", flush=True)  # noqa: T201
            healed(quorum, monitor)
            eventually(lambda: assert_all_positive(monitor), within_s=HEALTHY_S)
            counts["healthy, all positive"] += 1
    print(counts)  # noqa: T201
    assert false == []
    assert counts[f"tried {RESTART}: survives"] + counts[f"tried {LOSE_ALONE}: survives"] > 0


def assert_all_positive(monitor: MonitoredCluster) -> None:
    """Nothing that is asked of a healthy quorum is unknown, or negative."""
    monitor.wait_until_observed()
    assert [one for one in asked(monitor) if not one.positive] == []
