"""The lifecycle of a condition: pending, firing, clearing and resolved, with a clock that the test sets."""

from dataclasses import replace

import pytest

from rules.alert import Alert, AlertState
from rules.claims.claim import condition_claim
from rules.finding import Evaluation, Finding, Severity, Thresholds, UnknownResult
from rules.lifecycle import TrackedConditions, advance, interrupted, next_due, notified_conditions
from rules.lifecycle import firing as firing_alerts
from rules.model.identifiers import Millis, Offset
from rules.model.quorum import Quorum
from rules.model.subject import Subject
from tests.situation.commands import situation

START = 1_790_000_000_000
THRESHOLDS = {"r": Thresholds(values={"hold": 30.0, "clear": 10.0})}


class ConditionTracker:
    """The tracked conditions of one cluster, advanced to a second after the start."""

    def __init__(self) -> None:
        self.tracked = TrackedConditions()
        self.thresholds = THRESHOLDS
        self.alerts: list[Alert] = []
        self.watched_since_ms = Millis(0)

    def at(self, second: float, *findings: Finding, unknown: str | None = "-") -> list[str]:
        """Returns the alerts of this second as `STATE severity +START due +DUE`; `unknown`: a subject, None for all."""
        subject = None if unknown is None else Subject(unknown)
        unknown_results = () if unknown == "-" else (UnknownResult(rule="r", subject=subject, why="no poll"),)
        alerts = self.step(second, Evaluation(findings=findings, unknown=unknown_results))
        return [
            f"{alert.state} {alert.severity} +{(alert.started_at_ms - START) / 1000:g}"
            f" due +{(alert.due_at_ms - START) / 1000:g}"
            for alert in alerts
        ]

    def interrupt(self, second: float) -> None:
        """Ends a gap in the observations."""
        self.tracked = interrupted(self.tracked, quorum_at(second).now_ms)
        self.watched_since_ms = quorum_at(second).now_ms

    def step(self, second: float, evaluation: Evaluation) -> tuple[Alert, ...]:
        quorum = replace(quorum_at(second), watched_since_ms=self.watched_since_ms)
        self.tracked, alerts = advance(self.tracked, evaluation, quorum, self.thresholds)
        self.alerts += alerts
        return alerts


def quorum_at(second: float) -> Quorum:
    return replace(situation(), now_ms=Millis(START + round(second * 1000)), last_offset=Offset(500 + round(second)))


def finding(severity: Severity = Severity.WARNING, *, subject: str = "x", age_s: float | None = None) -> Finding:
    return Finding(
        rule="r",
        subject=Subject(subject),
        severity=severity,
        summary=f"{subject} fails",
        evidence={"n": [1, 2.5, None, {"deep": True}]},
        remedy=("# wait", "fix --now"),
        condition_age_ms=None if age_s is None else Millis(round(age_s * 1000)),
    )


CRITICAL, WARNING, INFO = map(finding, Severity)
UNKNOWN, ALL_UNKNOWN = "x", "all"
Step = tuple[float, Finding | str | None, *tuple[str, ...]]
"""A second, what is found or unknown then, and the alerts of that second."""
FIRING: list[Step] = [(0, WARNING), (30, WARNING, "firing warning +0 due +30")]
TIMELINES: dict[str, list[Step]] = {
    "it fires after hold": [(0, WARNING), (29.9, WARNING), *FIRING[1:], (31, WARNING)],
    "one that ends before hold does not fire": [
        *((0, WARNING), (29, None), (30, WARNING), (59, WARNING)),
        (60, WARNING, "firing warning +30 due +60"),
    ],
    "its age by the evidence counts towards hold": [
        *((0, finding(age_s=12)), (17, finding(age_s=29))),
        (18, finding(age_s=30), "firing warning +0 due +18"),
    ],
    # The log was still being read at the first finding: now it shows an older beginning.
    "its age by the evidence may grow faster than time": [
        (0, finding(age_s=0)),
        (4, finding(age_s=45), "firing warning +0 due +4"),
    ],
    "it fires after hold although the log's clock stalls": [
        (0, finding(age_s=5)),
        (25, finding(age_s=5), "firing warning +0 due +25"),
    ],
    "it resolves after clear": [
        *FIRING,
        (40, None),
        (49.9, None),
        (50, None, "resolved warning +0 due +50"),
        (60, None),
    ],
    "flapping shorter than clear makes no alert": [
        *FIRING,
        *(step for second in range(31, 90, 5) for step in ((second, None), (second + 4, WARNING))),
    ],
    "a higher severity fires at once, a lower one after clear": [
        *(*FIRING, (33, CRITICAL, "firing critical +0 due +33"), (34, WARNING), (40, CRITICAL), (41, WARNING)),
        *((51, WARNING, "firing warning +0 due +51"), (52, None), (62, None, "resolved warning +0 due +62")),
    ],
    **{
        f"{unknown} that is unknown does not resolve": [
            *FIRING,
            *((second, unknown) for second in range(31, 200, 3)),
            *((200, None), (210, None, "resolved warning +0 due +210")),
        ]
        for unknown in (UNKNOWN, ALL_UNKNOWN)
    },
    "clearing restarts after unknown": [
        *(*FIRING, (31, None), (39, UNKNOWN), (42, None), (51.9, None)),
        (52, None, "resolved warning +0 due +52"),
    ],
    "a finding before and one after an unknown result do not count as lasting": [
        *(*FIRING, (33, CRITICAL, "firing critical +0 due +33"), (34, WARNING), (35, UNKNOWN), (600, WARNING)),
        *((609.9, WARNING), (610, WARNING, "firing warning +0 due +610")),
    ],
    "a lower severity lasts while it is unknown for a moment again and again": [
        *(*FIRING, (33, CRITICAL, "firing critical +0 due +33"), (34, WARNING), (35, UNKNOWN), (36, WARNING)),
        *((40, UNKNOWN), (41, WARNING), (43.9, WARNING), (44, WARNING, "firing warning +0 due +44")),
    ],
    "time at a lower severity does not count after the severity has risen": [
        *(*FIRING, (33, INFO), (34, CRITICAL, "firing critical +0 due +34"), (35, WARNING), (44.9, WARNING)),
        (45, WARNING, "firing warning +0 due +45"),
    ],
    "time at a lower severity does not count after the finding was absent": [
        *(*FIRING, (31, INFO), (32, None), (41, INFO), (50.9, INFO)),
        (51, INFO, "firing info +0 due +51"),
    ],
    # Two observations may have the same millisecond; the newer one decides.
    "the second evaluation of one time counts": [
        *(*FIRING, (30, CRITICAL, "firing critical +0 due +30"), (30, None)),
        (40, None, "resolved critical +0 due +40"),
    ],
}


@pytest.mark.parametrize("steps", TIMELINES.values(), ids=TIMELINES)
def test_alerts_of_one_condition_over_time(steps: list[Step]) -> None:
    tracker = ConditionTracker()
    for second, found, *alerts in steps:
        unknown = None if found == ALL_UNKNOWN else found if isinstance(found, str) else "-"
        findings = (found,) if isinstance(found, Finding) else ()
        assert tracker.at(second, *findings, unknown=unknown) == alerts, second
    assert bool(tracker.tracked.conditions) is (tracker.alerts[-1].state is AlertState.FIRING)


def test_changed_hold_applies_to_pending_conditions() -> None:
    tracker = ConditionTracker()
    tracker.at(0, finding(), finding(subject="y", age_s=20))
    tracker.thresholds = {"r": Thresholds(values={"hold": 60.0, "clear": 10.0})}
    assert tracker.at(39, finding(), finding(subject="y", age_s=20)) == []
    assert tracker.at(40, finding(), finding(subject="y", age_s=20)) == ["firing warning +0 due +40"]
    tracker.thresholds = {"r": Thresholds(values={"hold": 1.0, "clear": 10.0})}
    assert tracker.at(41, finding(), finding(subject="y", age_s=20)) == ["firing warning +0 due +1"]


def test_conditions_that_began_almost_together_fire_together() -> None:
    tracker = ConditionTracker()
    tracker.at(0, finding())
    tracker.at(5, finding(), finding(subject="y"))
    tracker.at(6, finding(), finding(subject="y"), finding(subject="z"))
    assert tracker.at(30, *(finding(subject=each) for each in "xyz")) == [
        "firing warning +0 due +30",
        "firing warning +5 due +30",
    ]
    assert tracker.at(36, *(finding(subject=each) for each in "xyz")) == ["firing warning +6 due +36"]


def test_conditions_of_a_rule_with_a_short_hold_fire_together_only_within_a_sixth_of_it() -> None:
    tracker = ConditionTracker()
    tracker.thresholds = {"r": Thresholds(values={"hold": 6.0, "clear": 10.0})}
    tracker.at(0, finding())
    tracker.at(1, finding(), finding(subject="y"))
    tracker.at(1.1, finding(), finding(subject="y"), finding(subject="z"))
    assert len(tracker.at(6, *(finding(subject=each) for each in "xyz"))) == 2


def test_finding_without_a_hold_fires_at_once_although_its_rule_has_one() -> None:
    assert ConditionTracker().at(0, replace(finding(), hold_ms=Millis(0))) == ["firing warning +0 due +0"]


def test_pending_cause_holds_no_consequence_back() -> None:
    tracker = tracker_in_an_outage()
    tracker.thresholds["no-leader"] = Thresholds(values={"hold": 300.0, "clear": 10.0})
    tracker.at(0, OUTAGE, NO_RESERVE)
    assert tracker.at(120, OUTAGE, NO_RESERVE) == ["firing warning +0 due +120"]


def test_pending_condition_whose_rule_is_inhibited_is_dropped_after_ten_seconds() -> None:
    """A rule that is not observed keeps it for an hour."""
    tracker = tracker_in_an_outage(NO_RESERVE)
    inhibited = UnknownResult(rule="failure-tolerance", subject=None, why="inhibited by no-leader")
    for second, kept in ((10, True), (10.1, False)):
        tracker.step(second, Evaluation(findings=(OUTAGE,), unknown=(inhibited,)))
        assert ("failure-tolerance quorum" in tracker.tracked.conditions) is kept


def test_condition_that_was_pending_before_its_cause_begins_when_the_cause_resolves() -> None:
    tracker = tracker_in_an_outage(NO_RESERVE)
    tracker.thresholds["no-leader"] = Thresholds(values={"hold": 0.0, "clear": 5.0})
    tracker.at(1, OUTAGE, NO_RESERVE)
    tracker.at(2, NO_RESERVE)
    assert fired(tracker.step(7, Evaluation(findings=(NO_RESERVE,)))) == [
        "firing failure-tolerance +7",
        "resolved no-leader +1",
    ]


def test_consequence_does_not_fire_before_its_hold_has_passed_since_its_cause_resolved() -> None:
    cause = replace(finding(Severity.CRITICAL), rule="no-leader", subject=Subject("quorum"))
    consequence = replace(finding(), rule="stale-voter-endpoint")
    tracker = ConditionTracker()
    tracker.thresholds = {
        "no-leader": Thresholds(values={"hold": 0.0, "clear": 10.0}),
        "stale-voter-endpoint": Thresholds(values={"hold": 5.0, "clear": 10.0}),
    }
    tracker.at(0, cause)
    for second in (20, 29):
        assert tracker.at(second, consequence) == [], "no-leader clears"
    assert tracker.at(30, consequence) == ["resolved critical +0 due +30"]
    assert tracker.at(31, consequence) == []
    assert tracker.at(36, consequence) == ["firing warning +31 due +36"]


OUTAGE = replace(finding(Severity.CRITICAL), rule="no-leader", subject=Subject("quorum"))
NO_RESERVE = replace(finding(), rule="failure-tolerance", subject=Subject("quorum"))


def tracker_in_an_outage(*findings: Finding) -> ConditionTracker:
    """These findings fire since second 0; `no-leader` clears within 10 s."""
    tracker = ConditionTracker()
    rules = ("no-leader", "failure-tolerance")
    tracker.thresholds = {rule: Thresholds(values={"hold": 0.0, "clear": 10.0}) for rule in rules}
    tracker.thresholds["failure-tolerance"] = Thresholds(values={"hold": 120.0, "clear": 10.0})
    tracker.at(0, *findings)
    return tracker


def fired(alerts: tuple[Alert, ...]) -> list[str]:
    return [f"{alert.state} {alert.rule} +{(alert.started_at_ms - START) / 1000:g}" for alert in alerts]


def test_condition_that_outlives_its_cause_fires_before_the_cause_resolves() -> None:
    tracker = tracker_in_an_outage(OUTAGE)
    assert tracker.at(20, NO_RESERVE) == [], "no-leader clears"
    assert fired(tracker.step(30, Evaluation(findings=(NO_RESERVE,)))) == [
        "firing failure-tolerance +30",
        "resolved no-leader +0",
    ]
    assert tracker.alerts[-1].summary.startswith("Controller 3 leads in epoch 7. ")
    assert tracker.at(31, NO_RESERVE) == []
    assert tracker.at(40) == []
    assert tracker.at(50) == ["resolved warning +30 due +50"]


def test_condition_that_outlives_its_cause_takes_its_hold_if_it_is_critical() -> None:
    worse = replace(NO_RESERVE, severity=Severity.CRITICAL)
    tracker = tracker_in_an_outage(OUTAGE)
    tracker.at(20, worse)
    assert fired(tracker.step(30, Evaluation(findings=(worse,)))) == ["resolved no-leader +0"]
    assert tracker.at(31, NO_RESERVE) == []
    assert tracker.at(151, NO_RESERVE) == ["firing warning +31 due +151"]


def test_condition_waits_until_its_last_cause_resolves() -> None:
    lagging = replace(NO_RESERVE, rule="voter-lagging")
    tracker = tracker_in_an_outage()
    tracker.thresholds |= {
        "failure-tolerance": Thresholds(values={"hold": 0.0, "clear": 20.0}),
        "voter-lagging": Thresholds(values={"hold": 60.0, "clear": 10.0}),
    }
    tracker.at(0, OUTAGE, NO_RESERVE)
    tracker.at(2, lagging)
    assert fired(tracker.step(12, Evaluation(findings=(lagging,)))) == ["resolved no-leader +0"]
    assert fired(tracker.step(22, Evaluation(findings=(lagging,)))) == [
        "firing voter-lagging +22",
        "resolved failure-tolerance +0",
    ]


def firing() -> ConditionTracker:
    tracker = ConditionTracker()
    tracker.at(0, finding())
    tracker.at(30, finding())
    return tracker


def test_resolved_alert_has_the_last_evidence_and_no_remedy() -> None:
    tracker = firing()
    tracker.at(35, replace(finding(), summary="x is worse", evidence={"n": 7}))
    tracker.at(36)
    tracker.at(46)
    resolved = tracker.alerts[-1]
    assert resolved.state is AlertState.RESOLVED
    assert resolved.evidence == {"n": 7}
    assert resolved.remedy == ()
    assert resolved.offset == 546
    assert resolved.fingerprint == tracker.alerts[0].fingerprint


def test_the_alert_of_a_rule_that_this_version_lacks_resolves_and_says_so() -> None:
    """Whether its condition is over is not known: another version, newer or older, has the rule."""
    tracker = firing()
    tracker.at(36)
    tracker.at(46)
    assert tracker.alerts[-1].state is AlertState.RESOLVED
    assert tracker.alerts[-1].summary == "Rule r is not evaluated any more: this kraftwatch does not have it."
    assert tracker.alerts[-1].claims == (condition_claim(Subject("x")),), "unknown"


@pytest.mark.parametrize(
    ("second", "why", "shown"),
    [
        (40, "no poll", "x fails"),
        (40.1, "no poll", "Found at 2026-09-21 14:13:50 UTC, not known now: x fails"),
        (30, "inhibited by no-leader", "Found at 2026-09-21 14:13:50 UTC, not known now: x fails"),
    ],
)
def test_text_of_an_alert_that_is_not_known_now_says_when_it_was_found(second: float, why: str, shown: str) -> None:
    tracker = firing()
    evaluation = Evaluation(unknown=(UnknownResult(rule="r", subject=None, why=why),))
    tracker.step(second, evaluation)

    [alert] = firing_alerts(tracker.tracked, evaluation, quorum_at(second)).alerts

    assert alert.summary == shown
    assert alert.evidence.get("not_known_now") == (None if shown == "x fails" else why)
    assert alert.claims == (() if shown == "x fails" else (condition_claim(Subject("x")),))
    assert alert.says[0] == tracker.alerts[-1].says[0], "that alone makes no transition"
    [kept] = notified_conditions([alert]).conditions.values()
    assert (kept.summary, kept.evidence) == ("x fails", tracker.alerts[-1].evidence)


def test_evaluation_of_the_same_time_again_makes_no_alert() -> None:
    tracker = ConditionTracker()
    tracker.at(0, finding())
    assert len(tracker.at(30, finding())) == 1
    before = tracker.tracked
    assert tracker.at(30, finding()) == []
    assert tracker.tracked == before


def test_evaluation_of_an_older_time_changes_nothing() -> None:
    tracker = firing()
    before = tracker.tracked
    assert tracker.at(29) == []
    assert tracker.at(5, finding(Severity.CRITICAL)) == []
    assert tracker.tracked is before


def test_an_alert_keeps_its_fingerprint_when_the_cluster_id_becomes_known_or_lost() -> None:
    tracked, thresholds = TrackedConditions(), {"r": Thresholds(values={"hold": 0.0, "clear": 0.0})}
    tracked, fired = advance(tracked, Evaluation(findings=(finding(),)), quorum_at(0), thresholds)
    _, resolved = advance(tracked, Evaluation(), replace(quorum_at(1), cluster_id=None), thresholds)
    assert fired[0].fingerprint == resolved[0].fingerprint


def test_alert_of_a_removed_rule_resolves() -> None:
    tracker = firing()
    tracked, _ = advance(tracker.tracked, Evaluation(), quorum_at(31), {})
    _, alerts = advance(tracked, Evaluation(), quorum_at(41), {})
    assert [alert.state for alert in alerts] == [AlertState.RESOLVED]


def test_next_due_is_the_next_time_at_which_an_alert_is_due() -> None:
    tracker = ConditionTracker()
    assert next_due(tracker.tracked, THRESHOLDS) is None

    tracker.at(0, finding())
    assert next_due(tracker.tracked, THRESHOLDS) == START + 30_000, "the end of its hold"

    tracker.at(8, finding(), finding(subject="y"))
    assert next_due(tracker.tracked, THRESHOLDS) == START + 30_000, "the earlier of two"

    tracker.at(30, finding(), finding(subject="y"))
    assert next_due(tracker.tracked, THRESHOLDS) == START + 38_000, "a firing condition is not due"

    tracker.at(40, finding(subject="y"))
    assert next_due(tracker.tracked, THRESHOLDS) == START + 50_000, "the end of its clear"
    longer = {"r": Thresholds(values={"hold": 30.0, "clear": 12.5})}
    assert next_due(tracker.tracked, longer) == START + 52_500

    tracker.at(41, finding(Severity.INFO, subject="y"))
    tracker.at(50, finding(Severity.INFO, subject="y"))
    assert next_due(tracker.tracked, THRESHOLDS) == START + 51_000, "the end of clear for the lower severity"

    tracker.at(51, finding(Severity.INFO, subject="y"))
    assert next_due(tracker.tracked, THRESHOLDS) is None


def test_an_alert_has_the_finding_and_the_quorum_of_its_evaluation() -> None:
    tracker = firing()
    tracker.at(32)
    tracker.at(50)
    fired, resolved = tracker.alerts

    assert fired == Alert(
        cluster="prod",
        cluster_id=situation().cluster_id or "",
        rule="r",
        subject="x",
        severity=Severity.WARNING,
        state=AlertState.FIRING,
        summary="x fails",
        evidence={"n": [1, 2.5, None, {"deep": True}]},
        remedy=("# wait", "fix --now"),
        started_at_ms=Millis(START),
        due_at_ms=Millis(START + 30_000),
        observed_at_ms=Millis(START + 30_000),
        offset=Offset(530),
        names_cluster=True,
    )
    assert (resolved.cluster, resolved.observed_at_ms, resolved.offset) == ("prod", START + 50_000, 550)


@pytest.mark.parametrize("known_later", [None, "the id"])
def test_conditions_that_fire_together_have_the_cluster_id_that_became_known(known_later: str | None) -> None:
    tracked = TrackedConditions()
    alerts: tuple[Alert, ...] = ()
    x, y = finding(), finding(subject="y")
    for second, findings, cluster_id in ((0, (x,), None), (4, (x, y), None), (30, (x, y), known_later)):
        quorum = replace(quorum_at(second), cluster_id=cluster_id)
        tracked, alerts = advance(tracked, Evaluation(findings=findings), quorum, THRESHOLDS)
    assert [alert.cluster_id for alert in alerts] == [known_later or ""] * 2
    assert [each.cluster_id for each in tracked.conditions.values()] == [known_later or ""] * 2


@pytest.mark.parametrize(
    ("subject", "unknown_for_s", "kept"),
    [("x", 10, True), ("x", 10.1, False), (None, 3600, True), (None, 3600.1, False)],
)
def test_pending_condition_is_kept_while_undecided_or_not_observed(
    subject: str | None, unknown_for_s: float, kept: bool
) -> None:
    tracker = ConditionTracker()
    tracker.at(0, finding())
    tracker.at(25, finding())
    assert tracker.at(25 + unknown_for_s, unknown=subject) == []
    alerts = tracker.at(26 + unknown_for_s + 5, finding())
    assert alerts == (["firing warning +0 due +30"] if kept else [])


def test_row_that_observes_nothing_neither_fires_nor_clears() -> None:
    tracker = ConditionTracker()
    tracker.at(0, finding())
    tracker.interrupt(40)
    assert tracker.at(41, finding()) == ["firing warning +0 due +30"]
    tracker.at(42)
    tracker.interrupt(60)
    assert tracker.at(61) == []
    assert tracker.at(71) == ["resolved warning +0 due +71"]


def test_time_at_a_lower_severity_before_a_gap_does_not_count() -> None:
    tracker = firing()
    tracker.at(33, finding(Severity.CRITICAL))
    tracker.at(34, finding())
    tracker.interrupt(40)
    assert tracker.at(44, finding()) == []
    assert tracker.at(54, finding()) == ["firing warning +0 due +54"]


def test_gap_that_ended_before_the_newest_evaluation_changes_nothing() -> None:
    tracker = firing()
    tracker.at(35)
    assert interrupted(tracker.tracked, quorum_at(34).now_ms) is tracker.tracked


def test_a_clock_that_is_set_forward_moves_the_time_at_which_a_hold_ends() -> None:
    tracker = ConditionTracker()
    tracker.at(0, finding())
    moved = interrupted(tracker.tracked, quorum_at(3_600).now_ms, time_passed=False)
    assert next_due(moved, THRESHOLDS) == START + 3_630_000


def test_hold_after_a_gap_counts_by_the_age_that_the_evidence_has() -> None:
    tracker = ConditionTracker()
    tracker.at(0, finding(age_s=0), finding(subject="y"))
    tracker.interrupt(100)
    assert tracker.at(101, finding(age_s=5), finding(subject="y")) == ["firing warning +0 due +30"]
    assert tracker.alerts[-1].subject == "y"
    assert tracker.at(125, finding(age_s=29), finding(subject="y")) == []
    assert tracker.at(126, finding(age_s=30), finding(subject="y")) == ["firing warning +101 due +126"]
