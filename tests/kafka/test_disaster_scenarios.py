"""Faults that bypass Raft, on real controllers: a voter and a majority restored from old copies, a forced voter set.

Three controllers. Each test starts with the quorum that the test before left: their order matters.
"""

import shutil
from pathlib import Path

import pytest

from connectors.logdir.log_dir_files import META_PROPERTIES
from connectors.observations.observation import ObservationKind
from deploy.lab.node import Node, format_disk, write_ids
from rules.alert import Alert
from tests.cli.program import kraftwatch
from tests.eventually import eventually
from tests.kafka.conftest import MakeLab
from tests.kafka.forged_log import force_voters
from tests.kafka.gatherer_run import GathererRun
from tests.kafka.monitored_cluster import MonitoredCluster, monitor_cluster
from tests.kafka.plan_follower import log_dirs, steps_in_text
from tests.lab import Lab

pytestmark = [pytest.mark.lab, pytest.mark.live]
LOST_RECORDS = 20
"""Committed records that are not in the copies. A new leader appends its first records at once and then two a second:
for some seconds each poll shows a lower high watermark."""
SLOW_FETCHES = {"controller.quorum.fetch.max.bytes": "1"}
"""Each fetch returns one batch, so a voter catches up batch by batch."""


@pytest.fixture(scope="module")
def lab(shared_lab: MakeLab) -> Lab:
    return shared_lab(controllers=3, brokers=0, properties=SLOW_FETCHES)


def test_one_voter_is_restored_from_an_old_copy_of_its_log(lab: Lab, tmp_path: Path) -> None:
    voter, _ = lab.followers
    key = f"{voter}-{lab.node(voter).directory_id}"

    with monitor_cluster(lab, tmp_path) as monitor:
        monitor.start_scenario({"voter-log-regressed.hold": 1})
        copy_disk(lab.node(voter), tmp_path / "old")
        copied = lab.await_state(lambda state: state.high_watermark >= 0, what="a leader").high_watermark
        eventually(lambda: has_read(monitor.gatherer, copied + LOST_RECORDS), within_s=30)
        paused_at = eventually(lambda: restored_and_paused(lab, voter, tmp_path / "old", copied), within_s=60)
        behind = monitor.wait_for("voter-log-regressed")
        lab.resume(voter)
        caught_up = eventually(lambda: with_severity(monitor, "voter-log-regressed", "warning"), within_s=30)
        monitor.set_thresholds({"voter-log-regressed.keep_firing_for": 1})
        monitor.wait_for("voter-log-regressed", "resolved")

    assert (behind.severity, behind.subject) == ("critical", f"voter {voter}")
    assert (behind.evidence["voter"], caught_up.evidence["caught_up"]) == (key, True)
    # A poll between the start and the pause saw an earlier end of the log.
    ended = behind.evidence["log_ended_at_offset"]
    assert isinstance(ended, int)
    assert 0 < ended <= paused_at
    assert f"controller {voter} has caught up" in behind.remedy[0]
    assert monitor.rules == {"voter-log-regressed"}


def test_new_directory_ids_over_the_same_logs_are_the_same_disks(lab: Lab, tmp_path: Path) -> None:
    """Of one voter the quorum goes on; of two it ends, and the plan compares their logs."""
    first, second = lab.followers
    recorded = {node: lab.node(node).directory_id for node in (first, second)}

    with monitor_cluster(lab, tmp_path) as monitor:
        monitor.start_scenario({"voter-disk-replaced.hold": 1, "no-leader.hold": 1})
        format_over_the_log(lab, first)
        lab.start(first)
        replaced = monitor.wait_for("voter-disk-replaced")
        format_over_the_log(lab, second)
        lab.start(second)
        lost = monitor.wait_for("no-leader")
        lab.kill(*lab.controllers)
        plan = kraftwatch("rescue", "plan", "--no-probe", *log_dirs(lab, *lab.controllers))
        for node, directory in recorded.items():
            write_ids(lab.node(node), directory_id=directory)
        lab.start(*lab.controllers)
        monitor.wait_for("no-leader", "resolved", within_s=60)
        monitor.wait_for("voter-disk-replaced", "resolved")

    said = f"write directory.id={recorded[first]} back into meta.properties"
    assert any(said in step for step in replaced.remedy), replaced.remedy
    assert any("rescue plan" in step for step in lost.remedy), lost.remedy
    assert plan.exit_code == 0, plan.stdout
    assert plan.stdout.count("(the log of voter ") == len(recorded), plan.stdout
    written = [
        one for one in recorded.values() if any(f"directory.id={one}" in each for each in steps_in_text(plan.stdout))
    ]
    assert written, plan.stdout


def format_over_the_log(lab: Lab, node: int) -> None:
    """Formats a stopped controller without its meta.properties: its log stays (Kafka 4.4.0 says nothing)."""
    lab.stop(node)
    (lab.node(node).data / META_PROPERTIES).unlink()
    format_disk(lab.jvm, lab.node(node), lab.cluster_id, initial=())


def test_forced_voter_set_fires_for_a_limited_time_and_the_controllers_that_it_removed_stay_registered(
    lab: Lab, tmp_path: Path
) -> None:
    leader, (returning, stopped) = lab.leader, lab.followers
    keys = {node: f"{node}-{lab.node(node).directory_id}" for node in lab.controllers}

    lab.kill(*lab.controllers)
    force_voters(lab.node(leader), [lab.node(leader)])
    lab.start(leader)
    with monitor_cluster(lab, tmp_path) as monitor:
        # This monitor has not observed their fetches; after an observed fetch the rule waits 300 s.
        monitor.start_scenario({"ghost-registration.hold": 1})
        forced = monitor.wait_for("forced-reconfiguration")
        ghost = monitor.wait_for("ghost-registration", subject=f"controller {returning}")
        lab.wipe_disk(returning)
        lab.start(returning)
        monitor.wait_for("ghost-registration", "resolved", subject=f"controller {returning}")
        monitor.wait_for("ghost-registration", subject=f"controller {stopped}")
        # As after the hour for which it fires.
        monitor.set_thresholds({"ghost-registration.hold": 1, "forced-reconfiguration.keep_firing_for": 1})
        monitor.wait_for("forced-reconfiguration", "resolved")

    assert (forced.severity, ghost.severity) == ("info", "info")
    assert forced.evidence["before"] == sorted(keys.values())
    assert forced.evidence["after"] == [keys[leader]]
    assert forced.evidence["removed"] == sorted(key for node, key in keys.items() if node != leader)
    assert ghost.evidence["registered_endpoints"] == [lab.node(returning).endpoint]
    assert monitor.rules == {"ghost-registration", "forced-reconfiguration"}


def test_cloned_disk_has_one_directory_id_under_two_node_ids(lab: Lab, tmp_path: Path) -> None:
    leader = lab.leader
    directory = lab.node(leader).directory_id
    clone = lab.layout.add_controller()

    with monitor_cluster(lab, tmp_path) as monitor:
        monitor.start_scenario({"node-records-conflict.hold": 1, "ages.fetch": 2})
        copy_disk(lab.node(leader), clone.data)
        properties = clone.data / "meta.properties"
        properties.write_text(properties.read_text().replace(f"node.id={leader}", f"node.id={clone.id}"))
        lab.start(clone.id)
        fired = monitor.wait_for("node-records-conflict")
        lab.kill(clone.id)
        monitor.wait_for("node-records-conflict", "resolved")

    assert (fired.severity, fired.subject) == ("warning", f"directory {directory}")
    assert (fired.evidence["node_ids"], fired.evidence["voter_ids"]) == ([leader, clone.id], [leader])
    assert fired.remedy[0].startswith("# If only meta.properties was copied")
    assert fired.remedy[1].startswith(f"# If the disk was cloned, stop node {clone.id}, delete its metadata directory")


def copy_disk(node: Node, folder: Path) -> None:
    """Copies the disk of a running controller: a file that it replaces may be deleted before it is copied."""
    shutil.copytree(node.data, folder, ignore=shutil.ignore_patterns("*.tmp", "*.part"))


def restored_and_paused(lab: Lab, voter: int, old: Path, copied: int) -> int:
    """Restores a voter's disk, starts it, and pauses it while it catches up; returns where its log ends then.

    The next fetch may be the last one that is missing before the pause: then the assertion fails, and a caller tries
    again.
    """
    lab.resume(voter)
    lab.kill(voter)
    shutil.rmtree(lab.node(voter).data)
    shutil.copytree(old, lab.node(voter).data)
    behind = copied + LOST_RECORDS // 2

    def log_end() -> int:
        state = lab.state
        ends = {row.id: row.log_end_offset for row in state.voters} if state else {}
        return ends.get(voter, -1)

    lab.start(voter, wait=False)
    for _ in range(20_000):
        if 0 <= log_end() < behind:
            break
    lab.pause(voter)
    paused_at = log_end()
    assert 0 <= paused_at < behind, f"voter {voter} had caught up before it was paused"
    return paused_at


def with_severity(monitor: MonitoredCluster, rule: str, severity: str) -> Alert:
    """Returns the newest alert of this rule if it fires with this severity."""
    alert = monitor.wait_for(rule)
    assert alert.severity == severity
    return alert


def has_read(gatherer: GathererRun, offset: int) -> bool:
    """Whether the gatherer read the log beyond this offset and a poll had a higher high watermark."""
    polls = [poll.high_watermark or 0 for poll in gatherer.polls()]
    ends = [row.last_offset or 0 for row in gatherer.rows(ObservationKind.RECORDS)]
    return max(polls, default=0) > offset and max(ends, default=0) > offset
