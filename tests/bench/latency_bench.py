"""The latency of an alert: from the record in the metadata log to the call of an HTTP sink.

A real quorum, the real job with its defaults and holds at zero, and brokers that are fenced and unfenced at random
moments, twice a second: each change is one record, and fires or resolves one alert. One broker is fenced at a time, so
that each alert begins or ends an incident and is sent at once: what happens within an open incident is collected for a
minute (`rules.notifications.planner`).

The time of a record is the timestamp of its batch, as Kafka's dump tool prints it: the leader has appended the record,
so its replication is part of the figure.
"""

import json
import random
import re
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from streaming.demo.job_process import JobProcess
from tests.bench import spark_floor
from tests.bench.fenced_broker import FencedBroker
from tests.bench.job_cost import percentiles
from tests.lab import Lab
from tests.sinks.server import HttpReply, ReceivedRequest, serving

BROKERS = (901, 902, 903)
EVENTS = 510
PAUSE_S = (0.2, 0.6)
"""The pause between two events: shorter than a second, so that events fall on every moment of the job's batches."""
WARM_UP_S = 20.0
_WARM_UP_EVENTS = 18
_RULE = "broker-fenced"
_DELIVERY_S = 30.0
_RECORD = re.compile(
    r"\| offset: \d+ CreateTime: (?P<ms>\d+) .*payload: (?P<payload>\{.*\"BROKER_REGISTRATION_CHANGE.*\})"
)
Change = tuple[int, bool]
"""A broker, and whether it is fenced."""


def figures() -> dict[str, Any]:
    """Returns milliseconds: percentiles of the latency, and of Spark's floor."""
    calls: list[tuple[float, Mapping[str, Any]]] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kraftwatch-bench-")))
        webhook = stack.enter_context(serving())

        def receive(request: ReceivedRequest) -> HttpReply:
            calls.append((time.time(), json.loads(request.body)))
            return HttpReply()

        webhook.behave = receive
        # A broker whose events are rare must not be fenced by the controller itself.
        lab = stack.enter_context(Lab(folder / "lab", brokers=1, properties={"broker.session.timeout.ms": "60000"}))
        # broker-flapping would keep one incident open: what happens within it is sent a minute later.
        settings = {f"{_RULE}.hold": 0, f"{_RULE}.clear": 0, "broker-flapping.fencings": 90_000}
        job = JobProcess(
            folder=folder / "watch",
            bootstrap=lab.bootstrap,
            settings=settings,
            arguments=["--sink", f"webhook:{webhook.url}"],
        )
        stack.enter_context(job)
        leader = lab.await_state(lambda _: True, what="a leader").leader_id
        port = lab.node(leader).controller_port
        assert port is not None
        brokers = [stack.enter_context(FencedBroker(id=id_, cluster_id=lab.cluster_id, port=port)) for id_ in BROKERS]
        time.sleep(WARM_UP_S)
        make((broker, False) for broker in brokers)
        make(islice(changes(brokers), _WARM_UP_EVENTS))
        before = len(arrivals(calls))
        make(islice(changes(brokers), EVENTS))
        deadline = time.monotonic() + _DELIVERY_S
        while len(arrivals(calls)) < before + EVENTS and time.monotonic() < deadline:
            time.sleep(0.1)
        written = records(lab.dump_log(leader))
    latencies = matched(written[-EVENTS:], arrivals(calls))
    assert len(latencies) > 0.9 * EVENTS, f"{len(latencies)} of {EVENTS} events were matched"
    return {"events": len(latencies), "latency_ms": percentiles(latencies), "spark_floor_ms": spark_floor.figures()}


def changes(brokers: Sequence[FencedBroker]) -> Iterator[tuple[FencedBroker, bool]]:
    """Yields what to do to brokers that are all unfenced, without end: one is fenced, then unfenced, then the next."""
    return cycle((broker, fenced) for broker in brokers for fenced in (True, False))


def make(planned: Iterable[tuple[FencedBroker, bool]]) -> None:
    """Fences and unfences brokers, each after a pause."""
    chooser = random.Random(7)
    for broker, fenced in planned:
        time.sleep(chooser.uniform(*PAUSE_S))
        broker.set_fenced(fenced)


def arrivals(calls: Iterable[tuple[float, Mapping[str, Any]]]) -> list[tuple[Change, float]]:
    """Returns the alerts that the sink got, each with the time of its call in ms."""
    return [
        ((int(alert["evidence"]["broker"]), alert["state"] == "firing"), 1_000 * at)
        for at, document in calls
        for alert in document["new_transitions"]
        if alert["rule"] == _RULE
    ]


def records(dumped: str) -> list[tuple[Change, int]]:
    """Returns the changes in the log, each with the timestamp of its batch in ms."""
    found = []
    for line in dumped.splitlines():
        if match := _RECORD.search(line):
            change = json.loads(match["payload"])["data"]
            if change["brokerId"] in BROKERS and change.get("fenced"):
                found.append(((change["brokerId"], change["fenced"] == 1), int(match["ms"])))
    return found


def matched(written: Iterable[tuple[Change, int]], arrived: Iterable[tuple[Change, float]]) -> list[float]:
    """Returns the time from each record to the first call with its alert, in ms."""
    waiting: dict[Change, list[int]] = {}
    for change, at_ms in written:
        waiting.setdefault(change, []).append(at_ms)
    latencies: list[float] = []
    for change, called_ms in arrived:
        due = waiting.get(change, [])
        if due and due[0] <= called_ms:
            latencies.append(called_ms - due.pop(0))
    return latencies
