"""FaultInjection: crashes, network partitions, lost disks, moved controllers and clock jumps, by the seed."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from tests.simulation.controller import SimulatedController
from tests.simulation.gatherer import MONITOR_ID, SimulatedGatherer
from tests.simulation.network import EndpointState, Network

CONTROLLERS_MAX = 6


@dataclass(slots=True)
class FaultInjection:
    """Every fault is recoverable: a majority of the voters' directories is never lost, endpoints can be restored."""

    random: Random
    nodes: list[SimulatedController]
    network: Network
    gatherer: SimulatedGatherer
    new_controller: Callable[..., SimulatedController]
    of_access: int = 0
    """How often among the others those are chosen that make a controller not trust, accept or permit another one."""
    of_clocks: int = 0
    """How often among the others the clocks of all hosts are set back."""
    count: int = 0
    """The number of injected faults."""

    def inject(self, now_ms: int) -> str:
        """Injects one fault; returns its name."""
        faults: tuple[Callable[[int], None], ...] = (
            self.kill, self.kill, self.stop, self.start, self.start, self.partition_network,
            self.partition_network, self.repair, self.one_way, self.disturb, self.disturb, self.replace_disk,
            self.move_endpoint, self.skew, self.skew_monitor, self.compact, self.one_way, self.cut_off_leader,
            self.cut_off_leader, self.break_endpoint, self.start_unfinished_change, self.add_observer,
            *((self.deny, self.reject, self.distrust) * self.of_access), *((self.set_clocks_back,) * self.of_clocks),
        )  # fmt: skip
        fault = self.random.choice(faults)
        fault(now_ms)
        self.count += 1
        return str(fault.__name__)

    @property
    def dynamic(self) -> bool:
        """True if a log has voter sets: faults that need directory ids and AddVoter are possible."""
        return any(not node.log.static for node in self.nodes)

    def kill(self, _now_ms: int) -> None:
        self.random.choice(self.nodes).stop()

    def stop(self, now_ms: int) -> None:
        """Shuts a controller down cleanly: a leader first names its preferred successors."""
        node = self.random.choice(self.nodes)
        if node.up and node.leads:
            node.resign(now_ms)
        node.stop()

    def start(self, now_ms: int) -> None:
        for node in self.nodes:
            if not node.up:
                node.start(now_ms)
                return

    def partition_network(self, _now_ms: int) -> None:
        """Partitions the network in two; the gatherer is on one side."""
        for node_id in (MONITOR_ID, *(node.id for node in self.nodes)):
            self.network.network_partitions[node_id] = self.random.randint(0, 1)

    def repair(self, _now_ms: int) -> None:
        self.network.restore()

    def one_way(self, _now_ms: int) -> None:
        """Blocks the connections of the gatherer or of a controller to a controller."""
        one, other = self.random.choices(self.nodes, k=2)
        self.network.one_way.add((self.random.choice((MONITOR_ID, one.id)), other.id))

    def disturb(self, _now_ms: int) -> None:
        """Makes the network lossy or slow, or ends that."""
        name = self.random.choice(("loss_probability", "slow_probability"))
        setattr(self.network, name, self.random.choice((0.0, 0.05, 0.3)))

    def cut_off_leader(self, now_ms: int) -> None:
        """Cuts a leader off, which then writes records that will be truncated, such as a voter change."""
        leader = next((node for node in self.nodes if node.leads), None)
        if leader is None:
            return
        for node in self.nodes:
            self.network.network_partitions[node.id] = int(node is leader)
        self.network.network_partitions[MONITOR_ID] = self.random.randint(0, 1)
        others = [voter for voter in leader.log.voters if voter.key != leader.key]
        if len(others) > 1 and self._directories_match_voters(leader):
            for removed in self.random.sample(others, 2):
                # The second one is rejected: the first is not committed.
                leader.change_voters(now_ms, tuple(voter for voter in leader.log.voters if voter is not removed))

    def replace_disk(self, now_ms: int) -> None:
        """Replaces a disk: same node id, new directory id, empty log."""
        node = self.random.choice(self.nodes)
        if self.dynamic and self._majority_without(node):
            node.lose_disk(f"dir{node.id}-{self.count}")
            node.start(now_ms)

    def move_endpoint(self, now_ms: int) -> None:
        """Restarts a controller on another port."""
        node = self.random.choice(self.nodes)
        if self.dynamic:
            self._change_port(node)
            node.start(now_ms)

    def deny(self, now_ms: int) -> None:
        """Restarts a controller with an authorizer that denies what all others send, and the monitor too or not."""
        node = self._restarted(now_ms)
        self.network.denied |= self._pairs_to(node)

    def reject(self, now_ms: int) -> None:
        """Restarts a controller that accepts no other one's login any more, nor the monitor's; or that one alone."""
        node = self._restarted(now_ms)
        self.network.rejected |= self._pairs_to(node)

    def distrust(self, now_ms: int) -> None:
        """Restarts a controller with a certificate of an authority that only some of the others trust."""
        node = self._restarted(now_ms)
        distrusting = (
            pair for pair in sorted(self._pairs_to(node)) if self.random.random() < (0.8 if pair[0] else 0.5)
        )
        self.network.distrusted |= {*distrusting}

    def _restarted(self, now_ms: int) -> SimulatedController:
        node = self.random.choice(self.nodes)
        node.start(now_ms)
        return node

    def _pairs_to(self, node: SimulatedController) -> set[tuple[int, int]]:
        """Returns the others with this node: whether the monitor, whose login is its own, is among them is random."""
        senders = [each.id for each in self.nodes if each is not node]
        return {(sender, node.id) for sender in (*senders, *([MONITOR_ID] if self.random.random() < 0.5 else ()))}

    def start_unfinished_change(self, now_ms: int) -> None:
        """Removes a voter while another one is down and moves: afterwards no voter may be electable."""
        leader = next((node for node in self.nodes if node.leads and node.key in node.log.keys), None)
        if leader is None or not self._directories_match_voters(leader) or self.random.random() < 0.5:
            return
        others = [node for node in self.nodes if node is not leader and node.key in leader.log.keys]
        if len(others) > 1:
            down, removed = self.random.sample(others, 2)
            self._change_port(down)
            leader.change_voters(now_ms, tuple(voter for voter in leader.log.voters if voter.key != removed.key))

    def break_endpoint(self, _now_ms: int) -> None:
        """Breaks a recorded endpoint: its name does not resolve, it is closed, or another node answers."""
        _, endpoint = self.random.choice(self.gatherer.recorded())
        self.network.endpoint_states[endpoint] = self.random.choice([*EndpointState])

    def add_observer(self, now_ms: int) -> None:
        """Starts a controller that was formatted without initial controllers: it could be a voter."""
        if not self.dynamic or len(self.nodes) >= CONTROLLERS_MAX or self.random.random() < 0.6:
            return
        self.add_controller(now_ms)

    def add_controller(self, now_ms: int, copy_of: SimulatedController | None = None) -> SimulatedController:
        """Starts another controller, with an empty disk or with a copy of another one's."""
        node = self.new_controller(id=len(self.nodes) + 1)
        if copy_of is not None:
            node.lose_disk(copy_of.directory)
            node.log.append(copy_of.log.entries)
            node.log.start, node.epoch = copy_of.log.start, copy_of.epoch
        self.nodes.append(node)
        node.start(now_ms)
        return node

    def _change_port(self, node: SimulatedController) -> None:
        node.stop()
        node.port += 10_000 if node.port < 20_000 else -10_000

    def _directories_match_voters(self, leader: SimulatedController) -> bool:
        return {node.key for node in self.nodes}.issuperset(leader.log.keys)

    def _majority_without(self, node: SimulatedController) -> bool:
        """Returns whether every voter set that may count has a majority of recorded directories without this node."""
        others = {each.key for each in self.nodes if each is not node}
        sets = [{voter.key for voter in s} for each in self.nodes for s in (each.log.voters, each.log.previous) if s]
        return all(len(voters & others) >= len(voters) // 2 + 1 for voters in sets)

    def skew(self, _now_ms: int) -> None:
        self.random.choice(self.nodes).skew_ms = self.random.randint(-5_000, 5_000)

    def skew_monitor(self, _now_ms: int) -> None:
        """Sets the monitor's clock forward or back."""
        self.gatherer.skew_ms += self.random.randint(-2_000, 2_000)

    def set_clocks_back(self, now_ms: int) -> None:
        """Sets the clocks of all hosts back, but the monitor's, as a time service does that was wrong."""
        by_ms = self.random.randint(20_000, 90_000)
        for node in self.nodes:
            node.set_clock_back(now_ms, by_ms)

    def compact(self, _now_ms: int) -> None:
        """Writes a snapshot of the committed records and drops the log below it."""
        node = self.random.choice(self.nodes)
        node.log.start = max(node.log.start, node.log.stable_end(node.high_watermark))

    def restore(self, now_ms: int) -> None:
        """Starts every controller and restores the network; broken endpoints stay."""
        self.network.restore()
        for _ in self.nodes:
            self.start(now_ms)
