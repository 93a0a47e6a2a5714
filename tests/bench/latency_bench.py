"""The latency of an alert: from a change of a cluster to the call of an HTTP sink, and Spark's floor.

The real job with its defaults and holds at zero, and one cluster of the farm, whose broker is fenced and unfenced at
random moments, more than a second apart, because changes that follow each other are read once a second: each change is
one record, and fires or resolves one alert. So each alert begins or ends
an incident and is sent at once: what happens within an open incident is collected for a minute
(`rules.notifications.planner`).
"""

import json
import random
import time
from contextlib import ExitStack
from typing import Any

from tests.bench import spark_floor
from tests.bench.clusters_bench import RULE, ages_ms, started
from tests.bench.job_cost import percentiles
from tests.farm.farm_process import Change
from tests.sinks.server import HttpReply, ReceivedRequest, serving

EVENTS = 240
PAUSE_S = (1.1, 2.1)
"""The pause between two events: it varies by a second, so that they fall on every moment of the job's batches."""
WARM_UP_S = 20.0
_WARM_UP_EVENTS = 18
_DELIVERY_S = 10.0


def figures(events: int = EVENTS) -> dict[str, Any]:
    """Returns percentiles in ms of the latency, and of Spark's floor."""
    sent: list[tuple[str, Change]] = []

    def receive(request: ReceivedRequest) -> HttpReply:
        at = time.time()
        for one in json.loads(request.body)["new_transitions"]:
            sent.append((one["rule"], (one["cluster"], one["state"], at)))
        return HttpReply()

    with ExitStack() as stack:
        webhook = stack.enter_context(serving())
        webhook.behave = receive
        # broker-flapping would keep one incident open: what happens within it is sent a minute later.
        flapping = {"broker-flapping": {"fencings": 90_000}, "alerts": {"clear": 0}}
        # The end of a critical incident is sent a while later: a page that flaps is one page.
        warning = {RULE: {"severity": "warning"}}
        farm, _ = started(stack, 1, sinks=[{"webhook": {"url": webhook.url}}], thresholds=flapping, rules=warning)
        time.sleep(WARM_UP_S)
        chooser, changes = random.Random(7), list[Change]()
        for _ in range(_WARM_UP_EVENTS + events):
            time.sleep(chooser.uniform(*PAUSE_S))
            changes.append(farm.change(0))
        time.sleep(_DELIVERY_S)
    latencies, _ = ages_ms(changes[_WARM_UP_EVENTS:], sent)
    assert len(latencies) > 0.9 * events, f"{len(latencies)} of {events} events were matched"
    floor = {f"floor: {plan}": found for plan, found in spark_floor.figures().items()}
    return {"change to the sink's call": percentiles(latencies), **floor}
