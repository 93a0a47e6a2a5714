"""Whether the whole quorum was formatted again with the old cluster id, rescued, or may be restored from older copies.

A loss is observed by a job that had read what was lost. What was observed for the first time afterwards shows less.
"""

from rules.model.ages import REMEMBERED_MS
from rules.model.history import rebuilt_between
from rules.model.identifiers import Epoch, Millis
from rules.model.membership import is_same_quorum
from rules.model.monitoring import LeaderView
from rules.model.quorum import Quorum

_MARGIN_MS = 60_000
"""How much younger the log must be: its age is of its own clock, how long the cluster is known is of the monitor's.

Also how long a new leader may wait for the heartbeats of a broker (broker.session.timeout.ms is 9 s by default).
"""


def formatted_again_ms(quorum: Quorum) -> Millis | None:
    """Returns the timestamp of the first record of a log that began after the cluster had been observed.

    After a loss of metadata this tells that the controllers were formatted again: a log that was restored from a copy
    began long before. None if the log is older, or if that is not known: a leader that has taken a snapshot does not
    return its first record.
    """
    newest, known = quorum.newest_timestamp_ms, quorum.histories.values()
    begins = [at for view in quorum.leader_views.values() if (at := _begins_ms(quorum, view)) is not None]
    if newest is None or not begins or not known:
        return None
    age_ms = newest - max(begins)
    known_for_ms = quorum.now_ms - min(history.first_seen_at_ms for history in known)
    return max(begins) if age_ms <= REMEMBERED_MS and known_for_ms > age_ms + _MARGIN_MS else None


def begins_with_rescue(quorum: Quorum) -> bool:
    """Returns whether the newest election is the first one that is known since `rescue apply --lost`.

    Its epoch shows that, also before the log is read again. After a later snapshot it may be another election.
    """
    epoch, newest = quorum.leader_epoch, quorum.history.elections[-1:]
    if epoch is None:
        return False
    before = next((one.previous_epoch if one.leader_epoch == epoch else one.leader_epoch for one in newest), None)
    return rebuilt_between(before or Epoch(0), epoch)


def may_be_restored(quorum: Quorum) -> bool:
    """Returns whether no broker has served since the newest election, and that was not observed.

    So it is after an outage of all nodes, and also if the controllers were restored from older copies meanwhile:
    brokers with newer metadata end then, and the log of the controllers does not show that they ever had it. A broker
    that served until the outage is fenced when the new leader has waited for its heartbeats.
    """
    newest, elections = quorum.newest_timestamp_ms, quorum.history.elections
    if newest is None or not elections or any(broker.alive for broker in quorum.brokers.values()):
        return False
    first_ms = min((history.first_seen_at_ms for history in quorum.histories.values()), default=quorum.now_ms)
    if quorum.now_ms - first_ms > newest - elections[-1].timestamp_ms:
        return False
    served_ms = (interruption.timestamp_ms for interruption in quorum.history.interruptions)
    return all(at <= elections[-1].timestamp_ms + _MARGIN_MS for at in served_ms)


def _begins_ms(quorum: Quorum, view: LeaderView) -> Millis | None:
    """Returns when the log of the followed quorum's leader began, as far as this view shows it."""
    polled = quorum.poll.voter_keys if quorum.poll else frozenset()
    if view.log is None or view.log.start_offset != 0 or view.log.snapshot is not None:
        return None
    if view.other_voters and not is_same_quorum(frozenset(view.other_voters), polled):
        return None
    return view.log.begins_timestamp_ms
