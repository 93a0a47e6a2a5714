"""A RuleEvaluator returns what evaluating every rule returns, but evaluates only what may have changed."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, TypeVar, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rules.evaluate import ALL_RULES, RULES, evaluate, thresholds_for, with_overrides
from rules.finding import Evaluation, Finding, Rule, RuleResult, Severity, Thresholds, hold
from rules.model.identifiers import Millis, NodeId, Offset, ReplicaKey
from rules.model.monitoring import Invariant, Reason
from rules.model.quorum import Outage, Poll, Quorum, Replica
from streaming.replay.rule_evaluator import RuleEvaluator, moving_numbers
from tests.unit.rules import situation
from tests.unit.rules.situation import LOG_END, endpoint, healthy, key, later, present, with_poll

THRESHOLDS = thresholds_for({})
SITUATIONS: dict[str, Callable[[Quorum], Quorum]] = {
    "healthy": lambda quorum: quorum,
    "static": situation.static,
    "not observed": situation.not_observed_for,
    "no leader": lambda quorum: situation.leaderless(situation.refuses(quorum, 3), 1, 2),
    "all refuse": situation.all_refuse,
    "a name is gone": lambda quorum: situation.name_not_found(quorum, 2),
    "the resolver fails": lambda quorum: situation.resolver_fails(quorum, 2),
    "an endpoint refuses": lambda quorum: situation.refuses(quorum, 2),
    "registered elsewhere": lambda quorum: situation.registered_elsewhere(quorum, 2),
    "a voter is down": lambda quorum: situation.voter_not_fetching(quorum, 1),
    "voters lag": lambda quorum: situation.voters_lagging(quorum, 1, 2),
    "stalled": situation.stalled,
    "an observer": lambda quorum: situation.observer(quorum, 4),
    "a voter is added": lambda quorum: situation.adding(quorum, 4),
    "registered only": lambda quorum: situation.registered(quorum, 9),
    "forced": lambda quorum: situation.forced_change(quorum, before=(1, 2, 3, 4, 5), after=(1, 2, 3)),
    "removed": lambda quorum: situation.removed(situation.observer(quorum, 4), 4, ago_ms=250_000, directory="old"),
    "an invariant": lambda quorum: situation.with_invariant_violation(quorum, *Invariant),
    "a contract": lambda quorum: situation.with_contract_violation(quorum, "every-record-decodes"),
    "recovering": situation.recovering,
    "a fenced broker": lambda quorum: situation.with_broker(quorum, 101, fenced=True),
    "a broker lags": lambda quorum: situation.broker_lagging(quorum, 101),
    "a transaction": lambda quorum: situation.in_transaction(quorum, for_ms=55_000),
    "elections": lambda quorum: situation.elected(quorum, 1, 2, 3, 1, started=(1,)),
    "unclean": lambda quorum: situation.unclean(quorum, 1, 2, ago_ms=595_000),
    "upgraded": lambda quorum: situation.upgraded(quorum, 29, 1, 2, 3, 101, 102),
    "an old view": lambda quorum: situation.with_views(quorum, situation.view(2, leader=None, epoch=6)),
    "one voter": lambda _: healthy(1),
    "four voters": lambda _: healthy(4),
}
NumberT = TypeVar("NumberT", Millis, Offset)
LIMITS_MS = (0, 300, 1_000, 5_000, 10_000, 30_000, 60_000, 300_000, 3_600_000)
"""Near these ages results change: the drawn steps reach and pass them by a few milliseconds."""


@dataclass
class Moving:
    """A quorum whose numbers move at random: also backwards, as after an election or with a wrong clock."""

    quorum: Quorum
    random: Random
    numbers: list[int] = field(default_factory=list)

    def step(self) -> Quorum:
        random, quorum = self.random, self.quorum
        now = Millis(
            quorum.now_ms + random.choice((1, 250, 1_000, random.choice(LIMITS_MS) + random.randint(-2, 2), 0))
        )
        moved = replace(quorum, now_ms=max(now, quorum.now_ms))
        match random.randrange(5):
            case 0:
                moved = replace(
                    moved, log_fetched_at_ms=now, newest_timestamp_ms=self._moved(quorum.newest_timestamp_ms)
                )
                moved = replace(moved, last_offset=self._moved(quorum.last_offset))
            case 1:
                high_watermark = self._moved(quorum.high_watermark)
                moved = replace(moved, high_watermark=high_watermark, high_watermark_since_ms=now)
            case 2 if quorum.poll is not None:
                rows = {row.key: row for row in (*quorum.poll.voters, *quorum.poll.observers)}
                for key, row in rows.items():
                    rows[key] = replace(
                        row,
                        log_end_offset=self._moved(row.log_end_offset),
                        last_fetch_ms=self._moved(row.last_fetch_ms),
                        last_caught_up_ms=self._moved(row.last_caught_up_ms),
                    )
                poll = replace(
                    quorum.poll,
                    observed_at_ms=now,
                    voters=tuple(rows[row.key] for row in quorum.poll.voters),
                    observers=tuple(rows[row.key] for row in quorum.poll.observers),
                )
                histories = {
                    key: replace(one, last_seen_at_ms=now, samples=one.samples[random.randint(0, 3) :])
                    for key, one in quorum.histories.items()
                }
                moved = replace(moved, poll=poll, histories=histories)
            case 3:
                probes = {key: replace(one, observed_at_ms=now) for key, one in quorum.probes.items()}
                views = {key: replace(one, observed_at_ms=now) for key, one in quorum.leader_views.items()}
                moved = replace(moved, probes=probes, leader_views=views)
            case _:
                failures = tuple(replace(one, last_at_ms=now) for one in quorum.failures)
                moved = replace(moved, failures=failures)
        self.quorum = moved
        return moved

    def _moved(self, value: NumberT | None) -> NumberT | None:
        if value is None:
            return None
        limit = self.random.choice(LIMITS_MS)
        return cast("NumberT", value + self.random.choice((0, 1, 500, 1_000, limit, -limit)))


@settings(max_examples=100)
@given(name=st.sampled_from(sorted(SITUATIONS)), seed=st.integers(0, 2**32))
def test_evaluations_equal_those_of_all_rules_at_every_time(name: str, seed: int) -> None:
    random = Random(seed)
    overrides = {
        f"{rule.id}.{each.name}": random.choice((0, 1, 5, 10, 30, 60, 3_600))
        for rule in RULES.values()
        for each in rule.thresholds
        if random.random() < 0.3
    }
    thresholds = thresholds_for(overrides)
    evaluator = RuleEvaluator(thresholds)
    moving = Moving(SITUATIONS[name](healthy()), random)
    for step in range(40):
        quorum = moving.step()
        assert evaluator.evaluate(quorum) == evaluate(quorum, thresholds), f"{name}, seed {seed}, step {step}"


@pytest.mark.parametrize("name", ["healthy", "static", "four voters", "one voter", "a fenced broker"])
def test_a_quiet_second_evaluates_no_rule(name: str) -> None:
    evaluator = RuleEvaluator(THRESHOLDS)
    quorum = SITUATIONS[name](healthy())
    first = evaluator.evaluate(quorum)

    for _ in range(20):
        quorum = later(quorum)
        assert evaluator.evaluate(quorum) is first


def test_an_age_alone_changes_the_evaluation_when_it_passes_its_threshold() -> None:
    evaluator = RuleEvaluator(THRESHOLDS)
    quorum = healthy()
    first = evaluator.evaluate(quorum)
    assert quorum.poll is not None
    at_the_limit = replace(quorum, now_ms=Millis(quorum.poll.observed_at_ms + 10_000), log_fetched_at_ms=quorum.now_ms)

    assert evaluator.evaluate(at_the_limit) is first
    past = evaluator.evaluate(replace(at_the_limit, now_ms=Millis(at_the_limit.now_ms + 1)))
    assert ("failure-tolerance", None) in {(each.rule, each.subject) for each in past.unknown}


@pytest.mark.parametrize("name", SITUATIONS)
@pytest.mark.parametrize("age_ms", [0, 4_000, 9_500, 29_000])
def test_no_condition_begins_or_ends_while_quiet_rows_may_wait(name: str, age_ms: int) -> None:
    quorum = SITUATIONS[name](healthy(3))
    quorum = replace(quorum, now_ms=Millis(quorum.now_ms + age_ms))
    evaluator = RuleEvaluator(THRESHOLDS)
    now = conditions(evaluator.evaluate(quorum))
    until_ms = evaluator.quiet_until_ms(quorum)

    assert quorum.now_ms <= until_ms <= quorum.now_ms + 15_000
    for at_ms in (*range(quorum.now_ms, until_ms, 400), max(quorum.now_ms, until_ms - 1)):
        assert conditions(evaluate(replace(quorum, now_ms=Millis(at_ms)), THRESHOLDS)) == now, at_ms - quorum.now_ms


def conditions(evaluation: Evaluation) -> list[tuple[object, ...]]:
    return [(one.rule, one.subject, one.severity) for one in evaluation.findings]


@pytest.fixture
def evaluated(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Returns the ids of the rules that are evaluated from now on."""
    ids: list[str] = []

    def counted(rule: Rule) -> Rule:
        def count(quorum: Quorum, thresholds: Thresholds) -> Iterable[RuleResult]:
            ids.append(rule.id)
            return rule.evaluate(quorum, thresholds)

        return replace(rule, evaluate=count)

    for rule in [*RULES.values()]:
        monkeypatch.setitem(cast("dict[str, Rule]", RULES), rule.id, counted(rule))
    return ids


def test_only_the_rules_whose_findings_tell_ages_are_evaluated_again(evaluated: list[str]) -> None:
    evaluator = RuleEvaluator(THRESHOLDS)
    quorum = situation.in_transaction(situation.with_broker(healthy(), 101, fenced=True), for_ms=70_000)
    evaluator.evaluate(quorum)
    evaluated.clear()

    second = evaluator.evaluate(later(quorum))

    assert evaluated == ["open-transaction"], "the finding about the fenced broker tells no age"
    assert {each.rule for each in second.findings} == {"broker-fenced", "open-transaction"}


def test_polls_and_denied_fetches_in_turn_evaluate_the_rule_about_them_alone(evaluated: list[str]) -> None:
    """Each poll is newer than the failure before it and older than the next one."""
    evaluator = RuleEvaluator(THRESHOLDS)
    polled = with_poll(replace(healthy(), log_fetched_at_ms=None), observed_at_ms=Millis(healthy().now_ms - 3_000))
    before, after = (situation.failing(polled, Reason.DENIED, str(endpoint(2)), ago_ms=ago_ms) for ago_ms in (4_000, 0))
    evaluator.evaluate(before)
    evaluated.clear()

    evaluator.evaluate(after)

    assert evaluated == ["monitor-blind"], "it tells when the log was answered"


def test_a_new_rule_that_declares_nothing_is_evaluated_whenever_its_result_may_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def even(quorum: Quorum, thresholds: Thresholds) -> Iterable[RuleResult]:
        if quorum.now_ms // 1_000 % 2 == 0:
            yield Finding(rule="new", subject="second", severity=Severity.INFO, summary="even", evidence={}, remedy=())

    def recent(quorum: Quorum, thresholds: Thresholds) -> Iterable[RuleResult]:
        for node, broker in quorum.brokers.items():
            since = broker.alive_since_timestamp_ms
            if since is not None and quorum.newest_timestamp_ms is not None:
                age = quorum.newest_timestamp_ms - since
                if 3_601_000 < age <= 3_604_000:
                    yield Finding(
                        rule="new", subject=f"{node}", severity=Severity.INFO, summary="recent", evidence={}, remedy=()
                    )

    for rule in (even, recent):
        new = Rule(id="new", title="New", text="", hold=hold(0), evaluate=rule)
        monkeypatch.setitem(cast("dict[str, Rule]", RULES), "new", new)
        monkeypatch.setitem(cast("dict[str, Rule]", ALL_RULES), "new", new)
        thresholds = thresholds_for({})
        evaluator, quorum, summaries = RuleEvaluator(thresholds), healthy(), set()
        for _ in range(10):
            quorum = later(quorum)
            evaluation = evaluator.evaluate(quorum)
            assert evaluation == evaluate(quorum, thresholds)
            summaries.add(len([each for each in evaluation.findings if each.rule == "new"]))
        assert len(summaries) == 2, "the rule has a finding at some times only"


def test_a_rule_that_fails_is_reported_at_every_evaluation() -> None:
    thresholds = {**THRESHOLDS, "voter-lagging": Thresholds(values={"hold": 0, "clear": 10})}
    evaluator, quorum = RuleEvaluator(thresholds), healthy()
    for _ in range(3):
        quorum = later(quorum)
        evaluation = evaluator.evaluate(quorum)
        assert set(evaluation.failed) == {"voter-lagging"}
        assert evaluation == evaluate(quorum, thresholds)


def with_key(rows: Iterable[Replica], node: int, replica: ReplicaKey) -> tuple[Replica, ...]:
    return tuple(replace(row, key=replica) if row.key.id == node else row for row in rows)


def healthy_poll() -> Poll:
    return present(healthy().poll)


MOVED = {**healthy_poll().nodes, NodeId(2): (endpoint(2, port=19093),)}
REGRESSED = situation.log_regressed(healthy(), 1, end=LOG_END).histories[key(1)]
NO_LEADER = SITUATIONS["no leader"](healthy())
CHANGES: dict[str, tuple[Quorum, Quorum, str]] = {
    "another leader in the poll": (
        (moved := situation.registered_elsewhere(healthy(), 1)),
        with_poll(moved, leader_id=NodeId(2)),
        "views-disagree",
    ),
    "another endpoint in the poll": (healthy(), with_poll(healthy(), nodes=MOVED), "voter-change-stuck"),
    "another directory of a voter": (
        healthy(),
        with_poll(healthy(), voters=with_key(healthy_poll().voters, 2, key(2, "newDirOf2"))),
        "voter-change-stuck",
    ),
    "another observer": (
        (waiting := situation.registered(healthy(), 4)),
        with_poll(waiting, observers=with_key(healthy_poll().observers, 102, key(4))),
        "observer-could-be-voter",
    ),
    "a regression of a log": (
        healthy(),
        situation.with_history(healthy(), REGRESSED),
        "voter-log-regressed",
    ),
    "another result of a probe": (healthy(), situation.name_not_found(healthy(), 2), "stale-voter-endpoint"),
    "another report of a controller": (
        healthy(),
        situation.with_views(healthy(), situation.view(2, leader=None, epoch=6)),
        "views-disagree",
    ),
    "another reason of a failure": (
        NO_LEADER,
        replace(NO_LEADER, failures=tuple(replace(each, reason=Reason.DENIED) for each in NO_LEADER.failures)),
        "monitor-blind",
    ),
}
"""What was observed before and after, with the same numbers, and a rule that has a finding only afterwards."""


@pytest.mark.parametrize(("before", "after", "rule"), CHANGES.values(), ids=CHANGES)
def test_a_change_without_another_number_evaluates_the_rules(before: Quorum, after: Quorum, rule: str) -> None:
    assert moving_numbers(before) == moving_numbers(after)
    evaluator = RuleEvaluator(THRESHOLDS)
    assert rule not in {each.rule for each in evaluator.evaluate(before).findings}

    assert rule in {each.rule for each in evaluator.evaluate(after).findings}


def test_another_order_of_equal_mappings_evaluates_the_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    def first(quorum: Quorum, thresholds: Thresholds) -> Iterable[RuleResult]:
        nodes = quorum.poll.nodes if quorum.poll else {}
        order = f"broker {next(iter(quorum.brokers))} and controller {next(iter(nodes))}"
        yield Finding(rule="new", subject="first", severity=Severity.INFO, summary=order, evidence={}, remedy=())

    new = Rule(id="new", title="New", text="", hold=hold(0), evaluate=first)
    monkeypatch.setitem(cast("dict[str, Rule]", RULES), "new", new)
    monkeypatch.setitem(cast("dict[str, Rule]", ALL_RULES), "new", new)
    quorum = healthy()
    brokers = dict(sorted(quorum.brokers.items(), reverse=True))
    nodes = dict(sorted(healthy_poll().nodes.items(), reverse=True))

    for changed, order in (
        (replace(quorum, brokers=brokers), "broker 102 and controller 1"),
        (with_poll(quorum, nodes=nodes), "broker 101 and controller 3"),
    ):
        assert changed == quorum
        evaluator = RuleEvaluator(thresholds_for({}))
        summaries = [evaluator.evaluate(each).findings[-1].summary for each in (quorum, changed)]
        assert summaries == ["broker 101 and controller 1", order]


def without(name: str) -> Quorum:
    absent: dict[str, Any] = {name: None}
    return replace(healthy(), **absent)


@pytest.mark.parametrize("name", ["poll", "high_watermark", "last_offset", "newest_timestamp_ms", "log_fetched_at_ms"])
def test_what_was_absent_and_is_observed_evaluates_the_rules(name: str) -> None:
    evaluator = RuleEvaluator(THRESHOLDS)

    for quorum in (without(name), healthy(), without(name)):
        assert evaluator.evaluate(quorum) == evaluate(quorum, THRESHOLDS)


def test_overrides_of_rules_apply() -> None:
    overrides = {
        "stale-voter-endpoint": Thresholds(severity=Severity.INFO),
        "failure-tolerance": Thresholds(enabled=False),
    }
    thresholds = with_overrides(thresholds_for({}), overrides)
    evaluator, lost = RuleEvaluator(thresholds), situation.name_not_found(healthy(), 2)

    for second in range(40):
        quorum = replace(lost, now_ms=Millis(lost.now_ms + second * 1_000))
        assert evaluator.evaluate(quorum) == evaluate(quorum, thresholds)


def test_an_outage_that_lasts_is_evaluated_when_its_time_is_enough() -> None:
    thresholds = thresholds_for({})
    recorded = RuleEvaluator(thresholds)
    quorum = situation.failing_again(healthy(), 2, 6)
    at, known = present(quorum.poll).observed_at_ms, quorum.histories[key(2)]
    lasting = replace(known, outages=(*known.outages[1:], Outage(since_ms=Millis(at - 1_000))))
    quorum = situation.with_history(quorum, lasting)
    holds: list[int | None] = []
    for second in range(0, 90, 3):
        now = later(quorum, second * 1_000, away=2)
        evaluation = evaluate(now, thresholds)
        assert recorded.evaluate(now) == evaluation
        holds += [one.hold_ms for one in evaluation.findings if one.rule == "failure-tolerance"]
    assert holds[0] is None
    assert holds[-1] == 0
