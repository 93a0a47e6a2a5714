"""The metrics that the nodes of a Kafka version offer by JMX, read from a controller and a broker of the lab."""

import re
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from deploy.lab.addresses import LOOPBACK, Ports
from deploy.lab.child_process import command_output
from deploy.lab.lab import Lab

_JMX_S = 60.0
_METRIC = re.compile(r"(?m)^(kafka[\w.]*:[^:\n]+):([^=:\n]+)=")
"""A line of JmxTool: an MBean's name, an attribute, and the value."""
_VARIABLE = (
    *("client-id", "node-id", "broker-id", "networkProcessor", "topic", "partition", "listener", "BrokerTopic"),
    *("clientSoftwareVersion", "logDirectory", "request", "version", "error"),
)
_OF_THIS_NODE = re.compile(rf"({'|'.join(_VARIABLE)})=[^,]+")
"""What differs between two nodes; and the requests, which are compared as RPCs."""
_STATISTICS = {
    *("Count", "EventType", "LatencyUnit", "RateUnit", "Max", "Mean", "Min", "StdDev", "Value"),
    *("FifteenMinuteRate", "FiveMinuteRate", "MeanRate", "OneMinuteRate"),
    *(f"{number}thPercentile" for number in (50, 75, 95, 98, 99, 999)),
}
"""The attributes of every timer, meter and gauge of Yammer's library: the MBean is the metric."""


def node_metrics(version: str) -> frozenset[str]:
    """Returns the names of the metrics, such as `kafka.server:type=raft-metrics current-leader`.

    What differs between two nodes of one version, such as a client's id, is `*` in them. Raises LabError.
    """
    with tempfile.TemporaryDirectory(prefix="kraftwatch-metrics-") as folder:
        lab = Lab(Path(folder) / "lab", controllers=1, brokers=1, version=version)
        with lab:
            lab.create_topic("observed")
            return frozenset().union(*(parsed_metrics(_printed(lab, id_)) for id_ in (*lab.controllers, *lab.brokers)))


def _printed(lab: Lab, node: int) -> str:
    port = Ports().claim()
    options = [f"jmxremote.{name}={port}" for name in ("port", "rmi.port")]
    options += [f"jmxremote.host={LOOPBACK}", "jmxremote.authenticate=false", "jmxremote.ssl=false"]
    start = ["jcmd", str(lab.node(node).pid), "ManagementAgent.start", *options]
    command_output(start, what="jcmd ManagementAgent.start", timeout_s=_JMX_S)
    url = f"service:jmx:rmi:///jndi/rmi://{LOOPBACK}:{port}/jmxrmi"
    return lab.jvm.tool("kafka-jmx", ["--jmx-url", url, "--one-time", "--report-format", "properties"])


def parsed_metrics(printed: str) -> frozenset[str]:
    """Returns the names of the metrics that Kafka's JmxTool has printed as properties."""
    found = set()
    for name, attribute in _METRIC.findall(printed):
        metric = _OF_THIS_NODE.sub(r"\1=*", name)
        found.add(metric if attribute in _STATISTICS else f"{metric} {attribute}")
    return frozenset(found)


def changed_metrics(before: frozenset[str], after: frozenset[str]) -> list[str]:
    """Returns one line for each metric that only one of two Kafkas has, or for each type that only one has."""
    return [*_lacking("new", after, before), *_lacking("gone", before, after)]


def _lacking(what: str, these: frozenset[str], those: frozenset[str]) -> Iterator[str]:
    types = {_type(name) for name in those}
    numbers = Counter(_type(name) for name in these)
    for kind in sorted(numbers.keys() - types):
        yield f"{what}: metrics {kind} ({numbers[kind]})"
    for name in sorted(these - those):
        if _type(name) in types:
            yield f"{what}: metric {name}"


def _type(name: str) -> str:
    """Returns a metric's domain and type."""
    return re.split("[, ]", name, maxsplit=1)[0]
