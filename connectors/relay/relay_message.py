"""The relay's topic, without Kafka's library: its messages, and what a survey of it finds.

A message holds one observation, its cluster's id, which relay writes it, and where the cluster's log begins in the
topic. The key is the cluster's name. The value is a byte, the version; the CRC-32C of what follows, big-endian; and the
row, with a sequence that grows within the cluster: readers skip a row whose sequence is not above the newest one.
Headers: `cluster_id`; `relay` = the name of the relay; `baseline` = SEQUENCE of the row from which on the topic holds
the cluster's log from its start or snapshot, a space, and the time of that row in milliseconds since the epoch.

One relay writes the rows of a cluster at a time: Kafka refuses those of a relay that was replaced (`cluster_writer`).
Every reader reads committed messages only.

A program that may write to the topic may write any message. `check_row` refuses what no relay of the cluster writes and
what would keep the rows of the right relay from being used: nothing that is refused changes the cluster's state.
"""

import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from google_crc32c import value as crc32c

from connectors.errors import KraftwatchError, UndecodableError
from connectors.observations.observation import Observation, packed, unpacked
from connectors.settings.sections import TopicSection
from rules.firing import AHEAD_MS
from rules.formatting import ms_text, utc_text

VERSION: Final = 1
"""Of a message's value and headers. A message of another version is refused."""
CLUSTER_ID, BASELINE, RELAY = "cluster_id", "baseline", "relay"
_NUMBERS_PER_MS: Final = 1_000
"""The first sequence of a cluster is its time in microseconds; no relay writes so many rows that they get ahead."""
_RELAY_NAME: Final = re.compile(r"[!-~]{1,100}")
_SHOWN_ID: Final = 40
"""Characters of a wrong cluster id that a reason quotes."""
_ROW_AT: Final = 5
"""Where the row begins in a value."""


def _unframed(value: bytes) -> Observation:
    if value and value[0] != VERSION:
        raise UndecodableError(
            f"the message has version {value[0]}, and this kraftwatch reads {VERSION}: a relay of another version, or "
            "no relay, wrote it"
        )
    checksum, content = value[1:_ROW_AT], value[_ROW_AT:]
    if checksum != _checksum(content):
        raise UndecodableError("the message's value is not a row: its CRC-32C does not match")
    try:
        row = unpacked(content)
    except (struct.error, IndexError, ValueError):
        raise UndecodableError("the message's value is not a row: no relay wrote it") from None
    # Kafka's epochs have 32 bits; so has the column of the DataFrames.
    if row.sequence < 0 or row.observed_at_ms < 0 or abs(row.leader_epoch or 0) >= 1 << 31:
        raise UndecodableError("the message's value is not a row: its sequence, time or leader epoch is out of range")
    return row


def _checksum(packed_row: bytes) -> bytes:
    return int(crc32c(packed_row)).to_bytes(4, "big")


class RefusedPart(StrEnum):
    """What is wrong with a refused message."""

    MESSAGE = "message"
    """No relay of this version wrote it, or it is damaged."""
    TOPIC = "topic"
    CLUSTER_ID = "cluster id"
    TIME = "time"
    BASELINE = "baseline"
    SEQUENCE = "sequence"


class RefusedRowError(UndecodableError):
    """A message whose row must not be used."""

    def __init__(self, part: RefusedPart, reason: str) -> None:
        super().__init__(reason)
        self.part = part


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """From where on the topic holds everything about a cluster. A new state must begin there."""

    sequence: int
    """Of its first row."""
    at_ms: int
    """No row from there on is older."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayMessage:
    """One message."""

    observation: Observation
    cluster_id: str
    baseline: Baseline
    relay: str
    """The name of the relay that writes it."""

    @property
    def key(self) -> bytes:
        """The cluster's name."""
        return self.observation.cluster.encode()

    @property
    def headers(self) -> Sequence[tuple[str, bytes]]:
        """The headers, in order."""
        baseline = f"{self.baseline.sequence} {self.baseline.at_ms}"
        return (CLUSTER_ID, self.cluster_id.encode()), (BASELINE, baseline.encode()), (RELAY, self.relay.encode())

    def value(self) -> bytes:
        """Returns the value: version, checksum and row."""
        row = packed(self.observation)
        return bytes([VERSION]) + _checksum(row) + row


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicMessage:
    """A message of a topic, whoever has written it."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]] | None
    appended_at_ms: int
    """When the broker appended it."""


def parse_message(
    key: bytes | None, value: bytes | None, headers: Iterable[tuple[str, bytes | None]] | None
) -> RelayMessage:
    """Returns the message that a relay has written.

    Raises UndecodableError if it is not a message of a relay, or damaged; the reason names the part.
    """
    given = {name: content for name, content in headers or () if content is not None}
    if not key or value is None:
        raise UndecodableError("the message has no key or no value: no relay wrote it")
    observation = _unframed(value)
    if observation.cluster.encode() != key:
        raise UndecodableError("the message's key is not the cluster of its row")
    try:
        sequence, at_ms = given[BASELINE].split()
        baseline = Baseline(sequence=int(sequence), at_ms=int(at_ms))
        cluster_id = given[CLUSTER_ID].decode()
        relay = given[RELAY].decode()
    except (KeyError, ValueError):
        raise UndecodableError(f"the message has no valid header {BASELINE}, {CLUSTER_ID} or {RELAY}") from None
    if not (0 <= baseline.sequence < 1 << 63 and 0 <= baseline.at_ms < 1 << 63):
        raise UndecodableError(f"the message's header {BASELINE} is out of range")
    if not _RELAY_NAME.fullmatch(relay):
        raise UndecodableError(f"the message's header {RELAY} is no name of a relay")
    return RelayMessage(observation=observation, cluster_id=cluster_id, baseline=baseline, relay=relay)


def first_sequence(now_ms: int) -> int:
    """Returns the sequence of the first row of a cluster: above those of rows that the topic has no longer."""
    return _NUMBERS_PER_MS * now_ms


def check_row(message: RelayMessage, *, cluster_id: str | None, appended_at_ms: int) -> None:
    """Checks that a relay of the cluster may have written the row. Raises RefusedRowError if it must not be used.

    `cluster_id`: None if it is not known yet; `appended_at_ms`: when the broker appended the message.
    """
    row, baseline = message.observation, message.baseline
    if cluster_id is not None and message.cluster_id != cluster_id:
        other = message.cluster_id[:_SHOWN_ID]
        raise RefusedRowError(RefusedPart.CLUSTER_ID, f"its relay gathers cluster id {other!r}, not {cluster_id}")
    if row.observed_at_ms - appended_at_ms > AHEAD_MS:
        ahead = ms_text(row.observed_at_ms - appended_at_ms)
        raise RefusedRowError(RefusedPart.TIME, f"its time is {ahead} beyond the time at which the topic got it")
    if row.sequence > first_sequence(appended_at_ms + AHEAD_MS):
        raise RefusedRowError(RefusedPart.SEQUENCE, f"its sequence, {row.sequence}, is that of a later time")
    if baseline.sequence > row.sequence or baseline.at_ms - row.observed_at_ms > AHEAD_MS:
        begins = f"with row {baseline.sequence}, {utc_text(baseline.at_ms)}"
        raise RefusedRowError(RefusedPart.BASELINE, f"its baseline does not fit: it begins {begins}")


class TopicError(KraftwatchError):
    """The topic cannot be used now. The sentence holds no secret."""


class UnansweredTopicError(TopicError):
    """No broker answers, or there is no such topic yet: a later attempt may succeed."""


class RowsLostError(KraftwatchError):
    """A topic no longer has the rows that follow those that were read."""

    def __init__(self, topic: str, why: str) -> None:
        """`why`: what is missing, as a clause."""
        super().__init__(
            f"the topic {topic} no longer has rows that were not read (its retention is too short, or it was created "
            f"again): {why}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SurveyedCluster:
    """What the topic has of one cluster."""

    partition: int
    cluster_id: str
    baseline: Baseline
    """That of most of the newest rows."""
    begins_at: int
    """The partition's offset from which on all rows of the baseline follow."""
    whole: bool
    """Whether the topic still has the first rows of the baseline."""
    newest_baseline: int
    """The highest sequence of a baseline of this cluster: a later one has not begun yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSurvey:
    """The surveyed clusters of a topic, by name."""

    ends: Mapping[int, int]
    """The end of each partition when it was surveyed."""
    clusters: Mapping[str, SurveyedCluster]
    append_time: bool | None = None
    """Whether the brokers set the time of a message; None for a topic without messages."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Why a row was refused, by the cluster that its key names."""

    def starting_offsets(self) -> Mapping[int, int]:
        """Returns the offset to begin at, by partition; the end for a partition without a cluster."""
        offsets = dict(self.ends)
        for cluster in self.clusters.values():
            offsets[cluster.partition] = min(offsets[cluster.partition], cluster.begins_at)
        return offsets


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedTopic:
    """A topic, and the clusters whose rows are read from it."""

    connection: TopicSection
    clusters: Mapping[str, str | None]
    """Their ids by name; None: that of the first row."""


def append_time_advice(topic: str) -> str:
    """Returns what to do about a topic whose messages have the time of their producer."""
    return (
        f"the topic {topic} takes the times of its messages from their producers, which a job cannot trust: set "
        "message.timestamp.type=LogAppendTime of the topic"
    )
