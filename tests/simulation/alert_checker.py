"""A Judge: holds what the monitor says against the truth, after every observation.

Safety: what the monitor shows as committed is committed, and it shows nothing else. Restart and re-delivery change
nothing (K048). In time: an alert for what stands longer than its hold, none for a quorum that is calm.
"""

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from random import Random

from rules.alert import Alert, AlertState
from rules.evaluate import evaluate, thresholds_for
from rules.finding import Severity
from rules.model.monitoring import Vantage
from streaming.replay.cluster_monitor import Row, Watch
from streaming.replay.topic_codec import Assignment
from tests.simulation.conditions import JUDGED, Condition
from tests.simulation.ground_truth import Broken, Truth
from tests.simulation.metadata_log import Entry
from tests.simulation.oracle import Oracle, Partition
from tests.simulation.redelivery import Redelivery

SLACK_MS = 15_000
"""Beyond a rule's hold: what a rule takes for stale (10 s), leaders' clocks that differ, an observation a second."""
EARLY_MS = 12_000
"""How much earlier than its hold an alert may come: clocks differ, and a rule may go by the log's."""
STALE_MS = 45_000
"""How old the newest observation may be that a rule still goes by: a probe's 30 s, one that comes late, a clock set."""
BREACHES = ("raft-invariant-broken", "recovery-invariant-broken")
BY_VOTERS = {"observer-could-be-voter", "stale-voter-endpoint", "voter-disk-replaced"}
"""Rules that need a VotersRecord: to a static quorum they do not apply."""
CALM = (
    "monitor-blind", "no-leader", "observer-could-be-voter", "partition-stuck-recovering", "stale-voter-endpoint",
    "voter-disk-replaced", "open-transaction", "broker-fenced", *BREACHES,
)  # fmt: skip
"""Rules that judge what is so now: once it is mended and their clear has passed, they are silent."""


@dataclass(slots=True)
class Judge:
    """`strict` False: looks on and keeps the alerts, whatever they are."""

    truth: Truth
    bootstrap: tuple[str, ...]
    strict: bool = True
    redelivered: bool = False
    """Whether a second monitor gets it all in batches and again: it costs as much as the first."""
    oracle: Oracle = field(default_factory=Oracle)
    alerts: list[Alert] = field(default_factory=list)
    rows: int = 0
    restarts: int = 0
    standing: dict[Condition, int] = field(default_factory=dict)
    """What is wrong in truth, and since when."""
    ground: dict[Condition, tuple[int, int]] = field(default_factory=dict)
    """What may be told: since when there was ground for it, and when there last was."""
    now_ms: int = 0
    sighted_since_ms: int | None = None
    tally: Counter[str] = field(default_factory=Counter)
    watch: Watch = field(init=False)

    redelivery: Redelivery = field(init=False)

    def __post_init__(self) -> None:
        self.watch = self._watch(None)
        self.redelivery = Redelivery(Random(0), self._watch)

    def observe(self, row: Row) -> None:
        self.rows += 1
        told = self.watch.observe((row,))
        self.alerts += told
        if not self.strict:
            return
        for alert in told:
            self._told(alert)
        self._law(self.watch.observe((row,)) == (), "K048: an observation that came twice was told twice")
        if self.redelivered:
            wrong = self.redelivery.take(row, told)
            if not self.redelivery.batch and wrong is None:
                same = self.redelivery.watch.machine.quorum() == self.watch.machine.quorum()
                wrong = None if same else "the quorum is another after these observations in batches"
            self._law(wrong is None, f"K048: {wrong}")
        self._compare()
        if self.rows % 97 == 0:
            self._restart(row)

    def _told(self, alert: Alert) -> None:
        self.tally[f"{alert.rule} {alert.state}"] += 1
        self._law(alert.rule not in BREACHES, f"the monitor cries {alert.rule} over a quorum that kept every law")
        if alert.rule not in JUDGED or alert.state is AlertState.RESOLVED:
            return
        since_ms, last_ms = self.ground.get(Condition(alert.rule, alert.subject), (self.now_ms, -STALE_MS))
        stood_ms = self.now_ms - since_ms
        fresh = self.now_ms - last_ms <= STALE_MS
        self._law(fresh, f"{alert.rule} of {alert.subject} fires, and there is no ground for it")
        early = stood_ms < self.watch.thresholds[alert.rule].ms("hold") - EARLY_MS
        self._law(not early, f"{alert.rule} of {alert.subject} fires when it has stood for {stood_ms} ms")

    def _restart(self, row: Row) -> None:
        """A checkpoint's watch is the same watch: it knows the same and tells nothing again."""
        self.restarts += 1
        again = self._watch(self.watch.to_bytes())
        same = again.machine.quorum() == self.watch.machine.quorum()
        self._law(same, "K048: the quorum after a checkpoint's restart is another")
        self._law(again.book == self.watch.book, "K048: the alerts' life after a checkpoint's restart is another")
        self._law(again.observe((row,)) == (), "K048: an observation from before a restart was told again")
        self.watch = again
        evaluation = evaluate(again.machine.quorum(), again.thresholds)
        silent = {one.rule for one in evaluation.not_applicable}
        static = self.oracle.kraft_version == 0 and self.oracle.end > 0
        self._law(not static or silent >= BY_VOTERS, f"kraft.version is 0, and not applicable are only {silent}")
        self._law(static or not silent & BY_VOTERS, f"kraft.version is 1, and not applicable are {silent}")

    def _compare(self) -> None:
        quorum, truth = self.watch.machine.quorum(), self.truth
        committed = len(truth.committed)
        mark, last = quorum.high_watermark or 0, -1 if quorum.last_offset is None else quorum.last_offset
        self._law(mark <= committed, f"the monitor's high watermark {mark} is ahead of the truth's {committed}")
        self._law(last < committed, f"the monitor shows offset {last}, {committed} are committed")
        self._law(last + 1 >= self.oracle.end, f"the monitor's log goes back from {self.oracle.end} to {last + 1}")
        if quorum.leader_id is not None and quorum.leader_epoch is not None:
            leads = truth.leaders.get(quorum.leader_epoch)
            told = f"the monitor says that {quorum.leader_id} leads epoch {quorum.leader_epoch}; {leads} does"
            self._law(leads == quorum.leader_id, told)
        self._law(quorum.violations == (), f"the monitor sees {quorum.violations} where every law was kept")
        while self.oracle.end <= last:
            entry: Entry = truth.committed[self.oracle.end]
            self.oracle.apply(entry.event)
        self._images()

    def _images(self) -> None:
        machine, oracle = self.watch.machine, self.oracle
        quorum = machine.quorum()
        keys = None if quorum.committed is None else quorum.committed.keys
        self._law(keys == oracle.voters, f"the monitor's committed voters are {keys}, they are {oracle.voters}")
        self._law((quorum.kraft_version or 0) == oracle.kraft_version, f"kraft.version {quorum.kraft_version} is shown")
        controllers = {one.id: (one.incarnation_id, one.endpoints[0]) for one in quorum.controllers.values()}
        self._law(controllers == oracle.controllers, f"controllers are {oracle.controllers}, shown {controllers}")
        brokers = {
            one.id: (one.incarnation_id, one.fenced, one.in_controlled_shutdown) for one in quorum.brokers.values()
        }
        self._law(brokers == oracle.brokers, f"brokers are {oracle.brokers}, shown {brokers}")
        self._recoveries()
        if machine.shown is machine.log.image:
            opened = None if quorum.open_transaction is None else quorum.open_transaction.since_offset
            begun = None if oracle.transaction is None else oracle.transaction.offset
            self._law(opened == begun, f"the transaction at offset {begun} is open, shown is {opened}")
            if self.rows % 20 == 0:
                self._topics()

    def _recoveries(self) -> None:
        recovering = {(one.topic_id, one.partition): one for one in self.watch.machine.quorum().recovering}
        known: dict[tuple[str, int], Partition] = self.oracle.recovering
        self._law(recovering.keys() == known.keys(), f"RECOVERING are {known}, shown {recovering}")
        for where, one in recovering.items():
            truth = known[where]
            epochs = (truth.leader_epoch, truth.partition_epoch)
            shown = (one.topic, one.replicas, one.isr, one.leader, one.leader_epoch, one.partition_epoch)
            true = (self.oracle.topics[where[0]], truth.replicas, truth.isr, truth.leader, *epochs)
            self._law(shown == true, f"{where} recovers as {true}, shown {shown}")
            if not one.at_least:
                self._law(one.since_offset == truth.since, f"{where} recovers since {truth.since}, shown {one}")
                self._law({*(one.previous_isr or ())} == truth.before, f"{where}: {truth.before} before, shown {one}")

    def _topics(self) -> None:
        """Every partition, not those alone that a rule speaks of."""
        shown: dict[tuple[str, int], object] = {
            (topic_id, number): (topic.name, one.replicas, one.isr, *_eligible(one))
            for topic_id, topic in self.watch.machine.log.partitions.topics.items()
            for number, one in topic.partitions.items()
        }
        known: dict[tuple[str, int], object] = {
            where: (self.oracle.topics[where[0]], one.replicas, one.isr, *_eligible(one))
            for where, one in self.oracle.partitions.items()
        }
        self._law(shown == known, f"partitions are {known}, shown {shown}")

    def may(self, now_ms: int, conditions: Iterable[Condition], *, sighted: bool) -> None:
        """Told once a second, before its observations, what there is ground to tell of."""
        self.now_ms = now_ms
        for each in conditions:
            since_ms, last_ms = self.ground.get(each, (now_ms, now_ms))
            self.ground[each] = (since_ms if now_ms - last_ms <= STALE_MS else now_ms, now_ms)
        if not sighted:
            self.sighted_since_ms = None
        elif self.sighted_since_ms is None:
            self.sighted_since_ms = now_ms

    def stand(self, now_ms: int, conditions: Collection[Condition]) -> None:
        """Told once a second, after its observations, what is so in truth and in sight of the monitor."""
        self.standing = {each: self.standing.get(each, now_ms) for each in conditions}
        if not self.strict:
            return
        firing = self.firing()
        for each, since_ms in self.standing.items():
            if now_ms - since_ms > self.watch.thresholds[each.rule].ms("hold") + SLACK_MS:
                told = f"{each.rule} of {each.subject} stands for {now_ms - since_ms} ms and does not fire"
                self._law((each.rule, each.subject) in firing, told)
        if self.sighted_since_ms is None:
            return
        for rule, subject in firing:
            over_ms = now_ms - max(self.sighted_since_ms, self.ground.get(Condition(rule, subject), (0, 0))[1])
            late = rule in JUDGED and over_ms > self.watch.thresholds[rule].ms("clear") + STALE_MS + SLACK_MS
            self._law(not late, f"{rule} of {subject} fires on, {over_ms} ms after the last ground for it")

    def firing(self) -> dict[tuple[str, str], Severity]:
        """What fires now, by rule and subject."""
        return {(one.rule, one.subject): one.told for one in self.watch.book.standings.values() if one.told is not None}

    def calm(self, *, untouched: bool) -> None:
        """Nothing has been wrong for long: only rules that remember may still speak, and none if nothing ever was."""
        loud = {
            which: severity
            for which, severity in self.firing().items()
            if severity is not Severity.INFO and (untouched or which[0] in CALM)
        }
        self._law(not loud, f"the quorum is calm, and these fire: {loud}")
        quorum = self.watch.machine.quorum()
        truth = len(self.truth.committed)
        self._law((quorum.last_offset or 0) >= truth - 10, f"calm, and {quorum.last_offset} of {truth} offsets shown")

    def fired(self) -> set[str]:
        """The rules that ever fired."""
        return {alert.rule for alert in self.alerts if alert.state is AlertState.FIRING}

    def _watch(self, blob: bytes | None) -> Watch:
        return Watch.of(
            blob,
            cluster="simulated",
            cluster_id=None,
            bootstrap=self.bootstrap,
            vantage=Vantage.INSIDE,
            thresholds=thresholds_for({}),
        )

    def _law(self, kept: bool, sentence: str) -> None:
        if self.strict and not kept:
            raise Broken(sentence)


def _eligible(one: Partition | Assignment) -> tuple[object, ...]:
    """Who leads, who may, and how often that and anything changed."""
    return (one.elr, one.last_known_elr, one.leader, one.leader_epoch, one.partition_epoch)
