"""What must be reported, and what may be, from nothing but what was done. Imports nothing of the product.

The moments of a run are checked second by second. A condition is certain if what was done leaves no doubt of it, and
the monitor could observe it. After it was certain for its hold and DETECTED_S without interruption, its alert must
fire. An alert may fire only if what was done explains it, and must have resolved some time after the last explanation.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from tests.chaos.facts import Course, Fact, Kind

SESSION_S = 6.0
"""broker.session.timeout.ms of the lab."""
DETECTED_S = 30.0
"""From the end of its hold an alert may take so long, beside other work: polls, fetch timeouts, probes."""
AFTER_S = 60.0
"""An explanation counts so long after its end: elections, restarts, catching up, ages of ten seconds and holds."""
HOLD_S = {
    "no-leader": 8.0,
    "failure-tolerance": 30.0,
    "voter-lagging": 40.0,
    "voter-disk-replaced": 30.0,
    "broker-fenced": 20.0,
    "stale-voter-endpoint": 20.0,
    "partition-stuck-recovering": 30.0,
    "monitor-blind": 20.0,
    "controller-not-observed": 60.0,
    "controller-stuck": 10.0,
    "partitions-offline": 20.0,
    "monitor-degraded relay": 60.0,
}
"""The holds of the run's configuration."""
KEEPS_FIRING = {
    "unclean-election": ("keep_firing_for", 60.0),
    "voter-log-regressed": ("keep_firing_for", 60.0),
    "node-restarting": ("window", 120.0),
    "epoch-churn": ("window", 120.0),
    "broker-flapping": ("window", 120.0),
}
"""By which threshold of the run's configuration, and for how long, these rules fire after their cause."""
KEEPS_FIRING_S = {rule: seconds for rule, (_, seconds) in KEEPS_FIRING.items()}
LASTING = "committed-metadata-lost"
"""The rule whose alert fires for an hour after its cause."""
_MEMBERS = (Kind.NEW_DISK, Kind.OLD_DISK, Kind.REMOVED, Kind.MOVED)
_CLUSTER = (Kind.SILENT, Kind.UNCERTAIN, Kind.UNSERVED, Kind.STUCK, Kind.NAMELESS, *_MEMBERS)
_BROKERS = (Kind.BROKER_SILENT, Kind.BROKER_UNCERTAIN)
EXPLANATIONS: Mapping[str, tuple[Sequence[Kind], Sequence[Kind]]] = {
    "no-leader": ((), (*_CLUSTER, Kind.BUSY)),
    "controller-stuck": ((), (Kind.STUCK, Kind.BUSY)),
    "log-directory-offline": ((Kind.DIRECTORY_LOST,), ()),
    "epoch-churn": ((), (*_CLUSTER, Kind.BUSY)),
    "failure-tolerance": ((), (*_CLUSTER, Kind.BUSY)),
    "voter-lagging": (_CLUSTER, (Kind.BUSY,)),
    "voter-log-regressed": (_CLUSTER, ()),
    "voter-disk-replaced": (_MEMBERS, ()),
    "observer-could-be-voter": (_MEMBERS, ()),
    "voter-change-stuck": ((), _MEMBERS),
    "stale-voter-endpoint": (
        (Kind.MOVED, Kind.NAMELESS, Kind.SILENT, Kind.UNCERTAIN, Kind.UNSERVED, Kind.NOT_OBSERVED),
        (),
    ),
    "broker-fenced": (_BROKERS, (*_CLUSTER, Kind.BUSY)),
    "broker-flapping": (_BROKERS, (*_CLUSTER, Kind.BUSY)),
    "observer-lagging": ((*_BROKERS, *_MEMBERS), (*_CLUSTER, Kind.BUSY)),
    "partition-stuck-recovering": ((), (Kind.RECOVERING, Kind.DIRECTORY_LOST, Kind.STUCK)),
    "unclean-election": ((), (Kind.RECOVERING, Kind.DIRECTORY_LOST, Kind.STUCK, *_BROKERS)),
    "partitions-offline": ((*_BROKERS, Kind.DIRECTORY_LOST), (Kind.RECOVERING, *_CLUSTER, Kind.BUSY)),
    "monitor-blind": ((), (Kind.NOT_OBSERVED, Kind.MONITOR_OFF, Kind.RELAY_OFF, Kind.BUSY, *_CLUSTER)),
    "controller-not-observed": ((), (Kind.NOT_OBSERVED, Kind.MONITOR_OFF, Kind.RELAY_OFF, Kind.BUSY, *_CLUSTER)),
    "resolver-failing": ((), (Kind.NAMELESS, Kind.BUSY)),
    "monitor-degraded": ((), (Kind.MONITOR_OFF, Kind.RELAY_OFF, Kind.BUSY)),
    "raft-invariant-broken": ((), (Kind.OLD_DISK,)),
    "node-restarting": ((Kind.STARTED,), ()),
    "views-disagree": ((), (Kind.UNCERTAIN, Kind.NOT_OBSERVED, Kind.SILENT)),
}
"""The facts that may cause an alert of each rule: those of the node that its subject names, and those of any. An alert
of a rule that is not here is false, but for the loss of committed metadata."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """A condition that was certain for long enough."""

    rule: str
    subject: str
    """A part of the alert's subject."""
    since: float
    due: float
    """When its alert must have fired."""
    until: float
    """When the condition stopped being certain."""
    people: bool
    """Whether people must have been notified of it: no other alert is their cause."""

    def is_met_by(self, rule: str, subject: str) -> bool:
        """Whether such an alert reports it.

        A voter that refuses the monitor alone has a stale endpoint for it. If only voters with a new disk are missing,
        their own alerts say that no further failure is tolerated. If the last controller that is reached still
        names the killed leader, nobody can tell: the quorum is critical and unknown.
        """
        instead = ("stale-voter-endpoint", self.subject.replace("controller", "voter"))
        return (
            (rule == self.rule and self.subject in subject)
            or (self.rule == "controller-not-observed" and (rule, subject) == instead)
            or (self.rule, rule) == ("failure-tolerance", "voter-disk-replaced")
            or (self.rule, rule, subject) == ("no-leader", "monitor-blind", "quorum")
        )


class Oracle:
    """The expectations of one run."""

    def __init__(self, course: Course) -> None:
        self.course = course
        self._times = [each.at for each in course.leaders]
        self._has_leader: dict[float, bool] = {}
        self._facts: dict[Kind, list[Fact]] = {kind: list(course.facts.of(kind)) for kind in Kind}

    # ---- the state of the quorum at a moment

    def _is(self, kind: Kind, at: float, subject: object = None) -> bool:
        wanted = None if subject is None else str(subject)
        return any(fact.is_so(at) for fact in self._facts[kind] if wanted in (None, fact.subject))

    def voters(self, at: float) -> list[int]:
        """Returns the controllers that are voters."""
        return [each for each in self.course.controllers if not self._is(Kind.REMOVED, at, each)]

    def serving(self, at: float) -> list[int]:
        """Returns the voters that surely serve."""
        doubts = (Kind.SILENT, Kind.UNCERTAIN, Kind.UNSERVED, Kind.NEW_DISK)
        return [each for each in self.voters(at) if not any(self._is(kind, at, each) for kind in doubts)]

    def absent(self, at: float) -> list[int]:
        """Returns the voters that surely do not serve."""
        return [
            each for each in self.voters(at) if self._is(Kind.SILENT, at, each) or self._is(Kind.NEW_DISK, at, each)
        ]

    def majority(self, at: float) -> int:
        """Returns how many voters are a majority."""
        return len(self.voters(at)) // 2 + 1

    def has_leader(self, at: float) -> bool:
        """Whether there is surely a leader: a majority serves, and one answered."""
        if at not in self._has_leader:
            self._has_leader[at] = len(self.serving(at)) >= self.majority(at) and self.leader_answers(at)
        return self._has_leader[at]

    def leader_answers(self, at: float) -> bool:
        """Whether the quorum itself answered around this moment that it has a leader."""
        near = self.course.leaders[bisect_left(self._times, at - 3) : bisect_right(self._times, at + 3)]
        return bool(near) and all(each.leader is not None for each in near)

    def observed(self, at: float) -> bool:
        """Whether the monitor surely observes the cluster."""
        return self._works(at) and not self._is(Kind.NOT_OBSERVED, at) and not self._is(Kind.NAMELESS, at)

    def majority_reached(self, at: float) -> bool:
        """Whether a majority of the voters surely answers the monitor, or none does: then nobody reports no leader."""
        hidden = {each for each in self.course.controllers if self._is(Kind.NOT_OBSERVED, at, each)}
        reached = [each for each in self.serving(at) if each not in hidden]
        return len(reached) >= self.majority(at) or hidden == {*self.course.controllers}

    def _works(self, at: float) -> bool:
        """Whether the monitor surely works."""
        relays_off = [fact for fact in self._facts[Kind.RELAY_OFF] if fact.is_so(at)]
        return not self._is(Kind.MONITOR_OFF, at) and not self._is(Kind.BUSY, at) and len(relays_off) < 2

    # ---- what must be reported

    def expected(self) -> Iterator[Expected]:
        """Yields every condition that was certain for its hold and DETECTED_S."""
        course = self.course
        yield from self._long_enough("no-leader", "", self._no_majority)
        yield from self._long_enough("failure-tolerance", "", self._no_tolerance)
        for node in course.controllers:
            yield from self._long_enough("voter-lagging", f"voter {node}", partial(self._lags, node))
            yield from self._long_enough("voter-disk-replaced", f"controller {node}", partial(self._has_new_disk, node))
            yield from self._long_enough("stale-voter-endpoint", f"voter {node}", partial(self._is_nameless, node))
            yield from self._long_enough(
                "controller-not-observed", f"controller {node}", partial(self._is_not_observed, node)
            )
            yield from self._long_enough(
                "controller-not-observed", f"controller {node}", partial(self._serves_none, node)
            )
            yield from self._long_enough("controller-stuck", "active controller", partial(self._is_stuck, node))
        for fact in course.facts.of(Kind.DIRECTORY_LOST):
            yield from self._long_enough(
                "partitions-offline", f"broker {fact.subject}", partial(self._lost_directory, fact)
            )
        for broker in sorted({fact.subject for fact in course.facts.of(Kind.BROKER_SILENT)}):
            yield from self._long_enough("broker-fenced", f"broker {broker}", partial(self._is_fenced, broker))
        for fact in course.facts.of(Kind.RECOVERING):
            yield from self._long_enough("partition-stuck-recovering", fact.subject, partial(self._recovers, fact))
        yield from self._long_enough("monitor-blind", "", self._none_observed)
        yield from self._long_enough("monitor-degraded relay", "relay", self._no_relay)

    def _no_majority(self, at: float) -> bool:
        return self.observed(at) and len(self.voters(at)) - len(self.absent(at)) < self.majority(at)

    def _no_tolerance(self, at: float) -> bool:
        lost = len(self.voters(at)) - self.majority(at)
        return self.observed(at) and self.has_leader(at) and len(self.absent(at)) == lost > 0

    def _lags(self, node: int, at: float) -> bool:
        lost = len(self.voters(at)) - self.majority(at)
        silent = self._is(Kind.SILENT, at, node) and not self._is(Kind.NEW_DISK, at, node)
        return self.observed(at) and self.has_leader(at) and silent and len(self.absent(at)) < lost

    def _has_new_disk(self, node: int, at: float) -> bool:
        running = not self._is(Kind.SILENT, at, node) and not self._is(Kind.UNCERTAIN, at, node)
        return self.observed(at) and self.has_leader(at) and running and self._is(Kind.NEW_DISK, at, node)

    def _is_fenced(self, broker: str, at: float) -> bool:
        silent = self._is(Kind.BROKER_SILENT, at, broker) and self._is(Kind.BROKER_SILENT, at - SESSION_S, broker)
        return self.observed(at) and self.has_leader(at) and silent

    def _recovers(self, fact: Fact, at: float) -> bool:
        return self.observed(at) and self.has_leader(at) and fact.is_so(at)

    def _is_not_observed(self, node: int, at: float) -> bool:
        missing = [each for each in self.course.controllers if self._is(Kind.NOT_OBSERVED, at, each)]
        named = self._works(at) and not self._is(Kind.NAMELESS, at)
        return named and missing == [node] and node in self.serving(at) and self.has_leader(at)

    def _serves_none(self, node: int, at: float) -> bool:
        others = (each for each in self.course.controllers if each != node)
        alone = all(each in self.serving(at) for each in others) and not self._is(Kind.SILENT, at, node)
        steady = not self._is(Kind.UNCERTAIN, at, node) and self.leader_answers(at)
        return self.observed(at) and alone and steady and self._is(Kind.UNSERVED, at, node)

    def _is_stuck(self, node: int, at: float) -> bool:
        near = self.course.leaders[bisect_left(self._times, at - 3) : bisect_right(self._times, at + 3)]
        leads = bool(near) and all(each.leader == node for each in near)
        return self.observed(at) and self.has_leader(at) and leads and self._is(Kind.STUCK, at, node)

    def _lost_directory(self, fact: Fact, at: float) -> bool:
        """Kafka finds it within five seconds; then the active controller writes that the partitions have no leader."""
        certain = fact.is_so(at) and fact.is_so(at - 10) and not self._is(Kind.BROKER_UNCERTAIN, at, fact.subject)
        return certain and self.observed(at) and self.has_leader(at) and not self._is(Kind.STUCK, at)

    def _is_nameless(self, node: int, at: float) -> bool:
        reached = self._works(at) and not self._is(Kind.NOT_OBSERVED, at)
        return reached and self.has_leader(at) and node in self.voters(at) and self._is(Kind.NAMELESS, at, node)

    def _none_observed(self, at: float) -> bool:
        cut_off = all(self._is(Kind.NOT_OBSERVED, at, each) for each in self.course.controllers)
        return cut_off and self._works(at)

    def _no_relay(self, at: float) -> bool:
        works = not self._is(Kind.MONITOR_OFF, at) and not self._is(Kind.BUSY, at)
        return works and len([fact for fact in self._facts[Kind.RELAY_OFF] if fact.is_so(at)]) == 2

    def _long_enough(self, rule: str, subject: str, certain: Callable[[float], bool]) -> Iterator[Expected]:
        enough = HOLD_S[rule] + DETECTED_S
        for start, end in self.runs(certain):
            if end - start >= enough:
                alone = ("no-leader", "monitor-", "controller-not-observed")
                inhibited = not rule.startswith(alone) and not self._leads_between(start, start + enough)
                yield Expected(
                    rule=rule.split(" ")[0],
                    subject=subject,
                    since=start,
                    due=start + enough,
                    until=end,
                    people=not inhibited and rule != "voter-lagging",
                )

    def _leads_between(self, start: float, end: float) -> bool:
        """Whether there was surely a leader all the time, some time before included: no-leader inhibits others."""
        return all(self.has_leader(at) for at in _seconds(start - AFTER_S, end))

    def runs(self, certain: Callable[[float], bool]) -> Iterator[tuple[float, float]]:
        """Yields from when to when something was certain without interruption."""
        since: float | None = None
        for at in _seconds(self.course.start, self.course.end):
            if certain(at):
                since = at if since is None else since
            elif since is not None:
                yield since, at - 1
                since = None
        if since is not None:
            yield since, self.course.end

    # ---- what may be reported

    def may_fire(self, rule: str, subject: str, start: float, end: float) -> bool:
        """Whether what was done from AFTER_S before `start` to `end` explains an alert."""
        begin = start - AFTER_S - KEEPS_FIRING_S.get(rule, 0.0)
        if rule == LASTING:
            return self._may_have_lost(begin, end)
        return any(fact.overlaps(begin, end) for fact in self._explanations(rule, subject))

    def _may_have_lost(self, begin: float, end: float) -> bool:
        """Whether a voter lost records while another one, which may have had them, did not serve."""
        lost, absent = (Kind.OLD_DISK, Kind.NEW_DISK), (Kind.SILENT, Kind.UNCERTAIN)
        nodes = {
            kinds: {each.subject for each in self.course.facts.of(*kinds) if each.overlaps(begin, end)}
            for kinds in (lost, absent)
        }
        return any(nodes[absent] - {node} for node in nodes[lost])

    def _explanations(self, rule: str, subject: str) -> Iterator[Fact]:
        """Yields the facts that may cause such an alert, at any time."""
        of_node, of_any = EXPLANATIONS.get(rule, ((), ()))
        # An observer's subject ends with its directory id, which may contain digits.
        node = re.search(r"\b\d+", subject)
        yield from self.course.facts.of(*of_node, subject=node[0] if node else None)
        yield from self.course.facts.of(*of_any)

    def certainly_had_leader(self, start: float, end: float) -> bool:
        """Whether every answer in this time named a leader of one epoch, and the monitor could know it."""
        seen = self.course.leaders[bisect_left(self._times, start) : bisect_right(self._times, end)]
        return all(self.majority_reached(at) for at in _seconds(start, end)) and (
            len(seen) > (end - start) / 4 and None not in {s.leader for s in seen} and len({s.epoch for s in seen}) == 1
        )


def _seconds(start: float, end: float) -> Sequence[int]:
    return range(int(start), int(end) + 1)
