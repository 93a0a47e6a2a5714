"""The work of an evaluation grows with the number of brokers and observers, not with its square.

It is counted in executed lines of Python, which are the same on every machine.
"""

import sys
from collections.abc import Callable
from dataclasses import replace
from statistics import median
from types import FrameType
from typing import Any

import pytest

from rules.evaluate import evaluate, thresholds_for
from rules.finding import Evaluation
from rules.formatting import MOST_ENTRIES
from rules.model.identifiers import NodeId, Offset
from rules.model.quorum import Quorum
from tests.unit.rules import situation
from tests.unit.rules.situation import healthy, key

THRESHOLDS = thresholds_for({})
FEW, MANY = 150, 300
"""Both above MOST_ENTRIES, so that the evidence of a finding has the same size."""
assert FEW > MOST_ENTRIES


def lines_executed(call: Callable[[], object]) -> int:
    """Counts the lines that a call executes, those of generators and comprehensions once for each element."""
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return count


def with_observers(quorum: Quorum, count: int, *, lag_ms: int = 0) -> Quorum:
    keys = [key(node) for node in range(10_001, 10_001 + count)]
    rows = tuple(situation.row(one, lag_ms=lag_ms) for one in keys)
    return situation.with_history(situation.with_poll(quorum, observers=rows), *map(situation.history, keys))


def with_brokers(quorum: Quorum, count: int, *, fenced: bool = False) -> Quorum:
    nodes = range(10_001, 10_001 + count)
    return replace(quorum, brokers={NodeId(node): situation.broker(node, fenced=fenced) for node in nodes})


def with_controllers(quorum: Quorum, count: int) -> Quorum:
    nodes = range(10_001, 10_001 + count)
    return situation.with_controller(quorum, *map(situation.registration, nodes))


SITUATIONS: dict[str, Callable[[int], Quorum]] = {
    "brokers as observers": lambda count: with_brokers(with_observers(healthy(), count), count),
    "brokers that lag": lambda count: with_brokers(with_observers(healthy(), count, lag_ms=60_000), count),
    "fenced brokers": lambda count: with_brokers(healthy(), count, fenced=True),
    "observers that could be voters": lambda count: with_controllers(with_observers(healthy(), count), count),
    "ghosts": lambda count: with_controllers(healthy(), count),
    "an old metadata.version": lambda count: replace(
        with_brokers(with_observers(healthy(), count, lag_ms=60_000), count), metadata_version=7
    ),
}


@pytest.mark.parametrize("name", SITUATIONS)
def test_twice_as_many_nodes_take_about_twice_the_work(name: str) -> None:
    few, many = SITUATIONS[name](FEW), SITUATIONS[name](MANY)

    work = lines_executed(lambda: evaluate(few, THRESHOLDS))

    assert lines_executed(lambda: evaluate(many, THRESHOLDS)) < 2.6 * work


def usual_size(evaluation: Evaluation) -> float:
    """Returns the size of most findings: one finding about the whole quorum may list every voter."""
    return median(len(str(finding.evidence)) + len(str(finding.remedy)) for finding in evaluation.findings)


@pytest.mark.parametrize(
    "name", [name for name in SITUATIONS if len(evaluate(SITUATIONS[name](FEW), THRESHOLDS).findings) > FEW / 4]
)
def test_the_evidence_of_each_of_many_findings_has_a_limit(name: str) -> None:
    few, many = (usual_size(evaluate(SITUATIONS[name](count), THRESHOLDS)) for count in (FEW, MANY))

    assert many < 1.2 * few


def test_a_derived_fact_is_not_carried_over_to_a_changed_quorum() -> None:
    quorum = healthy()

    assert quorum.derived(_last_offset) == quorum.last_offset
    assert replace(quorum, last_offset=Offset(5)).derived(_last_offset) == 5
    assert quorum == healthy(), "a fact that was derived does not make quorums differ"


def _last_offset(quorum: Quorum) -> Offset | None:
    return quorum.last_offset
