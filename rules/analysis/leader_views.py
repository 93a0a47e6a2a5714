"""Views: what the controllers last said of who leads, while it is fresh enough to judge by."""

from rules.finding import Threshold, Thresholds
from rules.model.identifiers import Millis
from rules.model.monitoring import LeaderView
from rules.model.quorum import Quorum

VIEW_AGE = Threshold(
    name="view_age",
    default=30.0,
    unit="s",
    meaning="how old a controller's word on who leads may be: an older one says nothing. Each is asked every 10 s, so "
    "the default forgives two lost answers",
)


def fresh_views(quorum: Quorum, thresholds: Thresholds) -> list[LeaderView]:
    """What each controller said, where that is recent, in the order of node id and endpoint."""
    fresh = views_within(quorum, thresholds.ms(VIEW_AGE.name))
    return sorted(fresh, key=lambda view: (view.node is None, view.node or 0, view.endpoint))


def views_within(quorum: Quorum, age_ms: Millis) -> list[LeaderView]:
    """What each controller said no longer ago than this."""
    return [view for view in quorum.views.values() if quorum.now_ms - view.observed_at_ms <= age_ms]
