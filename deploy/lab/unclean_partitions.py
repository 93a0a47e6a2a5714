"""Partitions whose leader was elected uncleanly and whose recovery never ends (KIP-704)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deploy.lab import kafka_requests, topics
from deploy.lab.lab_errors import LabError

if TYPE_CHECKING:
    from deploy.lab.lab import Lab

FENCING_TIMEOUT_S = 120.0
"""How long a killed broker may take to be fenced: broker.session.timeout.ms (9 s by default) and some."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stranded:
    """Topics in RECOVERING, the broker that leads them now, and the dead one that has what was lost."""

    topics: tuple[str, ...]
    leader: int
    dead: int


def strand(lab: "Lab", names: Sequence[str], *, partitions: int) -> Stranded:
    """Kills the follower, writes what it misses, kills the leader, starts the follower, elects it uncleanly.

    Kafka 4 does not do the last by itself: with KIP-966 the dead leader stays the eligible one.
    """
    running = [id_ for id_ in lab.brokers if lab.node(id_).running and not lab.node(id_).is_controller]
    if len(running) < 2:
        raise LabError(f"partitions are stranded between two running brokers of their own, and there are {running}")
    ahead, behind = running[:2]
    for name in names:
        if not kafka_requests.partitions(_port(lab, ahead), name, dial=lab.dial):
            lab.create_topic(name, assignment=[[ahead, behind]] * partitions)
            topics.wait_for_isr(
                _port(lab, ahead), name, frozenset({ahead, behind}), timeout_s=FENCING_TIMEOUT_S, dial=lab.dial
            )
    lab.kill(behind)
    for name in names:
        count = topics.wait_for_isr(
            _port(lab, ahead), name, frozenset({ahead}), timeout_s=FENCING_TIMEOUT_S, dial=lab.dial
        )
        lab.produce(name, 10 * count)
    lab.kill(ahead)
    lab.start(behind)
    topics.elect_unclean(_port(lab, behind), names, leader=behind, timeout_s=FENCING_TIMEOUT_S, dial=lab.dial)
    for name in names:
        topics.wait_for_isr(_port(lab, behind), name, frozenset({behind}), timeout_s=FENCING_TIMEOUT_S, dial=lab.dial)
    return Stranded(topics=tuple(names), leader=behind, dead=ahead)


def _port(lab: "Lab", broker: int) -> int:
    port = lab.node(broker).broker_port
    assert port is not None
    return port
