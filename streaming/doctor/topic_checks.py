"""Checks the topics of the relays: whether they can be read, their settings, permissions, and the rows that wait."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final

from connectors.errors import JournalError, KraftwatchError
from connectors.relay.relay_message import append_time_advice
from connectors.store.journal_reader import JournalReader
from rules.formatting import ms_text, plural
from streaming.config import Config
from streaming.config.relay_section import BASELINE_EVERY_MS, RelaySection
from streaming.doctor.check_result import FAILS, OK, WARNING, CheckResult, check_result

RELAY: Final = "relay"
_result = partial(check_result, RELAY)
_SURVEY_S: Final = 10.0
_MANY_ROWS: Final = 10_000
"""More rows than wait while a relay writes: minutes of a hundred clusters."""


def check_topics(config: Config) -> Iterator[CheckResult]:
    """Yields what is right and wrong with the topics of the relays, and with the relay's folder on this machine."""
    section = config.relay
    if section is None:
        return
    for topic in sorted({section.topic_of(cluster.name) for cluster in config.watched}):
        of_topic = section.with_topic(topic)
        readable = _readable(config, of_topic)
        yield readable
        if readable.status is not FAILS:
            yield from _described(config, of_topic)
    yield from _waiting(section)


def _readable(config: Config, section: RelaySection) -> CheckResult:
    # Imported here: other configurations need no library of Kafka's in this process.
    from connectors.relay.topic_survey import survey_topic

    topic, job = section.topic, config.source == "kafka"
    try:
        append_time = survey_topic(section, {}, within_s=_SURVEY_S).append_time
    except KraftwatchError as problem:
        return _result(topic, "topic", FAILS if job else WARNING, str(problem))
    if append_time is False:
        fix = _alter(section, "message.timestamp.type=LogAppendTime")
        return _result(topic, "topic", WARNING, append_time_advice(topic), fix)
    message = "has no messages" if append_time is None else "the brokers set the times of its messages"
    return _result(topic, "topic", OK, message)


def _described(config: Config, section: RelaySection) -> Iterator[CheckResult]:
    """Yields the permissions and the settings of a topic, as far as the brokers report them."""
    from confluent_kafka import KafkaException, TopicCollection
    from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

    from connectors.kafka import librdkafka
    from connectors.relay.topic_client import reason

    topic = section.topic
    try:
        admin = AdminClient(librdkafka.settings(section))
        described = admin.describe_topics(
            TopicCollection([topic]), include_authorized_operations=True, request_timeout=_SURVEY_S
        )[topic].result(_SURVEY_S)
    except KafkaException as problem:
        yield _result(topic, "permissions", WARNING, reason(problem.args[0], section))
        return
    yield _permissions(config, section, {operation.name for operation in described.authorized_operations or ()})
    place = ConfigResource(ResourceType.TOPIC, topic)
    try:
        found = admin.describe_configs([place], request_timeout=_SURVEY_S)[place].result(_SURVEY_S)
    except KafkaException:
        message = "cannot be checked: the login has no DESCRIBE_CONFIGS on the topic, which neither relay nor job needs"
        yield _result(topic, "settings", OK, message)
        return
    yield from _settings(section, len(described.partitions), found)


def _permissions(config: Config, section: RelaySection, allowed: set[str]) -> CheckResult:
    needed = ("READ", "DESCRIBE") if config.source == "kafka" else ("READ", "WRITE", "DESCRIBE")
    missing = [each for each in needed if allowed and each not in allowed and "ALL" not in allowed]
    who = "the job" if config.source == "kafka" else "a relay"
    if not missing:
        return _result(section.topic, "permissions", OK, f"{who} needs {', '.join(needed)}")
    operations = " ".join(f"--operation {each.capitalize()}" for each in missing)
    fix = (
        f"kafka-acls.sh --bootstrap-server {section.bootstrap[0]} --add --allow-principal User:"
        f"{section.sasl_plain_username or 'NAME'} {operations} --topic {section.topic}"
    )
    message = f"the login lacks {', '.join(missing)}; {who} needs {', '.join(needed)}"
    return _result(section.topic, "permissions", FAILS, message, fix)


def _settings(section: RelaySection, partitions: int, found: Mapping[str, Any]) -> Iterator[CheckResult]:
    from connectors.relay.topic_client import MESSAGE_BYTES_MAX

    values = {name: str(entry.value) for name, entry in found.items()}
    topic = section.topic
    retention_ms, largest = int(values["retention.ms"]), int(values["max.message.bytes"])
    if 0 <= retention_ms < 2 * BASELINE_EVERY_MS:
        status = FAILS if retention_ms <= BASELINE_EVERY_MS else WARNING
        message = (
            f"retention.ms is {ms_text(retention_ms)}, and each log is written every {ms_text(BASELINE_EVERY_MS)}: a "
            "job that starts may not find the beginning of a log"
        )
        yield _result(topic, "retention", status, message, _alter(section, f"retention.ms={168 * BASELINE_EVERY_MS}"))
    if "delete" not in values["cleanup.policy"] or "compact" in values["cleanup.policy"]:
        message = f"cleanup.policy is {values['cleanup.policy']}: compaction removes rows of the logs"
        yield _result(topic, "cleanup", FAILS, message, _alter(section, "cleanup.policy=delete"))
    if largest < MESSAGE_BYTES_MAX:
        message = f"max.message.bytes is {largest}: a piece of a large snapshot may not fit"
        fix = _alter(section, f"max.message.bytes={MESSAGE_BYTES_MAX}")
        yield _result(topic, "message size", WARNING, message, fix)
    kept = "for ever" if retention_ms < 0 else ms_text(retention_ms)
    message = f"{plural(partitions, 'partition')}, rows are kept {kept}, messages of up to {largest} bytes"
    yield _result(topic, "settings", OK, message)


def _waiting(section: RelaySection) -> Iterator[CheckResult]:
    """Yields how many rows wait in the relay's folder; nothing if no relay has run on this machine."""
    subject, journal = str(section.folder), JournalReader(section.folder / "journal")
    try:
        if not journal.created:
            return
        rows = journal.published_end() - max(journal.committed_end(), journal.first_sequence())
    except JournalError as problem:
        yield _result(subject, "waiting rows", FAILS, str(problem))
        return
    message = f"{plural(rows, 'row')} wait for the topic"
    if rows <= _MANY_ROWS:
        yield _result(subject, "waiting rows", OK, message)
        return
    fix = "read log/driver.log in the folder: it says why the topic does not get them"
    yield _result(subject, "waiting rows", WARNING, message, fix)


def _alter(section: RelaySection, setting: str) -> str:
    return (
        f"kafka-configs.sh --bootstrap-server {section.bootstrap[0]} --alter --entity-type topics "
        f"--entity-name {section.topic} --add-config {setting}"
    )
