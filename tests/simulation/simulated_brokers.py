"""Brokers and partitions as the active controller changes them, written as its log; and a roll by the gate.

The rules are those of ReplicationControlManager and PartitionChangeBuilder: a broker that shuts down or is fenced
leaves the ISRs, the last replica of one stays in it (with KIP-966 it becomes eligible), another in-sync replica leads.
"""

from collections import Counter
from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass, field
from random import Random

from rules.answers.broker_restart import NO_TERMS, broker_restart
from rules.facts.quorum import Facts
from rules.model.identifiers import NodeId
from tests.scripts.log_commands import append
from tests.scripts.log_script import apply, begun

MOST_TICKS = 400
"""How long a roll waits for one broker: all faults have ended long before."""
FAULTS_END_AFTER = 60


@dataclass
class Partition:
    """One partition."""

    replicas: tuple[int, ...]
    min_isr: int
    isr: list[int]
    leader: int | None
    elr: set[int] = field(default_factory=set)

    @property
    def needed(self) -> int:
        """How many in-sync replicas a producer with acks=all needs (Partition.effectiveMinIsr)."""
        return min(self.min_isr, len(self.replicas))

    @property
    def fails(self) -> bool:
        """Whether it has several replicas, and a producer with acks=all is refused."""
        return len(self.replicas) > 1 and (self.leader is None or len(self.isr) < self.needed)


class SimulatedBrokers:
    """The brokers and partitions of one cluster."""

    def __init__(self, random: Random) -> None:
        self.random, self.elr = random, random.random() < 0.5
        """Whether eligible leader replicas are on (KIP-966)."""
        self.alive = set(range(101, 101 + random.randint(3, 7)))
        self.brokers = sorted(self.alive)
        self.partitions: dict[tuple[str, int], Partition] = {}
        for topic in ("orders", "payments", "audit"):
            count = random.randint(1, min(5, len(self.brokers)))
            for number in range(random.randint(1, 6)):
                replicas = tuple(random.sample(self.brokers, count))
                min_isr = random.randint(1, max(1, count - 1))
                self.partitions[topic, number] = Partition(replicas, min_isr, [*replicas], replicas[0])
            first = self.partitions[topic, 0].min_isr
            for number in range(10):
                if (topic, number) in self.partitions:
                    self.partitions[topic, number].min_isr = first

    def leave(self, broker: int) -> None:
        """A broker shuts down or is fenced."""
        self.alive.discard(broker)
        for partition in self.partitions.values():
            if broker in partition.isr:
                self._without(partition, broker)

    def _without(self, partition: Partition, broker: int) -> None:
        isr = [node for node in partition.isr if node != broker]
        if self.elr and len(isr) < partition.needed:
            partition.elr = (partition.elr | {*partition.isr}) - {*isr}
        if isr or self.elr:
            partition.isr = isr
        if partition.leader == broker or partition.leader is None:
            self._elect(partition)

    def _elect(self, partition: Partition) -> None:
        leader = next((node for node in partition.isr if node in self.alive), None)
        if leader is None and not partition.isr:
            leader = next((node for node in sorted(partition.elr) if node in self.alive), None)
        partition.leader = leader
        if leader is not None and leader not in partition.isr:
            partition.isr = [leader]
            partition.elr -= {leader}

    def start(self, broker: int) -> None:
        """A broker is unfenced: it leads what waits for it, and catches up with the rest."""
        self.alive.add(broker)
        for partition in self.partitions.values():
            if partition.leader is None and broker in partition.replicas:
                self._elect(partition)

    def lag(self) -> None:
        """A follower falls out of an ISR."""
        led = [one for one in self.partitions.values() if one.leader is not None and len(one.isr) > 1]
        if led:
            partition = self.random.choice(led)
            self._without(partition, next(node for node in partition.isr if node != partition.leader))

    def catch_up(self) -> bool:
        """Some replica joins an ISR; returns whether there was one to join."""
        behind = [
            (partition, node)
            for partition in self.partitions.values()
            if partition.leader is not None
            for node in partition.replicas
            if node in self.alive and node not in partition.isr
        ]
        if behind:
            partition, node = self.random.choice(behind)
            partition.isr.append(node)
            partition.elr -= {node}
            if len(partition.isr) >= partition.needed:
                partition.elr.clear()
        return bool(behind)

    def cost(self, broker: int) -> bool:
        """Returns whether the shutdown of a broker refuses a producer: by a copy that does it."""
        before = {key for key, one in self.partitions.items() if broker in one.isr and one.leader is not None}
        copy = deepcopy(self)
        copy.leave(broker)
        return any(copy.partitions[key].fails for key in before)


@dataclass
class RollCount:
    """What the rolls of many clusters have shown."""

    asked: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    @property
    def report(self) -> str:
        """The counts, and the first wrong answers."""
        return f"{dict(self.asked)}; wrong: {self.wrong[:5]}"


class SimulatedRoll:
    """Restarts all brokers of a cluster, each when the gate says so, while others fail and fall behind."""

    def __init__(self, seed: int, count: RollCount) -> None:
        self.random, self.seed, self.count = Random(seed), seed, count
        self.cluster = SimulatedBrokers(self.random)
        self.script, self.replay = begun()
        self._written = deepcopy(self.cluster)
        self._down: dict[int, int] = {}
        """By broker that failed, the ticks until it starts."""
        self._ticks = 0
        for broker in self.cluster.brokers:
            self.script.broker(broker, fenced=False)
        for topic in sorted({topic for topic, _ in self.cluster.partitions}):
            self.script.topic(topic)
            append(self.script, f"config {topic} min-isr {self.cluster.partitions[topic, 0].min_isr}")
        for (topic, number), one in self.cluster.partitions.items():
            self.script.partition(topic, number, *one.replicas)

    def run(self) -> None:
        """Rolls the cluster."""
        left = [*self.cluster.brokers]
        self.random.shuffle(left)
        for broker in left:
            if not self._wait_until_safe(broker):
                self.count.wrong.append(f"seed {self.seed}: stuck at broker {broker}")
                return
            self._restart(broker)
        self.count.asked["rolls"] += 1

    def _wait_until_safe(self, broker: int) -> bool:
        for _ in range(MOST_TICKS):
            self._tick(others_than=broker)
            answer = self._answer(broker)
            if answer:
                return True
        return False

    def _answer(self, broker: int) -> bool:
        facts = Facts(apply(self.replay, [self.script.read()]))
        found = broker_restart(facts, NodeId(broker), NO_TERMS)
        cost = self.cluster.cost(broker)
        said = "unknown" if found.unobserved else "not safe" if found.against else "safe"
        self.count.asked[said] += 1
        if said == "unknown" or (said == "safe") is cost:
            self.count.wrong.append(f"seed {self.seed}: broker {broker} {said}, cost {cost}: {found}")
        return said == "safe"

    def _restart(self, broker: int) -> None:
        self.script.broker_change(broker, shutdown=True)
        self.cluster.leave(broker)
        self._write()
        self.script.broker_change(broker, fenced=True)
        for _ in range(self.random.randint(0, 4)):
            self._tick(others_than=broker)
        self.script.broker(broker, fenced=False)
        self.cluster.start(broker)
        self._write()

    def _tick(self, *, others_than: int) -> None:
        """A second passes: someone fails, starts, falls behind or catches up."""
        self._ticks += 1
        cluster, random = self.cluster, self.random
        for broker, ticks in [*self._down.items()]:
            self._down[broker] = ticks - 1
            if ticks <= 0:
                del self._down[broker]
                self.script.broker_change(broker, fenced=False)
                cluster.start(broker)
        if self._ticks < FAULTS_END_AFTER and random.random() < 0.15:
            up = sorted(cluster.alive - {others_than})
            if up and random.random() < 0.4:
                broker = random.choice(up)
                self._down[broker] = random.randint(1, 12)
                self.script.broker_change(broker, fenced=True)
                cluster.leave(broker)
            else:
                cluster.lag()
        for _ in range(random.randint(0, 3)):
            cluster.catch_up()
        self._write()

    def _write(self) -> None:
        for (topic, number), one in self.cluster.partitions.items():
            before = self._written.partitions[topic, number]
            if one != before:
                self.script.change(
                    topic,
                    number,
                    isr=tuple(one.isr),
                    elr=tuple(sorted(one.elr)),
                    leader=one.leader if one.leader != before.leader else None,
                    leaderless=one.leader is None and before.leader is not None,
                )
        self._written = deepcopy(self.cluster)


def rolls(seeds: Iterable[int]) -> RollCount:
    """Rolls a cluster for each seed."""
    count = RollCount()
    for seed in seeds:
        SimulatedRoll(seed, count).run()
    return count
