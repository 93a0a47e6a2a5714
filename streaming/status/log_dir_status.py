"""What `--log-dir` shows beside the quorum: whose disk it is, its last election, its log, every voter set it holds."""

from collections.abc import Iterable, Mapping
from typing import Any

from rich.text import Text

from connectors.logdir.voter_set_history import Recorded
from connectors.sinks.alert_json import iso
from connectors.sinks.evidence_format import visible
from rules.finding import Plain
from rules.formatting import listed
from rules.model.identifiers import ReplicaKey
from rules.model.voter_set import Voter
from streaming.status.from_log_dir import Disk

_SETS = 4
"""How many voter sets people are shown, the newest ones."""


def described(disk: Disk) -> dict[str, Plain]:
    """The fields of `log_dir`.

    Fields: folder; of meta.properties node_id and directory_id; quorum_state (null where it is not known): version,
    leader_epoch, leader_id, voted_id, voted_directory_id, static_voters; snapshot, committed_below, first_offset,
    log_end_offset, last_epoch, whole; voter_sets, oldest first; not_read.
    """
    who, election = disk.identity, disk.election
    return {
        "folder": str(disk.folder),
        "node_id": who.node_id if who else None,
        "directory_id": who.directory_id if who else None,
        "quorum_state": None
        if isinstance(election, str)
        else {
            "version": election.version,
            "leader_epoch": election.leader_epoch,
            "leader_id": election.leader_id,
            "voted_id": election.voted.id if election.voted else None,
            "voted_directory_id": election.voted.directory_id if election.voted else None,
            "static_voters": [*election.static_voters],
        },
        "snapshot": disk.snapshot,
        "committed_below": disk.committed_below,
        "first_offset": disk.first_offset,
        "log_end_offset": disk.end_offset,
        "last_epoch": disk.epoch,
        "whole": disk.whole,
        "voter_sets": [_recorded(one) for one in disk.voter_sets],
        "not_read": [
            {"file": one.file, "position": one.position, "bytes": one.size, "reason": one.reason} for one in disk.breaks
        ],
    }


def facts(shown: Mapping[str, Any]) -> Iterable[tuple[str, str | Text]]:
    """The same for people: pairs of name and value."""
    whose = (
        "unknown" if shown["node_id"] is None else f"{shown['node_id']}-{shown['directory_id'] or 'no directory id'}"
    )
    yield "Disk of", visible(f"{whose} ({shown['folder']})")
    yield "Quorum state", _election(shown["quorum_state"])
    ends = f"offsets {shown['first_offset']} to {shown['log_end_offset'] - 1}, epoch {_or(shown['last_epoch'])}"
    yield "Log", f"{ends}, behind {shown['snapshot']}" if shown["snapshot"] else ends
    below = shown["committed_below"]
    known = f"everything below offset {below}, by the snapshot; of the rest" if below else "of this log"
    yield "Committed", Text(f"{known} one disk cannot tell", "magenta")
    sets = shown["voter_sets"]
    yield "Voter sets", f"{len(sets)} on this disk, the latest at offset {sets[-1]['offset']}" if sets else "none"
    for one in sets[-_SETS:]:
        where = f"{one['file']}, up to offset" if one["in_snapshot"] else "offset"
        voters = listed((_voter(voter) for voter in one["voters"]), 9)
        yield "", visible(f"{where} {one['offset']}, epoch {_or(one['leader_epoch'])}: {voters}")


def _recorded(one: Recorded) -> dict[str, Plain]:
    at_ms = one.voters.timestamp_ms
    return {
        "offset": one.voters.offset,
        "leader_epoch": one.voters.leader_epoch,
        "written_at": None if at_ms is None else iso(at_ms),
        "file": one.file,
        "in_snapshot": one.in_snapshot,
        "voters": [_plain(voter) for voter in sorted(one.voters.voters, key=lambda voter: voter.key.id)],
    }


def _plain(voter: Voter) -> dict[str, Plain]:
    endpoints: list[Plain] = [f"{one.listener}://{one}" for one in voter.endpoints]
    return {"id": voter.key.id, "directory_id": voter.key.directory_id, "endpoints": endpoints}


def _voter(voter: Mapping[str, Any]) -> str:
    key = ReplicaKey(id=voter["id"], directory_id=voter["directory_id"])
    return f"{key} at {voter['endpoints'][0].partition('://')[2]}" if voter["endpoints"] else str(key)


def _election(state: Mapping[str, Any] | None) -> str:
    if state is None:
        return "unknown"
    leader = "no leader known" if state["leader_id"] is None else f"leader {state['leader_id']}"
    voted = "no vote"
    if state["voted_id"] is not None:
        voted = f"voted for {ReplicaKey(id=state['voted_id'], directory_id=state['voted_directory_id'])}"
    static = f", voters by its configuration: {listed(state['static_voters'])}" if state["static_voters"] else ""
    return f"epoch {state['leader_epoch']}, {leader}, {voted}{static} (version {state['version']})"


def _or(value: object) -> str:
    return "unknown" if value is None else str(value)
