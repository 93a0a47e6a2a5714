"""A normal week: DAYS (7) of planned operations in a simulated cluster, and each alert that fires meanwhile.

The hours in which nothing is planned are left out: six of each day stay. The rows pass through the replay and the
rules, without Spark and as fast as they can. Each alert is a problem, but one: `restarts-without-end` may say once that
twenty rounds of restarts follow each other.
"""

import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.record_image import snapshot
from tests.scripts.script_run import ScriptRun

VOTERS, BROKERS = [1, 2, 3], [101, 102, 103]
PARTITIONS = 12
HOURS = 6
ROUNDS = 20
LEVELS = range(27, 34)
"""The metadata.versions of a week's upgrades, one a day."""
MOST_RECORDS = 5_000
"""The script keeps its records for a snapshot: more are compacted."""
EXPECTED = Counter({"restarts-without-end": 1})


@dataclass
class NormalWeek:
    """A cluster that is operated, and watched by a monitor."""

    days: int
    run: ScriptRun = field(default_factory=ScriptRun)
    happened: Counter[str] = field(default_factory=Counter)

    def live(self) -> None:
        """Lets the days pass."""
        self.run.cluster.begin(VOTERS, BROKERS)
        partitions = {number: self._replicas(number) for number in range(PARTITIONS)}
        self.run.cluster.topic("orders", partitions)
        for day in range(self.days):
            hours = self._day(day)
            for hour in range(HOURS):
                end_ms = self.run.cluster.now_ms + 3_600_000
                next(hours)
                self._reassign(hour % PARTITIONS)
                self._pass((end_ms - self.run.cluster.now_ms) // 1_000)
            print(f"day {day + 1}: {len(self.run.alerts)} notifications", file=sys.stderr)

    def _day(self, day: int) -> Iterator[None]:
        """Does what is planned, hour by hour."""
        yield None
        self._roll("a rolling restart", 30, 90)
        yield None
        self._upgrade(LEVELS[day % len(LEVELS)])
        yield None
        self.run.cluster.resign()
        self.happened["the leader resigns"] += 1
        yield None
        for _ in range(3):
            self._roll("three rolling restarts in a row", 20, 40)
        yield None
        if day == self.days - 1:
            for _ in range(ROUNDS):
                self._roll("twenty restarts of everything in a row", 15, 15)
        yield None

    def _replicas(self, number: int) -> tuple[int, ...]:
        return tuple(BROKERS[(number + each) % 3] for each in range(2))

    def _pass(self, seconds: int) -> None:
        for _ in self.run.tick(f"{max(0, seconds)}s"):
            pass
        self.run.recorded.clear()
        records = self.run.cluster.records
        if len(records.written) > MOST_RECORDS:
            records.written = snapshot(records.written, end_offset=0, epoch=0, timestamp_ms=0)[1:-1]

    def _roll(self, what: str, down_s: int, up_s: int, level: int | None = None) -> None:
        """Restarts all brokers, and then all controllers, the leader last; then elects the preferred leaders."""
        self.happened[what] += 1
        cluster = self.run.cluster
        for broker in BROKERS:
            self._restart_broker(broker, down_s, level)
            self._pass(up_s)
        for controller in sorted(VOTERS, key=lambda node: node == cluster.leader):
            cluster.kill(controller)
            self._pass(down_s)
            self._start(controller, level)
            self._pass(up_s)
        for number in range(PARTITIONS):
            cluster.records.change("orders", number, leader=self._replicas(number)[0])
        self.happened["preferred elections"] += PARTITIONS

    def _restart_broker(self, broker: int, down_s: int, level: int | None) -> None:
        """By a controlled shutdown: the leads go to the other replicas first, and the ISRs shrink."""
        cluster = self.run.cluster
        held = [number for number in range(PARTITIONS) if broker in self._replicas(number)]
        cluster.records.broker_change(broker, shutdown=True)
        for number in held:
            other = next(each for each in self._replicas(number) if each != broker)
            cluster.records.change("orders", number, leader=other, isr=(other,))
        self._pass(3)
        cluster.kill(broker)
        self._pass(down_s)
        self._start(broker, level)
        self._pass(5)
        for number in held:
            cluster.records.change("orders", number, isr=self._replicas(number))

    def _start(self, node: int, level: int | None) -> None:
        if level is not None:
            self.run.cluster.nodes[node].supports = level
        self.run.cluster.start(node)

    def _upgrade(self, level: int) -> None:
        """A roll with the new version, and then its metadata.version."""
        self._roll("an upgrade", 30, 60, level)
        self.run.cluster.finalize(level)

    def _reassign(self, number: int) -> None:
        """A replica is added for five minutes, and removed: what tools do when they move one there and back."""
        records, replicas = self.run.cluster.records, self._replicas(number)
        (third,) = (broker for broker in BROKERS if broker not in replicas)
        records.change("orders", number, replicas=(*replicas, third), adding=(third,))
        self._pass(300)
        records.change("orders", number, isr=(*replicas, third), adding=())
        self._pass(10)
        records.change("orders", number, replicas=replicas, isr=replicas)
        self.happened["reassignments"] += 1


def figures() -> dict[str, Any]:
    """Returns what happened, each alert that fired by severity and rule, and what should not have."""
    began, week = time.monotonic(), NormalWeek(days=int(os.environ.get("DAYS") or 7))
    week.live()
    fired = [alert for alert in week.run.alerts if alert.state == "firing"]
    rules = Counter(alert.rule for alert in fired)
    severities = Counter(str(alert.severity) for alert in fired)
    return {
        "days": week.days,
        "seconds": round(time.monotonic() - began),
        "happened": dict(week.happened),
        "pages": severities["critical"],
        "warnings": severities["warning"],
        "fired": dict(rules),
        "problems": [f"{rule} fired {count} times" for rule, count in (rules - EXPECTED).items()],
    }
