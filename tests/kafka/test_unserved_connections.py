"""Controllers that run and answer no new connection, or late: they are of no use in an election, and do not hang."""

from contextlib import ExitStack
from pathlib import Path

import pytest

from rules.answers.forecast import forecast_election
from rules.answers.part import electors
from rules.answers.restart import safe_to_restart
from rules.evaluate import thresholds_for
from rules.facts.quorum import Facts
from rules.model.identifiers import NodeId
from rules.model.quorum import Quorum
from tests.kafka.conftest import MakeLab
from tests.kafka.gatherer_run import cluster_of, run_gatherer
from tests.kafka.monitored_cluster import monitor_cluster, monitored_cluster_of, run_in_bursts
from tests.kafka.silent_proxy import SilentProxy

pytestmark = [pytest.mark.lab, pytest.mark.live, pytest.mark.timeout(400)]
_PROXY = "127.0.0.77"


def test_a_leader_that_serves_no_new_connection_is_named_and_not_counted(lab: MakeLab, tmp_path: Path) -> None:
    quorum = lab(controllers=3, brokers=0, named=True)
    leader = quorum.leader
    other = next(node for node in quorum.controllers if node != leader)
    host, _, port = quorum.node(leader).endpoint.rpartition(":")
    proxy = SilentProxy(("127.0.0.1", int(port)))
    thresholds = thresholds_for({})["stale-voter-endpoint"]
    cluster = cluster_of(quorum, resolve={host: _PROXY}, hosts_file=str(quorum.hosts_file))
    with proxy.up((_PROXY, int(port))), run_gatherer(tmp_path / "monitor", cluster) as gatherer:
        monitor = monitored_cluster_of(quorum, gatherer)
        monitor.start_scenario({"stale-voter-endpoint.hold": 2})

        proxy.serves_new = False
        alert = monitor.wait_for("stale-voter-endpoint", within_s=120)

        assert (alert.severity, alert.subject) == ("warning", f"voter {leader}")
        assert "serves no new connection although the voter fetches" in alert.summary
        assert alert.evidence["stale_because"] == ["not-serving"]
        assert monitor.machine.quorum().leader_id == leader, "its older connections are served"
        # From each probe to the next poll it is unknown whether the voter still fetches.
        monitor.wait_for_quorum(lambda quorum: leader not in winners(quorum))
        safety = safe_to_restart(Facts(monitor.machine.quorum()), NodeId(other), thresholds, ())
        assert not safety.safe

        proxy.serves_new = True
        monitor.wait_for("stale-voter-endpoint", "resolved", within_s=60)


def winners(quorum: Quorum) -> set[NodeId]:
    """Returns the voters that would be elected after a restart of all."""
    return {one.key.id for one in forecast_election(electors(Facts(quorum))).candidates if one.wins}


def test_controllers_that_run_in_bursts_in_turn_are_slow_and_not_hung(lab: MakeLab, tmp_path: Path) -> None:
    quorum = lab(controllers=3, brokers=0)
    with monitor_cluster(quorum, tmp_path / "monitor") as monitor:
        monitor.start_scenario({"no-leader.hold": 10, "no-leader.still_hold": 10})
        with ExitStack() as bursts:
            for node in quorum.controllers:
                bursts.enter_context(run_in_bursts(quorum, node, pauses_s=2.2))
            fired = monitor.wait_for("no-leader", within_s=180)
        monitor.wait_for("no-leader", "resolved", within_s=120)

    assert " late: " in fired.summary
    assert "hung" not in fired.summary
    assert not any("Then restart controller" in step for step in fired.remedy)
