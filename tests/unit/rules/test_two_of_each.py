"""Two of each fault at once: which findings there are, and how their summaries name both.

`make goldens` rewrites the summaries: read each difference.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from rules.model.history import NodeKind
from rules.model.identifiers import Epoch, Offset, TopicId
from rules.model.monitoring import Answer, CertificateFault, Invariant
from rules.model.quorum import Quorum
from tests.golden_file import assert_golden
from tests.unit.rules.situation import (
    DAY_MS,
    broker_lagging,
    epoch_jumped,
    evaluation_of,
    flapping,
    forced_change,
    healthy,
    log_regressed,
    name_not_found,
    observer,
    probed,
    recovering,
    refuses,
    registered,
    registered_elsewhere,
    registered_twice,
    removed_repeatedly,
    restarting,
    unclean,
    upgraded,
    view,
    voter_not_fetching,
    voters_lagging,
    with_broker,
    with_certificates,
    with_contract_violation,
    with_invariant_violation,
    with_views,
)

GOLDENS = Path(__file__).parent / "two_of_each"


def two_of_each_in_the_log() -> Quorum:
    """Two violations, forced changes, jumps, unclean topics and recoveries; two nodes restart, flap or are fenced."""
    quorum = with_invariant_violation(with_invariant_violation(healthy(5), *Invariant), *Invariant, ago_ms=9_000)
    violations = enumerate(quorum.invariant_violations)
    quorum = replace(
        quorum,
        invariant_violations=tuple(replace(one, epoch=Epoch(10 + n), detail=f"detail {n}") for n, one in violations),
    )
    quorum = forced_change(forced_change(quorum, before=(1, 2, 3), after=(3,)), before=(3,), after=(1, 2, 3), ago_ms=9)
    quorum = recovering(recovering(quorum, 0, 3), 1, isr=(102, 101), for_ms=80_000, at_least=True)
    quorum = recovering(quorum, 4, leader=None, for_ms=70_000)
    other = TopicId("cGF5bWVudHMgICAgICAgIA")
    quorum = recovering(quorum, 2, isr=(101, 102), leader=101, topic="payments", topic_id=other)
    quorum = with_broker(with_broker(quorum, 101, fenced=True), 102, fenced=True)
    unclean_once = unclean(unclean(quorum, 0, 3), 2, topic="payments", last_leader=True).history.unclean
    others = flapping(healthy(), 101, 4).history.interruptions, flapping(healthy(), 102, 5).history.interruptions
    jumps = epoch_jumped(healthy(), 20).history.elections, epoch_jumped(healthy(), 30).history.elections
    starts = restarting(healthy(), 2, 3).history.starts, restarting(healthy(), 4, 4).history.starts
    twice = registered_twice(healthy(), 2), registered_twice(healthy(), 102, kind=NodeKind.BROKER)
    first, second = unclean_once
    history = replace(
        quorum.history,
        unclean=(first, replace(second, topic_id=other)),
        interruptions=(*others[0], *others[1]),
        elections=(replace(jumps[0][0], leader_epoch=Epoch(30), offset=Offset(9_000)), *jumps[1]),
        starts=(*starts[0], *starts[1]),
        double_registrations=tuple(one for each in twice for one in each.history.double_registrations),
    )
    removals = removed_repeatedly(removed_repeatedly(quorum, 1, ago_s=(9, 6, 3)), 5, ago_s=(90, 60, 30, 10))
    changes = removed_repeatedly(quorum, 1, ago_s=(9, 6, 3)).history.voter_changes
    forced = quorum.history.voter_changes
    return replace(quorum, history=replace(history, voter_changes=(*forced, *changes, *removals.history.voter_changes)))


def two_of_each_replica() -> Quorum:
    """Of seven voters two have new disks, two lag and lost records; two observers could be voters; two brokers lag."""
    quorum = voter_not_fetching(voter_not_fetching(healthy(7), 1), 2, for_ms=90_000, end=8_000)
    quorum = observer(observer(quorum, 1, directory="newDirOf1"), 2, directory="newDirOf2", lags=(3_000,) * 30)
    quorum = log_regressed(log_regressed(voters_lagging(quorum, 5), 3), 4, end=50, ago_ms=7_000)
    quorum = observer(observer(quorum, 8), 9, lags=[60_000 - 1_000 * n for n in range(30)])
    quorum = registered(registered(quorum, 11), 12)
    return broker_lagging(broker_lagging(quorum, 101, for_ms=40_000), 102, for_ms=50_000, silent=True)


def two_of_each_endpoint() -> Quorum:
    """Of nine voters two lost their names, two moved, two refuse, two have wrong certificates; two views differ."""
    quorum = with_certificates(
        healthy(9), {7: CertificateFault.EXPIRED, 8: CertificateFault.WRONG_HOST}, days={1: 2, 2: 9}
    )
    quorum = refuses(registered_elsewhere(name_not_found(quorum, 1, 2, 4), 3, 4, port=19_093), 5, 6)
    quorum = probed(quorum, 9, answer=Answer.OTHER_NODE, answered_by=0)
    quorum = with_views(quorum, view(1, leader=2, epoch=5), view(2, leader=None, epoch=9), view(3, leader=4))
    quorum = upgraded(quorum, 30, 1, 101, ago_ms=9 * DAY_MS)
    quorum = with_contract_violation(quorum, "every-record-decodes", rows=3)
    return with_contract_violation(quorum, "every-row-can-be-applied", grave=True)


@pytest.mark.parametrize("twice", [two_of_each_in_the_log, two_of_each_replica, two_of_each_endpoint])
def test_summaries_of_two_faults_of_each_kind(twice: Callable[[], Quorum]) -> None:
    evaluation = evaluation_of(twice())
    found = [f"{one.severity} {one.rule} {one.subject}: {one.summary}" for one in evaluation.findings]
    unknown = [f"unknown {one.rule} {one.subject or ''}: {one.why}" for one in evaluation.unknown]

    assert_golden(
        GOLDENS / f"{twice.__name__.removeprefix('two_of_each_').replace('_', '-')}.txt", "\n".join([*found, *unknown])
    )
