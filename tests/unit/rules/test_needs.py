"""What a rule needs to observe is declared on the rule and checked before the rule is evaluated."""

from collections.abc import Iterable

import pytest

from rules.evaluate import evaluate_rule
from rules.facts.freshness import UnmetNeedError, needed
from rules.facts.needs import Need
from rules.facts.quorum import Facts
from rules.finding import Finding, NotApplicable, RuleResult, Severity, Thresholds, UnknownResult, hold
from rules.model.subject import Subject
from rules.rule import Rule
from tests.situation.case import evaluated
from tests.situation.commands import situation

THRESHOLDS = Thresholds()
FOUND = Finding(rule="r", subject=Subject("x"), severity=Severity.INFO, summary="", evidence={}, remedy=())


def result(*commands: str, needs: Iterable[Need]) -> RuleResult:
    """Returns the only result of a rule with these needs."""

    def evaluate(_facts: Facts, _thresholds: Thresholds) -> Iterable[RuleResult]:
        return [FOUND]

    rule = Rule(id="r", title="", text="", hold=hold(0), evaluate=evaluate, needs=tuple(needs))
    (only,) = evaluate_rule(rule, Facts(situation(*commands)), THRESHOLDS)
    return only


@pytest.mark.parametrize("need", Need)
def test_rule_is_evaluated_while_its_need_is_met(need: Need) -> None:
    assert result(needs=[need]) == FOUND


@pytest.mark.parametrize(
    ("need", "commands", "why"),
    [
        (Need.VOTERS_RECORD, ["unread always"], "nothing of the metadata log has been read yet"),
        (Need.CURRENT_LOG, ["unread always"], "nothing of the metadata log has been read yet"),
        (Need.CURRENT_LOG, ["unread 10m"], "1200 committed records are still to be read"),
        (
            Need.VOTERS_RECORD,
            ["static", "append kraft-version 1 since 60s"],
            "no committed VotersRecord has been read yet",
        ),
        (Need.CURRENT_LOG, ["unread 14s"], "the metadata log was last answered at 2026-09-21 14:13:06 UTC"),
        (Need.FRESH_POLL, ["unpolled 14s"], "DescribeQuorum was last answered at 2026-09-21 14:13:06 UTC"),
        (Need.FRESH_POLL, ["unpolled always"], "DescribeQuorum has not been answered yet"),
        (
            Need.FRESH_POLL,
            ["remove-controller 3"],
            "DescribeQuorum was last answered at 2026-09-21 14:13:20 UTC, without a row of the leader, to whose clock "
            "the other rows are compared",
        ),
    ],
)
def test_result_is_unknown_while_a_need_is_not_met(need: Need, commands: list[str], why: str) -> None:
    assert result(*commands, needs=[need]) == UnknownResult(rule="r", subject=None, why=why)


def test_voters_record_is_not_applicable_on_a_static_quorum() -> None:
    why = "kraft.version is 0: a static quorum has no VotersRecord and no directory ids"
    assert result("static", needs=[Need.VOTERS_RECORD]) == NotApplicable(rule="r", why=why)


def test_first_need_that_is_not_met_gives_the_result() -> None:
    stale = ("static", "unanswered 14s")
    assert isinstance(result(*stale, needs=[Need.VOTERS_RECORD, Need.FRESH_POLL]), NotApplicable)
    assert isinstance(result(*stale, needs=[Need.FRESH_POLL, Need.VOTERS_RECORD]), UnknownResult)


@pytest.mark.parametrize("need", Need)
def test_where_the_log_is_not_read_by_choice_only_polls_can_be_needed(need: Need) -> None:
    found = result("polls-only", needs=[need])
    why = "only polls are observed here (metadata_log: false)"
    assert found == (FOUND if need is Need.FRESH_POLL else NotApplicable(rule="r", why=why))


def test_nothing_is_unknown_of_a_healthy_cluster_whose_log_is_not_read_by_choice() -> None:
    """No endpoint is probed then; the polls have the endpoints of the voters."""
    assert evaluated(situation("static", "polls-only", "probe 1,2,3 never")).unknown == ()


@pytest.mark.parametrize("need", Need)
@pytest.mark.parametrize(("level", "known"), [(3, True), (2, False)])
def test_recovery_state_is_known_from_3_2_on_and_other_needs_do_not_depend_on_it(
    need: Need, level: int, *, known: bool
) -> None:
    why = "not supported: metadata.version 2 is below 3.2 and has no LeaderRecoveryState"
    applies = known or need is not Need.RECOVERY_STATE
    found = result(f"metadata-version {level}", needs=[need])
    assert found == (FOUND if applies else NotApplicable(rule="r", why=why))


def test_rule_that_uses_an_observation_it_does_not_declare_fails() -> None:
    for observed in (situation("unpolled always").poll, situation("static").committed):
        with pytest.raises(UnmetNeedError, match="does not declare"):
            needed(observed)
