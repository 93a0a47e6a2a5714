"""Which leaders are known and reported: by polls, the log, and what each controller answers who leads.

`Quorum.leader_id` is the leader of the newest evidence (`streaming.replay.leadership_state`).
"""

from collections.abc import Iterable

from rules.facts.following import following
from rules.facts.freshness import fresh_poll, fresh_views
from rules.model.identifiers import START, Epoch, Millis, NodeId
from rules.model.monitoring import LeaderView
from rules.model.quorum import Quorum
from rules.model.replica import Poll


def last_leader_answer_ms(quorum: Quorum) -> Millis | None:
    """Returns when a leader last answered the monitor anything: a fetch or a DescribeQuorum."""
    return max(_leader_answers_ms(quorum), default=None)


def leader_answered_within(quorum: Quorum, age_ms: Millis) -> bool:
    """Returns whether a leader answered the monitor anything within this time, and since the newest gap."""
    return any(quorum.is_current(at, age_ms) for at in _leader_answers_ms(quorum))


def _leader_answers_ms(quorum: Quorum) -> list[Millis]:
    times = [quorum.log_fetched_at_ms, quorum.poll.observed_at_ms if quorum.poll else None]
    return [at for at in times if at is not None]


def last_leader(quorum: Quorum) -> NodeId | None:
    """Returns the leader of the newest known epoch, also if the quorum has no leader now; None if it is not known.

    The newest poll may be of an older epoch: where only the log is read, or if that leader failed before it was polled.
    """
    epoch, poll = quorum.leader_epoch, quorum.poll
    if quorum.leader_id is not None:
        return quorum.leader_id
    if poll is not None and poll.leader_epoch == epoch:
        return poll.leader_id
    elections = reversed(quorum.history.elections)
    return next((election.leader_id for election in elections if election.leader_epoch == epoch), None)


def epochs_in_vain(quorum: Quorum) -> int:
    """Returns how many epochs after the last one in which something was committed the newest one is.

    0 in the next epoch, which is a usual election; if the newest leader has committed something, which its high
    watermark shows; and if it is not known.
    """
    elections, epoch = quorum.history.elections, quorum.leader_epoch
    if epoch is None or not elections or quorum.high_watermark is not None:
        return 0
    epochs = epoch - elections[-1].leader_epoch
    return epochs if epochs > 1 else 0


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


def reported_leaders(quorum: Quorum) -> tuple[Epoch, tuple[NodeId, ...]] | str:
    """Returns the epoch with which every controller should agree, and its leaders; why it is not known, as text.

    That is the newest one that is reported: see `leaders_of_newest_epoch`. If it is newer than that of the known
    leader, who still answers, only a minority reports it: the known leader is compared with. If it is older, by the
    log or by a controller that has heard of a newer one since its leader answered, only an epoch with two leaders
    counts.
    """
    poll, views = fresh_poll(quorum), fresh_views(quorum)
    newest = leaders_of_newest_epoch(views, poll)
    if newest is None:
        return "no controller knows a leader"
    later = _later_epoch(quorum, newest[0], views, poll)
    if later is not None and len(newest[1]) == 1:
        return f"no controller has reported the leader of epoch {later} yet"
    if quorum.leader_epoch is None or quorum.leader_id is None or newest[0] <= quorum.leader_epoch:
        return newest
    if poll is None or poll.leader_id != quorum.leader_id:
        return f"the leader of epoch {newest[0]} has not answered yet"
    return quorum.leader_epoch, (quorum.leader_id,)


def _later_epoch(quorum: Quorum, epoch: Epoch, views: Iterable[LeaderView], poll: Poll | None) -> Epoch | None:
    """Returns a later epoch, of which no leader is reported: of the log, or of a controller that was in it after the
    leader of this epoch had answered. None without one.
    """
    if quorum.leader_epoch is not None and epoch < quorum.leader_epoch:
        return quorum.leader_epoch
    answers = [view.observed_at_ms for view in views if view.log is not None and view.leader_epoch == epoch]
    answers += [poll.observed_at_ms] if poll is not None and poll.leader_epoch == epoch else []
    led_ms = max(answers, default=START)
    since = (view.leader_epoch for view in views if view.since_ms > led_ms and view.leader_epoch is not None)
    return max((one for one in since if one > epoch), default=None)


def disagreeing_views(quorum: Quorum) -> tuple[LeaderView, ...]:
    """Returns what controllers reported that do not follow the only leader of the epoch of `reported_leaders`.

    One report of each controller, which may have several addresses. None while an epoch has two leaders. A report from
    before a controller knew this epoch is not a disagreement.
    """
    views, poll = fresh_views(quorum), fresh_poll(quorum)
    newest = reported_leaders(quorum)
    if isinstance(newest, str) or len(newest[1]) > 1:
        return ()
    agreeing = [view.since_ms for view in views if _follows(view, newest[0])]
    since = min(agreeing, default=quorum.now_ms if poll is None else poll.observed_at_ms)
    found = [view for view in views if not _follows(view, newest[0]) and view.observed_at_ms >= since]
    return tuple({view.endpoint if view.node is None else view.node: view for view in reversed(found)}.values())[::-1]


def _follows(view: LeaderView, epoch: Epoch) -> bool:
    return view.this_cluster and view.leader_epoch == epoch and view.leader_id is not None


NO_VOTERS: tuple[frozenset[NodeId], tuple[NodeId, ...]] = (frozenset(), ())


def voters_fetching(quorum: Quorum) -> tuple[frozenset[NodeId], tuple[NodeId, ...]]:
    """Returns the voters that fetched at the newest poll, and those that did not."""
    poll = quorum.poll
    if poll is None:
        return NO_VOTERS
    fetching = {row.key.id for row in poll.voters if following(quorum, poll, row.key).fetches}
    return frozenset(fetching), tuple(sorted(poll.voter_ids - fetching))
