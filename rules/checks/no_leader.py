"""No controller leads the metadata quorum.

What it means
    Some controller answers and says that it knows no leader, or every configured controller refuses connections.
    Nothing that changes metadata works: no topic is created, no broker joins, no partition gets a new leader.
    Produce and fetch go on where a partition's leader lives, until the next broker fails: there is time to do this
    right.

    An election takes one or two seconds and is no alarm. When we merely cannot see (time-outs, names, permissions), it
    is `monitor-blind` that speaks, not this rule; so it is where only the leader does not answer us, and enough others
    name it that would have elected another were it gone.

Evidence
    Who said so, who refuses; the last leader and epoch; every voter with its recorded endpoint, what was last seen
    there, and how far its log was; and whether an election could be won from here, in both readings of a refusal:
    the voter has only moved, or it is dead.

What to do
    A leader comes by itself within seconds once a majority of the voters run and reach each other at the endpoints
    recorded in the log.

    1. Start the controllers that are down.
    2. Give names and ports back that were taken away: controllers look for each other where the log says, not where
       their configuration says.
    3. Where a majority runs and still nobody leads, look at the network between the controllers, and in their logs at
       who refuses whose vote.

What not to do
    Do not format or wipe a controller to "start afresh": a majority of the logs is the cluster's metadata.
    Do not restart the controllers that still answer.

Thresholds
    hold (5 s): longer than an election. clear (10 s). seen_age (10 s): how long a leader's last answer counts.
    For the evidence: silent (10 s), when a voter counted as not fetching, and probe_age (30 s), what is too old.
"""

from collections.abc import Iterable

from rules.analysis.electability import electability, stands, without_the_refusing
from rules.analysis.endpoint_status import Look, remembered, seen_there
from rules.analysis.freshness import PROBE_AGE, SEEN_AGE, SILENT, Leaderless, hidden, last_seen_at_ms, leaderless
from rules.finding import Finding, Plain, Rule, RuleResult, Severity, Thresholds, UnknownResult, clear, hold
from rules.formatting import listed, spelled
from rules.model.monitoring import Resolution
from rules.model.quorum import Quorum
from rules.remedy_commands import describe_status

ID = "no-leader"


def evaluate(quorum: Quorum, thresholds: Thresholds) -> Iterable[RuleResult]:
    """One finding about the quorum while the newest news is that nobody leads."""
    state = leaderless(quorum)
    if state is None:
        last = last_seen_at_ms(quorum)
        if last is None or quorum.now_ms - last > thresholds.ms(SEEN_AGE.name):
            age = None if last is None else spelled(quorum.now_ms - last)
            sight = "no leader was seen yet" if age is None else f"a leader was last seen {age} ago"
            behind = hidden(quorum)
            said = "nobody says there is none" if behind is None else f"others follow controller {behind.id}"
            yield UnknownResult(rule=ID, subject=None, why=f"{sight}, and {said}")
        return
    seen = remembered(quorum, thresholds)
    yield Finding(
        rule=ID,
        subject="quorum",
        severity=Severity.CRITICAL,
        summary=_summary(quorum, state, seen),
        evidence=_evidence(quorum, state, seen),
        remedy=_remedy(quorum, state, seen),
    )


def _summary(quorum: Quorum, state: Leaderless, seen: tuple[Look, ...]) -> str:
    said = f"none is known at {listed(state.answered, 3)}" if state.answered else "every configured controller refuses"
    last = _last_leader(quorum)
    refusing = [look.voter.key.id for look in seen if look.refused]
    down = f"; {len(refusing)} of {len(seen)} voters' endpoints refuse connections" if refusing else ""
    return f"no controller leads the metadata quorum: {said}{down}{last}"


def _last_leader(quorum: Quorum) -> str:
    at = last_seen_at_ms(quorum)
    if quorum.poll is None or at is None:
        return ""
    return f"; controller {quorum.poll.leader_id} led until about {spelled(quorum.now_ms - at)} ago"


def _evidence(quorum: Quorum, state: Leaderless, seen: tuple[Look, ...]) -> dict[str, Plain]:
    at = last_seen_at_ms(quorum)
    standing = stands(quorum, seen)
    moved, dead = electability(standing), electability(without_the_refusing(standing, seen))
    return {
        "said_by": list(state.answered),
        "refused_by": list(state.refused),
        "last_leader": quorum.poll.leader_id if quorum.poll else None,
        "last_leader_epoch": quorum.poll.leader_epoch if quorum.poll else quorum.leader_epoch,
        "last_leader_answer_at_ms": at,
        "last_committed_offset": quorum.last_offset,
        "voters_record_offset": quorum.committed.offset if quorum.committed else None,
        "majority": moved.majority if seen else None,
        "electable_if_refusing_voters_moved": moved.electable if seen else None,
        "electable_if_refusing_voters_are_dead": dead.electable if seen else None,
        "voters": {str(look.voter.key): _voter(quorum, look) for look in seen},
    }


def _voter(quorum: Quorum, look: Look) -> dict[str, Plain]:
    history = quorum.histories.get(look.voter.key)
    return {
        "recorded_endpoint": str(look.endpoint) if look.endpoint else None,
        "seen_there": seen_there(look),
        "when_last_described": look.liveness.value,
        "log_end_offset": history.last_log_end_offset if history else None,
        "log_end_epoch": history.last_leader_epoch if history else None,
    }


def _remedy(quorum: Quorum, state: Leaderless, seen: tuple[Look, ...]) -> tuple[str, ...]:
    steps = [step for look in seen for step in _step(quorum, look)]
    if not seen and state.refused:
        # A static quorum, or a log that was never read: where the voters are recorded is not known.
        steps = [f"# Start the controllers at {listed(state.refused)}: connections are refused there"]
    elif not seen:
        steps = ["# Read the controllers' logs for why no election is won"]
    elif not steps:
        steps = ["# The voters' endpoints accept connections: read the controllers' logs for why no election is won"]
    if seen:
        majority = len(seen) // 2 + 1
        steps.append(
            f"# A leader follows within seconds once {majority} of the {len(seen)} voters run and reach each other "
            "at their recorded endpoints"
        )
    return (*steps, "# See who leads, when one does", describe_status(quorum))


def _step(quorum: Quorum, look: Look) -> Iterable[str]:
    node, endpoint = look.voter.key.id, look.endpoint
    if endpoint is None:
        return
    if look.probe and look.probe.resolution is Resolution.NAME_GONE:
        was = quorum.addresses.get(endpoint.host)
        yield (
            f"# Make {endpoint.host} resolve again{f' (it was {listed(was)})' if was else ''}: controller {node} is "
            "recorded there"
        )
    elif look.refused:
        yield (
            f"# Start controller {node} so that it listens at {endpoint}, or give it that endpoint back if it was moved"
        )
    elif look.flaws:
        yield f"# Make {endpoint} lead to controller {node} again"


RULE = Rule(
    id=ID,
    title="No controller leads the metadata quorum",
    text=__doc__ or "",
    thresholds=(hold(5.0), clear(), SEEN_AGE, PROBE_AGE, SILENT),
    evaluate=evaluate,
)
