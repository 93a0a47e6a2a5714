"""The state of a journal by a snapshot and the rows since: that of all rows, at any time."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from connectors.observations.observation import Observation
from connectors.observations.point_in_time import AtTime
from connectors.store.journal_reader import JournalReader
from connectors.store.journal_writer import JournalWriter
from rules.alert import Alert
from rules.evaluate import evaluate, thresholds_for
from rules.facts.quorum import Facts
from rules.model.identifiers import Millis
from rules.model.quorum import Quorum
from streaming.pipeline.cluster_processor import SNAPSHOT_MS, ClusterProcessor
from streaming.pipeline.deliver import journal_snapshot
from streaming.pipeline.output_rows import OutputKind
from streaming.pipeline.schema import pack
from streaming.query import recording
from streaming.query.past_replay import PastReplay
from streaming.query.recording import ReplayedJournal, open_journal, replay_recording, replayed, replayed_recording
from streaming.replay import stored_topics
from streaming.replay.cluster_settings import ClusterSettings
from streaming.report.back_test import back_test
from streaming.status.build_status import cluster_status, job_cluster_status
from streaming.status.cluster_status import status_json
from streaming.status.event_history import timeline_entries
from tests.bench.churning_cluster import ChurningCluster
from tests.quiet_rows import with_urgency
from tests.unit.streaming.pipeline.quiet_cluster import OneState

START_MS = 1_795_000_000_000
THRESHOLDS = thresholds_for({})
NO_RULES = {rule: replace(one, enabled=False) for rule, one in THRESHOLDS.items()}
MINUTE_MS = 60_000
GROUP = 1
DAY_MS = 86_400_000


def settings_of(name: str) -> ClusterSettings:
    return ClusterSettings(name=name, bootstrap=(f"{name}1.test:9093",), thresholds=THRESHOLDS)


@pytest.fixture(autouse=True)
def now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "wall_ms", lambda: START_MS + 2 * DAY_MS)


def churn(name: str, seed: int, minutes: int, resumes: Mapping[int, bool]) -> Iterator[Observation]:
    """Yields the rows of a cluster; `resumes`: after which minutes its gatherer restarts, and reads the log again."""
    cluster = ChurningCluster(name, seed, START_MS)
    for minute in range(minutes):
        if (log_again := resumes.get(minute)) is not None:
            cluster.resume(cluster.now_ms + 90_000, log_again=log_again)
        for _ in range(60):
            yield from cluster.advance()


def journal(folder: Path, *clusters: Iterable[Observation], rows_a_batch: int = 97, pages: Path | None = None) -> Path:
    """Writes a journal, and the snapshots of a job that reads it."""
    rows = sorted((row for rows in clusters for row in rows), key=lambda row: row.observed_at_ms)
    # What rules find changes no state.
    settings = {row.cluster: replace(settings_of(row.cluster), thresholds=NO_RULES) for row in rows}
    processor = ClusterProcessor(settings, snapshots=True, spark_folder=pages)
    state: Any = OneState()
    reader = JournalReader(folder)
    ClusterProcessor._cache.clear()
    with JournalWriter(folder) as writer:
        writer.append([*with_urgency(rows)])
        end = writer.publish()
        for begin in range(0, end, rows_a_batch):
            packed = pack([*reader.read(begin, min(end, begin + rows_a_batch))]).to_pandas()
            frames: list[pd.DataFrame] = [*processor((GROUP,), iter([packed]), state)]
            found = [row for frame in frames for row in frame.itertuples() if row.kind == OutputKind.SNAPSHOT]
            reader.keep_snapshots([journal_snapshot(row.cluster, row.name, row.body) for row in found])
    return folder


def after(*minutes: float) -> Iterable[int]:
    return [round(START_MS + minute * MINUTE_MS) for minute in minutes]


def compared(one: ReplayedJournal) -> tuple[Quorum, object]:
    return one.machine.quorum(), status_json(cluster_status(one.state()))


def require_same_states(folder: Path, cuts_ms: Iterable[int], *names: str) -> None:
    """Compares the states of clusters at these times, and with the newest row, with those by all rows."""
    full = {name: ReplayedJournal(settings_of(name)) for name in names}
    cuts = [*cuts_ms]

    def compare(at_ms: int | None) -> None:
        upto = None if at_ms is None else AtTime(at_ms=Millis(at_ms))
        wanted = {name: one for name, one in full.items() if one.newest_ms}
        found = replay_recording(
            open_journal(folder), lambda name: settings_of(name) if name in wanted else None, upto=upto
        )
        assert found.keys() == wanted.keys()
        for name, one in found.items():
            assert compared(one) == compared(wanted[name]), (name, at_ms)
            assert one.newest_ms == wanted[name].newest_ms

    for row in open_journal(folder).rows():
        while cuts and row.observed_at_ms > cuts[0]:
            compare(cuts.pop(0))
        if row.cluster in full:
            full[row.cluster].apply(row)
    assert not cuts
    compare(None)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The journal of two clusters, of which one ends earlier; the other one's gatherer restarts twice.

    With the second restart it reads its log again from a snapshot.
    """
    clusters = churn("amber", 7, 40, {15: False, 22: True}), churn("birch", 8, 15, {})
    return journal(tmp_path_factory.mktemp("journal"), *clusters)


def test_state_at_any_time_is_that_of_all_rows(folder: Path) -> None:
    require_same_states(folder, after(0.5, 10.2), "amber", "birch")
    require_same_states(folder, after(9.99, 21.7, 33), "amber")


def test_only_rows_since_a_snapshot_and_up_to_the_time_are_read(folder: Path) -> None:
    journal = open_journal(folder)
    at_ms = Millis(START_MS + 12 * MINUTE_MS)
    begun = journal.begun(settings_of, at_ms, AtTime(at_ms=at_ms), None)

    times = []
    for row in journal.rows_of(begun, at_ms, at_ms):
        begun[row.cluster].apply(row)
        times.append(row.observed_at_ms)

    assert at_ms - SNAPSHOT_MS <= min(times)
    assert max(times) <= at_ms + 2 * MINUTE_MS
    assert all(one.newest_ms <= at_ms for one in begun.values())


def test_cluster_that_ended_with_its_newest_snapshot_has_its_state(folder: Path, tmp_path: Path) -> None:
    (newest, *_) = JournalReader(folder).snapshots("birch")
    rows = [*JournalReader(folder).read(0, newest.sequence + 1)]
    others = JournalReader(folder).read(newest.sequence + 1, newest.sequence + 500)
    with JournalWriter(tmp_path) as writer:
        writer.append([*rows, *(row for row in others if row.cluster != "birch")])
    JournalReader(tmp_path).keep_snapshots([newest])

    require_same_states(tmp_path, (), "amber", "birch")


def amber(steps: Iterable[tuple[ReplayedJournal, Sequence[Alert]]]) -> ReplayedJournal:
    return next(one for one, _ in steps if one.machine.cluster == "amber")


def test_alerts_and_timeline_of_a_part_are_those_of_all_rows(folder: Path) -> None:
    from_ms = Millis(START_MS + 24 * MINUTE_MS)
    journal = open_journal(folder)
    whole = [*replayed(journal.rows(), settings_of, evaluates_from_ms=from_ms)]
    part = [*replayed_recording(journal, settings_of, from_ms=from_ms, evaluates_from_ms=from_ms)]

    assert len(part) < 0.7 * len(whole)
    assert [*back_test(part)] == [*back_test(whole)] != []
    entries = [
        timeline_entries(one.history, one.machine.quorum(), one.history.alerts, from_ms=from_ms, to_ms=None)
        for one in (amber(steps) for steps in (part, whole))
    ]
    assert entries[0] == entries[1] != ()


@pytest.mark.parametrize("change", ["version", "cluster id", "damage"])
def test_snapshot_that_cannot_be_used_is_passed_over(folder: Path, tmp_path: Path, change: str) -> None:
    with JournalWriter(tmp_path) as writer:
        writer.append([*JournalReader(folder).read(0, JournalReader(folder).published_end())])
    reader = JournalReader(tmp_path)
    newest, older, *_ = JournalReader(folder).snapshots("amber")
    unusable = replace(newest, state=b"kww\x00" + newest.state[4:]) if change == "version" else newest
    reader.keep_snapshots([unusable, older])
    settings = replace(settings_of("amber"), cluster_id="another" if change == "cluster id" else None)
    if change == "damage":
        with reader._unsynced() as database:
            database.execute("UPDATE snapshots SET crc = crc + 1 WHERE sequence = ?", (newest.sequence,))

    journal, end_ms = open_journal(tmp_path), Millis(START_MS + DAY_MS)
    begun = journal.begun(lambda name: settings if name == "amber" else None, end_ms, None, None)["amber"]

    expected = (-1, 0) if change == "cluster id" else (older.sequence, older.observed_at_ms)
    assert (begun.machine.sequence, begun.newest_ms) == expected


def test_journal_of_an_older_version_has_no_snapshots_and_gets_them(folder: Path, tmp_path: Path) -> None:
    reader, (newest, *_) = JournalReader(tmp_path), JournalReader(folder).snapshots("amber")
    with JournalWriter(tmp_path) as writer:
        writer.append([*JournalReader(folder).read(0, newest.sequence + 1)])
    with reader._unsynced() as database:
        database.execute("DROP TABLE snapshots")
    assert [*reader.snapshots("amber")] == []

    with JournalWriter(tmp_path):
        pass
    reader.keep_snapshots([newest])
    assert [*reader.snapshots("amber")] == [newest]


def test_retention_deletes_snapshots_with_their_rows_and_the_state_stays_whole(folder: Path, tmp_path: Path) -> None:
    source = JournalReader(folder)
    snapshots = [*source.snapshots("amber")]
    with JournalWriter(tmp_path) as writer:
        writer.append([*source.read(0, source.published_end())])
    reader = JournalReader(tmp_path)
    reader.keep_snapshots(snapshots)
    reader.commit(reader.published_end())
    with JournalWriter(tmp_path, keep_s=15 * 60):
        pass

    first = reader.first_sequence()
    kept = [one.sequence for one in reader.snapshots("amber")]
    assert kept == [one.sequence for one in snapshots if one.sequence >= first - 1]
    assert 0 < len(kept) < len(snapshots)
    with reader._reading() as database:
        assert database.execute("SELECT count(*) FROM snapshots").fetchone() == (len(kept),)
    (found,) = replay_recording(open_journal(tmp_path), settings_of).values()
    (whole,) = replay_recording(
        open_journal(folder), lambda name: settings_of(name) if name == "amber" else None
    ).values()
    assert compared(found) == compared(whole)
    assert found.missing == ()


def test_large_state_is_stored_more_rarely(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its pages, which are outside, are in the snapshots."""
    for name, value in {"PAGE_PARTITIONS": 4, "SMALL_PAGE": 64}.items():
        monkeypatch.setattr(stored_topics, name, value)
    monkeypatch.setattr("streaming.pipeline.cluster_processor.SNAPSHOT_MS", 1_000)
    folder = journal(tmp_path, churn("amber", 7, 2, {}), rows_a_batch=20, pages=tmp_path / "pages")

    snapshots = [*JournalReader(folder).snapshots("amber")]
    largest = max(len(one.state) for one in snapshots)
    assert largest > 2_000
    assert 3 < len(snapshots) <= 2 * MINUTE_MS / min(len(one.state) for one in snapshots) + 2
    require_same_states(folder, after(1, 1.5), "amber")


def test_past_state_of_the_page_knows_the_events_of_all_snapshots(folder: Path) -> None:
    at_ms = Millis(START_MS + 30 * MINUTE_MS)
    rows = (row for row in open_journal(folder).rows() if row.observed_at_ms <= at_ms)
    *_, (wanted, _) = replayed(
        rows, lambda name: settings_of(name) if name == "amber" else None, evaluates_from_ms=None
    )
    known = wanted.history.added_to(wanted.machine.quorum()).history

    replay = PastReplay(folder, settings_of("amber"))
    later, state = replay.state_at(Millis(at_ms + 9 * MINUTE_MS)), replay.state_at(at_ms)

    assert (state.shown.status, state.shown.received_at_ms) == (
        job_cluster_status(
            Facts(wanted.machine.quorum()),
            THRESHOLDS,
            evaluate(Facts(wanted.machine.quorum()), THRESHOLDS),
            taken_at_ms=at_ms,
            missing=wanted.missing,
        ),
        wanted.newest_ms,
    )
    for events in (later.events, state.events):
        assert {*known.elections} <= {*events.elections}
        assert {*known.starts} <= {*events.starts}
    assert len(known.elections) > 2


@pytest.mark.long
def test_day(tmp_path: Path) -> None:
    folder = journal(tmp_path, churn("amber", 5, 1_400, {200: False, 500: True, 1_100: False}))

    require_same_states(folder, after(*range(40, 1_400, 73)), "amber")
