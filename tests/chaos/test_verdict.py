"""The oracle of `make chaos`: each kind of wrong report is noticed, and a right run has no problem."""

from dataclasses import replace

import pytest

from tests.chaos.facts import Course, Fact, FactLog, Kind, LeaderAnswer, Notified, Paged, Reported
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


HIDDEN = fact(Kind.NOT_OBSERVED, 2)
STALE = alerted(after(HIDDEN), "stale-voter-endpoint", "voter 2", KILLED + 30, KILLED + 140, people=True)


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
    ],
)
def test_what_is_wrong_is_noticed(course: Course, problem: str) -> None:
    problems = list(judge(course).problems)
    assert [each for each in problems if problem in each], problems
