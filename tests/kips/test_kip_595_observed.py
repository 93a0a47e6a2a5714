"""KIP-595 as the monitor observes it: elections, commits, lags and metrics, by records, polls and failed polls."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from connectors.gather.commit_buffer import CommitBuffer, FetchPosition
from connectors.kafka.messages import parse_fetch
from connectors.observations.log_event import LeaderChanged
from rules.alert import Alert, AlertState
from rules.model.identifiers import Millis, NodeId
from rules.model.quorum import Quorum
from streaming.replay.cluster_monitor import ClusterMonitor
from streaming.replay.cluster_settings import ClusterSettings
from streaming.replay.machine import Machine
from streaming.status.build_status import cluster_status, log_dir_status
from streaming.status.cluster_status import replication_json
from streaming.status.from_log_dir import replay_log_dir
from streaming.status.status_tables import log_dir_lines
from tests.kips.test_kip_595_log import answer
from tests.kips.test_kip_856_gauges import state_of, status
from tests.kips.test_limits import FETCH_TIMEOUT_MS
from tests.scripts.script_quorum import ScriptedQuorum
from tests.unit.connectors.gather.log_bytes import batch
from tests.unit.connectors.logdir.log_dirs import leader_change, noops, write_log_dir, write_quorum_state
from tests.unit.rules.situation import (
    findings,
    healthy,
    observer,
    present,
    unknown,
    voters_lagging,
    with_poll,
    with_rows,
)
from tests.unit.streaming.replay.log_script import (
    SETTINGS,
    LogScript,
    again,
    apply,
    begun,
    formed_quorum,
    ids,
    key,
    machine,
    poll,
    replica,
)

NAMES = ("1-a", "2-b", "3-c")


def test_a_successor_that_a_resigning_leader_names_is_elected_without_an_alert() -> None:
    """The leader of a planned change names its successors, so that no voter waits for its fetch timeout."""
    quorum = ScriptedQuorum()
    quorum.begin([1, 2, 3], [])
    monitor, alerts = ClusterMonitor(ClusterSettings(name="test", bootstrap=quorum.bootstrap)), list[Alert]()
    for second in range(75):
        if second == 10:
            quorum.resign()
            quorum.election_due_ms = quorum.now_ms + FETCH_TIMEOUT_MS - 1
        alerts += monitor.apply([*quorum.advance_one_second()]).alerts

    planned = monitor.machine.quorum().history.elections[-1]
    assert (planned.previous_epoch, planned.leader_epoch) == (1, 2)
    assert 0 < present(planned.after_ms) <= FETCH_TIMEOUT_MS
    assert alerts == []
    assert monitor.machine.quorum().leader_id == quorum.leader


def test_a_single_voter_needs_no_fetches() -> None:
    script, monitor = LogScript(), ClusterMonitor(SETTINGS)
    script.leader(1)
    script.kraft(1)
    script.voters("1-a")
    alerts: list[Alert] = []
    for _ in range(60):
        script.noops(2)
        alerts += monitor.apply([script.read(), script.row(poll(replica("1-a", fetch=None)), after_ms=0)]).alerts

    assert [alert for alert in alerts if alert.state is AlertState.FIRING and alert.severity == "critical"] == []
    assert findings(monitor.machine.quorum(), "failure-tolerance") == []
    assert monitor.machine.quorum().leader_id == 1


def elected(script: LogScript, leader: int, epoch: int, votes: tuple[int, ...], voters: tuple[int, ...]) -> None:
    script.epoch = epoch
    script.write(
        LeaderChanged(at=script.at(), leader_id=NodeId(leader), voter_ids=ids(*voters), granting_voter_ids=ids(*votes))
    )


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize(
    ("second", "invariant"),
    [
        ((1, 5, (1, 2)), None),
        ((2, 6, (2, 3)), None),
        # A voter that votes twice in one epoch elects two leaders.
        ((2, 5, (2, 3)), "two-leaders"),
        # Less than a majority granted.
        ((2, 6, (2,)), "elected-by-minority"),
        # Granted to a candidate of an older epoch than a voter knew.
        ((2, 4, (2, 3)), "epoch-back"),
    ],
)
def test_votes_against_the_rules_are_reported_also_after_the_monitor_restarts(
    second: tuple[int, int, tuple[int, ...]], invariant: str | None, *, restarted: bool
) -> None:
    script, replay = LogScript(), machine()
    elected(script, 1, 5, (1, 3), (1, 2, 3))
    apply(replay, [script.read()])
    replay = again(replay.to_bytes()) if restarted else replay
    leader, epoch, votes = second
    elected(script, leader, epoch, votes, (1, 2, 3))

    quorum = apply(replay, [script.read()])

    reported = [one.subject for one in findings(quorum, "raft-invariant-broken")]
    assert reported == ([] if invariant is None else [invariant])
    if invariant is None:
        assert (quorum.leader_id, quorum.leader_epoch) == (leader, epoch)


@pytest.mark.parametrize("voted", [0, 2])
def test_the_vote_on_a_disk_is_shown_with_its_epoch(tmp_path: Path, voted: int) -> None:
    folder = write_log_dir(tmp_path / "node", {0: leader_change() + noops(1, 3)})
    directory = "wPvHPGZoRSmdGaO9smPpMQ"
    state = {"data_version": 1, "leaderId": -1, "leaderEpoch": 9, "votedId": voted, "votedDirectoryId": directory}
    write_quorum_state(folder, **state)

    status = log_dir_status(replay_log_dir(folder))

    state_shown = present(status.quorum_state)
    found = (state_shown.leader_epoch, state_shown.voted_id, state_shown.voted_directory_id)
    assert found == (9, voted, directory)
    shown = {name: str(value) for name, value in log_dir_lines(status)}
    assert f"epoch 9, no leader known, voted for {voted}-{directory}" in shown["Quorum state"]
    assert json.loads((folder / "__cluster_metadata-0" / "quorum-state").read_text()) == state, "it is only read"


def test_a_leader_and_voters_that_the_committed_set_does_not_list_yet_violate_nothing() -> None:
    """KIP-853: the election used a voter change that is in the log and not committed before it."""
    script, replay = LogScript(), machine()
    elected(script, 1, 1, (1, 2), (1, 2, 3))
    script.voters(*NAMES)
    apply(replay, [script.read()])
    elected(script, 4, 2, (2, 3, 4), (1, 2, 3, 4))

    quorum = apply(replay, [script.read()])
    assert NodeId(4) not in present(quorum.committed).ids
    assert findings(quorum, "raft-invariant-broken") == []
    assert quorum.leader_id == 4
    assert quorum.history.elections[-1].granting_voter_ids == ids(2, 3, 4)
    elected(script, 3, 3, (3, 9, 8), (1, 2, 3, 4))
    quorum = apply(replay, [script.read()])
    assert [one.subject for one in findings(quorum, "raft-invariant-broken")] == ["elected-by-minority"], (
        "votes of replicas in no voter set elect no leader"
    )


STALLED = "high-watermark-stalled"


def test_records_that_a_majority_does_not_have_yet_are_not_replayed() -> None:
    buffer = CommitBuffer(FetchPosition(offset=0, epoch=0))
    log = batch(0, 3, epoch=1) + batch(3, 2, epoch=1)

    steps: list[dict[str, Any]] = [
        {"records": log, "high_watermark": 3},
        # A new leader does not know it yet.
        {"high_watermark": -1},
        {"high_watermark": 5},
    ]

    accepted = [buffer.accept(parse_fetch(answer(**fields)), now_ms=0).committed for fields in steps]

    assert [present(each).last_offset for each in accepted] == [2, 2, 4]


def test_a_new_leader_has_no_high_watermark_until_it_commits_in_its_own_epoch() -> None:
    """Both voters have all records of the former epoch, which commits nothing by itself."""
    script, replay = begun()
    script.noops(99)
    voters = [replica(name, end=100) for name in ("1-a", "2-b", "3-c")]
    quorum = apply(replay, [script.read(), script.row(poll(*voters, hw=100))])
    assert (quorum.high_watermark, status(quorum)["high_watermark"]) == (100, 100)

    for _ in range(31):
        quorum = apply(replay, [script.row(poll(*voters, leader=2, epoch=2, hw=None))])
    assert status(quorum)["high_watermark"] is None, "unknown, and not the former leader's"
    assert len(findings(quorum, STALLED)) == 1

    quorum = apply(replay, [script.row(poll(*voters, leader=2, epoch=2, hw=101))])
    assert status(quorum)["high_watermark"] == 101
    assert findings(quorum, STALLED) == []


def replication(quorum: Quorum) -> list[dict[str, Any]]:
    said: dict[str, Any] = replication_json(cluster_status(state_of(quorum)))
    rows: list[dict[str, Any]] = said["replicas"]
    return rows


def formed() -> tuple[LogScript, Machine]:
    """Returns a quorum: controller 1 leads the committed voters 1, 2 and 3."""
    script, replay = formed_quorum("1-a", "2-b", "3-c")
    apply(replay, [script.read(), script.row(poll(replica("1-a"), replica("2-b"), replica("3-c")))])
    return script, replay


def test_leader_epoch_high_watermark_and_lags_come_from_polls_alone() -> None:
    rows = (replica("1-a", end=130), replica("2-b", end=120, caught_up=400), replica("3-c", end=0, caught_up=9_000))
    script, replay = LogScript(), machine()

    quorum = apply(replay, [script.row(poll(*rows, leader=1, epoch=4, hw=120))])

    said = status(quorum)
    assert (said["leader_id"], said["leader_epoch"], said["high_watermark"]) == (1, 4, 120)
    assert (said["max_follower_lag"], said["max_follower_lag_time_ms"]) == (130, 9_000)
    columns = ("log_end_offset", "log_end_epoch", "lag", "lag_time_ms")
    seen = {row["node_id"]: tuple(row[name] for name in columns) for row in replication(quorum)}
    assert seen == {1: (130, 4, 0, 0), 2: (120, 4, 10, 400), 3: (0, 4, 130, 9_000)}, "the log of 3 is empty"


def test_a_log_that_ended_before_an_election_has_the_earlier_epoch() -> None:
    script, replay = formed()
    stayed = replica("3-c", fetch=40_000, caught_up=40_000)
    rows = (replica("1-a", end=120), replica("2-b", end=120), stayed)

    quorum = apply(replay, [script.row(poll(*rows, leader=2, epoch=4))])

    ends = {row["node_id"]: (row["log_end_offset"], row["log_end_epoch"]) for row in replication(quorum)}
    assert ends == {1: (120, 4), 2: (120, 4), 3: (100, 1)}


def test_all_fields_of_the_admin_api_are_reported_and_unknown_is_null() -> None:
    quorum = observer(voters_lagging(healthy(3), 2, for_ms=120_000), 4)
    quorum = with_rows(quorum, 1, log_end_offset=None, last_fetch_ms=None, last_caught_up_ms=None)

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


@pytest.mark.parametrize(("behind_ms", "ready"), [(900, True), (1_900, True), (2_100, False)])
def test_an_observer_is_ready_if_its_lag_stays_below_the_fetch_timeout(behind_ms: int, ready: bool) -> None:
    """Kafka's voters start an election after controller.quorum.fetch.timeout.ms, 2 s."""
    newest, oldest, always = (0,) * 29 + (behind_ms,), (behind_ms,) + (0,) * 29, (behind_ms,) * 30

    for lags in (newest, oldest, always):
        (finding,) = findings(observer(healthy(2), 3, lags=lags), "observer-could-be-voter")
        assert (finding.evidence["readiness"] == "ready") is ready
        assert finding.remedy[0].startswith("# Wait until controller 3 has caught up") is not ready


@pytest.mark.parametrize(("ago_ms", "is_unknown"), [(1_000, True), (299_000, True), (301_000, False)])
def test_an_observer_that_is_no_longer_listed_is_unknown_before_it_is_resolved(ago_ms: int, is_unknown: bool) -> None:
    """A leader drops an observer 300 s after its last fetch: the observer had not caught up before that."""
    quorum = observer(healthy(3), 4)
    here = next(row for row in present(quorum.poll).observers if row.key.id == 4)
    others = tuple(row for row in present(quorum.poll).observers if row is not here)
    seen = replace(quorum.histories[here.key], last_seen_at_ms=Millis(quorum.now_ms - ago_ms))
    gone = replace(with_poll(quorum, observers=others), histories={**quorum.histories, here.key: seen})

    assert 4 not in {row["node_id"] for row in replication(gone)}
    assert (("observer-could-be-voter", f"observer {here.key}") in unknown(gone)) is is_unknown


def test_a_removal_that_timed_out_and_succeeded_is_in_the_log() -> None:
    script, replay = formed()

    pending = apply(replay, [script.row(poll(replica("1-a"), replica("2-b")))])
    assert [one["id"] for one in status(pending)["pending_voters"]["removed"]] == [3]
    script.voters("1-a", "2-b")
    done = apply(replay, [script.read(), script.row(poll(replica("1-a"), replica("2-b")))])
    assert present(done.committed).keys == {key("1-a"), key("2-b")}
    assert status(done)["pending_voters"] == {"added": [], "removed": [], "moved": []}
