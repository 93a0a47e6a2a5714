"""Two faults at once, of which no rule knows both: the commands of one case after those of another one.

Some pairs describe what no cluster shows, so not all of their sentences agree. But no remedy tells what another one
forbids, or restarts a node without saying all that speaks against it.
"""

import random
from collections.abc import Iterator, Sequence

import pytest

from rules.evaluate import RULES
from rules.model.quorum import Quorum
from tests.agreement.agreement import disagreements
from tests.agreement.contradictions import Kind
from tests.agreement.outputs import outputs_of
from tests.situation.case import cases_of_rule, observed_by


def variants() -> Iterator[tuple[str, str, Sequence[str]]]:
    """Yields each variant of a case of each rule: the rule, the case, and the commands."""
    for rule in RULES:
        for case in cases_of_rule(rule):
            yield from ((rule, case.id, lines) for _, lines in case.variants())


@pytest.mark.parametrize("pairs", [60, pytest.param(3_000, marks=[pytest.mark.long, pytest.mark.timeout(3_600)])])
def test_no_remedy_tells_what_speaks_against_another(pairs: int) -> None:
    known, chosen = [*variants()], random.Random(pairs)
    found = {}
    for _ in range(pairs):
        (rule, one, first), (_, other, second) = chosen.sample(known, 2)
        try:
            quorum = observed_by(rule, [*first, *second])
        except Exception:  # noqa: BLE001 - such as a command about a node that the other case removes
            continue
        broken = disagreements(outputs_of(quorum)) if isinstance(quorum, Quorum) else []
        if wrong := [str(each) for each in broken if each.kind in (Kind.REMEDIES, Kind.ADVISED)]:
            found[one, other] = wrong

    assert found == {}
