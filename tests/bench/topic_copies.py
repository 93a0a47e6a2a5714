"""Copies of the clusters in a relay's topic: more clusters than the machine could gather.

`python -m tests.bench.topic_copies BOOTSTRAP FROM TO CLUSTERS COPIES` writes each row of a topic to another one as soon
as it can be read, under COPIES names: cluster i of the farm becomes the clusters i, i + CLUSTERS, i + 2 CLUSTERS ...
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace

from confluent_kafka import TopicPartition

from connectors.relay.relay_message import RelayMessage, parse_message
from connectors.relay.topic_client import open_consumer, open_producer
from connectors.settings.sections import TopicSection
from tests.farm.farm_process import cluster_id, cluster_name, cluster_number

_AT_ONCE, _WAIT_S = 1_000, 0.02


@contextmanager
def copying(bootstrap: str, source: str, target: str, *, clusters: int, copies: int) -> Iterator[int]:
    """Copies in a process of its own; yields its process id."""
    command = [sys.executable, "-m", "tests.bench.topic_copies", bootstrap, source, target, f"{clusters}", f"{copies}"]
    with subprocess.Popen(command) as process:
        try:
            yield process.pid
        finally:
            process.kill()


def copy(bootstrap: str, source: str, target: str, clusters: int, copies: int) -> None:
    """Copies until the process is killed."""
    addresses = (bootstrap,)
    to = TopicSection(bootstrap=addresses, topic=target, create=True)
    producer = open_producer(to, on_error=print, within_s=30)
    with closing(open_consumer(TopicSection(bootstrap=addresses, topic=source))) as consumer:
        numbers = consumer.list_topics(source, timeout=30).topics[source].partitions
        consumer.assign([TopicPartition(source, number, 0) for number in numbers])
        while True:
            for message in consumer.consume(_AT_ONCE, _WAIT_S):
                if message.error() is not None:
                    continue
                row = parse_message(message.key(), message.value(), message.headers())
                first = cluster_number(row.observation.cluster)
                for number in range(first, first + clusters * copies, clusters):
                    one = _of_cluster(row, number)
                    producer.produce(target, one.value(), one.key, headers=list(one.headers))
            producer.poll(0)


def _of_cluster(row: RelayMessage, number: int) -> RelayMessage:
    """Returns the row as one of another cluster, whose id is in polls too."""
    of = cluster_id(number)
    payload = row.observation.payload.replace(row.cluster_id.encode(), of.encode())
    observation = replace(row.observation, cluster=cluster_name(number), payload=payload)
    return replace(row, observation=observation, cluster_id=of)


if __name__ == "__main__":
    _, _bootstrap, _source, _target, _clusters, _copies = sys.argv
    copy(_bootstrap, _source, _target, int(_clusters), int(_copies))
