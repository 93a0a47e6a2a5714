"""Operations on a lab that only tests need."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from deploy.lab.addresses import Ports
from deploy.lab.node import Node, format_disk, new_uuid, write_ids
from tests.lab import Lab


def start_new_controller(lab: Lab) -> int:
    """Adds a controller that is formatted without initial controllers, starts it and returns its id: an observer."""
    assert not lab.static, "a static quorum lists its voters in every configuration"
    node = lab.layout.add_controller()
    format_disk(lab.jvm, node, lab.cluster_id, initial=())
    lab.start(node.id)
    lab.await_observer(node)
    return node.id


def add_log_directory(lab: Lab, broker: int) -> Node:
    """Restarts a broker with a second, empty log directory; returns the node with it as its data."""
    node = lab.node(broker)
    lab.stop(broker)
    second = replace(node, disk=node.folder / "second", process=None)
    second.data.mkdir(parents=True)
    (second.data / "meta.properties").write_bytes((node.data / "meta.properties").read_bytes())
    write_ids(second, directory_id=new_uuid())
    text = node.properties_file.read_text(encoding="utf-8")
    both = f"log.dirs={node.data},{second.data}\nmetadata.log.dir={node.data}\n"
    node.properties_file.write_text(text.replace(f"log.dirs={node.data}\n", both), encoding="utf-8")
    lab.start(broker)
    return second


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
