"""Rules are found in their folder, guarded against exceptions and ordered; overrides are checked."""

import pkgutil
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeAlias

import pytest

from rules import checks
from rules.evaluate import RULES, ThresholdError, evaluate, thresholds_for
from rules.finding import Finding, Rule, RuleResult, Severity, Thresholds, hold
from rules.model.identifiers import Offset
from rules.model.quorum import Quorum
from tests.unit.rules.situation import (
    evaluation_of,
    finding_lines,
    healthy,
    leaderless,
    name_not_found,
    not_observed_for,
    observer,
    present,
    recovering,
    refuses,
    stalled,
    static,
    unknown,
    voter_not_fetching,
    with_committed,
    with_poll,
)

Fault: TypeAlias = Callable[[Quorum], Quorum]


def test_each_file_in_checks_is_a_rule_with_its_name_as_id() -> None:
    files = {module.name.replace("_", "-") for module in pkgutil.iter_modules(checks.__path__)}
    assert set(RULES) == files
    assert list(RULES) == sorted(files)


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.id)
def test_every_rule_has_its_page_and_its_thresholds(rule: Rule) -> None:
    headings = ["What it means", "What to do", "What not to do"]
    lines = rule.text.splitlines()
    assert [line for line in lines if line in headings] == headings
    assert [each.name for each in rule.thresholds[:2]] == ["hold", "clear"]
    assert len({each.name for each in rule.thresholds}) == len(rule.thresholds)
    assert set(rule.inhibited_by) <= set(RULES)


@pytest.mark.parametrize(
    # One, two and four voters are healthy, but quorum-shape advises another number.
    ("voters", "advised"),
    [(1, ["info"]), (2, ["warning"]), (3, []), (4, ["info"]), (5, [])],
)
def test_healthy_quorum_has_no_findings(voters: int, advised: list[str]) -> None:
    evaluation = evaluation_of(healthy(voters))
    assert finding_lines(healthy(voters)) == [f"{severity} quorum-shape: quorum" for severity in advised]
    assert (evaluation.unknown, evaluation.not_applicable) == ((), ())


@pytest.mark.kip("E012")
def test_no_threshold_of_zero_makes_a_rule_fail() -> None:
    fails = {
        key: evaluation.failed
        for rule in RULES.values()
        for each in rule.thresholds
        if (evaluation := evaluation_of(healthy(), {(key := f"{rule.id}.{each.name}"): 0})).failed
    }
    assert fails == {}


@pytest.mark.kip("A111")
def test_static_quorum_is_not_applicable_instead_of_healthy() -> None:
    evaluation = evaluation_of(static(healthy()))
    assert evaluation.findings == ()
    assert {each.rule for each in evaluation.not_applicable} == {
        "forced-reconfiguration",
        "node-records-conflict",
        "observer-could-be-voter",
        "stale-voter-endpoint",
        "voter-change-stuck",
        "voter-disk-replaced",
    }


def test_log_without_kraft_version_is_static_after_it_is_read() -> None:
    old = replace(healthy(), kraft_version=None, committed=None)
    assert evaluation_of(old).not_applicable
    assert not evaluation_of(replace(old, last_offset=None)).not_applicable


NEEDS = {
    "broker-fenced": "log leader",
    "broker-flapping": "log leader",
    "duplicate-node-id": "leader poll",
    "epoch-churn": "log leader",
    "failure-tolerance": "leader poll",
    "forced-reconfiguration": "log",
    "ghost-registration": "log leader poll",
    "high-watermark-stalled": "leader poll",
    "leader-clock-skew": "leader poll",
    "node-records-conflict": "log leader poll",
    "node-restarting": "log leader",
    "observer-could-be-voter": "log leader poll",
    "observer-lagging": "log leader poll",
    "open-transaction": "log leader",
    "partition-stuck-recovering": "log leader",
    "quorum-shape": "leader",
    "recovery-invariant-broken": "log leader",
    "snapshot-stale": "log leader",
    "stale-voter-endpoint": "log leader",
    "unclean-election": "log leader",
    "version-drift": "log leader",
    "views-disagree": "leader",
    "voter-change-stuck": "log leader poll",
    "voter-disk-replaced": "log leader poll",
    "voter-lagging": "leader poll",
    "voter-log-regressed": "leader poll",
}
"""What each rule needs of a quorum: a log that is read, a leader, a poll that the leader answers."""


def needing(what: str) -> set[str]:
    return {rule for rule, needs in NEEDS.items() if what in needs.split()}


def test_rules_that_need_the_log_are_unknown_while_it_is_being_read() -> None:
    behind = replace(recovering(name_not_found(healthy(), 1, 2, 3), 0), last_offset=Offset(200))
    assert finding_lines(behind) == []
    assert {rule for rule, _ in unknown(behind)} == needing("log")


def test_no_leader_inhibits_its_consequences() -> None:
    # The replicas of `orders` cannot join without a controller; `no-leader` reports the endpoints.
    faulty = leaderless(refuses(recovering(healthy(), 0), 1, 2), 3)
    assert finding_lines(faulty) == ["critical no-leader: quorum"]
    assert {rule for rule, subject in unknown(faulty) if subject is None} == needing("leader")


def failing_rule(_quorum: Quorum, _thresholds: Thresholds) -> Iterable[RuleResult]:
    yield Finding(rule="broken", subject="x", severity=Severity.INFO, summary="half a sentence", evidence={}, remedy=())
    raise KeyError("voters")


def test_rule_that_raises_is_reported_and_other_rules_are_evaluated() -> None:
    rule = Rule(id="broken", title="", text="", hold=hold(1), evaluate=failing_rule)
    thresholds = {**thresholds_for({}), "broken": Thresholds(values={"hold": 1, "clear": 10})}
    evaluation = evaluate(name_not_found(healthy(), 1), thresholds, [rule, *RULES.values()])

    assert [(each.rule, each.subject, each.severity) for each in evaluation.findings] == [
        ("monitor-blind", "rule broken", Severity.WARNING),
        ("stale-voter-endpoint", "voter 1", Severity.WARNING),
    ]
    # Without the exception's message: it may quote a record.
    site = r"KeyError in rules\.evaluate, line \d+"
    assert re.fullmatch(f"Rule broken failed and is not evaluated: {site}.", evaluation.findings[0].summary)
    (unknown,) = evaluation.unknown
    assert (unknown.rule, unknown.subject) == ("broken", None)
    assert re.fullmatch(f"the rule failed: {site}", unknown.why)
    assert list(evaluation.failed) == ["broken"]
    evidence = {"rule": "broken", "error": evaluation.failed["broken"], "last_offset": 9_999}
    assert evaluation.findings[0].evidence == evidence


@pytest.mark.parametrize(
    "faulty",
    [
        lambda quorum: quorum,
        lambda quorum: voter_not_fetching(quorum, 2),
        lambda quorum: voter_not_fetching(voter_not_fetching(quorum, 1), 2),
        lambda quorum: stalled(voter_not_fetching(quorum, 2)),
        lambda quorum: observer(voter_not_fetching(quorum, 2), 2, directory="newDirOf2"),
        lambda quorum: leaderless(quorum, 1),
        not_observed_for,
    ],
)
@pytest.mark.parametrize("voters", [3, 5])
def test_voters_record_without_endpoints_makes_no_rule_fail(faulty: Fault, voters: int) -> None:
    quorum = healthy(voters)
    without_endpoints = tuple(replace(voter, endpoints=()) for voter in present(quorum.committed).voters)
    evaluation = evaluation_of(faulty(with_committed(quorum, voters=without_endpoints)))
    assert [each.summary for each in evaluation.findings if each.subject.startswith("rule ")] == []
    assert "stale-voter-endpoint" in {each.rule for each in evaluation.unknown}


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        ("no-leadr.hold", 1, r"unknown rule 'no-leadr' in 'no-leadr.hold': did you mean 'no-leader'\?"),
        ("no_leader.hold", 1, r"unknown rule 'no_leader' in 'no_leader.hold': did you mean 'no-leader'\?"),
        ("voter_disk_replaced.hold", 1, r"unknown rule .*: did you mean 'voter-disk-replaced'\?"),
        ("xyz.hold", 1, r"unknown rule 'xyz' in 'xyz.hold': known names: .*no-leader, .*, voter-log-regressed"),
        ("no-leader.hodl", 1, r"rule 'no-leader' has no threshold 'hodl': did you mean 'hold'\?"),
        ("voter-disk-replaced.half-done", 1, r"rule .* has no threshold 'half-done': did you mean 'half_done'\?"),
        ("no-leader", 1, r"rule 'no-leader' has no threshold '': known names: hold, clear, .*"),
        *(
            ("no-leader.hold", value, f"invalid value {value:g} for threshold .*: expected a number of 0 or more")
            for value in (-1, float("nan"), float("inf"))
        ),
    ],
)
def test_invalid_override_is_reported_in_one_sentence(key: str, value: float, sentence: str) -> None:
    with pytest.raises(ThresholdError, match=f"^{sentence}$") as refusal:
        thresholds_for({key: value})
    assert isinstance(refusal.value, ValueError)


def test_poll_without_the_leaders_row_makes_rules_unknown() -> None:
    """All times in a poll are of the leader's clock: without the leader's own row they cannot be compared."""
    quorum = healthy()
    without_leader_row = with_poll(quorum, voters=present(quorum.poll).voters[:2])
    evaluation = evaluation_of(without_leader_row)
    assert evaluation.findings == ()
    assert {each.rule for each in evaluation.unknown} == needing("poll")
    assert all("without a row of the leader" in each.why for each in evaluation.unknown)


def test_a_fraction_of_a_second_is_kept() -> None:
    assert thresholds_for({"no-leader.hold": 0.5})["no-leader"].ms("hold") == 500
