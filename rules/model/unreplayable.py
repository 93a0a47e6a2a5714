"""Records that Kafka cannot replay: what each condition of its replay requires, and what throws where it is not met.

Kafka validates before it writes, and replays without a way back: a committed record that the state refuses ends each
controller that starts from a snapshot before it (`ProcessTerminatingFaultHandler`, exit code 1), at every start. A node
with the broker's role alone logs a metadata loading fault, goes on without the record, and takes no snapshot any more
until it is restarted (`LoggingFaultHandler`). Each row was tried on a controller of 4.4.0, and the first, TOPIC_REMOVED
and that of SCRAM on a broker.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from rules.model.identifiers import Offset


class Refusal(StrEnum):
    """A condition of Kafka's replay that is not met."""

    TOPIC_NAME = "topic-name"
    PARTITION_TOPIC = "partition-topic"
    PARTITION = "partition"
    DIRECTORIES = "directories"
    TOPIC_REMOVED = "topic-removed"
    TOPIC_CLEARED = "topic-cleared"
    BROKER = "broker"
    BROKER_EPOCH = "broker-epoch"
    DIRECTORY = "directory"
    CONTROLLER = "controller"
    PRODUCER_ID = "producer-id"
    ACL = "acl"
    CREDENTIAL = "credential"
    TRANSACTION_OPEN = "transaction-open"
    NO_TRANSACTION = "no-transaction"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayCondition:
    """One condition of Kafka's replay."""

    records: tuple[str, ...]
    """Kafka's classes of the records."""
    requires: str
    """What the state that the record meets must have, as a clause."""
    thrown_by: str
    """The class and method that throws first in a controller."""
    by_loader: bool = True
    """Whether the image of a broker refuses it too; otherwise only the state of a controller does."""


_CHANGES_OF_BROKERS: Final = ("FenceBrokerRecord", "UnfenceBrokerRecord", "BrokerRegistrationChangeRecord")
CONDITIONS: Final[Mapping[Refusal, ReplayCondition]] = {
    Refusal.TOPIC_NAME: ReplayCondition(
        records=("TopicRecord",),
        requires="no topic has this name",
        thrown_by="ReplicationControlManager.replay",
        by_loader=False,
    ),
    Refusal.PARTITION_TOPIC: ReplayCondition(
        records=("PartitionRecord", "PartitionChangeRecord"),
        requires="the topic exists",
        thrown_by="TopicsDelta.getOrCreateTopicDelta",
    ),
    Refusal.PARTITION: ReplayCondition(
        records=("PartitionChangeRecord",), requires="the partition exists", thrown_by="TopicDelta.replay"
    ),
    Refusal.DIRECTORIES: ReplayCondition(
        records=("PartitionRecord", "PartitionChangeRecord"),
        requires="as many directories as replicas are listed",
        thrown_by="PartitionRegistration.checkDirectories",
    ),
    Refusal.TOPIC_REMOVED: ReplayCondition(
        records=("RemoveTopicRecord",), requires="the topic exists", thrown_by="TopicsDelta.replay"
    ),
    Refusal.TOPIC_CLEARED: ReplayCondition(
        records=("ClearElrRecord",), requires="the topic exists", thrown_by="TopicsDelta.replay"
    ),
    Refusal.BROKER: ReplayCondition(
        records=("UnregisterBrokerRecord", *_CHANGES_OF_BROKERS),
        requires="the broker is registered",
        thrown_by="ClusterDelta.getBrokerOrThrow, ClusterControlManager.replay",
    ),
    Refusal.BROKER_EPOCH: ReplayCondition(
        records=("UnregisterBrokerRecord", *_CHANGES_OF_BROKERS),
        requires="the broker is registered with this broker epoch",
        thrown_by="ClusterDelta.getBrokerOrThrow, ClusterControlManager.replay",
    ),
    Refusal.DIRECTORY: ReplayCondition(
        records=("RegisterBrokerRecord",),
        requires="no other broker has one of its log directories",
        thrown_by="ClusterControlManager.updateDirectories",
        by_loader=False,
    ),
    Refusal.CONTROLLER: ReplayCondition(
        records=("UnregisterControllerRecord",),
        requires="the controller is registered",
        thrown_by="ClusterControlManager.replay",
        by_loader=False,
    ),
    Refusal.PRODUCER_ID: ReplayCondition(
        records=("ProducerIdsRecord",),
        requires="the next producer id is higher than the one before",
        thrown_by="ProducerIdControlManager.replay",
        by_loader=False,
    ),
    Refusal.ACL: ReplayCondition(
        records=("RemoveAccessControlEntryRecord",),
        requires="an ACL has this id",
        thrown_by="AclsDelta.replay",
    ),
    Refusal.CREDENTIAL: ReplayCondition(
        records=("RemoveUserScramCredentialRecord",),
        requires="the user has a credential of this mechanism",
        thrown_by="ScramControlManager.replay",
        by_loader=False,
    ),
    Refusal.TRANSACTION_OPEN: ReplayCondition(
        records=("BeginTransactionRecord",),
        requires="no transaction is open",
        thrown_by="MetadataBatchLoader.replay",
    ),
    Refusal.NO_TRANSACTION: ReplayCondition(
        records=("EndTransactionRecord", "AbortTransactionRecord"),
        requires="a transaction is open",
        thrown_by="MetadataBatchLoader.replay",
    ),
}
"""What the replay checks. Not here, because no state decides it: values that Kafka does not define (a record with one
is undecodable), and levels of features that a controller's version does not support (`version-drift`). Not checked: the
records of a transaction before its end, and of one that is aborted: Kafka replays them as they come (tried)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreplayableRecord:
    """A record that Kafka cannot replay."""

    offset: Offset
    snapshot: bool
    """It is in a snapshot: the offset counts within its file."""
    record: str
    """Kafka's class."""
    refusal: Refusal
    about: str
    """What it is about, such as `topic u-t-1`."""

    def __str__(self) -> str:
        """Returns `record 50 (RemoveTopicRecord of topic u-t-1; Kafka requires that the topic exists)`."""
        place = "a record of the snapshot" if self.snapshot else f"record {self.offset}"
        return f"{place} ({self.record} of {self.about}; Kafka requires that {CONDITIONS[self.refusal].requires})"


MOST_UNREPLAYABLE: Final = 8
"""The maximum number of such records that are kept, the first ones: the first one ends a start."""
