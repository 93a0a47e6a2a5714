"""What contradicts itself in the rows of the table (a golden file), and in each case of a rule."""

from pathlib import Path

from rules.model.quorum import Quorum
from tests.agreement.agreement import disagreements
from tests.agreement.contradictions import Contradiction
from tests.agreement.outputs import alerts_that_go_on, outputs_of
from tests.scripts.script_text import commands_of
from tests.situation.case import Case
from tests.situation.commands import situation
from tests.situation.kept import once_for_each_quorum

HERE = Path(__file__).parent
ROWS = HERE / "contradictions.txt"
_NOW = "now"


def rows_text() -> str:
    """Returns the text of the rows with what contradicts itself in each; `none` where all outputs agree."""
    written = []
    for above, lines in commands_of(ROWS.read_text(encoding="utf-8")):
        found = [str(one) for one in of_row(lines)] if lines else []
        written.append("\n".join([*above, "----", *(found or ["none"])] if lines else above))
    return "\n\n".join(written) + "\n"


def of_row(lines: list[str]) -> list[Contradiction]:
    """Returns what contradicts itself after these commands."""
    if _NOW not in lines:
        return disagreements(outputs_of(situation(*lines)))
    before, now = (situation(*part) for part in (lines[: lines.index(_NOW)], lines[lines.index(_NOW) + 1 :]))
    return disagreements(outputs_of(now, firing_alerts=alerts_that_go_on(before, now)))


@once_for_each_quorum
def of_quorum(quorum: Quorum) -> tuple[Contradiction, ...]:
    """Returns what contradicts itself in a quorum. Cases that describe the same one share it: it is checked once."""
    return tuple(disagreements(outputs_of(quorum)))


def of_case(case: Case) -> tuple[Contradiction, ...]:
    """Returns what contradicts itself in a case of a rule, of all its variants, each once."""
    quorums = (one for one in case.observed() if isinstance(one, Quorum))
    return tuple(dict.fromkeys(one for quorum in quorums for one in of_quorum(quorum)))
