"""The forwarder when its writers fail: what it reports and logs, and when it stands by."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException

from connectors.observations.observation import Observation
from connectors.relay import cluster_writer, forwarder
from connectors.relay.cluster_writer import ClusterWriter, FencedError
from connectors.relay.forwarder import Forwarder
from connectors.relay.relay_message import RelayMessage, TopicError
from connectors.settings.sections import TopicSection
from connectors.store.journal_reader import JournalReader
from connectors.store.journal_writer import JournalWriter
from tests.eventually import eventually
from tests.unit.connectors.relay.topic_records import records
from tests.unit.connectors.relay.topic_tail import Tail

TOPIC = TopicSection(bootstrap=("a:1",), topic="t")


class EmptyTopic(Tail):
    """A topic of which nothing is read."""

    def open(self, within_s: float) -> None:
        """Finds the topic."""

    def read(self) -> Iterator[Observation]:
        return iter(())


class FailingWriter(ClusterWriter):
    """Raises an error with each transaction."""

    error: Exception

    def open(self) -> ClusterWriter:
        return self

    def send(self, messages: Sequence[RelayMessage]) -> None:
        raise self.error


@pytest.fixture
def relay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Forwarder:
    monkeypatch.setattr(forwarder, "open_producer", lambda *_, on_error, within_s: None)
    monkeypatch.setattr(forwarder, "TopicTail", lambda *_: EmptyTopic())
    monkeypatch.setattr(forwarder, "ClusterWriter", FailingWriter)
    with JournalWriter(tmp_path) as journal:
        journal.append([records(0, 5)])
        journal.publish()
    return Forwarder(JournalReader(tmp_path), TOPIC, {"prod": "id"}, "me")


def test_the_reason_of_an_outage_is_reported_and_logged_once(
    relay: Forwarder, caplog: pytest.LogCaptureFixture
) -> None:
    FailingWriter.error = TopicError("no broker is reachable")

    def failed_twice() -> None:
        relay.forward(0.01)
        assert relay.counts.errors == 2

    eventually(failed_twice, within_s=30)
    assert relay.counts.failing == "no broker is reachable"
    assert caplog.text.count("no row can be written to the topic") == 1
    assert relay.waiting_rows == 1
    relay.close(0)


def test_a_fenced_relay_stands_by(relay: Forwarder, caplog: pytest.LogCaptureFixture) -> None:
    FailingWriter.error = FencedError("another relay writes the rows of cluster prod")

    def fenced() -> None:
        relay.forward(0.01)
        assert "another relay writes the rows of cluster prod; this one stands by" in caplog.text

    eventually(fenced, within_s=30)
    relay.forward(0.01)
    assert (relay.stands_by, relay.written, relay.counts.failing) == (True, set(), None)
    relay.close(0)


class WaitingProducer:
    """A producer whose brokers name no transaction coordinator."""

    def init_transactions(self, _: float) -> None:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

    def poll(self, _: float) -> None:
        """Reports nothing."""


def test_brokers_without_a_transaction_coordinator_are_named_with_the_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_writer, "open_producer", lambda *_, **__: WaitingProducer())

    with pytest.raises(
        TopicError, match=r"fewer than three brokers, set transaction\.state\.log\.replication\.factor=1"
    ):
        ClusterWriter(TOPIC, "prod").open()
