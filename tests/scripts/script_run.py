"""Runs the commands of a script on a simulated quorum and a monitor: the whole pure core."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from rules.alert import Alert
from rules.evaluate import evaluate
from rules.facts.quorum import Facts
from rules.finding import NotApplicable, UnknownResult
from rules.model.identifiers import Epoch, Offset
from rules.model.monitoring import (
    DamagedBatch,
    FailedObservation,
    ObservationSource,
    Reason,
    Vantage,
)
from streaming.replay.cluster_monitor import ClusterMonitor
from streaming.replay.cluster_settings import ClusterSettings
from streaming.replay.decoded_row import DecodedRow
from tests.commands import Commands, Milliseconds, Words, milliseconds
from tests.description.describe import describe
from tests.scripts.log_commands import append
from tests.scripts.script_quorum import SECOND, START, ScriptedQuorum, quorum_command

command: Commands["ScriptRun"] = Commands("a script: time, and what a monitor observes of the simulated quorum")
_MANY = 5
_LONG_MS = 300 * SECOND
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
        of_quorum = line.split()[0] in quorum_command.help
        yield from (quorum_command.run(self.cluster, line) if of_quorum else command.run(self, line)) or ()

    @command("outside")
    def look_from_outside(self) -> None:
        """outside: the monitor runs outside the cluster's network and name service. Before `then`."""
        self.vantage = Vantage.OUTSIDE

    @command("append")
    def append(self, *record: str) -> None:
        """append unfence 101: a record of the metadata log (`log_commands`), which nothing here caused."""
        append(self.cluster.records, " ".join(record))

    @command("then")
    def then(self, lasts_ms: Milliseconds) -> Iterator[str]:
        """then 30s: time passes; prints the alerts in that time."""
        yield from self._pass(lasts_ms, seldom=lasts_ms > _LONG_MS)

    def _pass(self, lasts_ms: int, *, seldom: bool) -> Iterator[str]:
        for _ in range(lasts_ms // SECOND):
            rows = list(self.cluster.advance_one_second(seldom=seldom))
            self.recorded += rows
            yield from self.printed(self.started_monitor().apply(rows).alerts)

    @command("crash-loop")
    def crash_loop(self, node: int, down: Milliseconds, up: Milliseconds, times: int) -> Iterator[str]:
        """crash-loop 3 60s 40s 12: the node is down for 60 s, then up for 40 s, twelve times."""
        seldom = (down + up) * times > _LONG_MS
        for _ in range(times):
            self.cluster.kill(node)
            yield from self._pass(down, seldom=seldom)
            self.cluster.start(node)
            yield from self._pass(up, seldom=seldom)

    @command("churn")
    def churn(self, words: Words) -> Iterator[str]:
        """churn orders 0 every 5s for 10m: broker 102 leaves the ISR or joins it so often."""
        every, lasts = (milliseconds(words.option(name) or "5s") for name in ("every", "for"))
        partition = f"{words.word()}-{words.word()}"
        for at in range(lasts // every):
            append(self.cluster.records, f"change {partition} isr {('101', '101,102')[at % 2]}")
            yield from self.then(Milliseconds(every))

    @command("again")
    def again(self, every: Milliseconds, times: int, *record: str) -> Iterator[str]:
        """again 20s 40 producer-ids 101: appends a record so many times."""
        for _ in range(times):
            append(self.cluster.records, " ".join(record))
            yield from self.then(every)

    @command("fail-to-start")
    def fail_to_start(self, nodes: str, down: Milliseconds, up: Milliseconds, times: int) -> Iterator[str]:
        """fail-to-start 3 50s 10s 6: the nodes are down; six times they accept connections for 10 s and do no more."""
        failing = [self.cluster.nodes[int(node)] for node in nodes.split(",")]
        seldom = (down + up) * times > _LONG_MS
        for node in failing:
            self.cluster.kill(node.id)
        for _ in range(times):
            yield from self._pass(down, seldom=seldom)
            for node in failing:
                node.listens = True
            yield from self._pass(up, seldom=seldom)
            for node in failing:
                node.listens = False

    @command("quorum")
    def quorum(self) -> Iterator[str]:
        """quorum: prints what is known of the quorum (`describe`)."""
        yield from describe(self.started_monitor().machine.quorum(), start_ms=START).splitlines()

    @command("findings")
    def findings(self) -> Iterator[str]:
        """findings: prints the conditions that are true now, pending or firing."""
        monitor = self.started_monitor()
        evaluation = evaluate(Facts(monitor.machine.quorum()), monitor.settings.thresholds)
        for one in evaluation.findings:
            yield f"{one.severity} {one.rule} {one.subject}"

    @command("unknown")
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

    @command("remedy")
    def remedy(self, *subject: str) -> Iterator[str]:
        """remedy voter 2: prints the remedy of each finding about this subject."""
        monitor = self.started_monitor()
        for one in evaluate(Facts(monitor.machine.quorum()), monitor.settings.thresholds).findings:
            if str(one.subject) == " ".join(subject):
                yield from one.remedy

    @command("gatherer")
    def gatherer(self, state: str) -> Iterator[str]:
        """gatherer down, gatherer up: stops the gatherer, or starts it; it then reports the interruption."""
        self.cluster.gatherer_down = state == "down"
        if state == "up":
            yield from self.record(
                FailedObservation(
                    source=ObservationSource.LOG, endpoint="", reason=Reason.INTERRUPTED, detail="started again"
                )
            )

    @command("lose-metadata")
    def lose_metadata(self, offset: int) -> Iterator[str]:
        """lose-metadata 50: restores the log to offset 50; the log follower reports it if it may read the log."""
        self.cluster.lose_metadata(offset)
        if self.cluster.log_denied:
            return
        yield from self._lost(f"committed records from offset {offset} on are lost")

    def _lost(self, detail: str) -> Iterator[str]:
        yield from self.record(
            FailedObservation(
                source=ObservationSource.LOG, endpoint="c1.test:9093", reason=Reason.METADATA_LOST, detail=detail
            )
        )

    @command("format-all-again")
    def format_all_again(self) -> Iterator[str]:
        """format-all-again: all controllers get the same cluster id again; the log follower reports it."""
        self.cluster.format_all_again()
        yield from self._lost("the leader of epoch 1 has a different log: epoch 1 ends at offset 12")

    @command("damage-log")
    def damage_log(self, node: int, words: Words) -> Iterator[str]:
        """damage-log 1 offsets 40-42: a controller serves a damaged batch with these offsets."""
        first, _, last = (words.option("offsets") or "40-42").partition("-")
        damage = DamagedBatch(
            offset=Offset(int(first)),
            last_offset=Offset(int(last)),
            epoch=Epoch(1),
            high_watermark=Offset(self.cluster.records.offset),
        )
        yield from self.record(
            FailedObservation(
                source=ObservationSource.LOG,
                endpoint=str(self.cluster.nodes[node].endpoint),
                reason=Reason.LOG_DAMAGED,
                detail=f"offsets {first} to {last}: the CRC-32C does not match: the batch is damaged",
                damage=damage,
            )
        )

    def record(self, event: FailedObservation) -> Iterator[str]:
        """Records one event in a row of its own."""
        row = self.cluster.row([event])
        self.recorded.append(row)
        yield from self.printed(self.started_monitor().apply([row]).alerts)

    @command("restart-job")
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

    @command("redeliver")
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
