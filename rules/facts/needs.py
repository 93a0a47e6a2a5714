"""Needs: what a rule must observe to be evaluated, and why that is not observed now."""

from collections.abc import Mapping
from enum import StrEnum

from rules.facts.freshness import NO_VOTERS_RECORD, log_age_problem, log_read_problem, poll_problem
from rules.facts.node import Nodes
from rules.finding import NotApplicable

_RECOVERY_STATE_SINCE = 3
"""The level of metadata.version 3.2-IV0 (MetadataVersion.isLeaderRecoverySupported)."""


class Need(StrEnum):
    """What a rule must observe to be evaluated. `rules.evaluate` checks the needs in the order a rule names them.

    Each need that reads the metadata log is not applicable where the log is not read by choice (`metadata_log: false`).
    """

    METADATA_LOG = "metadata-log"
    """The metadata log is read: polls are not the only data source."""
    VOTERS_RECORD = "voters-record"
    """The log has been read to its end and holds a committed VotersRecord (KIP-853)."""
    VOTER_ENDPOINTS = "voter-endpoints"
    """It holds one, or the quorum is static and a DescribeQuorum answer has the endpoints of its voters."""
    CURRENT_LOG = "current-log"
    """The log has been read to its end, and a leader served it within `ages.answer`."""
    FRESH_POLL = "fresh-poll"
    """A DescribeQuorum answer within `ages.poll` in which the leader has a row."""
    RECOVERY_STATE = "recovery-state"
    """The finalized metadata.version has LeaderRecoveryState (KIP-704); below 3.2 the rule is not applicable."""


def unmet_needs(nodes: Nodes) -> Mapping[Need, NotApplicable | str]:
    """Returns for each need that is not met why not: not applicable if it never is on this cluster."""
    found = {need: _unmet(need, nodes) for need in Need}
    return {need: why for need, why in found.items() if why is not None}


def _unmet(need: Need, nodes: Nodes) -> NotApplicable | str | None:
    """Returns why the need is not met now, or never is on this cluster; None if it is met."""
    quorum = nodes.quorum
    match need:
        case Need.METADATA_LOG:
            return None
        case Need.RECOVERY_STATE:
            level = quorum.metadata_version
            if level is None or level >= _RECOVERY_STATE_SINCE:
                return None
            why = f"not supported: metadata.version {level} is below 3.2 and has no LeaderRecoveryState"
            return NotApplicable(why=why)
        case Need.VOTERS_RECORD | Need.VOTER_ENDPOINTS:
            unread = log_read_problem(quorum)
            # A log without a KRaftVersionRecord was written by a Kafka before 3.9: its kraft.version is 0.
            if unread is None and quorum.committed is None and not quorum.kraft_version:
                return _static_problem(nodes, need)
            return unread or (NO_VOTERS_RECORD if quorum.committed is None else None)
        case Need.CURRENT_LOG:
            return log_read_problem(quorum) or log_age_problem(quorum)
        case Need.FRESH_POLL:
            poll = nodes.poll
            return None if poll is not None and poll.leader is not None else poll_problem(quorum)


def _static_problem(nodes: Nodes, need: Need) -> NotApplicable | str | None:
    if need is Need.VOTERS_RECORD:
        return NotApplicable(why="kraft.version is 0: a static quorum has no VotersRecord and no directory ids")
    if nodes.quorum.poll is None:
        return poll_problem(nodes.quorum)
    if nodes.dialled is None:
        return NotApplicable(why="kraft.version is 0, and DescribeQuorum has no endpoints of voters before Kafka 3.9")
    return None
