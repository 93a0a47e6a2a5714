"""node-restarting: how often a node started, from the records of the log to the finding; and what is no crash loop."""

from dataclasses import replace

import pytest

from rules.model.quorum import Quorum
from streaming.replay.machine import Machine
from streaming.replay.recent_history import OF_A_NODE
from tests.unit.rules.situation import controller_start, findings, healthy, restarting, with_past
from tests.unit.streaming.replay.log_script import LogScript, again, apply, machine

RULE = "node-restarting"


def with_nodes(*controllers: int, brokers: tuple[int, ...] = ()) -> LogScript:
    """Each node has started for the first time."""
    script = LogScript()
    script.leader(1)
    for node in controllers:
        script.controller(node)
    for node in brokers:
        script.broker(node)
        script.broker_change(node, fenced=False)
    return script


def restart(script: LogScript, node: int, times: int = 1, *, every_ms: int = 100_000) -> None:
    for _ in range(times):
        script.now_ms += every_ms
        script.controller(node)


def bounce(script: LogScript, node: int, *, down_ms: int = 60_000) -> None:
    """Restarts a broker."""
    script.broker_change(node, fenced=True)
    script.now_ms += down_ms
    script.broker(node)
    script.broker_change(node, fenced=False)
    script.now_ms += 30_000


def lines(quorum: Quorum) -> list[str]:
    return [f"{one.severity} {one.subject}" for one in findings(quorum, RULE)]


def read(replay: Machine, script: LogScript) -> Quorum:
    return apply(replay, [script.read()])


@pytest.mark.parametrize(("ago_ms", "fires"), [(900_000, True), (900_001, False)])
def test_the_finding_ends_when_the_node_has_not_started_for_the_window(ago_ms: int, fires: bool) -> None:
    quorum = restarting(healthy(), 2, 3)
    assert quorum.newest_timestamp_ms is not None
    now = replace(quorum, newest_timestamp_ms=quorum.history.starts[-1].timestamp_ms + ago_ms)  # type: ignore[arg-type]
    assert bool(lines(now)) is fires


def test_a_late_start_neither_ends_the_finding_nor_counts_the_first_ones_again() -> None:
    """Ten minutes after a crash loop the node is restarted once more."""
    times = (1_500_000, 1_400_000, 1_300_000, 700_000, 300)
    starts = tuple(controller_start(2, ago_ms=ago) for ago in times)
    quorum = healthy()
    (finding,) = findings(with_past(quorum, starts=starts[:4]), RULE)
    assert finding.evidence["starts_within_the_window"] == 4
    assert lines(with_past(quorum, starts=starts)) == ["warning controller 2"]


def test_only_the_starts_within_the_window_are_counted() -> None:
    starts = tuple(controller_start(2, ago_ms=1_000 * ago) for ago in (3_000, 400, 300, 200))
    quorum = healthy()
    (finding,) = findings(with_past(quorum, starts=starts), RULE)
    assert finding.evidence["starts_within_the_window"] == 3


def test_a_controller_that_is_no_longer_registered_restarts_no_more() -> None:
    quorum = restarting(healthy(), 2, 3)
    assert lines(quorum) == ["warning controller 2"]
    left = {node: one for node, one in quorum.controllers.items() if node != 2}
    assert lines(replace(quorum, controllers=left)) == []


def test_a_broker_counts_by_its_registrations_between_fencings() -> None:
    script = with_nodes(1, 2, 3, brokers=(101, 102))
    for _ in range(3):
        bounce(script, 101, down_ms=200_000)
    (finding,) = findings(read(machine(), script), RULE)
    assert finding.subject == "broker 101"
    assert "3 starts within 15 min" in finding.summary
    assert finding.summary.endswith("Each time its partitions move to other brokers and clients reconnect.")


@pytest.mark.parametrize(("registrations", "expected"), [(2, []), (3, ["warning broker 101"])])
def test_a_broker_that_fails_before_it_is_unfenced_counts_with_each_registration(
    registrations: int, expected: list[str]
) -> None:
    """A broker registers before it loads its logs: one that fails there is fenced all the time."""
    script, replay = with_nodes(1, 2, 3, brokers=(101, 102)), machine()
    script.broker_change(101, fenced=True)
    for _ in range(registrations):
        script.now_ms += 60_000
        script.broker(101)
        read(replay, script)
    assert lines(read(again(replay.to_bytes()), script)) == expected


def test_a_node_that_is_controller_and_broker_is_one_process() -> None:
    script = with_nodes(1, 2, 3, brokers=(2,))
    for _ in range(3):
        script.controller(2)
        bounce(script, 2)
    assert lines(read(machine(), script)) == ["warning controller 2"]


def test_a_rolling_restart_an_upgrade_and_a_bounce_are_no_crash_loop() -> None:
    script, replay = with_nodes(1, 2, 3, brokers=(101, 102)), machine()
    # An upgrade that restarts each node twice.
    for node in (1, 2, 3):
        restart(script, node, 2, every_ms=40_000)
    for node in (101, 102):
        bounce(script, node)
        bounce(script, node)
    assert lines(read(replay, script)) == []
    # A quarter of an hour later a rolling restart, and then one node again.
    script.now_ms += 900_000
    for node in (1, 2, 3):
        restart(script, node, every_ms=40_000)
    for node in (101, 102):
        bounce(script, node)
    restart(script, 3)
    assert lines(read(replay, script)) == []


def test_starts_survive_a_restart_of_the_job_and_are_counted_once() -> None:
    script, replay = with_nodes(1, 2, 3), machine()
    restart(script, 2, 2)
    rows = [script.read()]
    apply(replay, rows)
    restored = again(replay.to_bytes())
    # Rows are delivered again.
    assert lines(apply(restored, rows)) == []
    restart(script, 2)
    assert lines(read(restored, script)) == ["warning controller 2"]


def test_starts_during_a_gap_count_by_the_time_in_the_log() -> None:
    script, replay = with_nodes(1, 2, 3), machine()
    read(replay, script)
    restart(script, 2, 2)
    # The gatherer was down for an hour, and reads both starts at once.
    assert lines(apply(replay, [script.read(after_ms=3_600_000)])) == []
    restart(script, 2, 1)
    assert lines(read(replay, script)) == []


def test_of_the_starts_of_a_node_the_oldest_are_forgotten() -> None:
    script = with_nodes(2)
    restart(script, 2, OF_A_NODE + 20, every_ms=5_000)
    starts = read(machine(), script).history.starts
    assert [one.offset for one in starts] == [*range(script.offset - OF_A_NODE, script.offset)]


def test_a_registration_that_is_written_again_is_no_start() -> None:
    script, replay = with_nodes(1, 2, 3), machine()
    for _ in range(5):
        one = script.controller(2)
        script.write(replace(one, at=script.at()))
        if len(read(replay, script).history.starts) >= 4:
            break
    assert [one.id for one in replay.quorum().history.starts] == [1, 2, 3, 2]


def test_a_snapshot_adds_no_start() -> None:
    script, replay = with_nodes(1, 2, 3), machine()
    restart(script, 2, 2)
    read(replay, script)
    records = [script.controller(node) for node in (1, 2, 3)]
    script.events.clear()
    script.noops(9)
    assert lines(apply(replay, script.snapshot(records))) == []


def test_one_node_displaces_no_start_of_another() -> None:
    script, replay = with_nodes(1, 2, 3), machine()
    restart(script, 3)
    restart(script, 2, OF_A_NODE + 20, every_ms=5_000)
    known = [one.id for one in read(replay, script).history.starts]
    assert (known.count(1), known.count(2), known.count(3)) == (1, OF_A_NODE, 2)  # type: ignore[arg-type]
