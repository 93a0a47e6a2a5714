"""Operations on a lab that only tests need."""

from deploy.lab.node import Node, format_disk
from tests.lab import Lab


def start_new_controller(lab: Lab) -> int:
    """Adds a controller that is formatted without initial controllers, starts it and returns its id: an observer."""
    assert not lab.static, "a static quorum lists its voters in every configuration"
    node = lab.layout.add_controller()
    format_disk(lab.jvm, node, lab.cluster_id, initial=())
    lab.start(node.id)
    lab.await_observer(node)
    return node.id


def endpoint_of(node: Node, listener: str) -> str:
    """Returns HOST:PORT of one of a controller's additional listeners."""
    return next(f"{node.host}:{port}" for one, port in node.listeners if one.name == listener)
