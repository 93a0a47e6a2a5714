"""The faults of the evaluation, of `tests.faults`, and the notifications that people must get of each."""

from collections.abc import Iterator
from dataclasses import dataclass

from streaming.demo.fault import DISK_REPLACED, ELECTED_UNCLEANLY, NAMES_DROPPED, ExpectedAlert, Fault, Nodes
from tests.faults import (
    BROKER_FLAPPING,
    BROKER_KILLED,
    CONTROLLER_KILLED,
    ENDPOINT_MOVED,
    LEADER_KILLED,
    LEADER_PAUSED,
    MAJORITY_KILLED,
    OBSERVER_ADDED,
    RESTARTED_OFTEN,
    SECOND_CONTROLLER_PAUSED,
    TRANSACTION_LEFT_OPEN,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatedFault:
    """One fault, or several one after the other, injected by hand into a healthy quorum."""

    faults: tuple[Fault, ...]
    """Each is injected after the alert of the one before."""
    name: str
    """A few words for a table."""
    begin: int = 1
    worse: int = 0
    """How many notifications are right when it begins and when it gets worse; there are as many ends as beginnings."""

    @property
    def notifications(self) -> dict[str, int]:
        """How many notifications are right."""
        return {"begin": self.begin, "worse": self.worse, "end": self.begin}


def one_of_each_rule(fault: Fault, nodes: Nodes) -> Iterator[ExpectedAlert]:
    """Yields the first alert of each rule: a table shows it."""
    seen = set[str]()
    for alert in fault.expected(nodes):
        if alert.rule not in seen:
            seen.add(alert.rule)
            yield alert


def _alone(fault: Fault, *, begin: int = 1, worse: int = 0) -> EvaluatedFault:
    return EvaluatedFault(faults=(fault,), name=fault.name, begin=begin, worse=worse)


THRESHOLDS = {
    "no-leader.hold": 10.0,
    "stale-voter-endpoint.hold": 12.0,
    "voter-disk-replaced.hold": 10.0,
    "observer-could-be-voter.hold": 20.0,
    "partition-stuck-recovering.hold": 10.0,
    "failure-tolerance.hold": 12.0,
    "voter-lagging.hold": 15.0,
    "broker-fenced.hold": 20.0,
    "broker-flapping.fencings": 3.0,
    "broker-flapping.window": 90.0,
    **RESTARTED_OFTEN,
    "monitor-blind.hold": 30.0,
    "unclean-election.keep_firing_for": 90.0,
}
"""Holds are shorter than the defaults and in the same order, so that a fault takes a minute. That of no-leader is
longer: on a busy machine an election takes seconds. That of stale-voter-endpoint is longer than two probes, of which
the first one may have begun before a controller went on that hung. The faults restart nodes of one quorum: their starts
are no crash loop. An observer has caught up within the hold of observer-could-be-voter."""
FAULTS = (
    _alone(CONTROLLER_KILLED),
    _alone(LEADER_KILLED),
    _alone(LEADER_PAUSED),
    EvaluatedFault(
        faults=(CONTROLLER_KILLED, SECOND_CONTROLLER_PAUSED),
        name="two voters stop fetching, one after the other",
        worse=1,
    ),
    _alone(MAJORITY_KILLED),
    _alone(ENDPOINT_MOVED, begin=0),
    _alone(NAMES_DROPPED),
    _alone(DISK_REPLACED),
    _alone(BROKER_KILLED),
    _alone(ELECTED_UNCLEANLY, worse=1),
    _alone(TRANSACTION_LEFT_OPEN),
    _alone(OBSERVER_ADDED),
    _alone(BROKER_FLAPPING),
    EvaluatedFault(
        faults=(BROKER_KILLED, MAJORITY_KILLED), name="a majority is killed while a broker is fenced", worse=1
    ),
)
