"""IncidentScene: what an incident acts on. An incident happens in a quorum that has just recovered completely."""

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from connectors.observations.log_event import LogEvent, RecordPosition
from tests.simulation.controller import SimulatedController
from tests.simulation.simulated_thresholds import HOLD_S

if TYPE_CHECKING:
    from tests.simulation.simulation import Simulation

NOTICED_MS = 23_000
"""How long it takes until a condition is certain whatever the clocks, and its alert is late."""


@dataclass(frozen=True, slots=True)
class IncidentScene:
    """A simulation, and the random choices of its incidents."""

    simulation: "Simulation"
    random: Random

    @property
    def now_ms(self) -> int:
        return self.simulation.now_ms

    @property
    def leader(self) -> SimulatedController:
        """The leader of the newest epoch."""
        leading = [node for node in self.simulation.nodes if node.up and node.leads]
        assert leading, "an incident begins in a quorum with a leader, and waits for one before it ends"
        return max(leading, key=lambda node: node.epoch)

    @property
    def followers(self) -> list[SimulatedController]:
        """The other voters, in random order."""
        leader = self.leader
        followers = [node for node in self.simulation.nodes if node.key in leader.log.keys and node is not leader]
        self.random.shuffle(followers)
        return followers

    @property
    def at(self) -> RecordPosition:
        """The position of the next record."""
        return self.leader.at(self.now_ms)

    def write(self, event: LogEvent) -> None:
        """Writes a record as the active controller."""
        self.leader.write(self.now_ms, event)

    def restart(self, node: SimulatedController) -> None:
        node.stop()
        node.start(self.now_ms)

    def cut_off(self, *nodes: SimulatedController) -> None:
        """Cuts these controllers off from all others, but not from the gatherer."""
        for node in nodes:
            for other in self.simulation.nodes:
                if other is not node:
                    self.simulation.network.one_way |= {(node.id, other.id), (other.id, node.id)}


def fires_within(rule: str, after_s: float = 0.0) -> int:
    """Returns how long a condition of this rule must last until its alert must fire, in milliseconds.

    Args:
        rule: the rule's id.
        after_s: how long a fault lasts before it is a condition.
    """
    return int((HOLD_S[rule] + after_s) * 1_000) + NOTICED_MS
