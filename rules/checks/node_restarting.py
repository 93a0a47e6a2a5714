"""A controller or broker starts again and again.

What it means
    The node's process starts, ends, and starts again. It may be back each time before `voter-lagging`,
    `failure-tolerance` or `broker-fenced` fires. While it is down, the quorum has one voter less; the partitions of a
    broker move, and clients reconnect. One of these holds:

    - It started three times or more within 15 minutes.
    - A broker registered three times or more, however far apart, and was not unfenced in between: it ends at each
      start, before it serves.
    - It started four times or more within a day, about equally far apart, and no planned restart explains them, such as
      a controlled shutdown or restarts of the others as often.

    A controller that starts each time just after another one was elected in its place ends when it loses the lead, or
    while it leads; the alert says so.

    A rolling restart, or an upgrade that restarts each node twice, does not fire. Nor do three rolling restarts: while
    most other nodes start as often, six starts of a node are reported. Nodes that are restarted in turn without an end
    are `restarts-without-end`. A broker whose process runs on while its heartbeats are interrupted is
    `broker-flapping`.

    A start is a registration with a new incarnation id. A controller also counts by the monitor's probes: its endpoint
    accepted connections again after it had refused them. So one is found that ends before it registers, for example
    with a damaged snapshot, or in a version that lacks a finalized feature. A node that ends before it accepts a
    connection looks as if it were down (`voter-lagging`): only its host knows, where `kraftwatch witness` reports to
    the job.

    The alert resolves when the node has not started for 15 minutes, or for twice the longest time between these starts.

What to do
    1. Read the end of each run in the node's log, and what its supervisor says of the exit: out of memory, a full or
       broken disk, a configuration that is refused, a liveness probe that is too strict. For a controller the remedy
       has the phrases of Kafka's log with their causes. "Encountered fatal fault" alone tells nothing: the exception
       below it does.
    2. If that says that a controller cannot apply a record ("Error loading metadata log record"), and names no version,
       check whether other controllers fail at the same offset: if they do, it is a bug of this version; if not, this
       controller's copy of the log is wrong, and it needs a new one as after the loss of its disk.
    3. Undo the last change of this node, if the starts began with it.
    4. If a broker does not become stable, shut it down until the cause is known.

What not to do
    Do not restart another controller while a voter restarts: the quorum may lose its majority. `safe-to-restart`
    refuses it until that voter has been in sync for twice as long as between any two of its starts, or where the others
    are a majority without both.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from typing import TypeAlias

from rules.claims.statement import statement
from rules.claims.words import do_not_restart
from rules.facts.following import Following
from rules.facts.freshness import log_age_problem, log_read_problem
from rules.facts.lost_lead import lost_lead_text
from rules.facts.needs import Need
from rules.facts.node import Process
from rules.facts.quorum import Facts
from rules.facts.restart_rounds import planned_starts
from rules.finding import (
    Finding,
    FindingFacts,
    PastFailures,
    Plain,
    RuleResult,
    Severity,
    Threshold,
    Thresholds,
    UnknownResult,
    hold,
    window_of,
)
from rules.formatting import ms_text, numbered, utc_text
from rules.model.history import NodeKind
from rules.model.identifiers import Millis, NodeId, Offset
from rules.model.membership import majority
from rules.model.quorum import Quorum
from rules.model.subject import Subject
from rules.remedies.remedy_commands import who_follows
from rules.remedies.start_log import log_lines
from rules.remedies.step import keeps_running
from rules.rule import Rule

WINDOW = window_of("the starts of a node", "It must run as long for the alert to resolve")
STARTS = Threshold(
    name="starts",
    default=3.0,
    unit="starts",
    meaning="this many starts of one node within the window are reported. An upgrade may need two, and Kubernetes "
    "restarts a container that fails at least every 5 min. If most other nodes started as often, they were restarted "
    "in turn, as for settings that change in three rolls: then twice as many are needed. At most 32 are remembered",
)
SLOW_STARTS = Threshold(
    name="slow_starts",
    default=4.0,
    unit="starts",
    meaning="this many starts of one node within a day are reported, about equally far apart and without a planned "
    "restart that explains them: a node that ends every few hours reaches it, and repairs by hand rarely do",
)
_RECORD = (
    '# If it only says "Error loading metadata log record" or "Unable to apply", check whether other controllers fail '
    "at this offset: if none does, its own copy of the log is wrong, so keep that copy, and set the controller up as "
    "after the loss of its disk while a majority of the voters is in sync without it"
)
"""For a controller that cannot apply a record of the metadata log, where its log has no phrase of the table."""
_ALIKE = 4
"""By what factor two times between starts may differ: Kubernetes doubles the pause before each restart."""
_RUN_MS = 300_000
"""A broker that fails at its start, after it was unfenced, leaves by a controlled shutdown too, and within seconds."""
_HOUR_MS, _PLANNED_IN_AN_HOUR = 3_600_000, 2
"""A planned restart of all nodes restarts none more often in an hour: an upgrade may need two."""
_PLANNED_IN_A_DAY = 8
"""Nor more often in the day whose starts are remembered: nodes that all end every hour, out of memory, reach it."""
_FIRST_START_MS = 5_000
"""How long after it registers a node accepts connections at the latest."""
_STABLE_MS = 60_000
"""At least so long a voter has run that the quorum counts on again after such starts."""
_ROLLED = 2
"""How many times as many starts are needed while the nodes are restarted in turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Start:
    """One start of a node; for a broker at the time when it was fenced before, or registered again while it was."""

    offset: Offset | None
    """None for one that only the probes show: its time is of the monitor's clock then, and not of the log's."""
    timestamp_ms: Millis
    by_host: bool = False
    """Whether the node's host has seen its process, and the monitor its endpoint less often."""
    fenced_ms: Millis | None = None
    """How long a broker was fenced; None while it is, and for a controller."""
    fencing: Offset | None = None
    """The fencing of a broker during which it started."""
    planned: bool = False
    """Whether a broker had left by a controlled shutdown, and had run for a while before."""


def evaluate(facts: Facts, thresholds: Thresholds) -> Iterable[RuleResult]:
    """Yields one finding for each registered node that started too often."""
    quorum = facts.quorum
    newest = quorum.newest_timestamp_ms
    problem = log_read_problem(quorum) or log_age_problem(quorum)
    if problem is not None:
        yield UnknownResult(why=problem)
    loops: dict[tuple[NodeKind, NodeId], Sequence[_Start]] = {}
    in_turn: set[NodeId] = set()
    known = _starts(quorum)
    if problem is None and newest is not None:
        planned = {kind: planned_starts(quorum, kind) for kind in NodeKind}
        for (kind, node), starts in known.items():
            unplanned = [start for start in starts if (node, start.timestamp_ms) not in planned[kind]]
            if loop := _newest_loop(unplanned, _others(quorum, known, kind, node), newest, thresholds):
                loops[kind, node] = loop
            elif kind is NodeKind.CONTROLLER and len(unplanned) < len(starts):
                in_turn.add(node)
    returns = {about: starts for about, starts in _returns(quorum).items() if about[1] not in in_turn}
    for about, starts in returns.items():
        others = [[*known.get(other, ()), *of_other] for other, of_other in returns.items() if other != about]
        if about not in loops and (loop := _newest_loop(starts, others, quorum.now_ms, thresholds)):
            loops[about] = loop
    of_voters = {
        node: loop for (kind, node), loop in loops.items() if kind is NodeKind.CONTROLLER and _votes(quorum, node)
    }
    looping = _Looping(
        nodes=sorted(of_voters),
        unstable=frozenset(node for node, loop in of_voters.items() if not _runs_on(facts, node, loop)),
    )
    for (kind, node), loop in sorted(loops.items()):
        yield _finding(facts, kind, node, loop, thresholds, looping)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Looping:
    """The voters that restart again and again."""

    nodes: list[NodeId]
    unstable: frozenset[NodeId]
    """Those that may end again at any time."""

    def forbids(self, facts: Facts, node: NodeId) -> frozenset[NodeId]:
        """Returns the voters that must not be restarted because of this one: without one of them and the voters that
        may end there may be no majority. One without a vote may, and one that takes no part.
        """
        voters = facts.quorum.voting_ids
        if node not in self.unstable or len(voters) - len(self.unstable) - 1 >= majority(len(voters)):
            return frozenset()
        idle = {voter for voter in voters if _takes_no_part(facts, voter)}
        return voters - {node} - facts.without_vote.keys() - idle


def _takes_no_part(facts: Facts, node: NodeId) -> bool:
    """Returns whether a restart of a voter takes nothing from the quorum: it hangs, or does not fetch."""
    known = facts.nodes.get(node)
    return known is not None and (
        known.followed is Following.NOT_FETCHING or known.process in (Process.HUNG, Process.NOT_REACHED)
    )


def _runs_on(facts: Facts, node: NodeId, starts: Sequence[_Start]) -> bool:
    """Returns whether a voter is in sync and has run since for twice as long as between any two of these starts."""
    voter = facts.nodes.get(node)
    in_sync = voter is not None and voter.following is Following.IN_SYNC
    return in_sync and _ran_ms(facts, starts) > _stable_after_ms(starts)


def _ran_ms(facts: Facts, starts: Sequence[_Start]) -> int:
    """Returns how long ago the last start was, by its clock."""
    now_ms = facts.quorum.now_ms if starts[-1].offset is None else facts.quorum.newest_timestamp_ms
    return (now_ms or 0) - starts[-1].timestamp_ms


def _stable_after_ms(starts: Sequence[_Start]) -> int:
    return max(_STABLE_MS, 2 * max(_pauses(starts)))


def _past_failures(facts: Facts, node: NodeId, starts: Sequence[_Start], thresholds: Thresholds) -> PastFailures:
    left_ms = _stable_after_ms(starts) - _ran_ms(facts, starts)
    ran = "" if left_ms < 0 else f" and has run for {ms_text(Millis(_stable_after_ms(starts)))}"
    return PastFailures(
        times=tuple((node, start.timestamp_ms) for start in starts),
        enough=_enough(thresholds),
        until=f"controller {node} is in sync{ran}",
        ends_at_ms=None if left_ms < 0 else Millis(facts.quorum.now_ms + left_ms),
    )


def _newest_loop(
    starts: Sequence[_Start], others: Sequence[Sequence[_Start]], newest: Millis, thresholds: Thresholds
) -> Sequence[_Start]:
    """Returns the newest starts of a node that are too many, if the last one is recent; none if they are not.

    Args:
        starts: of the node, oldest first.
        others: the starts of each other node of its kind.
        newest: the current time of the clock of these starts.
        thresholds: of the rule.
    """
    loop = (
        _quick_loop(starts, others, newest, thresholds)
        or _failed_starts(starts, thresholds)
        or _slow_loop(starts, others, thresholds)
    )
    if not loop:
        return []
    quiet_ms = thresholds.ms(WINDOW.name)
    if loop[0].fenced_ms is None or loop[0].fencing != loop[-1].fencing:
        # A broker that failed at each start and serves now has recovered, however far apart its starts were.
        quiet_ms = max(quiet_ms, Millis(2 * max(_pauses(loop))))
    return loop if newest - loop[-1].timestamp_ms <= quiet_ms else []


def _returns(quorum: Quorum) -> Mapping[tuple[NodeKind, NodeId], Sequence[_Start]]:
    """Returns the starts that the log need not have: of endpoints that accepted connections again, or by their hosts.

    The start at which a node registered first is none that replaced another one, and those before it are older.
    """
    first_ms = {
        start.id: quorum.now_ms - _age_ms(quorum, start.timestamp_ms)
        for start in quorum.history.starts
        if start.replaced_incarnation_id is None and start.id in quorum.controllers
    }
    seen: dict[tuple[NodeKind, NodeId], set[Millis]] = {}
    for probe in quorum.probes.values():
        seen.setdefault((NodeKind.CONTROLLER, probe.node), set()).update(probe.returned_at_ms)
    by_host: set[tuple[NodeKind, NodeId]] = set()
    for row in quorum.witnesses:
        kind = NodeKind.BROKER if row.node in quorum.brokers.keys() - quorum.voter_ids else NodeKind.CONTROLLER
        # Both see most starts, and one start at two times.
        if len(row.processes_at_ms) > len(seen.get((kind, row.node), ())):
            seen[kind, row.node] = {*row.processes_at_ms}
            by_host.add((kind, row.node))
    return {
        about: [
            _Start(offset=None, timestamp_ms=at_ms, by_host=about in by_host)
            for at_ms in sorted(times)
            if at_ms > first_ms.get(about[1], -_FIRST_START_MS) + _FIRST_START_MS
        ]
        for about, times in seen.items()
    }


def _starts(quorum: Quorum) -> Mapping[tuple[NodeKind, NodeId], Sequence[_Start]]:
    """Returns the starts of each registered node, oldest first; of a controller that is also a broker, once."""
    found: dict[tuple[NodeKind, NodeId], list[_Start]] = {}
    for start in quorum.history.starts:
        if start.replaced_incarnation_id is not None and start.id in quorum.controllers:
            one = _Start(offset=start.offset, timestamp_ms=start.timestamp_ms)
            found.setdefault((NodeKind.CONTROLLER, start.id), []).append(one)
    unfenced: dict[NodeId, Millis] = {}
    for fencing in quorum.history.interruptions:
        since_ms = unfenced.get(fencing.id)
        if fencing.ended_timestamp_ms is not None:
            unfenced[fencing.id] = fencing.ended_timestamp_ms
        if fencing.restarted and fencing.id in quorum.brokers and fencing.id not in quorum.controllers:
            ended, began = fencing.ended_timestamp_ms, fencing.offset
            one = _Start(
                offset=began,
                timestamp_ms=fencing.timestamp_ms,
                fenced_ms=None if ended is None else Millis(max(0, ended - fencing.timestamp_ms)),
                fencing=began,
                planned=fencing.announced and (since_ms is None or fencing.timestamp_ms - since_ms >= _RUN_MS),
            )
            further = (_Start(offset=at, timestamp_ms=at_ms, fencing=began) for at, at_ms in fencing.further_starts)
            found.setdefault((NodeKind.BROKER, fencing.id), []).extend((one, *further))
    return dict(sorted(found.items()))


_Known: TypeAlias = Mapping[tuple[NodeKind, NodeId], Sequence[_Start]]


def _others(quorum: Quorum, known: _Known, kind: NodeKind, node: NodeId) -> Sequence[Sequence[_Start]]:
    """Returns the starts of each other registered node of this kind, or of the other kind if it is the only one.

    None for one that did not start again.
    """
    brokers = {(NodeKind.BROKER, broker) for broker in quorum.brokers if broker not in quorum.controllers}
    controllers = {(NodeKind.CONTROLLER, controller) for controller in quorum.controllers}
    alike, unlike = (controllers, brokers) if kind is NodeKind.CONTROLLER else (brokers, controllers)
    return [known.get(each, ()) for each in alike - {(kind, node)} or unlike]


def _quick_loop(
    starts: Sequence[_Start], others: Sequence[Sequence[_Start]], newest: Millis, thresholds: Thresholds
) -> Sequence[_Start]:
    """Returns the newest starts that are too many within the window; none if there are none."""
    window, enough = thresholds.ms(WINDOW.name), _enough(thresholds)
    found = _within(starts, newest, window, enough)
    if found and _are_rolled(others, since_ms=found[-1].timestamp_ms - window, enough=enough):
        return _within(starts, newest, window, _ROLLED * enough)
    return found


def _enough(thresholds: Thresholds) -> int:
    return max(2, round(thresholds[STARTS.name]))


def _are_rolled(others: Sequence[Sequence[_Start]], *, since_ms: int, enough: int) -> bool:
    """Returns whether most other nodes started as often since then, or once less: they are restarted in turn."""
    counts = [_count(of_other, since_ms) for of_other in others]
    return bool(others) and sum(count >= max(1, enough - 1) for count in counts) >= majority(len(others))


def _count(starts: Iterable[_Start], since_ms: int, until_ms: float = inf) -> int:
    """Returns how often a node started in a time: the log and the probes show the same starts, and may miss some."""
    times = Counter(start.offset is None for start in starts if since_ms <= start.timestamp_ms <= until_ms)
    return max(times.values(), default=0)


def _within(starts: Sequence[_Start], newest: Millis, window: Millis, enough: int) -> Sequence[_Start]:
    for end in range(len(starts), enough - 1, -1):
        first, last = starts[end - enough], starts[end - 1]
        if last.timestamp_ms - first.timestamp_ms <= window and newest - last.timestamp_ms <= window:
            return [start for start in starts[:end] if last.timestamp_ms - start.timestamp_ms <= window]
    return []


def _failed_starts(starts: Sequence[_Start], thresholds: Thresholds) -> Sequence[_Start]:
    """Returns a broker's starts within one fencing, if they are too many: it ends at each start."""
    fencing, enough = starts[-1].fencing if starts else None, _enough(thresholds)
    failed = [] if fencing is None else [start for start in starts if start.fencing == fencing]
    return failed if len(failed) >= enough else []


def _slow_loop(
    starts: Sequence[_Start], others: Iterable[Sequence[_Start]], thresholds: Thresholds
) -> Sequence[_Start]:
    """Returns the newest starts, about equally far apart, that are too many for planned restarts; none if they are not.

    `others`: the starts of each other node of the kind.
    """
    enough = max(2, round(thresholds[SLOW_STARTS.name]))
    unplanned = [start for start in starts if not start.planned]
    pauses, window = _pauses(unplanned), thresholds.ms(WINDOW.name)
    first = len(pauses)
    while first > 0 and (first == len(pauses) or _alike(pauses[first - 1], pauses[first], window)):
        first -= 1
    chain = unplanned[first:]
    if len(chain) < enough:
        return []
    begin, end = chain[0].timestamp_ms, chain[-1].timestamp_ms
    counts = sorted(_count(of_other, begin, end) for of_other in others)
    usual = counts[(len(counts) - 1) // 2] if counts else 0
    planned = min(usual, _PLANNED_IN_AN_HOUR * ((end - begin) // _HOUR_MS + 1), _PLANNED_IN_A_DAY)
    return chain if len(chain) - planned >= enough else []


def _pauses(starts: Sequence[_Start]) -> Sequence[int]:
    return [max(0, later.timestamp_ms - start.timestamp_ms) for start, later in pairwise(starts)]


def _alike(one: int, other: int, window: Millis) -> bool:
    return max(one, other) <= window or max(one, other) <= _ALIKE * min(one, other)


def _finding(
    facts: Facts, kind: NodeKind, node: NodeId, starts: Sequence[_Start], thresholds: Thresholds, looping: _Looping
) -> Finding:
    quorum, window = facts.quorum, thresholds.ms(WINDOW.name)
    subject, broker = Subject(kind, node), quorum.brokers.get(node)
    kept = looping.forbids(facts, node) if kind is NodeKind.CONTROLLER else frozenset[NodeId]()
    name = str(subject)
    within = starts[-1].timestamp_ms - starts[0].timestamp_ms <= window
    period = f"within {ms_text(window)}" if within else f"since {utc_text(starts[0].timestamp_ms)}"
    served = starts[0].fencing is None or starts[0].fencing != starts[-1].fencing
    probed = starts[0].offset is None
    return Finding(
        subject=subject,
        severity=Severity.WARNING,
        summary=f"{name.capitalize()} restarts again and again: {len(starts)} starts {period}, the "
        f"last at {utc_text(starts[-1].timestamp_ms)}."
        f"{'' if served else ' It was not unfenced in between: it ends at each start.'}"
        f"{_probed(quorum, node, starts[0]) if probed else _lost_lead(quorum, kind, node, starts)}"
        f"{_consequence(facts, node, looping.nodes)}",
        evidence={
            "failed_nodes": [node],
            "node": name,
            "starts": len(starts),
            "first_start": utc_text(starts[0].timestamp_ms),
            "newest_starts": [_evidence(start) for start in starts[-16:]],
            **({} if broker is None else {"fenced_now": broker.fenced, "served_between_the_starts": served}),
            "leader": quorum.leader_id,
        },
        facts=FindingFacts(failed_nodes=(node,)),
        starts=(node,),
        remedy=(
            f"# Read the end of each run in the log of {name}: why its process ended",
            f"# Check what the supervisor of {name} says of the exits (systemd: systemctl status SERVICE; Kubernetes: "
            "kubectl describe pod POD): out of memory, a signal, a liveness probe",
            f"# Undo the last change of the configuration or version of {name}, if the starts began with it",
            *_shutdown_steps(facts, kind, node, kept),
            *who_follows(facts, excluding=node if kind is NodeKind.CONTROLLER else None),
            *((*log_lines(facts), _RECORD) if kind is NodeKind.CONTROLLER else ()),
        ),
        keep_running=kept,
        past_failures=_past_failures(facts, node, starts, thresholds) if kept else None,
    )


def _age_ms(quorum: Quorum, timestamp_ms: Millis) -> int:
    """Returns how long ago a record was written: ages compare times of the log's clock and of the monitor's.

    Nothing shows what is newer than the log.
    """
    unread_ms = 0 if quorum.log_fetched_at_ms is None else quorum.now_ms - quorum.log_fetched_at_ms
    return (quorum.newest_timestamp_ms or timestamp_ms) + unread_ms - timestamp_ms


def _probed(quorum: Quorum, node: NodeId, first: _Start) -> str:
    """Returns what the probes, or its host, show of a node that starts again and again."""
    registration = quorum.controllers.get(node)
    text = " Each time its endpoint refused connections before."
    if first.by_host:
        text = " Its host saw each of these processes; its endpoint accepted connections less often."
    if registration is None or quorum.newest_timestamp_ms is None:
        return text
    registered = _age_ms(quorum, registration.at.timestamp_ms) < quorum.now_ms - first.timestamp_ms
    return text if registered else f"{text} It has not registered since: it ends before that."


def _lost_lead(quorum: Quorum, kind: NodeKind, node: NodeId, starts: Sequence[_Start]) -> str:
    times = (start.timestamp_ms for start in starts)
    return lost_lead_text(quorum, node, times) if kind is NodeKind.CONTROLLER else ""


def _votes(quorum: Quorum, node: NodeId) -> bool:
    voters = quorum.poll.voter_keys if quorum.poll else quorum.committed.keys if quorum.committed else ()
    return any(key.id == node for key in voters)


def _consequence(facts: Facts, node: NodeId, looping: list[NodeId]) -> str:
    quorum_loses = " Each time the quorum has one voter less." if node in looping else ""
    voters = len(facts.quorum.voting_ids)
    if quorum_loses and voters - len(looping) < majority(voters) < voters:
        quorum_loses = f" Without {numbered('controller', looping)} too few voters stay for a majority."
    moves = " Each time its partitions move to other brokers and clients reconnect." if _is_broker(facts, node) else ""
    return quorum_loses + moves


def _is_broker(facts: Facts, node: NodeId) -> bool:
    return node in facts.quorum.brokers and node not in facts.leftover_brokers


def _shutdown_steps(facts: Facts, kind: NodeKind, node: NodeId, kept: Collection[NodeId]) -> Iterable[str]:
    if kind is NodeKind.BROKER:
        yield f"# If it does not become stable, shut broker {node} down until the cause is known"
    elif kept:
        others = facts.quorum.voting_ids - {node}
        forbidden = do_not_restart(kept, named="another controller" if others == kept else "")
        yield keeps_running(statement("# ", forbidden, f" until controller {node} is stable"))


def _evidence(one: _Start) -> dict[str, Plain]:
    fenced = {} if one.fenced_ms is None else {"fenced_for": ms_text(one.fenced_ms)}
    return {"at": utc_text(one.timestamp_ms), "offset": one.offset, **fenced}


def _resolved(facts: Facts, subject: Subject) -> str:
    known = facts.quorum.controllers if subject.kind == "controller" else facts.quorum.brokers
    if subject.node not in known:
        return f"{str(subject).capitalize()} is no longer registered."
    return f"{str(subject).capitalize()} has not started again within the window."


RULE = Rule(
    title="A node restarts again and again",
    resolved=_resolved,
    hold=hold(0.0, "the starts have already happened"),
    further_thresholds=(WINDOW, STARTS, SLOW_STARTS),
    looks_back=True,
    needs=(Need.METADATA_LOG,),
    # What is between the restarts is the same fault: one incident.
    grouped_with=("broker-fenced", "broker-flapping", "epoch-churn", "failure-tolerance", "voter-lagging"),
    without_leader=True,
)
