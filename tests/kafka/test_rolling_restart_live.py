"""A rolling restart by the recipe of docs/rolling-restart.md, on a real quorum with producers that want every replica.

The recipe is that of the page: `ssh` and `kraftwatch` are the only words that mean something else here.
"""

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.eventually import eventually
from tests.kafka.acks_all import TOPICS, producing
from tests.kafka.conftest import MakeLab
from tests.lab import Lab

pytestmark = [pytest.mark.lab, pytest.mark.live]
ROOT = Path(__file__).parents[2]
ROLL_S = 900


@pytest.fixture(scope="module")
def lab(shared_lab: MakeLab) -> Lab:
    lab = shared_lab(controllers=3, brokers=3)
    for topic in TOPICS:
        lab.create_topic(topic, partitions=6, replication=3, configs={"min.insync.replicas": "2"})
    return lab


def recipe() -> str:
    found = re.search(r"```sh\n(.*?)```", (ROOT / "docs" / "rolling-restart.md").read_text(), re.DOTALL)
    assert found is not None
    return found[1]


def programs(folder: Path) -> Path:
    """Makes `kraftwatch` and `ssh`: the latter asks the test to restart the node, and waits until it did."""
    made = folder / "bin"
    made.mkdir()
    (made / "kraftwatch").write_text(f'#!/bin/sh\nexec {Path(sys.executable).with_name("kraftwatch")} "$@"\n')
    (made / "ssh").write_text(
        f"#!/bin/sh\necho ${{1#kafka-}} > {folder}/next && mv {folder}/next {folder}/asked\n"
        f"while [ -e {folder}/asked ]; do sleep 0.1; done\n"
    )
    for program in made.iterdir():
        program.chmod(0o755)
    return made


def restart(lab: Lab, node: int) -> None:
    """Restarts a node as systemd does: the former process has ended, and the next one has been started."""
    lab.stop(node)
    lab.start(node, wait=False)


def test_a_roll_by_the_recipe_refuses_no_producer(lab: Lab, tmp_path: Path) -> None:
    asked, restarted = tmp_path / "asked", list[int]()
    clusters = {"name": "lab", "bootstrap": lab.bootstrap}
    (tmp_path / "kraftwatch.yaml").write_text(f"clusters: [{clusters}]\n".replace("'", '"'))
    nodes = ",".join(map(str, (*lab.controllers, *lab.brokers)))
    script = recipe().replace("1,2,3,101,102,103", nodes)
    environment = {**os.environ, "PATH": f"{programs(tmp_path)}:{os.environ['PATH']}"}
    leader = lab.leader

    with producing(lab) as counts:
        with (tmp_path / "output").open("w") as file:
            roll = subprocess.Popen(
                ["sh", "-c", script], cwd=tmp_path, env=environment, stdout=file, stderr=subprocess.STDOUT
            )

        def restarts_what_it_asks() -> int:
            if asked.exists():
                node = int(asked.read_text())
                restart(lab, node)
                restarted.append(node)
                asked.unlink()
            code = roll.poll()
            assert code is not None, f"restarted: {restarted}"
            return code

        code = eventually(restarts_what_it_asks, within_s=ROLL_S)

    output = (tmp_path / "output").read_text()
    assert code == 0, output
    assert sorted(restarted) == sorted((*lab.controllers, *lab.brokers))
    assert restarted[2] == leader, "of the controllers the leader is the last one"
    assert (output.count(" SAFE "), output.count(" BACK ")) == (6, 6), output
    assert {*counts} == {"acknowledged"}, (counts, output)


def test_a_roll_without_the_gate_refuses_producers(lab: Lab) -> None:
    with producing(lab) as counts:
        for broker in lab.brokers:
            restart(lab, broker)
        eventually(lambda: assert_refused(counts), within_s=60)


def assert_refused(counts: Counter[str]) -> None:
    assert sum(counts.values()) > counts["acknowledged"], "no record failed"
