"""The recorded alerts become those that fire, whoever recorded them: the table of `rules.firing`, line by line."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rules.alert import Alert, AlertState
from rules.finding import FindingFacts, Severity
from rules.firing import AHEAD_MS, EndedAlert, Firing, Reconciled, reconciled
from rules.model.identifiers import Millis
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, alert

RULE, SUBJECT = "epoch-churn", "quorum"


def at(seconds: float) -> Millis:
    return Millis(NOON_MS + round(1_000 * seconds))


def fired(second: float = 5, *, since: float = 0, **changed: Any) -> Alert:
    values = {"rule": RULE, "started_at_ms": at(since), "due_at_ms": at(second), "observed_at_ms": at(second)}
    return alert(SUBJECT, **{**values, **changed})


def over(second: float = 60, *, since: float = 0, **changed: Any) -> Alert:
    return fired(second, since=since, resolved=True, summary="The epochs are calm.", **changed)


def firing(*alerts: Alert, second: float = 100, **changed: Any) -> Firing:
    return Firing(cluster="alpha", evaluated_ms=at(second), alerts=alerts, **changed)


def ended(second: float = 60, *, fires: float = 5) -> EndedAlert:
    return EndedAlert(fired=fired(fires, since=fires), resolved=over(second, since=fires))


def compared(found: Firing, *recorded: Alert, now: float = 200) -> Reconciled:
    return reconciled(found, {(one.rule, one.subject): one for one in recorded}, now_ms=at(now))


KEPT = frozenset({(RULE, SUBJECT)})
RULE_UNKNOWN = frozenset({(RULE, None)})
FIRES, OVER = AlertState.FIRING, AlertState.RESOLVED
NOTHING: list[tuple[AlertState, Millis]] = []


@pytest.mark.parametrize(
    ("recorded", "found", "recorded_then"),
    [
        ([], firing(), NOTHING),
        ([], firing(fired()), [(FIRES, at(0))]),
        ([fired()], firing(fired(90)), NOTHING),
        ([fired()], firing(fired(90, since=3)), NOTHING),
        ([fired()], firing(), [(OVER, at(0))]),
        ([fired()], firing(kept=KEPT), NOTHING),
        ([fired()], firing(kept=RULE_UNKNOWN), NOTHING),
        ([fired(), over()], firing(fired(90, since=70)), [(FIRES, at(70))]),
        ([fired(), over()], firing(fired(5)), [(FIRES, at(100))]),
        ([fired(), over()], firing(), NOTHING),
        ([fired()], firing(fired(90, severity=Severity.WARNING)), [(FIRES, at(0))]),
        # What ended meanwhile: both transitions, or the one that is missing, and never an end alone.
        ([], firing(ended=(ended(),)), [(FIRES, at(5)), (OVER, at(5))]),
        ([fired(5, since=1)], firing(ended=(ended(),)), [(OVER, at(1))]),
        ([fired(), over(60)], firing(ended=(ended(60),)), NOTHING),
        ([fired(), over(30)], firing(ended=(ended(60),)), NOTHING),
        ([fired(), over(30)], firing(ended=(ended(60, fires=40),)), [(FIRES, at(40)), (OVER, at(40))]),
        ([fired(70, since=70)], firing(fired(70, since=70), ended=(ended(60),)), NOTHING),
        (
            [],
            firing(fired(90, since=80), ended=(ended(20), ended(60, fires=40))),
            [(FIRES, at(5)), (OVER, at(5)), (FIRES, at(40)), (OVER, at(40)), (FIRES, at(80))],
        ),
        # An evaluation of an older time than the newest transition says nothing about that alert.
        ([fired(100)], firing(), NOTHING),
        ([fired(100), over(101)], firing(fired()), NOTHING),
        # A host whose clock was wrong recorded a time in the future.
        ([fired(200 + AHEAD_MS / 1_000)], firing(), NOTHING),
        ([fired(201 + AHEAD_MS / 1_000)], firing(), [(OVER, at(0))]),
    ],
)
def test_the_recorded_alerts_become_those_that_fire(
    recorded: Sequence[Alert], found: Firing, recorded_then: list[tuple[AlertState, Millis]]
) -> None:
    result = compared(found, *recorded)
    assert [(one.state, one.started_at_ms) for one in result.transitions] == recorded_then


def test_an_alert_that_goes_on_has_the_newest_text_and_keeps_its_remedy_while_there_is_no_newer_one() -> None:
    newest = fired(90, since=3, summary="It churns faster.", evidence={"epochs": 9}, remedy=("# Look.",))
    assert compared(firing(newest), fired()).rewritten == (
        replace(fired(), summary="It churns faster.", evidence={"epochs": 9}, remedy=("# Look.",)),
    )
    (unknown,) = compared(firing(replace(newest, remedy=())), fired()).rewritten
    assert unknown.remedy == fired().remedy
    assert compared(firing(fired(90)), fired()) == Reconciled(transitions=(), rewritten=())


def test_another_severity_is_a_transition_of_the_recorded_alert() -> None:
    before = fired(severity=Severity.WARNING, cluster_id="")
    (worse,) = compared(firing(fired(90, since=3)), before).transitions
    assert (worse.severity, worse.started_at_ms, worse.fingerprint) == (Severity.CRITICAL, at(0), before.fingerprint)


def test_an_end_says_what_is_known_of_it() -> None:
    (by_rule,) = compared(firing(ended=(ended(),)), fired()).transitions
    (removed,) = compared(firing(over="Cluster alpha was removed."), fired()).transitions
    assert by_rule.summary == "The epochs are calm."
    assert removed.summary.startswith("Cluster alpha was removed. Over since ")
    assert removed.remedy == ()


def says(summary: str, remedy: str, second: float = 5, **changed: Any) -> Alert:
    one = fired(second, summary=summary, remedy=(remedy,), **changed)
    return replace(one, stated=one.says)


FIRST = says("2 of 3 voters are down since 05:01.", "# Start controller 2.")


@pytest.mark.parametrize(
    ("newest", "second", "restated"),
    [
        (says("1 of 3 voters is down since 05:02.", "# Start controller 2."), 66, True),
        (says("2 of 3 voters are down since 05:01.", "# Do not start controller 2: its disk is new."), 66, True),
        (says("3 of 3 voters are down since 05:02.", "# Start controller 1."), 66, False),
        (says("1 of 3 voters is down since 05:02.", "# Start controller 2."), 64, False),
    ],
    ids=["another conclusion", "other advice", "other numbers", "too early"],
)
def test_another_conclusion_or_advice_is_a_transition_after_a_minute(
    newest: Alert, second: float, restated: bool
) -> None:
    result = compared(firing(newest, second=second), FIRST)
    assert bool(result.transitions) is restated
    assert bool(result.rewritten) is not restated
    for one in result.transitions:
        assert (one.state, one.severity, one.started_at_ms, one.observed_at_ms) == (
            FIRES,
            FIRST.severity,
            FIRST.started_at_ms,
            at(second),
        )


def test_a_text_that_alternates_is_a_transition_less_and_less_often() -> None:
    recorded, transitions = FIRST, 0
    for second in range(10, 7_200, 10):
        one = says("All are down." if second % 20 else "Some are down.", "# Start them.")
        result = compared(firing(one, second=second), recorded, now=7_200)
        transitions += len(result.transitions)
        (recorded,) = (*result.rewritten, *result.transitions)
    assert 0 < transitions < 10


def test_further_clusters_are_a_transition_for_those_who_are_notified_of_them() -> None:
    def cut_off(second: float, *names: str) -> Alert:
        return fired(second, facts=FindingFacts(clusters=names))

    assert compared(firing(cut_off(100, "a", "b", "c")), cut_off(95, "a", "b")).transitions == ()
    (more,) = compared(firing(cut_off(100, "a", "b", "c")), cut_off(5, "a", "b")).transitions
    assert (more.state, more.started_at_ms, more.observed_at_ms) == (FIRES, at(0), at(100))
    assert compared(firing(cut_off(100, "a")), cut_off(5, "a", "b")).transitions == ()


def test_what_outlives_its_cause_is_recorded_before_the_end_of_the_cause() -> None:
    """The incident stays open."""
    cause, left = fired(), replace(fired(60, since=50), rule="broker-fenced")
    found = firing(left, ended=(EndedAlert(fired=cause, resolved=over(60)),))
    assert [(one.rule, one.state) for one in compared(found, cause).transitions] == [
        ("broker-fenced", FIRES),
        (RULE, OVER),
    ]


def found_at(times: list[int], kept: bool) -> Firing:
    """The last time is that of the evaluation; before it, each two are a beginning and an end."""
    *before, now = times
    pairs = list(zip(before[::2], before[1::2], strict=False))
    open_since = before[-1:] if len(before) % 2 else []
    return firing(
        *(fired(second, since=second) for second in open_since),
        second=now,
        kept=KEPT if kept and not open_since else frozenset(),
        ended=tuple(ended(end, fires=begin) for begin, end in pairs),
    )


FIRINGS = st.builds(found_at, st.sets(st.integers(0, 100), min_size=1, max_size=6).map(sorted), st.booleans())


@given(st.lists(FIRINGS, min_size=1, max_size=8))
def test_whatever_is_found_each_alert_fires_before_it_resolves_and_the_newest_evaluation_counts(
    found: list[Firing],
) -> None:
    recorded: dict[tuple[str, str], Alert] = {}
    history: list[Alert] = []
    for one in found:
        new = reconciled(one, recorded, now_ms=at(200))
        recorded |= {(each.rule, each.subject): each for each in (*new.rewritten, *new.transitions)}
        history += new.transitions
        assert reconciled(one, recorded, now_ms=at(200)).transitions == ()
    assert [one.state for one in history] == [(FIRES, OVER)[number % 2] for number in range(len(history))]
    assert len({one.key for one in history}) == len(history)
    last = found[-1]
    if not last.kept and all(each.observed_at_ms < last.evaluated_ms for each in history):
        assert bool(last.alerts) == any(each.state is FIRES for each in history[-1:])
