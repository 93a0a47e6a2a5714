"""A simulated quorum whose controllers are restarted, one after the other, when `safe-to-restart` says so.

Faults come and end meanwhile. A copy of the quorum shows what each restart does: one that is called safe must cost no
commit, unless the fault that makes it costly is newer than what was observed.
"""

from collections.abc import Iterable, Sequence
from functools import partial

from rules.answers.after_restart import after_restart
from rules.facts.quorum import Facts
from rules.model.identifiers import Millis, NodeId
from rules.model.monitoring import Access
from streaming.replay.decoded_row import DecodedRow
from streaming.status.restart_output import evaluate_restart
from tests.agreement.outputs import cluster_state
from tests.simulation.activity import Phase
from tests.simulation.controller import SimulatedController
from tests.simulation.forecast import LATE_MS, RESTART, Future, observation_age_ms, outcomes_of
from tests.simulation.simulated_brokers import RollCount
from tests.simulation.simulated_monitor import simulated_monitor
from tests.simulation.simulation import Simulation

FAULTS_FROM_MS, FAULTS_MS = 10_000, 90_000
FAULT_EVERY_MS = 8_000
"""Faults are so far apart that most can be observed before the next one."""
AWAY_MS = (1_000, 12_000)
MOST_STEPS = 24_000
"""Twenty minutes: all faults have ended long before, and what they left is known again."""


class QuorumRoll(Simulation):
    """One roll. Half of the quorums need no login; of the others the controllers' hosts report how they reach each
    other."""

    def __init__(self, seed: int, count: RollCount) -> None:
        super().__init__(seed, strict=False, controllers=3 + 2 * (seed % 2))
        self.count, self.left = count, [node.id for node in self.nodes]
        self.random.shuffle(self.left)
        self.checker.agreement.every = 10**9
        self.gatherer.witnesses = bool(seed % 4 // 2)
        if not self.gatherer.witnesses:
            self.checker.monitor = simulated_monitor(self.gatherer.bootstrap, access=Access())
            make = self.fault_injection.new_controller
            self.fault_injection.new_controller = partial(make, protocol=Access().protocol)
            for node in self.nodes:
                node.protocol = Access().protocol
        self.phase_ends_ms = self.begins_ms = self.now_ms + FAULTS_FROM_MS
        self.fault_ms = self.now_ms
        self.away: tuple[NodeId, int, Millis] | None = None
        """The node that is restarted, when it is started again, and since when it is away by the monitor's clock."""
        self.why = ""

    def roll(self) -> None:
        """Runs until each controller was restarted."""
        while self.left and self.steps < MOST_STEPS:
            self.step()
        self.count.asked["rolls"] += not self.left
        if self.left:
            self.count.wrong.append(f"stuck before controller {self.left[0]}: {self.why}; {self.location()}")

    def _inject(self) -> None:
        before = self.fault_injection.count
        super()._inject()
        if self.fault_injection.count > before:
            self.inject_at_ms += FAULT_EVERY_MS
            self.fault_ms = self.now_ms

    def _next_phase(self) -> None:
        # An operator restores what does not recover by itself as soon as the faults end.
        if self.activity.phase is Phase.FAULTS_INJECTED:
            self.activity.phase = Phase.UNATTENDED
            self.fault_injection.restore(self.now_ms)
        super()._next_phase()
        faulty = self.activity.phase is Phase.FAULTS_INJECTED
        self.phase_ends_ms = self.now_ms + (FAULTS_MS if faulty else MOST_STEPS * 50)

    def deliver(self, rows: Sequence[DecodedRow]) -> None:
        super().deliver(rows)
        if self.now_ms < self.begins_ms:
            return
        if self.away is None:
            self._ask(NodeId(self.left[0]))
        elif self.now_ms >= self.away[1]:
            self._return(*self.away)

    def _ask(self, node: NodeId) -> None:
        state = cluster_state(self.checker.monitor.machine.quorum(), self.checker.monitor.settings.thresholds)
        answer = evaluate_restart(state, node)
        said = {True: "safe", False: "not safe", None: "unknown"}[answer.safe]
        self.count.asked[said] += 1
        self.why = f"{said}: {'; '.join((*map(str, answer.against), *answer.unknown))}"
        if not answer.safe:
            return
        future = Future(self.now_ms, self.nodes, self.network)
        future.settle()
        if not outcomes_of(future, node)[RESTART]:
            newer = self.now_ms - self.fault_ms <= observation_age_ms(state.quorum) + LATE_MS
            self.count.asked["a newer fault"] += newer
            if not newer:
                self.count.wrong.append(f"controller {node} was safe, and no record is committed: {self.location()}")
        self._node(node).stop()
        self.away = node, self.now_ms + self.random.randint(*AWAY_MS), state.quorum.now_ms

    def _return(self, node: NodeId, _: int, since_ms: Millis) -> None:
        process = self._node(node)
        if not process.up:
            process.start(self.now_ms)
        answer = after_restart(Facts(self.checker.monitor.machine.quorum()), node, since_ms)
        self.why = f"not back: {'; '.join((*answer.missing, *answer.unknown))}"
        if answer.back:
            self.left.remove(node)
            self.away = None

    def _node(self, node: int) -> SimulatedController:
        return next(one for one in self.nodes if one.id == node and not one.is_clone)


def quorum_rolls(seeds: Iterable[int]) -> RollCount:
    """Rolls a quorum for each seed."""
    count = RollCount()
    for seed in seeds:
        QuorumRoll(seed, count).roll()
    return count
