"""Operations on a lab that only tests need."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from deploy.lab.addresses import Ports
from deploy.lab.jars import KAFKA_VERSION, kafka_jars
from deploy.lab.node import Node, format_disk, new_uuid, write_ids
from tests.lab import Lab


def add_log_directory(lab: Lab, broker: int) -> Node:
    """Restarts a broker with a second, empty log directory; returns the node with it as its data."""
    node = lab.node(broker)
    lab.stop(broker)
    second = second_log_directory(node)
    use_log_directory(node, second)
    lab.start(broker)
    return second


def second_log_directory(node: Node) -> Node:
    """Formats a second, empty log directory for a broker; returns the node with it as its data."""
    second = replace(node, disk=node.folder / "second", process=None)
    second.data.mkdir(parents=True)
    (second.data / "meta.properties").write_bytes((node.data / "meta.properties").read_bytes())
    write_ids(second, directory_id=new_uuid())
    return second


def use_log_directory(node: Node, second: Node) -> None:
    """Adds a second log directory to the configuration of a broker."""
    text = node.properties_file.read_text(encoding="utf-8")
    both = f"log.dirs={node.data},{second.data}\nmetadata.log.dir={node.data}\n"
    node.properties_file.write_text(text.replace(f"log.dirs={node.data}\n", both), encoding="utf-8")


def compiled_policy(folder: Path) -> Path:
    """Compiles the policy for new topics that waits while a file exists; returns the folder with its class."""
    classes = folder / "classes"
    source = Path(__file__).with_name("WaitingPolicy.java")
    subprocess.run(["javac", "-cp", f"{kafka_jars(KAFKA_VERSION)}/*", "-d", str(classes), str(source)], check=True)
    return classes


@contextmanager
def second_process(lab: Lab, node: Node, folder: Path) -> Iterator[Node]:
    """Runs a second process with the id of a controller: its configuration was copied, with another port and disk."""
    ports = Ports()
    copied = replace(node, folder=folder, controller_port=ports.claim(), process=None)
    copied.configure(lab.layout.quorum, lab.node_properties())
    format_disk(lab.jvm, copied, lab.cluster_id, initial=())
    copied.launch(lab.jvm, supervised=True)
    try:
        yield copied
    finally:
        copied.running_process().kill()


def endpoint_of(node: Node, listener: str) -> str:
    """Returns HOST:PORT of one of a controller's additional listeners."""
    return next(f"{node.host}:{port}" for one, port in node.listeners if one.name == listener)
