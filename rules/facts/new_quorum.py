"""Whether the whole quorum was formatted again with the old cluster id: its log began after the cluster was known."""

from rules.model.ages import REMEMBERED_MS
from rules.model.identifiers import Millis
from rules.model.membership import is_same_quorum
from rules.model.monitoring import LeaderView
from rules.model.quorum import Quorum

_MARGIN_MS = 60_000
"""How much younger the log must be: its age is of its own clock, how long the cluster is known is of the monitor's."""


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


def _begins_ms(quorum: Quorum, view: LeaderView) -> Millis | None:
    """Returns when the log of the followed quorum's leader began, as far as this view shows it."""
    polled = quorum.poll.voter_keys if quorum.poll else frozenset()
    if view.log is None or view.log.start_offset != 0 or view.log.snapshot is not None:
        return None
    if view.other_voters and not is_same_quorum(frozenset(view.other_voters), polled):
        return None
    return view.log.begins_timestamp_ms
