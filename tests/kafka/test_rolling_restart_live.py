"""Rolling restarts by the recipes of docs/rolling-restart.md, on a real quorum with producers that want every replica.

The recipes are those of the page: `ssh` and `kraftwatch` are the only words that mean something else here.
"""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

from tests.eventually import eventually
from tests.kafka.acks_all import TOPICS, producing
from tests.kafka.conftest import MakeLab
from tests.lab import Lab

pytestmark = [pytest.mark.lab, pytest.mark.live]
ROOT = Path(__file__).parents[2]
ROLL_S = 900
HOOK_S = 660
"""The wait of the hook, and some time to end."""
ANSIBLE = "ansible-core==2.18.6"


@pytest.fixture(scope="module")
def lab(shared_lab: MakeLab) -> Lab:
    lab = shared_lab(controllers=3, brokers=3)
    for topic in TOPICS:
        lab.create_topic(topic, partitions=6, replication=3, configs={"min.insync.replicas": "2"})
    return lab


def recipe(language: str, begins: str = "") -> str:
    found = re.search(
        rf"```{language}\n({begins}.*?)```", (ROOT / "docs" / "rolling-restart.md").read_text(), re.DOTALL
    )
    assert found is not None
    return found[1]


@dataclass(frozen=True, kw_only=True)
class Roll:
    """Rolls of one cluster: a program restarts a node with `ssh kafka-NODE`, which asks the test for it."""

    lab: Lab
    folder: Path
    restarted: list[int] = field(default_factory=list)

    @property
    def nodes(self) -> list[int]:
        return [*self.lab.controllers, *self.lab.brokers]

    def environment(self) -> dict[str, str]:
        """Makes the programs, and a configuration of the cluster; returns what finds them."""
        cluster = json.dumps({"name": "lab", "bootstrap": self.lab.bootstrap})
        (self.folder / "kraftwatch.yaml").write_text(f"clusters: [{cluster}]\n")
        made = self.folder / "bin"
        made.mkdir()
        (made / "kraftwatch").write_text(f'#!/bin/sh\nexec {Path(sys.executable).with_name("kraftwatch")} "$@"\n')
        (made / "ssh").write_text(
            f"#!/bin/sh\necho ${{1#kafka-}} > {self.folder}/next && mv {self.folder}/next {self.folder}/asked\n"
            f"while [ -e {self.folder}/asked ]; do sleep 0.1; done\n"
        )
        for program in made.iterdir():
            program.chmod(0o755)
        return {**os.environ, "PATH": f"{made}:{os.environ['PATH']}", "CONTROLLERS": ",".join(self.lab.bootstrap)}

    def run(self, *command: str) -> str:
        """Runs a program to its end, restarts the nodes that it asks for; returns its output."""
        asked, environment = self.folder / "asked", self.environment()
        with (self.folder / "output").open("w") as file:
            roll = subprocess.Popen(
                command,
                cwd=self.folder,
                env=environment,
                stdout=file,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
            )

        def restarts_what_it_asks() -> int:
            if asked.exists():
                node = int(asked.read_text())
                restart(self.lab, node)
                self.restarted.append(node)
                asked.unlink()
            code = roll.poll()
            assert code is not None, f"restarted: {self.restarted}"
            return code

        code = eventually(restarts_what_it_asks, within_s=ROLL_S)
        output = (self.folder / "output").read_text()
        assert code == 0, output
        assert sorted(self.restarted) == sorted(self.nodes)
        return output


def restart(lab: Lab, node: int) -> None:
    """Restarts a node as systemd does: the former process has ended, and the next one has been started."""
    lab.stop(node)
    lab.start(node, wait=False)


def test_a_roll_by_the_recipe_of_the_shell_refuses_no_producer(lab: Lab, tmp_path: Path) -> None:
    roll, leader = Roll(lab=lab, folder=tmp_path), lab.leader

    with producing(lab) as counts:
        output = roll.run("sh", "-c", recipe("sh").replace("1,2,3,101,102,103", ",".join(map(str, roll.nodes))))

    assert roll.restarted[2] == leader, "of the controllers the leader is the last one"
    assert (output.count(" SAFE "), output.count(" BACK ")) == (6, 6), output
    assert {*counts} == {"acknowledged"}, (counts, output)


def test_a_roll_by_the_recipe_of_ansible_refuses_no_producer(lab: Lab, tmp_path: Path) -> None:
    """Nothing is replaced but the restart itself: there is no systemd."""
    roll = Roll(lab=lab, folder=tmp_path)
    local = f"ansible_connection=local ansible_python_interpreter={sys.executable}"
    hosts = [f"node{node} node_id={node} {local}" for node in roll.nodes]
    (tmp_path / "hosts").write_text("\n".join(["[kafka]", *hosts, ""]))
    play, replaced = re.subn(r"\{systemd: .*\}", '{command: "ssh kafka-{{ node_id }}"}', recipe("yaml"))
    assert replaced == 1
    (tmp_path / "roll.yaml").write_text(play)

    with producing(lab) as counts:
        output = roll.run(
            str(Path(sys.executable).with_name("uvx")),
            "--from",
            ANSIBLE,
            "ansible-playbook",
            "-i",
            "hosts",
            "roll.yaml",
        )

    assert roll.restarted == roll.nodes
    assert {*counts} == {"acknowledged"}, (counts, output)


def test_a_roll_by_the_hooks_of_kubernetes_refuses_no_producer(lab: Lab, tmp_path: Path) -> None:
    """As a StatefulSet is updated: from the highest ordinal on, the hook ends before the process is asked to end."""
    roll = Roll(lab=lab, folder=tmp_path)
    environment = roll.environment()
    container = yaml.safe_load(recipe("yaml", "lifecycle:"))
    probe = container["startupProbe"]

    def run(command: list[str], node: int, within_s: float) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            env=environment | {"HOSTNAME": f"kafka-{node}"},
            capture_output=True,
            text=True,
            timeout=within_s,
            check=False,
        )

    def started(node: int) -> None:
        ended = run(probe["exec"]["command"], node, probe["timeoutSeconds"])
        assert ended.returncode == 0, ended.stdout

    with producing(lab) as counts:
        for node in reversed(roll.nodes):
            ended = run(container["lifecycle"]["preStop"]["exec"]["command"], node, HOOK_S)
            assert ended.returncode == 0, (node, ended.stdout, ended.stderr)
            restart(lab, node)
            eventually(lambda node=node: started(node), within_s=probe["periodSeconds"] * probe["failureThreshold"])  # type: ignore[misc]

    assert {*counts} == {"acknowledged"}, counts


def test_a_roll_without_the_gate_refuses_producers(lab: Lab) -> None:
    with producing(lab) as counts:
        for broker in lab.brokers:
            restart(lab, broker)
        eventually(lambda: assert_refused(counts), within_s=60)


def assert_refused(counts: Counter[str]) -> None:
    assert sum(counts.values()) > counts["acknowledged"], "no record failed"
