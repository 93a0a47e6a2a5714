from dataclasses import replace

import pytest

from rules.formatting import utc_text
from rules.model.identifiers import Epoch, Millis
from rules.model.monitoring import Invariant, Reason
from tests.unit.rules.situation import (
    NOW,
    failing,
    finding_lines,
    findings,
    healthy,
    unknown,
    with_invariant_violation,
)

pytestmark = pytest.mark.kip("D052", "D055", "K042", "K043", "K044")


def test_each_broken_invariant_is_critical() -> None:
    assert finding_lines(with_invariant_violation(healthy(), *Invariant)) == [
        "critical raft-invariant-broken: two-leaders",
        "critical raft-invariant-broken: epoch-back",
        "critical raft-invariant-broken: high-watermark-back",
        "critical raft-invariant-broken: elected-by-minority",
        "critical raft-invariant-broken: voters-before-leader",
    ]


@pytest.mark.kip("K042")
def test_several_violations_of_one_invariant_are_one_finding() -> None:
    quorum = with_invariant_violation(
        with_invariant_violation(healthy(), Invariant.EPOCH_BACK), Invariant.EPOCH_BACK, ago_ms=1_000
    )
    first, second = quorum.invariant_violations
    second = replace(second, epoch=Epoch(8), detail="controller 2 and then controller 3 led epoch 8")
    (finding,) = findings(replace(quorum, invariant_violations=(first, second)), "raft-invariant-broken")
    violations = finding.evidence["violations"]
    assert violations == [
        {"violation": each.detail, "observed": utc_text(each.observed_at_ms)} for each in (first, second)
    ]
    assert (finding.evidence["epoch"], second.detail in finding.summary) == (8, True), "the newest one"


@pytest.mark.parametrize(
    ("violated_ago_ms", "explained"),
    [(110_001, False), (110_000, True), (50_000, True), (30_000, True), (-30_000, True), (-30_001, False)],
)
def test_a_loss_explains_violations_from_a_minute_before_it_to_a_minute_after_it(
    violated_ago_ms: int, explained: bool
) -> None:
    """The loss was observed from 50 s ago to 30 s ago."""
    quorum = failing(
        with_invariant_violation(healthy(), Invariant.EPOCH_BACK, ago_ms=violated_ago_ms),
        Reason.METADATA_LOST,
        "c1.test:9093",
        ago_ms=30_000,
    )
    (loss,) = quorum.failures
    quorum = replace(quorum, failures=(replace(loss, first_at_ms=Millis(NOW - 50_000)),))

    assert (findings(quorum, "raft-invariant-broken") == []) is explained
    assert (("raft-invariant-broken", "epoch-back") in unknown(quorum)) is explained
