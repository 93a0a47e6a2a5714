"""How the cost of each rule and of each view grows with its input: CPU time at 1, 2, 4 and 8 times of one thing.

The exponent is the slope of the logarithms from the second of these sizes to the last: 1 is linear, 2 quadratic. A rule
or a view that costs less than a millisecond at the largest size is left out.
"""

import gc
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from statistics import linear_regression
from typing import Any

from rules.evaluate import RULES, contained_results, evaluate, thresholds_for
from rules.facts.quorum import Facts
from rules.lifecycle import TrackedConditions, advance, firing
from rules.model.identifiers import Millis
from rules.model.quorum import Quorum
from rules.rule import Rule
from streaming.metrics.metric_spec import ClusterSample
from streaming.metrics.quorum_metrics import KIP_METRICS, QUORUM_METRICS
from streaming.metrics.rates import Rates
from streaming.status.build_status import cluster_status
from streaming.status.check_output import check_text
from streaming.status.cluster_status import ClusterState, status_json
from streaming.status.restart_output import evaluate_restart
from streaming.web.templating import render_cluster
from tests.agreement.outputs import cluster_state
from tests.situation.commands import described
from tests.unit.streaming.status.printed_status import printed_status
from tests.unit.streaming.status.situation_views import page

THRESHOLDS = thresholds_for({})
_ALL_RULES = "evaluation"
_SHOWN = 3
_ROUNDS = 3
"""The sizes are measured in turn: where the machine is slow for a while, it is for each of them."""
_SPENT_S = 0.04
"""Each is repeated for so long in a round."""
_LEAST_MS = 1.0


def _voters(count: int) -> Iterator[str]:
    yield f"voters {','.join(map(str, range(1, count + 1)))}"


def _brokers(count: int) -> Iterator[str]:
    yield f"brokers {','.join(map(str, range(101, 101 + count)))}"


def _fenced(count: int) -> Iterator[str]:
    yield from _brokers(count + 1)
    yield from (f"fence {node}" for node in range(102, 102 + count))


def _offline(count: int) -> Iterator[str]:
    yield from _brokers(30)
    for number in range(count):
        yield f"offline t{number} 0 holders {101 + number % 30}"


def _fenced_holders(count: int) -> Iterator[str]:
    yield from _fenced(count)
    yield from (f"offline t{node} 0 holders {node}" for node in range(102, 102 + count))


def _recovering(count: int) -> Iterator[str]:
    yield from (f"unclean t{number} 0" for number in range(count))


def _recovering_widely(count: int) -> Iterator[str]:
    yield from _brokers(300)
    yield from (
        f"unclean t{number} 0 replicas {101 + number % 300},{101 + (number + 1) % 300} leader {101 + number % 300}"
        for number in range(count)
    )


INPUTS: Mapping[str, tuple[Sequence[int], Callable[[int], Iterator[str]]]] = {
    "voters": ((3, 5, 9, 17), _voters),
    "brokers": ((125, 250, 500, 1_000), _brokers),
    "fenced brokers": ((100, 200, 400, 800), _fenced),
    "offline partitions": ((400, 800, 1_600, 3_200), _offline),
    "fenced brokers that hold the only replica": ((50, 100, 200, 400), _fenced_holders),
    "recovering topics of two brokers": ((400, 800, 1_600, 3_200), _recovering),
    "recovering topics of 300 brokers": ((400, 800, 1_600, 3_200), _recovering_widely),
}


def figures() -> dict[str, dict[str, Any]]:
    """Returns by input: milliseconds of an evaluation at each size, its exponent, and the largest ones."""
    return {name: _growth(sizes, commands) for name, (sizes, commands) in INPUTS.items()}


def _growth(sizes: Sequence[int], commands: Callable[[int], Iterator[str]]) -> dict[str, Any]:
    quorums = [described(commands(size)).quorum for size in sizes]
    rounds = [[dict(_costs(quorum)) for quorum in quorums] for _ in range(_ROUNDS)]
    costs = {name: [min(each[at][name] for each in rounds) for at in range(len(sizes))] for name in rounds[0][0]}
    exponents = {name: _exponent(sizes[1:], of_all[1:]) for name, of_all in costs.items()}
    counted = (name for name in costs if costs[name][-1] >= _LEAST_MS and name != _ALL_RULES)
    steepest = sorted(counted, key=exponents.__getitem__, reverse=True)[:_SHOWN]
    return {
        "sizes": [*sizes],
        "evaluation, ms": [round(one, 1) for one in costs[_ALL_RULES]],
        "its exponent": exponents[_ALL_RULES],
        "largest exponents": {one: exponents[one] for one in steepest},
    }


def _exponent(sizes: Sequence[int], costs: Sequence[float]) -> float:
    return round(linear_regression([*map(math.log, sizes)], [*map(math.log, costs)]).slope, 2)


def _costs(quorum: Quorum) -> Iterator[tuple[str, float]]:
    """Yields what each rule and view costs, with the facts that it needs, in milliseconds of CPU."""
    yield _ALL_RULES, _cpu_ms(lambda: evaluate(Facts(quorum), THRESHOLDS))
    for rule in RULES.values():
        yield rule.id, _cpu_ms(partial(_evaluated, rule, quorum))
    state = cluster_state(quorum, THRESHOLDS)
    status = cluster_status(state)
    tracked, _ = advance(TrackedConditions(), state.evaluation, quorum, THRESHOLDS)
    view = page(quorum, tracked)
    sample = ClusterSample(status=status, rates=Rates())
    node = max(quorum.brokers, default=1)
    views: Mapping[str, Callable[[], object]] = {
        "status": lambda: cluster_status(_fresh(state)),
        "status as JSON": lambda: status_json(status),
        "status as a table": lambda: printed_status(status),
        "check": lambda: check_text(_fresh(state), status),
        "page": lambda: render_cluster(view, timeline_ms=(Millis(view.now_ms), Millis(view.now_ms))),
        "metrics": lambda: [spec.read(sample) for spec in (*KIP_METRICS, *QUORUM_METRICS)],
        "safe-to-restart": lambda: evaluate_restart(_fresh(state), node),
        "conditions": lambda: advance(tracked, state.evaluation, quorum, THRESHOLDS),
        "what fires": lambda: firing(tracked, state.evaluation, quorum, before=None, changed=()),
    }
    for name, view_of in views.items():
        yield name, _cpu_ms(view_of)


def _evaluated(rule: Rule, quorum: Quorum) -> object:
    return contained_results(rule, Facts(quorum), THRESHOLDS, {})


def _fresh(state: ClusterState) -> ClusterState:
    """Returns the state without the facts that were found out already."""
    return replace(state, facts=Facts(state.quorum))


def _cpu_ms(measured: Callable[[], object]) -> float:
    """Returns the least CPU time of several runs."""
    gc.collect()
    runs: list[float] = []
    while sum(runs) < _SPENT_S:
        began = time.process_time()
        measured()
        runs.append(time.process_time() - began)
    return 1_000 * max(min(runs), 1e-6)
