"""A static quorum: different lists of voters, none, names in it that do not resolve, and disks that were emptied."""

import json
from pathlib import Path

import pytest
from typer.testing import Result

from rules.alert import Alert
from tests.cli.program import kraftwatch
from tests.eventually import eventually
from tests.job.conftest import await_fetches_of_all_voters
from tests.kafka.conftest import MakeLab
from tests.kafka.gatherer_run import NAME, cluster_of, run_gatherer
from tests.kafka.monitored_cluster import monitored_cluster_of
from tests.lab import Lab

pytestmark = [pytest.mark.lab, pytest.mark.live, pytest.mark.timeout(400)]
SETTING = "controller.quorum.voters"


def test_a_controller_with_another_list_of_voters_is_named(lab: MakeLab, tmp_path: Path) -> None:
    quorum = lab(controllers=3, brokers=0, static=True)
    different, left_out = quorum.followers
    file = quorum.node(different).properties_file
    whole = file.read_text(encoding="utf-8")
    (line,) = (each for each in whole.splitlines() if each.startswith(f"{SETTING}="))
    voters = line.partition("=")[2]
    fewer = ",".join(each for each in voters.split(",") if not each.startswith(f"{left_out}@"))
    with run_gatherer(tmp_path, cluster_of(quorum)) as gatherer:
        monitor = monitored_cluster_of(quorum, gatherer)
        monitor.start_scenario({"views-disagree.hold": 1})
        monitor.wait_for_quorum(lambda seen: any(one.quorum_voters == voters for one in seen.probes.values()))
        assert monitor.rules == set()

        quorum.stop(different)
        file.write_text(whole.replace(voters, fewer), encoding="utf-8")
        quorum.start(different)
        alert = monitor.wait_for("views-disagree", within_s=60)

        assert (alert.subject, alert.severity) == (SETTING, "warning")
        assert f"; {different} has {fewer}. Each counts votes by its own list." in alert.summary or (
            f": {different} has {fewer}; " in alert.summary
        )
        quorum.stop(different)
        file.write_text(whole, encoding="utf-8")
        quorum.start(different)
        monitor.wait_for("views-disagree", "resolved", within_s=90)
        await_fetches_of_all_voters(quorum)


def test_a_voter_without_a_list_takes_no_part_in_an_election(lab: MakeLab, tmp_path: Path) -> None:
    quorum = lab(controllers=3, brokers=0, static=True)
    empty, former = quorum.followers[0], quorum.leader
    file = quorum.node(empty).properties_file
    whole = file.read_text(encoding="utf-8")
    lines = [line for line in whole.splitlines() if not line.startswith(f"{SETTING}=")]
    without = "\n".join([*lines, f"controller.quorum.bootstrap.servers={','.join(quorum.bootstrap)}", ""])
    with run_gatherer(tmp_path, cluster_of(quorum)) as gatherer:
        monitor = monitored_cluster_of(quorum, gatherer)
        monitor.start_scenario({"voter-without-controller.hold": 1})
        quorum.stop(empty)
        file.write_text(without, encoding="utf-8")
        # A controller without a list that voted in the current epoch ends at its start: another epoch begins before.
        epoch = restart_leader(quorum, former)
        quorum.start(empty)
        alert = monitor.wait_for("voter-without-controller", within_s=60)
        leader = quorum.leader
        (other,) = {*quorum.controllers} - {empty, leader}
        answers = {node: safe_to_restart(quorum, node) for node in quorum.controllers}

        quorum.kill(leader)
        eventually(lambda: assert_refuses_pre_votes(quorum, empty), within_s=60)
        assert quorum.state is None, f"no leader after epoch {epoch}: controller {other} needs one vote"
        quorum.stop(empty)
        file.write_text(whole, encoding="utf-8")
        quorum.start(empty)
        quorum.await_leader()
        monitor.wait_for("voter-without-controller", "resolved", within_s=90)

    assert (alert.subject, alert.severity) == (f"voter {empty}", "warning")
    assert "The quorum tolerates no further failure." in alert.summary
    assert {node: code for node, (code, _) in answers.items()} == {leader: 2, other: 2, empty: 0}
    assert f"controller {empty} has an empty {SETTING}" in answers[other][1]


def restart_leader(quorum: Lab, leader: int) -> int:
    """Restarts the leader and returns the epoch of the election."""
    quorum.stop(leader)
    quorum.start(leader)
    return quorum.await_leader().leader_epoch


def safe_to_restart(quorum: Lab, node: int) -> tuple[int, str]:
    answer = kraftwatch("safe-to-restart", str(node), "--cluster", f"{NAME}={','.join(quorum.bootstrap)}")
    return answer.exit_code, answer.stdout


def assert_refuses_pre_votes(quorum: Lab, node: int) -> None:
    lines = quorum.node(node).log_file.read_text(encoding="utf-8").splitlines()
    assert sum("preVote=true" in line and "is rejected" in line for line in lines) >= 4


def test_names_in_the_list_that_no_longer_resolve_are_reported(lab: MakeLab, tmp_path: Path) -> None:
    quorum = lab(controllers=3, brokers=0, static=True, named=True)
    endpoints = {each: quorum.node(each).endpoint for each in quorum.controllers}
    names = {each: endpoint.rpartition(":")[0] for each, endpoint in endpoints.items()}
    lost, restarted = quorum.followers
    with run_gatherer(tmp_path, cluster_of(quorum)) as gatherer:
        monitor = monitored_cluster_of(quorum, gatherer)
        monitor.start_scenario({"stale-voter-endpoint.hold": 2})
        monitor.wait_for_quorum(lambda seen: len(seen.probes) == len(quorum.controllers))

        def fires(severity: str) -> Alert:
            alert = monitor.wait_for("stale-voter-endpoint")
            assert alert.severity == severity
            return alert

        def fires_of_all(severity: str) -> Alert:
            firing = {one.rule: one for one in monitor.monitor.firing(None, ()).alerts}
            alert = fires(severity)
            assert "no leader could be elected: 0 of 3 configured endpoints work." in firing[alert.rule].summary
            return firing[alert.rule]

        def query(*verb: str) -> Result:
            options = ["--cluster", f"{NAME}={','.join(quorum.bootstrap)}", "--hosts-file", str(quorum.hosts_file)]
            return kraftwatch(*verb, *options)

        assert query("safe-to-restart", str(restarted)).exit_code == 0
        try:
            quorum.names.drop(names[lost])
            eventually(lambda: fires("warning"), within_s=60)
            unsafe, shown = query("safe-to-restart", str(restarted)), json.loads(query("status", "--json").stdout)
            quorum.names.drop(*names.values())
            alert = eventually(lambda: fires_of_all("critical"), within_s=60)
        finally:
            quorum.names.add(*names.values())

        assert (unsafe.exit_code, "does not resolve" in unsafe.stdout) == (2, True), unsafe.stdout
        assert {one["id"]: (one["recorded"], one["verdict"]) for one in shown["endpoints"]} == {
            each: (endpoint, "stale" if each == lost else "ok") for each, endpoint in endpoints.items()
        }
        assert alert.evidence["endpoint"] in endpoints.values()
        monitor.wait_for("stale-voter-endpoint", "resolved", within_s=60)
        assert monitor.rules == {"stale-voter-endpoint"}


@pytest.mark.long
def test_voters_that_come_back_with_an_empty_disk_are_reported(lab: MakeLab, tmp_path: Path) -> None:
    """Each has fetched all records again within seconds, and has no directory id that would be new."""
    # Each fetch returns one batch, and a batch is written every 20 ms: a poll sees the log before it has caught up.
    slow = {"controller.quorum.fetch.max.bytes": "1", "metadata.max.idle.interval.ms": "20"}
    quorum = lab(controllers=3, brokers=0, static=True, properties=slow)
    with run_gatherer(tmp_path, cluster_of(quorum)) as gatherer:
        monitor = monitored_cluster_of(quorum, gatherer)
        monitor.start_scenario({})
        monitor.wait_for_quorum(lambda seen: (seen.last_offset or 0) > 600, within_s=60)
        for voter in (*quorum.followers, quorum.followers[0]):
            monitor.set_thresholds({"voter-log-regressed.hold": 0})
            quorum.stop(voter)
            quorum.wipe_disk(voter)
            quorum.start(voter)
            alert = monitor.wait_for("voter-log-regressed", subject=f"voter {voter}")
            assert f"The log of voter {voter} went back" in alert.summary
            monitor.set_thresholds({"voter-log-regressed.keep_firing_for": 1})
            monitor.wait_for("voter-log-regressed", "resolved", subject=f"voter {voter}")

        assert monitor.rules == {"voter-log-regressed"}
