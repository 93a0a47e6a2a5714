"""What is seen of a quorum right now, how fresh it is, and whether somebody leads."""

from dataclasses import dataclass

from rules.analysis.unreachable_leader import HiddenLeader, hidden_leader
from rules.finding import NotApplicable, Threshold, Thresholds, UnknownResult
from rules.formatting import spelled
from rules.model.identifiers import Millis
from rules.model.monitoring import NO_LEADER_REASONS, FailedObservation, ObservationSource, Probe, Reason
from rules.model.poll import Poll
from rules.model.quorum import Quorum

POLL_AGE = Threshold(
    name="poll_age",
    default=10.0,
    unit="s",
    meaning="how old the newest DescribeQuorum answer may be: with an older one the rule says that it cannot tell. "
    "Polls come every second, so the default forgives nine lost ones",
)
PROBE_AGE = Threshold(
    name="probe_age",
    default=30.0,
    unit="s",
    meaning="how old the newest look at an endpoint may be: an older one says nothing. "
    "Looks come every 5 s, so the default forgives five lost ones",
)
SILENT = Threshold(
    name="silent",
    default=10.0,
    unit="s",
    meaning="a replica whose last fetch is older than this, by the leader's clock, counts as not fetching. "
    "An idle replica fetches at least twice a second; the default is five times controller.quorum.fetch.timeout.ms",
)
SEEN_AGE = Threshold(
    name="seen_age",
    default=10.0,
    unit="s",
    meaning="how old the newest answer of a leader may be before our view counts as stale. An idle quorum answers "
    "about twice a second, so the default is twenty answers missed",
)
_POLLS_ALONE = "polls alone are watched here (metadata_log: false)"
_QUIET_MS = 1_000
"""News that nobody leads must be newer than a leader's last answer by this: a node that is cut off from the others
says so all the time, and an idle quorum answers twice a second."""
_NEWS_MS = 10_000
"""News that nobody leads is old after this: looks are repeated every few seconds. Older ones are from before we
ourselves were away, and say nothing of now."""
_BEHIND = 1_000
"""Records that may be missing between what we applied and the high watermark before we call it catching up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaderless:
    """The newest news of the quorum is that nobody leads it."""

    answered: tuple[str, ...]
    """HOST:PORT of the nodes that answered and know no leader; empty when all refuse."""
    refused: tuple[str, ...]
    """HOST:PORT of the controllers that refuse connections."""
    failures: tuple[FailedObservation, ...]
    """The failed looks that say so."""


def fresh_poll(quorum: Quorum, thresholds: Thresholds) -> Poll | None:
    """The newest DescribeQuorum answer, unless it is too old to judge by."""
    poll = quorum.poll
    if poll is None or quorum.now_ms - poll.observed_at_ms > thresholds.ms(POLL_AGE.name):
        return None
    return poll


def no_fresh_poll(rule: str, quorum: Quorum, subject: str | None = None) -> UnknownResult:
    """The answer of a rule that needs a poll and has none."""
    if quorum.poll is None:
        return UnknownResult(rule=rule, subject=subject, why="DescribeQuorum has not been answered yet")
    age = spelled(quorum.now_ms - quorum.poll.observed_at_ms)
    lacking = "" if quorum.poll.leader else ", without a row of the leader, by whose clock the others are judged"
    return UnknownResult(rule=rule, subject=subject, why=f"DescribeQuorum was last answered {age} ago{lacking}")


def fresh_probe(quorum: Quorum, name: str, thresholds: Thresholds) -> Probe | None:
    """The newest probe under this key (`NODE@HOST:PORT`), unless it is too old to judge by."""
    probe = quorum.probes.get(name)
    if probe is None or quorum.now_ms - probe.observed_at_ms > thresholds.ms(PROBE_AGE.name):
        return None
    return probe


def polls_alone(rule: str, quorum: Quorum) -> NotApplicable | None:
    """The answer of a rule that judges by more than polls where nothing else is asked for, by choice."""
    return None if quorum.access.log else NotApplicable(rule=rule, why=_POLLS_ALONE)


def catching_up(rule: str, quorum: Quorum) -> UnknownResult | NotApplicable | None:
    """The answer of a rule that judges by the log while we have not read all of it; None when we have."""
    chosen = polls_alone(rule, quorum)
    if chosen is not None:
        return chosen
    if quorum.last_offset is None:
        return UnknownResult(rule=rule, subject=None, why="nothing of the metadata log has been read yet")
    missing = 0 if quorum.high_watermark is None else quorum.high_watermark - 1 - quorum.last_offset
    if missing > _BEHIND:
        return UnknownResult(rule=rule, subject=None, why=f"{missing} committed records are still to be read")
    return None


def no_voters_record(rule: str, quorum: Quorum) -> UnknownResult | NotApplicable | None:
    """The answer of a rule that needs a committed VotersRecord (KIP-853) where there is none; None where there is.

    A log that was read to its end and holds no KRaftVersionRecord is one of a Kafka before 3.9: version 0.
    """
    behind = catching_up(rule, quorum)
    if behind is not None or quorum.committed is not None:
        return behind
    if not quorum.kraft_version:
        why = "kraft.version is 0: a static quorum has no VotersRecord and no directory ids"
        return NotApplicable(rule=rule, why=why)
    return UnknownResult(rule=rule, subject=None, why="no committed VotersRecord has been read yet")


def last_seen_at_ms(quorum: Quorum) -> Millis | None:
    """When the quorum itself (a leader) last answered us anything: a fetch or a DescribeQuorum."""
    seen = [quorum.log_seen_at_ms, quorum.poll.observed_at_ms if quorum.poll else None]
    return max((at for at in seen if at is not None), default=None)


def leaderless(quorum: Quorum) -> Leaderless | None:
    """Whether the newest news is that nobody leads: some node says so, or all controllers refuse.

    All: every one that is configured or was asked, or every voter where the log records it. A configured name that
    is gone hides nothing when all recorded endpoints refuse.

    None means: a leader answered since, or we cannot see (time-outs, no resolution, not allowed), be it only the leader
    that we cannot (`hidden`).
    """
    news = _news(quorum)
    saying = [failure for failure in news if failure.reason in NO_LEADER_REASONS]
    refusing = [failure for failure in news if failure.reason is Reason.REFUSED]
    answered = tuple(sorted({failure.endpoint for failure in saying}))
    refused = tuple(sorted({failure.endpoint for failure in refusing}))
    if answered:
        if hidden_leader(quorum, answered) is not None:
            return None
        return Leaderless(answered=answered, refused=refused, failures=(*saying, *refusing))
    brokers = _broker_endpoints(quorum)
    asked = {failure.endpoint for failure in news if failure.endpoint} | set(quorum.bootstrap)
    controllers = asked - brokers
    recorded = (
        {str(voter.endpoints[0]) for voter in quorum.committed.voters if voter.endpoints} if quorum.committed else set()
    )
    if refused and any(known and known <= set(refused) for known in (controllers, recorded)):
        return Leaderless(answered=(), refused=refused, failures=tuple(refusing))
    return None


def hidden(quorum: Quorum) -> HiddenLeader | None:
    """The leader that the nodes which answer us follow, and that does not answer us itself."""
    return hidden_leader(quorum, {failure.endpoint for failure in _news(quorum) if failure.reason in NO_LEADER_REASONS})


def _news(quorum: Quorum) -> list[FailedObservation]:
    """What failed since a leader last answered."""
    last = last_seen_at_ms(quorum)
    return [
        failure
        for failure in quorum.failures
        if failure.sight is not ObservationSource.PROBE
        and quorum.now_ms - failure.last_at_ms <= _NEWS_MS
        and (last is None or failure.last_at_ms >= last + _QUIET_MS)
    ]


def _broker_endpoints(quorum: Quorum) -> set[str]:
    # A combined node's controller listener is no broker endpoint: brokers register only their own listeners.
    return {str(endpoint) for broker in quorum.brokers.values() for endpoint in broker.endpoints}
