"""Runs the commands of a script on a simulated quorum and a monitor: the whole pure core.

Each command is documented in the method that runs it.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from rules.alert import Alert
from rules.evaluate import evaluate
from rules.facts.quorum import Facts
from rules.finding import NotApplicable, UnknownResult
from rules.model.identifiers import Epoch, Millis, Offset
from rules.model.monitoring import (
    Connection,
    DamagedBatch,
    FailedObservation,
    ObservationSource,
    Reason,
    Vantage,
)
from streaming.replay.cluster_monitor import ClusterMonitor
from streaming.replay.cluster_settings import ClusterSettings
from streaming.replay.decoded_row import DecodedRow
from tests.description.describe import describe
from tests.scripts.log_commands import append
from tests.scripts.script_quorum import SECOND, START, ScriptedQuorum
from tests.scripts.script_words import milliseconds, numbers

_MANY = 5
_LONG_S = 300
"""In a longer time, the gatherer observes every tenth second: a script of hours needs a fifth of the CPU time."""


@dataclass
class ScriptRun:
    """One script's simulated quorum and the monitor that observes it."""

    cluster: ScriptedQuorum = field(default_factory=ScriptedQuorum)
    monitor: ClusterMonitor | None = None
    vantage: Vantage = Vantage.INSIDE
    recorded: list[DecodedRow] = field(default_factory=list)
    alerts: list[Alert] = field(default_factory=list)
    """Every alert that was printed, oldest first."""

    def run(self, line: str) -> Iterator[str]:
        """Runs one command and returns its output."""
        command, *arguments = line.split()
        commands: dict[str, Callable[..., Iterator[str] | None]] = {
            "voters": self.voters,
            "outside": self.outside,
            "static": self.static,
            "deny": self.deny,
            "append": self.append,
            "tick": self.tick,
            "quorum": self.quorum,
            "findings": self.findings,
            "remedy": self.remedy,
            "unknown": self.unknown,
            "kill": lambda *nodes: _each(self.cluster.kill, nodes),
            "start": lambda *nodes: _each(self.cluster.start, nodes),
            "crash-loop": self.crash_loop,
            "fail-to-start": self.fail_to_start,
            "copy": lambda node: self.cluster.copy(int(node)),
            "end-copy": lambda node: self.cluster.end_copy(int(node)),
            "clock": lambda node, ahead: self.cluster.clock_ahead_ms.update({int(node): SECOND * _seconds(ahead)}),
            "move-endpoint": self.move_endpoint,
            "listeners": lambda node, names: self.cluster.listen(int(node), tuple(names.split(","))),
            "make-dynamic": self.cluster.make_dynamic,
            "replace-disk": lambda node, directory: self.cluster.replace_disk(int(node), directory),
            "unrecorded": self.unrecorded,
            "standalone": lambda node, directory: self.cluster.make_standalone(int(node), directory),
            "restore-log": lambda node, offset, duration: self.cluster.restore_log(
                int(node), int(offset), _seconds(duration)
            ),
            "add-observer": lambda node: self.cluster.add_observer(int(node)),
            "refused": lambda node: self.cluster.refuse(int(node)),
            "register": lambda node: self.cluster.register(int(node)),
            "add-controller": lambda node: self.cluster.add(int(node)),
            "remove-controller": lambda node: self.cluster.remove(int(node)),
            "serve-no-new-connection": self.serve_no_new_connection,
            "replace": self.replace,
            "intercept": lambda node: self.cluster.replaced.add(int(node)),
            "end-intercept": lambda node: self.cluster.replaced.discard(int(node)),
            "churn": self.churn,
            "again": self.again,
            "late": lambda lag, *nodes: _each(lambda node: self.cluster.be_late(node, milliseconds(lag)), nodes),
            "hang-event-thread": lambda node: self.cluster.hang_event_thread(int(node)),
            "noops": self.noops,
            "resign": self.cluster.resign,
            "cut-off": lambda node: self.cluster.cut_off(int(node)),
            "stop-fetching": lambda node: self.cluster.stop_fetching(int(node)),
            "reconnect": lambda node: self.cluster.reconnect(int(node)),
            "upgrade": lambda version, *nodes: _each(lambda node: self.cluster.upgrade(node, int(version)), nodes),
            "finalize": lambda version: self.cluster.finalize(int(version)),
            "snapshots": self.snapshots,
            "force-voters": lambda voters: self.cluster.force_voters(numbers(voters)),
            "add-names": self.add_names,
            "drop-names": self.drop_names,
            "resolver": self.resolver,
            "observations": self.observations,
            "gatherer": self.gatherer,
            "compact": self.compact,
            "lose-metadata": self.lose_metadata,
            "format-all-again": self.format_all_again,
            "damage-log": self.damage_log,
            "restart-job": self.restart_job,
            "redeliver": self.redeliver,
        }
        yield from commands[command](*arguments) or ()

    def voters(self, voters: str, brokers_word: str = "brokers", brokers: str = "") -> None:
        """voters 1,2,3 brokers 101,102: starts a healthy quorum."""
        assert brokers_word == "brokers"
        self.cluster.begin(numbers(voters), numbers(brokers))

    def static(self) -> None:
        """static: the quorum is static (kraft.version 0). Before `voters`."""
        self.cluster.static = True

    def deny(self, state: str = "log") -> None:
        """deny log, deny nothing: whether Fetch is denied; DescribeQuorum is always allowed."""
        self.cluster.log_denied = state == "log"

    def outside(self) -> None:
        """outside: the monitor runs outside the cluster's network and name service. Before the first tick."""
        self.vantage = Vantage.OUTSIDE

    def append(self, *record: str) -> None:
        """append unfence 101: a record of the metadata log (`log_commands.RECORDS`), which nothing here caused."""
        append(self.cluster.records, " ".join(record))

    def serve_no_new_connection(self, how: str, *nodes: str) -> None:
        """serve-no-new-connection accepted 1 2: until it starts, a controller does not answer on a new connection.

        serve-no-new-connection timed-out 1: nor does it accept one.
        """
        self.cluster.unserved |= {int(node): Connection(how) for node in nodes}

    def replace(self, node: str) -> None:
        """replace 1: kills a controller; something that is no Kafka node answers at its endpoint, until it starts."""
        self.cluster.kill(int(node))
        self.cluster.replaced.add(int(node))

    def tick(self, duration: str) -> Iterator[str]:
        """tick 30s: time passes; prints the alerts in that time."""
        seconds = _seconds(duration)
        for _ in range(seconds):
            rows = list(self.cluster.advance_one_second(seldom=seconds > _LONG_S))
            self.recorded += rows
            yield from self.printed(self.started_monitor().apply(rows).alerts)

    def unrecorded(self, address: str, leader: str = "") -> None:
        """unrecorded HOST:PORT 9: a configured address that no node records names this leader; HOST:PORT: none answers.

        It is asked every minute.
        """
        if leader:
            self.cluster.unrecorded[address] = int(leader)
        else:
            del self.cluster.unrecorded[address]

    def crash_loop(self, node: str, down: str, up: str, times: str) -> Iterator[str]:
        """crash-loop 3 60s 40s 12: the node is down for 60 s, then up for 40 s, twelve times."""
        for _ in range(int(times)):
            self.cluster.kill(int(node))
            yield from self.tick(down)
            self.cluster.start(int(node))
            yield from self.tick(up)

    def churn(self, partition: str, every: str, times: str) -> Iterator[str]:
        """churn orders-0 5s 120: broker 102 leaves the ISR or joins it, so many times."""
        for at in range(int(times)):
            append(self.cluster.records, f"change {partition} isr {('101', '101,102')[at % 2]}")
            yield from self.tick(every)

    def again(self, every: str, times: str, *record: str) -> Iterator[str]:
        """again 20s 40 producer-ids 101: appends a record so many times."""
        for _ in range(int(times)):
            append(self.cluster.records, " ".join(record))
            yield from self.tick(every)

    def fail_to_start(self, nodes: str, down: str, up: str, times: str) -> Iterator[str]:
        """fail-to-start 3 50s 10s 6: the nodes are down; six times they accept connections for 10 s and do no more."""
        failing = [self.cluster.nodes[int(node)] for node in nodes.split(",")]
        for node in failing:
            self.cluster.kill(node.id)
        for _ in range(int(times)):
            yield from self.tick(down)
            for node in failing:
                node.listens = True
            yield from self.tick(up)
            for node in failing:
                node.listens = False

    def quorum(self) -> Iterator[str]:
        """quorum: prints what is known of the quorum (`describe`)."""
        yield from describe(self.started_monitor().machine.quorum(), start_ms=START).splitlines()

    def findings(self) -> Iterator[str]:
        """findings: prints the conditions that are true now, pending or firing."""
        monitor = self.started_monitor()
        evaluation = evaluate(Facts(monitor.machine.quorum()), monitor.settings.thresholds)
        for one in evaluation.findings:
            yield f"{one.severity} {one.rule} {one.subject}"

    def unknown(self) -> Iterator[str]:
        """unknown: prints each rule with an unknown result or that is not applicable, and why.

        What more than five rules have in common is printed once.
        """
        monitor = self.started_monitor()
        evaluation = evaluate(Facts(monitor.machine.quorum()), monitor.settings.thresholds)
        results: list[UnknownResult | NotApplicable] = [*evaluation.unknown, *evaluation.not_applicable]
        common = Counter(one.why for one in results)
        printed = set[str]()
        for result in results:
            verdict = "unknown" if isinstance(result, UnknownResult) else "not applicable"
            subject = f" {result.subject}" if isinstance(result, UnknownResult) and result.subject else ""
            if common[result.why] <= _MANY:
                yield f"{verdict} {result.rule}{subject}: {result.why}"
            elif result.why not in printed:
                printed.add(result.why)
                yield f"{verdict} many rules: {result.why}"

    def remedy(self, *subject: str) -> Iterator[str]:
        """remedy voter 2: prints the remedy of each finding about this subject."""
        monitor = self.started_monitor()
        for one in evaluate(Facts(monitor.machine.quorum()), monitor.settings.thresholds).findings:
            if str(one.subject) == " ".join(subject):
                yield from one.remedy

    def noops(self, state: str) -> None:
        """noops off, noops on: whether metadata.max.idle.interval.ms is above 0."""
        self.cluster.noops = state == "on"

    def snapshots(self, state: str) -> None:
        """snapshots off, snapshots on: whether the leader takes a snapshot every hour."""
        self.cluster.snapshots = state == "on"

    def move_endpoint(self, node: str, address: str) -> None:
        """move-endpoint 2 HOST:PORT: stops a controller, changes its endpoint and starts it."""
        self.cluster.kill(int(node))
        host, _, port = address.partition(":")
        self.cluster.nodes[int(node)].host, self.cluster.nodes[int(node)].port = host, int(port)
        self.cluster.start(int(node))

    def drop_names(self, *nodes: str) -> None:
        """drop-names, drop-names 2: the DNS names of all or of these controllers do not resolve."""
        self.cluster.names_unresolvable |= not nodes
        self.cluster.lost_hosts.update(map(int, nodes))

    def add_names(self, *nodes: str) -> None:
        """add-names, add-names 2: they resolve again."""
        self.cluster.names_unresolvable &= bool(nodes)
        self.cluster.lost_hosts.difference_update(map(int, nodes))

    def resolver(self, state: str) -> None:
        """resolver fails, resolver answers: that of the monitor's host."""
        self.cluster.resolver_fails = state == "fails"

    def observations(self, reason: str) -> None:
        """observations timed-out, observations succeed: every observation fails for this reason, or succeeds."""
        self.cluster.observations_fail = None if reason == "succeed" else Reason(reason)

    def gatherer(self, state: str) -> Iterator[str]:
        """gatherer down, gatherer up: stops the gatherer, or starts it; it then reports the interruption."""
        self.cluster.gatherer_down = state == "down"
        if state == "up":
            yield from self.record(
                FailedObservation(
                    source=ObservationSource.LOG, endpoint="", reason=Reason.INTERRUPTED, detail="started again"
                )
            )

    def compact(self) -> None:
        """compact: deletes the part of the log that was not read; the next fetch is answered with a snapshot."""
        self.cluster.compacted = True

    def lose_metadata(self, offset: str) -> Iterator[str]:
        """lose-metadata 50: restores the log to offset 50; the log follower reports it if it may read the log."""
        self.cluster.lose_metadata(int(offset))
        if self.cluster.log_denied:
            return
        yield from self._lost(f"committed records from offset {offset} on are lost")

    def _lost(self, detail: str) -> Iterator[str]:
        yield from self.record(
            FailedObservation(
                source=ObservationSource.LOG, endpoint="c1.test:9093", reason=Reason.METADATA_LOST, detail=detail
            )
        )

    def format_all_again(self) -> Iterator[str]:
        """format-all-again: all controllers get the same cluster id again; the log follower reports it."""
        self.cluster.format_all_again()
        yield from self._lost("the leader of epoch 1 has a different log: epoch 1 ends at offset 12")

    def damage_log(self, node: str, first: str, last: str) -> Iterator[str]:
        """damage-log 1 40 42: a controller serves a damaged batch with these offsets."""
        damage = DamagedBatch(
            offset=Offset(int(first)),
            last_offset=Offset(int(last)),
            epoch=Epoch(1),
            high_watermark=Offset(self.cluster.records.offset),
        )
        yield from self.record(
            FailedObservation(
                source=ObservationSource.LOG,
                endpoint=str(self.cluster.nodes[int(node)].endpoint),
                reason=Reason.LOG_DAMAGED,
                detail=f"offsets {first} to {last}: the CRC-32C does not match: the batch is damaged",
                damage=damage,
            )
        )

    def record(self, event: FailedObservation) -> Iterator[str]:
        """Records one event in a row of its own."""
        self.cluster.sequence += 1
        row = DecodedRow(self.cluster.sequence, Millis(self.cluster.now_ms), (event,))
        self.recorded.append(row)
        yield from self.printed(self.started_monitor().apply([row]).alerts)

    def restart_job(self, *bootstrap: str) -> None:
        """restart-job [HOST:PORT...]: kills the job and starts it from its state, optionally with new addresses."""
        blob, old = self.started_monitor().to_bytes(), self.started_monitor()
        self.cluster.configured = bootstrap
        self.monitor = ClusterMonitor.restored(
            blob,
            ClusterSettings(
                name="test", bootstrap=self.cluster.bootstrap, vantage=self.vantage, thresholds=old.settings.thresholds
            ),
        )

    def redeliver(self) -> Iterator[str]:
        """redeliver: delivers all recorded rows again."""
        yield from self.printed(self.started_monitor().apply(self.recorded).alerts)

    def printed(self, alerts: tuple[Alert, ...]) -> Iterator[str]:
        """Returns one line for each alert."""
        self.alerts += alerts
        for alert in alerts:
            at = (alert.observed_at_ms - START) / SECOND
            began = (alert.started_at_ms - START) / SECOND
            yield f"{at:.0f}s {alert.state} {alert.severity} {alert.rule} {alert.subject} (since {began:.0f}s)"

    def started_monitor(self) -> ClusterMonitor:
        """Returns the monitor; the first call starts it."""
        if self.monitor is None:
            self.monitor = ClusterMonitor(
                ClusterSettings(name="test", bootstrap=self.cluster.bootstrap, vantage=self.vantage)
            )
        return self.monitor


def _each(command: Callable[[int], None], nodes: tuple[str, ...]) -> None:
    for node in nodes:
        command(int(node))


def _seconds(text: str) -> int:
    return milliseconds(text) // SECOND
