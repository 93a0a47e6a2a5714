"""The recorded state of a journal, and when a query of a cluster is complete."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from connectors.errors import ObservationError, UsageError
from connectors.kafka.cluster_connection import ClusterConnection
from connectors.observations.observation import Observation, ObservationKind
from connectors.observations.partition_run import DecodedItem
from connectors.observations.point_in_time import AtOffset, AtTime, PointInTime
from connectors.process.wall_clock import wall_ms
from rules.evaluate import thresholds_for
from rules.facts.freshness import fresh_poll
from rules.model.identifiers import Millis, NodeId, Offset
from rules.model.monitoring import Reason
from streaming.query import live as live_status
from streaming.query.live import query_clusters
from streaming.query.live_cluster import LiveCluster
from streaming.query.query_target import QueryTarget
from streaming.query.recording import (
    ReplayedJournal,
    SettingsOf,
    open_journal,
    recorded_state,
    replay_recording,
)
from streaming.replay.cluster_settings import ClusterSettings
from streaming.replay.machine import Machine
from streaming.status.build_status import cluster_status
from streaming.status.check_output import check_text
from streaming.status.cluster_status import ClusterState
from streaming.status.status_tables import status_table
from tests.present import present
from tests.scripts.log_script import endpoint, failed, probed
from tests.unit.streaming.query.status_journal import AT, PLACE, journal, observed, polled, records


def settings_of(name: str) -> ClusterSettings:
    return ClusterSettings(name=name, bootstrap=(PLACE,))


def state_of(one: ReplayedJournal) -> ClusterState:
    return recorded_state(one, thresholds_for({}))


def replay_journal(folder: Path, settings: SettingsOf, **more: Any) -> Mapping[str, ReplayedJournal]:
    return replay_recording(open_journal(folder), settings, **more)


@pytest.mark.parametrize("given", ["", "journal"], ids=["a checkpoint folder", "a journal folder"])
def test_every_cluster_that_has_settings_is_replayed_to_its_newest_row(tmp_path: Path, given: str) -> None:
    rows = [observed(polled(7), AT), observed(polled(3), AT, "b"), observed(polled(4), AT, "c")]
    journal(tmp_path / "journal", [*rows, observed(polled(8), AT + 1_000)])

    found = replay_journal(tmp_path / given, lambda name: None if name == "c" else settings_of(name))

    assert {name: one.machine.quorum().leader_epoch for name, one in found.items()} == {"a": 8, "b": 3}
    assert found["a"].newest_ms == AT + 1_000


@pytest.mark.parametrize("epochs", [(7, 8), (7, 8, 9)])
def test_a_row_that_cannot_be_applied_is_skipped_as_a_whole_and_reported(
    tmp_path: Path, epochs: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The replay fails in the middle of the second row, as a bug of it would."""
    applies = Machine.apply

    def failing(own: Machine, items: Iterable[DecodedItem], *, sequence: int, observed_at_ms: Millis) -> bool:
        applied = applies(own, items, sequence=sequence, observed_at_ms=observed_at_ms)
        if sequence == 1:
            raise TypeError("quotes a record")
        return applied

    monkeypatch.setattr(Machine, "apply", failing)
    rows = [observed(polled(epoch), 1_000 * epoch) for epoch in epochs]
    replayed_journal = replay_journal(journal(tmp_path, rows), settings_of)["a"]

    quorum = replayed_journal.machine.quorum()
    assert quorum.leader_epoch == (7 if len(epochs) == 2 else 9), "nothing of the second row"
    assert quorum.now_ms == 1_000 * epochs[-1]
    (violation,) = quorum.contract_violations
    assert (violation.contract, violation.sequence) == ("every-row-can-be-applied", 1)
    assert "quotes a record" not in violation.example


def test_journal_without_the_beginning_of_the_log_is_missing_it(tmp_path: Path) -> None:
    """After a week the journal of each job has lost it: that is no answer that is missing."""
    state = state_of(replay_journal(journal(tmp_path / "journal", [observed(polled(), AT)]), settings_of)["a"])
    queried = replace(state, missing=("DescribeQuorum was not answered",))

    assert state.missing == ("the beginning of the log: the journal no longer reaches back to it",)
    assert (state.source, state.age_ms) == ("journal", state.taken_at_ms - AT)
    for one, why in ((state, "no node was queried"), (queried, "no leader answered now")):
        console = Console(width=200, file=StringIO(), record=True)
        console.print(check_text(one), status_table(cluster_status(one)))
        assert console.export_text().count(f" old: {why}") == 2


CLUSTER = ClusterConnection(name="a", bootstrap=(("c1", 9093),))
SETTINGS = ClusterSettings(name="a", bootstrap=("c1:9093",))


def live_cluster() -> LiveCluster:
    return LiveCluster(QueryTarget(cluster=CLUSTER, settings=lambda: SETTINGS))


def query_began_ms(live: LiveCluster) -> Millis:
    return present(live.state().queried_since_ms)


def test_a_query_is_refused_if_another_cluster_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    def identify(*_: object) -> str:
        raise ObservationError(Reason.WRONG_CLUSTER, "c1:9093 belongs to cluster B, not to A")

    monkeypatch.setattr(live_status, "identify", identify)

    with pytest.raises(UsageError, match="cluster a: c1:9093 belongs to cluster B, not to A; correct the address or"):
        query_clusters([QueryTarget(cluster=CLUSTER, settings=lambda: SETTINGS)], timeout_s=0)


def test_query_waits_for_an_election_and_ends_when_no_leader_follows() -> None:
    live = live_cluster()
    at = query_began_ms(live)

    live.apply(observed(failed(Reason.NO_LEADER, PLACE), at + 100))
    live.apply(observed(failed(Reason.NO_LEADER, PLACE), at + 3_000))
    assert not live.complete(), "two seconds without a leader are an election"

    live.apply(observed(failed(Reason.NO_LEADER, PLACE), at + 5_200))
    assert live.complete()
    assert [one.rule for one in live.state().evaluation.findings] == ["no-leader"]


def test_query_is_incomplete_until_the_log_and_a_poll_are_answered() -> None:
    live = live_cluster()
    at = query_began_ms(live)
    assert live.missing() == ("the metadata log was not answered", "DescribeQuorum was not answered")

    for passed in range(0, 9_000, 1_000):
        live.apply(observed(failed(Reason.TIMED_OUT, PLACE), at + passed))
    assert not live.complete()
    assert live.state().source == "none"

    live.apply(observed(polled(), at + 9_000))
    assert live.missing() == ("the metadata log was not answered",)
    assert (live.complete(), live.state().answered) == (False, True)


def replayed(tmp_path: Path, upto: PointInTime | None) -> ReplayedJournal:
    """Of a log read in two goes, with a poll of an epoch of its own before, between and after."""
    rows = [
        observed(polled(1), AT),
        records(0, 4, AT + 1_000),
        observed(polled(2), AT + 2_000),
        records(5, 9, AT + 3_000),
        observed(polled(3), AT + 4_000),
    ]
    return replay_journal(journal(tmp_path / "journal", rows), settings_of, upto=upto)["a"]


@pytest.mark.parametrize(
    ("upto", "last_offset", "epoch"),
    [
        (None, 9, 3),
        (AtOffset(offset=Offset(4)), 4, 1),
        (AtOffset(offset=Offset(7)), 7, 2),
        (AtTime(at_ms=Millis(AT)), None, 1),
        (AtTime(at_ms=Millis(AT + 1_999)), 4, 1),
        (AtTime(at_ms=Millis(AT + 2_000)), 4, 2),
    ],
)
def test_journal_as_of_a_point_in_time(
    tmp_path: Path, upto: PointInTime | None, last_offset: int | None, epoch: int
) -> None:
    one = replayed(tmp_path, upto)

    quorum = one.machine.quorum()
    assert quorum.last_offset == last_offset
    assert present(quorum.poll).leader_epoch == epoch
    assert one.newest_ms == quorum.now_ms


@pytest.mark.parametrize(
    ("upto", "why"),
    [
        (AtOffset(offset=Offset(10)), "--at 10: the journal of cluster a ends with 9"),
        (AtTime(at_ms=Millis(AT - 1)), "--at 2026-.*Z: the journal of cluster a begins with 2026-09-21T14:13:20.000Z"),
        (
            AtTime(at_ms=Millis(AT + 4_001)),
            "--at 2026-.*Z: the journal of cluster a ends with 2026-09-21T14:13:24.000Z",
        ),
    ],
)
def test_point_in_time_outside_the_journal_is_refused(tmp_path: Path, upto: PointInTime, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        replayed(tmp_path, upto)


def test_offset_is_refused_for_a_journal_of_two_clusters(tmp_path: Path) -> None:
    rows = [observed(polled(), AT), observed(polled(), AT, "b")]

    with pytest.raises(UsageError, match=r"an offset belongs to one cluster, and .* holds 2: give a time"):
        replay_journal(journal(tmp_path / "journal", rows), settings_of, upto=AtOffset(offset=Offset(1)))


def test_offset_that_a_snapshot_covers_is_refused(tmp_path: Path) -> None:
    snapshot = Observation(
        cluster="a", kind=ObservationKind.SNAPSHOT, observed_at_ms=AT, base_offset=30, last_offset=0, leader_epoch=1
    )
    rows = [records(0, 4, AT), snapshot, records(30, 32, AT)]

    with pytest.raises(
        UsageError, match="--at 20: the journal of cluster a does not hold this offset: a snapshot covers it"
    ):
        replay_journal(journal(tmp_path / "journal", rows), settings_of, upto=AtOffset(offset=Offset(20)))


def recorded_until(tmp_path: Path, at_ms: int) -> ReplayedJournal:
    return replay_journal(journal(tmp_path / "journal", [observed(polled(7), at_ms)]), settings_of)["a"]


def test_query_continues_what_a_running_job_has_recorded(tmp_path: Path) -> None:
    recorded_ms = wall_ms() - 2_000
    live = LiveCluster(QueryTarget(cluster=CLUSTER, settings=lambda: SETTINGS), recorded_until(tmp_path, recorded_ms))
    at = query_began_ms(live)

    live.apply(observed(failed(Reason.NO_LEADER, PLACE), at + 100))
    state = live.state()

    assert (state.source, state.recorded_at_ms) == ("journal", recorded_ms)
    assert (state.quorum.leader_epoch, state.quorum.leader_id) == (7, None)
    assert [one.reason for one in state.quorum.failures] == [Reason.NO_LEADER]
    assert present(state.quorum.poll).observed_at_ms >= state.quorum.watched_since_ms, "the job observed until now"

    live.apply(observed(polled(9), at + 5_000))
    state = live.state()
    assert (state.source, state.recorded_at_ms, state.quorum.leader_epoch) == ("live", recorded_ms, 9)


def test_what_a_job_recorded_that_has_ended_is_history(tmp_path: Path) -> None:
    live = LiveCluster(QueryTarget(cluster=CLUSTER, settings=lambda: SETTINGS), recorded_until(tmp_path, AT))

    quorum = live.state().quorum

    assert quorum.watched_since_ms == query_began_ms(live) > present(quorum.poll).observed_at_ms
    assert fresh_poll(quorum) is None


def test_what_the_job_probed_before_the_query_is_probed_again(tmp_path: Path) -> None:
    """Also of a static quorum, whose voters the leader's answer names: one may have stopped since."""
    recorded_ms = wall_ms() - 2_000
    nodes = {NodeId(node): (endpoint(node),) for node in (1, 2)}
    rows = [observed(each, recorded_ms) for each in (replace(polled(7), nodes=nodes), probed(1, "10.0.0.1"))]
    recorded = replay_journal(journal(tmp_path, rows), settings_of)["a"]
    live = LiveCluster(QueryTarget(cluster=CLUSTER, settings=lambda: SETTINGS), recorded)
    unprobed = "voter 1's endpoint c1:9093 was not probed"
    assert unprobed in live.missing()

    live.apply(observed(probed(1, "10.0.0.1"), query_began_ms(live) + 100))
    assert unprobed not in live.missing()


def test_answers_of_a_query_are_later_than_the_record_of_a_job_whose_clock_is_ahead(tmp_path: Path) -> None:
    ahead_ms = wall_ms() + 3_000
    live = LiveCluster(QueryTarget(cluster=CLUSTER, settings=lambda: SETTINGS), recorded_until(tmp_path, ahead_ms))

    assert live.state().source == "journal", "the record is no answer to this query"
    assert query_began_ms(live) == ahead_ms + 1
