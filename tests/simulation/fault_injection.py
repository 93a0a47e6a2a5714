"""FaultInjection: crashes, network partitions, lost disks, moved controllers and clock jumps, by the seed."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from tests.simulation.controller import SimulatedController
from tests.simulation.gatherer import MONITOR_ID, SimulatedGatherer
from tests.simulation.network import EndpointState, Network

CONTROLLERS_MAX = 6
CLONES = 50
"""How much higher the number of a clone's host is than that of the controller whose node id it has."""


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
    """How often among the others clocks step and processes are suspended."""
    of_copies: int = 0
    """How often among the others a disk, and with it ids and epochs, is copied or restored."""
    count: int = 0
    """The number of injected faults."""

    def inject(self, now_ms: int) -> str:
        """Injects one fault; returns its name."""
        faults: tuple[Callable[[int], None], ...] = (
            self.kill, self.kill, self.stop, self.start, self.start, self.partition_network,
            self.partition_network, self.repair, self.one_way, self.disturb, self.disturb, self.replace_disk,
            self.move_endpoint, self.skew, self.skew_monitor, self.compact, self.one_way, self.cut_off_leader,
            self.cut_off_leader, self.break_endpoint, self.start_unfinished_change, self.add_observer,
            *((self.deny, self.reject, self.distrust, self.fail_resolver) * self.of_access),
            *((self.set_clocks_back, self.set_clocks_back, self.set_clocks_forward, self.suspend) * self.of_clocks),
            *((self.copy_disk, self.clone, self.restore_disk) * self.of_copies),
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

    def fail_resolver(self, _now_ms: int) -> None:
        """Lets a host, also the monitor's, resolve one name or none; open connections stay."""
        sender = self.random.choice((MONITOR_ID, *(node.id for node in self.nodes)))
        names = [node.id for node in self.nodes if node.id != sender]
        self.network.unresolved |= {(sender, name) for name in self.random.choice((names, names[:1], names[-1:]))}

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
        """Sets the clocks of all hosts, of some, or of all but one back, as a time service does that was wrong."""
        by_ms, hosts = self.random.randint(20_000, 90_000), self._hosts()
        leader = next((node for node in self.nodes if node.up and node.leads), None)
        shown = leader in hosts or self.random.random() < 0.3
        if shown and leader not in hosts:
            self.gatherer.clock_back_ms += by_ms
            self.gatherer.set_back_until_ms = max(self.gatherer.set_back_until_ms, now_ms + by_ms)
        for node in hosts:
            node.set_clock_back(now_ms, by_ms)
            node.set_back_unseen = not shown

    def set_clocks_forward(self, now_ms: int) -> None:
        """Sets the clocks of all hosts, of some, or of all but one forward."""
        by_ms = self.random.randint(10_000, 3_600_000)
        for node in self._hosts():
            node.set_clock_forward(now_ms, by_ms)

    def _hosts(self) -> list[SimulatedController]:
        one = self.random.choice(self.nodes)
        rest = [node for node in self.nodes if node is not one]
        return self.random.choice(([*self.nodes], [*self.nodes], [one], rest))

    def suspend(self, now_ms: int) -> None:
        """Suspends a process, for less or longer than its peers wait for it."""
        self.random.choice(self.nodes).suspend(now_ms + self.random.choice((1_500, 8_000, 40_000)))

    def copy_disk(self, now_ms: int) -> None:
        """Starts a new controller on a copy of another one's disk, with its directory id."""
        if self.dynamic and len(self.nodes) < CONTROLLERS_MAX:
            self.add_controller(now_ms, copy_of=self.random.choice(self.nodes))

    def clone(self, now_ms: int) -> None:
        """Starts a second process of a controller on another host, with its node id and directory id."""
        of = self.random.choice(self.nodes)
        if not of.is_clone and not any(node.is_clone for node in self.nodes):
            clone = self.new_controller(id=of.id + CLONES)
            clone.clone(of)
            self.nodes.append(clone)
            clone.start(now_ms)

    def end_clones(self) -> None:
        for node in [node for node in self.nodes if node.is_clone]:
            node.stop()
            self.nodes.remove(node)

    def restore_disk(self, now_ms: int) -> None:
        """Restores the disk of a controller from an older copy: the same ids, and a log that ends earlier."""
        node = self.random.choice(self.nodes)
        if self._majority_without(node):
            node.stop()
            node.lose_records(self.random.randint(node.log.start, max(node.log.start, len(node.log))))
            node.start(now_ms)

    def compact(self, _now_ms: int) -> None:
        """Writes a snapshot of the committed records and drops the log below it."""
        node = self.random.choice(self.nodes)
        node.log.start = max(node.log.start, node.log.stable_end(node.high_watermark))

    def restore(self, now_ms: int) -> None:
        """Starts every controller and restores the network; broken endpoints stay."""
        self.network.restore()
        for _ in self.nodes:
            self.start(now_ms)
