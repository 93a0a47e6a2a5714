"""One look at a real quorum: the values of Kafka's own tool, the promised exit codes, an answer without a leader."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from connectors.errors import UsageError
from connectors.observation import Kind
from deploy.lab.quorum import Lab
from streaming.cli import app
from tests.eventually import eventually
from tests.kafka.gathering import NAME, cluster_of, gathering

pytestmark = [pytest.mark.lab, pytest.mark.timeout(180)]
SOON_SILENT = ("--set", "stale-voter-endpoint.silent=2")


@pytest.fixture(scope="module")
def lab(shared_lab: Callable[..., Lab]) -> Lab:
    return shared_lab(controllers=3, brokers=2, named=True, properties={"broker.session.timeout.ms": "3000"})


def kraftwatch(lab: Lab, verb: str, *more: str) -> Result:
    options = ["--cluster", f"{NAME}={','.join(lab.bootstrap)}", "--hosts-file", str(lab.hosts_file)]
    return CliRunner().invoke(app, [verb, *more, *options, "--json"])


def said(lab: Lab, verb: str, *more: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(kraftwatch(lab, verb, *more).stdout)
    return answer


def leader_of(lab: Lab) -> int:
    return lab.await_state(lambda state: state.leader_id in lab.controllers, what="a leader").leader_id


def followers(lab: Lab) -> list[int]:
    return [node for node in lab.controllers if node != leader_of(lab)]


def replicas(text: str) -> list[dict[str, Any]]:
    """Kafka's JSON in our names."""
    listed = json.loads(text)
    return [{"directory_id" if name == "directoryId" else name: one[name] for name in one} for one in listed]


@pytest.mark.kip("D097", "D098", "A106")
def test_every_value_of_describe_status_field_by_field(lab: Lab) -> None:
    before = said(lab, "status")
    theirs = lab.describe_status()
    after = said(lab, "status")

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
        # An idle follower fetches twice a second: what it lacks, in records and in time, is what came since.
        assert 0 <= ours["max_follower_lag"] <= 4
        assert 0 <= ours["max_follower_lag_time_ms"] <= 2_000
    assert before["high_watermark"] <= int(theirs["HighWatermark"]) <= after["high_watermark"]
    assert before["high_watermark"] < after["high_watermark"], "the log moves: the bounds say something"


@pytest.mark.kip("D097", "D099", "A108")
def test_every_row_of_describe_replication_field_by_field(lab: Lab) -> None:
    before = said(lab, "replication")["replicas"]
    theirs = lab.describe_replication()
    after = said(lab, "replication")["replicas"]

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
        assert all(0 <= row["lag"] <= 4 for row in ours)
    for early, row, late in zip(before, theirs, after, strict=True):
        assert early["log_end_offset"] <= int(row["LogEndOffset"]) <= late["log_end_offset"]
        moment = "last_fetch_timestamp_ms"
        assert early[moment] <= int(row["LastFetchTimestamp"]) <= late[moment]
        moment = "last_caught_up_timestamp_ms"
        assert early[moment] <= int(row["LastCaughtUpTimestamp"]) <= late[moment]


def test_a_healthy_quorum_is_0_and_a_controller_may_be_restarted(lab: Lab) -> None:
    checked = kraftwatch(lab, "check")

    assert (checked.exit_code, json.loads(checked.stdout)["health"]) == (0, "healthy")
    assert json.loads(checked.stdout)["cannot_tell"] == []
    assert kraftwatch(lab, "safe-to-restart", str(followers(lab)[0])).exit_code == 0
    status = said(lab, "status")
    assert (status["voters_fetching"], status["votes_needed"], status["failures_left"]) == (3, 2, 1)
    assert [one["recorded"] for one in status["endpoints"]] == lab.bootstrap
    assert [one["verdict"] for one in status["endpoints"]] == ["ok", "ok", "ok"]
    assert status["brokers"] == {"registered": 2, "fenced": []}


def test_by_brokers_alone_the_poll_is_shown_and_what_cannot_be_seen_is_said(lab: Lab) -> None:
    brokers = ["--cluster", f"{NAME}={','.join(lab.broker_bootstrap)}", "--timeout", "2", "--json"]

    status = json.loads(CliRunner().invoke(app, ["status", *brokers]).stdout)
    checked = CliRunner().invoke(app, ["check", *brokers])

    assert (status["leader_id"], status["voters_fetching"]) == (leader_of(lab), 3)
    assert {one["id"] for one in status["current_voters"]} == set(lab.controllers)
    assert status["missing"] == ["the metadata log was not answered"]
    assert (status["committed_voters"], status["recovering_partitions"]) == (None, None)
    assert checked.exit_code == 3, "unknown is not healthy"


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

    checked, restart, status = kraftwatch(lab, "check"), said(lab, "safe-to-restart", str(other)), said(lab, "status")
    lab.names.add(name)

    assert checked.exit_code == 1
    found = json.loads(checked.stdout)["findings"]
    (finding,) = (one for one in found if one["rule"] == "stale-voter-endpoint")
    assert finding["subject"] == f"voter {gone}"
    assert finding["remedy"] != []
    assert not restart["safe"]
    assert any("is stale (name-gone" in why for why in restart["against"])
    assert {one["id"]: one["verdict"] for one in status["endpoints"]}[gone] == "stale"


def test_a_controller_that_is_down_makes_the_next_restart_unsafe_until_it_is_back(lab: Lab) -> None:
    down, other = followers(lab)
    lab.kill(down)

    assert kraftwatch(lab, "safe-to-restart", str(other)).exit_code == 2, "at once, whatever is known by then"

    def known_to_be_down() -> None:
        restart = said(lab, "safe-to-restart", str(other), *SOON_SILENT)
        assert any(why == f"controller {down} does not fetch: bring it back first" for why in restart["against"])
        assert len(restart["remaining"]) == 1

    eventually(known_to_be_down, within_s=15)
    status = said(lab, "status", *SOON_SILENT)
    assert (status["voters_fetching"], status["failures_left"]) == (2, 0)
    assert {one["id"]: one["verdict"] for one in status["endpoints"]}[down] == "down"
    checked = kraftwatch(lab, "check", *SOON_SILENT, "--set", "failure-tolerance.silent=2")
    assert checked.exit_code == 1, "a hold of two minutes does not apply in one look"
    assert "failure-tolerance" in {one["rule"] for one in json.loads(checked.stdout)["findings"]}
    assert said(lab, "safe-to-restart", str(down), *SOON_SILENT)["safe"], "to start it again is what is needed"
    lab.start(down)

    def safe_again() -> None:
        assert kraftwatch(lab, "safe-to-restart", str(other)).exit_code == 0

    eventually(safe_again, within_s=15)


def test_a_spare_controller_could_be_a_voter(lab: Lab) -> None:
    spare = lab.new_controller()

    status = said(lab, "status")

    assert status["could_be_voters"][0]["id"] == spare
    assert status["could_be_voters"][0]["directory_id"] == lab.node(spare).directory_id
    assert [one["id"] for one in status["registrations_without_voter"]] == [spare]
    assert [one["id"] for one in status["current_observers"]].count(spare) == 1
    assert said(lab, "safe-to-restart", str(spare))["safe"], "it has no vote"
    lab.kill(spare)


def test_recovering_partitions_and_the_brokers_that_live(lab: Lab) -> None:
    stranded = lab.strand_recovering("orders", partitions=2)

    def listed() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = said(lab, "partitions")["recovering"]
        assert len(found) == 2
        return found

    found = eventually(listed, within_s=10)
    assert {(one["topic"], one["partition"]) for one in found} == {("orders", 0), ("orders", 1)}
    for one in found:
        # With KIP-966 the last one to leave the ISR is the eligible leader.
        assert [*one["previous_isr"], *one["previous_elr"]] == [stranded.dead], "it holds what is lost"
        assert one["replicas_alive"] == [one["leader"]]
        assert stranded.dead in one["replicas"]
        assert 0 <= one["for_ms"] < 120_000


def test_without_a_leader_every_controller_is_asked_and_the_recorded_state_is_shown(lab: Lab, tmp_path: Path) -> None:
    with gathering(tmp_path, cluster_of(lab, hosts_file=str(lab.hosts_file))) as gathered:
        whole = said(lab, "status")

        def recorded() -> None:
            assert any((row.last_offset or 0) > whole["last_offset"] for row in gathered.rows(Kind.RECORDS))

        eventually(recorded, within_s=15)
    alone = CliRunner().invoke(app, ["status", "--json", "--journal", str(tmp_path)])
    leader, left = leader_of(lab), followers(lab)[0]
    paused = [one["id"] for one in whole["committed_voters"]["voters"] if one["id"] != left]
    lab.pause(*paused)
    try:
        checked = kraftwatch(lab, "check")
        restart = kraftwatch(lab, "safe-to-restart", str(left), "--timeout", "1")
        remembered = said(lab, "status", "--journal", str(tmp_path))
    finally:
        lab.resume(*paused)

    assert checked.exit_code == 2
    assert "no-leader" in {one["rule"] for one in json.loads(checked.stdout)["findings"]}
    assert restart.exit_code == 2, "whatever is known after a second"
    assert lab.node(left).endpoint in {one["endpoint"] for one in remembered["failing"] if one["reason"] == "no-leader"}
    assert {lab.node(node).endpoint for node in paused} <= {one["endpoint"] for one in remembered["failing"]}
    assert (remembered["source"], remembered["leader_id"]) == ("journal", None)
    assert remembered["age_ms"] > 1_000
    assert remembered["committed_voters"] == whole["committed_voters"]
    assert "no-leader" in {one["rule"] for one in remembered["findings"]}

    recorded_alone = json.loads(alone.stdout)
    assert (recorded_alone["source"], recorded_alone["leader_id"]) == ("journal", leader), "nobody was asked: so it was"
    assert recorded_alone["committed_voters"] == whole["committed_voters"]

    eventually(lambda: said(lab, "status", "--journal", str(tmp_path))["source"] == "live", within_s=20)
