"""ClusterActivity: registrations, transactions, brokers that fetch, and operators who change voters and upgrade."""

from dataclasses import dataclass, field, replace
from enum import Enum
from random import Random

from connectors.observations.log_event import (
    FeatureLevelSet,
    KRaftVersionSet,
    TransactionBegan,
    TransactionEnded,
    VotersReplaced,
)
from rules.model.identifiers import DirectoryId, NodeId, ReplicaKey
from rules.model.membership import ControllerRegistration
from tests.record_image import RecordImage
from tests.scripts.log_script import supporting
from tests.simulation.controller import SimulatedController
from tests.simulation.metadata import MetadataActivity


class Phase(Enum):
    """A phase of the simulation."""

    QUIET_RULES = "calm"
    """Operators restore what does not recover by itself."""
    FAULTS_INJECTED = "faults injected"
    UNATTENDED = "unattended"
    """No faults, and no operator acts."""


_REPAIR_PROBABILITY = {Phase.QUIET_RULES: 1.0, Phase.FAULTS_INJECTED: 0.01, Phase.UNATTENDED: 0.0}
"""The probability that an operator restores the voter set within half a second."""
LEADERLESS_MS = 20_000
"""In the calm phase, operators restore the recorded endpoints of a quorum without a leader for this long."""


@dataclass(slots=True)
class SimulatedBroker:
    """A broker by its node id. It sends heartbeats while it is not fenced, whether it fetches or not."""

    id: int
    fetches: bool = True
    applies: bool = True
    """False: it fetches, and always the same offset."""
    refused: bool = False
    """Whether it fetches also while it is not registered."""

    @property
    def key(self) -> ReplicaKey:
        return ReplicaKey(id=NodeId(self.id), directory_id=DirectoryId(f"broker{self.id}"))


@dataclass(slots=True)
class ClusterActivity:
    """The records of the active controller. It acts on committed records, and only if no record is pending."""

    random: Random
    nodes: list[SimulatedController]
    oracle: RecordImage
    faults: frozenset[str] = frozenset()
    phase: Phase = Phase.QUIET_RULES
    brokers: list[SimulatedBroker] = field(default_factory=list)
    led_at_ms: int = 0
    busy_until_ms: int = 0
    """Until then a calm cluster still changes; then it recovers."""

    def act(self, now_ms: int, leader: SimulatedController) -> None:
        """Writes the records of half a second."""
        self._fetch_as_brokers(now_ms, leader)
        if leader.hangs:
            return
        leader.write(now_ms, None)
        for node in self.nodes:
            if node.up:
                node.write_snapshot_if_due(now_ms)
        if leader.high_watermark < len(leader.log) - 1 or self.oracle.end != leader.high_watermark:
            return
        self.led_at_ms = now_ms
        if not self._abort_inherited_transaction(now_ms, leader) and not self._register_nodes(now_ms, leader):
            change = self._maybe_upgrade if self.oracle.voters is None else self._change_voters
            if not change(now_ms, leader):
                self._metadata(now_ms, leader)

    def _fetch_as_brokers(self, now_ms: int, leader: SimulatedController) -> None:
        """Fetches from this leader as each broker that is registered and alive, or whose registration is refused."""
        for broker in self.brokers:
            registered, held = self.oracle.brokers.get(broker.id), leader.progress.get(broker.key)
            serves = registered is not None and not registered.fenced
            if not broker.fetches or not (serves or broker.refused):
                continue
            leader.record_fetch(now_ms, broker.key, len(leader.log) if broker.applies or not held else held.end_offset)

    def restore_endpoints(self, now_ms: int) -> None:
        """Restarts the voters of a calm quorum at their recorded endpoints, if it has no leader or is static.

        No controller changes the configured endpoints of a static quorum.
        """
        without_leader = now_ms - self.led_at_ms >= LEADERLESS_MS
        if self.phase is not Phase.QUIET_RULES or not (without_leader or self.oracle.voters is None):
            return
        if without_leader:
            self.led_at_ms = now_ms
        longest = max(self.nodes, key=lambda node: (node.log.last_epoch, len(node.log)))
        for voter in longest.log.voters:
            node = next(node for node in self.nodes if node.id == voter.key.id)
            if node.endpoint != voter.endpoints[0]:
                node.stop()
                node.port = voter.endpoints[0].port
                node.start(now_ms)

    def _abort_inherited_transaction(self, now_ms: int, leader: SimulatedController) -> bool:
        """Aborts the transaction that the previous active controller left open (KIP-868)."""
        left = self.oracle.transaction
        if left is None or left.epoch == leader.epoch:
            return False
        leader.write_record(now_ms, TransactionEnded, aborted=True)
        return True

    def _register_nodes(self, now_ms: int, leader: SimulatedController) -> bool:
        """Registers each controller at its start; metadata.version and the brokers are first."""
        known = self.oracle.with_transaction_applied()
        if not known.brokers and not known.controllers:
            leader.write_record(now_ms, FeatureLevelSet, name="metadata.version", level=27)
            MetadataActivity(self.random, self.faults, now_ms, leader, known).register_brokers()
            return True
        for node in self.nodes:
            incarnation = f"{node.id}-{node.directory}-{node.incarnation}"
            held = known.controllers.get(node.id)
            new = node.registers and (held is None or held.incarnation_id != incarnation)
            if node.up and node.leader == leader.id and new:
                leader.write_record(
                    now_ms,
                    ControllerRegistration,
                    id=NodeId(node.id),
                    incarnation_id=incarnation,
                    endpoints=(replace(node.endpoint, protocol=node.protocol),),
                    features=supporting(node.highest_level),
                )
                return True
        return False

    def _maybe_upgrade(self, now_ms: int, leader: SimulatedController) -> bool:
        """Upgrades kraft.version 0 to 1 now and then, if the leader knows every voter's directory (KIP-853)."""
        if self.phase is Phase.UNATTENDED or self.random.random() > 0.005:
            return False
        heard = all(key == leader.key or leader.is_fetching(key, now_ms) for key in leader.log.keys)
        if not heard or leader.high_watermark <= leader.epoch_start:
            return False
        leader.write_record(now_ms, KRaftVersionSet, version=1)
        leader.write_record(now_ms, VotersReplaced, voters=leader.log.bootstrap)
        return True

    def _change_voters(self, now_ms: int, leader: SimulatedController) -> bool:
        """UpdateVoter happens by itself; remove-controller and add-controller happen with a small probability."""
        voters = leader.log.voters
        for node in self.nodes:
            if node.is_clone:
                continue
            mine = next((voter for voter in voters if voter.key.id == node.id), None)
            others = tuple(voter for voter in voters if voter.key.id != node.id)
            if mine is not None and mine.key == node.key:
                if mine.endpoints[0] != node.endpoint and node.up and node.leader == leader.id:
                    return leader.change_voters(now_ms, (*others, node.voter))
            elif self.random.random() > _REPAIR_PROBABILITY[self.phase]:
                continue
            elif mine is not None:
                return len(others) > 0 and leader.change_voters(now_ms, others)
            elif node.key in leader.progress and leader.progress[node.key].end_offset >= leader.high_watermark - 2:
                return leader.change_voters(now_ms, (*voters, node.voter))
        if self.phase is Phase.FAULTS_INJECTED and len(voters) > 3 and self.random.random() < 0.002:
            gone = self.random.choice(voters)
            return leader.change_voters(now_ms, tuple(voter for voter in voters if voter is not gone))
        return False

    def _metadata(self, now_ms: int, leader: SimulatedController) -> None:
        """Writes broker, topic and partition records; an open transaction stays open in the unattended phase."""
        if self.phase is Phase.UNATTENDED:
            return
        known, open_now = self.oracle.with_transaction_applied(), self.oracle.transaction is not None
        dice = self.random.random()
        check_calm = self.phase is Phase.QUIET_RULES and now_ms > self.busy_until_ms
        metadata = MetadataActivity(self.random, self.faults, now_ms, leader, known)
        if open_now and (check_calm or dice < 0.03):
            leader.write_record(now_ms, TransactionEnded, aborted=self.random.random() < 0.3)
        elif check_calm:
            metadata.repair()
        elif not open_now and dice < 0.02:
            leader.write_record(now_ms, TransactionBegan, name="simulated")
        else:
            metadata.random_change()
