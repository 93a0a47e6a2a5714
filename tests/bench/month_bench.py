"""A month: DAYS (30) of a simulated cluster with all that people do, and each notification that real sinks send of it.

Of each day, HOURS (1) are observed, or what is planned for it: for the others the gatherer is suspended. The rows pass
through the replay, the rules, the ledger and the dispatcher, without Spark and as fast as they can. On Saturdays and
Sundays nothing happens; on each Thursday there is an outage, at a moment by SEED. An oracle that knows only what was
done, and when, judges what the services received.
"""

import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import psutil

from rules.model.identifiers import DirectoryId, Millis
from rules.model.monitoring import FailedObservation, ObservationSource, Probe, Reason, ServerCertificate
from rules.notifications.route import Silence
from streaming.replay.decoded_row import DecodedRow
from tests.bench.month_oracle import Oracle, Outage, Span
from tests.bench.month_sending import Sending
from tests.record_image import snapshot
from tests.scripts.log_script import supporting
from tests.scripts.script_quorum import START, ScriptedNode, ScriptedQuorum
from tests.scripts.script_run import ScriptRun

VOTERS, BROKERS = [1, 2, 3], [101, 102, 103, 104, 105]
PARTITIONS = 12
MOST_RECORDS = 5_000
"""The script keeps its records for a snapshot: more are compacted."""
LEVELS = range(28, 34)
"""The metadata.versions of the month's upgrades, from 27 on, one a week."""
MINUTE_S, DAY_MS = 60, 86_400_000
SETTLED_S = 900
"""How long each day is observed after what is planned for it."""
LONG_S = 25
"""In a longer time, the gatherer observes every tenth second: that needs a tenth of the CPU time."""
FLAT = 1.2
"""How much more a later week may need than the second one: the first fills what is bounded."""
SETTINGS = {"DAYS": 30, "HOURS": 1, "SEED": 1}
Steps: TypeAlias = Sequence[tuple[int, Callable[[Outage], object]]]
_DIRECTORIES = (DirectoryId("a"), DirectoryId("x"))


@dataclass
class DiskedQuorum(ScriptedQuorum):
    """Two of its brokers register their log directories."""

    disks: dict[int, str] = field(default_factory=lambda: {104: "a", 105: "x"})

    def _register(self, node: ScriptedNode, *, again: bool = False) -> None:
        super()._register(node, again=again)
        if node.id in self.disks:
            self.records.broker(
                node.id,
                fenced=False,
                where=node.endpoints,
                log_dirs=(DirectoryId(self.disks[node.id]),),
                incarnation=node.incarnation,
                features=supporting(node.supports),
            )


class Month:
    """A cluster that is operated, and watched."""

    def __init__(self, days: int, hours: int, seed: int, sending: Sending, oracle: Oracle) -> None:
        self.days, self.hours = days, hours
        self.sending, self.oracle = sending, oracle
        self.cluster = DiskedQuorum()
        self.run, self.happened = ScriptRun(self.cluster), Counter[str]()
        self._random = random.Random(seed)
        self._suspended: list[DecodedRow] | None = None
        self._certified_ms = int(START)
        partitions = {("orders", n): tuple(BROKERS[(n + each) % 3] for each in range(2)) for n in range(PARTITIONS)}
        self._replicas: Mapping[tuple[str, int], tuple[int, ...]] = {**partitions, ("archive", 0): (104, 105)}

    def live(self) -> Mapping[str, Mapping[str, float]]:
        """Lets the days pass; returns what each week needed."""
        cluster, weeks = self.cluster, dict[str, Mapping[str, float]]()
        cluster.begin(VOTERS, BROKERS)
        cluster.topic("orders", {n: of for (topic, n), of in self._replicas.items() if topic == "orders"})
        cluster.records.topic("archive")
        cluster.records.partition("archive", 0, 104, 105, directories=_DIRECTORIES)
        began_s = time.process_time()
        for day in range(self.days):
            holiday_s = time.process_time()
            self.oracle.days.append(self._now_s)
            began_ms = cluster.now_ms
            end_ms = cluster.now_ms + self.hours * 3_600_000
            self._pass(self._random.randrange(300, 1_800))
            self._do(day // 7, day % 7)
            self._pass(max(SETTLED_S, (end_ms - cluster.now_ms) // 1_000))
            self._pass_unobserved(DAY_MS - (cluster.now_ms - began_ms))
            for server in self.sending.servers.values():
                server.requests.clear()
            if day % 7 == 6 or day == self.days - 1:
                alerts, others = self.sending.store_bytes
                weeks[f"week {day // 7 + 1}"] = {
                    "MB of memory": round(psutil.Process().memory_info().rss / 2**20),
                    "KB of alerts in the store": round(alerts / 1_024),
                    "KB of all else in the store": round(others / 1_024),
                    "CPU seconds a day": round((time.process_time() - began_s) / (day % 7 + 1), 1),
                    "CPU seconds of its last day": round(time.process_time() - holiday_s, 1),
                }
                began_s = time.process_time()
            print(f"day {day + 1}: {len(self.oracle.documents)} documents", file=sys.stderr)
        return weeks

    def _do(self, week: int, weekday: int) -> None:
        """Does what is planned; each working day also moves replicas."""
        if weekday > 4:
            self.happened["holidays"] += 1
            return
        for number in range(self.hours):
            self._reassign(number % PARTITIONS)
        match weekday:
            case 0:
                self._roll("rolling restarts", 30, 90)
                self._leader_resigns()
            case 1:
                self._roll("upgrades", 30, 60, level=LEVELS[week % len(LEVELS)])
                self.cluster.finalize(LEVELS[week % len(LEVELS)])
            case 2:
                self._move_controller(week)
                for _ in range(3):
                    self._roll("rolling restarts", 20, 40)
            case 3:
                self._outage(week)
            case _:
                self._suspend(gatherer=week % 2 == 1)
                self._certified_ms = self.cluster.now_ms
                self._roll("rolls with new certificates", 30, 60)

    # --- outages ---

    def _outage(self, week: int) -> None:
        """Lets something fail, and people do what they do meanwhile, so many minutes after the beginning."""
        outage, steps = (self._majority_down, self._disk_replaced, self._names_gone, self._cut_off)[week % 4]()
        outage.began_s = self._now_s
        self.oracle.outages.append(outage)
        self.happened["outages"] += 1
        for minute, action in steps:
            self._pass(round(outage.began_s + minute * MINUTE_S - self._now_s))
            action(outage)

    def _majority_down(self) -> tuple[Outage, Steps]:
        cluster, down = self.cluster, self._random.sample(VOTERS, 2)
        return Outage(what="two of three controllers down", must={"no-leader quorum": (5, 20)}), (
            (0, lambda _: _each(cluster.kill, down)),
            (8, self._acknowledge),
            (10, lambda _: self.sending.back_up()),
            (70, self._restore),
            (75, lambda outage: self._end(outage, lambda: _each(cluster.start, down))),
        )

    def _disk_replaced(self) -> tuple[Outage, Steps]:
        """Of the broker that was in sync last: KIP-858. After 70 minutes it has its former disk again."""
        outage = Outage(
            what="a broker's disk replaced",
            must={"broker-disk-replaced broker 104": (40, 60)},
            may=frozenset({"broker-fenced broker 105", "partitions-offline partitions without an eligible replica"}),
        )
        return outage, (
            (0, lambda _: self._lose_archive()),
            (70, lambda outage: self._end(outage, self._archive_returns)),
        )

    def _names_gone(self) -> tuple[Outage, Steps]:
        must: dict[str, Span] = {f"stale-voter-endpoint voter {node}": (30, 50) for node in VOTERS}
        return Outage(what="all names gone", must=must), (
            (0, lambda _: self.run.cluster.drop_names()),
            (5, self._silence),
            (70, lambda outage: self._end(outage, self.run.cluster.add_names)),
        )

    def _cut_off(self) -> tuple[Outage, Steps]:
        cluster = self.cluster
        node = self._random.choice([each for each in VOTERS if each != cluster.leader])
        must: dict[str, Span] = {f"views-disagree controller {node}": (60, 90), "failure-tolerance quorum": (120, 200)}
        outage = Outage(what="a controller cut off", must=must, may=frozenset({f"voter-lagging voter {node}"}), pages=0)
        return outage, (
            (0, lambda _: cluster.cut_off(node)),
            (50, lambda _: self.sending.back_up()),
            (100, lambda outage: self._end(outage, lambda: cluster.reconnect(node))),
            (110, self._restore),
        )

    def _end(self, outage: Outage, repair: Callable[[], object]) -> None:
        repair()
        outage.ended_s = self._now_s

    def _acknowledge(self, outage: Outage) -> None:
        now_ms = Millis(self.cluster.now_ms)
        self.sending.acknowledgements.add(self.sending.ledger.firing(), by="Ana", now_ms=now_ms)
        outage.quiet = (self._now_s + 60, float("inf"))
        self.happened["acknowledgements"] += 1

    def _silence(self, outage: Outage) -> None:
        now_ms, minutes = self.cluster.now_ms, 40
        silence = Silence(
            id="1", starts_at_ms=Millis(now_ms), ends_at_ms=Millis(now_ms + minutes * 60_000), author="Ana", comment=""
        )
        self.sending.silences.append(silence)
        outage.quiet = (self._now_s, self._now_s + minutes * MINUTE_S - 1)
        self.happened["silences"] += 1

    def _restore(self, outage: Outage) -> None:
        self.sending.restore()
        outage.restored_s = self._now_s
        self.happened["stores restored"] += 1

    def _lose_archive(self) -> None:
        cluster, records = self.cluster, self.cluster.records
        outage = self.oracle.outages[-1]
        self.sending.away, outage.away = True, (self._now_s, self._now_s + 3_600)
        self.happened["hours without Slack and PagerDuty"] += 1
        cluster.kill(105)
        records.change("archive", 0, isr=(104,), leader=104)
        self._pass(20)
        cluster.kill(104)
        records.change("archive", 0, isr=(), elr=(104,), last_known_elr=(104,), leaderless=True)
        self._pass(20)
        cluster.disks[104] = "b"
        records.change("archive", 0, elr=())
        cluster.start(104)
        records.change("archive", 0, directories=(DirectoryId("b"), DirectoryId("x")))
        self._pass(3_600 - 40)
        self.sending.away = False

    def _archive_returns(self) -> None:
        cluster, records = self.cluster, self.cluster.records
        cluster.kill(104)
        self._pass(20)
        cluster.disks[104] = "a"
        cluster.start(104)
        records.change("archive", 0, isr=(104,), last_known_elr=(), leader=104, directories=_DIRECTORIES)
        cluster.start(105)
        self._pass(5)
        records.change("archive", 0, isr=(104, 105))

    # --- what is planned ---

    def _leader_resigns(self) -> None:
        self.cluster.resign()
        self.happened["leaders resign"] += 1
        self._pass(60)

    def _move_controller(self, week: int) -> None:
        """One controller, to another host."""
        cluster, node = self.cluster, VOTERS[week % len(VOTERS)]
        cluster.kill(node)
        self._pass(30)
        cluster.nodes[node].host = f"c{node}-{week}.test"
        cluster.start(node)
        self._pass(60)
        self.happened["moved controllers"] += 1

    def _suspend(self, *, gatherer: bool) -> None:
        """Suspends hosts for ten minutes, in which the leader resigns: nothing is observed, or all comes at once."""
        cluster = self.cluster
        self.happened["hosts suspended"] += 1
        if gatherer:
            cluster.gatherer_down = True
        else:
            self._suspended = []
        cluster.resign()
        self._pass(600)
        rows, self._suspended, cluster.gatherer_down = self._suspended or [], None, False
        self._apply(rows or [self._gap()])
        self._pass(300)

    def _roll(self, what: str, down_s: int, up_s: int, level: int | None = None) -> None:
        """Restarts all brokers, and then all controllers, the leader last; then elects the preferred leaders."""
        self.happened[what] += 1
        cluster = self.cluster
        for broker in BROKERS:
            self._restart_broker(broker, down_s, level)
            self._pass(up_s)
        for controller in sorted(VOTERS, key=lambda node: node == cluster.leader):
            cluster.kill(controller)
            self._pass(down_s)
            self._start(controller, level)
            self._pass(up_s)
        for (topic, number), replicas in self._replicas.items():
            cluster.records.change(topic, number, leader=replicas[0])

    def _restart_broker(self, broker: int, down_s: int, level: int | None) -> None:
        """By a controlled shutdown: the leads go to the other replicas first, and the ISRs shrink."""
        cluster = self.cluster
        held = {partition: replicas for partition, replicas in self._replicas.items() if broker in replicas}
        cluster.records.broker_change(broker, shutdown=True)
        for (topic, number), replicas in held.items():
            other = next(each for each in replicas if each != broker)
            cluster.records.change(topic, number, leader=other, isr=(other,))
        self._pass(3)
        cluster.kill(broker)
        self._pass(down_s)
        self._start(broker, level)
        self._pass(5)
        for (topic, number), replicas in held.items():
            cluster.records.change(topic, number, isr=replicas)

    def _start(self, node: int, level: int | None) -> None:
        if level is not None:
            self.cluster.nodes[node].supports = level
        self.cluster.start(node)

    def _reassign(self, number: int) -> None:
        """A replica is added for five minutes, and removed: what tools do when they move one there and back."""
        records, replicas = self.cluster.records, self._replicas["orders", number]
        (third,) = (broker for broker in BROKERS[:3] if broker not in replicas)
        records.change("orders", number, replicas=(*replicas, third), adding=(third,))
        self._pass(300)
        records.change("orders", number, isr=(*replicas, third), adding=())
        self._pass(10)
        records.change("orders", number, replicas=replicas, isr=replicas)
        self.happened["reassignments"] += 1

    # --- time ---

    def _gap(self) -> DecodedRow:
        """Returns what a gatherer that was suspended writes first."""
        self.cluster.sequence += 1
        gap = FailedObservation(
            source=ObservationSource.LOG, endpoint="", reason=Reason.INTERRUPTED, detail="suspended"
        )
        return DecodedRow(self.cluster.sequence, Millis(self.cluster.now_ms), (gap,))

    def _pass_unobserved(self, ms: int) -> None:
        """Lets a time pass in which nothing happens and the gatherer is suspended."""
        self.cluster.records.now_ms += ms
        self._apply([self._gap()])

    @property
    def _now_s(self) -> float:
        return (self.cluster.now_ms - START) / 1_000

    def _pass(self, seconds: int) -> None:
        cluster = self.cluster
        for _ in range(max(0, seconds)):
            rows = [self._with_certificates(row) for row in cluster.advance_one_second(seldom=seconds > LONG_S)]
            if self._suspended is None:
                self._apply(rows)
            else:
                self._suspended += rows
        if len(cluster.records.written) > MOST_RECORDS:
            cluster.records.written = snapshot(cluster.records.written, end_offset=0, epoch=0, timestamp_ms=0)[1:-1]

    def _apply(self, rows: Sequence[DecodedRow]) -> None:
        monitor, self.sending.now_ms = self.run.started_monitor(), self.cluster.now_ms
        alerts = monitor.apply(rows).alerts
        if alerts or self.sending.now_ms % 10_000 == 0:
            self.sending.deliver(lambda before: monitor.firing(before, alerts))

    def _with_certificates(self, row: DecodedRow) -> DecodedRow:
        """Gives each controller that answers a certificate of 30 days."""
        if not any(isinstance(event, Probe) for event in row.events):
            return row
        begins, ends = Millis(self._certified_ms), Millis(self._certified_ms + 30 * DAY_MS)
        certificate = ServerCertificate(valid_from_ms=begins, expires_at_ms=ends, verified=True)
        events = (
            replace(each, certificate=certificate) if isinstance(each, Probe) and each.addresses else each
            for each in row.events
        )
        return row._replace(events=[*events])


def _each(command: Callable[[int], None], nodes: Sequence[int]) -> None:
    for node in nodes:
        command(node)


def figures() -> dict[str, Any]:
    """Returns what happened, what was sent, what each week needed, and what is wrong with it."""
    began_s, oracle = time.monotonic(), Oracle()
    days, hours, seed = (int(os.environ.get(name) or default) for name, default in SETTINGS.items())
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        month = Month(days, hours, seed, Sending(folder, oracle, stack), oracle)
        weeks = month.live()
    sent = Counter(alert["rule"] for _, one in oracle.documents for alert in one["new_transitions"])
    return {
        "days": days,
        "seconds": round(time.monotonic() - began_s),
        "happened": dict(month.happened),
        "transitions sent": dict(sent),
        "pages": sum(effect == "opened" for _, effect, _ in oracle.effects["PagerDuty"]),
        "messages in Slack": sum(effect == "message" for _, effect, _ in oracle.effects["Slack"]),
        **weeks,
        "problems": [*oracle.problems(), *_growth([*weeks.values()])],
    }


def _growth(weeks: Sequence[Mapping[str, float]]) -> Iterator[str]:
    """Yields what a whole week needed more of than the second one."""
    for number, week in enumerate(weeks[2:4], start=3):
        for what, needed in week.items():
            # Outages differ, need more or less, and their alerts are kept: the holidays are alike.
            if what not in ("CPU seconds a day", "KB of alerts in the store") and needed > FLAT * weeks[1][what]:
                yield f"week {number}: {needed} {what}, {weeks[1][what]} in week 2"
