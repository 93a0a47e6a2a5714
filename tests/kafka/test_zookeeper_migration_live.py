"""A migration from ZooKeeper that is finalized while a broker is in ZooKeeper mode, on a real Kafka 3.9."""

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from deploy.lab.addresses import Ports
from deploy.lab.child_process import wait_until
from deploy.lab.jars import kafka_jars
from rules.model.history import ZkMigrationState
from rules.model.quorum import Quorum
from tests.kafka.monitored_cluster import monitor_cluster
from tests.lab import Lab

pytestmark = [pytest.mark.lab, pytest.mark.live]
VERSION = "3.9.2"
BROKER = 102


@contextmanager
def java(log: Path, *arguments: str) -> Iterator[None]:
    """Runs a class of Kafka's jars until the block ends."""
    command = ["java", "-Xmx256m", "-XX:+UseSerialGC", "-cp", f"{kafka_jars(VERSION)}/*", *arguments]
    with log.open("ab") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            yield
        finally:
            process.kill()


def kafka(folder: Path, name: str, properties: Mapping[str, object]) -> tuple[Path, str, str]:
    """Returns the arguments of `java` for a broker with these properties."""
    file = folder / f"{name}.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()), encoding="utf-8")
    return folder / f"{name}.log", "kafka.Kafka", str(file)


def has_ended(quorum: Quorum) -> bool:
    return quorum.zk_migration is not None and quorum.zk_migration.state is ZkMigrationState.POST_MIGRATION


def test_a_migration_that_is_finalized_too_early_names_the_broker_until_it_runs_in_kraft_mode(tmp_path: Path) -> None:
    ports = Ports()
    zookeeper_port, data = ports.claim(), tmp_path / "data"
    zookeeper = {"zookeeper.connect": f"127.0.0.1:{zookeeper_port}"}
    migrates = {"zookeeper.metadata.migration.enable": "true"}
    common = {
        "listeners": f"PLAINTEXT://127.0.0.1:{ports.claim()}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": data,
    }
    zookeeper_mode = {**common, **zookeeper, "broker.id": BROKER}
    lab = Lab(
        tmp_path / "lab", controllers=1, brokers=0, version=VERSION, static=True, properties={**zookeeper, **migrates}
    )
    server = ("org.apache.zookeeper.server.ZooKeeperServerMain", str(zookeeper_port), str(tmp_path / "zookeeper"))
    with java(tmp_path / "zookeeper.log", *server):
        # The cluster's id is ZooKeeper's: its first broker makes it.
        with java(*kafka(tmp_path, "first", zookeeper_mode)):
            wait_until((data / "meta.properties").exists, timeout_s=90, what="the cluster's id")
        lines = (data / "meta.properties").read_text(encoding="utf-8").splitlines()
        lab.cluster_id = next(line.removeprefix("cluster.id=") for line in lines if line.startswith("cluster.id="))
        with lab, monitor_cluster(lab, tmp_path / "monitor") as monitor:
            (controller,) = lab.controllers
            quorum = {
                "controller.quorum.voters": f"{controller}@{lab.bootstrap[0]}",
                "controller.listener.names": "CONTROLLER",
            }
            monitor.start_scenario({"operation-unfinished.hold": 1})
            with java(*kafka(tmp_path, "migrating", {**zookeeper_mode, **migrates, **quorum})):
                migrating = monitor.wait_for("operation-unfinished", within_s=120)
                properties = lab.node(controller).properties_file
                text = properties.read_text(encoding="utf-8")
                lab.stop(controller)
                properties.write_text(text.replace("zookeeper.", "# zookeeper."), encoding="utf-8")
                lab.start(controller)
                monitor.wait_for_quorum(has_ended, within_s=90)
                finalized = monitor.wait_for("operation-unfinished", within_s=60)
            with java(*kafka(tmp_path, "kraft", {**common, **quorum, "node.id": BROKER, "process.roles": "broker"})):
                monitor.wait_for("operation-unfinished", "resolved", within_s=90)

    assert (migrating.severity, finalized.severity) == ("info", "critical")
    assert f"broker {BROKER} is still in ZooKeeper mode" in migrating.summary
    assert f"broker {BROKER} serves clients with outdated metadata" in finalized.summary
