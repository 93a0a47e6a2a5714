"""A Judge: holds what the monitor says against the truth, after every observation.

Safety: what the monitor shows as committed is committed, and it shows nothing else. Restart and re-delivery change
nothing (K048). In time: an alert for what stands longer than its hold, none for a quorum that is calm.
"""

from collections.abc import Collection
from dataclasses import dataclass, field

from rules.alert import Alert, AlertState
from rules.evaluate import thresholds_for
from rules.finding import Severity
from rules.quorum import Vantage
from streaming.replay.watch import Row, Watch
from tests.simulation.log import Entry
from tests.simulation.oracle import Oracle
from tests.simulation.truth import Broken, Truth

SLACK_MS = 15_000
"""Beyond a rule's hold: what a rule takes for stale (10 s), leaders' clocks that differ, an observation a second."""
BREACHES = ("raft-invariant-broken", "recovery-invariant-broken")
CALM = (
    "monitor-blind", "no-leader", "observer-could-be-voter", "partition-stuck-recovering", "stale-voter-endpoint",
    "voter-disk-replaced", *BREACHES,
)  # fmt: skip
"""Rules that judge what is so now: once it is mended and their clear has passed, they are silent."""


@dataclass(slots=True)
class Judge:
    """`strict` False: looks on and keeps the alerts, whatever they are."""

    truth: Truth
    bootstrap: tuple[str, ...]
    strict: bool = True
    oracle: Oracle = field(default_factory=Oracle)
    alerts: list[Alert] = field(default_factory=list)
    rows: int = 0
    restarts: int = 0
    standing: dict[tuple[str, str], int] = field(default_factory=dict)
    """What is wrong in truth, and since when."""
    watch: Watch = field(init=False)

    def __post_init__(self) -> None:
        self.watch = self._watch(None)

    def observe(self, row: Row) -> None:
        self.rows += 1
        told = self.watch.observe((row,))
        self.alerts += told
        if not self.strict:
            return
        for alert in told:
            self._law(alert.rule not in BREACHES, f"the monitor cries {alert.rule} over a quorum that kept every law")
        self._law(self.watch.observe((row,)) == (), "K048: an observation that came twice was told twice")
        self._compare()
        if self.rows % 97 == 0:
            self._restart(row)

    def _restart(self, row: Row) -> None:
        """A checkpoint's watch is the same watch: it knows the same and tells nothing again."""
        self.restarts += 1
        again = self._watch(self.watch.to_bytes())
        same = again.machine.quorum() == self.watch.machine.quorum()
        self._law(same, "K048: the quorum after a checkpoint's restart is another")
        self._law(again.book == self.watch.book, "K048: the alerts' life after a checkpoint's restart is another")
        self._law(again.observe((row,)) == (), "K048: an observation from before a restart was told again")
        self.watch = again

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
        quorum, oracle = self.watch.machine.quorum(), self.oracle
        keys = None if quorum.committed is None else quorum.committed.keys
        self._law(keys == oracle.voters, f"the monitor's committed voters are {keys}, they are {oracle.voters}")
        controllers = {one.id: one.incarnation_id for one in quorum.controllers.values()}
        self._law(controllers == oracle.controllers, f"controllers are {oracle.controllers}, shown {controllers}")
        brokers = {one.id: (one.incarnation_id, one.fenced) for one in quorum.brokers.values()}
        self._law(brokers == oracle.brokers, f"brokers are {oracle.brokers}, shown {brokers}")
        recovering = {(one.topic_id, one.partition, one.isr, one.leader) for one in quorum.recovering}
        self._law(recovering == oracle.recovering, f"RECOVERING are {oracle.recovering}, shown {recovering}")

    def stand(self, now_ms: int, conditions: Collection[tuple[str, str]]) -> None:
        """Told once a second which conditions, by rule and subject, are so in truth and in sight of the monitor."""
        self.standing = {each: self.standing.get(each, now_ms) for each in conditions}
        if not self.strict:
            return
        firing = self.firing()
        for (rule, subject), since_ms in self.standing.items():
            if now_ms - since_ms > self.watch.thresholds[rule].ms("hold") + SLACK_MS:
                told = f"{rule} of {subject} stands for {now_ms - since_ms} ms and does not fire"
                self._law((rule, subject) in firing, told)

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
