"""Follows the output of `kraftwatch rescue plan` on a real quorum: runs each command as printed, does each sentence.

A sentence that is not known here fails the test: so every sentence of a plan is one that a reader can act on.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from typer.testing import Result

from deploy.lab import LabError
from deploy.lab.lab import NODE_PROPERTIES
from deploy.lab.node import Node
from rules.model.history import REBUILT_EPOCHS
from tests.cli.program import kraftwatch
from tests.eventually import eventually
from tests.lab import Lab

_ROOT = Path(__file__).parents[2]
_TOOL = "kafka-metadata-quorum.sh"
LOG_DIR = "$METADATA_LOG_DIR"
"""The log directory of the node on whose host a command runs."""
_COMMAND_TIMEOUT_S = 120


def log_dirs(quorum: Lab, *nodes: int) -> list[str]:
    """The --log-dir options for these nodes."""
    return [part for node in nodes for part in ("--log-dir", str(quorum.node(node).data))]


def rescue_plan(quorum: Lab, wanted: str, *nodes: int, as_json: bool = False) -> Result:
    """The plan for these nodes."""
    more = ["--json"] if as_json else []
    return kraftwatch("rescue", "plan", *log_dirs(quorum, *nodes), "--initial-controllers", wanted, *more)


def steps_in_text(plan: str) -> list[str]:
    """The commands and sentences of a printed plan; a sentence begins with `#`."""
    lines = [line.strip() for line in plan.splitlines()]
    marked = [line for line in lines if line.startswith(("$ ", "- "))]
    return [line.removeprefix("$ ") if line.startswith("$") else f"#{line[1:]}" for line in marked]


class PlanFollower:
    """Someone who reads a plan from top to bottom and does what it says, on a quorum that is down."""

    def __init__(self, quorum: Lab, folder: Path) -> None:
        """`folder`: where the commands are run."""
        self._quorum, self._folder = quorum, folder
        self._programs = folder / "bin"
        self._programs.mkdir()
        # The program of the code under test, whatever is installed.
        program = self._programs / "kraftwatch"
        program.write_text(f'#!/bin/sh\nexec env PYTHONPATH={_ROOT} {sys.executable} -m streaming "$@"\n')
        program.chmod(0o755)
        self._output = ""
        self._hosts: list[int] = []
        """On whose hosts the next commands run that need a node's file."""
        self._configured: dict[int, str] = {}
        """The configuration of each node of a static quorum before its voters were changed."""
        self._ran: list[str] = []
        self._sentences: Mapping[str, Callable[..., None]] = {
            r"Stop every controller \((?P<nodes>.*?)\)(?:, all of them before the first one is changed)?": (
                self._are_stopped
            ),
            r"The logs of controllers? .* are not lost: .* Write the recorded directory ids back": self._nothing,
            r"Then start (?:controllers? )(?P<nodes>[\d, and]+)": self._start_first,
            r"Put the new endpoints into controller.quorum.bootstrap.servers and advertised.listeners of every node": (
                self._is_configured
            ),
            r"Write this plan to rescue-plan.json and copy it to the nodes' hosts: .*": self._nothing,
            r"Where a folder in a command is a copy, give the node's own metadata.log.dir .*": self._nothing,
            r"On the host of (?:controller|broker) \d+, as the user that Kafka runs as(?:: .*)?": self._nothing,
            r"Do not change (?:controller|broker) \d+: no majority of the voters has its records .*": self._nothing,
            r"Start (?:controllers? )(?P<nodes>[\d, and]+), the most complete log first, and wait for a leader": (
                self._start_first
            ),
            r"LeaderId must be one of (?P<nodes>.*), and CurrentVoters must show the new endpoints": self._check_status,
            r"Then start controller (?P<nodes>\d+): it replaces the end of its log by the leader's": self._start,
            r"Controller (?P<nodes>\d+) must be listed with Lag 0": self._check_lag,
            r"Then stop controller (?P<nodes>\d+) and write the new endpoints into it too: .*": self._stop,
            r"Start controller (?P<nodes>\d+) again": self._start,
            r"Brokers \(.* among them\) hold the old voters and connect to them, .*: stop each": self._stop_brokers,
            r"Start each broker; it is unfenced after it has read the metadata log": self._start_brokers,
            r"Every controller and broker must be listed with Lag 0": self._check_all_lags,
            **self._without_lost_voters(),
        }

    def _without_lost_voters(self) -> Mapping[str, Callable[..., None]]:
        """The sentences of a plan for a quorum of the voters that are left."""
        return {
            r"The best log that is left is of (?:controller|broker) \d+: it ends at offset .*": self._nothing,
            r"(?:Committed records below offset .*|Records that were committed from offset .*)": self._nothing,
            r"(?:The log of broker \d+ goes further, .*|No broker's log that is given goes further, .*)": self._nothing,
            r"The logs of brokers? .* are not given, .*": self._nothing,
            r"Its records from offset \d+ to \d+ may never have been committed: .*": self._nothing,
            r"Data-safe: .*: nothing that was committed is lost, if .*": self._nothing,
            r"Keep (?:controllers? )(?P<nodes>[\d, and]+) down, .* Wipe each one before it starts": self._are_down,
            r"Stop (?:controllers? )(?P<nodes>[\d, and]+), which may still run and wait for .*": self._stop_running,
            r"Write this plan to rescue-plan.json and copy it to the hosts: .*": self._nothing,
            r"Start (?:controllers? )(?P<nodes>[\d, and]+), and wait for a leader": self._start_within_30_s,
            r"LeaderId must be (?:one of )?(?P<nodes>.*), and LeaderEpoch above \d+": self._check_leader,
            r"Restart every broker, one after the other(?:: .*)?": self._restart_brokers,
            r"Every broker must be listed with Lag 0": self._check_broker_lags,
            r"On the host of controller (?P<nodes>\d+), with an empty metadata.log.dir and its file as .*": self._wipe,
            r"On the host of controller (?P<nodes>\d+)(?:, .*: it must fetch the log again)?": self._at,
            r"On the host of each broker, .*: stop it, it must fetch the log again": self._at_brokers,
            r"Start controller (?P<nodes>\d+)": self._start,
            r"Controller (?P<nodes>\d+) must be listed as an observer with Lag 0": self._check_lag,
            r"On its host, unless controller.quorum.auto.join.enable is true there: .*": self._nothing,
            r"CurrentVoters must list every controller": self._check_voters,
            r"Put controller.quorum.voters=(?P<voters>\S+) into the configuration of .* and of every broker": (
                self._configure_voters
            ),
            r"The way back to all voters: stop controllers? (?P<nodes>[\d, and]+)\. .*": self._stop,
            r"Copy metadata-log.tar to controllers? (?P<nodes>[\d, and]+)\. On each, .*": self._wipe,
            r"Put all voters into controller.quorum.voters of every node again, as before": self._configure_all_voters,
            r"Start every controller, and wait for a leader": self._start_all_voters,
        }

    def follow(self, steps: list[str]) -> list[str]:
        """Does every step in order; returns the commands that ran."""
        for step in steps:
            if step.startswith("#"):
                self._do(step.removeprefix("#").strip())
            else:
                self._run(step)
        return self._ran

    def _do(self, sentence: str) -> None:
        for pattern, action in self._sentences.items():
            match = re.fullmatch(pattern, sentence)
            if match is not None:
                found = match.groupdict()
                nodes = found.get("nodes")
                voters = [found["voters"]] if "voters" in found else []
                action(*(voters if nodes is None else [[int(node) for node in re.findall(r"\d+", nodes)]]))
                return
        raise AssertionError(f"what is to be done here? {sentence}")

    def _run(self, command: str) -> None:
        self._ran.append(command)
        if NODE_PROPERTIES in command or LOG_DIR in command:
            for node in self._hosts:
                self._run_at(self._quorum.node(node), command)
            return
        if command.startswith(_TOOL):
            self._output = eventually(partial(self._tool_output, command), within_s=30, every_s=1)
            return
        self._run_in_shell(command)

    def _run_at(self, node: Node, command: str) -> None:
        """Runs a command on the host of a node, with its file or its log directory."""
        if NODE_PROPERTIES in command:
            self._output = self._quorum.run_remedy(command, node_properties=node.properties_file) or ""
        else:
            self._run_in_shell(command.replace(LOG_DIR, str(node.data)))

    def _run_in_shell(self, command: str) -> None:
        environment = {**os.environ, "PATH": f"{self._programs}{os.pathsep}{os.environ['PATH']}"}
        ran = subprocess.run(
            ["sh", "-c", command],
            cwd=self._folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=_COMMAND_TIMEOUT_S,
            check=False,
        )
        assert ran.returncode == 0, f"{command}\n{ran.stdout}\n{ran.stderr}"
        if "rescue apply" in command:
            assert any(word in ran.stdout for word in ("DONE", "NOTHING TO DO")), ran.stdout

    def _tool_output(self, command: str) -> str:
        """Returns what the tool prints; a person runs it again while a controller that started knows no version yet."""
        try:
            return self._quorum.run_remedy(command) or ""
        except LabError as problem:
            if "not supported with the current MetadataVersion" not in str(problem):
                raise
            raise AssertionError(str(problem)) from problem

    def _nothing(self) -> None:
        """The sentence is about the next command."""

    def _are_stopped(self, nodes: list[int]) -> None:
        assert nodes == self._quorum.controllers
        assert not any(self._quorum.node(node).running for node in nodes)

    def _is_configured(self) -> None:
        for node in self._quorum.layout:
            assert ",".join(self._quorum.bootstrap) in node.properties_file.read_text()

    def _start(self, nodes: list[int]) -> None:
        self._quorum.start(*nodes)

    def _start_first(self, nodes: list[int]) -> None:
        self._quorum.start(*nodes)
        self._quorum.await_leader(*nodes)

    def _stop(self, nodes: list[int]) -> None:
        self._quorum.stop(*nodes)

    def _stop_brokers(self) -> None:
        assert not any(self._quorum.node(node).running for node in self._quorum.brokers), "stopped with the quorum"

    def _start_brokers(self) -> None:
        self._quorum.start(*self._quorum.brokers)

    def _check_status(self, nodes: list[int]) -> None:
        lines = (line.partition(":") for line in self._output.splitlines())
        fields = {name.strip(): value.strip() for name, _, value in lines}
        assert int(fields["LeaderId"]) in nodes
        voters = json.loads(fields["CurrentVoters"])
        shown = {voter["id"]: voter["endpoints"] for voter in voters}
        assert shown == {id_: [f"CONTROLLER://{self._quorum.node(id_).endpoint}"] for id_ in self._quorum.controllers}

    def _at(self, nodes: list[int]) -> None:
        self._hosts = nodes

    def _at_brokers(self) -> None:
        self._hosts = self._quorum.brokers
        self._stop_running(self._quorum.brokers)

    def _wipe(self, nodes: list[int]) -> None:
        """A new disk on each of these hosts."""
        self._hosts = nodes
        for node in nodes:
            shutil.rmtree(self._quorum.node(node).data, ignore_errors=True)
            self._quorum.node(node).data.mkdir()

    def _are_down(self, nodes: list[int]) -> None:
        assert not any(self._quorum.node(node).running for node in nodes)

    def _stop_running(self, nodes: list[int]) -> None:
        self._quorum.kill(*(node for node in nodes if self._quorum.node(node).running))

    def _start_within_30_s(self, nodes: list[int]) -> None:
        self._quorum.start(*nodes)
        self._quorum.await_state(lambda state: state.leader_id in nodes, what="a leader", timeout_s=30)

    def _check_leader(self, nodes: list[int]) -> None:
        lines = (line.partition(":") for line in self._output.splitlines())
        fields = {name.strip(): value.strip() for name, _, value in lines}
        assert int(fields["LeaderId"]) in nodes
        assert int(fields["LeaderEpoch"]) > REBUILT_EPOCHS

    def _check_voters(self) -> None:
        state = self._quorum.await_state(
            lambda state: set(state.voter_ids) == {*self._quorum.controllers}, what="every voter", timeout_s=60
        )
        assert state.leader_id in self._quorum.controllers

    def _restart_brokers(self) -> None:
        for broker in self._quorum.brokers:
            if self._quorum.node(broker).running:
                self._quorum.kill(broker)
            self._quorum.start(broker)

    def _check_broker_lags(self) -> None:
        self._check_lag(self._quorum.brokers)

    def _configure_voters(self, voters: str) -> None:
        for node in self._quorum.layout:
            text = node.properties_file.read_text()
            self._configured.setdefault(node.id, text)
            node.properties_file.write_text(
                re.sub(r"(?m)^controller.quorum.voters=.*$", f"controller.quorum.voters={voters}", text)
            )

    def _configure_all_voters(self) -> None:
        for node, text in self._configured.items():
            self._quorum.node(node).properties_file.write_text(text)

    def _start_all_voters(self) -> None:
        self._quorum.start(*self._quorum.controllers)
        self._quorum.await_leader()

    def _check_lag(self, nodes: list[int]) -> None:
        """Repeats the command before until it shows what it must show, as a reader would."""

        def listed_with_no_lag() -> bool:
            self._run(self._ran[-1])
            heading, *rows = [line.split() for line in self._output.splitlines() if line.strip()]
            lags = {int(row[heading.index("NodeId")]): row[heading.index("Lag")] for row in rows}
            return all(lags.get(node) == "0" for node in nodes)

        eventually(listed_with_no_lag, within_s=30)

    def _check_all_lags(self) -> None:
        self._check_lag([*self._quorum.controllers, *self._quorum.brokers])
