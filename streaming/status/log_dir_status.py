"""What `--log-dir` shows beside the quorum: the node, its last election, its log and every voter set on the disk."""

from collections.abc import Iterable

from rich.text import Text

from connectors.logdir.log_dir_files import ElectionState
from connectors.logdir.log_dir_reader import VoterSetInFile
from connectors.sinks.evidence_format import visible
from rules.formatting import and_join
from rules.model.identifiers import ReplicaKey
from streaming.status.build_voters import copied, recorded_voters
from streaming.status.from_log_dir import LogDirContents
from streaming.status.status_parts import LogDirStatus, QuorumStateFile, UnreadBytes, VoterEndpoints, VotersRecordStatus

_VOTER_SETS_SHOWN = 4
"""How many voter sets the CLI prints, the newest ones."""


def log_dir_status(contents: LogDirContents) -> LogDirStatus:
    """Returns the `log_dir` of a cluster status."""
    meta, election = contents.meta_properties, contents.election
    return copied(
        LogDirStatus,
        contents,
        folder=str(contents.folder),
        node_id=meta.node_id if meta else None,
        directory_id=meta.directory_id if meta else None,
        quorum_state=None if isinstance(election, str) else _quorum_state(election),
        log_end_offset=contents.end_offset,
        last_epoch=contents.epoch,
        voter_sets=tuple(_voter_set(one) for one in contents.voter_sets),
        not_read=tuple(copied(UnreadBytes, one) for one in contents.damaged),
    )


def log_dir_lines(status: LogDirStatus) -> Iterable[tuple[str, str | Text]]:
    """Yields name and value of each line that `status --log-dir` prints."""
    node = "unknown" if status.node_id is None else f"{status.node_id}-{status.directory_id or 'no directory id'}"
    yield "Disk of", visible(f"{node} ({status.folder})")
    yield "Quorum state", _election(status.quorum_state)
    ends = f"offsets {status.first_offset} to {status.log_end_offset - 1}, epoch {_or_unknown(status.last_epoch)}"
    yield "Log", f"{ends}, after {status.snapshot}" if status.snapshot else ends
    below = status.committed_below
    committed = f"records below offset {below}, by the snapshot; of the others" if below else "of this log's records"
    yield "Committed", Text(f"{committed} unknown from one disk", "magenta")
    sets = status.voter_sets
    yield "Voter sets", f"{len(sets)} on this disk, the latest at offset {sets[-1].offset}" if sets else "none"
    for one in sets[-_VOTER_SETS_SHOWN:]:
        where = f"{one.file}, up to offset" if one.in_snapshot else "offset"
        voters = and_join((_voter(voter) for voter in one.voters), 9)
        yield "", visible(f"{where} {one.offset}, epoch {_or_unknown(one.leader_epoch)}: {voters}")


def _quorum_state(election: ElectionState) -> QuorumStateFile:
    voted = election.voted
    return copied(
        QuorumStateFile,
        election,
        voted_id=voted.id if voted else None,
        voted_directory_id=voted.directory_id if voted else None,
    )


def _voter_set(one: VoterSetInFile) -> VotersRecordStatus:
    recorded = one.voters
    return copied(
        VotersRecordStatus,
        one,
        offset=recorded.offset,
        leader_epoch=recorded.leader_epoch,
        written_at_ms=recorded.timestamp_ms,
        voters=recorded_voters(recorded),
    )


def _voter(voter: VoterEndpoints) -> str:
    key = ReplicaKey(id=voter.id, directory_id=voter.directory_id)
    return f"{key} at {voter.endpoints[0].partition('://')[2]}" if voter.endpoints else str(key)


def _election(state: QuorumStateFile | None) -> str:
    if state is None:
        return "unknown"
    leader = "no leader known" if state.leader_id is None else f"leader {state.leader_id}"
    voted = "no vote"
    if state.voted_id is not None:
        voted = f"voted for {ReplicaKey(id=state.voted_id, directory_id=state.voted_directory_id)}"
    static = f", voters by its configuration: {and_join(state.static_voters)}" if state.static_voters else ""
    return f"epoch {state.leader_epoch}, {leader}, {voted}{static} (version {state.version})"


def _or_unknown(value: object) -> str:
    return "unknown" if value is None else str(value)
