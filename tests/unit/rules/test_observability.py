"""What a rule needs to observe is declared on the rule and checked before the rule is evaluated."""

from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest

from rules.analysis.freshness import UnmetNeedError, needed
from rules.evaluate import RULES, evaluate_rule, thresholds_for
from rules.finding import Finding, Need, NotApplicable, Rule, RuleResult, Severity, Thresholds, UnknownResult, hold
from rules.model.identifiers import Offset
from rules.model.quorum import Quorum
from tests.unit.rules.situation import healthy, not_observed_for, present, static, with_poll

THRESHOLDS = Thresholds(values={"poll_age": 10.0, "answer_age": 10.0})
FOUND = Finding(rule="r", subject="x", severity=Severity.INFO, summary="", evidence={}, remedy=())
THRESHOLD_OF = {Need.CURRENT_LOG: "answer_age", Need.FRESH_POLL: "poll_age"}


def rule_with(*needs: Need) -> Rule:
    def evaluate(_quorum: Quorum, _thresholds: Thresholds) -> Iterable[RuleResult]:
        return [FOUND]

    return Rule(id="r", title="", text="", hold=hold(0), evaluate=evaluate, needs=needs)


def without_leader_row(quorum: Quorum) -> Quorum:
    return with_poll(quorum, voters=present(quorum.poll).voters[:2])


@pytest.mark.parametrize(
    ("need", "fault", "why"),
    [
        (
            Need.VOTERS_RECORD,
            lambda quorum: replace(quorum, last_offset=None),
            "nothing of the metadata log has been read yet",
        ),
        (
            Need.CURRENT_LOG,
            lambda quorum: replace(quorum, last_offset=Offset(200)),
            "9799 committed records are still to be read",
        ),
        (
            Need.VOTERS_RECORD,
            lambda quorum: replace(quorum, committed=None),
            "no committed VotersRecord has been read yet",
        ),
        (Need.CURRENT_LOG, not_observed_for, "the metadata log was last answered at 2026-09-21 14:13:06 UTC"),
        (
            Need.CURRENT_LOG,
            lambda quorum: replace(quorum, log_fetched_at_ms=None),
            "the metadata log was never answered",
        ),
        (Need.FRESH_POLL, not_observed_for, "DescribeQuorum was last answered at 2026-09-21 14:13:06 UTC"),
        (Need.FRESH_POLL, lambda quorum: replace(quorum, poll=None), "DescribeQuorum has not been answered yet"),
        (
            Need.FRESH_POLL,
            without_leader_row,
            "DescribeQuorum was last answered at 2026-09-21 14:13:19 UTC, without a row of the leader, to whose clock "
            "the other rows are compared",
        ),
    ],
)
def test_result_is_unknown_while_a_need_is_not_met(need: Need, fault: Callable[[Quorum], Quorum], why: str) -> None:
    results = [*evaluate_rule(rule_with(need), fault(healthy()), THRESHOLDS)]

    assert results == [UnknownResult(rule="r", subject=None, why=why)]


def test_voters_record_is_not_applicable_on_a_static_quorum() -> None:
    (result,) = evaluate_rule(rule_with(Need.VOTERS_RECORD), static(healthy()), THRESHOLDS)
    why = "kraft.version is 0: a static quorum has no VotersRecord and no directory ids"
    assert result == NotApplicable(rule="r", why=why)


def test_first_need_that_is_not_met_gives_the_result() -> None:
    quorum = not_observed_for(static(healthy()))

    (voters_first,) = evaluate_rule(rule_with(Need.VOTERS_RECORD, Need.FRESH_POLL), quorum, THRESHOLDS)
    (poll_first,) = evaluate_rule(rule_with(Need.FRESH_POLL, Need.VOTERS_RECORD), quorum, THRESHOLDS)

    assert isinstance(voters_first, NotApplicable)
    assert isinstance(poll_first, UnknownResult)


def test_rule_that_uses_an_observation_it_does_not_declare_fails() -> None:
    for observed in (replace(healthy(), poll=None).poll, static(healthy()).committed):
        with pytest.raises(UnmetNeedError, match="does not declare"):
            needed(observed)


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.id)
def test_each_rule_has_the_thresholds_of_its_needs(rule: Rule) -> None:
    names = set(thresholds_for({})[rule.id].values)

    assert {THRESHOLD_OF[need] for need in rule.needs if need in THRESHOLD_OF} <= names


def test_recovery_state_is_known_from_3_2_on() -> None:
    (result,) = evaluate_rule(rule_with(Need.RECOVERY_STATE), replace(healthy(), metadata_version=3), THRESHOLDS)
    assert result == FOUND


@pytest.mark.parametrize("need", Need)
def test_only_a_rule_that_needs_the_recovery_state_is_not_applicable_below_3_2(need: Need) -> None:
    (result,) = evaluate_rule(rule_with(need), replace(healthy(), metadata_version=2), THRESHOLDS)
    if need is Need.RECOVERY_STATE:
        why = "not supported: metadata.version 2 is below 3.2 and has no LeaderRecoveryState"
        assert result == NotApplicable(rule="r", why=why)
    else:
        assert result == FOUND
