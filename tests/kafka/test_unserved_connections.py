"""The leader serves no new connection, and goes on over those that are open: it would be of no use in an election."""

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
from tests.kafka.monitored_cluster import monitored_cluster_of
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
