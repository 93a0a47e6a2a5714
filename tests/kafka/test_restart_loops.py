"""A broker that ends at each start, on a real quorum: its port is taken by another process."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.eventually import eventually
from tests.kafka.conftest import MakeLab
from tests.kafka.monitored_cluster import monitor_cluster

pytestmark = [pytest.mark.lab, pytest.mark.long, pytest.mark.timeout(600)]


def test_a_broker_that_ends_at_each_start_is_found_by_its_registrations(lab: MakeLab, tmp_path: Path) -> None:
    quorum = lab(controllers=3, brokers=1)
    (broker,) = quorum.brokers
    node = quorum.node(broker)
    assert node.broker_port is not None

    with monitor_cluster(quorum, tmp_path) as monitor:
        # The pace does not count: nothing is within the window. Each time the broker is unfenced before it fails.
        monitor.start_scenario({"node-restarting.slow_starts": 3, "node-restarting.window": 0.001})
        quorum.kill(broker)
        with taken(node.broker_port):
            for _ in range(4):
                quorum.start(broker, wait=False)
                eventually(lambda: not node.running, within_s=60)
            fired = monitor.wait_for("node-restarting", subject=f"broker {broker}")
        quorum.start(broker)

    assert "restarts again and again: 3 starts since" in fired.summary


@contextmanager
def taken(port: int) -> Iterator[None]:
    """Listens at a port that a broker has used."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen()
        yield
