"""A controller or broker starts again and again.

What it means
    The node's process started three times or more within 15 minutes, and has not run for 15 minutes since. It may be
    back each time before `voter-lagging`, `failure-tolerance` or `broker-fenced` fires. While it is down, the quorum
    has one voter less; the partitions of a broker move, and clients reconnect.

    A rolling restart, or an upgrade that restarts each node twice, does not fire. A broker whose process runs on while
    its heartbeats are interrupted is `broker-flapping`.

    A start is a registration, not the node's first, with a new incarnation id. A node that is controller and broker is
    one process. Below metadata.version 3.7 the log has no starts of controllers. A broker counts from its first fencing
    that the log shows.

What to do
    1. Read the end of each run in the node's log, and what its supervisor says of the exit: out of memory, a full or
       broken disk, a configuration that is refused, a liveness probe that is too strict.
    2. Undo the last change of this node, if the starts began with it.
    3. If a broker does not become stable, shut it down until the cause is known.

What not to do
    Do not restart another controller while a voter restarts: the quorum may lose its majority.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rules.analysis.freshness import ANSWER_AGE
from rules.analysis.now import node_of
from rules.finding import (
    FAILED_NODES,
    Finding,
    Need,
    Plain,
    Rule,
    RuleResult,
    Severity,
    Threshold,
    Thresholds,
    hold,
    window_of,
)
from rules.formatting import ms_text, utc_text
from rules.model.history import NodeKind
from rules.model.identifiers import Millis, NodeId, Offset
from rules.model.quorum import Quorum
from rules.remedies.remedy_commands import describe_status

WINDOW = window_of(
    "the starts of a node", "It must run as long for the alert to resolve. At most an hour is remembered"
)
STARTS = Threshold(
    name="starts",
    default=3.0,
    unit="starts",
    meaning="this many starts of one node within the window are reported. An upgrade may need two, and Kubernetes "
    "restarts a container that fails at least every 5 min. At most 32 are remembered",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Start:
    """One start of a node; for a broker at the time when it was fenced before, or registered again while it was."""

    offset: Offset
    timestamp_ms: Millis
    fenced_ms: Millis | None = None
    """How long a broker was fenced; None while it is, and for a controller."""


def evaluate(quorum: Quorum, thresholds: Thresholds) -> Iterable[RuleResult]:
    """Returns one finding for each registered node that started too often."""
    newest, window = quorum.newest_timestamp_ms, thresholds.ms(WINDOW.name)
    if newest is None:
        return
    for (kind, node), starts in _starts(quorum).items():
        last = _last_of_enough(starts, newest, window, max(1, round(thresholds[STARTS.name])))
        if last is not None:
            counted = [one for one in starts if 0 <= last.timestamp_ms - one.timestamp_ms <= window]
            yield _finding(quorum, kind, node, counted, window)


def _starts(quorum: Quorum) -> Mapping[tuple[NodeKind, NodeId], Sequence[_Start]]:
    """Returns the starts of each registered node, oldest first; of a controller that is also a broker, once."""
    found: dict[tuple[NodeKind, NodeId], list[_Start]] = {}
    for start in quorum.history.starts:
        if start.replaced_incarnation_id is not None and start.id in quorum.controllers:
            one = _Start(offset=start.offset, timestamp_ms=start.timestamp_ms)
            found.setdefault((NodeKind.CONTROLLER, start.id), []).append(one)
    for fencing in quorum.history.interruptions:
        if fencing.restarted and fencing.id in quorum.brokers and fencing.id not in quorum.controllers:
            ended = fencing.ended_timestamp_ms
            fenced_ms = None if ended is None else Millis(max(0, ended - fencing.timestamp_ms))
            one = _Start(offset=fencing.offset, timestamp_ms=fencing.timestamp_ms, fenced_ms=fenced_ms)
            further = (_Start(offset=offset, timestamp_ms=at_ms) for offset, at_ms in fencing.further_starts)
            found.setdefault((NodeKind.BROKER, fencing.id), []).extend((one, *further))
    return dict(sorted(found.items()))


def _last_of_enough(starts: Sequence[_Start], newest: Millis, window: Millis, enough: int) -> _Start | None:
    for end in range(len(starts), enough - 1, -1):
        first, last = starts[end - enough], starts[end - 1]
        if last.timestamp_ms - first.timestamp_ms <= window and newest - last.timestamp_ms <= window:
            return last
    return None


def _finding(quorum: Quorum, kind: NodeKind, node: NodeId, starts: Sequence[_Start], window: Millis) -> Finding:
    name, broker = f"{kind} {node}", quorum.brokers.get(node)
    return Finding(
        subject=name,
        severity=Severity.WARNING,
        summary=f"{name.capitalize()} restarts again and again: {len(starts)} starts within {ms_text(window)}, the "
        f"last at {utc_text(starts[-1].timestamp_ms)}.{_consequence(quorum, node)}",
        evidence={
            FAILED_NODES: [node],
            "node": name,
            "starts_within_the_window": len(starts),
            "starts": [_evidence(one) for one in starts[-16:]],
            **({} if broker is None else {"fenced_now": broker.fenced}),
            "leader": quorum.leader_id,
        },
        remedy=(
            f"# Read the end of each run in the log of {name}: why its process ended",
            f"# Check what the supervisor of {name} says of the exits (systemd: systemctl status SERVICE; Kubernetes: "
            "kubectl describe pod POD): out of memory, a signal, a liveness probe",
            f"# Undo the last change of the configuration or version of {name}, if the starts began with it",
            *_shutdown_steps(quorum, kind, node),
            "# Check which controller is the leader now and which voters follow it",
            describe_status(quorum, excluding=node if kind is NodeKind.CONTROLLER else None),
        ),
    )


def _consequence(quorum: Quorum, node: NodeId) -> str:
    voters = quorum.poll.voter_keys if quorum.poll else quorum.committed.keys if quorum.committed else ()
    quorum_loses = " Each time the quorum has one voter less." if any(key.id == node for key in voters) else ""
    moves = " Each time its partitions move to other brokers and clients reconnect." if node in quorum.brokers else ""
    return quorum_loses + moves


def _shutdown_steps(quorum: Quorum, kind: NodeKind, node: NodeId) -> Iterable[str]:
    if kind is NodeKind.BROKER:
        yield f"# If it does not become stable, shut broker {node} down until the cause is known"
    elif quorum.voter(node):
        yield f"# Do not restart another controller until controller {node} is stable"


def _evidence(one: _Start) -> dict[str, Plain]:
    fenced = {} if one.fenced_ms is None else {"fenced_for": ms_text(one.fenced_ms)}
    return {"at": utc_text(one.timestamp_ms), "offset": one.offset, **fenced}


def _resolved(quorum: Quorum, subject: str) -> str:
    known = quorum.controllers if subject.startswith("controller") else quorum.brokers
    if node_of(subject) not in known:
        return f"{subject.capitalize()} is no longer registered."
    return f"{subject.capitalize()} has not started again within the window."


RULE = Rule(
    title="A node restarts again and again",
    resolved=_resolved,
    hold=hold(0.0, "the starts have already happened"),
    further_thresholds=(WINDOW, STARTS, ANSWER_AGE),
    needs=(Need.CURRENT_LOG,),
    # What is between the restarts is the same fault: one incident.
    grouped_with=("broker-fenced", "broker-flapping", "epoch-churn", "failure-tolerance", "voter-lagging"),
)
