"""A Simulation: a quorum, its network, its operators and its monitor, from one seed.

A step is 50 ms: the controllers' timers, and twice a second what the active controller writes, every second one round
of the gatherer's observations, and now and then a fault. The same seed gives the same steps.
"""

from collections.abc import Sequence
from functools import partial
from random import Random

from streaming.replay.decoded_row import DecodedRow
from tests.simulation.activity import ClusterActivity, Phase, SimulatedBroker
from tests.simulation.alert_checker import AlertChecker
from tests.simulation.controller import FAULTS, SimulatedController
from tests.simulation.fault_injection import FaultInjection
from tests.simulation.gatherer import SimulatedGatherer
from tests.simulation.ground_truth import BrokenInvariant, GroundTruth
from tests.simulation.metadata import BROKERS
from tests.simulation.network import Network

START_MS = 1_700_000_000_000
STEP_MS = 50
ACT_MS = 500
OBSERVE_MS = 1_000
INJECT_MS = (500, 6_000)
QUIET_MS = 60_000
"""The time before the first fault."""
FAULTY_QUIET_MS = 5_000
FAULTS_MS = (40_000, 120_000)
UNATTENDED_MS = (100_000, 100_000, 400_000)
"""Everything runs again, but no operator acts: longer than the holds of a minute, and sometimes than those of five."""
CALM_MS = 200_000
"""Long enough for a complete recovery, and for every hold, window and clear after it, also if it begins late."""
BUSY_MS = 50_000
GAP_PROBABILITY = 1 / 30
"""How likely it is that the gatherer stops in a second, except in a calm phase."""
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
        """Creates a quorum of one to five controllers, by the seed or as many as `controllers`.

        Args:
            seed: of all random choices.
            faults: names of FAULTS.
            strict: False raises nothing, to test which alerts a planted fault causes.
            static: whether it starts with controller.quorum.voters; None: chosen by the seed.
            polls_only: the monitor has only DESCRIBE permission and reads no log.
        """
        self.seed, self.random = seed, Random(seed)
        self.steps, self.now_ms = 0, START_MS
        assert faults <= set(FAULTS), faults
        self.strict = strict
        self.ground_truth = GroundTruth(strict=strict)
        self.network = Network(self.random)
        self.nodes: list[SimulatedController] = []
        self.static = (not faults and self.random.random() < 0.2) if static is None else static
        """Starts with controller.quorum.voters, and is upgraded once."""
        new_controller = partial(
            SimulatedController,
            network=self.network,
            ground_truth=self.ground_truth,
            random=self.random,
            peers=self.nodes,
            faults=faults,
        )
        voters = controllers or (3 if faults else self.random.choice((1, 3, 3, 3, 4, 5, 5)))
        self.nodes += [new_controller(id=number, static=self.static) for number in range(1, voters + 1)]
        for node in self.nodes:
            node.log.bootstrap = tuple(each.voter for each in self.nodes)
            node.start(self.now_ms)
        self.brokers = [] if polls_only else [SimulatedBroker(broker) for broker in BROKERS]
        self.activity = ClusterActivity(
            self.random, self.nodes, self.ground_truth.oracle, faults, led_at_ms=self.now_ms, brokers=self.brokers
        )
        self.gatherer = SimulatedGatherer(self.random, self.nodes, self.network, polls_only)
        self.gatherer.skew_ms = self.random.choice((0, 0, -3_600_000, 3_600_000, 90_000))
        self.fault_injection = FaultInjection(self.random, self.nodes, self.network, self.gatherer, new_controller)
        self.checker = AlertChecker(
            self.ground_truth, self.gatherer.bootstrap, strict and not polls_only, redelivered=seed % 3 == 0
        )
        self.calm_phases = 0
        """The number of complete recoveries that were checked."""
        self.phase_ends_ms = START_MS + (FAULTY_QUIET_MS if faults else QUIET_MS)
        self.inject_at_ms = START_MS
        self.last = ""

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
        return f"seed {self.seed}, step {self.steps}, second {seconds:.1f}, after {self.last or 'no fault'}: {again}"

    def step(self) -> None:
        self.steps += 1
        self.now_ms += STEP_MS
        for node in self.random.sample(self.nodes, len(self.nodes)):
            node.resume_if_due(self.now_ms)
            if node.up:
                node.tick(self.now_ms)
        if self.now_ms % ACT_MS == 0:
            self._act()
        if self.now_ms % OBSERVE_MS == 0 and self.now_ms >= self.gatherer.runs_from_ms:
            self._observe()
        if self.now_ms >= self.inject_at_ms:
            self._inject()

    def _act(self) -> None:
        for node in self.nodes:
            if node.up and node.leads:
                self.activity.act(self.now_ms, node)
        self.activity.restore_endpoints(self.now_ms)

    def _observe(self) -> None:
        self.deliver(list(self.gatherer.observe(self.now_ms)))
        gaps = self.activity.phase is not Phase.QUIET_RULES and self.strict
        if gaps and self.random.random() < GAP_PROBABILITY:
            until_ms = self.now_ms + self.random.choice(GAPS_MS)
            self.gatherer.stop_until(until_ms, restarts=self.random.random() < 0.5)

    def deliver(self, rows: Sequence[DecodedRow]) -> None:
        """Passes the rows of this second to the monitor, and its alerts to the checks."""
        for row in rows:
            self.checker.observe(row)
        self.checker.check_second(0 if self.gatherer.polls_only else self.gatherer.position)

    def _inject(self) -> None:
        self.inject_at_ms = self.now_ms + self.random.randint(*INJECT_MS)
        if self.now_ms >= self.phase_ends_ms:
            self._next_phase()
        elif self.activity.phase is Phase.FAULTS_INJECTED:
            self.last = self.fault_injection.inject(self.now_ms)

    def _next_phase(self) -> None:
        """Starts the next phase; a calm phase must end with a complete recovery."""
        match self.activity.phase:
            case Phase.QUIET_RULES:
                if self.strict:
                    self.check_calm()
                self.activity.phase, lasts_ms = Phase.FAULTS_INJECTED, self.random.randint(*FAULTS_MS)
            case Phase.FAULTS_INJECTED:
                self.fault_injection.restore(self.now_ms)
                self.activity.phase, lasts_ms = Phase.UNATTENDED, self.random.choice(UNATTENDED_MS)
            case _:
                self.network.endpoint_states.clear()
                self.activity.busy_until_ms = self.now_ms + BUSY_MS
                self.activity.phase, lasts_ms = Phase.QUIET_RULES, CALM_MS
        self.phase_ends_ms = self.now_ms + lasts_ms

    def check_calm(self) -> None:
        """Checks that the quorum has recovered, and that its monitor has noticed it."""
        self.checker.check_calm()
        self._check_recovered()
        self.calm_phases += 1

    def _check_recovered(self) -> None:
        """Checks that the quorum itself has recovered."""
        voters = self.ground_truth.oracle.voters
        missing = voters is not None and voters != frozenset(node.key for node in self.nodes)
        if missing or not any(node.leads for node in self.nodes):
            raise BrokenInvariant(f"liveness: after {CALM_MS} ms without faults the voters are {voters}")
