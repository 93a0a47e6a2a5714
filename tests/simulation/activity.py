"""The Activity of a cluster: registrations, transactions, and the people who add voters, remove them and upgrade."""

from dataclasses import dataclass, field
from enum import Enum
from random import Random

from connectors.event import (
    ControllerRegistered,
    FeatureLevelSet,
    KRaftVersionSet,
    TransactionBegan,
    TransactionEnded,
    VotersSet,
)
from rules.model.identifiers import NodeId
from tests.simulation.controller import Controller
from tests.simulation.metadata import Metadata
from tests.simulation.oracle import Oracle


class Phase(Enum):
    """What a stretch of the simulation is."""

    CALM = "calm"
    """People mend what does not mend itself."""
    CHAOS = "chaos"
    NEGLECT = "neglect"
    """Nobody does anything."""


_MENDING = {Phase.CALM: 1.0, Phase.CHAOS: 0.01, Phase.NEGLECT: 0.0}
"""How likely somebody mends the voter set within half a second."""
DEAD_MS = 20_000
"""In the calm, people give a quorum that has no leader for so long its recorded endpoints back."""


@dataclass(slots=True)
class Activity:
    """What the active controller writes. It acts on what is committed, and only when nothing is pending."""

    random: Random
    nodes: list[Controller]
    oracle: Oracle
    faults: frozenset[str] = frozenset()
    phase: Phase = Phase.CALM
    metadata: Metadata = field(init=False)
    led_at_ms: int = 0
    busy_until_ms: int = 0
    """So long a calm cluster goes on living; then it is mended."""
    rescues: int = 0

    def __post_init__(self) -> None:
        self.metadata = Metadata(self.random, self.faults)

    def act(self, now_ms: int, leader: Controller) -> None:
        """Half a second of life."""
        leader.write(now_ms, None)
        if leader.high_watermark < len(leader.log) - 1 or self.oracle.end != leader.high_watermark:
            return
        self.led_at_ms = now_ms
        if not self._inherited(now_ms, leader) and not self._registered(now_ms, leader):
            change = self._upgraded if self.oracle.voters is None else self._voters
            if not change(now_ms, leader):
                self._metadata(now_ms, leader)

    def rescue(self, now_ms: int) -> None:
        """Nobody leads a calm quorum: a voter change was left half done, say. Its voters go where they are recorded."""
        if self.phase is not Phase.CALM or now_ms - self.led_at_ms < DEAD_MS:
            return
        self.led_at_ms = now_ms
        longest = max(self.nodes, key=lambda node: (node.log.last_epoch, len(node.log)))
        for voter in longest.log.voters:
            node = next(node for node in self.nodes if node.id == voter.key.id)
            if node.endpoint != voter.endpoints[0]:
                node.stop()
                node.port = voter.endpoints[0].port
                node.start(now_ms)
                self.rescues += 1

    def _inherited(self, now_ms: int, leader: Controller) -> bool:
        """Whoever becomes active aborts the transaction that its predecessor left open (KIP-868)."""
        left = self.oracle.transaction
        if left is None or left.epoch == leader.epoch:
            return False
        leader.write(now_ms, TransactionEnded(at=leader.at(now_ms), aborted=True))
        return True

    def _registered(self, now_ms: int, leader: Controller) -> bool:
        """Each controller registers at its start; metadata.version and the brokers come first of all."""
        known = self.oracle.as_if_ended()
        if not known.brokers and not known.controllers:
            leader.write(now_ms, FeatureLevelSet(at=leader.at(now_ms), name="metadata.version", level=27))
            self.metadata.first(now_ms, leader)
            return True
        for node in self.nodes:
            incarnation = f"{node.id}-{node.directory}-{node.incarnation}"
            held = known.controllers.get(node.id)
            if node.up and node.leader == leader.id and (held is None or held[0] != incarnation):
                record = ControllerRegistered(
                    at=leader.at(now_ms), id=NodeId(node.id), incarnation_id=incarnation, endpoints=(node.endpoint,)
                )
                leader.write(now_ms, record)
                return True
        return False

    def _upgraded(self, now_ms: int, leader: Controller) -> bool:
        """Somebody upgrades it, sooner or later."""
        if self.phase is Phase.NEGLECT or self.random.random() > 0.005:
            return False
        return self._upgrade(now_ms, leader)

    def _upgrade(self, now_ms: int, leader: Controller) -> bool:
        """kraft.version 0 to 1, when the leader has heard of every voter which directory it has (KIP-853)."""
        heard = all(key == leader.key or leader.hears(key, now_ms) for key in leader.log.keys)
        if not heard or leader.high_watermark <= leader.epoch_start:
            return False
        leader.write(now_ms, KRaftVersionSet(at=leader.at(now_ms), version=1))
        leader.write(now_ms, VotersSet(at=leader.at(now_ms), voters=leader.log.bootstrap))
        return True

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
        """A transaction may be open: it is left so when nobody cares."""
        if self.phase is Phase.NEGLECT:
            return
        known, open_now = self.oracle.as_if_ended(), self.oracle.transaction is not None
        dice = self.random.random()
        calm = self.phase is Phase.CALM and now_ms > self.busy_until_ms
        if open_now and (calm or dice < 0.03):
            aborted = self.random.random() < 0.3
            leader.write(now_ms, TransactionEnded(at=leader.at(now_ms), aborted=aborted))
        elif calm:
            self.metadata.mend(now_ms, leader, known)
        elif not open_now and dice < 0.02:
            leader.write(now_ms, TransactionBegan(at=leader.at(now_ms), name="simulated"))
        else:
            self.metadata.live(now_ms, leader, known)
