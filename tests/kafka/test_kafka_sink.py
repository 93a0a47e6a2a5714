"""The sink for a Kafka topic, against a real broker: secured, so that one node shows the login as well."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ConfigResource,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from jsonschema import Draft202012Validator

from connectors.delivery.ledger import Ledger
from connectors.kafka import librdkafka
from connectors.sinks.kafka_topic import KafkaTopicSink
from connectors.sinks.sink import Delivered, Outcome, Rejected, Retry, Sink
from connectors.store.tables import job_database
from rules.alert import Alert
from rules.model.identifiers import Millis
from rules.notifications.notification import single_alert_notification
from streaming.config import checked
from tests.eventually import eventually
from tests.kafka.conftest import MakeLab
from tests.kafka.topic_messages import topic_messages
from tests.lab import Lab
from tests.recording_dispatcher import RecordingDispatcher
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, alert

pytestmark = pytest.mark.lab

PROPERTIES = {
    # The broker creates any requested topic.
    "auto.create.topics.enable": "true",
    # The default is half of the node's heap: with a thousand topics the heap would be too small.
    "log.cleaner.dedupe.buffer.size": "4194304",
}
SCHEMA = Path(__file__).parents[2] / "docs" / "alert.schema.json"
_DEADLINE_S = 120.0


@pytest.fixture(scope="module")
def kafka(shared_lab: MakeLab) -> Lab:
    """Starts one node with a user without permissions; each test adds the ACLs that it needs."""
    return shared_lab(controllers=0, combined=1, brokers=0, users=["alerts"], properties=PROPERTIES)


@pytest.fixture(scope="module")
def admin(kafka: Lab) -> AdminClient:
    return kafka.admin


@pytest.fixture
def topic(kafka: Lab, admin: AdminClient, request: pytest.FixtureRequest) -> str:
    """Returns a unique name: the user may create and write topics with this prefix."""
    name = request.node.name.replace("[", "-").replace("]", "")
    kafka.allow("alerts", AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.CREATE, topics=name)
    added = AclBindingFilter(
        ResourceType.TOPIC, name, ResourcePatternType.PREFIXED, None, None, AclOperation.ANY, AclPermissionType.ANY
    )
    # The broker applies them a moment after the controller.
    eventually(lambda: len(admin.describe_acls(added).result(60)) == 3, within_s=30)
    return str(name)


@pytest.fixture
def password_file(kafka: Lab, tmp_path: Path) -> Path:
    file = tmp_path / "password"
    file.write_text(kafka.security.passwords["alerts"] + "\n")
    return file


@pytest.fixture
def entry(kafka: Lab, topic: str, password_file: Path) -> dict[str, Any]:
    """Returns the sink's section of the configuration."""
    return {
        "bootstrap": kafka.broker_bootstrap,
        "topic": topic,
        "create": True,
        "security_protocol": "SASL_SSL",
        "ssl_cafile": str(kafka.security.ca_file),
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "alerts",
        "sasl_plain_password": {"file": str(password_file)},
    }


def open_entry(entry: dict[str, Any], tmp_path: Path) -> Sink:
    config = checked({"clusters": [{"name": "alpha", "bootstrap": ["c1:9093"]}], "sinks": [{"kafka": entry}]}, "test")
    return config.sinks[0].section.open(config.links, tmp_path)


def messages(kafka: Lab, topic: str) -> list[Any]:
    return topic_messages(",".join(kafka.broker_bootstrap), topic, kafka.login)


def alert_states(kafka: Lab, topic: str) -> list[tuple[str, str]]:
    """Returns subject and state of each alert in the topic."""
    bodies = [json.loads(message.value()) for message in messages(kafka, topic)]
    return [(body["subject"], body["state"]) for body in bodies]


def send(sink: Sink, *alerts: Alert) -> list[Outcome]:
    return list(
        sink.send([single_alert_notification(one) for one in alerts], sent_at_ms=NOON_MS, deadline_s=_DEADLINE_S)
    )


def waiting_dispatcher(ledger: Ledger, sink: Sink) -> RecordingDispatcher:
    """Returns a dispatcher whose batches wait for the sink's result, so that no call is in flight after a batch."""
    return RecordingDispatcher(ledger, [sink], deadline_s=_DEADLINE_S, patience_s=2 * _DEADLINE_S)


def test_alerts_are_written_in_order_to_a_created_compacted_topic(
    kafka: Lab, admin: AdminClient, topic: str, entry: dict[str, Any], tmp_path: Path
) -> None:
    without_create = open_entry({**entry, "create": False}, tmp_path)
    (missing,) = send(without_create, alert())
    assert missing == Retry(
        reason=f"the topic {topic} does not exist: create it with cleanup.policy=compact, or set create: true"
    )
    assert topic not in admin.list_topics(timeout=60).topics, "no topic is created without create: true"
    firing = [alert(f"voter {number}", started_at_ms=NOON_MS) for number in range(50)]
    resolved = [alert(f"voter {number}", started_at_ms=NOON_MS, resolved=True) for number in range(50)]
    assert send(open_entry(entry, tmp_path), *firing, *resolved) == [Delivered()] * 100
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    assert admin.describe_configs([resource])[resource].result(60)["cleanup.policy"].value == "compact"
    received = messages(kafka, topic)
    published = Draft202012Validator(json.loads(SCHEMA.read_text()))
    assert all(published.is_valid(json.loads(message.value())) for message in received)
    assert [json.loads(message.value())["subject"] for message in received] == [
        one.subject for one in firing + resolved
    ]
    first = received[0]
    assert first.key().decode() == firing[0].fingerprint == json.loads(first.value())["fingerprint"]
    assert first.headers() == [("rule", b"no-leader"), ("severity", b"critical"), ("state", b"firing")]


def test_alerts_of_a_broker_outage_are_written_once_and_in_order(
    kafka: Lab, topic: str, entry: dict[str, Any], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (node,) = kafka.brokers
    ledger = Ledger(job_database(tmp_path))
    dispatcher = waiting_dispatcher(ledger, open_entry(entry, tmp_path))
    now_ms = NOON_MS

    def deliver(*alerts: Alert) -> str | None:
        nonlocal now_ms
        now_ms = Millis(now_ms + 61_000)
        (result,) = dispatcher.deliver(alerts, now_ms).sinks.values()
        return result.failing

    def nothing_is_pending() -> bool:
        deliver()
        return not ledger.pending(sink_name)

    sink_name = open_entry(entry, tmp_path).options.name
    deliver(alert("before"))
    eventually(nothing_is_pending, within_s=30)
    kafka.stop(node)
    deliver(alert("during"))
    eventually(lambda: (deliver() or "").startswith("no broker is reachable"), within_s=30)
    deliver(alert("during", resolved=True), alert("stays"))
    # The job restarts with a new producer, which has no messages in flight.
    ledger = Ledger(job_database(tmp_path))
    dispatcher = waiting_dispatcher(ledger, open_entry(entry, tmp_path))
    deliver(alert("changes"))
    deliver(alert("changes", resolved=True))
    assert capfd.readouterr().err == "", "librdkafka prints nothing"
    kafka.start(node)
    eventually(nothing_is_pending, within_s=60)
    assert alert_states(kafka, topic) == [
        ("before", "firing"),
        ("during", "firing"),
        ("during", "resolved"),
        ("stays", "firing"),
        ("changes", "firing"),
        ("changes", "resolved"),
    ]


def test_too_large_alert_is_rejected_and_delays_no_other(
    topic: str, entry: dict[str, Any], kafka: Lab, tmp_path: Path
) -> None:
    large = alert("large", evidence={"all": "x" * 2_000_000})
    first, second = send(open_entry(entry, tmp_path), large, alert("small"))
    assert isinstance(first, Rejected)
    assert first.reason == f"the message is larger than the topic {topic} accepts, or than 1 MB"
    assert second == Delivered()
    assert alert_states(kafka, topic) == [("small", "firing")]


def test_corrected_password_is_used_without_a_restart(
    kafka: Lab, topic: str, entry: dict[str, Any], password_file: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    correct_password = password_file.read_text()
    password_file.write_text("wr0ng-s3cret\n")
    sink = open_entry(entry, tmp_path)
    (refused,) = send(sink, alert())
    assert isinstance(refused, Retry)
    assert "Authentication failed" in refused.reason
    password_file.unlink()
    (unreadable,) = send(sink, alert())
    assert unreadable == Retry(reason=f"cannot read {password_file}: no such file or directory")
    password_file.write_text(correct_password)
    assert send(sink, alert()) == [Delivered()]
    assert alert_states(kafka, topic) == [("voter 2", "firing")]
    assert "wr0ng-s3cret" not in caplog.text + refused.reason
    assert correct_password.strip() not in caplog.text


def test_missing_permission_names_the_needed_operations(
    admin: AdminClient, entry: dict[str, Any], tmp_path: Path
) -> None:
    admin.create_topics([NewTopic("others", num_partitions=1, replication_factor=1)])["others"].result(60)
    (outcome,) = send(open_entry({**entry, "topic": "others"}, tmp_path), alert())
    assert outcome == Retry(reason="missing permission on the topic others: the login needs DESCRIBE and WRITE")


def test_replaced_sink_writes_nothing(
    kafka: Lab, topic: str, entry: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (node,) = kafka.brokers
    connected, settings = KafkaTopicSink._connected, librdkafka.settings

    def connect_and_stop_the_broker(sink: KafkaTopicSink, until: float) -> Any:
        producer = connected(sink, until)
        kafka.stop(node)
        return producer

    replaced = open_entry(entry, tmp_path)
    with monkeypatch.context() as patched:
        # The default of ten seconds would slow the test.
        patched.setattr(librdkafka, "settings", lambda config: {**settings(config), "reconnect.backoff.max.ms": 1_000})
        patched.setattr(KafkaTopicSink, "_connected", connect_and_stop_the_broker)
        (in_flight,) = send(replaced, alert("a"))
    assert isinstance(in_flight, Retry)
    del replaced
    kafka.start(node)
    for number in range(10):
        assert send(open_entry(entry, tmp_path), alert(f"b{number}")) == [Delivered()]
    assert alert_states(kafka, topic) == [(f"b{number}", "firing") for number in range(10)]


def test_first_messages_to_a_topic_under_creation_are_not_lost(
    kafka: Lab, admin: AdminClient, topic: str, entry: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Short backoff, so that some attempts happen at the moment when the broker becomes the leader of the partition.
    short_backoff = {"retry.backoff.ms": 1, "retry.backoff.max.ms": 2}
    settings = librdkafka.settings
    monkeypatch.setattr(librdkafka, "settings", lambda config: {**settings(config), **short_backoff})
    alerts = [alert(f"voter {number}") for number in range(20)]
    for attempt in range(2):
        # A broker knows a topic before it leads its partition; the delay grows with the number of topics in a request.
        name = f"{topic}-{attempt}"
        new_topics = [NewTopic(one, 1, 1) for one in (*(f"{name}-beside-{number}" for number in range(400)), name)]
        creations = admin.create_topics(new_topics)
        sink = open_entry({**entry, "topic": name}, tmp_path)
        assert send(sink, *alerts) == [Delivered()] * len(alerts)
        for creation in creations.values():
            creation.result(60)
        assert alert_states(kafka, name) == [(one.subject, "firing") for one in alerts]
