"""Whether another quorum answers with the same cluster id, and whether committed metadata may differ or be lost."""

from collections.abc import Sequence

from rules.facts.freshness import fresh_poll, fresh_views
from rules.facts.reported_leaders import leaders_of_newest_epoch
from rules.model.identifiers import ReplicaKey
from rules.model.monitoring import FailedObservation, LeaderView, Reason
from rules.model.quorum import Quorum


def metadata_contradicts(quorum: Quorum) -> bool:
    """Returns whether committed metadata was lost, or may differ between controllers: the disks are the evidence."""
    if other_quorums(quorum):
        return True
    if quorum.invariant_violations or metadata_losses(quorum):
        return True
    views = fresh_views(quorum)
    newest = leaders_of_newest_epoch(views, fresh_poll(quorum))
    return newest is not None and len(newest[1]) > 1


def metadata_losses(quorum: Quorum) -> Sequence[FailedObservation]:
    """Returns the losses of committed metadata that are remembered, the newest last."""
    losses = (failure for failure in quorum.failures if failure.reason is Reason.METADATA_LOST)
    return sorted(losses, key=lambda each: (each.last_at_ms, each.endpoint))


def other_quorums(quorum: Quorum) -> Sequence[LeaderView]:
    """Returns a view of each other quorum: that of its newest leader, which may answer at several addresses."""
    # After the followed quorum has ended, a view is older than the poll of the quorum that is followed instead.
    polled = poll.voter_keys if (poll := fresh_poll(quorum)) else frozenset[ReplicaKey]()
    newest: dict[frozenset[ReplicaKey], LeaderView] = {}
    for view in fresh_views(quorum):
        voters = frozenset(view.other_voters)
        before = newest.get(voters)
        if voters and voters != polled and (before is None or (before.leader_epoch or 0) < (view.leader_epoch or 0)):
            newest[voters] = view
    return [*newest.values()]
