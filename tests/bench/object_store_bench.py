"""What a job costs whose checkpoint is in S3: requests by kind, and their price, for idle clusters.

The real job with `source: kafka`, a relay of a real quorum, and versitygw behind a proxy that counts the requests.
LATENCY=MS delays each request (default 0), TRIGGER=S is `pipeline.trigger` and MANAGER=CLASS Spark's manager of
checkpoint files (default: those of the product). A second measurement follows after all controllers are killed.

With CLUSTERS=N, the relay gathers the clusters of a farm instead; the second measurement is then made while their
brokers change, as in `clusters_bench`. With COPIES=N, the job evaluates N copies of each (`topic_copies`), and with
EXECUTORS=N on a standalone Spark cluster, with as many cores.
"""

import os
import re
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar

from deploy.lab.lab import Lab
from tests.bench.clusters_bench import AT_ONCE, WARM_UP_S_PER_CLUSTER, ages, changed, farm_sections
from tests.bench.job_cost import JobCost, percentiles
from tests.bench.s3_requests import MINUTES_OF_MONTH, Request, RequestCounter, counting_requests, counts, usd
from tests.bench.topic_copies import copying
from tests.farm.farm_process import running_farm
from tests.job.configured_job import ConfiguredJob, section
from tests.job.relay_process import RelayProcess
from tests.job.remote_storage import s3
from tests.job.spark_cluster import standalone_cluster

T = TypeVar("T")
WARM_UP_S = 30.0
MEASURED_S = 90.0
DOWN_S = 60.0
"""From the end of a quorum until its failures only repeat."""
_ENDPOINT = "spark.hadoop.fs.s3a.endpoint"
_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
_LOG_ENTRY = re.compile(r"/(offsets|commits)/(\d+)$")
"""The key of an entry of Spark's logs; its first request begins a batch, or its write."""


def figures() -> dict[str, Any]:
    """Returns the requests of a batch and of a minute, and what they cost; and how long batches took."""
    latency_ms, trigger_s = float(os.environ.get("LATENCY") or 0), os.environ.get("TRIGGER") or None
    clusters, copies, executors = (int(os.environ.get(name) or 0) for name in ("CLUSTERS", "COPIES", "EXECUTORS"))
    evaluated = clusters * max(1, copies)
    manager = {_MANAGER: name} if (name := os.environ.get("MANAGER")) else {}
    with ExitStack() as stack:
        temporary = tempfile.TemporaryDirectory(prefix="kraftwatch-bench-", ignore_cleanup_errors=True)
        folder = Path(stack.enter_context(temporary))
        lab = farm = None
        if clusters:
            farm = stack.enter_context(running_farm(clusters))
            sections = farm_sections(farm, clusters)
        else:
            lab = stack.enter_context(Lab(folder / "lab", brokers=0))
            sections = [section("test", lab)]
        topic_lab = stack.enter_context(Lab(folder / "topic-lab", controllers=0, combined=1, brokers=0))
        relay = RelayProcess(folder / "relay", topic_lab, topic="rows", clusters=sections)
        stack.callback(relay.stop)
        relay.start()
        relay.wait_for_rows(len(sections))
        topic = relay.section
        if farm is not None and copies:
            copier = copying(topic["bootstrap"][0], "rows", "copies", clusters=clusters, copies=copies)
            stack.enter_context(copier)
            sections, topic = farm_sections(farm, evaluated), {**topic, "topic": "copies"}
        on_cluster: dict[str, Any] = {}
        if executors:
            on_cluster["master"] = stack.enter_context(standalone_cluster(folder / "spark", workers=executors))
        storage = stack.enter_context(s3(folder / "s3"))
        store = storage.settings[_ENDPOINT].removeprefix("http://")
        counter = stack.enter_context(counting_requests(store, latency_s=latency_ms / 1_000))
        job = ConfiguredJob(folder=folder / "job", bootstrap=(), name="test")
        job.write_config(
            clusters=sections,
            source="kafka",
            relay=topic,
            **on_cluster,
            checkpoint=f"{storage.uri}/kraftwatch",
            work_dir=str(folder / "work"),
            spark={**storage.settings, _ENDPOINT: f"http://{counter.address}", **manager},
            pipeline={"partitions": max(1, executors)} | ({} if trigger_s is None else {"trigger": float(trigger_s)}),
            thresholds={} if farm is None else AT_ONCE,
        )
        stack.enter_context(job)
        time.sleep(WARM_UP_S + WARM_UP_S_PER_CLUSTER * evaluated)
        found: dict[str, Any] = {
            "latency_ms": latency_ms,
            "trigger_s": trigger_s or "default",
            "clusters": len(sections),
        }
        spark = folder / "spark"
        found |= measured(job, counter, spark, lambda: time.sleep(MEASURED_S))[1]
        if farm is not None:
            changes, costs = measured(
                job, counter, spark, lambda: changed(farm, clusters, MEASURED_S, copies=max(1, copies))
            )
            found["with_changes"] = {**ages(job, changes), **costs}
        if lab is not None:
            lab.kill(*lab.controllers)
            time.sleep(DOWN_S)
            found["down"] = measured(job, counter, spark, lambda: time.sleep(MEASURED_S))[1]
    return found


def measured(
    job: ConfiguredJob, counter: RequestCounter, spark: Path, during: Callable[[], T]
) -> tuple[T, dict[str, Any]]:
    """Returns the result of a function, and the requests and the cost of the job while it ran.

    `spark`: the folder of the standalone cluster, if there is one.
    """
    began, processes = time.monotonic(), JobCost(job, workers=spark)
    result = during()
    minutes = (time.monotonic() - began) / 60
    requests, ended = counter.since(began), processes.end()
    # The job's batches are not in a folder of its own.
    del ended["batches_per_s"]
    return result, {**cost(requests, minutes), **ended}


def cost(requests: Sequence[Request], minutes: float) -> dict[str, Any]:
    """Returns the figures of the requests in so many minutes."""
    took_ms = batches_ms(requests)
    batches, by_kind = len(took_ms), counts(requests)
    a_batch = {kind: number / batches for kind, number in by_kind.items()}
    return {
        "batches_a_minute": round(batches / minutes, 1),
        "requests_a_minute": round(len(requests) / minutes),
        "requests_a_batch": {"all": round(len(requests) / batches, 1)}
        | {kind: round(number, 2) for kind, number in a_batch.items()},
        "kilobytes_a_batch": round(sum(one.size for one in requests) / batches / 1_000, 1),
        "usd_a_month": round(usd(by_kind) / minutes * MINUTES_OF_MONTH, 2),
        "usd_a_month_by_batches_a_minute": {
            number: round(usd(a_batch) * number * MINUTES_OF_MONTH, 2) for number in (6, 15, 30, 60)
        },
        "batch_ms": percentiles(took_ms),
    }


def batches_ms(requests: Sequence[Request]) -> list[float]:
    """Returns how long each batch took, from the first request for its offsets to the last one for its commit."""
    began: dict[str, float] = {}
    ended: dict[str, float] = {}
    for one in requests:
        entry = None if one.kind == "DELETE" else _LOG_ENTRY.search(one.key)
        if entry is not None and entry[1] == "offsets":
            began.setdefault(entry[2], one.at_s)
        elif entry is not None and entry[2] in began:
            ended[entry[2]] = one.at_s
    return [1_000 * (at - began[batch]) for batch, at in ended.items()]
