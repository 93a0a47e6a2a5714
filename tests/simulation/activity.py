"""The Activity of a cluster: brokers, topics, elections of partitions, registrations, and the people who add voters."""

from dataclasses import dataclass
from enum import Enum
from random import Random

from connectors.event import (
    BrokerChanged,
    BrokerRegistered,
    ControllerRegistered,
    FeatureLevelSet,
    PartitionChanged,
    PartitionSet,
    TopicCreated,
)
from rules.quorum import Endpoint, NodeId, TopicId
from tests.simulation.controller import Controller
from tests.simulation.oracle import Oracle, Partition

BROKERS = (101, 102, 103)
TOPICS_MAX = 12


class Phase(Enum):
    """What a stretch of the simulation is."""

    CALM = "calm"
    """People mend what does not mend itself."""
    CHAOS = "chaos"
    NEGLECT = "neglect"
    """Nobody does anything."""


_MENDING = {Phase.CALM: 1.0, Phase.CHAOS: 0.01, Phase.NEGLECT: 0.0}
"""How likely somebody mends the voter set within half a second."""


@dataclass(slots=True)
class Activity:
    """What the active controller writes. It acts on what is committed, and only when nothing is pending."""

    random: Random
    nodes: list[Controller]
    oracle: Oracle
    faults: frozenset[str] = frozenset()
    topics: int = 0
    phase: Phase = Phase.CALM

    def act(self, now_ms: int, leader: Controller) -> None:
        """Half a second of life."""
        leader.write(now_ms, None)
        if leader.high_watermark < len(leader.log) - 1 or self.oracle.end != leader.high_watermark:
            return
        if not self._registered(now_ms, leader) and not self._voters(now_ms, leader):
            self._metadata(now_ms, leader)

    def _registered(self, now_ms: int, leader: Controller) -> bool:
        """Each controller registers at its start; metadata.version and the brokers come first of all."""
        if not self.oracle.brokers:
            leader.write(now_ms, FeatureLevelSet(at=leader.at(now_ms), name="metadata.version", level=27))
            for broker in BROKERS:
                where = Endpoint(listener="PLAINTEXT", host=f"b{broker}.test", port=9092)
                leader.write(
                    now_ms,
                    BrokerRegistered(
                        at=leader.at(now_ms),
                        id=NodeId(broker),
                        incarnation_id=f"b{broker}",
                        endpoints=(where,),
                        fenced=False,
                        in_controlled_shutdown=False,
                    ),
                )
            return True
        for node in self.nodes:
            incarnation = f"{node.id}-{node.directory}-{node.incarnation}"
            if node.up and node.leader == leader.id and self.oracle.controllers.get(node.id) != incarnation:
                record = ControllerRegistered(
                    at=leader.at(now_ms), id=NodeId(node.id), incarnation_id=incarnation, endpoints=(node.endpoint,)
                )
                leader.write(now_ms, record)
                return True
        return False

    def _voters(self, now_ms: int, leader: Controller) -> bool:
        """UpdateVoter by itself; remove-controller and add-controller by somebody, sooner or later."""
        voters = leader.log.voters
        for node in self.nodes:
            mine = next((voter for voter in voters if voter.key.id == node.id), None)
            others = tuple(voter for voter in voters if voter.key.id != node.id)
            if mine is not None and mine.key == node.key:
                if mine.endpoints[0] != node.endpoint and node.up and node.leader == leader.id:
                    return leader.change_voters(now_ms, (*others, node.voter))
            elif self.random.random() > _MENDING[self.phase]:
                continue
            elif mine is not None:
                return len(others) > 0 and leader.change_voters(now_ms, others)
            elif node.key in leader.progress and leader.progress[node.key].end_offset >= leader.high_watermark - 2:
                return leader.change_voters(now_ms, (*voters, node.voter))
        if self.phase is Phase.CHAOS and len(voters) > 3 and self.random.random() < 0.002:
            gone = self.random.choice(voters)
            return leader.change_voters(now_ms, tuple(voter for voter in voters if voter is not gone))
        return False

    def _metadata(self, now_ms: int, leader: Controller) -> None:
        fenced = [broker for broker, (_, is_fenced) in self.oracle.brokers.items() if is_fenced]
        recovering = [where for where, one in self.oracle.partitions.items() if one.recovering]
        if self.phase is Phase.NEGLECT:
            return
        if self.phase is Phase.CALM:
            if fenced:
                self._fence(now_ms, leader, fenced[0], fenced=False)
            elif recovering:
                one = self.oracle.partitions[recovering[0]]
                self._change(now_ms, leader, recovering[0], one.replicas, recovering=False)
            return
        dice = self.random.random()
        if dice < 0.03 and self.topics < TOPICS_MAX:
            self._topic(now_ms, leader)
        elif dice < 0.06:
            broker = self.random.choice(BROKERS)
            self._fence(now_ms, leader, broker, fenced=broker not in fenced)
        elif dice < 0.12 and self.oracle.partitions:
            where = self.random.choice(sorted(self.oracle.partitions))
            self._elect(now_ms, leader, where, self.oracle.partitions[where])

    def _fence(self, now_ms: int, leader: Controller, broker: int, *, fenced: bool) -> None:
        record = BrokerChanged(at=leader.at(now_ms), id=NodeId(broker), fenced=fenced, in_controlled_shutdown=None)
        leader.write(now_ms, record)

    def _topic(self, now_ms: int, leader: Controller) -> None:
        self.topics += 1
        topic_id = TopicId(f"topic-id-{self.topics}-{leader.epoch}-{len(leader.log)}")
        replicas = tuple(NodeId(one) for one in self.random.sample(BROKERS, self.random.randint(1, 3)))
        leader.write(now_ms, TopicCreated(at=leader.at(now_ms), topic_id=topic_id, name=f"t{len(leader.log)}"))
        record = PartitionSet(
            at=leader.at(now_ms),
            topic_id=topic_id,
            partition=0,
            replicas=replicas,
            isr=replicas,
            elr=(),
            leader=replicas[0],
            partition_leader_epoch=0,
            recovering=False,
        )
        leader.write(now_ms, record)

    def _elect(self, now_ms: int, leader: Controller, where: tuple[str, int], one: Partition) -> None:
        """A partition recovers, or is elected cleanly or not."""
        if one.recovering:
            fault = "isr-grows" in self.faults and len(one.replicas) > 1
            self._change(now_ms, leader, where, one.replicas, recovering=None if fault else False)
        elif len(one.replicas) > 1 and self.random.random() < 0.5:
            other = [broker for broker in one.replicas if broker != one.leader]
            self._change(now_ms, leader, where, (self.random.choice(other),), recovering=True)
        else:
            self._change(now_ms, leader, where, one.replicas, recovering=None)

    def _change(
        self, now_ms: int, leader: Controller, where: tuple[str, int], isr: tuple[int, ...], *, recovering: bool | None
    ) -> None:
        nodes = tuple(NodeId(node) for node in isr)
        before = self.oracle.partitions[where].leader
        chosen = nodes[0] if before not in nodes else NodeId(before or 0)
        record = PartitionChanged(
            at=leader.at(now_ms),
            topic_id=TopicId(where[0]),
            partition=where[1],
            replicas=None,
            isr=nodes,
            elr=None,
            leader=chosen,
            leader_set=chosen != before,
            recovering=recovering,
        )
        leader.write(now_ms, record)
