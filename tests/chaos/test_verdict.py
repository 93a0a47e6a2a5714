"""The oracle of `make chaos`: each kind of wrong report is noticed, and a right run has no problem."""

import time
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

from tests.chaos.chaos_run import reported as reported_at
from tests.chaos.facts import Course, Fact, FactLog, Kind, LeaderAnswer, Notified, Paged, Reported
from tests.chaos.set_clock import SetClock
from tests.chaos.verdict import judge

START = 1_790_000_000.0
KILLED, STARTED = START + 200, START + 320
"""Two of three controllers are killed, so that there is no leader, and are started."""
END = START + 700


def fact(kind: Kind, subject: object, start: float, end: float) -> Fact:
    return Fact(kind=kind, subject=str(subject), start=start, end=end)


def line(
    state: str, at: float, *, rule: str = "no-leader", subject: str = "quorum", started: float = KILLED
) -> Reported:
    return Reported(
        rule=rule,
        subject=subject,
        state=state,
        severity="critical",
        fingerprint=f"{rule} {subject}",
        started_at=started,
        observed_at=at,
        sent_at=at,
    )


def notified(reason: str, at: float) -> Notified:
    firing = frozenset({("no-leader", "quorum")}) if reason == "firing" else frozenset[tuple[str, str]]()
    return Notified(incident="i1", reason=reason, severity="critical", at=at, firing=firing)


FIRED, RESOLVED = line("firing", KILLED + 15), line("resolved", STARTED + 25)
PAGED = (Paged(at=KILLED + 16, effect="opened", key="k1"), Paged(at=STARTED + 26, effect="resolved", key="k1"))
RIGHT = Course(
    start=START,
    end=END,
    controllers=(1, 2, 3),
    facts=FactLog(
        [
            fact(Kind.SILENT, 1, KILLED, STARTED),
            fact(Kind.SILENT, 2, KILLED, STARTED),
            fact(Kind.UNCERTAIN, 1, STARTED, STARTED + 30),
            fact(Kind.UNCERTAIN, 2, STARTED, STARTED + 30),
        ]
    ),
    leaders=[
        LeaderAnswer(at=START + second, leader=None if KILLED <= START + second < STARTED + 15 else 3, epoch=1)
        for second in range(700)
    ],
    reported=(FIRED, RESOLVED),
    notified=(notified("firing", KILLED + 16), notified("resolved", STARTED + 26)),
    paged=PAGED,
)


def test_an_unknown_quorum_is_critical_where_nobody_can_tell_whether_there_is_a_leader() -> None:
    blind = (line("firing", KILLED + 15, rule="monitor-blind"), line("resolved", STARTED + 25, rule="monitor-blind"))
    paged = replace(RIGHT.notified[0], firing=frozenset({("monitor-blind", "quorum")}))
    run = replace(RIGHT, reported=blind, notified=(paged, RIGHT.notified[1]))
    assert [each for each in judge(run).problems if each.startswith("missed")] == []


def test_a_run_in_which_everything_was_reported_has_no_problem() -> None:
    verdict = judge(RIGHT)
    assert list(verdict.problems) == []
    assert verdict.delays == {"no-leader": [15.0]}


@pytest.mark.parametrize(
    ("course", "problem"),
    [
        (replace(RIGHT, reported=(), notified=(), paged=()), "missed: no-leader"),
        (replace(RIGHT, reported=(replace(FIRED, sent_at=STARTED), RESOLVED)), "missed: no-leader"),
        (replace(RIGHT, notified=(), paged=()), "were not notified"),
        (replace(RIGHT, reported=(FIRED, line("resolved", STARTED - 30))), "but it was so from"),
        (
            replace(RIGHT, reported=(FIRED, RESOLVED, line("firing", START + 600, started=START + 590))),
            "nothing that was done explains it",
        ),
        (
            replace(RIGHT, reported=(line("firing", START + 190, started=START + 180), FIRED, RESOLVED)),
            "false: critical no-leader",
        ),
        (
            replace(RIGHT, reported=(FIRED, RESOLVED, line("firing", KILLED + 50, rule="broker-fenced", subject="b"))),
            "broker-fenced b fires at the end",
        ),
        (
            replace(RIGHT, reported=(FIRED, RESOLVED, line("firing", KILLED + 50, rule="snapshot-stale"))),
            "false: critical snapshot-stale",
        ),
        (replace(RIGHT, reported=(FIRED, FIRED, RESOLVED)), "twice: the line of no-leader"),
        (replace(RIGHT, paged=(PAGED[0], *PAGED)), "twice: PagerDuty k1"),
        (replace(RIGHT, notified=(RIGHT.notified[0], *RIGHT.notified)), "twice: incident i1 firing"),
        (replace(RIGHT, reported=(FIRED,)), "fires at the end"),
        (replace(RIGHT, notified=RIGHT.notified[:1]), "not notified of the end of incident i1"),
        (replace(RIGHT, paged=PAGED[:1]), "PagerDuty k1 is open at the end"),
        (replace(RIGHT, reported=(FIRED, line("resolved", STARTED + 250))), "resolved at"),
    ],
)
def test_what_is_wrong_is_noticed(course: Course, problem: str) -> None:
    problems = list(judge(course).problems)
    assert [each for each in problems if problem in each], problems


def test_a_controller_that_refuses_the_monitor_may_have_a_stale_endpoint_instead() -> None:
    cut_off = fact(Kind.NOT_OBSERVED, 2, KILLED, KILLED + 120)
    course = replace(
        RIGHT,
        facts=FactLog([cut_off]),
        leaders=[replace(each, leader=3) for each in RIGHT.leaders],
        notified=(),
        paged=(),
    )
    stale = [
        line(state, at, rule="stale-voter-endpoint", subject="voter 2", started=KILLED + 20)
        for state, at in (("firing", KILLED + 30), ("resolved", KILLED + 140))
    ]
    notifications = tuple(
        replace(
            notified(reason, at), firing=frozenset({("stale-voter-endpoint", "voter 2")} if reason == "firing" else ())
        )
        for reason, at in (("firing", KILLED + 31), ("resolved", KILLED + 141))
    )

    assert list(judge(replace(course, reported=tuple(stale), notified=notifications)).problems) == []
    (missed,) = judge(replace(course, reported=())).problems
    assert "missed: monitor-blind controller 2" in missed


def test_the_directory_id_of_an_observer_is_not_its_number() -> None:
    removed = replace(RIGHT, facts=FactLog([*RIGHT.facts.facts, fact(Kind.REMOVED, 3, KILLED, STARTED)]))
    could_be = [
        line(state, at, rule="observer-could-be-voter", subject="observer 3-3UPTZITmFa2K1-VoQKgJ6g")
        for state, at in (("firing", KILLED + 50), ("resolved", STARTED + 10))
    ]
    assert not [each for each in judge(replace(removed, reported=tuple(could_be))).problems if "false" in each]


def test_no_leader_may_be_reported_while_fewer_than_a_majority_answer_the_monitor() -> None:
    leads = replace(RIGHT, leaders=[replace(each, leader=3) for each in RIGHT.leaders], reported=(FIRED, RESOLVED))
    hidden = [fact(Kind.SILENT, 2, KILLED, STARTED), fact(Kind.NOT_OBSERVED, 1, KILLED, STARTED)]
    for facts, false in ((hidden[:1], True), (hidden, False)):
        problems = judge(replace(leads, facts=FactLog(facts))).problems
        assert any("there was a leader all the time" in each for each in problems) is false


def test_an_alert_is_not_required_while_the_monitor_does_not_run_or_the_host_is_busy() -> None:
    for kind in (Kind.MONITOR_OFF, Kind.BUSY, Kind.NOT_OBSERVED):
        facts = FactLog([*RIGHT.facts.facts, fact(kind, 3, KILLED - 10, STARTED)])
        course = replace(RIGHT, facts=facts, reported=(), notified=(), paged=())
        assert list(judge(course).problems) == []


def test_one_controller_that_is_silent_needs_no_alert_of_no_leader_but_of_the_tolerance() -> None:
    leaders = [replace(each, leader=3) for each in RIGHT.leaders]
    course = replace(RIGHT, facts=FactLog([RIGHT.facts.facts[0]]), leaders=leaders, reported=(), notified=(), paged=())
    assert [each[:25] for each in judge(course).problems] == ["missed: failure-tolerance"]


def test_a_certificate_that_expires_soon_must_be_reported_and_no_other() -> None:
    quiet = replace(RIGHT, leaders=[replace(each, leader=3) for each in RIGHT.leaders], notified=(), paged=())
    expires = replace(quiet, facts=FactLog([fact(Kind.EXPIRING, 2, KILLED, STARTED)]), reported=())
    assert [each[:28] for each in judge(expires).problems] == ["missed: certificate-expiring"]
    reported = tuple(
        line(state, at, rule="certificate-expiring", subject="certificates", started=KILLED + 5)
        for state, at in (("firing", KILLED + 30), ("resolved", STARTED + 30))
    )
    people = tuple(
        replace(
            each,
            firing=frozenset({("certificate-expiring", "certificates")}) if each.reason == "firing" else each.firing,
        )
        for each in RIGHT.notified
    )
    assert list(judge(replace(expires, reported=reported, notified=people)).problems) == []
    without = replace(quiet, facts=FactLog(), reported=reported)
    assert (
        list(judge(without).false) == [each for each in judge(without).false if "nothing that was done" in each] != []
    )


@pytest.mark.parametrize("rule", ["monitor-blind", "leader-clock-skew"])
def test_the_clock_of_the_jobs_host_explains_what_is_seen_by_it(rule: str) -> None:
    leaders = [replace(each, leader=3) for each in RIGHT.leaders]
    lines = (line("firing", KILLED + 20, rule=rule), line("resolved", STARTED + 20, rule=rule))
    course = replace(RIGHT, leaders=leaders, reported=lines, notified=(), paged=())
    assert list(judge(replace(course, facts=FactLog([fact(Kind.JOB_CLOCK, "", KILLED, STARTED)]))).problems) == []
    assert len(judge(replace(course, facts=FactLog())).false) == 1


def test_that_the_clock_was_set_may_be_reported_for_minutes_and_nothing_else() -> None:
    facts = FactLog([fact(Kind.JOB_CLOCK, "", KILLED, KILLED + 20)])
    for subject, problems in (("clock", 0), ("quorum", 1)):
        reported = (line("firing", KILLED + 1, rule="monitor-blind", subject=subject, started=KILLED + 1),)
        course = replace(RIGHT, leaders=[], facts=facts, reported=reported, notified=(), paged=())
        assert len(judge(course).not_resolved) == problems


def test_times_of_a_clock_that_was_set_are_those_of_the_machine(tmp_path: Path) -> None:
    clock = SetClock(tmp_path / "clock")
    now = time.time()
    clock.offsets[:] = [(0.0, 0.0), (now - 300, 40.0), (now - 200, 0.0)]
    assert clock.real(now - 301) == now - 301
    assert clock.real(now - 210) == now - 250
    assert clock.real(now - 280) == now - 300, "never shown"
    assert clock.real(now - 190) == now - 190, "shown twice: the later one"
    assert clock.real(now - 190, until=now - 210) == now - 230, "shown twice: the earlier one"
    clock.offsets[:] = [(0.0, 0.0), (now - 300, 3_600.0), (now - 200, 0.0)]
    assert clock.real(now + 3_350) == now - 250


def test_a_line_before_another_one_was_written_before_it(tmp_path: Path) -> None:
    clock = SetClock(tmp_path / "clock")
    now = time.time()
    clock.offsets[:] = [(0.0, 0.0), (now - 300, 300.0), (now - 200, 0.0)]

    def written(started: float, observed: float, sent: float) -> dict[str, str]:
        at = {"started_at": started, "observed_at": observed, "sent_at": sent}
        names = {"rule": "leader-clock-skew", "subject": "controller 1", "state": "firing", "severity": "warning"}
        return {**names, "fingerprint": "f", **{name: datetime.fromtimestamp(at[name], UTC).isoformat() for name in at}}

    ahead, back = written(now + 20, now + 50, now + 50), written(now + 20, now + 105, now - 195)
    first, second = reported_at([ahead, back], clock)
    assert [round(each - now) for each in (first.started_at, first.observed_at, first.sent_at)] == [-280, -250, -250]
    assert [round(each - now) for each in (second.observed_at, second.sent_at)] == [-195, -195]


def test_metadata_is_lost_only_with_an_old_disk_while_another_voter_is_absent() -> None:
    lost = line("firing", KILLED + 30, rule="committed-metadata-lost", subject="metadata log", started=KILLED + 30)
    course = replace(RIGHT, reported=(lost,), notified=(), paged=(), leaders=[])
    old = fact(Kind.OLD_DISK, 3, KILLED, KILLED + 20)
    absent = fact(Kind.SILENT, 1, KILLED, KILLED + 20)
    assert list(judge(replace(course, facts=FactLog([old, absent]))).problems) == []
    assert len(judge(replace(course, facts=FactLog([old]))).false) == 1
    assert len(judge(replace(course, facts=FactLog([absent]))).false) == 1


def test_a_voter_with_a_new_disk_is_reported_instead_of_the_missing_reserve() -> None:
    facts = FactLog([fact(Kind.NEW_DISK, 2, KILLED, KILLED + 150)])
    leaders = [replace(each, leader=3) for each in RIGHT.leaders]
    replaced = partial(line, rule="voter-disk-replaced", subject="controller 2")
    reported = (replaced("firing", KILLED + 40), replaced("resolved", KILLED + 160))
    people = (
        replace(notified("firing", KILLED + 41), firing=frozenset({("voter-disk-replaced", "controller 2")})),
        notified("resolved", KILLED + 161),
    )
    course = replace(RIGHT, facts=facts, leaders=leaders, reported=reported, notified=people, paged=())
    assert list(judge(course).problems) == []
    assert len(judge(replace(course, reported=(), notified=())).missed) == 2


def test_an_alert_about_a_certificate_stays_while_a_certificate_cannot_be_read() -> None:
    expiring = fact(Kind.EXPIRING, 2, START + 100, START + 150)
    certificates = partial(line, rule="certificate-expiring", subject="certificates")
    reported = (certificates("firing", START + 130), certificates("resolved", START + 400))
    course = replace(RIGHT, reported=reported, notified=(), paged=(), leaders=[])
    assert list(judge(replace(course, facts=FactLog([expiring]))).not_resolved) != []
    paused = fact(Kind.SILENT, 1, START + 150, START + 380)
    assert list(judge(replace(course, facts=FactLog([expiring, paused]))).not_resolved) == []
