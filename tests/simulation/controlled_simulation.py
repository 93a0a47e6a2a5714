"""A ControlledSimulation: a simulated quorum in which only the test injects faults; its monitor is checked."""

from collections.abc import Callable

from tests.simulation.activity import Phase
from tests.simulation.controller import SimulatedController
from tests.simulation.simulation import Simulation


class ControlledSimulation(Simulation):
    """Controllers by node id; it starts with a leader and a committed log."""

    def __init__(self, controllers: int = 3) -> None:
        super().__init__(7, controllers=controllers, static=False)
        self.activity.phase = Phase.UNATTENDED
        self.phase_ends_ms = self.now_ms + 10**9
        self.gatherer.slow_probability = 0.0
        self.until(lambda: self.leading is not None and len(self.ground_truth.committed) > 12, 20)

    @property
    def leading(self) -> SimulatedController | None:
        """The leader of the newest epoch, if it is up."""
        leaders = [node for node in self.nodes if node.up and node.leads]
        return max(leaders, key=lambda node: node.epoch, default=None)

    @property
    def leader(self) -> SimulatedController:
        assert self.leading is not None
        return self.leading

    @property
    def followers(self) -> list[SimulatedController]:
        """The voters except the leader, by node id."""
        return [node for node in self.nodes if node.key in self.leader.log.keys and node is not self.leader]

    def run_for(self, seconds: float) -> None:
        """Runs the simulation for this time."""
        end = self.now_ms + int(seconds * 1_000)
        while self.now_ms < end:
            self.step()

    def until(self, what: Callable[[], bool], seconds: float) -> float:
        """Runs until the condition is true, at most `seconds`; returns the seconds that passed."""
        began = self.now_ms
        while not what():
            assert self.now_ms - began < seconds * 1_000, f"not within {seconds} s"
            self.step()
        return (self.now_ms - began) / 1_000

    def observer(self) -> SimulatedController:
        """Adds a controller, and waits until it has caught up."""
        while len(self.nodes) == self._ticking:
            self.fault_injection.join(self.now_ms)
        self._schedule(1, "tick", self._ticking)
        self._ticking = len(self.nodes)
        node = self.nodes[-1]
        self.until(lambda: len(node.log) >= self.leader.high_watermark, 20)
        return node

    def add(self, node: SimulatedController) -> bool:
        """add-controller."""
        return self.leader.change_voters(self.now_ms, (*self.leader.log.voters, node.voter))

    def remove(self, node: SimulatedController) -> bool:
        """remove-controller."""
        left = tuple(voter for voter in self.leader.log.voters if voter.key != node.key)
        return self.leader.change_voters(self.now_ms, left)

    def is_firing(self, rule: str) -> bool:
        """Returns whether an alert of this rule is firing."""
        return any(which == rule for which, _ in self.checker.firing())
