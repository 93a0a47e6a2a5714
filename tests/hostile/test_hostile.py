"""A short hostile campaign finds nothing, and it finds faults that are planted."""

from pathlib import Path

import pytest

from connectors.observations.log_event import VotersReplaced
from streaming.config import loading
from tests.hostile import flood_slope, hostile_case, monitored_path
from tests.hostile.bad_configuration import reloads
from tests.hostile.hostile_case import HostileCases, run_cases

SEED, COUNT = 20_261_121, 400


def test_short_campaign_has_no_problem() -> None:
    done = run_cases(SEED, COUNT)

    assert [(seed, each.problem) for seed, each in done.results if each.problem is not None] == []
    kinds = {(each.kind, each.outcome) for _, each in done.results}
    assert kinds >= {
        ("log", "applied"),
        ("snapshot", "applied"),
        ("answer", "applied"),
        ("answer", "refused"),
        ("state", "applied"),
        ("checkpoint", "read"),
        ("checkpoint", "refused"),
        ("rescue", "refused"),
        ("rescue", "rescued"),
    }


@pytest.mark.parametrize(
    ("place", "name", "fault", "found"),
    [
        (hostile_case, "redact", lambda batches: batches, "a credential is in the journal"),
        (
            hostile_case,
            "impossible_value",
            lambda event: "a value" if isinstance(event, VotersReplaced) else None,
            "cannot",
        ),
        (monitored_path, "from_json", lambda body: 1 / 0, "ZeroDivisionError"),
    ],
    ids=["redaction does nothing", "impossible value accepted", "rendering raises"],
)
def test_planted_fault_is_found(monkeypatch: pytest.MonkeyPatch, place, name, fault, found) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(place, name, fault)
    cases = HostileCases()
    try:
        problems = [problem for seed in range(SEED, SEED + 100) if (problem := cases.run(seed).problem) is not None]
    finally:
        cases.close()

    assert any(found in problem for problem in problems), problems


def test_bad_configurations_are_refused_in_one_sentence_each(tmp_path: Path) -> None:
    done = reloads(SEED, 60, tmp_path)

    assert (done.tried, done.problems) == (60, [])


def test_a_sentence_with_a_line_break_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "shown", lambda sentence: sentence.encode("utf-8", "replace").decode())

    assert any("not one sentence" in problem for problem in reloads(SEED, 200, tmp_path).problems)


@pytest.mark.parametrize(("exponent", "problems"), [(1, 0), (2, len(flood_slope.OBSERVATION_FLOODS))])
def test_a_flood_whose_records_cost_each_other_is_found(
    monkeypatch: pytest.MonkeyPatch, exponent: int, problems: int
) -> None:
    monkeypatch.setattr(flood_slope, "RECORD_FLOODS", ())
    monkeypatch.setattr(flood_slope, "_seconds", lambda _, count: count**exponent / 1_000)

    assert len(flood_slope.measured().problems) == problems
