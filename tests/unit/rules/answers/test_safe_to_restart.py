"""Whether a controller may be restarted: `restart 1` in `safe_to_restart.txt` prints why not, and what to know."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from rules.answers.restart import safe_to_restart
from rules.evaluate import evaluate, thresholds_for
from rules.facts.quorum import Facts
from rules.facts.roles import known_controllers
from rules.finding import Thresholds
from rules.model.identifiers import NodeId
from rules.model.quorum import Quorum
from tests.golden_file import assert_golden
from tests.scripts.script_text import commands_of
from tests.situation.case import Case, cases_of
from tests.situation.commands import situation

CASES = Path(__file__).parent / "safe_to_restart.txt"


def answers(case: Case) -> Iterator[str]:
    """Yields what is said of each restart in a case."""
    for word, lines in case.variants():
        quorum = situation(*(line for line in lines if not line.startswith("restart ")))
        for line in lines:
            if line.startswith("restart "):
                yield from answer(quorum, int(line.removeprefix("restart ")), f"{word}: " if word else "")


def answer(quorum: Quorum, node: int, prefix: str) -> Iterator[str]:
    thresholds = thresholds_for({})
    values = {**thresholds["voter-disk-replaced"].values, **thresholds["stale-voter-endpoint"].values}
    findings = evaluate(Facts(quorum), thresholds).findings
    result = safe_to_restart(Facts(quorum), NodeId(node), Thresholds(values=values), findings)
    said = {True: "safe", False: "not safe", None: "unknown"}[result.safe]
    yield f"{prefix}restart {result.node}: {said}"
    yield from (f"  - {why}" for why in result.against)
    yield from (f"  ? {why}" for why in result.unknown)
    yield from (f"  note: {note}" for note in result.notes)


def test_restart_is_safe_or_has_reasons_against_it() -> None:
    outputs = {case.number: [*answers(case)] for case in cases_of(CASES)}
    blocks = enumerate(commands_of(CASES.read_text(encoding="utf-8")), 1)
    written = ["\n".join([*above, "----", *outputs[number]]) for number, (above, _) in blocks]

    assert_golden(CASES, "\n\n".join(written) + "\n")


@pytest.mark.parametrize(
    ("commands", "known"),
    [
        pytest.param(("add-observer 4",), {1, 2, 3, 4}, id="a registered controller without a vote"),
        pytest.param(("static", "never-registers 1,2,3"), {1, 2, 3}, id="the voters of the poll"),
        pytest.param(("unpolled always", "never-registers 1,2,3"), {1, 2, 3}, id="the voters of the log"),
    ],
)
def test_controllers_are_known_by_the_log_and_by_the_poll(commands: tuple[str, ...], known: set[int]) -> None:
    assert known_controllers(situation(*commands)) == known
