"""KIP-595, elections as the monitor observes them: by records, polls and failed polls of a scripted quorum."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from connectors.observations.log_event import LeaderChanged
from connectors.observations.observation import Event
from rules.alert import Alert, AlertState
from rules.model.identifiers import NodeId
from rules.model.monitoring import Reason
from rules.model.quorum import Quorum
from streaming.replay.cluster_monitor import ClusterMonitor
from streaming.status.build_status import log_dir_status
from streaming.status.from_log_dir import replay_log_dir
from streaming.status.status_tables import log_dir_lines
from tests.kips.test_thresholds import BACKOFF_MAX_MS, FETCH_TIMEOUT_MS
from tests.unit.connectors.logdir.log_dirs import leader_change, noops, write_log_dir, write_quorum_state
from tests.unit.rules.situation import findings
from tests.unit.streaming.replay.log_script import (
    SETTINGS,
    LogScript,
    again,
    apply,
    failed,
    ids,
    machine,
    poll,
    replica,
)

ENDPOINTS = ("c1:9093", "c2:9093", "c3:9093")
NAMES = ("1-a", "2-b", "3-c")


@dataclass
class MonitoredQuorum:
    """Controllers 1, 2 and 3 as voters, of which 1 leads epoch 1, and their monitor. A step is half a second."""

    script: LogScript = field(default_factory=LogScript)
    monitor: ClusterMonitor = field(default_factory=lambda: ClusterMonitor(SETTINGS))
    alerts: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.script.leader(1)
        self.script.kraft(1)
        self.script.voters(*NAMES)
        self.led(10_000)

    @property
    def quorum(self) -> Quorum:
        return self.monitor.machine.quorum()

    def observe(self, *events: Event, read: bool) -> None:
        rows = [self.script.read(after_ms=0)] if read else []
        alerts = self.monitor.apply([*rows, self.script.row(*events, after_ms=500)]).alerts
        self.alerts += [f"{alert.rule} {alert.state}" for alert in alerts]

    def led(self, for_ms: int, *, leader: int = 1, silent: Iterable[int] = ()) -> None:
        """The leader writes a record in each step, and commits it unless two voters are silent: do not fetch."""
        silent, uncommitted = {*silent}, 0
        for now_ms in range(0, for_ms, 500):
            commits = len(silent) < 2
            self.script.noops(1 if commits else 0)
            uncommitted += 0 if commits else 1
            end = self.script.offset + uncommitted
            rows = [
                replica(name, self.script.offset, now_ms, now_ms) if int(name[0]) in silent else replica(name, end)
                for name in NAMES
            ]
            polled = poll(*rows, leader=leader, epoch=self.script.epoch, hw=self.script.offset)
            self.observe(polled, read=True)

    def leaderless(self, for_ms: int) -> None:
        """No controller leads; all of them answer so."""
        for _ in range(0, for_ms, 500):
            self.observe(*(failed(Reason.NO_LEADER, each) for each in ENDPOINTS), read=False)

    def elect(self, leader: int, epoch: int) -> None:
        self.script.leader(leader, epoch=epoch)
        self.led(1_000, leader=leader)


@pytest.mark.kip("D061")
@pytest.mark.parametrize("leaderless_ms", [500, 500 + BACKOFF_MAX_MS // 2], ids=["the first one", "the second one"])
def test_a_successor_that_a_resigning_leader_names_is_elected_without_an_alert(leaderless_ms: int) -> None:
    """The leader of a planned change names its successors, so that no voter waits for its fetch timeout.

    The first successor stands at once, the second of two after half of the largest backoff.
    """
    observed = MonitoredQuorum()
    observed.leaderless(leaderless_ms)
    observed.elect(3, 2)
    observed.led(60_000, leader=3)

    planned = observed.quorum.history.elections[-1]
    assert (planned.leader_id, planned.previous_epoch, planned.leader_epoch) == (3, 1, 2)
    assert planned.after_ms is not None
    assert planned.after_ms < FETCH_TIMEOUT_MS
    assert observed.alerts == []
    assert observed.quorum.leader_id == 3


@pytest.mark.kip("D044")
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


@pytest.mark.kip("D025", "D050", "K043")
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


@pytest.mark.kip("A018", "D023", "D025", "D104")
@pytest.mark.parametrize("voted", [0, 2])
def test_the_vote_on_a_disk_is_shown_with_its_epoch(tmp_path: Path, voted: int) -> None:
    folder = write_log_dir(tmp_path / "node", {0: leader_change() + noops(1, 3)})
    directory = "wPvHPGZoRSmdGaO9smPpMQ"
    state = {"data_version": 1, "leaderId": -1, "leaderEpoch": 9, "votedId": voted, "votedDirectoryId": directory}
    write_quorum_state(folder, **state)

    status = log_dir_status(replay_log_dir(folder))

    assert status.quorum_state is not None
    assert (status.quorum_state.leader_epoch, status.quorum_state.voted_id) == (9, voted)
    assert status.quorum_state.voted_directory_id == directory
    shown = {name: str(value) for name, value in log_dir_lines(status)}
    assert f"epoch 9, no leader known, voted for {voted}-{directory}" in shown["Quorum state"]
    assert json.loads((folder / "__cluster_metadata-0" / "quorum-state").read_text()) == state, "it is only read"


@pytest.mark.kip("D051", "K007")
def test_a_leader_and_voters_that_the_committed_set_does_not_list_yet_violate_nothing() -> None:
    """KIP-853: the election used a voter change that is in the log and not committed before it."""
    script, replay = LogScript(), machine()
    elected(script, 1, 1, (1, 2), (1, 2, 3))
    script.voters(*NAMES)
    apply(replay, [script.read()])
    elected(script, 4, 2, (2, 3, 4), (1, 2, 3, 4))

    quorum = apply(replay, [script.read()])

    assert quorum.committed is not None
    assert NodeId(4) not in quorum.committed.ids
    assert findings(quorum, "raft-invariant-broken") == []
    assert quorum.leader_id == 4
    assert quorum.history.elections[-1].granting_voter_ids == ids(2, 3, 4)
    elected(script, 3, 3, (3, 9, 8), (1, 2, 3, 4))
    quorum = apply(replay, [script.read()])
    assert [one.subject for one in findings(quorum, "raft-invariant-broken")] == ["elected-by-minority"], (
        "votes of replicas in no voter set elect no leader"
    )
