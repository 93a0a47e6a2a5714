"""A Simulation: a quorum, its network, its operators and its monitor, one event after the other, from one seed.

A step is one event: a delivered message, a controller's timer, half a second of activity, an injected fault, or one
observation by the gatherer. The same seed gives the same steps.
"""

import heapq
from collections.abc import Sequence
from random import Random

from streaming.replay.decoded_row import DecodedRow
from tests.simulation.activity import ClusterActivity, Phase, SimulatedBroker
from tests.simulation.alert_checker import AlertChecker
from tests.simulation.controller import SimulatedController
from tests.simulation.fault_injection import FaultInjection
from tests.simulation.gatherer import SimulatedGatherer
from tests.simulation.ground_truth import BrokenInvariant, GroundTruth
from tests.simulation.metadata import BROKERS
from tests.simulation.metadata_log import MetadataLog, initial_voters
from tests.simulation.network import Network
from tests.simulation.replica import FAULTS

START_MS = 1_700_000_000_000
WAKE_MS = 100
QUIET_MS = 60_000
"""The time before the first fault."""
FAULTY_QUIET_MS = 5_000
FAULTS_MS = (40_000, 120_000)
UNATTENDED_MS = (100_000, 100_000, 400_000)
"""Everything runs again, but no operator acts: longer than the holds of a minute, and sometimes than those of five."""
CALM_MS = 200_000
"""Long enough for a complete recovery, and for every hold, window and clear after it, also if it begins late."""
BUSY_MS = 50_000
GAP_PHASES = (Phase.FAULTS_INJECTED, Phase.UNATTENDED)
GAP_PROBABILITY = 1 / 30
"""How likely it is that the gatherer stops in a second of these phases."""
GAPS_MS = (*range(2_000, 16_000, 1_000), 25_000, 40_000)
"""For how long: every length between the shortest hold and the age at which answers count as old, and longer."""


class Simulation:
    """One simulated quorum and its monitor."""

    def __init__(
        self,
        seed: int,
        *,
        faults: frozenset[str] = frozenset(),
        strict: bool = True,
        polls_only: bool = False,
        controllers: int | None = None,
        static: bool | None = None,
    ) -> None:
        """Creates a quorum of one to five controllers.

        Args:
            seed: of all random choices.
            faults: names of FAULTS.
            strict: False raises nothing, to test which alerts a planted fault causes.
            controllers: the initial number of voters; None: chosen by the seed.
            static: whether it starts with controller.quorum.voters; None: chosen by the seed.
            polls_only: the monitor has only DESCRIBE permission and reads no log.
        """
        self.seed = seed
        self.random = Random(seed)
        self.now_ms = START_MS
        self.steps = 0
        assert faults <= set(FAULTS), faults
        self.faults, self.strict = faults, strict
        self.ground_truth = GroundTruth(strict=strict)
        self.network = Network(self.random)
        self.nodes: list[SimulatedController] = []
        self.static = (not faults and self.random.random() < 0.2) if static is None else static
        """Starts with controller.quorum.voters, and is upgraded once."""
        self._create_controllers(controllers or (3 if faults else self.random.choice((1, 3, 3, 3, 4, 5, 5))))
        self.brokers = [] if polls_only else [SimulatedBroker(broker) for broker in BROKERS]
        self.activity = ClusterActivity(
            self.random, self.nodes, self.ground_truth.oracle, faults, led_at_ms=self.now_ms, brokers=self.brokers
        )
        self.gatherer = SimulatedGatherer(self.random, self.nodes, self.network, polls_only)
        self.gatherer.skew_ms = self.random.choice((0, 0, -3_600_000, 3_600_000, 90_000))
        self.fault_injection = FaultInjection(self.random, self.nodes, self.network, self.gatherer)
        self.checker = AlertChecker(
            self.ground_truth, self.gatherer.bootstrap, strict and not polls_only, redelivered=seed % 3 == 0
        )
        self.phase = Phase.QUIET_RULES
        self.calm_phases = 0
        """The number of complete recoveries that were checked."""
        self.phase_ends_ms = START_MS + (FAULTY_QUIET_MS if faults else QUIET_MS)
        self.last = ""
        self._agenda: list[tuple[int, int, str, int]] = []
        self._number = 0
        self._ticking = len(self.nodes)
        for number in range(len(self.nodes)):
            self._schedule(self.random.randint(1, WAKE_MS), "tick", number)
        for delay_ms, what in ((500, "act"), (1_000, "observe"), (1_500, "inject")):
            self._schedule(delay_ms, what)

    def run(self, steps: int) -> None:
        """Runs this number of steps.

        Raises:
            BrokenInvariant: by the quorum or the monitor; with seed, step and the command to reproduce it.
        """
        end = self.steps + steps
        while self.steps < end:
            try:
                self.step()
            except BrokenInvariant as broken:
                raise BrokenInvariant(f"{broken}\n{self.location()}") from broken

    def location(self) -> str:
        """Returns the position and the command to reproduce it, in one line."""
        seconds = (self.now_ms - START_MS) / 1000
        again = f"make simulate SEED={self.seed} STEPS={self.steps}"
        return f"seed {self.seed}, step {self.steps}, second {seconds:.1f}, at {self.last}: {again}"

    def step(self) -> None:
        self.steps += 1
        delivery_ms = self.network.next_ms()
        if delivery_ms is not None and delivery_ms <= self._agenda[0][0]:
            self.now_ms = delivery_ms
            self._deliver()
        else:
            self.now_ms, _, what, number = heapq.heappop(self._agenda)
            self.last = what
            getattr(self, f"_{what}")(number)

    def _create_controllers(self, voters: int) -> None:
        initial = initial_voters(voters)
        for voter in initial:
            node = SimulatedController(
                id=voter.key.id,
                directory=f"dir{voter.key.id}",
                port=9_093,
                log=MetadataLog(initial),
                network=self.network,
                ground_truth=self.ground_truth,
                random=self.random,
                peers=self.nodes,
                faults=self.faults,
                static=self.static,
            )
            self.nodes.append(node)
        for node in self.nodes:
            node.start(self.now_ms)

    def _schedule(self, delay_ms: int, what: str, number: int = 0) -> None:
        self._number += 1
        heapq.heappush(self._agenda, (self.now_ms + delay_ms, self._number, what, number))

    def _deliver(self) -> None:
        envelope = self.network.take()
        self.last = type(envelope.message).__name__
        receiver, sender = self.nodes[envelope.receiver - 1], self.nodes[envelope.sender - 1]
        if receiver.up and self.network.open(envelope.sender, envelope.receiver):
            receiver.receive(self.now_ms, sender, envelope.message)
            self.ground_truth.check_epoch_and_high_watermark(receiver)

    def _tick(self, number: int) -> None:
        node = self.nodes[number]
        if node.up:
            node.tick(self.now_ms)
            self.ground_truth.check_epoch_and_high_watermark(node)
        self._schedule(WAKE_MS, "tick", number)

    def _act(self, _: int) -> None:
        for node in self.nodes:
            if node.up and node.leads:
                self.activity.act(self.now_ms, node)
        self.activity.restore_endpoints(self.now_ms)
        self._schedule(500, "act")

    def _observe(self, _: int) -> None:
        self._schedule(1_000, "observe")
        if self.now_ms < self.gatherer.runs_from_ms:
            return
        self.deliver(list(self.gatherer.observe(self.now_ms)))
        if self.phase in GAP_PHASES and self.strict and not self.faults and self.random.random() < GAP_PROBABILITY:
            until_ms = self.now_ms + self.random.choice(GAPS_MS)
            self.gatherer.stop_until(until_ms, restarts=self.random.random() < 0.5)

    def deliver(self, rows: Sequence[DecodedRow]) -> None:
        """Passes the rows of this second to the monitor, and its alerts to the checks."""
        for row in rows:
            self.checker.observe(row)
        self.checker.check_second(0 if self.gatherer.polls_only else self.gatherer.position)

    def _inject(self, _: int) -> None:
        if self.now_ms >= self.phase_ends_ms:
            self._next_phase()
        elif self.phase is Phase.FAULTS_INJECTED:
            self.last = self.fault_injection.inject(self.now_ms)
            self.tick_new_nodes()
        self._schedule(self.random.randint(500, 6_000), "inject")

    def tick_new_nodes(self) -> None:
        """Schedules the timers of controllers that have joined."""
        for number in range(self._ticking, len(self.nodes)):
            self._schedule(1, "tick", number)
        self._ticking = len(self.nodes)

    def suspend(self, ms: int) -> None:
        """Suspends all hosts together: their clocks advance, and nothing else happens."""
        self._agenda = [(at_ms + ms, place, what, number) for at_ms, place, what, number in self._agenda]
        heapq.heapify(self._agenda)
        self.network.suspended(ms)
        for node in self.nodes:
            node.suspended(ms)
        self.now_ms += ms
        self.phase_ends_ms += ms
        self.activity.led_at_ms += ms
        self.activity.busy_until_ms += ms

    def _next_phase(self) -> None:
        """Starts the next phase; a calm phase must end with a complete recovery."""
        match self.phase:
            case Phase.QUIET_RULES:
                if self.strict:
                    self.checker.check_calm()
                    self._check_recovered()
                    self.calm_phases += 1
                self.phase, lasts_ms = Phase.FAULTS_INJECTED, self.random.randint(*FAULTS_MS)
            case Phase.FAULTS_INJECTED:
                self.fault_injection.restore(self.now_ms)
                self.phase, lasts_ms = Phase.UNATTENDED, self.random.choice(UNATTENDED_MS)
            case _:
                self.network.endpoint_states.clear()
                self.activity.busy_until_ms = self.now_ms + BUSY_MS
                self.phase, lasts_ms = Phase.QUIET_RULES, CALM_MS
        self.activity.phase = self.phase
        self.phase_ends_ms = self.now_ms + lasts_ms

    def _check_recovered(self) -> None:
        """Checks that the quorum itself has recovered."""
        voters = self.ground_truth.oracle.voters
        missing = voters is not None and voters != frozenset(node.key for node in self.nodes)
        if missing or not any(node.leads for node in self.nodes):
            raise BrokenInvariant(f"liveness: after {CALM_MS} ms without faults the voters are {voters}")
