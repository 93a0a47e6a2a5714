"""Whether a node may be restarted: `restart 1` in `safe_to_restart.txt` (of brokers, `broker_restart.txt`) prints why
not, and what to know. `restart 101 strict min-isr 2 despite below-min-isr` has the options of the command,
`announced 2:5m` restarts of node 2 that were announced for five minutes;
`order 1,2,101` is that of restarts; `after 101 ended 20s` says whether it is back since its former process ended
(`after_restart.txt`)."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from rules.answers.after_restart import after_restart
from rules.answers.broker_restart import RestartTerms
from rules.answers.refusal import Announced
from rules.answers.restart import RestartSafety, safe_to_restart
from rules.answers.restart_order import restart_order
from rules.evaluate import evaluate, thresholds_for
from rules.facts.quorum import Facts
from rules.facts.roles import known_controllers
from rules.finding import Thresholds
from rules.formatting import and_join
from rules.model.identifiers import Millis, NodeId
from rules.model.quorum import Quorum
from tests.commands import Words, milliseconds, numbers
from tests.golden_file import assert_golden
from tests.scripts.script_text import commands_of
from tests.situation.case import Case, cases_of
from tests.situation.commands import situation

CASES = [Path(__file__).with_name(f"{name}.txt") for name in ("safe_to_restart", "broker_restart", "after_restart")]
_QUESTIONS = ("restart", "order", "after")


def answers(case: Case) -> Iterator[str]:
    """Yields what is said of each restart in a case."""
    for word, lines in case.variants():
        quorum = situation(*(line for line in lines if line.split()[0] not in _QUESTIONS))
        for line in lines:
            if line.startswith("after "):
                yield from back(quorum, Words(line.removeprefix("after ")), f"{word}: " if word else "")
            if line.startswith("order "):
                yield f"order {and_join(order(quorum, numbers(line.removeprefix('order '))))}"
            if line.startswith("restart "):
                yield from answer(quorum, Words(line.removeprefix("restart ")), f"{word}: " if word else "")


def back(quorum: Quorum, words: Words, prefix: str) -> Iterator[str]:
    since_ms = Millis(quorum.now_ms - milliseconds(words.option("ended") or "20s"))
    result = after_restart(Facts(quorum), NodeId(int(words.word())), since_ms)
    said = {True: "back", False: "not back", None: "unknown"}[result.back]
    yield f"{prefix}after {result.node}: {said}"
    yield from (f"  - {why}" for why in result.missing)
    yield from (f"  ? {why}" for why in result.unknown)


def order(quorum: Quorum, nodes: Iterable[int]) -> tuple[NodeId, ...]:
    facts = Facts(quorum)
    return restart_order(
        facts, {NodeId(node): evaluated(facts, NodeId(node), RestartTerms(min_isr=1)) for node in nodes}
    )


def evaluated(facts: Facts, node: NodeId, terms: RestartTerms) -> RestartSafety:
    thresholds = thresholds_for({})
    values = {**thresholds["voter-disk-replaced"].values, **thresholds["stale-voter-endpoint"].values}
    return safe_to_restart(facts, node, Thresholds(values=values), evaluate(facts, thresholds).findings, terms)


def announcements(quorum: Quorum, text: str | None) -> Iterator[Announced]:
    """Yields that of `announced 2:5m`: restarts of node 2 were announced for the last five minutes."""
    if text is not None:
        node, age = text.split(":")
        since_ms = Millis(quorum.now_ms - milliseconds(age))
        yield Announced(node=NodeId(int(node)), since_ms=since_ms, until_ms=quorum.now_ms)


def answer(quorum: Quorum, words: Words, prefix: str) -> Iterator[str]:
    since, min_isr, strict = words.option("since"), words.number("min-isr"), words.flag("strict")
    since_ms, despite = None if since is None else Millis(quorum.now_ms - milliseconds(since)), words.option("despite")
    announced = tuple(announcements(quorum, words.option("announced")))
    terms = RestartTerms(strict=strict, min_isr=min_isr, since_ms=since_ms, despite=despite, announced=announced)
    result = evaluated(Facts(quorum), NodeId(int(words.word())), terms)
    said = {True: "safe", False: "not safe", None: "unknown"}[result.safe]
    yield f"{prefix}restart {result.node}: {said}"
    if (partitions := result.partitions) is not None:
        counts = {name: count for name, count in asdict(partitions).items() if count}
        yield from (f"  {name}: {count}" for name, count in counts.items())
    yield from (f"  - {reason.name}: {reason}" for reason in result.against)
    yield from (f"  left out: {reason.name}: {reason}" for reason in result.left_out)
    yield from (f"  ? {why}" for why in result.unknown)
    yield from (f"  note: {note}" for note in result.notes)


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_restart_is_safe_or_has_reasons_against_it(path: Path) -> None:
    outputs = {case.number: [*answers(case)] for case in cases_of(path)}
    blocks = enumerate(commands_of(path.read_text(encoding="utf-8")), 1)
    written = ["\n".join([*above, "----", *outputs[number]]) for number, (above, _) in blocks]

    assert_golden(path, "\n\n".join(written) + "\n")


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
