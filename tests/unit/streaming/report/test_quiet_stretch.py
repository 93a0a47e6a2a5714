"""A back-test that leaves quiet rows out gives the alerts of one that applies every row."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from connectors.event import to_json
from connectors.observation import Observation, ObservationKind
from connectors.observation_event import ObservationFailed
from rules.alert import Alert
from rules.evaluate import RULES, thresholds_for
from rules.model.identifiers import Millis
from rules.model.monitoring import ObservationSource, Reason
from streaming.replay.machine import Machine
from streaming.replay.observed_events import ObservedEvent
from streaming.report.back_test import BackTestCluster, back_test
from streaming.report.quiet_rows import QuietRows, has_short_thresholds
from tests.bench.backlog_rows import QUIET_PERIOD_S, QUIET_START_S, backlog, quiet_rows

MINUTE = 60
Fault = Callable[[Observation], Observation | None]
"""Returns a row as it is during the fault; None: it is not recorded."""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Sequence[Observation]:
    return quiet_rows(tmp_path_factory.mktemp("quiet"))


def quiet(recorded: Sequence[Observation], seconds: int) -> list[Observation]:
    return [*backlog(recorded, seconds, start_s=QUIET_START_S, period_s=QUIET_PERIOD_S)]


def numbered(rows: Sequence[Observation]) -> list[Observation]:
    return [replace(row, sequence=number) for number, row in enumerate(rows)]


def polled(change: Callable[[dict[str, Any]], None]) -> Fault:
    """A fault that the polls show."""

    def fault(row: Observation) -> Observation:
        if row.kind is not ObservationKind.QUORUM:
            return row
        plain = json.loads(row.payload)
        change(plain)
        return replace(row, payload=json.dumps(plain, separators=(",", ":")).encode())

    return fault


def stuck(number: int, kind: str = "voters") -> Fault:
    """A replica that no longer fetches."""
    kept: dict[str, Any] = {}

    def change(plain: dict[str, Any]) -> None:
        row = plain[kind][number]
        for name in ("log_end_offset", "last_fetch_ms", "last_caught_up_ms"):
            row[name] = kept.setdefault(name, row[name])

    return polled(change)


def stalled() -> Fault:
    kept: list[int] = []

    def change(plain: dict[str, Any]) -> None:
        kept.append(plain["high_watermark"])
        plain["high_watermark"] = kept[0]

    return polled(change)


def refused(row: Observation) -> Observation:
    if row.kind is not ObservationKind.PROBE:
        return row
    payload = row.payload.replace(b'"accepted"', b'"refused"').replace(b'"this-cluster"', b'"not-asked"')
    return replace(row, payload=payload)


def flapping() -> Fault:
    """Every other probe of each endpoint is refused."""
    count = {"": 0}

    def fault(row: Observation) -> Observation:
        if row.kind is not ObservationKind.PROBE:
            return row
        key = row.payload.partition(b'"resolution"')[0].decode()
        count[key] = count.get(key, 0) + 1
        return refused(row) if count[key] % 2 else row

    return fault


def dropped(*kinds: ObservationKind) -> Fault:
    return lambda row: None if not kinds or row.kind in kinds else row


def failing(row: Observation) -> Observation:
    if row.kind not in (ObservationKind.QUORUM, ObservationKind.RECORDS):
        return row
    source = ObservationSource.LOG if row.kind is ObservationKind.RECORDS else ObservationSource.QUORUM
    event = ObservationFailed(source=source, endpoint="127.0.0.1:1", reason=Reason.NO_LEADER, detail="")
    return Observation(
        cluster=row.cluster,
        kind=ObservationKind.FAILED,
        observed_at_ms=row.observed_at_ms,
        payload=to_json(event),
    )


FAULTS: dict[str, Callable[[], Fault]] = {
    "voter-stuck": lambda: stuck(0),
    "broker-stuck": lambda: stuck(1, "observers"),
    "high-watermark-stalled": stalled,
    "endpoints-refused": lambda: refused,
    "endpoints-flapping": flapping,
    "nothing-recorded": dropped,
    "polls-missing": lambda: dropped(ObservationKind.QUORUM),
    "log-missing": lambda: dropped(ObservationKind.RECORDS),
    "probes-missing": lambda: dropped(ObservationKind.PROBE),
    "no-leader": lambda: failing,
}


SILENT = ("probes-missing", "endpoints-flapping", "log-missing", "high-watermark-stalled", "nothing-recorded")
"""Faults that make no alert, or none in three minutes."""


def with_faults(rows: Sequence[Observation], faults: Sequence[tuple[int, int, Fault]]) -> list[Observation]:
    """Returns the rows with faults: each with its first and last second."""
    start_ms, found = rows[0].observed_at_ms, []
    for row in rows:
        second = (row.observed_at_ms - start_ms) // 1000
        changed: Observation | None = row
        for first, last, fault in faults:
            if changed is not None and first <= second < last:
                changed = fault(changed)
        if changed is not None:
            found.append(changed)
    return numbered(found)


class Reader:
    """Counts the rows that are read again."""

    def __init__(self, rows: Sequence[Observation]) -> None:
        self.rows = rows
        self.again = 0

    def read(self, first: int, end: int) -> Iterator[Observation]:
        for row in self.rows[first:end]:
            self.again += 1
            yield row


def alerts(
    rows: Sequence[Observation], overrides: dict[str, float] | None = None
) -> tuple[list[Alert], list[Alert], int]:
    """Returns the alerts of all rows, those without the quiet rows, and how many rows were read again."""
    settings = BackTestCluster(thresholds=thresholds_for(overrides or {}))
    reader = Reader(rows)
    return (
        [*back_test(rows, lambda _: settings)],
        [*back_test(rows, lambda _: settings, reader.read)],
        reader.again,
    )


@pytest.mark.parametrize("name", FAULTS)
def test_fault_gives_the_same_alerts_at_the_same_times(recorded: Sequence[Observation], name: str) -> None:
    rows = with_faults(quiet(recorded, 16 * MINUTE), [(9 * MINUTE + 7, 12 * MINUTE, FAULTS[name]())])
    every, without_quiet, _ = alerts(rows)

    assert without_quiet == every
    assert every or name in SILENT


@pytest.mark.parametrize("seed", range(4))
def test_random_faults_give_the_same_alerts_at_the_same_times(recorded: Sequence[Observation], seed: int) -> None:
    random = Random(seed)
    faults, second = [], 3 * MINUTE
    while second < 24 * MINUTE:
        length = random.choice((1, 4, 9, 20, 45, 130))
        faults.append((second, second + length, FAULTS[random.choice([*FAULTS])]()))
        second += length + random.choice((2, 60, 150, 400))
    soon = {f"{rule}.hold": 5.0 for rule in RULES}
    every, without_quiet, _ = alerts(with_faults(quiet(recorded, 26 * MINUTE), faults), soon)

    assert every
    assert without_quiet == every


def test_alert_that_time_alone_makes_in_a_quiet_stretch_has_its_time(recorded: Sequence[Observation]) -> None:
    """The holds of conditions that exist all the time expire after minutes of quiet rows."""
    rows = numbered(quiet(recorded, 16 * MINUTE))
    overrides = {"quorum-shape.most": 2.0, "quorum-shape.hold": 10 * MINUTE}
    every, without_quiet, _ = alerts(rows, overrides)

    assert [(one.rule, one.state.value) for one in every] == [("quorum-shape", "firing")]
    assert without_quiet == every


def test_most_rows_of_a_quiet_hour_are_left_out(
    recorded: Sequence[Observation], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = numbered(quiet(recorded, 3_600))
    applied: list[int] = []
    original = Machine.apply

    def counted(machine: Machine, events: Iterable[ObservedEvent], *, sequence: int, observed_at_ms: Millis) -> bool:
        applied.append(sequence)
        return original(machine, events, sequence=sequence, observed_at_ms=observed_at_ms)

    monkeypatch.setattr(Machine, "apply", counted)
    settings, reader = BackTestCluster(thresholds=thresholds_for({})), Reader(rows)

    assert [*back_test(rows, lambda _: settings, reader.read)] == []
    assert len(applied) < len(rows) / 8
    assert reader.again == 0


def test_short_thresholds_leave_nothing_out(recorded: Sequence[Observation]) -> None:
    assert not has_short_thresholds(thresholds_for({}))
    assert not has_short_thresholds(thresholds_for({"no-leader.hold": 0.0, "failure-tolerance.poll_age": 5.0}))
    assert has_short_thresholds(thresholds_for({"failure-tolerance.poll_age": 2.0}))


@pytest.mark.parametrize("name", FAULTS)
def test_first_row_of_a_fault_is_not_quiet(recorded: Sequence[Observation], name: str) -> None:
    rows = with_faults(quiet(recorded, 5 * MINUTE), [(3 * MINUTE, 5 * MINUTE, FAULTS[name]())])
    found = QuietRows()
    results = [found.is_quiet(row) for row in rows]
    start_ms = rows[0].observed_at_ms

    def between(first: int, last: int) -> list[bool]:
        return [
            one
            for row, one in zip(rows, results, strict=True)
            if first <= (row.observed_at_ms - start_ms) / 1000 < last
        ]

    assert all(between(60, 180))
    assert not all(between(180, 300)) or name == "nothing-recorded"
