"""Rules are found, fenced and ordered; overrides are checked."""

import pkgutil
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeAlias

import pytest

from rules import checks
from rules.evaluate import RULES, ThresholdError, evaluate, thresholds_for
from rules.finding import Finding, Rule, RuleResult, Severity, Thresholds, UnknownResult, clear, hold
from rules.model.identifiers import Offset
from rules.model.monitoring import Reason
from rules.model.quorum import Quorum
from tests.unit.rules.situation import (
    failing,
    healthy,
    judged,
    leaderless,
    name_gone,
    observer,
    recovering,
    refuses,
    silent,
    stalled,
    static,
    told,
    unknown,
    unseen_for,
)

Hurt: TypeAlias = Callable[[Quorum], Quorum]


def test_a_file_is_a_rule_and_its_name_is_the_id() -> None:
    files = {module.name.replace("_", "-") for module in pkgutil.iter_modules(checks.__path__)}
    assert set(RULES) == files
    assert list(RULES) == sorted(files)


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.id)
def test_every_rule_has_its_page_and_its_thresholds(rule: Rule) -> None:
    headings = ["What it means", "Evidence", "What to do", "What not to do", "Thresholds"]
    lines = rule.text.splitlines()
    assert [line for line in lines if line in headings] == headings
    numbers = {threshold.name: threshold.default for threshold in rule.thresholds}
    assert len(numbers) == len(rule.thresholds)
    assert "hold" in numbers
    assert numbers["clear"] == 10
    page = rule.text[rule.text.index("\nThresholds\n") :]
    assert all(name in page for name in numbers), "the page names every threshold"
    assert set(rule.inhibited_by) <= set(RULES)


@pytest.mark.parametrize("voters", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.id)
def test_nobody_complains_of_a_healthy_quorum(rule: Rule, voters: int) -> None:
    evaluation = evaluate(healthy(voters), thresholds_for({}), [rule])
    # One, two and four voters are well and unwise.
    assert evaluation.findings == () or (rule.id == "quorum-shape" and voters not in (3, 5))
    assert evaluation.unknown == ()
    assert evaluation.not_applicable == ()


@pytest.mark.kip("E012")
def test_a_static_quorum_is_not_applicable_rather_than_well() -> None:
    evaluation = judged(static(healthy()))
    assert evaluation.findings == ()
    assert {each.rule for each in evaluation.not_applicable} == {
        "forced-reconfiguration",
        "observer-could-be-voter",
        "stale-voter-endpoint",
        "voter-change-stuck",
        "voter-disk-replaced",
    }


def test_a_log_without_a_kraft_version_is_static_once_it_is_read() -> None:
    old = replace(healthy(), kraft_version=None, committed=None)
    assert judged(old).not_applicable
    assert not judged(replace(old, last_offset=None)).not_applicable


def test_what_is_still_being_read_is_not_judged() -> None:
    behind = replace(recovering(name_gone(healthy(), 1, 2, 3), 0), last_offset=Offset(200))
    assert told(behind) == []
    assert {rule for rule, _ in unknown(behind)} == {
        "broker-fenced",
        "epoch-churn",
        "forced-reconfiguration",
        "ghost-registration",
        "observer-could-be-voter",
        "observer-lagging",
        "open-transaction",
        "partition-stuck-recovering",
        "recovery-invariant-broken",
        "snapshot-stale",
        "stale-voter-endpoint",
        "unclean-election",
        "version-drift",
        "voter-change-stuck",
        "voter-disk-replaced",
    }


def test_no_leader_silences_what_needs_one_and_not_the_endpoints() -> None:
    # The replicas of `orders` cannot join while nobody leads; the endpoints are why nobody does.
    hurt = leaderless(refuses(recovering(healthy(), 0), 1, 2), 3)
    assert told(hurt) == [
        "critical no-leader: quorum",
        "critical stale-voter-endpoint: voter 1",
        "critical stale-voter-endpoint: voter 2",
    ]
    assert {(rule, subject) for rule, subject in unknown(hurt) if subject is None} == {
        ("broker-fenced", None),
        ("epoch-churn", None),
        ("failure-tolerance", None),
        ("ghost-registration", None),
        ("high-watermark-stalled", None),
        ("observer-could-be-voter", None),
        ("observer-lagging", None),
        ("open-transaction", None),
        ("partition-stuck-recovering", None),
        ("recovery-invariant-broken", None),
        ("quorum-shape", None),
        ("snapshot-stale", None),
        ("unclean-election", None),
        ("version-drift", None),
        ("views-disagree", None),
        ("voter-change-stuck", None),
        ("voter-disk-replaced", None),
        ("voter-lagging", None),
    }


def test_what_is_silenced_is_unknown_at_once() -> None:
    """Nobody leads since a second: the log and the polls are fresh enough to judge by, and would mislead."""
    hurt = failing(unseen_for(recovering(healthy(), 0), 1_100, 1_500), Reason.NO_LEADER, "c1.test:9093")
    assert told(recovering(healthy(), 0)) == ["critical partition-stuck-recovering: topic orders"]
    assert told(hurt) == ["critical no-leader: quorum"]


def broken(_quorum: Quorum, _thresholds: Thresholds) -> Iterable[RuleResult]:
    yield Finding(rule="broken", subject="x", severity=Severity.INFO, summary="half a sentence", evidence={}, remedy=())
    raise KeyError("voters")


def test_a_rule_that_fails_is_told_and_the_others_go_on() -> None:
    rule = Rule(id="broken", title="", text="", thresholds=(hold(1), clear()), evaluate=broken)
    thresholds = {**thresholds_for({}), "broken": Thresholds(values={"hold": 1, "clear": 10})}
    evaluation = evaluate(name_gone(healthy(), 1), thresholds, [rule, *RULES.values()])

    assert [(each.rule, each.subject, each.severity) for each in evaluation.findings] == [
        ("monitor-blind", "rule broken", Severity.WARNING),
        ("stale-voter-endpoint", "voter 1", Severity.WARNING),
    ]
    assert evaluation.findings[0].summary == "rule broken failed: KeyError: 'voters'"
    assert evaluation.unknown == (
        UnknownResult(rule="broken", subject=None, why="the rule failed: KeyError: 'voters'"),
    )


@pytest.mark.parametrize(
    "hurt",
    [
        lambda quorum: quorum,
        lambda quorum: silent(quorum, 2),
        lambda quorum: silent(silent(quorum, 1), 2),
        lambda quorum: stalled(silent(quorum, 2)),
        lambda quorum: observer(silent(quorum, 2), 2, directory="newDirOf2"),
        lambda quorum: leaderless(quorum, 1),
        unseen_for,
    ],
)
@pytest.mark.parametrize("voters", [3, 5])
def test_a_voters_record_that_names_no_endpoint_breaks_no_rule(hurt: Hurt, voters: int) -> None:
    quorum = healthy(voters)
    assert quorum.committed is not None
    nameless = tuple(replace(voter, endpoints=()) for voter in quorum.committed.voters)
    evaluation = judged(hurt(replace(quorum, committed=replace(quorum.committed, voters=nameless))))
    assert [each.summary for each in evaluation.findings if each.subject.startswith("rule ")] == []
    assert "stale-voter-endpoint" in {each.rule for each in evaluation.unknown}


def test_the_same_quorum_gives_the_same_judgement() -> None:
    hurt = recovering(name_gone(healthy(5), 4, 2), 3, 1)
    assert judged(hurt) == judged(hurt)
    assert [each.subject for each in judged(hurt).findings] == ["topic orders", "voter 2", "voter 4"]


@pytest.mark.kip("K038")
def test_overrides_reach_their_rule() -> None:
    thresholds = thresholds_for({"no-leader.hold": 2, "voter-disk-replaced.silent": 4.5})
    assert thresholds["no-leader"].ms("hold") == 2_000
    assert thresholds["voter-disk-replaced"].ms("silent") == 4_500
    assert thresholds["stale-voter-endpoint"].ms("silent") == 10_000


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        ("no-leadr.hold", 1, r"unknown rule 'no-leadr' in 'no-leadr.hold': did you mean 'no-leader'\?"),
        ("no_leader.hold", 1, r"unknown rule 'no_leader' in 'no_leader.hold': did you mean 'no-leader'\?"),
        ("voter_disk_replaced.hold", 1, r"unknown rule .*: did you mean 'voter-disk-replaced'\?"),
        ("xyz.hold", 1, r"unknown rule 'xyz' in 'xyz.hold': there are .*no-leader, .*, voter-lagging"),
        ("no-leader.hodl", 1, r"rule 'no-leader' has no threshold 'hodl': did you mean 'hold'\?"),
        ("voter-disk-replaced.half-done", 1, r"rule .* has no threshold 'half-done': did you mean 'half_done'\?"),
        ("no-leader", 1, r"rule 'no-leader' has no threshold '': there are hold, clear, .*"),
        ("no-leader.hold", -1, "threshold 'no-leader.hold' cannot be -1: expected a number of 0 or more"),
        ("no-leader.hold", float("nan"), "threshold 'no-leader.hold' cannot be nan: expected a number of 0 or more"),
        ("no-leader.hold", float("inf"), "threshold 'no-leader.hold' cannot be inf: expected a number of 0 or more"),
    ],
)
def test_a_bad_override_is_one_sentence(key: str, value: float, sentence: str) -> None:
    with pytest.raises(ThresholdError, match=f"^{sentence}$") as refusal:
        thresholds_for({key: value})
    assert isinstance(refusal.value, ValueError)


def test_a_stale_view_judges_nothing_by_polls() -> None:
    assert ("voter-disk-replaced", None) in unknown(unseen_for(healthy(), log_ms=None, poll_ms=11_000))
    assert unknown(unseen_for(healthy(), log_ms=None, poll_ms=9_000)) == []


def test_a_poll_without_the_leader_s_own_row_judges_nobody() -> None:
    """All its times are the leader's clock: without the leader's own they say nothing."""
    quorum = healthy()
    assert quorum.poll is not None
    headless = replace(quorum, poll=replace(quorum.poll, voters=quorum.poll.voters[:2]))
    evaluation = judged(headless)
    assert evaluation.findings == ()
    assert {each.rule for each in evaluation.unknown} == {
        "failure-tolerance",
        "ghost-registration",
        "high-watermark-stalled",
        "observer-could-be-voter",
        "observer-lagging",
        "voter-change-stuck",
        "voter-disk-replaced",
        "voter-lagging",
    }
    assert all("without a row of the leader" in each.why for each in evaluation.unknown)
