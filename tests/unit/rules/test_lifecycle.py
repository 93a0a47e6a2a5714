"""How a finding becomes an alert and ends, second by second, by a clock moved by hand."""

import json
from dataclasses import replace

import pytest

from rules.alert import Alert, AlertState
from rules.finding import Evaluation, Finding, Severity, Thresholds, UnknownResult
from rules.lifecycle import TrackedConditions, advance, from_document, next_due, to_document
from rules.model.identifiers import Millis, Offset
from rules.model.quorum import Quorum
from tests.unit.rules.situation import healthy

START = 1_790_000_000_000
THRESHOLDS = {"r": Thresholds(values={"hold": 30.0, "clear": 10.0})}


class Life:
    """One cluster's tracked, fed at seconds since the start."""

    def __init__(self) -> None:
        self.tracked = TrackedConditions()
        self.thresholds = THRESHOLDS
        self.told: list[Alert] = []

    def at(self, second: float, *findings: Finding, unknown: str | None = "-") -> list[str]:
        """What was told at this second, as `STATE severity started+N`. `unknown` names a subject, None all."""
        gaps = () if unknown == "-" else (UnknownResult(rule="r", subject=unknown, why="no poll"),)
        alerts = self.step(second, Evaluation(findings=findings, unknown=gaps))
        return [
            f"{alert.state} {alert.severity} +{(alert.started_at_ms - START) / 1000:g}"
            f" due +{(alert.due_at_ms - START) / 1000:g}"
            for alert in alerts
        ]

    def step(self, second: float, evaluation: Evaluation) -> tuple[Alert, ...]:
        self.tracked, alerts = advance(self.tracked, evaluation, quorum_at(second), self.thresholds)
        assert from_document(json.loads(json.dumps(to_document(self.tracked)))) == self.tracked
        self.told += alerts
        return alerts


def quorum_at(second: float) -> Quorum:
    return replace(healthy(), now_ms=Millis(START + round(second * 1000)), last_offset=Offset(500 + round(second)))


def ill(severity: Severity = Severity.WARNING, *, subject: str = "x", stood_s: float | None = None) -> Finding:
    return Finding(
        rule="r",
        subject=subject,
        severity=severity,
        summary=f"{subject} is ill",
        evidence={"n": [1, 2.5, None, {"deep": True}]},
        remedy=("# rest", "cure --now"),
        condition_age_ms=None if stood_s is None else Millis(round(stood_s * 1000)),
    )


def test_it_fires_when_it_has_stood_hold() -> None:
    life = Life()
    assert life.at(0, ill()) == []
    assert life.at(29.9, ill()) == []
    assert life.at(30, ill()) == ["firing warning +0 due +30"]
    assert life.at(31, ill()) == []


def test_a_hold_that_is_changed_holds_for_what_is_pending() -> None:
    life = Life()
    life.at(0, ill(), ill(subject="y", stood_s=20))
    life.thresholds = {"r": Thresholds(values={"hold": 60.0, "clear": 10.0})}
    assert life.at(39, ill(), ill(subject="y", stood_s=20)) == []
    assert life.at(40, ill(), ill(subject="y", stood_s=20)) == ["firing warning +0 due +40"]
    life.thresholds = {"r": Thresholds(values={"hold": 1.0, "clear": 10.0})}
    assert life.at(41, ill(), ill(subject="y", stood_s=20)) == ["firing warning +0 due +1"]


def test_one_that_ends_before_hold_was_never_told() -> None:
    life = Life()
    life.at(0, ill())
    life.at(29)
    assert life.tracked.conditions == {}
    assert life.at(30, ill()) == []
    assert life.at(59, ill()) == []
    assert life.at(60, ill()) == ["firing warning +30 due +60"]


def test_the_evidence_s_own_clock_counts_where_it_is_better() -> None:
    life = Life()
    assert life.at(0, ill(stood_s=12)) == []
    assert life.at(17, ill(stood_s=29)) == []
    assert life.at(18, ill(stood_s=30)) == ["firing warning +0 due +18"]


def test_the_evidence_s_own_clock_may_run_ahead_of_ours() -> None:
    """The log was being read when we first looked: what it tells now is older than we thought."""
    life = Life()
    life.at(0, ill(stood_s=0))
    assert life.at(4, ill(stood_s=45)) == ["firing warning +0 due +4"]


def test_what_has_stood_long_fires_at_first_sight() -> None:
    assert Life().at(0, ill(stood_s=4_000)) == ["firing warning +0 due +0"]


def test_a_stalled_log_clock_does_not_hold_it_back_for_ever() -> None:
    life = Life()
    life.at(0, ill(stood_s=5))
    assert life.at(25, ill(stood_s=5)) == ["firing warning +0 due +25"]


def firing() -> Life:
    life = Life()
    life.at(0, ill())
    life.at(30, ill())
    return life


def test_it_resolves_when_it_has_been_gone_clear() -> None:
    life = firing()
    assert life.at(40) == []
    assert life.at(49.9) == []
    assert life.at(50) == ["resolved warning +0 due +50"]
    assert life.at(60) == []
    assert life.tracked.conditions == {}


def test_the_resolved_line_carries_the_last_evidence_and_nothing_to_do() -> None:
    life = firing()
    life.at(35, replace(ill(), summary="x is worse", evidence={"n": 7}))
    life.at(36)
    life.at(46)
    resolved = life.told[-1]
    assert resolved.state is AlertState.RESOLVED
    assert resolved.summary == "resolved after 36 s: x is worse"
    assert resolved.evidence == {"n": 7}
    assert resolved.remedy == ()
    assert resolved.offset == 546
    assert resolved.fingerprint == life.told[0].fingerprint


def test_flapping_shorter_than_clear_tells_nothing() -> None:
    life = firing()
    for second in range(31, 90, 5):
        assert life.at(second) == []
        assert life.at(second + 4, ill()) == []
    assert len(life.told) == 1


def test_worse_is_told_at_once_with_the_same_start() -> None:
    life = firing()
    assert life.at(33, ill(Severity.CRITICAL)) == ["firing critical +0 due +33"]
    assert life.at(34, ill(Severity.CRITICAL)) == []
    assert life.told[0].fingerprint == life.told[1].fingerprint
    assert life.told[0].key != life.told[1].key


def test_milder_is_told_when_it_has_lasted() -> None:
    life = firing()
    life.at(33, ill(Severity.CRITICAL))
    assert life.at(34, ill()) == []
    assert life.at(40, ill(Severity.CRITICAL)) == []
    assert life.at(41, ill()) == []
    assert life.at(51, ill()) == ["firing warning +0 due +51"]
    assert life.at(52) == []
    assert life.at(62) == ["resolved warning +0 due +62"]


def test_it_fires_with_the_severity_it_has_then() -> None:
    life = Life()
    life.at(0, ill(Severity.INFO))
    assert life.at(30, ill(Severity.CRITICAL)) == ["firing critical +0 due +30"]


@pytest.mark.parametrize("subject", ["x", None])
def test_unknown_resolves_nothing(subject: str | None) -> None:
    life = firing()
    for second in range(31, 200, 3):
        assert life.at(second, unknown=subject) == []
    assert life.at(200) == []
    assert life.at(210) == ["resolved warning +0 due +210"]


def test_clearing_starts_anew_after_not_seeing() -> None:
    life = firing()
    life.at(31)
    life.at(39, unknown="x")
    assert life.at(42) == []
    assert life.at(51.9) == []
    assert life.at(52) == ["resolved warning +0 due +52"]


def test_getting_milder_starts_anew_after_not_seeing() -> None:
    life = firing()
    life.at(33, ill(Severity.CRITICAL))
    life.at(34, ill())
    life.at(35, unknown="x")
    assert life.at(600, ill()) == [], "once before it was out of sight and once after: that has not lasted"
    assert life.at(609.9, ill()) == []
    assert life.at(610, ill()) == ["firing warning +0 due +610"]


def test_another_subject_s_gap_is_not_ours() -> None:
    life = firing()
    life.at(31, unknown="y")
    assert life.at(41, unknown="y") == ["resolved warning +0 due +41"]


def test_pending_waits_a_little_for_sight() -> None:
    life = Life()
    life.at(0, ill())
    life.at(28, ill())
    life.at(33, unknown="x")
    assert life.at(35, ill()) == ["firing warning +0 due +30"]


def test_pending_does_not_wait_for_ever() -> None:
    life = Life()
    life.at(0, ill())
    life.at(11, unknown="x")
    assert life.tracked.conditions == {}


@pytest.mark.kip("K048")
def test_the_same_moment_again_tells_nothing_twice() -> None:
    life = Life()
    life.at(0, ill())
    assert len(life.at(30, ill())) == 1
    before = life.tracked
    assert life.at(30, ill()) == []
    assert life.tracked == before


def test_an_older_moment_changes_nothing() -> None:
    life = firing()
    before = life.tracked
    assert life.at(29) == []
    assert life.at(5, ill(Severity.CRITICAL)) == []
    assert life.tracked is before


def test_a_replay_tells_the_same_alerts() -> None:
    def run() -> list[Alert]:
        life = firing()
        life.at(31, ill(Severity.CRITICAL), ill(subject="y", stood_s=100))
        life.at(45, ill(subject="y", stood_s=114))
        life.at(55, ill(subject="y", stood_s=124))
        return life.told

    assert run() == run()
    assert [f"{each.state} {each.severity} {each.subject}" for each in run()] == [
        "firing warning x",
        "firing critical x",
        "firing warning y",
        "resolved critical x",
    ]


def test_an_alert_keeps_its_fingerprint_when_the_cluster_id_becomes_known_or_lost() -> None:
    tracked, thresholds = TrackedConditions(), {"r": Thresholds(values={"hold": 0.0, "clear": 0.0})}
    tracked, fired = advance(tracked, Evaluation(findings=(ill(),)), quorum_at(0), thresholds)
    _, resolved = advance(tracked, Evaluation(), replace(quorum_at(1), cluster_id=None), thresholds)
    assert fired[0].fingerprint == resolved[0].fingerprint


def test_a_rule_that_is_no_more_resolves() -> None:
    life = firing()
    tracked, _ = advance(life.tracked, Evaluation(), quorum_at(31), {})
    _, alerts = advance(tracked, Evaluation(), quorum_at(41), {})
    assert [alert.state for alert in alerts] == [AlertState.RESOLVED]


def test_when_time_alone_would_tell_something() -> None:
    life = Life()
    assert next_due(life.tracked, THRESHOLDS) is None

    life.at(0, ill())
    assert next_due(life.tracked, THRESHOLDS) == START + 30_000, "the end of its hold"

    life.at(5, ill(), ill(subject="y"))
    assert next_due(life.tracked, THRESHOLDS) == START + 30_000, "the earlier of two"

    life.at(30, ill(), ill(subject="y"))
    assert next_due(life.tracked, THRESHOLDS) == START + 35_000, "what is told waits for nothing"

    life.at(40, ill(subject="y"))
    assert next_due(life.tracked, THRESHOLDS) == START + 50_000, "the end of its clear"

    life.at(41, ill(Severity.INFO, subject="y"))
    life.at(50, ill(Severity.INFO, subject="y"))
    assert next_due(life.tracked, THRESHOLDS) == START + 51_000, "the milder severity has lasted long enough"

    life.at(51, ill(Severity.INFO, subject="y"))
    assert next_due(life.tracked, THRESHOLDS) is None
