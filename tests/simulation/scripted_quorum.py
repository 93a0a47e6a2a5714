"""A Scene: a simulated quorum of which nobody does anything but what the test says; the monitor looks on, judged."""

from collections.abc import Callable

from rules.model.identifiers import ReplicaKey
from tests.simulation.activity import Phase
from tests.simulation.controller import Controller
from tests.simulation.gatherer import ME
from tests.simulation.simulation import Simulation


class Scene(Simulation):
    """Controllers by their node id; it begins when one of them leads and all is committed."""

    def __init__(
        self, controllers: int = 3, *, seed: int = 7, static: bool = False, faults: frozenset[str] = frozenset()
    ) -> None:
        super().__init__(seed, controllers=controllers, static=static, faults=faults)
        self.activity.phase = Phase.NEGLECT
        self.phase_ends_ms = self.now_ms + 10**9
        self.gatherer.slow = 0.0
        self.until(lambda: self.leading is not None and len(self.truth.committed) > 12, 20)

    def node(self, number: int) -> Controller:
        return self.nodes[number - 1]

    @property
    def leading(self) -> Controller | None:
        """Who leads the newest epoch, if it is up."""
        leaders = [node for node in self.nodes if node.up and node.leads]
        return max(leaders, key=lambda node: node.epoch, default=None)

    @property
    def leader(self) -> Controller:
        assert self.leading is not None
        return self.leading

    @property
    def followers(self) -> list[Controller]:
        """Its voters but for the leader, by node id."""
        return [node for node in self.nodes if node.key in self.leader.log.keys and node is not self.leader]

    def seconds(self, seconds: float) -> None:
        """So much time passes."""
        end = self.now_ms + int(seconds * 1_000)
        while self.now_ms < end:
            self.step()

    def until(self, what: Callable[[], bool], seconds: float) -> float:
        """How many seconds pass until it is so, which must be within `seconds`."""
        began = self.now_ms
        while not what():
            assert self.now_ms - began < seconds * 1_000, f"not within {seconds} s"
            self.step()
        return (self.now_ms - began) / 1_000

    def cut(self, *nodes: Controller, monitor: bool = False) -> None:
        """These can talk to each other alone; the monitor with them, or with the rest."""
        self.network.islands = {node.id: 1 for node in nodes} | {ME: int(monitor)}

    def observer(self) -> Controller:
        """One more controller, which has caught up."""
        while len(self.nodes) == self._woken:
            self.chaos.join(self.now_ms)
        self._plan(1, "wake", self._woken)
        self._woken = len(self.nodes)
        node = self.nodes[-1]
        self.until(lambda: len(node.log) >= self.leader.high_watermark, 20)
        return node

    def add(self, node: Controller) -> bool:
        """add-controller."""
        return self.leader.change_voters(self.now_ms, (*self.leader.log.voters, node.voter))

    def remove(self, node: Controller) -> bool:
        """remove-controller."""
        left = tuple(voter for voter in self.leader.log.voters if voter.key != node.key)
        return self.leader.change_voters(self.now_ms, left)

    @property
    def shown(self) -> frozenset[ReplicaKey]:
        """The voters that the monitor takes for committed."""
        committed = self.judge.watch.machine.quorum().committed
        return committed.keys if committed else frozenset()

    def told(self, rule: str) -> bool:
        """Whether the monitor tells this now."""
        return any(which == rule for which, _ in self.judge.firing())
