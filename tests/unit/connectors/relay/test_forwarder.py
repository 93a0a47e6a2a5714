"""The forwarder while no broker answers: what it reports and logs."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError

from connectors.relay import forwarder
from connectors.relay.forwarder import Forwarder
from connectors.relay.relay_message import RelayMessage
from connectors.settings import TopicSection
from connectors.store.journal_reader import JournalReader
from connectors.store.journal_writer import JournalWriter
from tests.unit.connectors.relay.test_topic_position import records
from tests.unit.connectors.relay.test_written_clusters import Tail


class EmptyTopic(Tail):
    """A topic of which nothing is read."""

    def open(self, within_s: float) -> None:
        """Finds the topic."""

    def read(self) -> Iterator[tuple[RelayMessage, bool]]:
        return iter(())


class CutOffProducer:
    """Reports each time that no broker answers, as librdkafka does, and delivers nothing."""

    def __init__(self, on_error: Callable[[KafkaError], None]) -> None:
        self._on_error = on_error

    def produce(self, *_: object, **__: object) -> None:
        """Queues a message."""

    def poll(self, _: float) -> None:
        self._on_error(KafkaError(KafkaError._ALL_BROKERS_DOWN))


def test_the_exact_reason_of_an_outage_is_kept_and_logged_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(forwarder, "open_producer", lambda *_, on_error, within_s: CutOffProducer(on_error))
    monkeypatch.setattr(forwarder, "TopicTail", lambda *_: EmptyTopic())
    monkeypatch.setattr(forwarder, "_UNACKNOWLEDGED_S", 0.0)
    with JournalWriter(tmp_path) as journal:
        journal.append([records(0, 5)])
        journal.publish()
    topic = TopicSection(bootstrap=("a:1",), topic="t")
    relay = Forwarder(JournalReader(tmp_path), topic, {"prod": "id"}, "me")

    for _ in range(3):
        relay.forward(0.0)

    assert (relay.counts.failing or "").startswith("no broker is reachable")
    assert caplog.text.count("no row can be written to the topic") == 1
