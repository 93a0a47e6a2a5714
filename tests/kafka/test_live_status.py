"""One look at a real quorum: the values of Kafka's own tool, the promised exit codes, an answer without a leader.

A look is a second or more, and a JVM of Kafka's tool two: what one look saw is asked for all that it can tell.
"""

import json
import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from connectors.errors import UsageError
from connectors.observation import Kind
from deploy.lab.lab import Lab
from rules.analysis.safe_to_restart import Restart
from streaming.cli import app, cluster_query, options
from streaming.status import check_output, overview
from streaming.status.cluster_state import Glimpse
from streaming.status.health import health
from tests.eventually import eventually
from tests.kafka.gatherer_run import NAME, cluster_of, gathering

pytestmark = pytest.mark.lab
SOON_SILENT = ("stale-voter-endpoint.silent=2", "failure-tolerance.silent=2")


@pytest.fixture(scope="module")
def lab(shared_lab: Callable[..., Lab]) -> Lab:
    return shared_lab(controllers=3, brokers=2, named=True, properties={"broker.session.timeout.ms": "6000"})


def kraftwatch(lab: Lab, verb: str, *more: str) -> Result:
    options = ["--cluster", f"{NAME}={','.join(lab.bootstrap)}", "--hosts-file", str(lab.hosts_file)]
    return CliRunner().invoke(app, [verb, *more, *options, "--json"])


def look(lab: Lab, **more: Any) -> Glimpse:
    """What the verbs look at, each of which says something else of it."""
    cluster = [f"{NAME}={','.join(lab.bootstrap)}"]
    return cluster_query.the_one(options.Shown(**{"cluster": cluster, "hosts_file": lab.hosts_file, **more}))


def status(glimpse: Glimpse) -> dict[str, Any]:
    return overview.status(glimpse)


def check(glimpse: Glimpse) -> dict[str, Any]:
    return check_output.checked(glimpse)


def restart(glimpse: Glimpse, node: int) -> Restart:
    return check_output.restart_of(glimpse, node)


def leader_of(lab: Lab) -> int:
    return lab.await_state(lambda state: state.leader_id in lab.controllers, what="a leader").leader_id


def followers(lab: Lab) -> list[int]:
    leader = leader_of(lab)
    return [node for node in lab.controllers if node != leader]


def replicas(text: str) -> list[dict[str, Any]]:
    """Kafka's JSON in our names."""
    listed = json.loads(text)
    return [{"directory_id" if name == "directoryId" else name: one[name] for name in one} for one in listed]


@dataclass(frozen=True)
class Described:
    """What Kafka's own tool said, and what we saw before and after it."""

    before: Glimpse
    status: dict[str, str]
    replication: list[dict[str, str]]
    after: Glimpse


@pytest.fixture(scope="module")
def described(lab: Lab) -> Described:
    def undisturbed() -> Described:
        before = look(lab)
        with ThreadPoolExecutor() as pool:
            asked = pool.submit(lab.describe_status), pool.submit(lab.describe_replication)
            found = Described(before, asked[0].result(), asked[1].result(), look(lab))
        epochs = {status(one)["leader_epoch"] for one in (found.before, found.after)}
        assert epochs == {int(found.status["LeaderEpoch"])}, "another leader was elected meanwhile"
        assert (found.before.missing, found.after.missing) == ((), ()), "the machine stood still"
        return found

    return eventually(undisturbed, within_s=60)


@pytest.mark.kip("A098", "D097", "D098", "A106")
def test_every_value_of_describe_status_field_by_field(lab: Lab, described: Described) -> None:
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
    }, "a field that we would not have looked at"
    for ours in (before, after):
        assert ours["cluster_id"] == theirs["ClusterId"] == lab.cluster_id
        assert ours["leader_id"] == int(theirs["LeaderId"])
        assert ours["leader_epoch"] == int(theirs["LeaderEpoch"])
        assert ours["current_voters"] == replicas(theirs["CurrentVoters"])
        assert ours["current_observers"] == replicas(theirs["CurrentObservers"])
    for glimpse in (described.before, described.after):
        # Of the voter whose log ends first: the numbers that this comes from are held against Kafka's own below.
        voters = [row for row in rows_of(glimpse) if row["status"] != "Observer"]
        (leader,) = (row for row in voters if row["status"] == "Leader")
        end, caught_up = "log_end_offset", "last_caught_up_timestamp_ms"
        last = [row for row in voters if row[end] == min(one[end] for one in voters)]
        ours = status(glimpse)
        assert ours["max_follower_lag"] == leader[end] - last[0][end] >= 0
        assert ours["max_follower_lag_time_ms"] in {max(0, leader[caught_up] - row[caught_up]) for row in last}
    assert before["high_watermark"] <= int(theirs["HighWatermark"]) <= after["high_watermark"]
    assert before["high_watermark"] < after["high_watermark"], "the log moves: the bounds say something"


def rows_of(glimpse: Glimpse) -> list[dict[str, Any]]:
    said: dict[str, Any] = overview.replication(glimpse)
    rows: list[dict[str, Any]] = said["replicas"]
    return rows


@pytest.mark.kip("D097", "D099", "A108")
def test_every_row_of_describe_replication_field_by_field(described: Described) -> None:
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
        assert [(row["node_id"], row["directory_id"], row["status"]) for row in ours] == exact, "and in their order"
        (end,) = (row["log_end_offset"] for row in ours if row["status"] == "Leader")
        assert all(row["lag"] == end - row["log_end_offset"] >= 0 for row in ours)
    for early, row, late in zip(before, theirs, after, strict=True):
        assert early["log_end_offset"] <= int(row["LogEndOffset"]) <= late["log_end_offset"]
        moment = "last_fetch_timestamp_ms"
        assert early[moment] <= int(row["LastFetchTimestamp"]) <= late[moment]
        moment = "last_caught_up_timestamp_ms"
        assert early[moment] <= int(row["LastCaughtUpTimestamp"]) <= late[moment]


def test_a_healthy_quorum_is_0_and_a_controller_may_be_restarted(lab: Lab) -> None:
    def healthy() -> None:
        checked = kraftwatch(lab, "check")
        assert (checked.exit_code, json.loads(checked.stdout)["health"]) == (0, "healthy")
        assert json.loads(checked.stdout)["cannot_tell"] == []

    def whole() -> None:
        seen = look(lab)
        assert restart(seen, followers(lab)[0]).safe
        said = status(seen)
        assert (said["voters_fetching"], said["votes_needed"], said["failures_left"]) == (3, 2, 1)
        assert [one["recorded"] for one in said["endpoints"]] == lab.bootstrap
        assert [one["verdict"] for one in said["endpoints"]] == ["ok", "ok", "ok"]
        assert said["brokers"] == {"registered": 2, "fenced": []}

    eventually(healthy, within_s=30)
    eventually(whole, within_s=30)


def test_the_disk_of_a_controller_that_runs_tells_what_the_quorum_told(lab: Lab) -> None:
    def told() -> None:
        live = status(look(lab))
        for node in (*lab.controllers, *lab.brokers):
            agrees(node, live)

    def agrees(node: int, live: dict[str, Any]) -> None:
        said = json.loads(CliRunner().invoke(app, ["status", "--json", "--log-dir", str(lab.node(node).data)]).stdout)

        assert said["source"] == "log-dir"
        assert (said["log_dir"]["node_id"], said["log_dir"]["directory_id"]) == (node, lab.node(node).directory_id)
        assert (said["log_dir"]["quorum_state"]["leader_id"], said["leader_id"]) == (live["leader_id"],) * 2
        told = ("cluster_id", "leader_epoch", "committed_voters", "kraft_version", "metadata_version", "brokers")
        assert {name: said[name] for name in told} == {name: live[name] for name in told}
        assert said["log_dir"]["log_end_offset"] >= live["high_watermark"] - 4
        assert said["log_dir"]["not_read"] == []
        assert CliRunner().invoke(app, ["check", "--log-dir", str(lab.node(node).data)]).exit_code == 3, "cannot tell"

    eventually(told, within_s=30)


def test_by_brokers_alone_the_poll_is_shown_and_what_cannot_be_seen_is_said(lab: Lab) -> None:
    def answered() -> Glimpse:
        # The log is never answered: all of this time is waited.
        seen = look(lab, cluster=[f"{NAME}={','.join(lab.broker_bootstrap)}"], hosts_file=None, timeout=1.5)
        assert (status(seen)["leader_id"], status(seen)["voters_fetching"]) == (leader_of(lab), 3)
        return seen

    seen = eventually(answered, within_s=30)
    said = status(seen)
    assert {one["id"] for one in said["current_voters"]} == set(lab.controllers)
    assert said["missing"] == ["the metadata log was not answered"]
    assert (said["committed_voters"], said["recovering_partitions"]) == (None, None)
    assert health(seen).exit_code == 3, "unknown is not healthy"


def test_another_cluster_than_the_one_configured_is_a_mistake(lab: Lab, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    lines = [f"  bootstrap: [{', '.join(lab.bootstrap)}]", f"  hosts_file: {lab.hosts_file}"]
    config.write_text("\n".join(["clusters:", "- name: a", *lines, "  cluster_id: Zm9yLXRlc3RzLW9ubHkhIQ", ""]))

    ended = CliRunner().invoke(app, ["status", "--config", str(config)])

    assert isinstance(ended.exception, UsageError)
    assert f"belongs to cluster {lab.cluster_id}, not to Zm9yLXRlc3RzLW9ubHkhIQ" in str(ended.exception)
    assert ended.stdout == ""


def test_a_name_that_is_gone_is_1_and_no_controller_may_be_restarted(lab: Lab) -> None:
    gone, other = followers(lab)
    name = lab.node(gone).endpoint.rpartition(":")[0]
    lab.names.drop(name)

    def known_to_be_gone() -> Glimpse:
        seen = look(lab)
        assert (health(seen).exit_code, seen.missing) == (1, ())
        return seen

    try:
        seen = eventually(known_to_be_gone, within_s=15)
    finally:
        lab.names.add(name)

    (finding,) = (one for one in check(seen)["findings"] if one["rule"] == "stale-voter-endpoint")
    assert finding["subject"] == f"voter {gone}"
    assert finding["remedy"] != []
    answer = restart(seen, other)
    assert not answer.safe
    assert any("is stale (name-gone" in why for why in answer.against)
    assert {one["id"]: one["verdict"] for one in status(seen)["endpoints"]}[gone] == "stale"


def test_a_controller_that_is_down_makes_the_next_restart_unsafe_until_it_is_back(lab: Lab) -> None:
    down, other = followers(lab)
    lab.kill(down)

    assert not restart(look(lab, timeout=1.0), other).safe, "at once, whatever is known by then"

    def known_to_be_down() -> Glimpse:
        seen = look(lab, setting=SOON_SILENT)
        answer = restart(seen, other)
        assert any(why == f"controller {down} does not fetch: bring it back first" for why in answer.against)
        # Two seconds are soon silent: on a machine that stands still the other one may look so for a moment.
        assert len(answer.remaining or ()) == 1
        said = status(seen)
        assert (said["voters_fetching"], said["failures_left"]) == (2, 0)
        assert {one["id"]: one["verdict"] for one in said["endpoints"]}[down] == "down"
        assert health(seen).exit_code == 1, "a hold of two minutes does not apply in one look"
        return seen

    try:
        seen = eventually(known_to_be_down, within_s=15)
    finally:
        lab.start(down)
    assert "failure-tolerance" in {one["rule"] for one in check(seen)["findings"]}
    assert restart(seen, down).safe, "to start it again is what is needed"
    eventually(lambda: _assert_safe(look(lab), other), within_s=15)


def _assert_safe(seen: Glimpse, node: int) -> None:
    assert restart(seen, node).safe


def test_a_controller_without_a_vote_could_be_a_voter(lab: Lab) -> None:
    spare = followers(lab)[0]
    lab.remove_controller(spare)

    def followed() -> None:
        seen = look(lab)
        said = status(seen)
        assert len(said["committed_voters"]["voters"]) == 2
        # That it keeps up is told by three polls: a machine that stands still has not made them when the time is up.
        could_be = [(one["id"], one["directory_id"]) for one in said["could_be_voters"]]
        assert could_be == [(spare, lab.node(spare).directory_id)]
        assert [one["id"] for one in said["registrations_without_voter"]] == [spare]
        assert [one["id"] for one in said["current_observers"]].count(spare) == 1
        assert restart(seen, spare).safe, "it has no vote"

    eventually(followed, within_s=15)


def test_recovering_partitions_and_the_brokers_that_live(lab: Lab) -> None:
    began = time.monotonic()
    stranded = lab.strand_recovering("orders", partitions=2)

    def listed() -> list[dict[str, Any]]:
        said: dict[str, Any] = overview.partitions(look(lab))
        found: list[dict[str, Any]] = said["recovering"]
        assert len(found) == 2
        return found

    found = eventually(listed, within_s=10)
    assert {(one["topic"], one["partition"]) for one in found} == {("orders", 0), ("orders", 1)}
    for one in found:
        # With KIP-966 the last one to leave the ISR is the eligible leader.
        assert [*one["previous_isr"], *one["previous_elr"]] == [stranded.dead], "it holds what is lost"
        assert one["replicas_alive"] == [one["leader"]]
        assert stranded.dead in one["replicas"]
        assert 0 <= one["for_ms"] <= (time.monotonic() - began) * 1000


def test_without_a_leader_every_controller_is_asked_and_the_recorded_state_is_shown(lab: Lab, tmp_path: Path) -> None:
    """The majority stands still; what the configuration's own checkpoint recorded is recalled."""
    with gathering(tmp_path, cluster_of(lab, hosts_file=str(lab.hosts_file))) as gathered:

        def last_recorded() -> int:
            last = max((row.last_offset or 0 for row in gathered.rows(Kind.RECORDS)), default=0)
            assert last > 0
            return last

        then = eventually(last_recorded, within_s=15)
    live = look(lab, journal=tmp_path)
    assert live.source == "live", "it goes on where the recorded state ends"
    whole = status(live)
    config = tmp_path / "config.yaml"
    lines = [f"  bootstrap: [{', '.join(lab.bootstrap)}]", f"  hosts_file: {lab.hosts_file}"]
    config.write_text("\n".join([f"checkpoint: {tmp_path}", "clusters:", f"- name: {NAME}", *lines, ""]))
    voters = [one["id"] for one in whole["committed_voters"]["voters"]]
    leader = leader_of(lab)
    (left,) = (node for node in voters if node != leader)
    paused = [leader]

    def leaderless() -> Glimpse:
        seen = look(lab, cluster=None, config=config)
        assert "no-leader" in {one["rule"] for one in check(seen)["findings"]}
        return seen

    lab.pause(*paused)
    try:
        seen = eventually(leaderless, within_s=30)
    finally:
        lab.resume(*paused)

    said, checked = status(seen), check(seen)
    assert checked["exit_code"] == 2
    assert not restart(seen, left).safe
    assert lab.node(left).endpoint in {one["endpoint"] for one in said["failing"] if one["reason"] == "no-leader"}
    assert {lab.node(node).endpoint for node in paused} <= {one["endpoint"] for one in said["failing"]}
    assert (said["source"], said["leader_id"]) == ("journal", None)
    assert said["age_ms"] > 1_000
    assert said["committed_voters"] == whole["committed_voters"]

    alone = CliRunner().invoke(app, ["status", "--json", "--journal", str(tmp_path), "--at", str(then)])
    told = json.loads(alone.stdout)
    assert (told["source"], told["leader_id"]) == ("journal", leader), "nobody was asked: so it was"
    assert told["committed_voters"] == whole["committed_voters"]
    assert told["last_offset"] == then


def test_the_doctor_finds_every_controller_by_one_of_them_and_says_which_address_fails(lab: Lab) -> None:
    if len(lab.await_state(lambda state: bool(state.voter_ids), what="voters").voter_ids) == len(lab.controllers):
        lab.remove_controller(followers(lab)[0])  # which is registered, and found as well

    def of_the_quorum() -> list[dict[str, Any]]:
        leader = leader_of(lab)
        one_of_them = next(lab.node(node).endpoint for node in reversed(lab.controllers) if node != leader)
        options = ["--cluster", f"{NAME}={one_of_them},nowhere.invalid:9093", "--hosts-file", str(lab.hosts_file)]
        checks = json.loads(CliRunner().invoke(app, ["doctor", *options, "--json"]).stdout)["checks"]
        ours = [one for one in checks if one["of"] == NAME]
        # A leader that is just elected, a controller that has just come back and is not registered: they come.
        assert [(one["subject"], one["check"]) for one in ours if one["verdict"] != "ok"] == [
            ("nowhere.invalid:9093", "dns")
        ]
        assert {one["subject"] for one in ours if one["check"] == "login"} == set(lab.bootstrap)
        led_by = [one["said"].partition(" in epoch ")[0] for one in ours if one["check"] == "leader"]
        assert led_by == [f"controller {leader} leads"]
        return ours

    ours = eventually(of_the_quorum, within_s=30)
    said = {one["check"]: one["said"] for one in ours if one["subject"] in ("quorum", "rules", "DescribeCluster")}
    assert said["identity"] == f"cluster {lab.cluster_id}"
    assert said["sight"] == "all rules can judge"
    assert re.fullmatch(r"the leader's clock is \d+\.\d s (behind|ahead of) ours", said["clock"])
