"""Registrations that no process serves: each is removed by what kraftwatch prints, up to Kafka 4.4.

A reader runs each command as printed and does what each sentence says. What Kafka answers is in the page of the rule.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from deploy.lab import LabError
from deploy.lab.addresses import Ports
from deploy.lab.node import Node, format_disk
from rules.evaluate import RULES, evaluate
from rules.facts.quorum import Facts
from rules.finding import Finding
from rules.rule_page import page_of
from tests.eventually import eventually
from tests.kafka.conftest import MakeLab
from tests.kafka.monitored_cluster import MonitoredCluster, monitor_cluster
from tests.lab import Lab

pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.timeout(900)]
GHOSTS = {4: "3.9.2", 5: "4.3.1", 6: "4.4.0"}
"""Controllers, and the Kafka that each ran last."""
HOLDS = {"ghost-registration.hold": 1, "version-drift.hold": 1}


def test_ghosts_of_a_dynamic_quorum_are_removed_by_their_alerts(lab: MakeLab, tmp_path: Path) -> None:
    quorum = lab(controllers=3, brokers=1, version="3.9.2")
    leave_registrations(quorum, GHOSTS)
    with monitor_cluster(quorum, tmp_path) as monitor:
        monitor.start_scenario(HOLDS)
        for node in GHOSTS:
            monitor.wait_for("ghost-registration", subject=f"controller {node}")
        with pytest.raises(LabError, match=r"Controller [45] only supports versions"):
            quorum.upgrade_features("--feature", "metadata.version=33")

        reader = Reader(quorum, tmp_path)
        reader.follow(remedy(monitor, "ghost-registration", "controller 4"))
        for node in (4, 5):
            monitor.wait_for("ghost-registration", "resolved", subject=f"controller {node}")
        reader.follow(remedy(monitor, "ghost-registration", "controller 6"))
        monitor.wait_for("ghost-registration", "resolved", subject="controller 6")
        monitor.wait_for("version-drift", "resolved", subject="nodes")

        assert registered(monitor) == quorum.controllers
        assert monitor.machine.quorum().metadata_version == 33
    assert reader.transcript == documented()


def test_ghosts_of_a_static_quorum_are_removed_by_version_drift(lab: MakeLab, tmp_path: Path) -> None:
    quorum = lab(controllers=3, brokers=2, version="3.9.2", static=True)
    leave_registrations(quorum, GHOSTS, stopped_broker=102)
    with monitor_cluster(quorum, tmp_path) as monitor:
        monitor.start_scenario(HOLDS)
        drift = monitor.wait_for("version-drift", subject="nodes")
        assert drift.evidence["outdated_and_not_running"] == ["controller 4", "controller 5", "broker 102"]

        Reader(quorum, tmp_path).follow(remedy(monitor, "version-drift", "nodes"))
        monitor.wait_for("version-drift", "resolved", subject="nodes")
        Reader(quorum, tmp_path / "last").follow(remedy(monitor, "ghost-registration", "controller 6"))
        monitor.wait_for("ghost-registration", "resolved", subject="controller 6")

        assert registered(monitor) == quorum.controllers
        assert [*monitor.machine.quorum().brokers] == [101]
        assert monitor.machine.quorum().kraft_version == 0, "the quorum stays static"


def test_ghost_that_ran_the_new_kafka_needs_no_start(lab: MakeLab, tmp_path: Path) -> None:
    quorum = lab(controllers=1, brokers=1, version="4.3.1")
    leave_registrations(quorum, {6: "4.4.0"})
    with monitor_cluster(quorum, tmp_path) as monitor:
        monitor.start_scenario(HOLDS)
        monitor.wait_for("ghost-registration", subject="controller 6")
        unregister = f"kafka-cluster.sh unregister-controller --bootstrap-controller {quorum.bootstrap[0]} --id 6"
        # The tool ends with exit code 0.
        assert "does not support the controller unregistration" in (quorum.run_remedy(unregister) or "")

        reader = Reader(quorum, tmp_path)
        reader.follow(remedy(monitor, "ghost-registration", "controller 6"))
        monitor.wait_for("ghost-registration", "resolved", subject="controller 6")

        assert registered(monitor) == quorum.controllers
        assert not reader.started


def leave_registrations(quorum: Lab, ghosts: Mapping[int, str], *, stopped_broker: int | None = None) -> None:
    """Upgrades the quorum to each Kafka, and lets a controller of that version register and end."""
    ports = Ports()
    if stopped_broker is not None:
        quorum.stop(stopped_broker)
    for id_, version in ghosts.items():
        for node in quorum.layout:
            if node.running and node.version != version:
                quorum.stop(node.id)
                quorum.install(node.id, version)
                quorum.start(node.id)
        quorum.version = version
        node = Node(
            id=id_,
            folder=quorum.directory / f"ghost-{id_}",
            controller_port=ports.claim(),
            broker_port=None,
            version=version,
        )
        voters = quorum.layout.quorum
        if quorum.static:
            voters = {name: f"{value},{id_}@{node.endpoint}" for name, value in voters.items()}
        node.configure(voters, {})
        format_disk(quorum.jvm, node, quorum.cluster_id, initial=None if quorum.static else ())
        node.launch(quorum.jvm, supervised=True)
        await_registration(quorum, id_)
        node.running_process().kill()
    # The leader lists an observer for five minutes. A new one does not know it.
    leader = quorum.leader
    quorum.stop(leader)
    quorum.start(leader)
    quorum.await_leader()


def await_registration(quorum: Lab, node: int) -> None:
    def replayed() -> None:
        assert f"ControllerRegistration(id={node}, " in quorum.node(quorum.controllers[0]).log_file.read_text()

    eventually(replayed, within_s=60)


def registered(monitor: MonitoredCluster) -> list[int]:
    return sorted(monitor.machine.quorum().controllers)


def remedy(monitor: MonitoredCluster, rule: str, subject: str) -> Sequence[str]:
    """Returns the steps that are printed now."""
    found: list[Finding] = [*evaluate(Facts(monitor.machine.quorum()), monitor.monitor.settings.thresholds).findings]
    (finding,) = (one for one in found if (one.rule, str(one.subject)) == (rule, subject))
    return finding.remedy


def documented() -> list[str]:
    """Returns the transcript in the page of the rule."""
    (block,) = re.findall(r"```\n(.*?)```", page_of(RULES["ghost-registration"]).sections["What to do"], re.DOTALL)
    return str(block).rstrip().splitlines()


class Reader:
    """Someone who reads the steps from top to bottom and does what they say."""

    def __init__(self, quorum: Lab, folder: Path) -> None:
        self._quorum, self._folder, self._ports = quorum, folder, Ports()
        self._properties = folder / "none"
        self.started: dict[int, Node] = {}
        self.transcript: list[str] = []
        """Each command and what it prints; addresses and ids are replaced."""

    def follow(self, steps: Sequence[str]) -> None:
        for step in steps:
            if step.startswith("#"):
                self._do(step)
            else:
                self._run(step)

    def _do(self, sentence: str) -> None:
        found = re.match(
            r"# \$NODE_PROPERTIES of controller (\d+): a copy of a running controller's, with (.*)", sentence
        )
        if found:
            self._configure(int(found[1]), found[2])

    def _configure(self, id_: int, changes: str) -> None:
        running = next(node for node in self._quorum.layout.controllers if node.running)
        node = replace(
            running,
            id=id_,
            folder=self._folder / f"controller-{id_}",
            controller_port=self._ports.claim(),
            process=None,
        )
        assert f"node.id={id_}, an empty folder as log.dirs" in changes
        assert "an unused port in listeners and advertised.listeners" in changes
        voters = self._quorum.layout.quorum
        if "added to controller.quorum.voters, in this file only" in changes:
            voters = {"controller.quorum.voters": f"{voters['controller.quorum.voters']},{id_}@{node.endpoint}"}
        node.configure(voters, {})
        self.started[id_], self._properties = node, node.properties_file

    def _run(self, command: str) -> None:
        printed = ""
        if command.startswith("kafka-server-start.sh -daemon"):
            node = next(one for one in self.started.values() if one.properties_file == self._properties)
            node.launch(self._quorum.jvm, supervised=True)
        elif command.startswith("kafka-server-stop.sh"):
            self.started[int(command.partition("--node-id=")[2])].running_process().kill()
        elif " describe" in command:
            self._tool(command)
            return
        elif "upgrade --feature" in command:
            # "Until then Kafka refuses the next command."
            printed = eventually(lambda: self._tool(command), within_s=30)
        else:
            printed = self._tool(command)
        self.transcript += [f"$ {self._shown(command)}", *map(self._shown, printed.splitlines())]

    def _tool(self, command: str) -> str:
        try:
            printed = self._quorum.run_remedy(command, node_properties=self._properties) or ""
        except LabError as error:
            raise AssertionError(error) from error
        # What it prints of a disk is of no interest.
        return "" if command.startswith("kafka-storage.sh") else printed.strip()

    def _shown(self, line: str) -> str:
        line = line.replace(self._quorum.cluster_id, "lXKPGQVyRkOmCf5Xfmr2Tg")
        return re.sub(r"127\.0\.0\.1:\d+", "c1.example.com:9093", line)
