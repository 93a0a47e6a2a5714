"""KIP-595: metrics from the log or from polls alone, and nodes of another cluster."""

from dataclasses import replace
from typing import Any

import pytest

from rules.model.identifiers import Millis
from rules.model.quorum import Quorum
from streaming.replay.machine import Machine
from streaming.status.build_status import cluster_status
from streaming.status.cluster_status import replication_json
from tests.kips.test_kip_856_gauges import state_of, status
from tests.unit.rules.situation import (
    findings,
    healthy,
    observer,
    unknown,
    voters_lagging,
)
from tests.unit.streaming.replay.log_script import LogScript, apply, key, machine, poll, replica


def replication(quorum: Quorum) -> list[dict[str, Any]]:
    said: dict[str, Any] = replication_json(cluster_status(state_of(quorum)))
    rows: list[dict[str, Any]] = said["replicas"]
    return rows


def formed() -> tuple[LogScript, Machine]:
    """Returns a quorum: controller 1 leads the committed voters 1, 2 and 3."""
    script, replay = LogScript(), machine()
    script.leader(1)
    script.kraft(1)
    script.voters("1-a", "2-b", "3-c")
    apply(replay, [script.read(), script.row(poll(replica("1-a"), replica("2-b"), replica("3-c")))])
    return script, replay


@pytest.mark.kip("A040", "A095", "D030", "D116")
def test_leader_epoch_high_watermark_and_lags_come_from_polls_alone() -> None:
    rows = (replica("1-a", end=130), replica("2-b", end=120, caught_up=400), replica("3-c", end=100, caught_up=9_000))
    script, replay = formed()

    quorum = apply(replay, [script.row(poll(*rows, leader=1, epoch=4, hw=120))])

    said = status(quorum)
    assert (said["leader_id"], said["leader_epoch"], said["high_watermark"]) == (1, 4, 120)
    seen = {row["node_id"]: (row["log_end_offset"], row["lag"], row["lag_time_ms"]) for row in replication(quorum)}
    assert seen == {1: (130, 0, 0), 2: (120, 10, 400), 3: (100, 30, 9_000)}


@pytest.mark.kip("D106")
def test_a_log_that_ended_before_an_election_has_the_earlier_epoch() -> None:
    script, replay = formed()
    stayed = replica("3-c", fetch=40_000, caught_up=40_000)
    rows = (replica("1-a", end=120), replica("2-b", end=120), stayed)

    quorum = apply(replay, [script.row(poll(*rows, leader=2, epoch=4))])

    ends = {row["node_id"]: (row["log_end_offset"], row["log_end_epoch"]) for row in replication(quorum)}
    assert ends == {1: (120, 4), 2: (120, 4), 3: (100, 1)}


@pytest.mark.kip("C023", "D058", "D143")
def test_all_fields_of_the_admin_api_are_reported_and_unknown_is_null() -> None:
    quorum = observer(voters_lagging(healthy(3), 2, for_ms=120_000), 4)
    assert quorum.poll is not None
    unheard = replace(quorum.poll.voters[0], log_end_offset=None, last_fetch_ms=None, last_caught_up_ms=None)
    quorum = replace(quorum, poll=replace(quorum.poll, voters=(unheard, *quorum.poll.voters[1:])))

    said, rows = status(quorum), {row["node_id"]: row for row in replication(quorum)}

    assert (said["leader_id"], said["leader_epoch"], said["high_watermark"]) == (3, 7, 10_000)
    assert [one["id"] for one in said["current_voters"]] == [1, 2, 3]
    assert [one["id"] for one in said["current_observers"]] == [101, 102, 4]
    assert (rows[2]["log_end_offset"], rows[3]["log_end_offset"]) == (9_000, 10_000)
    assert rows[3]["last_caught_up_timestamp_ms"] - rows[2]["last_caught_up_timestamp_ms"] == 120_000
    assert rows[3]["last_fetch_timestamp_ms"] == rows[2]["last_fetch_timestamp_ms"], "it fetches, and lags"
    assert rows[1]["log_end_offset"] is rows[1]["last_caught_up_timestamp_ms"] is None
    assert rows[1]["last_fetch_timestamp_ms"] is None
    assert not [name for name in said if "target" in name], "the text's target voters never shipped"


@pytest.mark.kip("D140", "K035")
@pytest.mark.parametrize(("behind_ms", "ready"), [(900, True), (1_900, True), (2_100, False)])
def test_an_observer_is_ready_if_its_lag_stays_below_the_fetch_timeout(behind_ms: int, ready: bool) -> None:
    """Kafka's voters start an election after controller.quorum.fetch.timeout.ms, 2 s."""
    newest, oldest, always = (0,) * 29 + (behind_ms,), (behind_ms,) + (0,) * 29, (behind_ms,) * 30

    for lags in (newest, oldest, always):
        (finding,) = findings(observer(healthy(2), 3, lags=lags), "observer-could-be-voter")
        assert (finding.evidence["readiness"] == "ready") is ready
        assert finding.remedy[0].startswith("# Wait until controller 3 has caught up") is not ready


@pytest.mark.kip("D142", "K036")
@pytest.mark.parametrize(("ago_ms", "cannot_tell"), [(1_000, True), (299_000, True), (301_000, False)])
def test_an_observer_that_is_no_longer_listed_is_unknown_before_it_is_resolved(ago_ms: int, cannot_tell: bool) -> None:
    """A leader drops an observer 300 s after its last fetch: the observer had not caught up before that."""
    quorum = observer(healthy(3), 4)
    assert quorum.poll is not None
    here = next(row for row in quorum.poll.observers if row.key.id == 4)
    others = tuple(row for row in quorum.poll.observers if row is not here)
    seen = replace(quorum.histories[here.key], last_seen_at_ms=Millis(quorum.now_ms - ago_ms))
    gone = replace(quorum, poll=replace(quorum.poll, observers=others), histories={**quorum.histories, here.key: seen})

    assert 4 not in {row["node_id"] for row in replication(gone)}
    assert (("observer-could-be-voter", f"observer {here.key}") in unknown(gone)) is cannot_tell


@pytest.mark.kip("A026", "A045", "D148")
def test_a_removal_that_timed_out_and_succeeded_is_in_the_log() -> None:
    script, replay = formed()

    pending = apply(replay, [script.row(poll(replica("1-a"), replica("2-b")))])
    assert [one["id"] for one in status(pending)["pending_voters"]["removed"]] == [3]
    script.voters("1-a", "2-b")
    done = apply(replay, [script.read(), script.row(poll(replica("1-a"), replica("2-b")))])

    assert done.committed is not None
    assert done.committed.keys == {key("1-a"), key("2-b")}
    assert status(done)["pending_voters"] == {"added": [], "removed": [], "moved": []}
