"""The remedies of all findings as one plan: each says first what another one forbids.

Two faults at once have two remedies, each from a rule that knows its own fault. A person may read only one of them. So
a step that another remedy forbids comes after the step that forbids it, with the name of its rule.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from rules.claims.statement import claims_of
from rules.finding import Finding
from rules.model.identifiers import NodeId
from rules.remedies.step import Act, Step, said_by, unheeded

_Bans = Mapping[tuple[Act, NodeId | None], Sequence[Step]]
"""The steps that forbid something, by what they forbid."""


def as_one_plan(findings: Sequence[Finding]) -> Sequence[Finding]:
    """Returns the findings; the remedy of each begins with what another one forbids of it."""
    bans = _bans(findings)
    return [_heeding(finding, bans) for finding in findings] if bans else findings


def _bans(findings: Iterable[Finding]) -> _Bans:
    """Returns each step that only forbids, once, with the name of its rule.

    Not those about partitions, of which a node may have thousands: `start_conditions` has them from the facts.
    """
    found: dict[tuple[Act, NodeId | None], dict[str, Step]] = {}
    for finding in findings:
        for step in finding.remedy:
            if not isinstance(step, Step) or step.plan.does or any(one.directories for one in step.plan.until):
                continue
            for action in step.plan.forbids:
                found.setdefault(action[:2], {}).setdefault(step, said_by(finding.rule, step))
    return {action: [*steps.values()] for action, steps in found.items()}


def _heeding(finding: Finding, bans: _Bans) -> Finding:
    first = tuple(dict.fromkeys(_unheeded(finding, bans)))
    if not first:
        return finding
    claims = tuple(dict.fromkeys((*finding.claims, *claims_of(first))))
    return replace(finding, remedy=(*first, *finding.remedy), claims=claims)


def _unheeded(finding: Finding, bans: _Bans) -> Iterator[Step]:
    steps = [step for step in finding.remedy if isinstance(step, Step)]
    # In the order of the steps: that of a set differs between two processes.
    acts = dict.fromkeys(action[:2] for step in steps for action in step.plan.does)
    others = dict.fromkeys(ban for act, node in acts for key in ((act, node), (act, None)) for ban in bans.get(key, ()))
    if others:
        yield from (ban for _, ban in unheeded(steps, [*others]))
