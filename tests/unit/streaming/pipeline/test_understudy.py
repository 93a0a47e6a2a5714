"""The understudy and Spark evaluate the same rows: whoever counts, and whenever that changes, the same is notified."""

import random
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeAlias
from unittest.mock import patch

import pytest

from connectors.delivery.ledger import Ledger
from connectors.errors import JournalError
from connectors.observations.observation import Event, Observation, ObservationKind, to_json
from connectors.store.collection import quarantine_of
from connectors.store.journal_reader import JournalReader
from connectors.store.journal_writer import JournalWriter
from connectors.store.tables import job_database
from rules.model.identifiers import Millis
from rules.model.monitoring import FailedObservation, Reason
from streaming.pipeline import cluster_processor, journal_rows, notifying
from streaming.pipeline.cluster_processor import ClusterProcessor
from streaming.pipeline.deliver import Deliver
from streaming.pipeline.initial_state import initial_state
from streaming.pipeline.journal_rows import JournalRows
from streaming.pipeline.notifying import Notifying
from streaming.pipeline.output_rows import EvaluationTimes, by_cluster
from streaming.pipeline.understudy import Understudy
from streaming.status.status_store import Engine, StatusStore
from tests.eventually import eventually
from tests.scripts.log_script import failed
from tests.unit.connectors.sinks.sink_alerts import RecordingSink
from tests.unit.streaming.pipeline.one_cluster import BOOTSTRAP, NOW, SETTINGS, healthy, leaderless

Sent: TypeAlias = tuple[str, str, str, str, int]
"""Rule, subject, state, severity, and milliseconds since the first row."""
SNAPSHOTS_MS = 30_000
"""How often a state is stored here: often, so that each run begins with one."""


def silent() -> list[Event]:
    return [failed(Reason.TIMED_OUT, place) for place in BOOTSTRAP]


def observation(event: Event, second: float) -> Observation:
    kind = ObservationKind.FAILED if isinstance(event, FailedObservation) else ObservationKind.QUORUM
    return Observation(cluster="prod", kind=kind, observed_at_ms=NOW + round(1_000 * second), payload=to_json(event))


def rows(events: Iterable[Event], seconds: Iterable[float]) -> list[Observation]:
    return [observation(event, second) for second in seconds for event in events]


@dataclass
class Engines:
    """A job with a journal, a ledger and a sink; its two engines evaluate when the test says so."""

    folder: Path
    journal: JournalWriter
    sink: RecordingSink = field(default_factory=RecordingSink)
    now_ms: int = NOW
    understudy: Understudy | None = None
    unwritten: deque[Observation] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self.reader, database = JournalReader(self.folder / "journal"), job_database(self.folder)
        self.ledger, self.store = Ledger(database), StatusStore(["prod"])
        self.notifying = Notifying(self.ledger, [self.sink], store=self.store, patience_s=60)
        self.deliver = Deliver(
            self.notifying, quarantine_of(database), store=self.store, gatherer=self, journal=self.reader
        )
        self.begin_spark()
        self.initial = self._initial()

    def _initial(self) -> dict[str, bytes]:
        known = initial_state(self.ledger.firing(), self.ledger.history(), now_ms=Millis(self.now_ms))
        return dict(known.encoded({"prod": SETTINGS}))

    def begin_spark(self) -> None:
        """Spark begins with a new state."""
        self._spark = ClusterProcessor({"prod": SETTINGS}, initial=self._initial(), snapshots=True)
        self._states: dict[str, bytes] = {}
        self._position = 0

    def request_polls(self, requests: Mapping[str, EvaluationTimes], by: Engine) -> None:
        """As `Monitoring.request_polls`."""
        if by is Engine.SPARK and self.understudy is not None:
            self.understudy.note_spark(requests)

    def limit_log(self, cluster: str, waiting_bytes: int) -> None:
        """Limits nothing: the test writes the rows."""

    def gather(self, found: list[Observation]) -> None:
        self.journal.append(found)
        self.journal.publish()
        self.now_ms = found[-1].observed_at_ms

    def batch(self, most: int = 1_000) -> None:
        """Spark evaluates so many of the rows that it lacks."""
        end = min(self._position + most, self.reader.published_end())
        output = self._spark.apply(by_cluster(self.reader.read(self._position, end)), self._states)
        self._position = end
        frame: Any = SimpleNamespace(collect=lambda: output)
        self.deliver(frame, 0)

    def new_understudy(self) -> Understudy:
        self.understudy = Understudy(
            JournalRows(self.reader, {"prod": SETTINGS}, self.unwritten),
            ["prod"],
            ClusterProcessor({"prod": SETTINGS}, initial=self.initial, snapshots=True),
            deliver=self.deliver,
            notifying=self.notifying,
        )
        return self.understudy

    def sent(self) -> list[Sent]:
        """Returns each notified change of a state or severity, with the time at which it was found.

        An alert that says something else than it did is also sent again, when its text is looked at.
        """
        newest: dict[tuple[str, str], tuple[str, str]] = {}
        found: list[Sent] = []
        for one in self.sink.transitions:
            now = one.state.value, one.severity.value
            if newest.get((one.rule, one.subject)) != now:
                found.append((one.rule, one.subject, *now, one.observed_at_ms - NOW))
            newest[one.rule, one.subject] = now
        return found

    def states(self, rule: str = "no-leader") -> list[str]:
        return [state for name, _, state, *_ in self.sent() if name == rule]


@pytest.fixture
def engines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engines]:
    monkeypatch.setattr(cluster_processor, "SNAPSHOT_MS", SNAPSHOTS_MS)
    with JournalWriter(tmp_path / "journal") as journal:
        made = Engines(tmp_path, journal)
        monkeypatch.setattr(notifying, "wall_ms", lambda: Millis(made.now_ms))
        yield made
    ClusterProcessor.forget()


def outages(seed: int) -> list[list[Observation]]:
    """Returns the rows of each of 300 seconds, in which the quorum is healthy, leaderless or silent for a while."""
    chance = random.Random(seed)
    found: list[list[Observation]] = []
    while len(found) < 300:
        events = chance.choice([healthy, healthy, leaderless, silent])()
        found += [rows(events, [second]) for second in range(len(found), len(found) + chance.randint(2, 60))]
    return found[:300]


def notified_by_spark(engines: Engines, seed: int) -> list[Sent]:
    for second in outages(seed):
        engines.gather(second)
        engines.batch()
    return engines.sent()


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2))])
def test_the_same_is_notified_at_the_same_times_whenever_spark_is_silent(
    seed: int, engines: Engines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(1_000 + seed)
    understudy: Understudy | None = None
    silent_s = 0
    with JournalWriter(tmp_path / "other" / "journal") as journal:
        other = Engines(tmp_path / "other", journal)
        monkeypatch.setattr(notifying, "wall_ms", lambda: Millis(other.now_ms))
        expected = notified_by_spark(other, seed)
        monkeypatch.setattr(notifying, "wall_ms", lambda: Millis(engines.now_ms))
        ClusterProcessor.forget()
        for second in outages(seed):
            engines.gather(second)
            if silent_s == 0 and chance.random() < 0.05:
                silent_s = chance.randint(5, 60)
                understudy = engines.new_understudy()
                understudy.begin()
            silent_s = max(0, silent_s - 1)
            if silent_s == 0:
                # It catches up batch by batch.
                engines.batch(most=20)
            if understudy is not None:
                ClusterProcessor.forget()
                for _ in range(3):
                    understudy.evaluate(0)
                ClusterProcessor.forget()
        engines.batch()
        engines.notifying.send()

    assert engines.sent() == expected
    assert expected


def test_it_begins_with_a_snapshot_and_counts_until_spark_has_caught_up(engines: Engines) -> None:
    for second in range(100):
        engines.gather(rows(healthy(), [second]))
        engines.batch()
    understudy = engines.new_understudy()
    understudy.begin()
    assert understudy._rows.begin(), "a state was stored"
    engines.gather(rows(leaderless(), range(100, 112)))
    understudy.evaluate(0)
    understudy.evaluate(0)
    assert (engines.states(), engines.notifying.engine_of("prod")) == (["firing"], Engine.UNDERSTUDY)

    engines.batch(most=2)
    understudy.evaluate(0)
    assert engines.notifying.engine_of("prod") is Engine.UNDERSTUDY, "Spark has not seen the outage whole"
    engines.batch()
    understudy.evaluate(0)
    assert engines.notifying.engine_of("prod") is Engine.SPARK
    engines.gather(rows(healthy(), range(112, 130)))
    engines.batch()
    assert engines.states() == ["firing", "resolved"]


def test_spark_that_is_ahead_counts_at_once(engines: Engines) -> None:
    """Without a state that it can read, the understudy begins with the oldest rows, and may take longer than Spark."""
    for second in range(0, 3_000, 10):
        engines.gather(rows(healthy(), [second]))
    understudy = engines.new_understudy()
    understudy.begin()
    engines.batch()
    with patch.object(journal_rows, "_ROWS", 50):
        understudy.evaluate(0)
    assert (engines.notifying.engine_of("prod"), understudy._rows.at_end) == (Engine.SPARK, False)


def evaluate_all(understudy: Understudy) -> None:
    understudy.evaluate(0)
    while not understudy._rows.at_end:
        understudy.evaluate(0)


@pytest.mark.parametrize(
    ("behind_s", "engine"),
    [
        ([8, 8, 8], Engine.SPARK),
        ([8, 30, 50], Engine.SPARK),
        ([60, 40, 20], Engine.UNDERSTUDY),
        ([90, 90, 90], Engine.UNDERSTUDY),
    ],
)
def test_spark_counts_where_it_keeps_up_in_long_batches(
    behind_s: list[int], engine: Engine, engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The batches of many clusters take seconds. Spark that still comes closer, or is minutes behind, does not count
    yet."""
    monkeypatch.setattr(Understudy, "runs", True)
    each_s = len(healthy())
    engines.gather(rows(healthy(), range(100)))
    understudy = engines.new_understudy()
    understudy.begin()
    for number, seconds in enumerate(behind_s, 1):
        engines.gather(rows(healthy(), range(100 * number, 100 * number + 100)))
        evaluate_all(understudy)
        engines.batch(most=each_s * (100 * number + 100 - seconds) - engines._position)
    assert understudy.counts_for(["prod"]) is (engine is Engine.UNDERSTUDY), "if Spark hangs now, a new one begins"
    engines.gather(rows(healthy(), range(400, 410)))
    evaluate_all(understudy)
    engines.batch(most=0 if engine is Engine.UNDERSTUDY else 1_000)
    understudy.evaluate(0)

    assert engines.notifying.engine_of("prod") is engine


def test_spark_that_begins_with_a_new_state_does_not_count_before_it_knows_what_is_pending(engines: Engines) -> None:
    for second in range(60):
        engines.gather(rows(healthy(), [second]))
        engines.batch()
    engines.gather(rows(leaderless(), range(60, 64)))
    understudy = engines.new_understudy()
    understudy.begin()
    for _ in range(3):
        understudy.evaluate(0)
    engines.begin_spark()
    engines._position = engines.reader.published_end() - 3
    engines.batch()
    understudy.evaluate(0)
    assert engines.notifying.engine_of("prod") is Engine.UNDERSTUDY, "of what is pending Spark has seen a second"

    engines.gather(rows(leaderless(), range(64, 80)))
    engines.batch()
    understudy.evaluate(0)
    assert [at_ms for rule, *_, at_ms in engines.sent() if rule == "no-leader"] == [65_000]


def test_rows_that_a_full_disk_does_not_take_are_evaluated_once(engines: Engines) -> None:
    lost, back = rows(leaderless(), range(8)), rows(healthy(), range(8, 30))
    understudy = engines.new_understudy()
    understudy.begin()
    engines.unwritten.extend(replace(row, sequence=at) for at, row in enumerate(lost))
    engines.now_ms = lost[-1].observed_at_ms
    understudy.evaluate(0)
    assert engines.states() == ["firing"]

    # There is room: the rows are stored, and read again.
    engines.gather([*lost, *back])
    understudy.evaluate(0)
    assert engines.states() == ["firing", "resolved"]


def counting(engines: Engines) -> Engine | None:
    return None if engines.store.engine is None else engines.store.engine.name


def test_its_thread_ends_when_spark_has_evaluated_each_cluster(engines: Engines) -> None:
    understudy = engines.new_understudy()
    understudy.start()
    engines.gather(rows(leaderless(), range(12)))
    eventually(lambda: engines.states() == ["firing"], within_s=60)
    assert counting(engines) is Engine.UNDERSTUDY
    engines.batch()
    eventually(lambda: not understudy.runs, within_s=60)
    assert counting(engines) is Engine.SPARK
    understudy.stop()


def test_a_job_begins_with_the_alerts_of_the_one_before(engines: Engines) -> None:
    engines.gather(rows(leaderless(), range(12)))
    engines.batch()
    engines.initial = engines._initial()
    understudy = engines.new_understudy()
    understudy.begin()
    engines.gather(rows(healthy(), range(12, 40)))
    understudy.evaluate(0)
    understudy.evaluate(0)
    assert engines.states() == ["firing", "resolved"]


def test_it_is_not_said_to_count_while_it_evaluates_nothing(engines: Engines) -> None:
    """Without rows, and where they cannot be read, /healthz must not take the job for a working one."""
    understudy = engines.new_understudy()
    understudy.begin()
    understudy.evaluate(0)
    assert (counting(engines), engines.deliver.last_evaluated_at) == (None, None)

    unreadable = engines.new_understudy()
    with patch.object(JournalRows, "begin", side_effect=JournalError("it is damaged")):
        unreadable.start()
        engines.gather(rows(healthy(), [1]))
        engines.batch()
        eventually(lambda: not unreadable.runs, within_s=60)
    assert (counting(engines), engines.notifying.engine_of("prod")) == (Engine.SPARK, Engine.SPARK)
    unreadable.stop()
