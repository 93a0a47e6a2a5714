"""TopicBatch: the messages of a relay's topic that the next batch has, and whether it is due. Pure but for a clock.

A batch costs Spark, and an object store with its checkpoint, the same however little is in it. So rows that can change
no condition wait: those that the gatherer has marked as quiet, until the time from which on, as the newest evaluation
has found, time alone may change something. Every other row makes a batch at once. Nothing waits longer than MOST_S,
nor more than MOST_WAITING rows.

Skipped are rows of clusters that are not monitored, rows of a baseline with which the state does not begin, and rows
that are not above the newest one of their cluster: after a crash of the relay a row may be in the topic twice, and a
relay that was replaced may still write. Whatever is no message of a relay of its cluster goes to quarantine. Which rows
a batch has depends on its messages alone: read again, it has the same ones.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from connectors.errors import UndecodableError
from connectors.observations.observation import Observation, Urgency
from connectors.relay.relay_message import (
    RefusedPart,
    RefusedRowError,
    RelayMessage,
    TopicMessage,
    check_row,
    parse_message,
)
from rules.model.identifiers import Millis
from streaming.pipeline.output_rows import TOPIC
from streaming.pipeline.schema import PACKED_ARROW, REFUSED, pack

MOST_S: Final = 10.0
"""How long rows wait for a batch at most, in seconds since the batch before was planned. No longer than the time for
which a condition must be absent: that time begins with a row that may wait (`ClusterMonitor.quiet_until_ms`)."""
MOST_WAITING: Final = 2_500
"""How many rows wait at most. A batch of so many takes a core about two seconds, for which a change would wait."""
_SETTLES_MS: Final = 15_000
"""How long no row waits after a change, and after another relay has taken over. Until then everything is observed
again: a quiet row may be the first of something that was not seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicCluster:
    """From which messages the rows of a monitored cluster come."""

    topic: str
    cluster_id: str
    baseline: int
    """Rows of an older baseline are skipped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _NewestRow:
    """What is known of a cluster's newest row, in this batch or before."""

    sequence: int
    relay: str
    settled_ms: int
    """Rows wait from this time on."""
    read_at: float
    """By the clock."""


class MessageReader:
    """Reads messages; whatever no relay of the cluster writes is refused."""

    def __init__(self, clusters: Mapping[str, TopicCluster]) -> None:
        """`clusters`: the monitored ones, by name."""
        self._clusters = clusters

    def read(self, message: TopicMessage) -> RelayMessage | None:
        """Returns what a relay has written; None for a row that the state needs not.

        Raises UndecodableError, with the reason, if its row must not be used.
        """
        read = parse_message(message.key, message.value, message.headers)
        cluster = self._clusters.get(read.observation.cluster)
        if cluster is None:
            return None
        if message.topic != cluster.topic:
            raise RefusedRowError(
                RefusedPart.TOPIC, f"rows of the cluster are read from the topic {cluster.topic} only"
            )
        check_row(read, cluster_id=cluster.cluster_id, appended_at_ms=message.appended_at_ms)
        return None if read.baseline.sequence < cluster.baseline else read

    def refused(self, message: TopicMessage, problem: UndecodableError) -> Mapping[str, Any]:
        """Returns what the quarantine keeps of a refused message."""
        part = problem.part if isinstance(problem, RefusedRowError) else RefusedPart.MESSAGE
        key = (message.key or b"").decode(errors="replace")
        return {
            "cluster": f"{TOPIC}{message.topic} partition {message.partition}",
            # The topic's offset stands for the sequence in a journal.
            "sequence": message.offset,
            "observed_at_ms": message.appended_at_ms,
            "offset": message.offset,
            "length": len(message.value or b""),
            "reason": str(problem),
            "part": part,
            "rows_of": key if key in self._clusters else None,
        }


class TopicBatch:
    """What was read since the batch before."""

    def __init__(
        self,
        reader: MessageReader,
        *,
        most_rows: int,
        most_bytes: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begins the first batch; `most_rows` and `most_bytes`: a batch with so much is due."""
        self._reader, self._clock = reader, clock
        self._most_rows, self._most_bytes = most_rows, most_bytes
        self._newest: dict[str, _NewestRow] = {}
        """Of each cluster, since this reader began."""
        self.begin({})

    def begin(self, quiet_until_ms: Mapping[str, Millis]) -> None:
        """Begins the batch after the one that was planned now.

        `quiet_until_ms`: quiet rows of these clusters wait that are observed before these times.
        """
        self._planned_at = self._clock()
        self._sequences: dict[str, int] = {}
        """Of the newest row of each cluster in this batch."""
        self._is_due = False
        self._empty()
        self.waiting_ms = Millis(0)
        """The time of the newest row that waits."""
        self._quiet_until_ms = quiet_until_ms

    def _empty(self) -> None:
        self._rows: list[Observation] = []
        self._refused: list[Mapping[str, Any]] = []
        self._messages = self._bytes = 0

    @property
    def row_at(self) -> Mapping[str, float]:
        """When the newest row of each cluster was read, by the clock."""
        return {name: newest.read_at for name, newest in self._newest.items()}

    @property
    def due_in_s(self) -> float:
        """In how many seconds the batch is due, if no further message comes; 0 if it is due."""
        if self._is_due or self.is_full or len(self._rows) >= MOST_WAITING:
            return 0.0
        left = max(0.0, self._planned_at + MOST_S - self._clock())
        return left if self._messages else max(left, MOST_S)

    @property
    def is_full(self) -> bool:
        """Whether the batch has as many messages as one may have."""
        return self._messages >= self._most_rows or self._bytes >= self._most_bytes

    def add(self, message: TopicMessage) -> None:
        """Adds the next message of a partition."""
        self._messages += 1
        self._bytes += len(message.value or b"")
        try:
            read = self._reader.read(message)
        except UndecodableError as problem:
            self._refused.append(self._reader.refused(message, problem))
            self._is_due = True
            return
        if read is None:
            return
        row = read.observation
        if row.sequence > self._sequences.get(row.cluster, -1):
            self._sequences[row.cluster] = row.sequence
            self._rows.append(row)
            self._note(read)

    def _note(self, read: RelayMessage) -> None:
        """Notes whether the batch is due by this row: not by one that a batch before it had already."""
        row, newest = read.observation, self._newest.get(read.observation.cluster)
        if newest is not None and row.sequence <= newest.sequence:
            return
        changed = newest is None or newest.relay != read.relay or row.urgency is Urgency.URGENT
        settled_ms = row.observed_at_ms + _SETTLES_MS if newest is None or changed else newest.settled_ms
        self._newest[row.cluster] = _NewestRow(
            sequence=row.sequence, relay=read.relay, settled_ms=settled_ms, read_at=self._clock()
        )
        waits_until_ms = self._quiet_until_ms.get(row.cluster, 0)
        if row.urgency is Urgency.QUIET and settled_ms <= row.observed_at_ms < waits_until_ms:
            self.waiting_ms = max(self.waiting_ms, Millis(row.observed_at_ms))
        else:
            self._is_due = True

    def take(self) -> Sequence[pa.RecordBatch]:
        """Returns the rows, and the refused messages, as batches of `schema.PACKED`, and keeps none of them."""
        batches = [pack(self._rows)] if self._rows else []
        if self._refused:
            rows = [{"group": REFUSED, "observation": json.dumps(body).encode()} for body in self._refused]
            batches.append(pa.RecordBatch.from_pylist(rows, schema=PACKED_ARROW))
        self._empty()
        return batches
