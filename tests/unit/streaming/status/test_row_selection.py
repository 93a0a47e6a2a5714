"""The state of a journal by the rows that are selected for it: that of all rows, at any time."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path

import pytest

from connectors.observations.observation import Observation, ObservationKind
from connectors.observations.point_in_time import AtTime
from connectors.store.journal_writer import JournalWriter
from rules.evaluate import thresholds_for
from rules.model.identifiers import Millis
from rules.model.quorum import Quorum
from streaming.replay.cluster_settings import ClusterSettings
from streaming.status import recording
from streaming.status.build_status import cluster_status
from streaming.status.cluster_status import status_json
from streaming.status.recording import ReplayedJournal, open_journal, replay_recording
from tests.bench.churning_cluster import ChurningCluster
from tests.quiet_rows import with_urgency
from tests.unit.connectors.logdir.log_dirs import AT, leader_change, noops
from tests.unit.connectors.store import journal_rows

START_MS = 1_795_000_000_000
THRESHOLDS = thresholds_for({})
MINUTE_MS = 60_000


def settings_of(name: str) -> ClusterSettings:
    return ClusterSettings(name=name, bootstrap=(f"{name}1.test:9093",), thresholds=THRESHOLDS)


def churn(name: str, seed: int, minutes: int, resumes: Mapping[int, bool]) -> Iterator[Observation]:
    """Yields the rows of a cluster; `resumes`: after which minutes its gatherer restarts, and reads the log again."""
    cluster = ChurningCluster(name, seed, START_MS)
    for minute in range(minutes):
        if (log_again := resumes.get(minute)) is not None:
            cluster.resume(cluster.now_ms + 90_000, log_again=log_again)
        for _ in range(60):
            yield from cluster.advance()


def quiet(second: int) -> Observation:
    """Returns a row of one NoOp record, the first one with the leader's first record."""
    at_ms = AT + 1_000 * second
    batch = noops(second, 1) if second else leader_change()
    return journal_rows.records(batch, base=second, last=second, at_ms=at_ms, cluster="amber")


def with_paused_log(rows: Iterable[Observation], first_ms: int, last_ms: int) -> Iterator[Observation]:
    """Yields the rows; the records of the log between two times are read together after them."""
    paused: list[Observation] = []
    for row in rows:
        if row.kind is not ObservationKind.RECORDS or row.observed_at_ms < first_ms:
            yield row
        elif row.observed_at_ms <= last_ms:
            paused.append(row)
        else:
            all_of_it = [*paused, row]
            paused.clear()
            payload = b"".join(each.payload for each in all_of_it)
            yield replace(row, base_offset=all_of_it[0].base_offset, payload=payload)


def journal(folder: Path, *clusters: Iterable[Observation]) -> Path:
    rows = sorted((row for rows in clusters for row in rows), key=lambda row: row.observed_at_ms)
    with JournalWriter(folder) as writer:
        writer.append([*with_urgency(rows)])
        writer.publish()
    return folder


def comparable(quorum: Quorum) -> Quorum:
    """Returns the quorum without the lags of the last minute, and with the number of a node's starts for their times.

    Which lags are kept depends on the first poll. A start of more than an hour ago may be noted seconds later, at the
    probe instead of a poll that is left out.
    """
    starts = {
        key: replace(one, returned_at_ms=(Millis(len(one.returned_at_ms)),)) for key, one in quorum.probes.items()
    }
    histories = {key: replace(one, samples=()) for key, one in quorum.histories.items()}
    return replace(quorum, histories=histories, probes=starts)


def differences(one: ReplayedJournal, other: ReplayedJournal) -> Sequence[str]:
    """Returns the parts of quorum and status that differ."""
    quorums = [comparable(each.machine.quorum()) for each in (one, other)]
    statuses = [status_json(cluster_status(each.state())) for each in (one, other)]
    parts = (each.name for each in fields(Quorum) if len({str(getattr(quorum, each.name)) for quorum in quorums}) > 1)
    return [*parts, *(name for name, value in statuses[0].items() if value != statuses[1].get(name))]


def different_states(folder: Path, cuts_ms: Iterable[int] = ()) -> Mapping[tuple[str, int | None], Sequence[str]]:
    """Returns what differs in the states of the clusters at these times and at the end, with all rows and selected."""
    journal, full = open_journal(folder), dict[str, ReplayedJournal]()
    cuts, found = [*cuts_ms], dict[tuple[str, int | None], Sequence[str]]()

    def compare(at_ms: int | None) -> None:
        upto = None if at_ms is None else AtTime(at_ms=Millis(at_ms))
        for name, one in replay_recording(journal, settings_of, upto=upto).items():
            found[name, at_ms] = differences(full[name], one)

    for row in journal.rows():
        while cuts and row.observed_at_ms > cuts[0]:
            compare(cuts.pop(0))
        full.setdefault(row.cluster, ReplayedJournal(settings_of(row.cluster), None, None)).apply(row)
    compare(None)
    return {place: each for place, each in found.items() if each}


@pytest.fixture(autouse=True)
def now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "wall_ms", lambda: START_MS + 2 * 86_400_000)


def test_two_clusters_of_which_one_ended_earlier(tmp_path: Path) -> None:
    """The other one's gatherer restarts twice, and reads its log again from a snapshot."""
    folder = journal(tmp_path, churn("amber", 7, 80, {30: False, 45: True}), churn("birch", 8, 30, {}))

    assert different_states(folder, [START_MS + minute * MINUTE_MS for minute in (20, 29)]) == {}
    rows = [*open_journal(folder).rows_of_state(None)]
    assert len(rows) < len([*open_journal(folder).rows()]) / 2


def test_log_that_was_paused(tmp_path: Path) -> None:
    paused = START_MS + 20 * MINUTE_MS, START_MS + 32 * MINUTE_MS
    folder = journal(tmp_path, with_paused_log(churn("amber", 3, 50, {}), *paused))

    assert different_states(folder, [START_MS + minute * MINUTE_MS for minute in (31,)]) == {}


@pytest.mark.parametrize("missing", [None, 700])
def test_quiet_log_of_which_a_row_may_be_missing(tmp_path: Path, missing: int | None) -> None:
    rows = [quiet(second) for second in range(2_400) if second != missing]
    folder = journal(tmp_path, rows)

    assert different_states(folder) == {}
    state = replay_recording(open_journal(folder), settings_of)["amber"]
    violated = [one.contract for one in state.machine.quorum().contract_violations]
    assert violated == ([] if missing is None else ["no-offset-is-passed-over"])
    assert missing or len([*open_journal(folder).rows_of_state(None)]) < 800


@pytest.mark.long
def test_day(tmp_path: Path) -> None:
    resumes = {200: False, 500: True, 1_100: False}
    folder = journal(tmp_path, churn("amber", 5, 1_400, resumes))

    assert different_states(folder, [START_MS + minute * MINUTE_MS for minute in range(40, 1_400, 73)]) == {}
