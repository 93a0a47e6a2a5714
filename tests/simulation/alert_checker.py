"""An AlertChecker: compares the monitor with the ground truth after every observation.

Everything that the monitor has as committed is committed. Restart and redelivery change nothing. No injected
fault causes an alert of NEVER, and after a complete recovery no alert is firing.
"""

from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from random import Random

from connectors.observations.log_event import PartitionSet
from rules.alert import Alert, AlertState
from rules.answers.broker_restart import AffectedPartitions
from rules.answers.refusal import Against
from rules.evaluate import RULES, evaluate
from rules.facts.needs import Need
from rules.facts.quorum import Facts
from rules.model.quorum import Quorum
from streaming.replay.cluster_monitor import ClusterMonitor
from streaming.replay.decoded_row import DecodedRow
from streaming.replay.stored_topics import Assignment
from streaming.status.restart_output import evaluate_restart
from tests.agreement.agreement import AgreementCount
from tests.agreement.outputs import cluster_state
from tests.record_image import RecordImage, RecoveryBeginning
from tests.simulation.ground_truth import BrokenInvariant, GroundTruth
from tests.simulation.metadata import MIN_ISR
from tests.simulation.simulated_monitor import RedeliveredMonitor, simulated_monitor

BY_VOTERS = {rule.id for rule in RULES.values() if Need.VOTERS_RECORD in rule.needs}
"""Rules that need a VotersRecord: they do not apply to a static quorum."""

NEVER = {"raft-invariant-broken", "committed-metadata-lost", "recovery-invariant-broken", "data-contract-broken"}
LASTING = {"quorum-shape", "leader-clock-skew"}
AGREE_EVERY = 50
"""After how many rows all outputs are compared: it takes as long as applying twenty rows."""


@dataclass(slots=True)
class AlertChecker:
    """If `strict` is False, it only records the alerts."""

    ground_truth: GroundTruth
    bootstrap: tuple[str, ...]
    strict: bool = True
    redelivered: bool = False
    """Whether a second monitor gets all rows in batches and redelivered: it costs as much as the first."""
    oracle: RecordImage = field(default_factory=RecordImage)
    alerts: list[Alert] = field(default_factory=list)
    rows: int = 0
    restarts: int = 0
    agreement: AgreementCount = field(default_factory=lambda: AgreementCount(every=AGREE_EVERY))
    """Whether all outputs agree, after each so many rows."""
    monitor: ClusterMonitor = field(init=False)

    redelivery: RedeliveredMonitor = field(init=False)

    def __post_init__(self) -> None:
        self.monitor = simulated_monitor(self.bootstrap)
        self.redelivery = RedeliveredMonitor(Random(0), partial(simulated_monitor, self.bootstrap))

    def observe(self, row: DecodedRow) -> None:
        self.rows += 1
        outcome = self.monitor.apply((row,))
        alerts = outcome.alerts
        self.alerts += alerts
        self._check(not outcome.failed, f"a row could not be applied: {outcome.failed}")
        broken = self.agreement.check(self.monitor.machine.quorum(), thresholds=self.monitor.settings.thresholds)
        if broken is not None:
            raise BrokenInvariant(f"two outputs contradict each other: {broken}")
        if not self.strict:
            return
        for alert in alerts:
            self._check(alert.rule not in NEVER, f"{alert.rule} of {alert.subject} fires without a reason")
        self._check(self.monitor.apply((row,)).alerts == (), "a redelivered observation sent an alert")
        if self.redelivered:
            difference = self.redelivery.take(row, alerts)
            if not self.redelivery.batch and difference is None:
                same = self.redelivery.monitor.machine.quorum() == self.monitor.machine.quorum()
                difference = None if same else "the quorum differs after these observations in batches"
            self._check(difference is None, str(difference))
        self._check_quorum()
        if self.rows % 97 == 0:
            self._check_restart(row)

    def _check_restart(self, row: DecodedRow) -> None:
        """A monitor that is restored from its blob is equal, and sends no alert again."""
        self.restarts += 1
        again = simulated_monitor(self.bootstrap, self.monitor.to_bytes())
        same = again.machine.quorum() == self.monitor.machine.quorum()
        self._check(same, "the quorum differs after a restart")
        self._check(again.tracked == self.monitor.tracked, "the tracked conditions differ after a restart")
        self._check(again.apply((row,)).alerts == (), "an observation from before a restart sent an alert again")
        self.monitor = again
        evaluation = evaluate(Facts(again.machine.quorum()), again.settings.thresholds)
        static = self.oracle.kraft_version == 0 and self.oracle.end > 0
        not_applicable = BY_VOTERS & {one.rule for one in evaluation.not_applicable}
        self._same("the rules that are not applicable", BY_VOTERS if static else set(), not_applicable)

    def _check_quorum(self) -> None:
        quorum, ground_truth = self.monitor.machine.quorum(), self.ground_truth
        committed = len(ground_truth.committed)
        mark, last = quorum.high_watermark or 0, -1 if quorum.last_offset is None else quorum.last_offset
        self._check(mark <= committed, f"the monitor's high watermark {mark} is above the real one, {committed}")
        self._check(last < committed, f"the monitor has offset {last}, but only {committed} records are committed")
        self._check(
            last + 1 >= self.oracle.end, f"the monitor's log position decreased from {self.oracle.end} to {last + 1}"
        )
        if quorum.leader_id is not None and quorum.leader_epoch is not None:
            leads = ground_truth.leaders.get(quorum.leader_epoch)
            self._same(f"the leader of epoch {quorum.leader_epoch}", leads, quorum.leader_id)
        while self.oracle.end <= last:
            self.oracle.apply(ground_truth.committed[self.oracle.end].event)
        self._check_image()

    def _check_image(self) -> None:
        machine, oracle = self.monitor.machine, self.oracle
        quorum = machine.quorum()
        self._same("the committed voters", oracle.voters, None if quorum.committed is None else quorum.committed.keys)
        self._same("kraft.version", oracle.kraft_version, quorum.kraft_version or 0)
        self._same("the controllers", _controllers(oracle), _controllers(quorum))
        self._same("the brokers", _brokers(oracle), _brokers(quorum))
        self._check_recoveries()
        if machine.visible_image is machine.log.image:
            opened = None if quorum.open_transaction is None else quorum.open_transaction.since_offset
            begun = None if oracle.transaction is None else oracle.transaction.offset
            self._same("the open transaction's offset", begun, opened)
            if self.rows % 20 == 0:
                self._check_topics()
                self._check_broker_restarts()

    def _check_recoveries(self) -> None:
        known = self.oracle.recovering
        recovering = {(one.topic_id, one.partition): one for one in self.monitor.machine.quorum().recovering}
        self._same("the RECOVERING partitions", known.keys(), recovering.keys())
        for position, one in recovering.items():
            true, name = known[position], self.oracle.topics[position[0]].name
            self._same(
                f"the RECOVERING {position}",
                (name, true.replicas, true.isr, true.leader, true.partition_leader_epoch, true.partition_epoch),
                (one.topic, one.replicas, one.isr, one.leader, one.leader_epoch, one.partition_epoch),
            )
            if not one.at_least:
                found = RecoveryBeginning(one.since_offset, frozenset(one.previous_isr or ()))
                self._same(f"the beginning of {position}'s recovery", self.oracle.recoveries.get(position), found)

    def _check_topics(self) -> None:
        """Compares every partition, also those that no rule uses."""
        found = {
            (topic_id, number): (topic.name, one.leader_epoch, *_replicas(one))
            for topic_id, topic in self.monitor.machine.log.partitions.topics.items()
            for number, one in topic.partitions.items()
        }
        known = {
            position: (self.oracle.topics[position[0]].name, one.partition_leader_epoch, *_replicas(one))
            for position, one in self.oracle.partitions.items()
        }
        self._same("the partitions", known, found)

    def _check_broker_restarts(self) -> None:
        """Compares the partitions that need each broker with what is said of its restart."""
        quorum = self.monitor.machine.quorum()
        state = cluster_state(quorum, self.monitor.settings.thresholds)
        for node in quorum.brokers:
            needed, answer = _needing(self.oracle, node), evaluate_restart(state, node)
            if answer.partitions is not None:
                self._same(f"the partitions that need broker {node}", needed, answer.partitions)
            is_needed = needed.below_min_isr + needed.without_leader > 0
            refused = {Against.BELOW_MIN_ISR, Against.LAST_REPLICA} & {one.name for one in answer.against}
            self._check(not (answer.safe and is_needed), f"broker {node} may be restarted, and {needed}")
            self._check(is_needed or not refused, f"broker {node} is needed by no partition: {answer.against}")

    def check_second(self, delivered_end: int) -> None:
        """Checks that the monitor has read the committed records below this offset; called once a second."""
        end = (self.monitor.machine.quorum().last_offset or 0) + 1
        self._check(end >= delivered_end, f"{delivered_end} records were delivered, the monitor has read {end}")

    def check_calm(self) -> None:
        """Checks that the monitor has read the log of a healthy quorum to its end, and that no alert is firing."""
        last_offset, end = self.monitor.machine.quorum().last_offset or 0, len(self.ground_truth.committed)
        sentence = f"the quorum is healthy, but {last_offset} of {end} offsets are visible"
        self._check(last_offset >= end - 10, sentence)
        for one in self.monitor.tracked.conditions.values():
            firing = one.notified_severity is not None and one.rule not in LASTING
            self._check(not firing, f"{one.rule} of {one.subject} still fires after the recovery")

    def fired_rules(self) -> set[str]:
        """Returns the rules that have fired."""
        return {alert.rule for alert in self.alerts if alert.state is AlertState.FIRING}

    def _check(self, kept: bool, sentence: str) -> None:
        if self.strict and not kept:
            raise BrokenInvariant(sentence)

    def _same(self, what: str, true: object, found: object) -> None:
        if found != true:
            self._check(False, f"{what}: the quorum has {true}, the monitor {found}")


def _controllers(of: RecordImage | Quorum) -> object:
    return {one.id: (one.incarnation_id, one.endpoints[0]) for one in of.controllers.values()}


def _brokers(of: RecordImage | Quorum) -> object:
    return {one.id: (one.incarnation_id, one.fenced, one.in_controlled_shutdown) for one in of.brokers.values()}


def _replicas(one: PartitionSet | Assignment) -> tuple[object, ...]:
    return (one.replicas, one.isr, one.elr, one.last_known_elr, one.leader, one.partition_epoch)


def _needing(oracle: RecordImage, broker: int) -> AffectedPartitions:
    counts: Counter[str] = Counter()
    for (topic, _), one in oracle.partitions.items():
        if one.leader is None or broker not in one.isr:
            continue
        if len(one.replicas) == 1:
            counts["one_replica"] += 1
        elif len(one.isr) == 1:
            counts["without_leader"] += 1
        elif oracle.topics[topic].name not in oracle.configs:
            counts["undecided"] += 1
        elif len(one.isr) <= min(MIN_ISR, len(one.replicas)):
            counts["below_min_isr"] += 1
    return AffectedPartitions(**counts)
