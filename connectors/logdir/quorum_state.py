"""Reads `quorum-state`: a replica's election state, written before it votes and when it learns of a leader.

Kafka's `FileQuorumStateStore`: JSON, `data_version` 0 (before kraft.version 1: it lists a static quorum's voters) or 1
(KIP-853: a vote names a directory, and the voters are in the log). A node writes version 0 until it has read in the
log that the quorum is dynamic.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from connectors.store.stored_json import parse_json
from rules.model.identifiers import DirectoryId, Epoch, NodeId, ReplicaKey

QUORUM_STATE = "quorum-state"
_NO_NODE = -1
_NO_DIRECTORY = "AAAAAAAAAAAAAAAAAAAAAA"
"""The zero UUID: the vote names no directory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionState:
    """The last election that this replica knows."""

    version: int
    leader_epoch: Epoch
    leader_id: NodeId | None
    """The leader of that epoch; None if this replica does not know it."""
    voted: ReplicaKey | None
    """The candidate it voted for in that epoch; None if it did not vote (or follows a leader)."""
    static_voters: tuple[NodeId, ...]
    """Version 0 only: the voters of the node's configuration when the file was written."""


def read_election_state(partition: Path) -> ElectionState | str:
    """Returns the election state of this replica, or the reason why it is unknown as a sentence."""
    try:
        return _parse(parse_json((partition / QUORUM_STATE).read_bytes()))
    except FileNotFoundError:
        return f"there is no {QUORUM_STATE}: this node never took part in a quorum, or the file was not copied"
    except OSError as problem:
        return f"{QUORUM_STATE} cannot be read: {(problem.strerror or 'unreadable').lower()}"
    except (ValueError, KeyError, TypeError, AttributeError):
        return f"{QUORUM_STATE} is damaged: it is not what Kafka writes"


def _parse(content: dict[str, Any]) -> ElectionState | str:
    version = int(content["data_version"])
    if version not in (0, 1):
        return f"{QUORUM_STATE} has version {version}, which no known Kafka writes"
    leader, voted = int(content["leaderId"]), int(content["votedId"])
    directory = content.get("votedDirectoryId", _NO_DIRECTORY)
    return ElectionState(
        version=version,
        leader_epoch=Epoch(int(content["leaderEpoch"])),
        leader_id=None if leader == _NO_NODE else NodeId(leader),
        voted=None
        if voted == _NO_NODE
        else ReplicaKey(id=NodeId(voted), directory_id=None if directory == _NO_DIRECTORY else DirectoryId(directory)),
        static_voters=tuple(NodeId(int(one["voterId"])) for one in content.get("currentVoters") or ()),
    )
