"""Rules are found in their folder, guarded against exceptions and ordered; the configuration may override them."""

import pkgutil
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from statistics import median
from typing import Any

import pytest

from rules import checks
from rules.alert import Alert
from rules.evaluate import (
    MOST_FINDINGS,
    RULES,
    ThresholdError,
    evaluate,
    exception_site,
    resolved_text,
    thresholds_for,
    with_overrides,
)
from rules.facts.freshness import log_read_problem
from rules.facts.needs import Need
from rules.facts.quorum import Facts
from rules.finding import Draft, Evaluation, Finding, NotApplicable, RuleResult, Severity, Thresholds, hold
from rules.formatting import MOST_ENTRIES
from rules.lifecycle import TrackedConditions, advance
from rules.model.identifiers import Millis, Offset
from rules.model.quorum import Quorum
from rules.model.subject import Subject
from rules.rule import Rule
from tests.situation.case import evaluated
from tests.situation.commands import situation


def finding_lines(quorum: Quorum) -> list[str]:
    """Returns all findings as `severity rule: subject`."""
    return [f"{each.severity} {each.rule}: {each.subject}" for each in evaluated(quorum).findings]


def unknown(quorum: Quorum) -> list[tuple[str, str | None]]:
    """Returns all unknown results as (rule, subject)."""
    return [(gap.rule, None if gap.subject is None else str(gap.subject)) for gap in evaluated(quorum).unknown]


def test_each_file_in_checks_is_a_rule_with_its_name_as_id() -> None:
    files = {module.name.replace("_", "-") for module in pkgutil.iter_modules(checks.__path__)}
    assert set(RULES) == files
    assert list(RULES) == sorted(files)


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.id)
def test_every_rule_has_its_page_and_its_thresholds(rule: Rule) -> None:
    headings = ["What it means", "What to do", "What not to do"]
    lines = rule.text.splitlines()
    assert [line for line in lines if line in headings] == headings
    assert rule.thresholds[0].name == "hold"
    assert len({each.name for each in rule.thresholds}) == len(rule.thresholds)
    assert set(rule.inhibited_by) <= set(RULES)


@pytest.mark.parametrize(
    # One, two and four voters are healthy, but quorum-shape advises another number.
    ("voters", "advised"),
    [(1, ["info"]), (2, ["warning"]), (3, []), (4, ["info"]), (5, [])],
)
def test_healthy_quorum_has_no_findings(voters: int, advised: list[str]) -> None:
    quorum = situation(f"voters {voters}")
    evaluation = evaluated(quorum)
    assert finding_lines(quorum) == [f"{severity} quorum-shape: quorum" for severity in advised]
    assert (evaluation.unknown, evaluation.not_applicable) == ((), ())


def test_no_threshold_of_zero_makes_a_rule_fail() -> None:
    fails = {
        key: evaluation.failed
        for rule in RULES.values()
        for each in rule.thresholds
        if (evaluation := evaluate(Facts(situation()), thresholds_for({(key := f"{rule.id}.{each.name}"): 0}))).failed
    }
    assert fails == {}


def test_log_without_kraft_version_is_static_after_it_is_read() -> None:
    old = replace(situation(), kraft_version=None, committed=None)
    assert evaluated(old).not_applicable
    assert not evaluated(replace(old, last_offset=None)).not_applicable


NEEDS = {
    "voters": {Need.VOTERS_RECORD},
    "log": {Need.VOTERS_RECORD, Need.VOTER_ENDPOINTS, Need.CURRENT_LOG},
    "leader": {Need.CURRENT_LOG, Need.FRESH_POLL},
    "poll": {Need.FRESH_POLL},
}
"""What a rule must declare to need voters in the log, a log that is read, a leader, a poll that the leader answers."""


def needing(what: str) -> set[str]:
    inhibited = {rule.id for rule in RULES.values() if what == "leader" and "no-leader" in rule.inhibited_by}
    # It reports what the probes show, and is unknown beside that.
    partly = {"node-restarting"} if what in ("log", "leader") else set()
    return {rule.id for rule in RULES.values() if NEEDS[what] & {*rule.needs}} | inhibited | partly


def test_static_quorum_is_not_applicable_instead_of_situation() -> None:
    evaluation = evaluated(situation("static"))
    assert evaluation.findings == ()
    assert {each.rule for each in evaluation.not_applicable} == needing("voters") > {"voter-disk-replaced"}


def test_rules_that_need_the_log_are_unknown_while_it_is_being_read() -> None:
    behind = replace(situation("probe 1,2,3 name-not-found", "unclean orders 0"), last_offset=Offset(200))
    assert finding_lines(behind) == []
    assert {rule for rule, _ in unknown(behind)} == needing("log")


def test_no_leader_inhibits_its_consequences() -> None:
    # The replicas of `orders` cannot join without a controller; `no-leader` reports the endpoints.
    faulty = situation("unclean orders 0", "probe 1,2 refused", "leaderless 3")
    assert finding_lines(faulty) == ["critical no-leader: quorum"]
    assert {rule for rule, subject in unknown(faulty) if subject is None} == needing("leader")


def failing_rule(_facts: Facts, _thresholds: Thresholds) -> Iterable[RuleResult]:
    yield Finding(
        rule="broken", subject=Subject("x"), severity=Severity.INFO, summary="half a sentence", evidence={}, remedy=()
    )
    raise KeyError("voters")


def test_rule_that_raises_is_reported_and_other_rules_are_evaluated() -> None:
    rule = Rule(id="broken", title="", text="", hold=hold(1), evaluate=failing_rule)
    thresholds = {**thresholds_for({}), "broken": Thresholds(values={"hold": 1, "clear": 10})}
    evaluation = evaluate(Facts(situation("probe 1 name-not-found")), thresholds, [rule, *RULES.values()])

    assert [(each.rule, str(each.subject), each.severity) for each in evaluation.findings] == [
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
        [],
        ["stop-fetching 2"],
        ["stop-fetching 1,2"],
        ["stop-fetching 2", "stalled 31s"],
        ["stop-fetching 2", "add-observer 2-new"],
        ["leaderless 1"],
        ["unanswered 14s"],
    ],
)
@pytest.mark.parametrize("voters", [3, 5])
def test_voters_record_without_endpoints_makes_no_rule_fail(faulty: list[str], voters: int) -> None:
    quorum = situation(f"voters {voters}", *faulty)
    assert quorum.committed is not None
    without_endpoints = tuple(replace(voter, endpoints=()) for voter in quorum.voters)
    evaluation = evaluated(replace(quorum, committed=replace(quorum.committed, voters=without_endpoints)))
    assert "stale-voter-endpoint" in {each.rule for each in evaluation.unknown}


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        ("no-leadr.hold", 1, r"unknown rule 'no-leadr' in 'no-leadr.hold': did you mean 'no-leader'\?"),
        ("no_leader.hold", 1, r"unknown rule 'no_leader' in 'no_leader.hold': did you mean 'no-leader'\?"),
        ("voter_disk_replaced.hold", 1, r"unknown rule .*: did you mean 'voter-disk-replaced'\?"),
        ("xyz.hold", 1, r"unknown rule 'xyz' in 'xyz.hold': known names: .*no-leader, .*"),
        ("no-leader.hodl", 1, r"rule 'no-leader' has no threshold 'hodl': did you mean 'hold'\?"),
        ("partition-stuck-recovering.cpy", 1, r"rule .* has no threshold 'cpy': did you mean 'copy'\?"),
        (
            "no-leader",
            1,
            r"rule 'no-leader' has no threshold '': known names: hold, still, still_hold",
        ),
        ("ages.poll_age", 1, r"rule 'ages' has no threshold 'poll_age': did you mean 'poll'\?"),
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


UNKNOWN = Quorum(cluster="prod", cluster_id=None, now_ms=Millis(0))


@pytest.mark.parametrize("rule", RULES)
def test_resolved_text_needs_no_observation(rule: str) -> None:
    """Nothing but the name of the cluster is known: the text must not fail, or the alert would not resolve."""
    for quorum in (UNKNOWN, situation(), replace(situation(), poll=None, committed=None)):
        for subject in ("quorum", "voter 2", "topic orders", "observer 4-dir", "x"):
            text = resolved_text(rule, Subject.of(subject), Facts(quorum))
            assert text.endswith(".")
            assert "None" not in text
    former = resolved_text("a-rule-of-an-older-version", Subject("voter", 2), Facts(UNKNOWN))
    assert former == "The condition is over: voter 2."


def test_a_threshold_may_be_0() -> None:
    assert thresholds_for({"no-leader.hold": 0})["no-leader"]["hold"] == 0


def test_poll_without_the_leaders_row_makes_rules_unknown() -> None:
    """All times in a poll are of the leader's clock: without the leader's own row they cannot be compared."""
    quorum = situation()
    assert quorum.poll is not None
    evaluation = evaluated(replace(quorum, poll=replace(quorum.poll, voters=quorum.poll.voters[:2])))
    assert evaluation.findings == ()
    assert {each.rule for each in evaluation.unknown} == needing("poll")
    assert all("without a row of the leader" in each.why for each in evaluation.unknown)


def test_a_fraction_of_a_second_is_kept() -> None:
    assert thresholds_for({"no-leader.hold": 0.5})["no-leader"].ms("hold") == 500


# The configuration may give a rule another severity or turn it off.


LOST_ENDPOINT = situation("probe 2 name-not-found")
ENDPOINT_RULE = "stale-voter-endpoint"


def severities(overrides: dict[str, Thresholds]) -> set[Severity]:
    evaluation = evaluate(Facts(LOST_ENDPOINT), with_overrides(thresholds_for({}), overrides))
    return {finding.severity for finding in evaluation.findings if finding.rule == ENDPOINT_RULE}


@pytest.mark.parametrize("severity", Severity)
def test_every_finding_of_a_rule_has_the_configured_severity(severity: Severity) -> None:
    assert severities({ENDPOINT_RULE: Thresholds(severity=severity)}) == {severity}
    assert severities({"no-leader": Thresholds(severity=severity)}) == severities({})


def test_rule_that_is_turned_off_is_not_applicable_instead_of_situation() -> None:
    thresholds = with_overrides(thresholds_for({}), {ENDPOINT_RULE: Thresholds(enabled=False)})

    evaluation = evaluate(Facts(LOST_ENDPOINT), thresholds)

    assert ENDPOINT_RULE not in {finding.rule for finding in evaluation.findings}
    assert NotApplicable(rule=ENDPOINT_RULE, why="disabled by the configuration") in evaluation.not_applicable


def test_alert_of_a_rule_that_is_turned_off_does_not_resolve_as_if_its_condition_were_over() -> None:
    fenced, on = situation("fence 101"), thresholds_for({"broker-fenced.hold": 0})
    off = with_overrides(on, {"broker-fenced": Thresholds(enabled=False)})
    tracked, (firing,) = advance(TrackedConditions(), evaluate(Facts(fenced), on), fenced, on)
    assert firing.rule == "broker-fenced"
    resolutions: list[Alert] = []

    for seconds in (1, 11):
        later = replace(fenced, now_ms=Millis(fenced.now_ms + 1_000 * seconds))
        tracked, resolved_now = advance(tracked, evaluate(Facts(later), off), later, off)
        resolutions += resolved_now

    (resolved,) = resolutions
    assert resolved.summary == "Rule broker-fenced is not evaluated any more: disabled by the configuration."


FAILING = Rule(id="broken", title="", text="", hold=hold(1), evaluate=lambda _quorum, _: 1 / 0)  # type: ignore[arg-type, return-value]
"""A rule that raises: `monitor-blind` reports it."""


def failed_rule(override: Thresholds) -> Evaluation:
    thresholds = with_overrides(thresholds_for({}), {"monitor-blind": override})
    return evaluate(Facts(situation()), {**thresholds, "broken": Thresholds()}, rules=[FAILING])


def test_rule_that_failed_is_unknown_and_makes_no_finding_where_monitor_blind_is_turned_off() -> None:
    evaluation = failed_rule(Thresholds(enabled=False))

    assert evaluation.findings == ()
    assert [each.rule for each in evaluation.unknown] == list(evaluation.failed) == ["broken"]


@pytest.mark.parametrize(
    "each_of_them",
    [
        ["broker {}", "stuck {} since 60s"],
        ["broker {} fenced"],
        ["add-observer {}"],
        ["registers {}"],
    ],
    ids=["brokers that lag", "fenced brokers", "observers that could be voters", "ghosts"],
)
def test_evidence_and_remedy_of_each_of_many_findings_have_a_limit(each_of_them: list[str]) -> None:
    def usual_size(count: int) -> float:
        """Of most findings: one about the whole quorum may list every voter."""
        nodes = range(10_001, 10_001 + count)
        found = evaluated(situation(*(line.format(node) for node in nodes for line in each_of_them))).findings
        assert len(found) >= count
        return median(len(str(finding.evidence)) + len(str(finding.remedy)) for finding in found)

    few = MOST_ENTRIES + 50
    assert usual_size(2 * few) < 1.2 * usual_size(few)


def test_of_too_many_findings_only_those_that_are_reported_are_made() -> None:
    made: list[str] = []

    def finding(severity: Severity, subject: Subject) -> Finding:
        made.append(f"{severity} {subject.name}")
        return Finding(subject=subject, severity=severity, summary=f"{subject}.", evidence={}, remedy=())

    def drafts(_facts: Facts, _thresholds: Thresholds) -> Iterable[Draft]:
        for severity in reversed(Severity):
            for number in range(MOST_FINDINGS // 2):
                subject = Subject("topic", number)
                yield Draft(subject=subject, severity=severity, make=partial(finding, severity, subject))

    many = Rule(id="many", title="", hold=hold(0.0), evaluate=drafts)
    facts = Facts(situation())

    found = evaluate(facts, {"many": Thresholds()}, rules=[many])
    assert made == [f"{one.severity} {one.subject.name}" for one in found.findings]
    assert [one.severity for one in found.findings[:: MOST_FINDINGS // 2]] == ["critical", "warning"]
    assert found.unknown[0].why == f"the rule has {3 * (MOST_FINDINGS // 2)} results, of which 500 are reported"

    made.clear()
    evaluate(facts, {"many": Thresholds(severity=Severity.WARNING)}, rules=[many])
    assert {one.partition(" ")[0] for one in made} == {"info", "warning"}


@pytest.mark.parametrize(
    "commands",
    [
        ("unclean orders 0-3", "unclean pay\x1bments 0", "fence 101"),
        ("all-refuse", "unclean orders 0"),
        ("probe 1,2 name-not-found", "damage-log 3", "stop-fetching 2"),
    ],
    ids=["hidden characters", "inhibited", "several"],
)
def test_without_texts_the_same_is_found(commands: list[str]) -> None:
    quorum, thresholds = (
        situation(*commands),
        with_overrides(thresholds_for({}), {"unclean-election": Thresholds(severity=Severity.INFO)}),
    )

    def found(*, texts: bool) -> list[object]:
        evaluation = evaluate(Facts(quorum), thresholds, texts=texts)
        findings = [(one.rule, one.subject, one.severity) for one in evaluation.findings]
        return [findings, evaluation.unknown, evaluation.not_applicable]

    assert found(texts=False) == found(texts=True)


# The site of an exception: the newest call of kraftwatch's own code, without the message.


NO_QUORUM: Any = None
NO_THRESHOLDS: dict[str, Any] = {"no-leader": "secret"}


@pytest.mark.parametrize(
    ("failing", "site"),
    [
        (lambda: log_read_problem(NO_QUORUM), "AttributeError in rules.facts.freshness, line"),
        # A rule looks up a threshold: both are own code, and the newest call is named.
        (
            lambda: [*RULES["observer-lagging"].evaluate(Facts(situation()), Thresholds())],
            "KeyError in rules.finding, line",
        ),
        # Python's `dataclasses` raises, and own code called it.
        (
            lambda: with_overrides({"no-leader": Thresholds()}, {"no-leader": NO_THRESHOLDS["no-leader"]}),
            "TypeError in rules.evaluate, line",
        ),
        # No own code: the first call is named.
        (lambda: int("secret"), f"ValueError in {__name__}, line"),
    ],
)
def test_site_is_the_newest_call_of_own_code(failing: Callable[[], object], site: str) -> None:
    with pytest.raises(Exception) as raised:
        failing()

    named, _, line = exception_site(raised.value).rpartition(" ")
    assert named == site
    assert line.isdecimal()


def test_exception_that_was_not_raised_has_no_site() -> None:
    assert exception_site(ValueError("secret")) == "ValueError"
