"""What Kafka itself shows at one moment: kafka-metadata-quorum, and the metrics that usual alert rules read."""

import json
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.lab import Lab

TOOL_LIMIT_S = 30.0
"""After this time a person stops waiting; the tool itself gives up after a minute."""
_METRICS = Path(__file__).with_name("NodeMetrics.java")
_METRICS_LIMIT_S = 60.0
_SHOWN = ("MaxFollowerLag", "MaxFollowerLagTimeMs")


NodeReadings = Mapping[int, Mapping[str, Any] | None]
"""By node id: its metrics; None if it does not answer."""


def describe_status(lab: Lab) -> str:
    """Runs `describe --status` as an operator does, with all controllers as bootstrap.

    Returns the exit code and the lags, or the last line of the error; or that it did not end within `TOOL_LIMIT_S`.
    """
    arguments = ["--bootstrap-controller", ",".join(lab.bootstrap), *lab.admin_options, "describe", "--status"]
    command = lab.jvm.tool_command("kafka-metadata-quorum", arguments)
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TOOL_LIMIT_S)
    except subprocess.TimeoutExpired:
        return f"no answer within {TOOL_LIMIT_S:.0f} s"
    if done.returncode == 0:
        pairs = dict(line.split(":", 1) for line in done.stdout.splitlines() if ":" in line)
        text = ", ".join(f"{name} {pairs[name].strip()}" for name in _SHOWN if name in pairs)
    else:
        lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip() and not line[0].isspace()]
        # The innermost cause is the last line of a stack trace that is not indented.
        text = (lines or ["no output"])[-1].removeprefix("Caused by: ").rpartition("Exception: ")[2]
    return f"exit code {done.returncode}: {text[:160]}"


def metrics_view(lab: Lab, before: NodeReadings) -> tuple[list[str], NodeReadings]:
    """Returns the alerts of the usual rules for Kafka that are true now, without their `for`, and the readings.

    `before` are the readings before the fault. Such a rule is `ActiveControllerCount != 1`.
    """
    now = read_metrics(lab)
    return list(_alerts(now, before)), now


def read_metrics(lab: Lab) -> NodeReadings:
    """Reads the metrics of all nodes by JMX; a node that is stopped or paused does not answer."""
    nodes = {node: lab.node(node).pid for node in {*lab.controllers, *lab.brokers}}
    running = [f"{node}={pid}" for node, pid in nodes.items() if pid is not None]
    command = ["java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", str(_METRICS), *running]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_METRICS_LIMIT_S)
    answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {**dict.fromkeys(nodes), **{answer["node"]: answer["metrics"] for answer in answers}}


def _alerts(now: NodeReadings, before: NodeReadings) -> Iterator[str]:
    """Returns the alerts of the rules that several projects ship (jmx-monitoring-stacks, kafka-observ-lib)."""
    down = sorted(node for node, values in now.items() if values is None)
    if down:
        yield f"up == 0: node{'s' * (len(down) > 1)} {', '.join(map(str, down))}"
    if (active := _sum(now, "active_controllers")) != 1:
        yield f"ActiveControllerCount is {active}"
    if offline := _most(now, "offline_partitions"):
        yield f"PartitionSumCount is {offline}"
    if under := _sum(now, "under_replicated"):
        yield f"UnderReplicatedPartitions is {under}"
    if fenced := _most(now, "fenced_brokers"):
        yield f"FencedBrokerCount is {fenced}"
    if _most(now, "unclean_elections") > _most(before, "unclean_elections"):
        yield "UncleanLeaderElectionsPerSec > 0"


def _values(readings: NodeReadings, name: str) -> list[int]:
    return [int(values[name]) for values in readings.values() if values and name in values]


def _sum(readings: NodeReadings, name: str) -> int:
    return sum(_values(readings, name))


def _most(readings: NodeReadings, name: str) -> int:
    return max(_values(readings, name), default=0)
