"""Compares what was reported in a run with what must and may be reported. Imports nothing of the product."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise

from tests.chaos.facts import Course, Kind, Notified, Reported
from tests.chaos.oracle import AFTER_S, KEEPS_FIRING_S, LASTING, Expected, Oracle

DELIVERED_S = 30.0
"""A sink that works gets a notification within this time."""
CLEARED_S = 60.0
"""An alert may stay so long after its last explanation and AFTER_S."""
SETTLED_S = 15.0
"""A condition that was certain from so long before to so long after a moment was so at that moment."""
REPEATED_S = 30.0
"""How long after its kill a job sends again what it had not recorded."""


@dataclass(slots=True, kw_only=True)
class Verdict:
    """What was wrong in a run, and the delays of what was right."""

    missed: list[str] = field(default_factory=list)
    false: list[str] = field(default_factory=list)
    twice: list[str] = field(default_factory=list)
    not_resolved: list[str] = field(default_factory=list)
    delays: dict[str, list[float]] = field(default_factory=dict)
    """Seconds from the beginning of a condition to its alert, by rule."""

    @property
    def problems(self) -> Sequence[str]:
        """Everything that was wrong."""
        named = {"missed": self.missed, "false": self.false, "twice": self.twice, "not resolved": self.not_resolved}
        return [f"{name}: {text}" for name, texts in named.items() for text in texts]


def judge(course: Course) -> Verdict:
    """Returns the verdict of a run."""
    oracle, verdict = Oracle(course), Verdict()
    expected = list(oracle.expected())
    for each in expected:
        _require(course, each, verdict)
    verdict.false += _unexplained(course, oracle)
    verdict.false += _resolved_too_early(course, expected)
    verdict.twice += _notified_twice(course)
    verdict.not_resolved += [*_still_open(course), *_open_too_long(course, oracle)]
    return verdict


def _require(course: Course, expected: Expected, verdict: Verdict) -> None:
    text = f"{expected.rule} {expected.subject} from {_time(expected.since)} to {_time(expected.until)}"
    fired = [each for each in course.reported if expected.is_met_by(each.rule, each.subject) and each.state == "firing"]
    alert = next((each for each in fired if _is_open(course, each, expected.due)), None)
    if alert is None:
        verdict.missed.append(f"{text}: no alert at {_time(expected.due)}")
        return
    verdict.delays.setdefault(expected.rule, []).append(alert.sent_at - expected.since)
    notified_by = expected.due + DELIVERED_S
    off = any(each.overlaps(expected.since, notified_by) for each in course.facts.of(Kind.MONITOR_OFF))
    if not expected.people or off or expected.until < notified_by:
        return
    if not any(
        expected.is_met_by(rule, subject)
        for each in course.notified
        if each.at <= notified_by
        for rule, subject in each.firing
    ):
        verdict.missed.append(f"{text}: people were not notified until {_time(notified_by)}")


def _is_open(course: Course, alert: Reported, at: float) -> bool:
    """Whether an alert was firing at that moment, by when its lines were written."""
    if alert.sent_at > at:
        return False
    later = [
        each
        for each in course.reported
        if each.fingerprint == alert.fingerprint and alert.sent_at <= each.sent_at <= at and each is not alert
    ]
    return not any(each.state == "resolved" and each.started_at >= alert.started_at for each in later)


def _unexplained(course: Course, oracle: Oracle) -> Iterator[str]:
    for each in course.reported:
        if each.state != "firing":
            continue
        text = f"{each.severity} {each.rule} {each.subject} at {_time(each.sent_at)}"
        if not oracle.may_fire(each.rule, each.subject, each.started_at, each.observed_at):
            yield f"{text}: nothing that was done explains it"
        elif each.rule == "no-leader" and oracle.certainly_had_leader(each.started_at - 2, each.observed_at + 2):
            yield f"{text}: there was a leader all the time"


def _resolved_too_early(course: Course, expected: Sequence[Expected]) -> Iterator[str]:
    """Yields the alerts that resolved in the middle of a condition that was certain."""
    for each in course.reported:
        for one in expected:
            same = each.rule == one.rule and one.subject in each.subject and each.state == "resolved"
            if same and one.due + SETTLED_S <= each.observed_at <= one.until - SETTLED_S:
                span = f"{_time(one.since)} to {_time(one.until)}"
                yield f"{each.rule} {each.subject} resolved at {_time(each.observed_at)}, but it was so from {span}"


def _notified_twice(course: Course) -> Iterator[str]:
    """Yields a second beginning or end of the same incident.

    A job that is killed after the service accepted a notification, and before the ledger has that, sends it again.
    """
    off = course.facts.of(Kind.MONITOR_OFF)
    for first, second in _pairs_of_incidents(course.notified):
        again = first.reason == second.reason and second.reason in ("firing", "resolved")
        killed = second.at - first.at <= REPEATED_S and any(each.overlaps(first.at, second.at) for each in off)
        if again and not killed:
            yield f"incident {first.incident} {second.reason} at {_time(first.at)} and {_time(second.at)}"


def _pairs_of_incidents(notified: Sequence[Notified]) -> Iterator[tuple[Notified, Notified]]:
    for incident in dict.fromkeys(each.incident for each in notified):
        yield from pairwise(each for each in notified if each.incident == incident)


def _still_open(course: Course) -> Iterator[str]:
    newest = {each.fingerprint: each for each in course.reported}
    for each in newest.values():
        if each.state == "firing" and each.rule != LASTING:
            yield f"{each.rule} {each.subject} fires at the end, since {_time(each.started_at)}"
    incidents = {each.incident: each for each in course.notified}
    for incident, last in incidents.items():
        if last.reason != "resolved" and LASTING not in {rule for rule, _ in last.firing}:
            yield f"people were not notified of the end of incident {incident} ({sorted(last.firing)})"
    for key in dict.fromkeys(each.key for each in course.paged):
        effects = [each.effect for each in course.paged if each.key == key and each.effect != "dropped"]
        lasting = any(rule == LASTING for name, last in incidents.items() if key in name for rule, _ in last.firing)
        if effects[-1:] != ["resolved"] and not lasting:
            yield f"PagerDuty {key} is open at the end"


def _open_too_long(course: Course, oracle: Oracle) -> Iterator[str]:
    for first, second in _transitions(course.reported):
        if second.state != "resolved" or first.rule == LASTING:
            continue
        late = AFTER_S + CLEARED_S + KEEPS_FIRING_S.get(first.rule, 0.0)
        off = any(each.overlaps(second.sent_at - late, second.sent_at) for each in course.facts.of(Kind.MONITOR_OFF))
        if not off and not oracle.may_fire(first.rule, first.subject, second.sent_at - CLEARED_S, second.sent_at):
            yield f"{first.rule} {first.subject} resolved at {_time(second.sent_at)} only"


def _transitions(reported: Sequence[Reported]) -> Iterator[tuple[Reported, Reported]]:
    for fingerprint in dict.fromkeys(each.fingerprint for each in reported):
        yield from pairwise(each for each in reported if each.fingerprint == fingerprint)


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%H:%M:%S")
