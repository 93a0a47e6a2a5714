"""Chaos: what is done to the quorum, by the seed: crashes, split networks, lost disks, moves, clocks that jump."""

from dataclasses import dataclass
from random import Random

from tests.simulation.controller import Controller
from tests.simulation.gatherer import ME
from tests.simulation.network import Network


@dataclass(slots=True)
class Chaos:
    """Whatever it does can be healed: a majority of the voters' directories is never lost."""

    random: Random
    nodes: list[Controller]
    network: Network
    deeds: int = 0

    def strike(self, now_ms: int) -> str:
        """One deed, named."""
        self.deeds += 1
        deeds = (
            self.crash, self.crash, self.start, self.start, self.part, self.part, self.mend, self.one_way, self.lossy,
            self.slow, self.wipe, self.move, self.skew, self.compact, self.blind, self.isolate, self.isolate,
        )  # fmt: skip
        deed = self.random.choice(deeds)
        deed(now_ms)
        return deed.__name__

    def crash(self, _now_ms: int) -> None:
        self.random.choice(self.nodes).stop()

    def start(self, now_ms: int) -> None:
        for node in self.nodes:
            if not node.up:
                node.start(now_ms)
                return

    def part(self, _now_ms: int) -> None:
        """Two islands; the gatherer is on one of them."""
        for place in (ME, *(node.id for node in self.nodes)):
            self.network.islands[place] = self.random.randint(0, 1)

    def mend(self, _now_ms: int) -> None:
        self.network.heal()

    def one_way(self, _now_ms: int) -> None:
        one, other = self.random.choices(self.nodes, k=2)
        self.network.one_way.add((one.id, other.id))

    def lossy(self, _now_ms: int) -> None:
        self.network.loss = self.random.choice((0.0, 0.05, 0.3))

    def slow(self, _now_ms: int) -> None:
        self.network.slow = self.random.choice((0.0, 0.05, 0.3))

    def isolate(self, now_ms: int) -> None:
        """A leader is cut off from all voters, and goes on writing what will be cut off: a voter change for one."""
        leader = next((node for node in self.nodes if node.leads), None)
        if leader is None:
            return
        for node in self.nodes:
            self.network.islands[node.id] = int(node is leader)
        self.network.islands[ME] = self.random.randint(0, 1)
        others = [voter for voter in leader.log.voters if voter.key != leader.key]
        recorded = {node.voter for node in self.nodes}
        # With a longer log than all others and a voter moved, a set of two could elect nobody, in Kafka neither.
        if len(others) > 1 and recorded.issuperset(leader.log.voters):
            gone = self.random.choice(others)
            leader.change_voters(now_ms, tuple(voter for voter in leader.log.voters if voter is not gone))

    def wipe(self, now_ms: int) -> None:
        """A disk is replaced: same node id, new directory id, empty log."""
        node = self.random.choice(self.nodes)
        if self._spared(node):
            node.lose_disk(f"dir{node.id}-{self.deeds}")
            node.start(now_ms)

    def move(self, now_ms: int) -> None:
        """A controller comes back on another port."""
        node = self.random.choice(self.nodes)
        if self._spared(node):
            node.stop()
            node.port += 10_000 if node.port < 20_000 else -10_000
            node.start(now_ms)

    def _spared(self, node: Controller) -> bool:
        """Without this one, every set that may count has a majority whose disks and endpoints are as recorded."""
        others = {each.voter for each in self.nodes if each is not node}
        sets = [{*voters} for each in self.nodes for voters in (each.log.voters, each.log.previous) if voters]
        return all(len(voters & others) >= len(voters) // 2 + 1 for voters in sets)

    def skew(self, _now_ms: int) -> None:
        self.random.choice(self.nodes).skew_ms = self.random.randint(-5_000, 5_000)

    def compact(self, _now_ms: int) -> None:
        """A controller writes a snapshot of what is committed and drops the log below it."""
        node = self.random.choice(self.nodes)
        node.log.start = max(node.log.start, node.high_watermark)

    def blind(self, _now_ms: int) -> None:
        """The gatherer is cut off from one controller."""
        self.network.one_way.add((ME, self.random.choice(self.nodes).id))

    def heal(self, now_ms: int) -> None:
        """Everything runs, all can talk."""
        self.network.heal()
        for node in self.nodes:
            if not node.up:
                node.start(now_ms)
