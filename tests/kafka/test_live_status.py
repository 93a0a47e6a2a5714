"""Queries of a real quorum: the values of Kafka's own tool, the exit codes, the result without a leader.

A query takes a second or more, and a JVM of Kafka's tool two seconds: each test uses one query for many assertions.
"""

import json
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from connectors.observations.observation import ObservationKind
from rules.answers.restart import RestartSafety
from rules.formatting import from_iso, iso
from rules.model.identifiers import Millis
from streaming.cli import cluster_query, options
from streaming.status import check_output, restart_output
from streaming.status.build_status import cluster_status
from streaming.status.cluster_status import ClusterState, replication_json, status_json
from streaming.status.health import health
from tests.cli import program
from tests.eventually import eventually
from tests.kafka.gatherer_run import NAME, cluster_of, run_gatherer
from tests.lab import Lab

pytestmark = [pytest.mark.lab, pytest.mark.live]


@pytest.fixture(scope="module")
def lab(shared_lab: Callable[..., Lab]) -> Lab:
    return shared_lab(controllers=3, brokers=2, named=True, properties={"broker.session.timeout.ms": "6000"})


def kraftwatch(lab: Lab, verb: str, *more: str) -> Result:
    options = ["--cluster", f"{NAME}={','.join(lab.bootstrap)}", "--hosts-file", str(lab.hosts_file)]
    return program.kraftwatch(verb, *more, *options, "--json")


def query(lab: Lab, **more: Any) -> ClusterState:
    """The state that the commands print, each in its own form."""
    cluster = [f"{NAME}={','.join(lab.bootstrap)}"]
    return cluster_query.query_one_cluster(
        options.StatusOptions(**{"cluster": cluster, "hosts_file": lab.hosts_file, **more})
    )


def status(state: ClusterState) -> dict[str, Any]:
    return status_json(cluster_status(state))


def check(state: ClusterState) -> dict[str, Any]:
    return check_output.check_json(state)


def restart(state: ClusterState, node: int) -> RestartSafety:
    return restart_output.evaluate_restart(state, node)


def replicas(text: str) -> list[dict[str, Any]]:
    """Kafka's JSON in our names."""
    listed = json.loads(text)
    return [{"directory_id" if name == "directoryId" else name: one[name] for name in one} for one in listed]


@dataclass(frozen=True)
class Described:
    """The output of Kafka's own tool, and a query before and after it."""

    before: ClusterState
    status: dict[str, str]
    replication: list[dict[str, str]]
    after: ClusterState


@pytest.fixture(scope="module")
def described(lab: Lab) -> Described:
    def undisturbed() -> Described:
        before = query(lab)
        with ThreadPoolExecutor() as pool:
            asked = pool.submit(lab.describe_status), pool.submit(lab.describe_replication)
            found = Described(before, asked[0].result(), asked[1].result(), query(lab))
        epochs = {status(one)["leader_epoch"] for one in (found.before, found.after)}
        assert epochs == {int(found.status["LeaderEpoch"])}, "another leader was elected in between"
        leaders = {status(one)["leader_id"] for one in (found.before, found.after)}
        assert leaders == {int(found.status["LeaderId"])}, "the leader answered too late"
        assert (found.before.missing, found.after.missing) == ((), ()), "the machine was too slow"
        return found

    return eventually(undisturbed, within_s=60)


def test_status_has_every_value_of_describe_status(lab: Lab, described: Described) -> None:
    before, theirs, after = status(described.before), described.status, status(described.after)

    assert set(theirs) == {
        "ClusterId",
        "LeaderId",
        "LeaderEpoch",
        "HighWatermark",
        "MaxFollowerLag",
        "MaxFollowerLagTimeMs",
        "CurrentVoters",
        "CurrentObservers",
    }, "a field that this test does not compare"
    for ours in (before, after):
        assert ours["cluster_id"] == theirs["ClusterId"] == lab.cluster_id
        assert ours["leader_id"] == int(theirs["LeaderId"])
        assert ours["leader_epoch"] == int(theirs["LeaderEpoch"])
        assert ours["current_voters"] == replicas(theirs["CurrentVoters"])
        assert ours["current_observers"] == replicas(theirs["CurrentObservers"])
    for state in (described.before, described.after):
        # The lag of the voter with the shortest log; the next test compares its inputs with Kafka's own.
        voters = [row for row in rows_of(state) if row["status"] != "Observer"]
        (leader,) = (row for row in voters if row["status"] == "Leader")
        end, caught_up = "log_end_offset", "last_caught_up_timestamp"
        last = [row for row in voters if row[end] == min(one[end] for one in voters)]
        ours = status(state)
        assert ours["max_follower_lag"] == leader[end] - last[0][end] >= 0
        assert ours["max_follower_lag_time_ms"] in {
            max(0, from_iso(leader[caught_up]) - from_iso(row[caught_up])) for row in last
        }
    assert before["high_watermark"] <= int(theirs["HighWatermark"]) <= after["high_watermark"]
    assert before["high_watermark"] < after["high_watermark"], "the log moves, so the bounds are meaningful"


def rows_of(state: ClusterState) -> list[dict[str, Any]]:
    fields: dict[str, Any] = replication_json(cluster_status(state))
    rows: list[dict[str, Any]] = fields["replicas"]
    return rows


def test_replication_has_every_row_of_describe_replication(described: Described) -> None:
    before, theirs, after = rows_of(described.before), described.replication, rows_of(described.after)

    assert set(theirs[0]) == {
        "NodeId",
        "DirectoryId",
        "LogEndOffset",
        "Lag",
        "LastFetchTimestamp",
        "LastCaughtUpTimestamp",
        "Status",
    }
    exact = [(int(row["NodeId"]), row["DirectoryId"], row["Status"]) for row in theirs]
    for ours in (before, after):
        assert [(row["node_id"], row["directory_id"], row["status"]) for row in ours] == exact, "the same order"
        (end,) = (row["log_end_offset"] for row in ours if row["status"] == "Leader")
        assert all(row["lag"] == end - row["log_end_offset"] >= 0 for row in ours)
    for early, row, late in zip(before, theirs, after, strict=True):
        assert early["log_end_offset"] <= int(row["LogEndOffset"]) <= late["log_end_offset"]
        moment = "last_fetch_timestamp"
        assert early[moment] <= iso(Millis(int(row["LastFetchTimestamp"]))) <= late[moment]
        moment = "last_caught_up_timestamp"
        assert early[moment] <= iso(Millis(int(row["LastCaughtUpTimestamp"]))) <= late[moment]


def test_healthy_quorum_has_exit_code_0_and_is_safe_to_restart(lab: Lab) -> None:
    def healthy() -> None:
        checked = kraftwatch(lab, "check")
        assert (checked.exit_code, json.loads(checked.stdout)["health"]) == (0, "healthy")
        assert json.loads(checked.stdout)["unknown"] == []

    def whole() -> None:
        state = query(lab)
        assert restart(state, lab.followers[0]).safe
        fields = status(state)
        assert (fields["voters_fetching"], fields["votes_needed"], fields["failures_left"]) == (3, 2, 1)
        assert [one["recorded"] for one in fields["endpoints"]] == lab.bootstrap
        assert [one["verdict"] for one in fields["endpoints"]] == ["ok", "ok", "ok"]
        assert fields["brokers"] == {"registered": 2, "fenced": []}

    eventually(healthy, within_s=30)
    eventually(whole, within_s=30)


def test_quorum_would_survive_a_restart_and_one_lost_voter_but_not_two(lab: Lab) -> None:
    leader, others = lab.leader, lab.followers

    def exit_code(*change: str) -> int:
        return kraftwatch(lab, "what-if", *change).exit_code

    def predicted() -> None:
        assert exit_code() == 0
        assert exit_code("--lose", str(leader)) == 0
        assert exit_code(*(part for node in others for part in ("--lose", str(node)))) == 2
        moves = [part for node in lab.controllers for part in ("--move", f"{node}=127.0.0.1:{node}")]
        assert exit_code(*moves) == 2
        assert exit_code("--restart", str(others[0])) == 0

    eventually(predicted, within_s=30)


def test_log_directory_of_a_running_controller_agrees_with_the_quorum(lab: Lab) -> None:
    def recorded() -> None:
        live = status(query(lab))
        for node in (*lab.controllers, *lab.brokers):
            agrees(node, live)

    def agrees(node: int, live: dict[str, Any]) -> None:
        fields = json.loads(program.kraftwatch("status", "--json", "--log-dir", str(lab.node(node).data)).stdout)

        assert fields["source"] == "log-dir"
        meta = fields["log_dir"]["meta_properties"]
        assert (meta["node_id"], meta["directory_id"]) == (node, lab.node(node).directory_id)
        assert (fields["log_dir"]["election"]["leader_id"], fields["leader_id"]) == (live["leader_id"],) * 2
        recorded = ("cluster_id", "leader_epoch", "committed_voters", "kraft_version", "metadata_version", "brokers")
        assert {name: fields[name] for name in recorded} == {name: live[name] for name in recorded}
        assert fields["log_dir"]["end_offset"] >= live["high_watermark"] - 4
        assert fields["log_dir"]["damaged"] == []
        assert program.kraftwatch("check", "--log-dir", str(lab.node(node).data)).exit_code == 3, "unknown"

    eventually(recorded, within_s=30)


def test_name_that_does_not_resolve_has_exit_code_1_and_is_unsafe_to_restart(lab: Lab) -> None:
    unresolved, other = lab.followers
    name = lab.node(unresolved).endpoint.rpartition(":")[0]
    lab.names.drop(name)

    def not_resolved() -> ClusterState:
        state = query(lab)
        assert (health(cluster_status(state)).exit_code, state.missing) == (1, ())
        return state

    try:
        state = eventually(not_resolved, within_s=15)
    finally:
        lab.names.add(name)

    (finding,) = (one for one in check(state)["findings"] if one["rule"] == "stale-voter-endpoint")
    assert finding["subject"] == f"voter {unresolved}"
    assert finding["remedy"] != []
    answer = restart(state, other)
    assert not answer.safe
    assert any("does not resolve" in reason.why for reason in answer.against)
    assert {one["id"]: one["verdict"] for one in status(state)["endpoints"]}[unresolved] == "stale"


def test_query_without_a_leader_shows_the_recorded_state(lab: Lab, tmp_path: Path) -> None:
    """The majority is paused; the state in the configuration's checkpoint is shown."""
    with run_gatherer(tmp_path, cluster_of(lab, hosts_file=str(lab.hosts_file))) as gatherer:

        def last_recorded() -> int:
            last = max((row.last_offset or 0 for row in gatherer.rows(ObservationKind.RECORDS)), default=0)
            assert last > 0
            return last

        then = eventually(last_recorded, within_s=15)
    live = query(lab, journal=tmp_path)
    assert live.source == "live"
    whole = status(live)
    config = tmp_path / "config.yaml"
    lines = [f"  bootstrap: [{', '.join(lab.bootstrap)}]", f"  hosts_file: {lab.hosts_file}"]
    config.write_text("\n".join([f"checkpoint: {tmp_path}", "clusters:", f"- name: {NAME}", *lines, ""]))
    voters = [one["id"] for one in whole["committed_voters"]["voters"]]
    leader = lab.leader
    left, other = (node for node in voters if node != leader)
    paused = [leader, other]

    def leaderless() -> ClusterState:
        state = query(lab, cluster=None, config=config)
        assert "no-leader" in {one["rule"] for one in check(state)["findings"]}
        failing = status(state)["failing"]
        assert lab.node(left).endpoint in {one["endpoint"] for one in failing if one["reason"] == "no-leader"}
        assert {lab.node(node).endpoint for node in paused} <= {one["endpoint"] for one in failing}
        return state

    lab.pause(*paused)
    try:
        state = eventually(leaderless, within_s=30)
    finally:
        lab.resume(*paused)

    fields, checked = status(state), check(state)
    assert checked["exit_code"] == 2
    assert not restart(state, left).safe
    assert (fields["source"], fields["leader_id"]) == ("journal", None)
    assert fields["age_ms"] > 1_000
    assert fields["committed_voters"] == whole["committed_voters"]

    alone = program.kraftwatch("status", "--json", "--journal", str(tmp_path), "--at", str(then))
    recorded = json.loads(alone.stdout)
    assert (recorded["source"], recorded["leader_id"]) == ("journal", leader), (
        "no node was queried: this is the recorded leader"
    )
    assert recorded["committed_voters"] == whole["committed_voters"]
    assert recorded["last_offset"] == then


def test_doctor_finds_every_controller_from_one_address_and_names_the_failing_one(lab: Lab) -> None:
    lab.remove_controller(lab.followers[0])  # it stays registered and is found too

    def of_the_quorum() -> list[dict[str, Any]]:
        leader = lab.leader
        one_of_them = next(lab.node(node).endpoint for node in reversed(lab.controllers) if node != leader)
        options = ["--cluster", f"{NAME}={one_of_them},nowhere.invalid:9093", "--hosts-file", str(lab.hosts_file)]
        checks = json.loads(program.kraftwatch("doctor", *options, "--json").stdout)["checks"]
        ours = [one for one in checks if one["of"] == NAME]
        # A new leader, or a restarted controller that is not registered yet, may fail at first.
        assert [(one["subject"], one["check"]) for one in ours if one["verdict"] != "ok"] == [
            ("nowhere.invalid:9093", "dns")
        ]
        assert {one["subject"] for one in ours if one["check"] == "login"} == set(lab.bootstrap)
        led_by = [one["said"].partition(" in epoch ")[0] for one in ours if one["check"] == "leader"]
        assert led_by == [f"controller {leader} leads"]
        return ours

    ours = eventually(of_the_quorum, within_s=30)
    fields = {one["check"]: one["said"] for one in ours if one["subject"] in ("quorum", "rules", "DescribeCluster")}
    assert fields["identity"] == f"cluster {lab.cluster_id}"
    assert fields["observability"] == "all rules can be evaluated"
    assert re.fullmatch(r"the leader's clock is \d+\.\d s (behind|ahead of) this machine's clock", fields["clock"])
