"""Whatever happens to alerts, silences, sinks and the job: nothing is lost, nothing told twice, all ends are told."""

import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.delivery.dispatcher import Delivery
from connectors.delivery.ledger import Ledger
from connectors.sinks.sink import Outcome, Retry, Style
from rules.alert import Alert, AlertState
from rules.evaluate import RULES
from rules.finding import Severity
from rules.model.identifiers import Millis
from rules.notifications.notification import Notice, NotifyReason
from rules.notifications.route import Route
from rules.notifications.silence import Silence
from tests.unit.connectors.sinks.sink_alerts import NOON_MS, Recording, alert

THINGS = (
    # The first silences the second and explains the third; the others stand alone.
    ("alpha", "no-leader", "one"),
    ("alpha", "broker-fenced", "one"),
    ("alpha", "stale-voter-endpoint", "two"),
    ("alpha", "version-drift", "two"),
    ("beta", "version-drift", "two"),
)
"""Few, so that much happens to each: its cluster, rule and subject."""
CLUSTERS = {cluster for cluster, _, _ in THINGS}
RULE_IDS = {rule for _, rule, _ in THINGS}
PATTERNS = sorted(RULE_IDS | {"one", "two"})
SECOND = 1_000
LONG_MS = 3_600 * SECOND


@dataclass(frozen=True)
class Turn:
    """An alert begins, changes its severity, or ends; `severity` None for the end."""

    thing: tuple[str, str, str]
    severity: Severity | None


@dataclass(frozen=True)
class Wait:
    seconds: int


@dataclass(frozen=True)
class Hush:
    """A silence on whatever has this subject, or this rule."""

    pattern: str
    seconds: int


@dataclass(frozen=True)
class Outage:
    """The sinks are away, or back."""

    away: bool


@dataclass(frozen=True)
class Restart:
    """The job ends, and goes on from what the ledger's file says."""


Step: TypeAlias = Turn | Wait | Hush | Outage | Restart

TURNS = st.builds(Turn, st.sampled_from(THINGS), st.sampled_from([*Severity, None, None]))
WAITS = st.builds(Wait, st.sampled_from([1, 2, 10, 59, 61, 600, 4_000]))
HUSHES = st.builds(Hush, st.sampled_from(PATTERNS), st.sampled_from([5, 100, 5_000]))
OUTAGES = st.builds(Outage, st.booleans())


def scripts(*kinds: "st.SearchStrategy[Step]") -> "st.SearchStrategy[list[Step]]":
    return st.lists(st.one_of(TURNS, *kinds), min_size=20, max_size=60)


@dataclass
class Moody(Recording):
    """Takes nothing while it is away; `loses` takes it, and its answer is lost."""

    loses: bool = False

    def tell(self, notices: Sequence[Notice], *, sent_at_ms: Millis, deadline_s: float) -> Sequence[Outcome]:
        outcomes = super().tell(notices, sent_at_ms=sent_at_ms, deadline_s=deadline_s)
        return [Retry(reason="lost")] * len(outcomes) if self.loses else outcomes


@dataclass
class World:
    """The job, what became of every alert, and the sinks; a script plays in it."""

    folder: Path
    restarts: bool = True
    now_ms: int = NOON_MS
    firing: dict[tuple[str, str, str], Alert] = field(default_factory=dict)
    made: list[Alert] = field(default_factory=list)
    silences: list[Silence] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.people = Moody("people", style=Style.INCIDENTS, repeat_s=900)
        self.record = Moody("record")
        self.pager = Moody("pager", style=Style.INCIDENTS, route=Route(min_severity=Severity.CRITICAL))
        self.archive = Moody("archive", route=Route(min_severity=Severity.CRITICAL, clusters=("al*",)))
        self.sinks = (self.people, self.record, self.pager, self.archive)
        self._start()

    def _start(self) -> None:
        self.ledger = Ledger(self.folder / "ledger")
        self.delivery = Delivery(
            self.ledger, self.sinks, silences=lambda _: self.silences, deadline_s=60, patience_s=60
        )

    def play(self, steps: Iterable[Step]) -> "World":
        for step in steps:
            match step:
                case Turn():
                    self._turn(step)
                case Wait(seconds=seconds):
                    self.now_ms += seconds * SECOND
                    self.deliver()
                case Hush(pattern=pattern, seconds=seconds):
                    where = {"rule" if pattern in RULE_IDS else "subject": pattern}
                    until = Millis(self.now_ms + seconds * SECOND)
                    span = {"starts_at_ms": Millis(self.now_ms), "ends_at_ms": until}
                    self.silences.append(Silence(id="s", author="eva", comment="", **where, **span))  # type: ignore[arg-type]
                case Outage(away=away):
                    for sink in self.sinks:
                        sink.away = away
                case Restart() if self.restarts:
                    self.ledger.close()
                    self._start()
                case Restart():
                    pass
        return self

    def settle(self) -> "World":
        """The sinks are back, the silences are over, and time passes."""
        for sink in self.sinks:
            sink.away = sink.loses = False
        self.now_ms += 2 * LONG_MS
        for _ in range(4):
            self.deliver()
            self.now_ms += 120 * SECOND
        return self

    def deliver(self, *alerts: Alert) -> None:
        self.delivery.deliver(alerts, Millis(self.now_ms))

    def _turn(self, turn: Turn) -> None:
        cluster, rule, subject = turn.thing
        before = self.firing.pop(turn.thing, None)
        self.now_ms += 1
        if turn.severity is None:
            if before is None:
                return
            made = replace(before, state=AlertState.RESOLVED, observed_at_ms=Millis(self.now_ms))
        else:
            if before is not None and before.severity is turn.severity:
                self.firing[turn.thing] = before
                return
            began = NOON_MS if before is None else before.started_at_ms
            made = alert(
                subject,
                rule=rule,
                cluster=cluster,
                cluster_id=cluster,
                severity=turn.severity,
                started_at_ms=self.now_ms if before is None else began,
                observed_at_ms=Millis(self.now_ms),
            )
            self.firing[turn.thing] = made
        self.made.append(made)
        self.deliver(made)

    def lives(self) -> dict[tuple[str, int], list[Alert]]:
        """Everything that was made, by the life it belongs to."""
        found: dict[tuple[str, int], list[Alert]] = {}
        for each in self.made:
            found.setdefault((each.fingerprint, each.started_at_ms), []).append(each)
        return found


def played(steps: Sequence[Step], *, restarts: bool = True) -> World:
    # That it reaches the disk is shown elsewhere, and takes its time.
    with tempfile.TemporaryDirectory() as folder, patch("os.fsync"):
        world = World(Path(folder), restarts=restarts).play(steps).settle()
        world.ledger.close()
        return world


def ours(told: Iterable[Alert]) -> list[Alert]:
    """Without what the job tells of its own sinks."""
    return [each for each in told if each.cluster in CLUSTERS]


def twice(told: Iterable[Alert]) -> list[object]:
    return [key for key, count in Counter(each.key for each in told).items() if count > 1]


def inhibited(world: World, one: Alert) -> bool:
    """A cause of it fires still."""
    causes = RULES[one.rule].inhibited_by
    return any(each.rule in causes and each.cluster == one.cluster for each in world.firing.values())


@given(scripts(WAITS, HUSHES, OUTAGES, st.builds(Restart)))
@settings(max_examples=25)
def test_a_record_holds_every_transition_once_and_in_order(steps: list[Step]) -> None:
    world = played(steps)
    assert ours(world.record.told) == world.made


@given(scripts(WAITS, HUSHES, OUTAGES, st.builds(Restart)))
@settings(max_examples=25)
def test_nobody_is_told_twice_and_every_beginning_that_was_told_has_its_end(steps: list[Step]) -> None:
    world = played(steps)
    for sink in (world.people, world.pager, world.archive):
        assert twice(sink.told) == []
        told = {each.key for each in sink.told}
        for life in world.lives().values():
            if life[-1].state is AlertState.RESOLVED and any(each.key in told for each in life[:-1]):
                assert life[-1].key in told


@given(scripts(WAITS, OUTAGES, st.builds(Restart)))
@settings(max_examples=25)
def test_what_nobody_silences_and_nothing_explains_is_told(steps: list[Step]) -> None:
    world = played([step for step in steps if not (isinstance(step, Turn) and step.thing == THINGS[0])])
    told = {each.key for each in world.people.told}
    assert [each for each in world.made if each.key not in told] == []


@given(scripts(WAITS, HUSHES, OUTAGES, st.builds(Restart)))
@settings(max_examples=25)
def test_what_still_fires_in_the_end_was_told(steps: list[Step]) -> None:
    world = played(steps)
    told = {each.key for each in world.people.told}
    assert [one for one in world.firing.values() if one.key not in told and not inhibited(world, one)] == []
    paged = {each.key for each in world.pager.told}
    worst = [one for one in world.firing.values() if one.severity is Severity.CRITICAL]
    assert [one for one in worst if one.key not in paged and not inhibited(world, one)] == []


@given(scripts(WAITS, OUTAGES, st.builds(Restart)))
@settings(max_examples=25)
def test_a_sink_hears_only_what_is_meant_for_it(steps: list[Step]) -> None:
    world = played(steps)
    told = [each.key for each in ours(world.archive.told)]
    expected = []
    for life in world.lives().values():
        route = world.archive.route
        first = next((at for at, each in enumerate(life) if route.takes(each)), len(life))
        expected += [each.key for each in life[first:]]
    # What came before it got bad enough may be told with it, when all of it waited.
    assert set(expected) <= set(told)
    meant = {(each.fingerprint, each.started_at_ms) for each in world.made if each.key in set(expected)}
    assert {(each.fingerprint, each.started_at_ms) for each in ours(world.archive.told)} == meant


@given(scripts(WAITS, HUSHES, OUTAGES, st.builds(Restart)))
@settings(max_examples=25)
def test_the_notices_of_an_incident_make_sense_in_their_order(steps: list[Step]) -> None:
    world = played(steps)
    heard: dict[str, list[Notice]] = {}
    for notice in world.people.notices:
        assert len({each.fingerprint for each in notice.alerts}) == len(notice.alerts)
        assert {each.fingerprint for each in notice.news} <= {each.fingerprint for each in notice.alerts}
        assert (notice.reason is NotifyReason.RESOLVED) == (notice.state is AlertState.RESOLVED)
        assert bool(notice.news) == (notice.reason is not NotifyReason.REPEATED)
        before = heard.setdefault(notice.incident, [])
        assert notice.known == bool(before)
        if not before:
            assert notice.reason in (NotifyReason.FIRING, NotifyReason.RESOLVED)
        before.append(notice)
    for notices in heard.values():
        root = notices[-1].root
        if not any(each.fingerprint == root.fingerprint for each in world.firing.values()):
            assert notices[-1].state is AlertState.RESOLVED or notices[-1].firing


@given(scripts(WAITS, HUSHES))
@settings(max_examples=15)
def test_the_same_happenings_are_told_the_same_and_a_restart_changes_nothing(steps: list[Step]) -> None:
    with_restarts = [each for step in steps for each in (step, Restart())]
    told = [
        [(notice.incident, notice.reason, notice.alerts, notice.news) for notice in world.people.notices]
        for world in (played(steps), played(steps), played(with_restarts))
    ]
    assert told[0] == told[1] == told[2]


@given(scripts(WAITS, HUSHES), st.integers(0, 60))
@settings(max_examples=15)
def test_lost_answers_repeat_and_lose_nothing(steps: list[Step], at: int) -> None:
    with tempfile.TemporaryDirectory() as folder, patch("os.fsync"):
        world = World(Path(folder)).play(steps[:at])
        world.people.loses = True
        world.play(steps[at:]).settle()
        told = {each.key for each in world.people.told}
        for life in world.lives().values():
            if life[-1].state is AlertState.RESOLVED and any(each.key in told for each in life[:-1]):
                assert life[-1].key in told
        world.ledger.close()


def test_the_strategies_mean_what_they_say() -> None:
    turn = Turn(THINGS[4], Severity.CRITICAL)
    world = played([Outage(away=True), turn, Wait(1), Outage(away=False), replace(turn, severity=None)])
    assert [(notice.reason, notice.known) for notice in world.people.notices] == [("resolved", False)]
