"""broker-flapping: how often a broker was fenced, from the records of the log to the finding."""

import pytest

from rules.model.quorum import Quorum
from streaming.replay.machine import Machine
from streaming.replay.recent_history import OF_A_NODE
from tests.unit.rules.situation import findings
from tests.unit.streaming.replay.log_script import LogScript, again, apply, ids, machine

RULE = "broker-flapping"


def with_brokers(*nodes: int) -> LogScript:
    script = LogScript()
    script.leader(1)
    for node in nodes:
        script.broker(node)
        script.broker_change(node, fenced=False)
    return script


def flap(script: LogScript, node: int, times: int, *, every_ms: int = 30_000, restart: bool = False) -> None:
    """Fences the broker this many times, for two seconds each."""
    for _ in range(times):
        script.broker_change(node, fenced=True)
        script.now_ms += 2_000
        if restart:
            script.broker(node)
        script.broker_change(node, fenced=False)
        script.now_ms += every_ms - 2_000


def lines(quorum: Quorum) -> list[str]:
    return [f"{one.severity} {one.subject}" for one in findings(quorum, RULE)]


def read(replay: Machine, script: LogScript) -> Quorum:
    return apply(replay, [script.read()])


def test_the_finding_ends_when_the_fencings_leave_the_window() -> None:
    script, replay = with_brokers(101), machine()
    flap(script, 101, 5)
    assert lines(read(replay, script)) == ["warning broker 101"]
    # Of the five fencings, at most three are left.
    script.now_ms += 900_000 - 5 * 30_000 + 45_000
    script.noops(1)
    assert lines(read(replay, script)) == []


def test_two_rolling_restarts_by_controlled_shutdown_are_not_flapping() -> None:
    script, replay = with_brokers(*range(101, 106)), machine()
    for _ in range(2):
        for node in range(101, 106):
            script.broker_change(node, shutdown=True)
            script.broker_change(node, fenced=True)
            script.now_ms += 10_000
            script.broker(node)
            script.broker_change(node, fenced=False)
    quorum = read(replay, script)

    assert lines(quorum) == []
    assert len(quorum.history.interruptions) == 10
    assert {(one.announced, one.restarted) for one in quorum.history.interruptions} == {(True, True)}


@pytest.mark.parametrize("fenced_now", [False, True])
def test_a_broker_that_restarts_each_time_is_reported_once_as_restarting(fenced_now: bool) -> None:
    script = with_brokers(101)
    flap(script, 101, 5, restart=True)
    if fenced_now:
        # Whether its process restarts is known when it is back.
        script.broker_change(101, fenced=True)
    quorum = read(machine(), script)

    assert lines(quorum) == []
    (finding,) = findings(quorum, "node-restarting")
    assert (finding.subject, finding.evidence["starts_within_the_window"]) == ("broker 101", 5)


def test_a_process_that_registers_again_before_it_is_fenced_is_a_fencing() -> None:
    """Kafka fences the former incarnation by the registration of the next one."""
    script, replay = with_brokers(101), machine()
    for _ in range(4):
        script.broker(101)
        script.broker_change(101, fenced=False)
    quorum = read(replay, script)

    assert all(one.restarted and one.ended_offset for one in quorum.history.interruptions)
    assert [one.subject for one in findings(quorum, "node-restarting")] == ["broker 101"]


def test_a_process_that_registers_again_after_a_controlled_shutdown_was_announced() -> None:
    script = with_brokers(101)
    script.broker_change(101, shutdown=True)
    script.broker(101)
    (one,) = read(machine(), script).history.interruptions
    assert one.announced


def test_fencings_survive_a_restart_and_a_snapshot_adds_none() -> None:
    script, replay = with_brokers(101), machine()
    flap(script, 101, 3)
    read(replay, script)
    restored = again(replay.to_bytes())
    flap(script, 101, 1)
    assert lines(read(restored, script)) == ["warning broker 101"]

    records = [script.broker(101, fenced=True)]
    script.events.clear()
    script.noops(9)
    assert len(apply(restored, script.snapshot(records)).history.interruptions) == 4


def test_a_flapping_broker_displaces_no_fencing_of_another() -> None:
    script, replay = with_brokers(101, 102), machine()
    flap(script, 102, 1)
    flap(script, 101, OF_A_NODE + 20, every_ms=5_000)
    known = read(replay, script).history.interruptions

    assert [one.id for one in known] == [*ids(102), *ids(101) * OF_A_NODE]
