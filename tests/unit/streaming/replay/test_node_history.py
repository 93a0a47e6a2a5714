"""The history of a node's processes: its starts, its fencings, and two processes that register in turn."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from rules.model.history import NodeKind, RecentHistory
from rules.model.membership import BrokerRegistration, ControllerRegistration
from streaming.replay.machine import Machine
from streaming.replay.recent_history import OF_A_NODE
from tests.scripts.log_script import LogScript, again, apply, ids, machine


def with_nodes(*controllers: int, brokers: Iterable[int] = ()) -> LogScript:
    """Each node has started for the first time."""
    script = LogScript()
    script.leader(1)
    for node in controllers:
        script.controller(node)
    for node in brokers:
        script.broker(node)
        script.broker_change(node, fenced=False)
    return script


def read(replay: Machine, script: LogScript) -> RecentHistory:
    return apply(replay, [script.read()]).history


def restart(script: LogScript, node: int, times: int = 1, *, every_ms: int = 100_000) -> None:
    for _ in range(times):
        script.now_ms += every_ms
        script.controller(node)


def flap(script: LogScript, node: int, times: int) -> None:
    """Fences the broker so many times, for two seconds each."""
    for _ in range(times):
        script.broker_change(node, fenced=True)
        script.now_ms += 2_000
        script.broker_change(node, fenced=False)
        script.now_ms += 3_000


def test_starts_survive_a_restart_of_the_job_and_are_counted_once() -> None:
    script, replay = with_nodes(1, 2, 3), machine()
    restart(script, 2, 2)
    rows = [script.read()]
    apply(replay, rows)
    restored = again(replay.to_bytes())
    # Rows are delivered again.
    assert [one.id for one in apply(restored, rows).history.starts] == [1, 2, 3, 2, 2]
    restart(script, 2)
    assert [one.id for one in read(restored, script).starts] == [1, 2, 3, 2, 2, 2]


def test_starts_during_a_gap_have_the_time_of_the_log() -> None:
    script, replay = with_nodes(1, 2, 3), machine()
    read(replay, script)
    restart(script, 2, 2)
    at_ms = script.now_ms
    # The gatherer was down for an hour, and reads both starts at once.
    starts = apply(replay, [script.read(after_ms=3_600_000)]).history.starts
    assert [one.timestamp_ms for one in starts[-2:]] == [at_ms - 100_000, at_ms]


def test_of_the_starts_of_a_node_the_oldest_are_forgotten() -> None:
    script = with_nodes(2)
    restart(script, 2, OF_A_NODE + 20, every_ms=5_000)
    starts = read(machine(), script).starts
    assert [one.offset for one in starts] == [*range(script.offset - OF_A_NODE, script.offset)]


def test_one_node_displaces_no_start_of_another() -> None:
    script = with_nodes(1, 2, 3)
    restart(script, 3)
    restart(script, 2, OF_A_NODE + 20, every_ms=5_000)
    known = [one.id for one in read(machine(), script).starts]
    assert known == [*ids(1, 3, 3), *ids(2) * OF_A_NODE]


def test_a_registration_that_is_written_again_is_no_start() -> None:
    script = with_nodes(1, 2, 3)
    one = script.controller(2)
    script.write(replace(one, at=script.at()))
    assert [each.id for each in read(machine(), script).starts] == [1, 2, 3, 2]


def test_a_snapshot_adds_no_start() -> None:
    script, replay = with_nodes(1, 2, 3), machine()
    restart(script, 2, 2)
    known = read(replay, script).starts
    records = [script.controller(node) for node in (1, 2, 3)]
    script.events.clear()
    script.noops(9)
    assert apply(replay, script.snapshot(records)).history.starts == known


def test_starts_of_a_broker_that_a_snapshot_has_as_fenced_are_known() -> None:
    script, replay = with_nodes(1, 2, 3), machine()
    first = script.broker(101)
    script.noops(9)
    apply(replay, script.snapshot([first]))
    starts = [script.broker(101) for _ in range(3)]
    (one,) = read(replay, script).interruptions
    assert one.offset == starts[0].at.offset
    assert [offset for offset, _ in one.further_starts] == [later.at.offset for later in starts[1:]]


def test_rolling_restarts_by_controlled_shutdown_are_announced_restarts() -> None:
    script = with_nodes(brokers=(101, 102))
    for node in (101, 102, 101, 102):
        script.broker_change(node, shutdown=True)
        script.broker_change(node, fenced=True)
        script.now_ms += 10_000
        script.broker(node)
        script.broker_change(node, fenced=False)
    interruptions = read(machine(), script).interruptions
    assert [(one.id, one.announced, one.restarted) for one in interruptions] == [
        (node, True, True) for node in ids(101, 102, 101, 102)
    ]


@pytest.mark.parametrize("announced", [False, True])
def test_a_process_that_registers_again_before_it_is_fenced_is_a_fencing(announced: bool) -> None:
    """Kafka fences the former incarnation by the registration of the next one."""
    script = with_nodes(brokers=(101,))
    if announced:
        script.broker_change(101, shutdown=True)
    script.broker(101)
    end = script.broker_change(101, fenced=False)
    (one,) = read(machine(), script).interruptions
    assert (one.announced, one.restarted, one.ended_offset) == (announced, True, end.at.offset)


def test_fencings_survive_a_restart_and_a_snapshot_adds_none() -> None:
    script, replay = with_nodes(brokers=(101,)), machine()
    flap(script, 101, 3)
    read(replay, script)
    restored = again(replay.to_bytes())
    flap(script, 101, 1)
    assert len(read(restored, script).interruptions) == 4

    records = [script.broker(101, fenced=True)]
    script.events.clear()
    script.noops(9)
    assert len(apply(restored, script.snapshot(records)).history.interruptions) == 4


def test_a_broker_that_is_fenced_often_displaces_no_fencing_of_another() -> None:
    script = with_nodes(brokers=(101, 102))
    flap(script, 102, 1)
    flap(script, 101, OF_A_NODE + 20)
    assert [one.id for one in read(machine(), script).interruptions] == [*ids(102), *ids(101) * OF_A_NODE]


def registered(script: LogScript, role: str) -> ControllerRegistration | BrokerRegistration:
    """Writes the registration of a new process of node 2; the controller unfences a broker."""
    if role == "controller":
        return script.controller(2)
    registration = script.broker(2)
    script.broker_change(2, fenced=False)
    return registration


@pytest.mark.parametrize("node", ["controller", "broker"])
def test_a_process_that_registers_again_after_its_successor_is_a_second_one(node: str) -> None:
    script = LogScript()
    script.leader(1)
    first = registered(script, node)
    script.now_ms += 5_000
    second = registered(script, node)
    replay = machine()
    assert read(replay, script).double_registrations == ()
    # The job is started again in between.
    replay = again(replay.to_bytes())
    for one in (first, second, first):
        script.now_ms += 5_000
        script.write(replace(one, at=script.at()))
        script.broker_change(2, fenced=False)
    history = read(replay, script)

    (found,) = history.double_registrations
    assert (found.kind, found.id, found.returns) == (NodeKind(node), 2, 3)
    assert (found.endpoints, found.other_endpoints) == (first.endpoints, second.endpoints)
    assert found.timestamp_ms - found.first_timestamp_ms == 10_000
    # They alternate, and none of them started again.
    assert [one.id for one in history.starts] == ([2, 2] if node == "controller" else [])


def test_a_controller_and_a_broker_of_one_id_that_are_doubled_are_two_entries() -> None:
    script = LogScript()
    script.leader(1)
    pairs = [[registered(script, role) for _ in range(2)] for role in ("controller", "broker")]
    for pair in (*pairs, *pairs):
        for one in pair:
            script.write(replace(one, at=script.at()))
            script.broker_change(2, fenced=False)
    found = read(machine(), script).double_registrations
    assert [(one.kind, one.id, one.returns) for one in found] == [
        (NodeKind.CONTROLLER, 2, 4),
        (NodeKind.BROKER, 2, 4),
    ]
