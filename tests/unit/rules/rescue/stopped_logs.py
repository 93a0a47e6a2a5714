"""Logs of stopped nodes, for tests of a rescue."""

from rules.model.identifiers import Endpoint, Epoch, Offset
from rules.model.membership import Voter, VoterSet
from rules.rescue.node_decisions import StoppedDisk
from tests.situation.situation import controller_key as key


def voters(count: int, *, offset: int = 1, host: str = "c") -> VoterSet:
    listed = tuple(
        Voter(key=key(node), endpoints=(Endpoint(listener="CONTROLLER", host=f"{host}{node}", port=9093),))
        for node in range(1, count + 1)
    )
    return VoterSet(voters=listed, offset=Offset(offset), leader_epoch=Epoch(1), timestamp_ms=None)


def log(node: int, *ends: tuple[int, int], unreadable: str | None = None) -> StoppedDisk:
    """A log by the end of each of its epochs: (epoch, end offset)."""
    epoch, end = ends[-1]
    return StoppedDisk(
        key=key(node),
        epoch=Epoch(epoch),
        end_offset=Offset(end),
        voters=voters(3),
        epoch_ends={Epoch(one): Offset(at) for one, at in ends},
        unreadable=unreadable,
    )
