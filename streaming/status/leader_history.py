"""The history that `status --json` tells: who led which epoch, and how the voter set came to be what it is."""

from collections.abc import Iterable

from connectors.sinks.alert_json import iso
from rules.finding import Plain
from rules.model.identifiers import ReplicaKey
from rules.model.quorum import Quorum


def history(quorum: Quorum) -> dict[str, Plain]:
    """Both oldest first, as far as the log was read record by record: a snapshot tells none of it.

    Fields: `elections`, each with leader_id, leader_epoch, offset, at (the log's clock), those of the hour before the
    newest; `voter_changes`, each VotersRecord with added and removed replicas, moved (ids whose endpoints were
    rewritten), leader_epoch, offset, at.
    """
    return {
        "elections": [
            {
                "leader_id": one.leader_id,
                "leader_epoch": one.leader_epoch,
                "offset": one.offset,
                "at": iso(one.timestamp_ms),
            }
            for one in quorum.past.elections
        ],
        "voter_changes": [
            {
                "added": _keys(one.added),
                "removed": _keys(one.removed),
                "moved": [*one.moved],
                "leader_epoch": one.leader_epoch,
                "offset": one.offset,
                "at": iso(one.timestamp_ms),
            }
            for one in quorum.past.voter_changes
        ],
    }


def _keys(keys: Iterable[ReplicaKey]) -> list[Plain]:
    return [{"id": key.id, "directory_id": key.directory_id} for key in keys]
