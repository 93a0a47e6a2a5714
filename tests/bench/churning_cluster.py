"""A cluster in which something happens all the time, as the rows of a gatherer that observes it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any, NamedTuple

from connectors.observations.log_event import LogAdvanced, LogEvent, SnapshotBegan
from connectors.observations.observation import EVENT_OF_KIND, Event, Observation, ObservationKind, to_json
from connectors.observations.partition_run import each_event
from rules.model.monitoring import Reason
from rules.model.replica import Poll
from tests.bench.log_bytes import batches, position, uuid_text
from tests.record_image import snapshot
from tests.scripts.script_quorum import SECOND, ScriptedQuorum

VOTERS, BROKERS = (1, 2, 3), (101, 102, 103)
MOST_TOPICS = 60
EVERY_S: Mapping[str, float] = {
    "create_topic": 120,
    "change_partition": 10,
    "elect": 1_800,
    "restart_broker": 1_200,
    "flap_broker": 7_200,
    "voter_down": 2_700,
    "majority_down": 10_800,
    "replace_disk": 5_400,
    "remove_and_add_voter": 3_600,
    "unreachable": 7_200,
    "unclean_election": 7_200,
    "read_snapshot": 7_200,
}
"""What happens, and how often on average."""
QUIET = ("create_topic", "change_partition", "unclean_election", "read_snapshot")
"""What may happen while a node is stopped."""
_DIRECTORY = re.compile(rb'"directory_id":"([^"]*)"')
_MOST_RECORDS = 5_000
"""The script keeps its records for a snapshot: more are compacted."""


class Action(NamedTuple):
    """A method of the cluster or, without an underscore, of its quorum to call at a time; it can be pickled."""

    at_ms: int
    method: str
    args: tuple[Any, ...]


class ChurningCluster:
    """One cluster. The same seed gives the same rows."""

    def __init__(self, name: str, seed: int, now_ms: int) -> None:
        """Begins with some topics.

        Args:
            name: of the cluster in the configuration.
            seed: of all random choices.
            now_ms: its first row is a second later.
        """
        self.name = name
        self._random = Random(seed)
        self._quorum = ScriptedQuorum(domain=f"{name}.test", start_ms=now_ms)
        self._quorum.begin([*VOTERS], [*BROKERS])
        self._topics: list[str] = []
        self._number = 0
        self._next_offset, self._epoch, self._pieces = 0, 0, 0
        self._later: list[Action] = []
        self._busy_until_ms = 0
        self.counts: dict[str, int] = dict.fromkeys(EVERY_S, 0)
        for _ in range(MOST_TOPICS // 2):
            self._create_topic()

    @property
    def now_ms(self) -> int:
        """The time of the newest row."""
        return self._quorum.now_ms

    @property
    def bootstrap(self) -> tuple[str, ...]:
        """HOST:PORT of each controller."""
        return self._quorum.bootstrap

    def section(self, number: int) -> dict[str, Any]:
        """Returns its section of the job's configuration, in which it has this number."""
        # No controller answers there, and no two clusters may share an address.
        hosts = {address.partition(":")[0]: f"127.0.0.{number}" for address in self.bootstrap}
        return {
            "name": self.name,
            "bootstrap": [*self.bootstrap],
            "cluster_id": f"{self.name}-id",
            "resolve": hosts,
        }

    def advance(self) -> Iterator[Observation]:
        """Advances the time by one second and yields the rows of the gatherer in it."""
        due = [each for each in self._later if each.at_ms <= self.now_ms]
        self._later = [each for each in self._later if each.at_ms > self.now_ms]
        for action in due:
            getattr(self if action.method.startswith("_") else self._quorum, action.method)(*action.args)
        for what, every_s in EVERY_S.items():
            if self._random.random() < 1 / every_s:
                self._do(what)
        for row in self._quorum.advance_one_second():
            yield self._row([*each_event(row.events)], row.observed_at_ms)
        records = self._quorum.records
        if len(records.written) > _MOST_RECORDS:
            records.written = snapshot(records.written, end_offset=0, epoch=0, timestamp_ms=0)[1:-1]

    def resume(self, now_ms: int, *, log_again: bool) -> None:
        """The gatherer starts again: it has observed nothing meanwhile, and may read the log again as a snapshot."""
        self._quorum.records.now_ms = max(self.now_ms, now_ms)
        self._quorum.compacted = log_again

    def _do(self, what: str) -> None:
        if self._quorum.leader is None or (what not in QUIET and self.now_ms < self._busy_until_ms):
            return
        if what not in QUIET:
            # What is stopped runs again before something else is stopped.
            self._busy_until_ms = self._in_ms(420)
        self.counts[what] += 1
        getattr(self, f"_{what}")()

    def _in_ms(self, seconds: float) -> int:
        return self.now_ms + round(seconds * SECOND)

    def _after(self, seconds: int, method: str, *args: Any) -> None:
        self._later.append(Action(self._in_ms(seconds), method, args))

    def _create_topic(self) -> None:
        self._number += 1
        topic = f"{self.name}-topic-{self._number}"
        self._topics.append(topic)
        partitions = range(self._random.randint(1, 12))
        self._quorum.topic(topic, {number: self._replicas() for number in partitions})
        if len(self._topics) > MOST_TOPICS:
            self._delete_topic(self._random.choice(self._topics))

    def _delete_topic(self, topic: str) -> None:
        self._topics.remove(topic)
        quorum = self._quorum
        quorum.isr = {place: isr for place, isr in quorum.isr.items() if place[0] != topic}
        quorum.records.remove_topic(topic)

    def _replicas(self) -> tuple[int, ...]:
        return tuple(self._random.sample(BROKERS, k=2))

    def _change_partition(self) -> None:
        topic, number = self._random.choice([*self._quorum.isr])
        replicas = self._quorum.isr[topic, number]
        self._quorum.change(topic, number, replicas[: self._random.randint(1, 2)], recovering=None)

    def _unclean_election(self) -> None:
        topic, number = self._random.choice([*self._quorum.isr])
        leader = self._quorum.isr[topic, number][1:]
        self._quorum.change(topic, number, leader, recovering=True)
        self._after(self._random.randint(5, 200), "_recover", topic, number, leader)

    def _recover(self, topic: str, number: int, leader: tuple[int, ...]) -> None:
        if (topic, number) in self._quorum.isr:
            self._quorum.change(topic, number, leader, recovering=False)

    def _elect(self) -> None:
        self._quorum.resign()

    def _stop_for(self, seconds: int, *nodes: int) -> None:
        for node in nodes:
            self._quorum.kill(node)
            self._after(seconds, "start", node)

    def _restart_broker(self) -> None:
        self._stop_for(self._random.randint(20, 120), self._random.choice(BROKERS))

    def _flap_broker(self) -> None:
        broker = self._random.choice(BROKERS)
        for number in range(5):
            self._after(40 * number, "_stop_for", 15, broker)

    def _voter_down(self) -> None:
        self._stop_for(self._random.randint(90, 360), self._random.choice(VOTERS))

    def _majority_down(self) -> None:
        self._stop_for(self._random.randint(20, 120), *self._random.sample(VOTERS, k=2))

    def _replace_disk(self) -> None:
        self._number += 1
        node = self._random.choice([node for node in VOTERS if node != self._quorum.leader])
        self._quorum.replace_disk(node, f"dir{node}-{self._number}")
        self._after(200, "add", node)

    def _remove_and_add_voter(self) -> None:
        node = self._random.choice([node for node in VOTERS if node != self._quorum.leader])
        self._quorum.remove(node)
        self._after(400, "add", node)

    def _unreachable(self) -> None:
        self._quorum.observations_fail = self._random.choice([Reason.TIMED_OUT, Reason.REFUSED])
        self._after(self._random.randint(20, 240), "_reachable")

    def _reachable(self) -> None:
        self._quorum.observations_fail = None

    def _read_snapshot(self) -> None:
        self._quorum.compacted = True

    def _row(self, events: Sequence[Event], at_ms: int) -> Observation:
        *records, last = events
        if isinstance(last, LogAdvanced):
            return self._records([*records], last, at_ms)  # type: ignore[list-item]  # of the log
        if getattr(getattr(last, "at", None), "snapshot", False):
            return self._piece([*events], at_ms)  # type: ignore[list-item]  # of a snapshot
        last = replace(last, cluster_id=f"{self.name}-id") if isinstance(last, Poll) else last
        (kind,) = (kind for kind, type_ in EVENT_OF_KIND.items() if isinstance(last, type_))
        payload = _DIRECTORY.sub(_with_uuid, to_json(last))
        return Observation(cluster=self.name, kind=kind, observed_at_ms=at_ms, payload=payload)

    def _records(self, records: list[LogEvent], last: LogAdvanced, at_ms: int) -> Observation:
        assert last.last_offset is not None
        first, self._next_offset = self._next_offset, last.last_offset + 1
        assert last.newest_timestamp_ms is not None
        within = {"first": first, "last": last.last_offset, "now_ms": last.newest_timestamp_ms}
        payload = batches(records, epoch=self._epoch, **within)
        self._epoch = max([self._epoch, *(int(position(record).leader_epoch) for record in records)])
        return Observation(
            cluster=self.name,
            kind=ObservationKind.RECORDS,
            observed_at_ms=at_ms,
            base_offset=first,
            last_offset=last.last_offset,
            leader_epoch=last.leader_epoch,
            high_watermark=last.high_watermark,
            payload=payload,
        )

    def _piece(self, records: list[LogEvent], at_ms: int) -> Observation:
        if isinstance(records[0], SnapshotBegan):
            self._pieces, self._next_offset, self._epoch = 0, int(records[0].end_offset), int(records[0].epoch)
        first, last = position(records[0]), position(records[-1])
        within = {"first": first.offset, "last": last.offset, "now_ms": first.timestamp_ms}
        number, self._pieces = self._pieces, self._pieces + 1
        return Observation(
            cluster=self.name,
            kind=ObservationKind.SNAPSHOT,
            observed_at_ms=at_ms,
            base_offset=self._next_offset,
            last_offset=number,
            leader_epoch=self._epoch,
            payload=batches(records, epoch=self._epoch, **within),
        )


def _with_uuid(found: re.Match[bytes]) -> bytes:
    return b'"directory_id":"' + uuid_text(found[1].decode()).encode() + b'"'
