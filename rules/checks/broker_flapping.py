"""A broker is fenced again and again, each time for a short while, and not only by restarts.

What it means
    Within 15 minutes the broker was fenced four times or more, at least once while its process ran on. With each
    fencing the partitions that it leads move to other brokers, clients reconnect and its replicas leave the ISR;
    afterwards it copies what it missed. Each time may be too short for `broker-fenced`.

    A broker whose process restarted each time is `node-restarting`.

    The active controller fences a broker whose heartbeats it has not handled in time. If other brokers were fenced at
    the same times, the cause is what they share: the active controller is overloaded or pauses, or the network to it.

What to do
    1. If the alert names other brokers that were fenced at the same times, check the active controller first: long
       pauses, CPU, a slow metadata disk, many requests. Then check the network to it.
    2. Otherwise check the broker's host for long pauses, and its network to the active controller: its heartbeats did
       not arrive within broker.session.timeout.ms.
    3. If its process restarted too, read the end of each run in the broker's log.
    4. If it alone does not become stable, shut it down until the cause is known: its partitions then stay where they
       are.

What not to do
    Do not raise broker.session.timeout.ms before the cause is known: a broker that hangs then keeps its leaders longer.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import chain

from rules.facts.needs import Need
from rules.facts.quorum import Facts
from rules.finding import Finding, Plain, RuleResult, Severity, Threshold, Thresholds, hold, window_of
from rules.formatting import and_join, ms_text, plural, utc_text
from rules.model.history import Interruption
from rules.model.identifiers import Millis, NodeId
from rules.model.quorum import Quorum
from rules.model.subject import Subject
from rules.remedies.remedy_commands import describe_status
from rules.rule import Rule

WINDOW = window_of("the fencings of a broker")
FENCINGS = Threshold(
    name="fencings",
    default=4.0,
    unit="fencings",
    meaning="this many fencings of one broker within the window are flapping, until fewer are left in it. "
    "At most 32 are remembered",
)
_TOGETHER_MS = 10_000
"""Brokers that were fenced so soon after each other have one cause: a session lasts 9 s by default."""
_MOST_LISTED = 20


def evaluate(facts: Facts, thresholds: Thresholds) -> Iterable[RuleResult]:
    """Returns one finding for each registered broker that was fenced too often."""
    quorum = facts.quorum
    newest = quorum.newest_timestamp_ms
    if newest is None:
        return
    since = newest - thresholds.ms(WINDOW.name)
    recent: dict[NodeId, list[Interruption]] = {}
    for interruption in quorum.history.interruptions:
        if interruption.timestamp_ms >= since:
            recent.setdefault(interruption.id, []).append(interruption)
    flapping = [
        node
        for node, fencings in sorted(recent.items())
        if node in quorum.brokers
        and len(fencings) >= thresholds[FENCINGS.name]
        and any(map(_without_restart, fencings))
    ]
    together = _fenced_together(recent) if flapping else {}
    for node in flapping:
        others = [other for other in together[node] if other != node]
        yield _finding(facts, node, recent[node], others, thresholds.ms(WINDOW.name))


def _without_restart(one: Interruption) -> bool:
    return not one.restarted and one.ended_offset is not None


def _fenced_together(recent: Mapping[NodeId, list[Interruption]]) -> Mapping[NodeId, list[NodeId]]:
    """Returns for each broker those that were fenced at most of the times at which it was, itself included, by id.

    All brokers that were fenced at the same times have one list, so that thousands of them cost no more than a few.
    """
    moments: list[tuple[Millis, set[NodeId]]] = []
    moments_of: dict[NodeId, set[int]] = {}
    for at_ms, node in sorted(
        (fencing.timestamp_ms, node) for node, fencings in recent.items() for fencing in fencings
    ):
        if not moments or at_ms - moments[-1][0] > _TOGETHER_MS:
            moments.append((at_ms, set()))
        moments[-1][1].add(node)
        moments_of.setdefault(node, set()).add(len(moments) - 1)
    together: dict[frozenset[int], list[NodeId]] = {}
    for indexes in {*map(frozenset, moments_of.values())}:
        times = Counter(chain.from_iterable(moments[index][1] for index in indexes))
        together[indexes] = sorted(node for node, count in times.items() if 2 * count > len(indexes))
    return {node: together[frozenset(indexes)] for node, indexes in moments_of.items()}


def _finding(facts: Facts, node: NodeId, fencings: list[Interruption], others: list[NodeId], window: Millis) -> Finding:
    """`others`: the brokers that were fenced at the same times."""
    quorum = facts.quorum
    restarts = sum(fencing.restarted for fencing in fencings)
    now = "It is fenced now" if quorum.brokers[node].fenced else "It is not fenced now"
    return Finding(
        subject=Subject("broker", node),
        severity=Severity.WARNING,
        summary=f"Broker {node} was fenced {len(fencings)} times within {ms_text(window)}, the last time at "
        f"{utc_text(fencings[-1].timestamp_ms)}. {_why(restarts)} {now}. Each time its partitions move "
        f"to other brokers and clients reconnect.{_together(others)}",
        evidence={
            "broker": node,
            **({"fenced_at_the_same_times": [*others[:_MOST_LISTED]]} if others else {}),
            "fencings_within_the_window": len(fencings),
            "fencings_with_a_restart": restarts,
            "fencings_after_a_controlled_shutdown": sum(fencing.announced for fencing in fencings),
            "fenced_now": quorum.brokers[node].fenced,
            "fencings": [_evidence(fencing) for fencing in fencings[-16:]],
        },
        remedy=(
            *_shared_steps(quorum, others),
            f"# Check the host of broker {node} for long pauses and its network to the active controller: heartbeats "
            "did not arrive within broker.session.timeout.ms",
            *_restart_steps(node, restarts),
            *(() if others else (f"# If it does not become stable, shut broker {node} down until the cause is known",)),
            "# Check which controller is the leader: brokers send their heartbeats to it",
            describe_status(facts),
        ),
        starts=(node,),
    )


def _why(restarts: int) -> str:
    if restarts == 0:
        return "Its process did not restart: its heartbeats were interrupted."
    return f"Its process restarted {'once' if restarts == 1 else plural(restarts, 'time')}."


def _together(others: list[NodeId]) -> str:
    if not others:
        return ""
    brokers = f"Broker {others[0]} was" if len(others) == 1 else f"Brokers {and_join(others, 4)} were"
    return f" {brokers} fenced at the same times: the cause may be the active controller or the network to it."


def _shared_steps(quorum: Quorum, others: list[NodeId]) -> Iterable[str]:
    if others:
        leader = "" if quorum.leader_id is None else f", controller {quorum.leader_id}"
        yield (
            f"# Check the active controller{leader}, for long pauses, its CPU and its metadata disk first, then the "
            "network to it: other brokers were fenced at the same times"
        )


def _restart_steps(node: NodeId, restarts: int) -> Iterable[str]:
    if restarts:
        yield (
            f"# Read the end of each run in the log of broker {node}: why its process ended (memory, a full or broken "
            "disk, a liveness probe)"
        )


def _evidence(one: Interruption) -> dict[str, Plain]:
    ended = one.ended_timestamp_ms
    return {
        "at": utc_text(one.timestamp_ms),
        "offset": one.offset,
        "lasted": "until now" if ended is None else ms_text(Millis(max(0, ended - one.timestamp_ms))),
        "controlled_shutdown": one.announced,
        "restarted": one.restarted,
    }


def _resolved(facts: Facts, subject: Subject) -> str:
    broker = facts.quorum.brokers.get(subject.node)
    if broker is None:
        return f"Broker {subject.node} is no longer registered."
    now = "It is not fenced: it serves clients." if broker.alive else "It is fenced now."
    return f"Broker {subject.node} is no longer fenced too often. {now}"


RULE = Rule(
    title="A broker is fenced again and again",
    resolved=_resolved,
    hold=hold(0.0, "the fencings have already happened"),
    further_thresholds=(WINDOW, FENCINGS),
    looks_back=True,
    needs=(Need.CURRENT_LOG,),
)
