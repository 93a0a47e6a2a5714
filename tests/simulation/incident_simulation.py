"""An incident in a healthy simulated quorum: it must cause the alerts of its rules, in time, and no others."""

from collections.abc import Callable, Iterator
from random import Random
from typing import NamedTuple

from connectors.observations.log_event import LogEvent, PartitionChanged
from rules.alert import AlertState
from rules.finding import HOLD
from rules.model.identifiers import DirectoryId, Endpoint, NodeId, TopicId
from rules.model.membership import BrokerRegistration, ControllerRegistration, RecordPosition, Voter
from tests.simulation.activity import Phase
from tests.simulation.controller import SimulatedController
from tests.simulation.ground_truth import BrokenInvariant
from tests.simulation.metadata import new_broker
from tests.simulation.simulated_monitor import THRESHOLDS
from tests.simulation.simulation import Simulation

QUIET_MS = 25_000
"""The time before the incident."""
AFTERWARDS_MS = 110_000
"""The time after it, in which operators restore what is left: longer than an alert may take to resolve."""
EARLY_MS = 12_000
"""How much earlier than its hold an alert may fire: clocks differ, and a rule may use the log's clock."""
NOTICED_MS = 23_000
"""How long it takes until a condition is certain whatever the clocks, and its alert is late."""


class ExpectedAlert(NamedTuple):
    """An alert that must fire between these times, and resolve before the simulation ends."""

    rule: str
    subject: str
    from_ms: int
    until_ms: int


class Incident(NamedTuple):
    """One incident. It yields, after each step, how long it waits in milliseconds."""

    happen: Callable[["IncidentSimulation"], Iterator[int]]
    rules: tuple[str, ...]
    """The rules whose alerts must fire."""
    controllers: tuple[int, ...]
    """In how many controllers it is possible."""
    static: bool
    """Whether it is possible in a static quorum too."""
    also: tuple[str, ...]
    """Rules that may fire, depending on the choices of the seed."""


def incident(
    *rules: str, controllers: tuple[int, ...] = (3, 5), static: bool = False, also: tuple[str, ...] = ()
) -> Callable[[Callable[["IncidentSimulation"], Iterator[int]]], Incident]:
    """Decorates the function of an incident."""
    return lambda happen: Incident(happen, rules, controllers, static, also)


class IncidentSimulation(Simulation):
    """A simulation of one incident, which happens after QUIET_MS."""

    def __init__(self, seed: int, incident: Incident) -> None:
        self.choices = Random(f"incident of {seed}")
        controllers = self.choices.choice(incident.controllers)
        static = incident.static and self.choices.random() < 0.5
        # What happens may be no state of a quorum that the checker knows.
        super().__init__(seed, strict=False, controllers=controllers, static=static)
        self.incident = incident
        self.expected: list[ExpectedAlert] = []
        self.gatherer.skew_ms = 0
        self.gatherer.slow_probability = 0.0
        self.phase_ends_ms = self.now_ms + 10**12
        self.began_ms = self.now_ms + QUIET_MS

    @property
    def leader(self) -> SimulatedController:
        """The leader of the newest epoch."""
        leading = [node for node in self.nodes if node.up and node.leads]
        assert leading, "an incident begins in a quorum with a leader, and waits for one before it ends"
        return max(leading, key=lambda node: node.epoch)

    @property
    def followers(self) -> list[SimulatedController]:
        """The other voters, in random order."""
        leader = self.leader
        followers = [node for node in self.nodes if node.key in leader.log.keys and node is not leader]
        self.choices.shuffle(followers)
        return followers

    @property
    def at(self) -> RecordPosition:
        """The position of the next record."""
        return self.leader.at(self.now_ms)

    def write(self, record: Callable[..., LogEvent], **fields: object) -> None:
        """Writes a record of this type as the active controller."""
        self.leader.write_record(self.now_ms, record, **fields)

    def register(self, node: int, incarnation: str, endpoint: Endpoint) -> None:
        """Writes the registration of a controller's process, with the features of the others."""
        features = self.ground_truth.oracle.controllers[self.leader.id].features
        names = {"id": NodeId(node), "incarnation_id": incarnation}
        self.write(ControllerRegistration, **names, endpoints=(endpoint,), features=features)

    def register_broker(self, broker: int, *log_dirs: str, endpoints: tuple[Endpoint, ...] = ()) -> None:
        """Writes the registration of a broker that starts, alive, with these log directories online."""
        features = self.ground_truth.oracle.controllers[self.leader.id].features
        incarnation = f"start of {broker} at {self.now_ms}"
        fields = new_broker(broker, incarnation, fenced=False, features=features)
        fields |= {"endpoints": endpoints} if endpoints else {}
        self.write(BrokerRegistration, **fields, log_dirs=tuple(map(DirectoryId, log_dirs)))

    def change(
        self,
        topic: TopicId,
        *,
        isr: tuple[int, ...],
        leader: int | None = None,
        recovering: bool | None = None,
        **further: object,
    ) -> None:
        """Writes a change of partition 0 of a topic."""
        changed = {"isr": isr, "leader": leader, "leader_set": leader is not None, "recovering": recovering}
        self.write(
            PartitionChanged, **{"topic_id": topic, "partition": 0, "replicas": None, "elr": None, **changed, **further}
        )

    def voters_without(self, *removed: SimulatedController) -> tuple[Voter, ...]:
        """Returns the leader's voters without these."""
        return tuple(voter for voter in self.leader.log.voters if voter.key not in {node.key for node in removed})

    def restart(self, node: SimulatedController) -> None:
        node.stop()
        node.start(self.now_ms)

    def cut_off(self, *nodes: SimulatedController) -> None:
        """Cuts these controllers off from all others, but not from the gatherer."""
        for node in nodes:
            for other in self.nodes:
                if other is not node:
                    self.network.one_way |= {(node.id, other.id), (other.id, node.id)}

    def suspend(self, ms: int) -> None:
        """Suspends all hosts together: afterwards all their clocks are ahead, and nothing else has happened."""
        self.gatherer.skew_ms += ms
        for node in self.nodes:
            node.skew_ms += ms

    def fires(self, rule: str, subject: str, *, after_s: float = 0.0, hold_s: float | None = None) -> int:
        """Expects an alert; returns how long its condition must last from now on, in milliseconds.

        Args:
            rule: the rule's id.
            subject: of the alert.
            after_s: how long the fault lasts before it is a condition.
            hold_s: the finding's own hold, where it is not that of its rule.
        """
        hold_ms = THRESHOLDS[rule].ms(HOLD) if hold_s is None else int(hold_s * 1_000)
        within_ms = hold_ms + int(after_s * 1_000) + NOTICED_MS
        self.expected.append(ExpectedAlert(rule, subject, self.began_ms + hold_ms - EARLY_MS, self.now_ms + within_ms))
        return within_ms

    def run_for(self, ms: int) -> None:
        """Runs the simulation for this time."""
        end_ms = self.now_ms + ms
        while self.now_ms < end_ms:
            self.step()

    def happen(self) -> None:
        """Lets the incident happen and its alerts resolve."""
        self.run_for(QUIET_MS)
        self.activity.phase = Phase.UNATTENDED
        for delay_ms in self.incident.happen(self):
            self.run_for(delay_ms)
        self.activity.phase = Phase.QUIET_RULES
        self.run_for(AFTERWARDS_MS)

    def check(self) -> None:
        """Lets the incident happen and its alerts resolve, and checks them.

        Raises:
            BrokenInvariant: an alert is missing, is early, was not expected or does not resolve.
        """
        self.happen()
        self._check_alerts()

    def _check_alerts(self) -> None:
        fired: dict[tuple[str, str], int] = {}
        for alert in self.checker.alerts:
            if alert.state is AlertState.FIRING:
                fired.setdefault((alert.rule, alert.subject), alert.observed_at_ms)
        for rule, subject, from_ms, until_ms in self.expected:
            at_ms = fired.pop((rule, subject), None)
            if at_ms is None:
                raise BrokenInvariant(f"{rule} of {subject} does not fire")
            if not from_ms <= at_ms <= until_ms:
                times = f"{at_ms - from_ms} ms after its earliest and {until_ms - at_ms} ms before its latest time"
                raise BrokenInvariant(f"{rule} of {subject} fires {times}")
        for rule, subject in fired:
            if rule not in self.incident.also:
                raise BrokenInvariant(f"{rule} of {subject} fires without a reason")
        for one in self.checker.monitor.tracked.conditions.values():
            if one.notified_severity is not None:
                raise BrokenInvariant(f"{one.rule} of {one.subject} still fires at the end")
