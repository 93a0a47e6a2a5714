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


def fact(kind: Kind, subject: object = "", start: float = KILLED, end: float = STARTED) -> Fact:
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


def notified(reason: str, at: float, alert: tuple[str, str] = ("no-leader", "quorum")) -> Notified:
    firing = frozenset({alert} if reason == "firing" else ())
    return Notified(incident="i1", reason=reason, at=at, firing=firing)


FIRED, RESOLVED = line("firing", KILLED + 15), line("resolved", STARTED + 25)
PAGED = (Paged(at=KILLED + 16, effect="opened", key="k1"), Paged(at=STARTED + 26, effect="resolved", key="k1"))
RIGHT = Course(
    start=START,
    end=END,
    controllers=(1, 2, 3),
    facts=FactLog(
        [
            *(fact(Kind.SILENT, node) for node in (1, 2)),
            *(fact(Kind.UNCERTAIN, node, STARTED, STARTED + 30) for node in (1, 2)),
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
QUIET = replace(
    RIGHT,
    facts=FactLog(),
    leaders=[replace(each, leader=3) for each in RIGHT.leaders],
    reported=(),
    notified=(),
    paged=(),
)
"""A run in which nothing happened."""


def after(*facts: Fact, run: Course = QUIET) -> Course:
    return replace(run, facts=FactLog([*run.facts.facts, *facts]))


def alerted(
    run: Course,
    rule: str,
    subject: str,
    fired: float,
    resolved: float | None,
    *,
    started: float = KILLED,
    people: bool = False,
) -> Course:
    """Returns the run in which an alert, and no other, was reported, and people were notified of it."""
    at = {"firing": fired} | ({} if resolved is None else {"resolved": resolved})
    lines = tuple(line(state, when, rule=rule, subject=subject, started=started) for state, when in at.items())
    told = tuple(notified(state, when + 1, (rule, subject)) for state, when in at.items())
    return replace(run, reported=lines, notified=told if people else (), paged=())


BLIND_QUORUM = alerted(RIGHT, "monitor-blind", "quorum", KILLED + 15, STARTED + 25, people=True)
HIDDEN = fact(Kind.NOT_OBSERVED, 2)
STALE = alerted(after(HIDDEN), "stale-voter-endpoint", "voter 2", KILLED + 30, KILLED + 140, people=True)
COULD_BE = "observer 3-3UPTZITmFa2K1-VoQKgJ6g"
EXPIRES = after(fact(Kind.EXPIRING, 2))
CERTIFICATE = partial(alerted, rule="certificate-expiring", subject="certificates", people=True)
REPLACED = after(fact(Kind.NEW_DISK, 2, KILLED, KILLED + 150))
SKEW = partial(alerted, subject="quorum", fired=KILLED + 20, resolved=STARTED + 20)
SET_CLOCK = after(fact(Kind.JOB_CLOCK, end=KILLED + 20))
LOST = partial(alerted, rule="committed-metadata-lost", subject="metadata log", fired=KILLED + 30, resolved=None)
OLD_DISK, ABSENT = fact(Kind.OLD_DISK, 3, end=KILLED + 20), fact(Kind.SILENT, 1, end=KILLED + 20)
UNREAD = fact(Kind.SILENT, 1, KILLED + 50, KILLED + 280)
LATE_CERTIFICATE = partial(CERTIFICATE, fired=KILLED + 30, resolved=KILLED + 300, people=False)
SHORT = after(fact(Kind.EXPIRING, 2, KILLED, KILLED + 50))


@pytest.mark.parametrize(
    "course",
    [
        pytest.param(RIGHT, id="everything was reported"),
        pytest.param(STALE, id="a controller that refuses the monitor has a stale endpoint"),
        *(
            pytest.param(
                replace(after(fact(kind, 3, KILLED - 10), run=RIGHT), reported=(), notified=(), paged=()),
                id=f"{kind}: no alert is required",
            )
            for kind in (Kind.MONITOR_OFF, Kind.BUSY, Kind.NOT_OBSERVED)
        ),
        pytest.param(CERTIFICATE(EXPIRES, fired=KILLED + 30, resolved=STARTED + 30), id="a certificate expires soon"),
        *(
            pytest.param(SKEW(after(fact(Kind.JOB_CLOCK)), rule), id=f"the clock of the job's host explains {rule}")
            for rule in ("monitor-blind", "leader-clock-skew")
        ),
        pytest.param(
            alerted(SET_CLOCK, "monitor-blind", "clock", KILLED + 1, None),
            id="that the clock was set lasts for minutes",
        ),
        pytest.param(LOST(after(OLD_DISK, ABSENT)), id="an old disk while another voter is absent"),
        pytest.param(
            alerted(REPLACED, "voter-disk-replaced", "controller 2", KILLED + 40, KILLED + 160, people=True),
            id="a voter with a new disk is reported instead of the missing reserve",
        ),
    ],
)
def test_a_right_run_has_no_problem(course: Course) -> None:
    assert list(judge(course).problems) == []


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
        (after(HIDDEN), "missed: monitor-blind controller 2"),
        (after(RIGHT.facts.facts[0]), "missed: failure-tolerance"),
        (EXPIRES, "missed: certificate-expiring"),
        (CERTIFICATE(QUIET, fired=KILLED + 30, resolved=STARTED + 30), "nothing that was done explains it"),
        (SKEW(QUIET, "monitor-blind"), "nothing that was done explains it"),
        (SKEW(QUIET, "leader-clock-skew"), "nothing that was done explains it"),
        (alerted(SET_CLOCK, "monitor-blind", "quorum", KILLED + 1, None), "fires at the end"),
        (LOST(after(OLD_DISK)), "nothing that was done explains it"),
        (LOST(after(ABSENT)), "nothing that was done explains it"),
        (REPLACED, "missed: voter-disk-replaced controller 2"),
        (LATE_CERTIFICATE(SHORT), "resolved at"),
    ],
)
def test_what_is_wrong_is_noticed(course: Course, problem: str) -> None:
    problems = list(judge(course).problems)
    assert [each for each in problems if problem in each], problems


@pytest.mark.parametrize(
    ("course", "problem"),
    [
        # If nobody can tell whether there is a leader, the unknown quorum is critical.
        (BLIND_QUORUM, "missed"),
        # The digits of a directory id are not the number of a node.
        (
            alerted(
                after(fact(Kind.REMOVED, 3), run=RIGHT), "observer-could-be-voter", COULD_BE, KILLED + 50, STARTED + 10
            ),
            "false",
        ),
        # What would resolve the alert cannot be read.
        (LATE_CERTIFICATE(after(UNREAD, run=SHORT)), "resolved at"),
    ],
)
def test_what_may_be_is_no_problem(course: Course, problem: str) -> None:
    assert [each for each in judge(course).problems if problem in each] == []


@pytest.mark.parametrize(("hidden", "false"), [((), True), ((fact(Kind.NOT_OBSERVED, 1),), False)])
def test_no_leader_may_be_reported_while_fewer_than_a_majority_answer_the_monitor(
    hidden: tuple[Fact, ...], false: bool
) -> None:
    course = replace(after(fact(Kind.SILENT, 2), *hidden), reported=(FIRED, RESOLVED))
    assert any("there was a leader all the time" in each for each in judge(course).problems) is false


def test_delays_are_counted_from_the_beginning_of_the_condition() -> None:
    assert judge(RIGHT).delays == {"no-leader": [15.0]}


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
