"""How many partitions the brokers that are not alive hold and lead, across changes and restarts."""

from rules.model.identifiers import NodeId
from rules.model.quorum import Quorum
from streaming.replay.machine import Machine
from tests.scripts.log_commands import append
from tests.scripts.log_script import LogScript, again, apply, begun


def three_brokers() -> tuple[LogScript, Machine]:
    script, replay = begun()
    for node in (101, 102, 103):
        script.broker(node, fenced=False)
    script.topic("orders")
    for number in range(30):
        script.partition("orders", number, 101, 102)
    return script, replay


def down(quorum: Quorum) -> dict[int, tuple[int, int, int]]:
    return {node: (one.replicas, one.leads, len(one.examples)) for node, one in quorum.brokers_down.items()}


def test_only_brokers_that_are_not_alive_or_shut_down_are_counted() -> None:
    script, replay = three_brokers()
    assert down(apply(replay, [script.read()])) == {}

    append(script, "shut-down 101")
    assert down(apply(replay, [script.read()])) == {101: (30, 30, 0)}
    append(script, "fence 103")
    append(script, "fence 102")
    assert down(apply(replay, [script.read()])) == {101: (30, 30, 0), 102: (30, 0, 0)}


def test_examples_are_of_partitions_that_a_broker_leads_and_else_of_its_replicas() -> None:
    script, replay = three_brokers()
    apply(replay, [script.read()])
    append(script, "fence 101")
    quorum = apply(replay, [script.read()])
    assert down(quorum) == {101: (30, 30, 20)}

    restored = again(replay.to_bytes())
    assert down(restored.quorum()) == down(quorum)
    for number in range(30):
        script.change("orders", number, leader=102, isr=(102,))
    assert down(apply(restored, [script.read()])) == {101: (30, 0, 0)}
    append(script, "unregister 101")
    assert down(apply(restored, [script.read()])) == {101: (30, 0, 20)}
    for number in range(29):
        script.change("orders", number, replicas=(102, 103))
    quorum = apply(restored, [script.read()])
    assert quorum.brokers_down[NodeId(101)].replicas == 1
    script.remove_topic("orders")
    assert down(apply(restored, [script.read()])) == {}


def test_a_snapshot_shows_a_broker_that_was_never_registered() -> None:
    script, replay = three_brokers()
    script.partition("orders", 0, 101, 109)
    rows = script.snapshot(script.written)
    script.events = []
    assert down(apply(replay, rows)) == {109: (1, 0, 1)}
