"""Nodes that end at each start, on a real quorum: a broker's port is taken, a controller's version is too old."""

import re
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from connectors.witness.dial import Attempts, witness
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


@pytest.mark.parametrize("old", [1, 2], ids=["one", "a majority"])
def test_controllers_of_a_version_before_the_finalized_features_are_told_from_ones_that_are_down(
    lab: MakeLab, tmp_path: Path, old: int
) -> None:
    """They end within seconds of each start, and accept connections at few of the starts, for a fifth of a second."""
    quorum = lab(controllers=3, brokers=0)
    voters = quorum.followers[:old]

    with monitor_cluster(quorum, tmp_path) as monitor:
        monitor.start_scenario({"node-restarting.starts": 3})
        quorum.stop(*voters)
        for voter in voters:
            quorum.install(voter, "4.3.1")
        with quorum.supervised(*voters):
            fired = [
                monitor.wait_for("node-restarting", subject=f"controller {voter}", within_s=180) for voter in voters
            ]

    if old == 2:
        # The leader may stay: each of them fetches for a moment before it ends.
        assert any("too few voters stay for a majority" in alert.summary for alert in fired)
    for voter, alert in zip(voters, fired, strict=True):
        assert "Each time its endpoint refused connections before. It has not registered since" in alert.summary
        log = quorum.node(voter).log_file.read_text(encoding="utf-8")
        assert "only supports versions" in log or "No MetadataVersion with feature level" in log


def test_a_controller_that_ends_before_it_listens_is_found_by_its_host(lab: MakeLab, tmp_path: Path) -> None:
    quorum = lab(controllers=3, brokers=0)
    node = quorum.node(quorum.followers[0])
    text = node.properties_file.read_text(encoding="utf-8")

    with monitor_cluster(quorum, tmp_path) as monitor:

        def reported(rule: str) -> None:
            began = time.monotonic()
            row = witness(node.properties_file, timeout_s=2.0, attempts=Attempts())
            took_ms = round((time.monotonic() - began) * 1_000)
            monitor.gatherer.report(replace(row, every_ms=10_000, took_ms=took_ms))
            assert rule in monitor.rules, monitor.alert_lines()

        monitor.start_scenario({"node-restarting.starts": 3})
        with pytest.raises(AssertionError):
            reported("node-restarting")
        quorum.stop(node.id)
        node.properties_file.write_text(re.sub(r"(?m)^num.io.threads=.*$", "num.io.threads=none", text))
        with quorum.supervised(node.id):
            eventually(lambda: reported("node-restarting"), within_s=180)
        node.properties_file.write_text(text)
        quorum.start(node.id)
        monitor.set_thresholds({"node-restarting.starts": 3, "node-restarting.window": 0.001})
        monitor.wait_for("node-restarting", "resolved", subject=f"controller {node.id}")

    (fired, *_) = [each for each in monitor.alerts if each.rule == "node-restarting"]
    assert fired.subject == f"controller {node.id}"
    assert "Its host saw each of these processes; its endpoint accepted connections less often. " in fired.summary


def test_brokers_that_are_restarted_in_turn_without_an_end(lab: MakeLab, tmp_path: Path) -> None:
    """Each restart is clean, as by an operator: a controlled shutdown, and the next when the broker serves again."""
    quorum = lab(controllers=1, brokers=2)

    with monitor_cluster(quorum, tmp_path) as monitor:
        monitor.start_scenario({"restarts-without-end.rounds": 3, "restarts-without-end.pause": 60})
        for broker in (*quorum.brokers * 3, quorum.brokers[0]):
            assert "restarts-without-end" not in monitor.rules
            quorum.stop(broker)
            quorum.start(broker)
            monitor.wait_for_quorum(lambda seen: all(one.alive for one in seen.brokers.values()))
        fired = monitor.wait_for("restarts-without-end")
        monitor.set_thresholds({"restarts-without-end.rounds": 3, "restarts-without-end.pause": 1})
        monitor.wait_for("restarts-without-end", "resolved", within_s=90)
        rules = monitor.rules

    assert (fired.severity, fired.subject) == ("warning", "nodes")
    assert fired.summary.startswith("Restarts in turn do not come to an end: both brokers 3 times since ")
    assert rules == {"restarts-without-end"}


@contextmanager
def taken(port: int) -> Iterator[None]:
    """Listens at a port that a broker has used."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen()
        yield
