"""The rows of a simulation as the gatherer publishes them, by its own writer and publisher, and the alerts that follow.

The monitor gets what is published, at once, and its due times reach the gatherer at once: a poll at that time has the
newest answer again.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from connectors.gather.node_directory import NodeDirectory
from connectors.gather.observation_writer import ObservationWriter
from connectors.gather.publisher import Publisher
from connectors.observations.observation import Observation, ObservationKind, Urgency, from_json
from connectors.observations.partition_run import DecodedItem
from connectors.process.wall_clock import RowClock
from connectors.relay.relay_message import Baseline, RelayMessage, TopicMessage
from rules.alert import Alert
from rules.model.identifiers import Millis
from rules.model.monitoring import FailedObservation, ObservationSource
from rules.model.replica import Poll
from streaming.pipeline.topic_batch import MessageReader, TopicBatch, TopicCluster
from streaming.replay.cluster_monitor import ClusterMonitor
from streaming.replay.decoded_row import DecodedRow
from tests.quiet_rows import write_row

CLUSTER = "simulated"
_SECOND_MS = 1_000


class PublishedRows:
    """One monitor behind one publisher."""

    ending = False

    def __init__(self, monitor: ClusterMonitor, *, quiet_rows_wait: bool) -> None:
        """`quiet_rows_wait`: False publishes every row within a second."""
        self.monitor = monitor
        self.alerts: list[tuple[Millis, Alert]] = []
        """When they were found, which is when their row was published."""
        self.publications = 0
        self._quiet_rows_wait = quiet_rows_wait
        self._now_ms = Millis(0)
        self._second_ms = Millis(0)
        self._sequence = 0
        self._written: Sequence[DecodedItem] = ()
        self._events: dict[int, Sequence[DecodedItem]] = {}
        """What the rows show that wait in the publisher, by identity."""
        self._appended: list[DecodedRow] = []
        self._soon: list[Callable[[], None]] = []
        self._poll_at_ms: Millis | None = None
        self._newest_answer: list[Sequence[DecodedItem]] = []
        loop: Any = self
        self._publisher = Publisher(self, loop, on_failure=lambda: None)
        clock = RowClock(wall=lambda: self._now_ms, steady=lambda: self._now_ms)
        nodes = NodeDirectory(configured=(), cluster_id=CLUSTER)
        adds: Any = self
        self._writer = ObservationWriter(CLUSTER, adds, nodes, clock=clock, steady=lambda: self._now_ms)

    def second(self, rows: Sequence[DecodedRow]) -> None:
        """Writes the rows of one second, and publishes what is to be published."""
        at_ms = rows[0].observed_at_ms
        while (due_ms := self._poll_at_ms) is not None and due_ms < min(at_ms, self._second_ms + _SECOND_MS):
            self._poll_at_ms = None
            for answer in self._newest_answer:
                self._write(answer, max(due_ms, self._now_ms))
            self._settle()
        self._second_ms = at_ms
        answers: list[Sequence[DecodedItem]] = [[*row.events] for row in rows if _is_answer(row)]
        self._newest_answer = answers or self._newest_answer
        for row in rows:
            self._write([*row.events], at_ms)
        self._settle()
        (self._publisher.publish_regularly if self._quiet_rows_wait else self._publisher.publish)()
        self._settle()

    def now(self) -> float:
        return self._now_ms / _SECOND_MS

    def call_soon(self, callback: Callable[[], None]) -> None:
        self._soon.append(callback)

    @property
    def failures(self) -> Counter[tuple[str, str, str]]:
        return self._publisher.failures

    def add(self, row: Observation) -> None:
        self._events[id(row)] = self._written if row.kind is ObservationKind.RECORDS else [from_json(row.payload)]
        self._publisher.add(row)

    def append(self, observations: list[Observation]) -> None:
        for row in observations:
            self._sequence += 1
            events = self._events.pop(id(row))
            quiet = row.urgency is Urgency.QUIET
            self._appended.append(DecodedRow(self._sequence, Millis(row.observed_at_ms), events, quiet=quiet))

    def publish(self) -> int:
        rows, self._appended = self._appended, []
        self.publications += 1
        self.alerts += [(self._now_ms, alert) for alert in self.monitor.apply(rows).alerts]
        self._soon.append(self._request_poll)
        return self._sequence

    def _request_poll(self) -> None:
        self._publisher.let_wait(CLUSTER, self.monitor.quiet_until_ms)
        due_ms = self.monitor.poll_at_ms
        if due_ms is not None and self._publisher.publish_first_row_from(CLUSTER, due_ms):
            self._poll_at_ms = due_ms

    def _settle(self) -> None:
        while self._soon:
            self._soon.pop(0)()

    def _write(self, events: Sequence[DecodedItem], at_ms: Millis) -> None:
        self._now_ms, self._written = at_ms, events
        write_row(self._writer, events)


def _is_answer(row: DecodedRow) -> bool:
    (first, *_) = row.events
    return isinstance(first, Poll) or (
        isinstance(first, FailedObservation) and first.source is ObservationSource.QUORUM
    )


class RelayedRows(PublishedRows):
    """The same behind a relay, whose topic a job reads: quiet rows wait there. No poll is requested."""

    def __init__(self, monitor: ClusterMonitor, *, quiet_rows_wait: bool) -> None:
        """`quiet_rows_wait`: False applies every row when the topic has it."""
        super().__init__(monitor, quiet_rows_wait=False)
        self._waits = quiet_rows_wait
        self._waiting: list[DecodedRow] = []
        self._relayed: list[Observation] = []
        reader = MessageReader({CLUSTER: TopicCluster(topic="t", cluster_id=CLUSTER, baseline=0)})
        self._batch = TopicBatch(
            reader, most_rows=1_000_000, most_bytes=1 << 40, clock=lambda: self._now_ms / _SECOND_MS
        )

    def append(self, observations: list[Observation]) -> None:
        first = self._sequence + 1
        super().append(observations)
        self._relayed += [replace(row, sequence=at) for at, row in enumerate(observations, first)]

    def publish(self) -> int:
        self._waiting, self._appended = [*self._waiting, *self._appended], []
        for row in self._relayed:
            self._batch.add(_in_topic(row))
        self._relayed = []
        if not self._waits or self._batch.due_in_s == 0:
            rows, self._waiting = self._waiting, []
            self.publications += 1
            self.alerts += [(self._now_ms, alert) for alert in self.monitor.apply(rows).alerts]
            times = (self.monitor.poll_at_ms, self.monitor.quiet_until_ms)
            self._batch.begin({CLUSTER: min(at_ms for at_ms in times if at_ms is not None)})
        return self._sequence


def _in_topic(row: Observation) -> TopicMessage:
    message = RelayMessage(
        observation=row,
        cluster_id=CLUSTER,
        baseline=Baseline(sequence=0, at_ms=0),
        relay="relay",
    )
    return TopicMessage(
        topic="t",
        partition=0,
        offset=row.sequence,
        key=message.key,
        value=message.value(),
        headers=message.headers,
        appended_at_ms=row.observed_at_ms,
    )


def times(published: PublishedRows) -> dict[tuple[str, ...], list[Millis]]:
    """Returns when each alert was found, by what it says."""
    found: dict[tuple[str, ...], list[Millis]] = {}
    for at_ms, alert in published.alerts:
        found.setdefault((alert.rule, alert.subject, alert.state, alert.severity), []).append(at_ms)
    return found
