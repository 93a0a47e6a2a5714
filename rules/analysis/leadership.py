"""Which controller leads the quorum, by polls, the log, failed observations and leader views.

`Quorum.leader_id` is the leader of the newest evidence (`streaming.replay.leadership_state`). This module adds what a
rule must know about it: whether the quorum has no leader now, whether only the monitor cannot reach the leader, when a
leader last answered, and which leaders the controllers report.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from rules.analysis.freshness import DEFAULT_AGES, VIEW_AGE, is_current, views_within
from rules.analysis.replica_lag import same_replica
from rules.model.identifiers import Epoch, Millis, NodeId, ReplicaKey
from rules.model.membership import Voter, majority
from rules.model.monitoring import (
    NO_LEADER_REASONS,
    Connection,
    FailedObservation,
    LeaderView,
    ObservationSource,
    Reason,
)
from rules.model.quorum import Poll, Quorum

_NEWER_BY_MS = 1_000
"""A report of no leader counts only if it is newer than a leader's last answer by this: a node that is cut off from
the others reports no leader all the time, and an idle quorum answers twice a second."""
_FIRST_ROUNDS_MS = 2_000
"""So long after a gap in the observations, reports of no leader count only if every controller has answered. In the
first rounds of requests a leader on a busy host may answer too late, and a healthy follower answers that it does not
lead."""
_RECENT_MS = Millis(10_000)
"""A failure older than this is ignored: attempts are repeated every few seconds."""
_UNREACHABLE_MS = 60_000
"""The maximum age of a failed attempt to reach the leader: the gatherer backs off and tries less and less often."""
_UNREACHABLE_REASONS = frozenset(
    {
        *(Reason.UNRESOLVABLE, Reason.RESOLVER_FAILED, Reason.TIMED_OUT, Reason.UNREACHABLE, Reason.CLOSED),
        *(Reason.DENIED, Reason.NOT_AUTHENTICATED, Reason.TLS_FAILED, Reason.WRONG_PROTOCOL, Reason.REFUSED),
        *(Reason.WRONG_CLUSTER, Reason.UNSUPPORTED, Reason.UNDECODABLE, Reason.INVALID_RESPONSE),
        Reason.TOO_FEW_DESCRIPTORS,
    }
)
"""Failures with which a controller may still lead: a firewall may also refuse connections of the monitor alone, and
something else may answer it at the address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaderless:
    """By the newest evidence the quorum has no leader."""

    answered: tuple[str, ...]
    """HOST:PORT of the nodes that answered that they know no leader; empty if all controllers refuse connections."""
    refused: tuple[str, ...]
    """HOST:PORT of the controllers that refuse connections."""
    failures: tuple[FailedObservation, ...]
    """The failed observations that are the evidence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreachableLeader:
    """A leader that does not answer the monitor, but that enough other controllers follow."""

    id: NodeId
    followers: tuple[str, ...]
    """HOST:PORT of the controllers that report this leader."""


def last_leader_answer_ms(quorum: Quorum) -> Millis | None:
    """Returns when a leader last answered the monitor anything: a fetch or a DescribeQuorum."""
    return max(_leader_answers_ms(quorum), default=None)


def leader_answered_within(quorum: Quorum, age_ms: Millis) -> bool:
    """Returns whether a leader answered the monitor anything within this time, and since the newest gap."""
    return any(is_current(quorum, at, age_ms) for at in _leader_answers_ms(quorum))


def _leader_answers_ms(quorum: Quorum) -> list[Millis]:
    times = [quorum.log_fetched_at_ms, quorum.poll.observed_at_ms if quorum.poll else None]
    return [at for at in times if at is not None]


def current_leader(quorum: Quorum) -> NodeId | None:
    """Returns the leader by the newest evidence; None if the quorum has none or nothing is known."""
    return None if leaderless(quorum) else quorum.leader_id


def last_polled_leader(quorum: Quorum) -> NodeId | None:
    """Returns the leader by the newest poll, however old; without any poll the one by the newest evidence."""
    return quorum.poll.leader_id if quorum.poll else quorum.leader_id


def leaders_of_newest_epoch(views: Iterable[LeaderView], poll: Poll | None) -> tuple[Epoch, tuple[NodeId, ...]] | None:
    """Returns the newest epoch that a view or the poll reports with a leader, and the leaders reported for it, sorted.

    Raft allows one leader in an epoch. None if no leader is reported.
    """
    reported = {(view.leader_epoch, view.leader_id) for view in views if view.leader_id is not None}
    reported |= {(poll.leader_epoch, poll.leader_id)} if poll is not None else set()
    epochs = [epoch for epoch, _ in reported if epoch is not None]
    if not epochs:
        return None
    newest = max(epochs)
    return newest, tuple(sorted(leader for epoch, leader in reported if epoch == newest and leader is not None))


def is_same_quorum(one: frozenset[ReplicaKey], other: frozenset[ReplicaKey]) -> bool:
    """Returns whether two voter sets can be of one quorum, earlier and later, in either order.

    Voters are added and removed one at a time (KIP-853), and a forced change keeps one of them: they have a voter in
    common. Without directory ids (kraft.version 0) a node id says less: most of them must be in both.
    """
    if all(key.directory_id is not None for key in (*one, *other)):
        return not one.isdisjoint(other)
    ids, others = ({key.id for key in keys} for keys in (one, other))
    return len(ids & others) >= majority(max(len(ids), len(others)))


def leaderless(quorum: Quorum) -> Leaderless | None:
    """Returns the evidence that the quorum has no leader: a node reports so, or all controllers refuse connections.

    "All" is every controller that is configured or was asked, or every voter at its recorded endpoint. A configured
    name that does not resolve changes nothing if all recorded endpoints refuse.

    None means: a leader has answered since, or the monitor cannot observe the quorum (time-outs, name resolution,
    permissions), or a majority of the voters reject the monitor's login, or only the leader does not answer the monitor
    (`unreachable_leader`), or a controller has not answered yet since a gap (`_FIRST_ROUNDS_MS`).
    """
    reporting = _failures_since_leader(quorum, NO_LEADER_REASONS)
    refusing = _failures_since_leader(quorum, {Reason.REFUSED})
    if not reporting and not refusing:
        return None
    answered = tuple(sorted({failure.endpoint for failure in reporting}))
    refused = tuple(sorted({failure.endpoint for failure in refusing}))
    recent = _failures_since_leader(quorum, {*Reason})
    asked = {failure.endpoint for failure in recent if failure.endpoint} | set(quorum.bootstrap)
    controllers = asked - quorum.broker_addresses
    recorded = {str(voter.endpoint) for voter in quorum.voters if voter.endpoint}
    if answered:
        first_rounds = quorum.now_ms - quorum.watched_since_ms < _FIRST_ROUNDS_MS
        if _followed_leader(quorum, answered) is not None or len(_rejecting(quorum, answered)) >= _majority(quorum):
            return None
        if first_rounds and not controllers | recorded <= {*answered, *refused}:
            return None
        return Leaderless(answered=answered, refused=refused, failures=(*reporting, *refusing))
    if refused and any(known and known <= set(refused) for known in (controllers, recorded)):
        return Leaderless(answered=(), refused=refused, failures=tuple(refusing))
    return None


def unreachable_leader(quorum: Quorum) -> UnreachableLeader | None:
    """Returns the leader that the answering controllers follow and that does not answer the monitor.

    Followers that hear nothing of their leader for controller.quorum.fetch.timeout.ms elect another one within seconds
    if a majority of the voters reach each other (KIP-595); if not, each follower keeps reporting the old leader. So
    their reports count only if they are a majority without the leader, and only from voters whose recorded endpoints
    accept connections. A voter that rejects the monitor's login runs, and counts with them.
    """
    reporting = _failures_since_leader(quorum, NO_LEADER_REASONS)
    return _followed_leader(quorum, {failure.endpoint for failure in reporting})


def _failures_since_leader(quorum: Quorum, reasons: Collection[Reason]) -> list[FailedObservation]:
    """Returns the failures for these reasons that are newer than every answer of a leader.

    Only their times are compared. Where the log may not be read, each poll is newer than the failure before it and
    older than the next one: the rules would be evaluated again at each row.
    """
    answers = _leader_answers_ms(quorum)
    return [
        failure
        for failure in quorum.failures
        if failure.reason in reasons
        and failure.source in (ObservationSource.LOG, ObservationSource.QUORUM)
        and is_current(quorum, failure.last_at_ms, _RECENT_MS)
        and all(failure.last_at_ms >= at + _NEWER_BY_MS for at in answers)
    ]


def _followed_leader(quorum: Quorum, answered: Collection[str]) -> UnreachableLeader | None:
    """Returns the leader that the nodes at `answered`, which answer that they do not lead, follow."""
    views = views_within(quorum, DEFAULT_AGES.ms(VIEW_AGE.name))
    # A controller that is cut off from the others knows no leader, in the same or a later epoch.
    epoch, leaders = leaders_of_newest_epoch(views, None) or (None, ())
    if len(leaders) != 1 or any(view.node == leaders[0] for view in views if view.endpoint in answered):
        return None
    leader = leaders[0]
    current = {*answered} - _failing(quorum, {Reason.REFUSED}, _RECENT_MS)
    following = [
        view
        for view in views
        if view.endpoint in current and (view.leader_epoch, view.leader_id) == (epoch, leader) and view.this_cluster
    ]
    running = _voting(quorum, following) | (_rejecting(quorum, answered) - {leader}) if following else set()
    if not _unreached(quorum, leader, answered) or len(running) < _majority(quorum):
        return None
    return UnreachableLeader(id=leader, followers=tuple(sorted(view.endpoint for view in following)))


def _unreached(quorum: Quorum, leader: NodeId, answered: Collection[str]) -> bool:
    failing = _failing(quorum, _UNREACHABLE_REASONS, _UNREACHABLE_MS) - {*answered}
    recorded = {str(endpoint) for voter in quorum.voters if voter.key.id == leader for endpoint in voter.endpoints}
    if recorded:
        return bool(recorded & failing) and not recorded & {*answered}
    return bool(failing)


def _rejecting(quorum: Quorum, answered: Collection[str]) -> set[NodeId | str]:
    rejecting = _failing(quorum, {Reason.NOT_AUTHENTICATED}, _RECENT_MS) - {*answered}
    if quorum.voters:
        return {voter.key.id for voter in quorum.voters if str(voter.endpoint) in rejecting}
    return {*rejecting}


def _voting(quorum: Quorum, following: list[LeaderView]) -> set[NodeId | str]:
    """Returns the followers that are voters and reachable where the others dial them; all if no voters are known."""
    voters = {voter.key.id: voter for voter in quorum.voters}
    if not voters:
        polled = {row.key.id for row in quorum.poll.voters} if quorum.poll else set()
        return {view.endpoint for view in following if not polled or view.node is None or view.node in polled}
    voting = {node for node, voter in voters.items() if _accepts(quorum, voter) and not _is_replaced(quorum, voter)}
    return {view.node for view in following if view.node in voting}


def _is_replaced(quorum: Quorum, voter: Voter) -> bool:
    """Returns whether a replica with the voter's id and another directory fetched later: its process has no vote."""
    if quorum.poll is None:
        return False
    rows = quorum.poll.rows_by_id.get(voter.key.id, ())
    newest = max(rows, key=lambda row: row.last_fetch_ms or 0, default=None)
    return newest is not None and not same_replica(newest.key, voter.key)


def _accepts(quorum: Quorum, voter: Voter) -> bool:
    probe = quorum.probe(voter.key.id, voter.endpoint)
    return probe is None or probe.connection is Connection.ACCEPTED


def _majority(quorum: Quorum) -> int:
    polled = len(quorum.poll.voters) if quorum.poll else 0
    return majority(len(quorum.voters) or polled or len(quorum.bootstrap))


def _failing(quorum: Quorum, reasons: Collection[Reason], age_ms: int) -> set[str]:
    recent = (each for each in quorum.failures if quorum.now_ms - each.last_at_ms <= age_ms)
    return {each.endpoint for each in recent if each.reason in reasons}
