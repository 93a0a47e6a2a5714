"""The golden files: what contradicts itself in the rows of the table, and in each case of a rule."""

import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from rules.model.quorum import Quorum
from tests.agreement.agreement import disagreements
from tests.agreement.contradictions import Contradiction, Kind
from tests.agreement.outputs import alerts_that_go_on, outputs_of
from tests.scripts.script_text import commands_of
from tests.situation.case import Case, all_cases
from tests.situation.commands import situation

HERE = Path(__file__).parent
ROWS, KNOWN = HERE / "contradictions.txt", HERE / "known.txt"
_THEN = "then"
_NUMBERS = re.compile(r"\d{4}-\d\d-\d\d \S+ UTC|\d+(?:(?:, | and )\d+)*")


def rows_text() -> str:
    """Returns the text of the rows with what contradicts itself in each; `none` where all outputs agree."""
    written = []
    for above, lines in commands_of(ROWS.read_text(encoding="utf-8")):
        found = [str(one) for one in of_row(lines)] if lines else []
        written.append("\n".join([*above, "----", *(found or ["none"])] if lines else above))
    return "\n\n".join(written) + "\n"


def of_row(lines: list[str]) -> list[Contradiction]:
    """Returns what contradicts itself after these commands."""
    if _THEN not in lines:
        return disagreements(outputs_of(situation(*lines)))
    before, now = (situation(*part) for part in (lines[: lines.index(_THEN)], lines[lines.index(_THEN) + 1 :]))
    return disagreements(outputs_of(now, firing_alerts=alerts_that_go_on(before, now)))


def of_quorum(quorum: Quorum) -> tuple[Contradiction, ...]:
    """Returns what contradicts itself in a quorum. Cases that describe the same one share it: it is checked once."""
    return quorum.derived(_found)


def _found(quorum: Quorum) -> tuple[Contradiction, ...]:
    return tuple(disagreements(outputs_of(quorum)))


def of_case(case: Case) -> tuple[Contradiction, ...]:
    """Returns what contradicts itself in a case of a rule, of all its variants, each once."""
    quorums = (one for one in case.observed() if isinstance(one, Quorum))
    return tuple(dict.fromkeys(one for quorum in quorums for one in of_quorum(quorum)))


@cache
def of_all_cases() -> dict[str, tuple[Contradiction, ...]]:
    """Returns by case what contradicts itself in it."""
    return {case.id: found for case in all_cases() if (found := of_case(case))}


def counted(found: Iterable[Iterable[Contradiction]]) -> Counter[Kind]:
    """Returns in how many cases each kind is found."""
    return Counter(kind for of_one in found for kind in {one.kind for one in of_one})


def known_text() -> str:
    """Returns each contradiction that is found in cases of rules, once for all numbers, and the cases."""
    return "\n".join(_known_lines()) + "\n"


def _known_lines() -> Iterator[str]:
    found = of_all_cases()
    yield "# The cases of rules in which outputs contradict each other today, and in how many by kind: fewer each time."
    for kind, count in sorted(counted(found.values()).items()):
        yield f"# {count:3} {kind}"
    kinds: dict[str, Kind] = {}
    first: dict[str, str] = {}
    cases: dict[str, list[str]] = {}
    for case, of_one in found.items():
        for one in of_one:
            same = f"{one.kind} {_NUMBERS.sub('N', str(one))}"
            kinds.setdefault(same, one.kind)
            first.setdefault(same, str(one))
            if case not in cases.setdefault(same, []):
                cases[same].append(case)
    for same in sorted(first, key=lambda same: (kinds[same], first[same])):
        yield ""
        yield f"{kinds[same]}: {first[same]}"
        yield from textwrap.wrap(", ".join(cases[same]), width=116, initial_indent="  ", subsequent_indent="  ")
