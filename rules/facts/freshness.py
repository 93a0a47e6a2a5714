"""How old the observations are: the newest poll, probes, leader views and the metadata log.

Functions that end in `_problem` return one sentence that says why a data source is not good enough, or None.
"""

from collections.abc import Mapping
from typing import TypeVar

from rules.finding import Threshold, Thresholds
from rules.formatting import utc_text
from rules.model.ages import Ages
from rules.model.identifiers import Millis
from rules.model.monitoring import VIEW_EVERY_MS, LeaderView, ObservationSource
from rules.model.quorum import Quorum
from rules.model.replica import Poll

AGES = (
    Threshold(
        name="poll",
        default=10.0,
        meaning="the maximum age of the newest DescribeQuorum answer. Polls come every second, so the default "
        "tolerates nine lost ones",
    ),
    Threshold(
        name="fetch",
        default=10.0,
        meaning="a replica whose last fetch is older than this, by the leader's clock, counts as not fetching; one "
        "that fetches and had last caught up with the leader longer ago counts as lagging. An idle replica fetches at "
        "least twice a second; the default is five times controller.quorum.fetch.timeout.ms",
    ),
    Threshold(
        name="probe",
        default=30.0,
        meaning="the maximum age of the newest probe of an endpoint. Probes come every 5 s, so the default tolerates "
        "five lost ones",
    ),
    Threshold(
        name="view",
        default=30.0,
        meaning="the maximum age of a controller's report of who leads. Each controller is polled every 10 s, so the "
        "default tolerates two lost answers. A configured address that no node records is polled every minute, and its "
        "report counts six times as long",
    ),
    Threshold(
        name="answer",
        default=10.0,
        meaning="the maximum age of the newest answer of a leader. An idle quorum answers about twice a second, so the "
        "default tolerates twenty missed answers",
    ),
)
"""How old observations may be: what is older is not known, for every rule and every command."""
AGES_SECTION = "ages"
"""Their place in the configuration, among the thresholds."""


def ages_of(thresholds: Mapping[str, Thresholds]) -> Ages:
    """Returns the ages among all thresholds in force."""
    own = thresholds[AGES_SECTION]
    return Ages(**{f"{threshold.name}_ms": own.ms(threshold.name) for threshold in AGES})


POLLS_ONLY = "only polls are observed here (metadata_log: false)"
"""Why a rule that needs the metadata log is not applicable where the log is not read by choice."""
NO_VOTERS_RECORD = "no committed VotersRecord has been read yet"
"""Why a rule that needs the committed voters is unknown before they are known."""
_ObservedT = TypeVar("_ObservedT")
_CATCHING_UP_RECORDS = 1_000
"""More committed records than this between the newest applied one and the high watermark: the log is not read yet."""


def fresh_poll(quorum: Quorum) -> Poll | None:
    """Returns the newest DescribeQuorum answer, or None if it is older than `ages.poll`, than a gap, or than the newest
    leader."""
    poll = quorum.poll
    if poll is None or (quorum.leader_epoch is not None and poll.leader_epoch < quorum.leader_epoch):
        return None
    return poll if quorum.is_current(poll.observed_at_ms, quorum.ages.poll_ms) else None


def poll_problem(quorum: Quorum) -> str:
    """Returns why the newest poll cannot be used; call it only if that is so."""
    if quorum.poll is None:
        return "DescribeQuorum has not been answered yet"
    if quorum.leader_epoch is not None and quorum.poll.leader_epoch < quorum.leader_epoch:
        return f"the leader of epoch {quorum.leader_epoch} has not answered DescribeQuorum yet"
    missing = "" if quorum.poll.leader else ", without a row of the leader, to whose clock the other rows are compared"
    return f"DescribeQuorum was last answered at {utc_text(quorum.poll.observed_at_ms)}{missing}"


def log_read_problem(quorum: Quorum) -> str | None:
    """Returns why the metadata log has not been read to its end; None if it has."""
    if quorum.last_offset is None:
        return "nothing of the metadata log has been read yet"
    missing = 0 if quorum.high_watermark is None else quorum.high_watermark - 1 - quorum.last_offset
    return f"{missing} committed records are still to be read" if missing > _CATCHING_UP_RECORDS else None


def log_age_problem(quorum: Quorum) -> str | None:
    """Returns when a leader last served the metadata log; None if at most `ages.answer` ago, and after every gap."""
    served = quorum.log_fetched_at_ms
    if served is not None and quorum.is_current(served, quorum.ages.answer_ms):
        return None
    return "the metadata log was " + ("never answered" if served is None else f"last answered at {utc_text(served)}")


def last_answers(quorum: Quorum) -> Mapping[ObservationSource, Millis | None]:
    """Returns when a leader last answered each data source that is read: the metadata log and DescribeQuorum."""
    polled = {ObservationSource.QUORUM: quorum.poll.observed_at_ms if quorum.poll else None}
    return {ObservationSource.LOG: quorum.log_fetched_at_ms, **polled} if quorum.access.log else polled


def unanswered_sources(quorum: Quorum) -> tuple[ObservationSource, ...]:
    """Returns the data sources whose newest answer is older than `ages.answer`: these are not observed."""
    limit = quorum.ages.answer_ms
    answers = last_answers(quorum).items()
    return tuple(source for source, at in answers if at is None or quorum.now_ms - at > limit)


def fresh_views(quorum: Quorum) -> list[LeaderView]:
    """Returns the leader views that are not older than `ages.view` or a gap, in the order of node id and endpoint.

    One of an endpoint that is asked less often counts for longer: until as many answers are missing.
    """
    age_ms = quorum.ages.view_ms
    fresh = [
        view
        for view in quorum.leader_views.values()
        if quorum.is_current(view.observed_at_ms, Millis(age_ms * view.asked_every_ms // VIEW_EVERY_MS))
    ]
    return sorted(fresh, key=lambda view: (view.node is None, view.node or 0, view.endpoint))


class UnmetNeedError(RuntimeError):
    """A rule was evaluated although one of its needs is not met, or uses an observation that it does not declare."""


def needed(observed: _ObservedT | None) -> _ObservedT:
    """Returns what a rule declares as its need: `quorum.poll` (FRESH_POLL), `quorum.committed` (VOTERS_RECORD)."""
    if observed is None:
        raise UnmetNeedError("the rule uses an observation that it does not declare as a need")
    return observed
