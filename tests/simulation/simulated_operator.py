"""An operator who follows the printed steps, in their order, on brokers with records; and what is left of the records.

Brokers crash, start and lose log directories, and replicas are elected uncleanly, before the operator begins. The rules
of the controller are those of ReplicationControlManager, as in `simulated_brokers`: a replica that follows a leader
truncates its log to that one's, a broker without a directory creates its replicas again, empty, in another one
(KIP-858), and the last replica in the ISR is elected again, also if it is empty. Each acknowledged record that some
disk has when the operator begins can be saved by copying all disks first. So the steps must not lose one.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from rules.model.identifiers import DirectoryId, NodeId
from rules.model.quorum import Quorum
from rules.remedies.step import Act, Action, Plan, Step
from tests.remedy_conflicts import in_reading_order
from tests.scripts.log_commands import append
from tests.scripts.log_script import apply, formed_quorum
from tests.situation.case import evaluated

DIRECTORIES = 2
"""Log directories of a broker."""
MOST_STEPS = 40
MOST_EVENTS = 9
PAST_MS = 400_000
"""How long each state lasts: longer than every hold, and shorter than what has happened is remembered."""


class PartitionName(NamedTuple):
    """A partition."""

    topic: str
    number: int

    def __str__(self) -> str:
        """Returns its directory's name."""
        return f"{self.topic}-{self.number}"


@dataclass
class DataPartition:
    """One partition, as the metadata log has it."""

    replicas: tuple[int, ...]
    directories: list[str]
    isr: list[int]
    leader: int | None
    recovering: bool = False


@dataclass
class DataBroker:
    """A broker and its disks."""

    directories: list[str]
    alive: bool = True
    registered: set[str] = field(default_factory=set)
    former: dict[int, str] = field(default_factory=dict)
    """The disk that was in this place, if it still exists."""

    @property
    def disks(self) -> tuple[str, ...]:
        """The disks on its host, also those that are not mounted."""
        return (*self.directories, *self.former.values())


class DataCluster:
    """Brokers with records, and the metadata log that says what they do."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.script, self.replay = formed_quorum("1-a", "2-b", "3-c")
        count = random.randint(2, 4)
        self.brokers = {
            node: DataBroker([f"d{node}{place}" for place in range(DIRECTORIES)]) for node in range(101, 101 + count)
        }
        self.disks: dict[str, dict[PartitionName, list[int]]] = {
            directory: {} for broker in self.brokers.values() for directory in broker.directories
        }
        self.acknowledged: set[int] = set()
        self.copies: set[int] = set()
        self.unclean_enabled = random.random() < 0.3
        self.partitions: dict[PartitionName, DataPartition] = {}
        self.created = 0
        self.script.feature("metadata.version", 27)
        for node in self.brokers:
            self._register(node)
            self.script.broker_change(node, fenced=False)
        for topic in ("orders", "pay"):
            self.script.topic(topic)
            if self.unclean_enabled:
                append(self.script, f"config {topic} min-isr 1")
            for number in range(random.randint(1, 3)):
                self._create(PartitionName(topic, number))

    def _create(self, name: PartitionName) -> None:
        random = self.random
        replicas = tuple(random.sample([*self.brokers], random.randint(1, min(3, len(self.brokers)))))
        directories = [random.choice(self.brokers[node].directories) for node in replicas]
        for directory in directories:
            self.disks[directory][name] = []
        self.partitions[name] = DataPartition(replicas, directories, [*replicas], replicas[0])
        self.script.partition(*name, *replicas, directories=tuple(map(DirectoryId, directories)))

    def _register(self, node: int) -> None:
        self.brokers[node].registered = {*self.brokers[node].directories}
        dirs = tuple(map(DirectoryId, sorted(self.brokers[node].directories)))
        self.script.broker(node, log_dirs=dirs)

    def records(self, name: PartitionName, node: int) -> list[int]:
        """Returns the records of a replica; it is created, empty, if its disk has none."""
        partition = self.partitions[name]
        directory = partition.directories[partition.replicas.index(node)]
        return self.disks[directory].setdefault(name, [])

    def existing(self) -> set[int]:
        """Returns the acknowledged records that some disk or copy has."""
        on_disks = {record for disk in self.disks.values() for of_one in disk.values() for record in of_one}
        return self.acknowledged & (on_disks | self.copies)

    def _change(self, name: PartitionName, *, directories: bool = False) -> None:
        one = self.partitions[name]
        self.script.change(
            *name,
            isr=tuple(one.isr),
            leader=one.leader,
            leaderless=one.leader is None,
            recovering=one.recovering,
            directories=tuple(map(DirectoryId, one.directories)) if directories else None,
        )

    # --- what brokers and clients do -----------------------------------------------------------------------------

    def produce(self) -> None:
        """Clients write to each partition with a leader; all replicas in the ISR have what is acknowledged."""
        for name, one in self.partitions.items():
            if one.leader is not None:
                self.created += 1
                self.acknowledged.add(self.created)
                for node in one.isr:
                    self.records(name, node).append(self.created)

    def stop(self, node: int) -> None:
        """A broker is fenced."""
        self.brokers[node].alive = False
        self.script.broker_change(node, fenced=True)
        for name, one in self.partitions.items():
            if node in one.isr and len(one.isr) > 1:
                one.isr.remove(node)
            if one.leader == node:
                one.leader = next((each for each in one.isr if self.brokers[each].alive), None)
            self._change(name)

    def start(self, node: int) -> None:
        """A broker registers, creates what its disks lack, is unfenced, leads what waits for it, and follows."""
        broker = self.brokers[node]
        broker.alive = True
        self._register(node)
        for name, one in self.partitions.items():
            if node in one.replicas:
                place = one.replicas.index(node)
                recorded = one.directories[place]
                if recorded not in broker.directories or name not in self.disks[recorded]:
                    holding = [each for each in broker.directories if name in self.disks[each]]
                    one.directories[place] = next(iter(holding), self.random.choice(broker.directories))
                    self._change(name, directories=True)
                self.records(name, node)
        self.script.broker_change(node, fenced=False)
        self.settle()

    def settle(self) -> None:
        """The controller elects whom it may, and each replica that runs follows its leader."""
        for name, one in self.partitions.items():
            before = (one.leader, [*one.isr], one.recovering)
            if one.leader is None:
                one.leader = next((each for each in one.isr if self.brokers[each].alive), None)
            if one.leader is None and self.unclean_enabled:
                self._elect(one, next((each for each in one.replicas if self.brokers[each].alive), None))
            if one.leader is not None:
                for each in one.replicas:
                    if each != one.leader and self.brokers[each].alive:
                        self.records(name, each)[:] = self.records(name, one.leader)
                        one.isr += [] if each in one.isr else [each]
                one.recovering = one.recovering and len(one.isr) == 1
            if before != (one.leader, one.isr, one.recovering):
                self._change(name)

    def _elect(self, one: DataPartition, node: int | None) -> None:
        if node is not None:
            one.recovering = node not in one.isr
            one.leader, one.isr = node, [node]

    def elect(self, names: Iterable[PartitionName], *, avoided: int) -> None:
        """Elects uncleanly the longest replica that runs of each partition without a leader."""
        for name in names:
            one = self.partitions[name]
            running = [each for each in one.replicas if self.brokers[each].alive and each != avoided]
            if one.leader is None and running:
                self._elect(one, max(running, key=lambda each: len(self.records(name, each))))
                self._change(name)
        self.settle()

    def lose_directory(self, node: int, *, destroyed: bool) -> None:
        """A broker that is down gets an empty disk in the place of one of its own."""
        broker = self.brokers[node]
        place = self.random.randrange(DIRECTORIES)
        if place in broker.former:
            return
        former, new = broker.directories[place], f"{broker.directories[place]}x{self.script.offset}"
        broker.directories[place] = new
        self.disks[new] = {}
        if destroyed:
            self.disks[former] = {}
        else:
            broker.former[place] = former

    def mount_former(self, node: int, among: Collection[str] = ()) -> None:
        """Puts the former disks of a broker back; what it created again on others is kept aside."""
        broker = self.brokers[node]
        for place, former in [*broker.former.items()]:
            if former not in (among or {former}):
                continue
            del broker.former[place]
            self.copies |= {record for of_one in self.disks[broker.directories[place]].values() for record in of_one}
            for name in self.disks[former]:
                for other in broker.directories:
                    self.copies |= {*self.disks[other].pop(name, [])}
            broker.directories[place] = former

    def quorum(self) -> Quorum:
        """Returns the quorum after the state has lasted, as far as the monitor knows it."""
        apply(self.replay, [self.script.read()])
        self.script.noops(1)
        return apply(self.replay, [self.script.read(after_ms=PAST_MS)])

    def break_something(self) -> None:
        """One fault, or what a person does who reads no alert."""
        random = self.random
        node = random.choice([*self.brokers])
        broker = self.brokers[node]
        if broker.alive:
            self.stop(node)
            if random.random() < 0.5:
                self.lose_directory(node, destroyed=random.random() < 0.5)
        elif random.random() < 0.6:
            self.start(node)
        else:
            waiting = [name for name, one in self.partitions.items() if one.leader is None and random.random() < 0.5]
            self.elect(waiting, avoided=0)
        if random.random() < 0.8:
            self.produce()


@dataclass
class FollowedCount:
    """What following the steps in many clusters has shown."""

    clusters: int = 0
    acts: Counter[str] = field(default_factory=Counter)
    lost: list[str] = field(default_factory=list)
    lost_otherwise: int = 0
    """Clusters in which the acts without their conditions, in another order, lose a record."""

    @property
    def report(self) -> str:
        """The counts, and the first records that were lost."""
        return (
            f"{self.clusters} clusters, {dict(self.acts)}; in another order {self.lost_otherwise} lose records; "
            f"lost {len(self.lost)}: {self.lost[:3]}"
        )


class Operator:
    """Does what the alerts say, the worst alert first, each remedy from its first step on, once for each state."""

    def __init__(self, cluster: DataCluster, *, careful: bool = True) -> None:
        self.cluster, self.careful = cluster, careful
        self.done: list[str] = []
        self.trying: list[Action] = []
        self.forbidding: list[Plan] = []
        """What the steps of all alerts forbid: what another broker waits for is done as its own alert says."""

    def follow(self) -> None:
        """Follows the steps until nothing is left to do."""
        tried: set[str] = set()
        for _ in range(MOST_STEPS):
            quorum = self.cluster.quorum()
            step = next(self._next(quorum, tried), None)
            if step is None:
                return
            tried.add(step)

    def _next(self, quorum: Quorum, tried: set[str]) -> Iterator[str]:
        """Yields each step that was done; a person looks again after each."""
        findings = in_reading_order(evaluated(quorum).findings)
        self.forbidding = [line.plan for one in findings for line in one.remedy if isinstance(line, Step)]
        for finding in findings:
            before: list[Plan] = []
            for line in finding.remedy:
                if not isinstance(line, Step):
                    continue
                before.append(line.plan)
                if f"{finding.rule}: {line}" not in tried and self._applies(line) and self._does(line, before):
                    self.done.append(f"{finding.rule}: {line}")
                    yield f"{finding.rule}: {line}"

    def _applies(self, line: str) -> bool:
        """Returns whether the condition in a step's first words is true: the operator knows the disks."""
        former = any(one.former for one in self.cluster.brokers.values())
        if "former disk exists" in line or line.startswith("# Then "):
            return former
        if line.startswith("# If the disk is lost") or "when another replica leads them" in line:
            return not former
        return not line.startswith(("# If node", "# If it", "# If broker"))

    def _does(self, line: Step, before: Sequence[Plan]) -> bool:
        """Does what a step says, or what has to be done before it; returns whether that changed anything."""
        changed = False
        for action in line.plan.does:
            if self.cluster.brokers.keys() & {action.node} and not changed:
                changed = self._tries(action, before)
        return changed

    def _tries(self, action: Action, before: Sequence[Plan]) -> bool:
        """Does one act, or what must be done before it: then a person looks at the alerts again.

        Two brokers may wait for each other; then neither is touched.
        """
        assert action.node is not None
        if action in self.trying:
            return False
        self.trying.append(action)
        try:
            return self._tries_once(action, before)
        finally:
            self.trying.pop()

    def _tries_once(self, action: Action, before: Sequence[Plan]) -> bool:
        assert action.node is not None
        if self.careful:
            for plan in before:
                if not any(one.act is action.act and one.node in (None, action.node) for one in plan.forbids):
                    continue
                for until in plan.until:
                    if until.act in (Act.START, Act.STOP) and self._is_missing(until):
                        return self._tries(until, self.forbidding)
                    leaders = self._leaders()
                    done = self._is_done(until)
                    if leaders != self._leaders():
                        # Others were started, or one was elected: the alerts say what must be done before more.
                        return True
                    if not done:
                        return False
                if not plan.until:
                    return False
        return self._act(action.act, action.node)

    def _leaders(self) -> list[int | None]:
        return [one.leader for one in self.cluster.partitions.values()]

    def _is_missing(self, until: Action) -> bool:
        broker = None if until.node is None else self.cluster.brokers.get(until.node)
        return broker is not None and broker.alive is (until.act is Act.STOP)

    def _is_done(self, until: Action) -> bool:
        """Returns whether what a step waits for is true; copies and mounts what it asks for."""
        cluster, node = self.cluster, until.node
        if until.act is Act.FORBID_UNCLEAN:
            cluster.unclean_enabled = False
        if node is None or node not in cluster.brokers:
            return until.act is Act.FORBID_UNCLEAN
        broker = cluster.brokers[node]
        names = [name for name in cluster.partitions if not until.directories or str(name) in until.directories]
        match until.act:
            case Act.COPY:
                for name in names:
                    self._copies(name, node)
            case Act.MOUNT:
                cluster.mount_former(node, broker.registered)
                return self._has_all(node, names) or self._is_led_elsewhere(node)
            case Act.JOIN:
                return all(len(cluster.partitions[name].isr) > 1 for name in names)
            case Act.RECOVER:
                return all(cluster.partitions[name].leader not in (None, node) for name in names)
            case _:
                pass
        return True

    def _copies(self, name: PartitionName, node: int) -> None:
        """Copies a replica; one that its broker lost, from each other broker that is down."""
        cluster = self.cluster
        others = [each for each in cluster.partitions[name].replicas if not cluster.brokers[each].alive]
        for each in (node, *others):
            broker = cluster.brokers[each]
            found = [cluster.disks[disk][name] for disk in broker.disks if name in cluster.disks[disk]]
            cluster.copies |= {record for records in found for record in records}
            if found and each == node:
                return

    def _has_all(self, node: int, names: Iterable[PartitionName]) -> bool:
        """Returns whether the broker has the disk of each of these partitions that it would lead."""
        broker, of_all = self.cluster.brokers[node], [self.cluster.partitions[name] for name in names]
        led = {one.directories[one.replicas.index(node)] for one in of_all if one.leader is None and node in one.isr}
        return led <= {*broker.directories}

    def _is_led_elsewhere(self, node: int) -> bool:
        """Starts the others and elects one of what the broker lost; returns whether that has a leader then."""
        cluster, broker = self.cluster, self.cluster.brokers[node]
        lost = [
            name
            for name, one in cluster.partitions.items()
            if one.isr == [node] and one.directories[one.replicas.index(node)] not in broker.directories
        ]
        cluster.unclean_enabled = False
        waiting = Action(Act.START, NodeId(node))
        others = [plan for plan in self.forbidding if waiting not in plan.until]
        for other in {each for name in lost for each in cluster.partitions[name].replicas} - {node}:
            if not cluster.brokers[other].alive:
                self._tries(Action(Act.START, NodeId(other)), others)
        cluster.elect(lost, avoided=node)
        return all(cluster.partitions[name].leader is not None for name in lost)

    def _act(self, act: Act, node: int) -> bool:
        cluster, broker = self.cluster, self.cluster.brokers[node]
        match act:
            case Act.START if not broker.alive:
                cluster.start(node)
            case Act.STOP if broker.alive:
                cluster.stop(node)
            case Act.RECOVER if broker.former and not broker.alive:
                cluster.mount_former(node)
            case Act.RECOVER if not broker.former and not broker.alive:
                cluster.elect([name for name, one in cluster.partitions.items() if one.isr == [node]], avoided=node)
            case _:
                return False
        return True


def broken_cluster(seed: int) -> DataCluster:
    """Returns a cluster after some faults; the same for the same seed."""
    random = Random(seed)
    cluster = DataCluster(random)
    cluster.produce()
    for _ in range(random.randint(1, MOST_EVENTS)):
        cluster.break_something()
        if random.random() < 0.5:
            cluster.quorum()
    return cluster


def followed(seeds: Iterable[int]) -> FollowedCount:
    """Follows the steps of one cluster for each seed, and of a copy without their conditions."""
    count = FollowedCount()
    for seed in seeds:
        count.clusters += 1
        cluster = broken_cluster(seed)
        before = cluster.existing()
        operator = Operator(cluster)
        operator.follow()
        count.acts.update(step.partition(":")[0] for step in operator.done)
        if missing := before - cluster.existing():
            count.lost.append(f"seed {seed}: {len(missing)} records; {' | '.join(operator.done)}")
        careless = broken_cluster(seed)
        Operator(careless, careful=False).follow()
        count.lost_otherwise += bool(before - careless.existing())
    return count
