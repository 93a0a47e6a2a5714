"""The metadata log has records that this kraftwatch does not know.

What it means
    Their type or version is that of a newer Kafka, or of another product: AutoMQ and Confluent Server write records of
    their own. They are counted and skipped.

    - Info: no rule depends on them. Every alert is as it would be without them.
    - Warning: a rule depends on records of this name, in a version that is unknown. What the alert names is as old as
      the last such record that was known; the rules that need it may be wrong.

    The alert fires while such records are in the log that was read: an unknown version until a snapshot without it is
    read, other products' records always.

What to do
    1. If Kafka is newer than this kraftwatch, upgrade kraftwatch. One that knows the records reads the log again by
       itself: it keeps nothing of them, because they may hold credentials.
    2. For another product's records, silence the info alert.

What not to do
    Do not lower metadata.version because of this alert: the quorum is healthy.
"""

from collections.abc import Iterable, Mapping

from rules.facts.quorum import Facts
from rules.finding import Finding, Plain, RuleResult, Severity, Thresholds, hold
from rules.formatting import and_join, plural
from rules.model.monitoring import UnknownRecordType
from rules.model.subject import Subject
from rules.rule import Rule

FACTS: Mapping[str, str] = {
    "RegisterBrokerRecord": "registrations of brokers",
    "UnregisterBrokerRecord": "registrations of brokers",
    "FenceBrokerRecord": "which brokers are fenced",
    "UnfenceBrokerRecord": "which brokers are fenced",
    "BrokerRegistrationChangeRecord": "which brokers are fenced",
    "RegisterControllerRecord": "registrations of controllers",
    "UnregisterControllerRecord": "registrations of controllers",
    "TopicRecord": "topics",
    "RemoveTopicRecord": "topics",
    "PartitionRecord": "replicas, leaders and recovery states of partitions",
    "PartitionChangeRecord": "replicas, leaders and recovery states of partitions",
    "ConfigRecord": "min.insync.replicas",
    "AccessControlEntryRecord": "which ACLs exist",
    "RemoveAccessControlEntryRecord": "which ACLs exist",
    "UserScramCredentialRecord": "which SCRAM credentials exist",
    "RemoveUserScramCredentialRecord": "which SCRAM credentials exist",
    "ProducerIdsRecord": "blocks of producer ids",
    "ClearElrRecord": "eligible leader replicas",
    "ZkMigrationStateRecord": "the state of a migration from ZooKeeper",
    "FeatureLevelRecord": "finalized features, metadata.version among them",
    "BeginTransactionRecord": "metadata transactions",
    "EndTransactionRecord": "metadata transactions",
    "AbortTransactionRecord": "metadata transactions",
    "LeaderChangeMessage": "leaders and epochs in the log",
    "KRaftVersionRecord": "kraft.version",
    "VotersRecord": "voters and their endpoints",
    "SnapshotHeaderRecord": "the end of a snapshot",
    "SnapshotFooterRecord": "the end of a snapshot",
}
"""What the rules know from a record, by Kafka's class: of all records that a rule depends on."""


def evaluate(facts: Facts, _thresholds: Thresholds) -> Iterable[RuleResult]:
    """Returns one finding about all records that no rule needs, and one for each record that a rule needs."""
    needed: dict[str, list[UnknownRecordType]] = {}
    others = []
    for record_type in facts.quorum.unknown_records:
        if record_type.kafka_class is not None and record_type.kafka_class in FACTS:
            needed.setdefault(record_type.kafka_class, []).append(record_type)
        else:
            others.append(record_type)
    for record, of_record in sorted(needed.items()):
        yield _needed(record, of_record)
    if others:
        yield _others(others)


def _needed(record: str, unknown: list[UnknownRecordType]) -> Finding:
    since = min(record_type.first_offset for record_type in unknown)
    return Finding(
        subject=Subject(record),
        severity=Severity.WARNING,
        summary=f"This kraftwatch does not know {_names(unknown)}. Not known from offset {since} on: {FACTS[record]}.",
        evidence={**_evidence(unknown), "unknown_facts": FACTS[record]},
        remedy=(
            "# Upgrade kraftwatch, which then reads the metadata log again by itself: a newer Kafka wrote them",
            "# Until then, do not rely on alerts about what the summary names",
        ),
    )


def _others(unknown: list[UnknownRecordType]) -> Finding:
    return Finding(
        subject=Subject("records"),
        severity=Severity.INFO,
        summary=f"The metadata log has records that this kraftwatch does not know: {_names(unknown)}; "
        f"{plural(sum(record_type.count for record_type in unknown), 'record')} so far. "
        "A newer Kafka's or another product's. No rule depends on them.",
        evidence=_evidence(unknown),
        remedy=(
            "# If Kafka is newer than this kraftwatch, upgrade kraftwatch: it then reads the metadata log again by "
            "itself",
            "# If another product wrote them, nothing is to be done",
        ),
    )


def _names(unknown: list[UnknownRecordType]) -> str:
    return and_join(record_type.name for record_type in unknown)


def _evidence(unknown: list[UnknownRecordType]) -> dict[str, Plain]:
    return {
        "records": {record_type.name: record_type.count for record_type in unknown},
        "first_offset": min(record_type.first_offset for record_type in unknown),
    }


RULE = Rule(
    title="Records in the metadata log that are not known",
    resolved="Every record of the metadata log that was read is known.",
    hold=hold(0.0, "no later row makes a record known"),
    without_leader=True,
)
