"""The relay's forwarder: from a row published in the journal to a reader of the topic, and what it costs."""

import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
from confluent_kafka import TopicPartition

from connectors.observations.observation import Observation, ObservationKind
from connectors.process.wall_clock import wall_ms
from connectors.relay.forwarder import Forwarder
from connectors.relay.relay_message import parse_message
from connectors.relay.topic_client import open_consumer
from connectors.settings.sections import TopicSection
from connectors.store.journal_reader import JournalReader
from connectors.store.journal_writer import JournalWriter
from tests.eventually import eventually
from tests.lab import Lab

CLUSTERS = (1, 20, 100)
PUBLICATIONS = 60
EVERY_S = 1.0


def figures() -> dict[str, Any]:
    """Returns the latencies and costs by number of clusters, with one broker."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Lab(Path(folder) / "lab", controllers=0, combined=1, brokers=0) as lab,
    ):
        return {f"{count} clusters": _measured(lab, Path(folder, f"journal-{count}"), count) for count in CLUSTERS}


def _measured(lab: Lab, folder: Path, count: int) -> dict[str, Any]:
    names = [f"c{number}" for number in range(count)]
    topic = TopicSection(bootstrap=tuple(lab.broker_bootstrap), topic=f"of-{count}", create=True)
    process, ended = psutil.Process(), threading.Event()
    before_mb = process.memory_full_info().pss / 1e6
    published: dict[tuple[str, int], float] = {}
    received: dict[tuple[str, int], float] = {}
    with JournalWriter(folder) as journal:
        forwarder = Forwarder(JournalReader(folder), topic, dict.fromkeys(names, "id"), "bench")
        _publish(journal, [_first_row(name) for name in names])
        threads = [threading.Thread(target=_forward, args=(forwarder, ended))]
        threads[0].start()
        eventually(lambda: forwarder.waiting_rows == 0, within_s=120, every_s=0.1)
        threads.append(threading.Thread(target=_receive, args=(topic, received, ended)))
        threads[1].start()
        cpu_s, began = sum(process.cpu_times()[:2]), time.monotonic()
        for number in range(PUBLICATIONS):
            time.sleep(max(0.0, began + number * EVERY_S - time.monotonic()))
            at_ms = wall_ms()
            at_s = _publish(journal, [_poll(name, at_ms) for name in names])
            published |= {(name, at_ms): at_s for name in names}
        cpu_percent = 100 * (sum(process.cpu_times()[:2]) - cpu_s) / (time.monotonic() - began)
        eventually(lambda: published.keys() <= received.keys(), within_s=60, every_s=0.1)
        memory_mb, running = process.memory_full_info().pss / 1e6 - before_mb, process.num_threads()
        ended.set()
        for each in threads:
            each.join()
    waited = {row: 1_000 * (received[row] - at_s) for row, at_s in published.items()}
    return {
        "ms_p50_p99_of_the_last_row": _percentiles([each for (name, _), each in waited.items() if name == names[-1]]),
        "ms_p50_p99_of_all_rows": _percentiles([*waited.values()]),
        "cpu_percent": round(cpu_percent, 1),
        "memory_mb": round(memory_mb),
        "threads": running,
    }


def _first_row(cluster: str) -> Observation:
    """Returns the answer of a leader whose log is empty."""
    return Observation(
        cluster=cluster,
        kind=ObservationKind.RECORDS,
        observed_at_ms=wall_ms(),
        base_offset=0,
        last_offset=-1,
        high_watermark=0,
    )


def _poll(cluster: str, at_ms: int) -> Observation:
    return Observation(cluster=cluster, kind=ObservationKind.QUORUM, observed_at_ms=at_ms, payload=bytes(600))


def _publish(journal: JournalWriter, rows: Sequence[Observation]) -> float:
    """Publishes rows together; returns the monotonic seconds."""
    journal.append([*rows])
    journal.publish()
    return time.monotonic()


def _forward(forwarder: Forwarder, ended: threading.Event) -> None:
    while not ended.is_set():
        forwarder.forward(1.0)
    forwarder.close(10)


def _receive(topic: TopicSection, received: dict[tuple[str, int], float], ended: threading.Event) -> None:
    with closing(open_consumer(topic)) as consumer:
        numbers = consumer.list_topics(topic.topic, timeout=30).topics[topic.topic].partitions
        consumer.assign([TopicPartition(topic.topic, number, 0) for number in numbers])
        while not ended.is_set():
            message = consumer.poll(0.2)
            if message is not None and message.error() is None:
                row = parse_message(message.key(), message.value(), message.headers()).observation
                received[row.cluster, row.observed_at_ms] = time.monotonic()


def _percentiles(values: Sequence[float]) -> list[float]:
    ordered = sorted(values)
    return [round(ordered[int(share * (len(ordered) - 1))], 1) for share in (0.5, 0.99)]
