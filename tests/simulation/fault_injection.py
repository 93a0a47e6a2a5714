"""Chaos: what is done to the quorum, by the seed: crashes, split networks, lost disks, moves, clocks that jump."""

from collections import Counter
from dataclasses import dataclass, field
from random import Random

from tests.simulation.controller import Controller
from tests.simulation.gatherer import ME, Gatherer
from tests.simulation.metadata_log import MetadataLog
from tests.simulation.network import Network, Place

CONTROLLERS_MAX = 6


@dataclass(slots=True)
class Chaos:
    """Whatever it does can be healed: a majority of the voters' directories is never lost, endpoints come back."""

    random: Random
    nodes: list[Controller]
    network: Network
    gatherer: Gatherer
    tally: Counter[str] = field(default_factory=Counter)
    """Which deed was done how often."""

    def strike(self, now_ms: int) -> str:
        """One deed, named."""
        deeds = (
            self.crash, self.crash, self.shut_down, self.start, self.start, self.part, self.part, self.mend,
            self.one_way, self.lossy, self.slow, self.wipe, self.move, self.skew, self.skew_monitor, self.compact,
            self.blind, self.isolate, self.isolate, self.vanish, self.half_done, self.join,
        )  # fmt: skip
        deed = self.random.choice(deeds)
        deed(now_ms)
        self.tally[deed.__name__] += 1
        return deed.__name__

    @property
    def deeds(self) -> int:
        """All that was done."""
        return self.tally.total()

    @property
    def dynamic(self) -> bool:
        """Some log has voter sets: what needs directory ids and AddVoter can be done."""
        return any(not node.log.static for node in self.nodes)

    def crash(self, _now_ms: int) -> None:
        self.random.choice(self.nodes).stop()

    def shut_down(self, now_ms: int) -> None:
        """In order: a leader says first who should succeed it."""
        node = self.random.choice(self.nodes)
        if node.up and node.leads:
            node.resign(now_ms)
        node.stop()

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
        if len(others) > 1 and self._disks_as_recorded(leader):
            for gone in self.random.sample(others, 2):
                # The second one is refused: the first is not committed.
                leader.change_voters(now_ms, tuple(voter for voter in leader.log.voters if voter is not gone))

    def wipe(self, now_ms: int) -> None:
        """A disk is replaced: same node id, new directory id, empty log."""
        node = self.random.choice(self.nodes)
        if self.dynamic and self._spared(node):
            node.lose_disk(f"dir{node.id}-{self.deeds}")
            node.start(now_ms)

    def move(self, now_ms: int) -> None:
        """A controller comes back on another port."""
        node = self.random.choice(self.nodes)
        if self.dynamic:
            self._move(node)
            node.start(now_ms)

    def half_done(self, _now_ms: int) -> None:
        """A voter is removed while another one is down, which comes back elsewhere: nobody may be electable then."""
        leader = next((node for node in self.nodes if node.leads and node.key in node.log.keys), None)
        if leader is None or not self._disks_as_recorded(leader) or self.random.random() < 0.5:
            return
        others = [node for node in self.nodes if node is not leader and node.key in leader.log.keys]
        if len(others) > 1:
            down, gone = self.random.sample(others, 2)
            self._move(down)
            leader.change_voters(_now_ms, tuple(voter for voter in leader.log.voters if voter.key != gone.key))

    def vanish(self, _now_ms: int) -> None:
        """A recorded endpoint no longer leads to its controller: its name is gone, it is closed, another answers."""
        _, endpoint = self.random.choice(self.gatherer.recorded())
        self.network.places[endpoint] = self.random.choice([*Place])

    def join(self, now_ms: int) -> None:
        """A controller that was formatted without initial controllers starts: it could be a voter."""
        if not self.dynamic or len(self.nodes) >= CONTROLLERS_MAX or self.random.random() < 0.6:
            return
        like, number = self.nodes[0], len(self.nodes) + 1
        node = Controller(
            id=number,
            directory=f"dir{number}",
            port=9_093,
            log=MetadataLog(),
            network=self.network,
            truth=like.truth,
            random=self.random,
            peers=self.nodes,
            faults=like.faults,
        )
        self.nodes.append(node)
        node.start(now_ms)

    def _move(self, node: Controller) -> None:
        node.stop()
        node.port += 10_000 if node.port < 20_000 else -10_000

    def _disks_as_recorded(self, leader: Controller) -> bool:
        return {node.key for node in self.nodes}.issuperset(leader.log.keys)

    def _spared(self, node: Controller) -> bool:
        """Without this one, every set that may count has a majority whose disks are as recorded."""
        others = {each.key for each in self.nodes if each is not node}
        sets = [{voter.key for voter in s} for each in self.nodes for s in (each.log.voters, each.log.previous) if s]
        return all(len(voters & others) >= len(voters) // 2 + 1 for voters in sets)

    def skew(self, _now_ms: int) -> None:
        self.random.choice(self.nodes).skew_ms = self.random.randint(-5_000, 5_000)

    def skew_monitor(self, _now_ms: int) -> None:
        """The monitor's own clock is set: forth or back."""
        self.gatherer.skew_ms += self.random.randint(-2_000, 2_000)

    def compact(self, _now_ms: int) -> None:
        """A controller writes a snapshot of what is committed and drops the log below it."""
        node = self.random.choice(self.nodes)
        node.log.start = max(node.log.start, node.log.stable_end(node.high_watermark))

    def blind(self, _now_ms: int) -> None:
        """The gatherer is cut off from one controller."""
        self.network.one_way.add((ME, self.random.choice(self.nodes).id))

    def heal(self, now_ms: int) -> None:
        """Everything runs, all can talk; what vanished stays so until somebody gives it back."""
        self.network.heal()
        for node in self.nodes:
            if not node.up:
                node.start(now_ms)
