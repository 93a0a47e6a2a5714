"""A RuleEvaluator returns what evaluating every rule returns, but evaluates only what may have changed."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, TypeVar, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rules.evaluate import ALL_RULES, RULES, evaluate, thresholds_for, with_overrides
from rules.finding import Evaluation, Finding, Rule, RuleResult, Severity, Thresholds, hold
from rules.model.identifiers import Millis, NodeId, Offset, ReplicaKey
from rules.model.monitoring import Reason
from rules.model.quorum import Quorum
from rules.model.replica import Outage, Poll, Replica
from rules.model.subject import Subject
from streaming.replay.rule_evaluator import RuleEvaluator, moving_numbers
from tests.present import present
from tests.situation.commands import situation
from tests.situation.situation import controller_endpoint, controller_key

THRESHOLDS = thresholds_for({})
SITUATIONS: dict[str, tuple[str, ...]] = {
    "healthy": (),
    "static": ("static",),
    "not observed": ("unanswered 60s",),
    "no leader": ("leaderless 1,2", "probe 3 refused"),
    "all refuse": ("all-refuse",),
    "a name is gone": ("probe 2 name-not-found",),
    "the resolver fails": ("probe 2 resolver-fails",),
    "an endpoint refuses": ("probe 2 refused",),
    "registered elsewhere": ("registers 2 at c2:19093 since 1h",),
    "a voter is down": ("stopped 1",),
    "voters lag": ("stuck 1,2",),
    "stalled": ("stalled 31s",),
    "an observer": ("observer 4",),
    "a voter is added": ("adding 4",),
    "registered only": ("registers 9",),
    "forced": ("voters 5", "voter-set 60s 1 2 3"),
    "removed": ("voters 4", "removed 4 since 250s", "observer 4-new"),
    "an invariant": ("log 20s leader 1 epoch 7",),
    "a contract": ("log 20s undecodable reason",),
    "recovering": ("unclean orders 0",),
    "a fenced broker": ("fenced 101",),
    "a broker lags": ("stuck 101",),
    "a transaction": ("log 55s transaction begin",),
    "elections": ("elected 1 2 3 1", "starts 1 0s"),
    "unclean": ("unclean orders 1,2 since 595s recovered",),
    "upgraded": ("supports 29",),
    "an old view": ("view 2 none epoch 6",),
    "one voter": ("voters 1",),
    "four voters": ("voters 4",),
}
NumberT = TypeVar("NumberT", Millis, Offset)
LIMITS_MS = (0, 300, 1_000, 5_000, 10_000, 30_000, 60_000, 300_000, 3_600_000)
"""Near these ages results change: the drawn steps reach and pass them by a few milliseconds."""


def later(quorum: Quorum, ms: int = 1_000, *, away: int | None = None) -> Quorum:
    """Every observation was repeated this much later: offsets and times moved; one voter has not fetched since."""
    poll = present(quorum.poll)

    def moved(value: int | None) -> Millis:
        return Millis((value or 0) + ms)

    def two_records(value: int | None) -> Offset:
        return Offset((value or 0) + 2)

    def fetched(row: Replica) -> Replica:
        if row.key.id == away:
            return row
        fetch, caught_up = moved(row.last_fetch_ms), moved(row.last_caught_up_ms)
        end = two_records(row.log_end_offset)
        return replace(row, log_end_offset=end, last_fetch_ms=fetch, last_caught_up_ms=caught_up)

    return replace(
        quorum,
        now_ms=moved(quorum.now_ms),
        log_fetched_at_ms=moved(quorum.log_fetched_at_ms),
        high_watermark=two_records(quorum.high_watermark),
        high_watermark_since_ms=moved(quorum.high_watermark_since_ms),
        last_offset=two_records(quorum.last_offset),
        newest_timestamp_ms=moved(quorum.newest_timestamp_ms),
        poll=replace(
            poll,
            observed_at_ms=moved(poll.observed_at_ms),
            high_watermark=two_records(poll.high_watermark),
            voters=tuple(map(fetched, poll.voters)),
            observers=tuple(map(fetched, poll.observers)),
        ),
        histories={
            key: replace(one, last_seen_at_ms=moved(one.last_seen_at_ms), samples=one.samples[1:])
            for key, one in quorum.histories.items()
        },
        probes={key: replace(one, observed_at_ms=moved(one.observed_at_ms)) for key, one in quorum.probes.items()},
    )


def with_poll(quorum: Quorum, **changes: Any) -> Quorum:
    return replace(quorum, poll=replace(present(quorum.poll), **changes))


def with_history(quorum: Quorum, node: int, **changes: Any) -> Quorum:
    key = controller_key(node)
    return replace(quorum, histories={**quorum.histories, key: replace(quorum.histories[key], **changes)})


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
    moving = Moving(situation(*SITUATIONS[name]), random)
    for step in range(40):
        quorum = moving.step()
        assert evaluator.evaluate(quorum) == evaluate(quorum, thresholds), f"{name}, seed {seed}, step {step}"


@pytest.mark.parametrize("name", ["healthy", "static", "four voters", "one voter", "a fenced broker"])
def test_a_quiet_second_evaluates_no_rule(name: str) -> None:
    evaluator = RuleEvaluator(THRESHOLDS)
    quorum = situation(*SITUATIONS[name])
    first = evaluator.evaluate(quorum)

    for _ in range(20):
        quorum = later(quorum)
        assert evaluator.evaluate(quorum) is first


def test_an_age_alone_changes_the_evaluation_when_it_passes_its_threshold() -> None:
    evaluator = RuleEvaluator(THRESHOLDS)
    quorum = situation()
    first = evaluator.evaluate(quorum)
    assert quorum.poll is not None
    at_the_limit = replace(quorum, now_ms=Millis(quorum.poll.observed_at_ms + 10_000), log_fetched_at_ms=quorum.now_ms)

    assert evaluator.evaluate(at_the_limit) is first
    past = evaluator.evaluate(replace(at_the_limit, now_ms=Millis(at_the_limit.now_ms + 1)))
    assert ("failure-tolerance", None) in {(each.rule, each.subject) for each in past.unknown}


@pytest.mark.parametrize("name", SITUATIONS)
@pytest.mark.parametrize("age_ms", [0, 4_000, 9_500, 29_000])
def test_no_condition_begins_or_ends_while_quiet_rows_may_wait(name: str, age_ms: int) -> None:
    quorum = situation(*SITUATIONS[name])
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
    quorum = situation("fenced 101", "log 70s transaction begin")
    evaluator.evaluate(quorum)
    evaluated.clear()

    second = evaluator.evaluate(later(quorum))

    assert evaluated == ["open-transaction"], "the finding about the fenced broker tells no age"
    assert {each.rule for each in second.findings} == {"broker-fenced", "open-transaction"}


def test_polls_and_denied_fetches_in_turn_evaluate_the_rule_about_them_alone(evaluated: list[str]) -> None:
    """Each poll is newer than the failure before it and older than the next one."""
    evaluator = RuleEvaluator(THRESHOLDS)
    before, after = (situation("unpolled 3s", f"fails log denied 2 for 1h ago {ago}") for ago in ("4s", "0s"))
    evaluator.evaluate(before)
    evaluated.clear()

    evaluator.evaluate(after)

    assert evaluated == ["monitor-blind"], "it tells when the log was answered"


def test_a_new_rule_that_declares_nothing_is_evaluated_whenever_its_result_may_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def even(quorum: Quorum, thresholds: Thresholds) -> Iterable[RuleResult]:
        if quorum.now_ms // 1_000 % 2 == 0:
            yield Finding(
                rule="new", subject=Subject("second"), severity=Severity.INFO, summary="even", evidence={}, remedy=()
            )

    def recent(quorum: Quorum, thresholds: Thresholds) -> Iterable[RuleResult]:
        for node, broker in quorum.brokers.items():
            since = broker.alive_since_timestamp_ms
            if since is not None and quorum.newest_timestamp_ms is not None:
                age = quorum.newest_timestamp_ms - since
                if 3_601_000 < age <= 3_604_000:
                    yield Finding(
                        rule="new",
                        subject=Subject("node", node),
                        severity=Severity.INFO,
                        summary="recent",
                        evidence={},
                        remedy=(),
                    )

    for rule in (even, recent):
        new = Rule(id="new", title="New", text="", hold=hold(0), evaluate=rule)
        monkeypatch.setitem(cast("dict[str, Rule]", RULES), "new", new)
        monkeypatch.setitem(cast("dict[str, Rule]", ALL_RULES), "new", new)
        thresholds = thresholds_for({})
        # Broker 101 was unfenced an hour ago.
        evaluator, quorum, summaries = RuleEvaluator(thresholds), situation("fencings 101 1 every 3604s"), set()
        for _ in range(10):
            quorum = later(quorum)
            evaluation = evaluator.evaluate(quorum)
            assert evaluation == evaluate(quorum, thresholds)
            summaries.add(len([each for each in evaluation.findings if each.rule == "new"]))
        assert len(summaries) == 2, "the rule has a finding at some times only"


def test_a_rule_that_fails_is_reported_at_every_evaluation() -> None:
    thresholds = {**THRESHOLDS, "voter-lagging": Thresholds(values={"hold": 0, "clear": 10})}
    evaluator, quorum = RuleEvaluator(thresholds), situation()
    for _ in range(3):
        quorum = later(quorum)
        evaluation = evaluator.evaluate(quorum)
        assert set(evaluation.failed) == {"voter-lagging"}
        assert evaluation == evaluate(quorum, thresholds)


def with_key(rows: Iterable[Replica], node: int, replica: ReplicaKey) -> tuple[Replica, ...]:
    return tuple(replace(row, key=replica) if row.key.id == node else row for row in rows)


def healthy_poll() -> Poll:
    return present(situation().poll)


MOVED = {**healthy_poll().nodes, NodeId(2): (controller_endpoint(2, port=19093),)}
REGRESSED = situation("regressed 1 now end").histories[controller_key(1)].log_regression
NO_LEADER = situation(*SITUATIONS["no leader"])
CHANGES: dict[str, tuple[Quorum, Quorum, str]] = {
    "another leader in the poll": (
        (moved := situation("registers 1 at c1:19093 since 1h")),
        with_poll(moved, leader_id=NodeId(2)),
        "views-disagree",
    ),
    "another endpoint in the poll": (situation(), with_poll(situation(), nodes=MOVED), "voter-change-stuck"),
    "another directory of a voter": (
        situation(),
        with_poll(situation(), voters=with_key(healthy_poll().voters, 2, controller_key(2, "new"))),
        "voter-change-stuck",
    ),
    "another observer": (
        (waiting := situation("registers 4")),
        with_poll(waiting, observers=with_key(healthy_poll().observers, 102, controller_key(4))),
        "observer-could-be-voter",
    ),
    "a regression of a log": (
        situation(),
        with_history(situation(), 1, log_regression=REGRESSED),
        "voter-log-regressed",
    ),
    "another result of a probe": (situation(), situation("probe 2 name-not-found"), "stale-voter-endpoint"),
    "another report of a controller": (
        situation(),
        situation("view 2 none epoch 6"),
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
        yield Finding(
            rule="new", subject=Subject("first"), severity=Severity.INFO, summary=order, evidence={}, remedy=()
        )

    new = Rule(id="new", title="New", text="", hold=hold(0), evaluate=first)
    monkeypatch.setitem(cast("dict[str, Rule]", RULES), "new", new)
    monkeypatch.setitem(cast("dict[str, Rule]", ALL_RULES), "new", new)
    quorum = situation()
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
    return replace(situation(), **absent)


@pytest.mark.parametrize("name", ["poll", "high_watermark", "last_offset", "newest_timestamp_ms", "log_fetched_at_ms"])
def test_what_was_absent_and_is_observed_evaluates_the_rules(name: str) -> None:
    evaluator = RuleEvaluator(THRESHOLDS)

    for quorum in (without(name), situation(), without(name)):
        assert evaluator.evaluate(quorum) == evaluate(quorum, THRESHOLDS)


def test_overrides_of_rules_apply() -> None:
    overrides = {
        "stale-voter-endpoint": Thresholds(severity=Severity.INFO),
        "failure-tolerance": Thresholds(enabled=False),
    }
    thresholds = with_overrides(thresholds_for({}), overrides)
    evaluator, lost = RuleEvaluator(thresholds), situation("probe 2 name-not-found")

    for second in range(40):
        quorum = replace(lost, now_ms=Millis(lost.now_ms + second * 1_000))
        assert evaluator.evaluate(quorum) == evaluate(quorum, thresholds)


def test_an_outage_that_lasts_is_evaluated_when_its_time_is_enough() -> None:
    thresholds = thresholds_for({})
    recorded = RuleEvaluator(thresholds)
    quorum = situation("outages 2 6")
    at, known = present(quorum.poll).observed_at_ms, quorum.histories[controller_key(2)]
    quorum = with_history(quorum, 2, outages=(*known.outages[1:], Outage(since_ms=Millis(at - 1_000))))
    holds: list[int | None] = []
    for second in range(0, 90, 3):
        now = later(quorum, second * 1_000, away=2)
        evaluation = evaluate(now, thresholds)
        assert recorded.evaluate(now) == evaluation
        holds += [one.hold_ms for one in evaluation.findings if one.rule == "failure-tolerance"]
    assert holds[0] is None
    assert holds[-1] == 0
