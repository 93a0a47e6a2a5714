"""The sink for a Kafka topic, against a real broker: secured, so that one node shows the login as well."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import (
    AclBinding,
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

from connectors.delivery.dispatcher import Dispatcher
from connectors.delivery.ledger import Ledger
from connectors.sinks import librdkafka
from connectors.sinks.kafka_topic import KafkaTopicSink
from connectors.sinks.sink import Delivered, Outcome, Rejected, Retry, Sink
from connectors.sinks.sink_factory import open_sink
from deploy.lab.lab import Lab
from rules.alert import Alert
from rules.model.identifiers import Millis
from rules.notifications.notification import single_alert_notification
from streaming.config import checked
from tests.eventually import eventually
from tests.kafka.alert_topic import messages, reaching, said
from tests.kafka.conftest import MakeLab
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, alert

pytestmark = pytest.mark.lab

PROPERTIES = {
    # A broker that would make any topic that somebody asks for, and that looks for something to compact all the time.
    "auto.create.topics.enable": "true",
    "log.cleaner.backoff.ms": "100",
    # Half of a lab's memory, else: a thousand topics more, and Java would find none.
    "log.cleaner.dedupe.buffer.size": "4194304",
}
SCHEMA = Path(__file__).parents[2] / "docs" / "alert.schema.json"
_DEADLINE_S = 120.0


@pytest.fixture(scope="module")
def kafka(shared_lab: MakeLab) -> Lab:
    """One node, with a user who may do nothing but what a test allows."""
    return shared_lab(controllers=0, combined=1, brokers=0, users=["alerts"], properties=PROPERTIES)


@pytest.fixture(scope="module")
def admin(kafka: Lab) -> AdminClient:
    return AdminClient(reaching(kafka))


@pytest.fixture
def topic(admin: AdminClient, request: pytest.FixtureRequest) -> str:
    """A name of its own: the user may make and write topics that begin with it."""
    name = request.node.name.replace("[", "-").replace("]", "")
    whose = ResourceType.TOPIC, name, ResourcePatternType.PREFIXED, "User:alerts", "*"
    operations = AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.CREATE
    acls = [AclBinding(*whose, operation, AclPermissionType.ALLOW) for operation in operations]
    for done in admin.create_acls(acls).values():
        done.result(60)
    there = AclBindingFilter(*whose, AclOperation.ANY, AclPermissionType.ANY)
    # The controller has them at once, the broker a moment later.
    eventually(lambda: len(admin.describe_acls(there).result(60)) == len(acls), within_s=30)
    return str(name)


@pytest.fixture
def password_file(kafka: Lab, tmp_path: Path) -> Path:
    file = tmp_path / "password"
    file.write_text(kafka.security.passwords["alerts"] + "\n")
    return file


@pytest.fixture
def entry(kafka: Lab, topic: str, password_file: Path) -> dict[str, Any]:
    """The sink as its section says it."""
    return {
        "bootstrap": kafka.broker_bootstrap,
        "topic": topic,
        "create": True,
        "security_protocol": "SASL_SSL",
        "ssl_cafile": str(kafka.security.ca_file),
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "alerts",
        "sasl_plain_password_file": str(password_file),
    }


def opened(entry: dict[str, Any], tmp_path: Path) -> Sink:
    config = checked({"clusters": [{"name": "alpha", "bootstrap": ["c1:9093"]}], "sinks": [{"kafka": entry}]}, "test")
    (wanted,) = config.sink_specs()
    return open_sink(wanted, state_folder=tmp_path)


def told(sink: Sink, *alerts: Alert) -> list[Outcome]:
    return list(
        sink.send([single_alert_notification(one) for one in alerts], sent_at_ms=NOON_MS, deadline_s=_DEADLINE_S)
    )


def patient(ledger: Ledger, sink: Sink) -> Dispatcher:
    """A batch waits for the answer: none is under way when the job ends, and none comes after the next one began."""
    return Dispatcher(ledger, [sink], deadline_s=_DEADLINE_S, patience_s=2 * _DEADLINE_S)


def test_lines_arrive_in_order_in_a_compacted_topic_that_was_asked_for(
    kafka: Lab, admin: AdminClient, topic: str, entry: dict[str, Any], tmp_path: Path
) -> None:
    without = opened({**entry, "create": False}, tmp_path)
    (missing,) = told(without, alert())
    assert missing == Retry(
        reason=f"the topic {topic} does not exist: create it with cleanup.policy=compact, or set create: true"
    )
    assert topic not in admin.list_topics(timeout=60).topics, "none is made behind anybody's back"
    began = [alert(f"voter {number}", started_at_ms=NOON_MS) for number in range(50)]
    ended = [alert(f"voter {number}", started_at_ms=NOON_MS, resolved=True) for number in range(50)]
    assert told(opened(entry, tmp_path), *began, *ended) == [Delivered()] * 100
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    assert admin.describe_configs([resource])[resource].result(60)["cleanup.policy"].value == "compact"
    held = messages(kafka, topic)
    published = Draft202012Validator(json.loads(SCHEMA.read_text()))
    assert all(published.is_valid(json.loads(message.value())) for message in held)
    assert [json.loads(message.value())["subject"] for message in held] == [one.subject for one in began + ended]
    first = held[0]
    assert first.key().decode() == began[0].fingerprint == json.loads(first.value())["fingerprint"]
    assert first.headers() == [("rule", b"no-leader"), ("severity", b"critical"), ("state", b"firing")]


def test_compaction_keeps_the_newest_word_on_every_alert(
    kafka: Lab, admin: AdminClient, topic: str, entry: dict[str, Any], tmp_path: Path
) -> None:
    # Of this topic alone: compacted at once, the topics of other tests would lose what they are read for.
    at_once = {"cleanup.policy": "compact", "segment.ms": "200", "min.cleanable.dirty.ratio": "0.01"}
    made = NewTopic(topic, num_partitions=1, replication_factor=1, config=at_once)
    admin.create_topics([made])[topic].result(60)
    sink = opened(entry, tmp_path)
    words = alert("a"), alert("b"), alert("a", resolved=True), alert("b", observed_at_ms=NOON_MS + 9_000)
    assert told(sink, *words) == [Delivered()] * 4

    def compacted() -> None:
        # The newest segment is never compacted: another alert begins the next one.
        told(sink, alert("last", observed_at_ms=NOON_MS))
        kept = [one for one in said(kafka, topic) if one[0] != "last"]
        assert kept == [("a", "resolved"), ("b", "firing")]

    eventually(compacted, within_s=60, every_s=0.5)


def test_a_broker_that_was_away_is_told_everything_once_and_in_order(
    kafka: Lab, topic: str, entry: dict[str, Any], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (node,) = kafka.brokers
    ledger = Ledger(tmp_path / "ledger")
    delivery = patient(ledger, opened(entry, tmp_path))
    now_ms = NOON_MS

    def deliver(*alerts: Alert) -> str | None:
        nonlocal now_ms
        now_ms = Millis(now_ms + 61_000)
        (tally,) = delivery.deliver(alerts, now_ms).sinks.values()
        return tally.failing

    def waits_for_nothing() -> bool:
        deliver()
        return not ledger.pending(delivery_name)

    delivery_name = opened(entry, tmp_path).options.name
    deliver(alert("before"))
    eventually(waits_for_nothing, within_s=30)
    kafka.stop(node)
    deliver(alert("during"))
    eventually(lambda: (deliver() or "").startswith("no broker is reachable"), within_s=30)
    deliver(alert("during", resolved=True), alert("stays"))
    # The job starts again, and with it another producer that knows of nothing under way.
    ledger.close()
    ledger = Ledger(tmp_path / "ledger")
    delivery = patient(ledger, opened(entry, tmp_path))
    deliver(alert("changes"))
    deliver(alert("changes", resolved=True))
    assert capfd.readouterr().err == "", "librdkafka keeps its complaints to itself"
    kafka.start(node)
    eventually(waits_for_nothing, within_s=60)
    assert said(kafka, topic) == [
        ("before", "firing"),
        ("during", "firing"),
        ("during", "resolved"),
        ("stays", "firing"),
        ("changes", "firing"),
        ("changes", "resolved"),
    ]
    ledger.close()


def test_what_is_too_large_is_refused_and_holds_nothing_up(
    topic: str, entry: dict[str, Any], kafka: Lab, tmp_path: Path
) -> None:
    large = alert("large", evidence={"all": "x" * 2_000_000})
    first, second = told(opened(entry, tmp_path), large, alert("small"))
    assert isinstance(first, Rejected)
    assert first.reason == f"the message is larger than the topic {topic} accepts, or than 1 MB"
    assert second == Delivered()
    assert said(kafka, topic) == [("small", "firing")]


def test_a_topic_may_take_less_than_we_do(
    topic: str, entry: dict[str, Any], admin: AdminClient, tmp_path: Path
) -> None:
    small = NewTopic(topic, num_partitions=1, replication_factor=1, config={"max.message.bytes": "2000"})
    admin.create_topics([small])[topic].result(60)
    first, second = told(opened(entry, tmp_path), alert("large", evidence={"all": "x" * 5_000}), alert("small"))
    assert isinstance(first, Rejected)
    assert second == Delivered()


def test_a_login_that_is_mended_needs_no_restart(
    kafka: Lab, topic: str, entry: dict[str, Any], password_file: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    right = password_file.read_text()
    password_file.write_text("wr0ng-s3cret\n")
    sink = opened(entry, tmp_path)
    (refused,) = told(sink, alert())
    assert isinstance(refused, Retry)
    assert "Authentication failed" in refused.reason
    password_file.unlink()
    (unreadable,) = told(sink, alert())
    assert unreadable == Retry(reason=f"cannot read {password_file}: no such file or directory")
    password_file.write_text(right)
    assert told(sink, alert()) == [Delivered()]
    assert said(kafka, topic) == [("voter 2", "firing")]
    assert "wr0ng-s3cret" not in caplog.text + refused.reason
    assert right.strip() not in caplog.text


def test_a_user_who_may_not_write_is_said_to_need_what(
    admin: AdminClient, entry: dict[str, Any], tmp_path: Path
) -> None:
    admin.create_topics([NewTopic("others", num_partitions=1, replication_factor=1)])["others"].result(60)
    (outcome,) = told(opened({**entry, "topic": "others"}, tmp_path), alert())
    assert outcome == Retry(reason="missing permission on the topic others: the login needs DESCRIBE and WRITE")


def test_a_sink_that_was_replaced_writes_nothing_any_more(
    kafka: Lab, topic: str, entry: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (node,) = kafka.brokers
    connected, settings = KafkaTopicSink._connected, librdkafka.settings

    def and_then_it_goes(sink: KafkaTopicSink, until: float) -> Any:
        producer = connected(sink, until)
        kafka.stop(node)
        return producer

    replaced = opened(entry, tmp_path)
    with monkeypatch.context() as patched:
        # Else it would look for the broker every ten seconds.
        patched.setattr(librdkafka, "settings", lambda place: {**settings(place), "reconnect.backoff.max.ms": 1_000})
        patched.setattr(KafkaTopicSink, "_connected", and_then_it_goes)
        (under_way,) = told(replaced, alert("a"))
    assert isinstance(under_way, Retry)
    del replaced
    kafka.start(node)
    for number in range(10):
        assert told(opened(entry, tmp_path), alert(f"b{number}")) == [Delivered()]
    assert said(kafka, topic) == [(f"b{number}", "firing") for number in range(10)]


def test_the_first_words_to_a_topic_that_is_being_made_are_all_there(
    kafka: Lab, admin: AdminClient, topic: str, entry: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Tried again at once, so that one try in a few meets the moment in which the broker comes to lead the partition.
    hasty = {"retry.backoff.ms": 1, "retry.backoff.max.ms": 2}
    settings = librdkafka.settings
    monkeypatch.setattr(librdkafka, "settings", lambda place: {**settings(place), **hasty})
    words = [alert(f"voter {number}") for number in range(20)]
    for made in range(3):
        # A broker knows a topic before it leads it, the longer the more are made in one request.
        name = f"{topic}-{made}"
        wanted = [NewTopic(one, 1, 1) for one in (*(f"{name}-beside-{number}" for number in range(400)), name)]
        creations = admin.create_topics(wanted)
        sink = opened({**entry, "topic": name}, tmp_path)
        assert told(sink, *words) == [Delivered()] * len(words)
        for creation in creations.values():
            creation.result(60)
        assert said(kafka, name) == [(one.subject, "firing") for one in words]
