"""Who leads a real quorum, where no leader answers the monitor: controllers that reject it, and one that is not known.

What a follower remembers is no leader: see `rules.facts.leadership`.
"""

import json
from pathlib import Path

import pytest

from rules.alert import Alert
from tests.cli.program import kraftwatch
from tests.eventually import eventually
from tests.kafka.conftest import MakeLab
from tests.kafka.gatherer_run import NAME, cluster_of, run_gatherer
from tests.kafka.monitored_cluster import monitored_cluster_of
from tests.lab_security import ADMIN

pytestmark = [pytest.mark.lab, pytest.mark.live, pytest.mark.timeout(400)]


def test_controllers_that_start_again_and_reject_each_other_are_no_leader_with_that_cause(
    lab: MakeLab, tmp_path: Path
) -> None:
    quorum = lab(controllers=3, brokers=0, users=[])
    passwords = quorum.security.passwords
    login = {
        "security_protocol": "SASL_SSL",
        "ssl_cafile": str(quorum.security.ca_file),
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": ADMIN,
        "sasl_plain_password": passwords[ADMIN],
    }
    with run_gatherer(tmp_path, cluster_of(quorum, options=login)) as gatherer:
        monitor = monitored_cluster_of(quorum, gatherer)
        monitor.start_scenario({"no-leader.hold": 5})
        monitor.wait_for_quorum(lambda seen: len(seen.probes) == len(quorum.controllers))
        files = {node: quorum.node(node).properties_file for node in quorum.controllers}
        whole = {node: file.read_text(encoding="utf-8") for node, file in files.items()}

        quorum.kill(*quorum.controllers)
        down = monitor.wait_for("no-leader", within_s=60)
        for node, file in files.items():
            assert f'user_{ADMIN}="{passwords[ADMIN]}"' in whole[node]
            changed = whole[node].replace(f'user_{ADMIN}="{passwords[ADMIN]}"', f'user_{ADMIN}="changed"')
            file.write_text(changed, encoding="utf-8")
        quorum.start(*quorum.controllers, wait=False)

        def says_that_they_reject() -> Alert:
            assert monitor.rules == {"no-leader"}
            (alert,) = (one for one in monitor.monitor.firing(None, ()).alerts if one.rule == "no-leader")
            assert "were down, run again, and reject the monitor (not-authenticated)" in alert.summary, alert.summary
            return alert

        rejecting = eventually(says_that_they_reject, within_s=90)
        monitor.assert_outputs_agree()
        assert "Controllers 1, 2 and 3 are down (connections are refused)." in down.summary
        assert rejecting.started_at_ms == down.started_at_ms
        assert any("reject each other" in step for step in rejecting.remedy)

        quorum.kill(*quorum.controllers)
        for node, file in files.items():
            file.write_text(whole[node], encoding="utf-8")
        quorum.start(*quorum.controllers)
        monitor.wait_for("no-leader", "resolved", within_s=90)


def test_a_check_that_knows_one_follower_of_an_old_healthy_quorum_is_unknown_and_no_page(lab: MakeLab) -> None:
    quorum = lab(controllers=3, brokers=0, static=True, version="3.7.2")
    follower = quorum.node(quorum.followers[0]).endpoint

    shown = kraftwatch("check", "--cluster", f"{NAME}={follower}", "--json")

    (finding,) = json.loads(shown.stdout)["findings"]
    assert (shown.exit_code, finding["rule"]) == (3, "monitor-blind"), shown.stdout
    assert finding["remedy"][0].startswith(f"# Add the address of controller {quorum.leader} to bootstrap")


def test_a_check_that_begins_while_there_is_no_leader_says_so_although_a_configured_name_is_gone(lab: MakeLab) -> None:
    """The controller that is left names the former leader, at an address that refuses connections."""
    quorum = lab(controllers=3, brokers=0)
    places = ",".join([*(quorum.node(node).endpoint for node in quorum.controllers), "gone.invalid:9093"])
    other, left = quorum.followers
    quorum.kill(quorum.leader, other)

    shown = kraftwatch("check", "--cluster", f"{NAME}={places}", "--json")
    (finding,) = json.loads(shown.stdout)["findings"]
    assert (shown.exit_code, finding["rule"]) == (2, "no-leader"), shown.stdout

    quorum.kill(left)
    shown = kraftwatch("check", "--cluster", f"{NAME}={places}", "--json")
    (finding,) = json.loads(shown.stdout)["findings"]
    assert (shown.exit_code, finding["rule"]) == (2, "no-leader"), shown.stdout
    assert finding["summary"].startswith("No leader is known: the configured controllers at ")


def test_a_leader_is_missed_at_other_names_than_the_recorded_ones(lab: MakeLab, tmp_path: Path) -> None:
    """The monitor cannot resolve the recorded names, and each controller answers at another address.

    The follower that is left names the dead leader: only what is at the other addresses shows that none leads.
    """
    quorum = lab(controllers=3, brokers=0, named=True)
    addresses = [f"127.0.0.1:{quorum.node(node).controller_port}" for node in quorum.controllers]
    lost = (quorum.leader, quorum.followers[0])
    with run_gatherer(tmp_path, cluster_of(quorum, bootstrap=addresses, resolve={})) as gatherer:
        monitor = monitored_cluster_of(quorum, gatherer)
        monitor.start_scenario({"no-leader.hold": 5})
        ids = {*quorum.controllers}
        monitor.wait_for_quorum(lambda seen: {one.node for one in seen.leader_views.values()} == ids)

        quorum.kill(*lost)
        missing = monitor.wait_for("no-leader", within_s=60)
        refusing = " and ".join(f"127.0.0.1:{quorum.node(node).controller_port}" for node in sorted(lost))
        down = f"Controllers {min(lost)} and {max(lost)} refuse connections at {refusing}, where they answered before."
        assert down in missing.summary

        quorum.start(*lost)
        monitor.wait_for("no-leader", "resolved", within_s=90)
