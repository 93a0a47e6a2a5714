"""What Kafka's documentation says how to do, on a real quorum: no procedure is reported, whatever is restarted for it.

The scripts of tests/scripts/procedures do the same for hours of simulated time, and with the holds of all rules.
"""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from rules.evaluate import evaluate
from rules.facts.quorum import Facts
from tests.eventually import eventually
from tests.faults import OBSERVER_ADDED
from tests.job.conftest import await_fetches_of_all_voters
from tests.kafka.conftest import MakeLab
from tests.kafka.gatherer_run import cluster_of, run_gatherer
from tests.kafka.lab_helpers import endpoint_of
from tests.kafka.monitored_cluster import MonitoredCluster, monitored_cluster_of
from tests.lab import Lab
from tests.lab_certificate_authority import LabCertificateAuthority
from tests.lab_security import SCRAM

pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.timeout(1800)]
OLD, NEW = "4.3.1", "4.4.0"
USER = "kraftwatch"


@pytest.fixture
def lab(lab: MakeLab) -> Lab:
    """A quorum for each procedure: several of them within a quarter of an hour restart a node too often."""
    return lab(controllers=3, brokers=2, version=OLD)


@pytest.fixture
def monitor(lab: Lab, tmp_path: Path) -> Iterator[MonitoredCluster]:
    with run_gatherer(tmp_path / "monitor", cluster_of(lab)) as gatherer:
        yield monitored_cluster_of(lab, gatherer)


def leader_last(lab: Lab) -> list[int]:
    """The controllers, in the order in which they are restarted."""
    return [*lab.followers, lab.leader]


def restart(lab: Lab, *nodes: int, change: Callable[[int], object] = lambda _: None) -> None:
    """Restarts nodes one after the other, and changes something of each while it is stopped."""
    for node in nodes:
        lab.stop(node)
        change(node)
        lab.start(node)
        await_fetches_of_all_voters(lab)


def require_nothing_reported(monitor: MonitoredCluster) -> None:
    """Nothing has fired, and after a moment there is not even a finding that waits for its hold."""

    def nothing_is_found() -> None:
        monitor.wait_until_observed()
        found = evaluate(Facts(monitor.machine.quorum()), monitor.monitor.settings.thresholds).findings
        assert [(one.rule, one.subject, one.summary) for one in found] == []

    eventually(nothing_is_found, within_s=60)
    assert monitor.alert_lines() == []


def test_rolling_restart(lab: Lab, monitor: MonitoredCluster) -> None:
    restart(lab, *leader_last(lab), *lab.brokers)
    require_nothing_reported(monitor)


def test_new_disks_one_controller_after_the_other(lab: Lab, monitor: MonitoredCluster) -> None:
    for node in leader_last(lab):
        lab.remove_controller(node)
        lab.stop(node)
        lab.wipe_disk(node)
        lab.start(node)
        lab.add_controller(node)
        require_nothing_reported(monitor)


def test_five_controllers_instead_of_three(lab: Lab, monitor: MonitoredCluster) -> None:
    for _ in range(2):
        (new,) = OBSERVER_ADDED.nodes(lab)
        OBSERVER_ADDED.inject(lab, [new])
        lab.add_controller(new)
    require_nothing_reported(monitor)


def test_node_id_of_a_removed_controller_is_used_again(lab: Lab, monitor: MonitoredCluster) -> None:
    node = max(each for each in lab.followers)
    lab.remove_controller(node)
    lab.stop(node)
    lab.move_endpoint(node)
    lab.wipe_disk(node)
    lab.start(node)
    lab.add_controller(node)
    require_nothing_reported(monitor)


def test_endpoints_move_one_controller_after_the_other(lab: Lab, monitor: MonitoredCluster) -> None:
    def endpoint_is_recorded(node: int) -> None:
        at = lab.node(node).endpoint
        lab.await_state(lambda state: at in state.endpoints[node], what=f"the new endpoint of {node} in the record")

    *others, last = leader_last(lab)
    for node in others:
        restart(lab, node, change=lab.move_endpoint)
        endpoint_is_recorded(node)
    # A broker finds the quorum by the bootstrap servers of its start: one must still be there when the last one moves.
    restart(lab, *lab.brokers)
    restart(lab, last, change=lab.move_endpoint)
    endpoint_is_recorded(last)
    require_nothing_reported(monitor)


def test_upgrade_and_downgrade(shared_lab: MakeLab, tmp_path: Path) -> None:
    lab = shared_lab(controllers=3, brokers=2, version=OLD)
    with run_gatherer(tmp_path, cluster_of(lab)) as gatherer:
        monitor = monitored_cluster_of(lab, gatherer)
        monitor.wait_until_observed()
        for version in (NEW, OLD):
            change = partial(lab.install, version=version)
            restart(lab, *leader_last(lab), *lab.brokers, change=change)
            require_nothing_reported(monitor)


def test_password_and_certificate_authority_are_replaced(shared_lab: MakeLab, tmp_path: Path) -> None:
    lab = shared_lab(controllers=3, brokers=1, users=[USER], listeners=[SCRAM])
    security, password = lab.security, tmp_path / "password"
    lab.allow_monitoring(f"User:{USER}")
    set_password(lab, password, "first")
    options = {
        "security_protocol": "SASL_SSL",
        "ssl_cafile": str(security.ca_file),
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_plain_username": USER,
        "sasl_plain_password": {"file": str(password)},
    }
    bootstrap = [endpoint_of(node, SCRAM.name) for node in lab.layout.controllers]
    with run_gatherer(tmp_path / "monitor", cluster_of(lab, bootstrap=bootstrap, options=options)) as gatherer:
        monitor = monitored_cluster_of(lab, gatherer)
        # Each roll takes a minute here: four of them restart a node too often.
        monitor.set_thresholds({})
        monitor.wait_until_observed()
        set_password(lab, password, "second")
        restart(lab, *leader_last(lab), *lab.brokers)
        require_nothing_reported(monitor)

        # Both authorities are trusted, by the monitor too; then the certificates are replaced; then one is trusted.
        following = LabCertificateAuthority(tmp_path / "new")
        security.trust(following.file)
        for file, content in (
            (security.ca_file, security.ca_file.read_bytes() + following.file.read_bytes()),
            (security.server_file, following.issue("server").read_bytes()),
            (security.ca_file, following.file.read_bytes()),
        ):
            file.write_bytes(content)
            restart(lab, *leader_last(lab), *lab.brokers)
            require_nothing_reported(monitor)


def set_password(lab: Lab, file: Path, password: str) -> None:
    """Changes the monitor's password, and then its file."""
    lab.set_scram_password(USER, password)
    file.write_text(password, encoding="utf-8")
