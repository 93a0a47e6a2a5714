"""node-restarting, broker-flapping and duplicate-node-id: the processes of a node, from the records to the finding."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from rules.model.history import NodeKind
from rules.model.identifiers import ReplicaKey
from rules.model.membership import BrokerRegistration, ControllerRegistration
from rules.model.quorum import Quorum
from streaming.replay.machine import Machine
from streaming.replay.recent_history import OF_A_NODE
from tests.unit.rules.situation import (
    came_back,
    controller_start,
    findings,
    healthy,
    key,
    observer,
    present,
    registered_twice,
    restarting,
    voter_not_fetching,
    with_past,
    with_poll,
)
from tests.unit.streaming.replay.log_script import LogScript, again, apply, ids, machine

RESTARTING, FLAPPING, DUPLICATE = "node-restarting", "broker-flapping", "duplicate-node-id"


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


def lines(rule: str, quorum: Quorum) -> list[str]:
    return [f"{one.severity} {one.subject}" for one in findings(quorum, rule)]


def read(replay: Machine, script: LogScript) -> Quorum:
    return apply(replay, [script.read()])


# Restarts.


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


@pytest.mark.parametrize(("ago_ms", "fires"), [(900_000, True), (900_001, False)])
def test_the_finding_ends_when_the_node_has_not_started_for_the_window(ago_ms: int, fires: bool) -> None:
    quorum = restarting(healthy(), 2, 3)
    assert quorum.newest_timestamp_ms is not None
    now = replace(quorum, newest_timestamp_ms=quorum.history.starts[-1].timestamp_ms + ago_ms)  # type: ignore[arg-type]
    assert bool(lines(RESTARTING, now)) is fires


def test_a_late_start_neither_ends_the_finding_nor_counts_the_first_ones_again() -> None:
    """Ten minutes after a crash loop the node is restarted once more."""
    times = (1_500_000, 1_400_000, 1_300_000, 700_000, 300)
    starts = tuple(controller_start(2, ago_ms=ago) for ago in times)
    quorum = healthy()
    (finding,) = findings(with_past(quorum, starts=starts[:4]), RESTARTING)
    assert finding.evidence["starts"] == 4
    assert lines(RESTARTING, with_past(quorum, starts=starts)) == ["warning controller 2"]


def test_only_the_starts_within_the_window_are_counted() -> None:
    starts = tuple(controller_start(2, ago_ms=1_000 * ago) for ago in (3_000, 400, 300, 200))
    quorum = healthy()
    (finding,) = findings(with_past(quorum, starts=starts), RESTARTING)
    assert finding.evidence["starts"] == 3


def test_a_controller_that_is_no_longer_registered_restarts_no_more() -> None:
    quorum = restarting(healthy(), 2, 3)
    assert lines(RESTARTING, quorum) == ["warning controller 2"]
    left = {node: one for node, one in quorum.controllers.items() if node != 2}
    assert lines(RESTARTING, replace(quorum, controllers=left)) == []


def test_a_broker_counts_by_its_registrations_between_fencings() -> None:
    script = with_nodes(1, 2, 3, brokers=(101, 102))
    for _ in range(3):
        bounce(script, 101, down_ms=200_000)
    (finding,) = findings(read(machine(), script), RESTARTING)
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
    assert lines(RESTARTING, read(again(replay.to_bytes()), script)) == expected


@pytest.mark.parametrize("known_from", ["its first registration", "a snapshot"])
def test_a_broker_that_ends_at_each_start_is_found_at_any_pace(known_from: str) -> None:
    """The log shows no fencing: the broker has never served, or had been fenced before the snapshot."""
    script, replay = with_nodes(1, 2, 3), machine()
    first = script.broker(101)
    if known_from == "a snapshot":
        script.noops(9)
        apply(replay, script.snapshot([first]))
    for _ in range(2):
        script.now_ms += 9_000_000
        script.broker(101)
    assert lines(RESTARTING, read(replay, script)) == []
    script.now_ms += 9_000_000
    script.broker(101)
    quorum = read(replay, script)
    (finding,) = findings(quorum, RESTARTING)
    assert finding.subject == "broker 101"
    assert "It was not unfenced in between: it ends at each start." in finding.summary
    script.now_ms += 18_100_000
    script.noops(1)
    assert lines(RESTARTING, read(replay, script)) == []


def loops(script: LogScript, *nodes: int, times: int, every_ms: int, apart_ms: int = 60_000) -> None:
    """Restarts each of these controllers so often, one shortly after the other."""
    for _ in range(times):
        for node in nodes:
            script.now_ms += apart_ms
            script.controller(node)
        script.now_ms += every_ms - len(nodes) * apart_ms


MINUTE = 60_000


@pytest.mark.parametrize(
    ("nodes", "times", "every", "expected"),
    [
        # One controller, or two of three: a planned restart would restart all.
        ((2,), 4, 8, [2]),
        ((2,), 3, 8, []),
        ((2,), 4, 180, [2]),
        ((2, 3), 5, 20, [2, 3]),
        # Rolling restarts.
        ((2, 3, 1), 2, 60, []),
        ((2, 3, 1), 5, 60, []),
        ((2, 3, 1), 4, 30, []),
        # Nobody restarts all of them so often.
        ((2, 3, 1), 6, 8, [1, 2, 3]),
        ((2, 3, 1), 14, 20, [1, 2, 3]),
        ((2, 3, 1), 11, 60, []),
        ((2, 3, 1), 12, 60, [1, 2, 3]),
    ],
)
def test_a_slow_loop_is_told_from_planned_restarts(
    nodes: tuple[int, ...], times: int, every: int, expected: list[int]
) -> None:
    script = with_nodes(1, 2, 3)
    script.now_ms += 60 * MINUTE
    loops(script, *nodes, times=times, every_ms=every * MINUTE)
    assert lines(RESTARTING, read(machine(), script)) == [f"warning controller {node}" for node in expected]


def test_a_restart_long_after_a_loop_is_none() -> None:
    script, replay = with_nodes(1, 2, 3), machine()
    loops(script, 2, times=8, every_ms=8 * MINUTE)
    assert lines(RESTARTING, read(replay, script)) == ["warning controller 2"]
    script.now_ms += 60 * MINUTE
    script.controller(2)
    assert lines(RESTARTING, read(replay, script)) == []


@pytest.mark.parametrize(("planned", "expected"), [(True, []), (False, ["warning broker 101"])])
def test_a_broker_that_is_shut_down_each_time_is_restarted_on_purpose(planned: bool, expected: list[str]) -> None:
    script = with_nodes(1, 2, 3, brokers=(101, 102))
    for _ in range(6):
        if planned:
            script.broker_change(101, shutdown=True)
        bounce(script, 101)
        script.now_ms += 8 * MINUTE
    assert lines(RESTARTING, read(machine(), script)) == expected


@pytest.mark.parametrize(("ran_ms", "expected"), [(299_000, ["warning broker 101"]), (300_000, [])])
def test_a_broker_that_shuts_itself_down_soon_after_each_start_was_not_restarted_on_purpose(
    ran_ms: int, expected: list[str]
) -> None:
    """As one does that fails after it was unfenced, and is started every ten minutes."""
    script = with_nodes(1, 2, 3, brokers=(101, 102))
    for _ in range(6):
        script.now_ms += ran_ms
        script.broker_change(101, shutdown=True)
        script.broker_change(101, fenced=True)
        script.now_ms += 600_000 - ran_ms
        script.broker(101)
        script.broker_change(101, fenced=False)
    assert lines(RESTARTING, read(machine(), script)) == expected


@pytest.mark.parametrize("killed", [False, True])
def test_rolling_restarts_of_brokers_an_hour_apart_are_no_loop(killed: bool) -> None:
    script = with_nodes(1, 2, 3, brokers=range(101, 106))
    for _ in range(5):
        for node in range(101, 106):
            if not killed:
                script.broker_change(node, shutdown=True)
            bounce(script, node, down_ms=20_000)
        script.now_ms += 55 * MINUTE
    assert lines(RESTARTING, read(machine(), script)) == []


def test_a_node_that_is_controller_and_broker_is_one_process() -> None:
    script = with_nodes(1, 2, 3, brokers=(2,))
    for _ in range(3):
        script.controller(2)
        bounce(script, 2)
    assert lines(RESTARTING, read(machine(), script)) == ["warning controller 2"]


def test_a_rolling_restart_an_upgrade_and_a_bounce_are_no_crash_loop() -> None:
    script, replay = with_nodes(1, 2, 3, brokers=(101, 102)), machine()
    # An upgrade that restarts each node twice.
    for node in (1, 2, 3):
        restart(script, node, 2, every_ms=40_000)
    for node in (101, 102):
        bounce(script, node)
        bounce(script, node)
    assert lines(RESTARTING, read(replay, script)) == []
    # A quarter of an hour later a rolling restart, and then one node again.
    script.now_ms += 900_000
    for node in (1, 2, 3):
        restart(script, node, every_ms=40_000)
    for node in (101, 102):
        bounce(script, node)
    restart(script, 3)
    assert lines(RESTARTING, read(replay, script)) == []


def test_starts_survive_a_restart_of_the_job_and_are_counted_once() -> None:
    script, replay = with_nodes(1, 2, 3), machine()
    restart(script, 2, 2)
    rows = [script.read()]
    apply(replay, rows)
    restored = again(replay.to_bytes())
    # Rows are delivered again.
    assert lines(RESTARTING, apply(restored, rows)) == []
    restart(script, 2)
    assert lines(RESTARTING, read(restored, script)) == ["warning controller 2"]


def test_starts_during_a_gap_count_by_the_time_in_the_log() -> None:
    script, replay = with_nodes(1, 2, 3), machine()
    read(replay, script)
    restart(script, 2, 2)
    # The gatherer was down for an hour, and reads both starts at once.
    assert lines(RESTARTING, apply(replay, [script.read(after_ms=3_600_000)])) == []
    restart(script, 2, 1)
    assert lines(RESTARTING, read(replay, script)) == []


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
    assert lines(RESTARTING, apply(replay, script.snapshot(records))) == []


def test_one_node_displaces_no_start_of_another() -> None:
    script, replay = with_nodes(1, 2, 3), machine()
    restart(script, 3)
    restart(script, 2, OF_A_NODE + 20, every_ms=5_000)
    known = [one.id for one in read(replay, script).history.starts]
    assert (known.count(1), known.count(2), known.count(3)) == (1, OF_A_NODE, 2)  # type: ignore[arg-type]


@pytest.mark.parametrize("static", [False, True])
def test_while_a_voter_restarts_no_other_controller_is_to_be_restarted(static: bool) -> None:
    quorum = restarting(healthy(), 2, 4)
    if static:
        quorum = replace(quorum, committed=None, kraft_version=0)
    (finding,) = findings(quorum, RESTARTING)
    assert "# Do not restart another controller until controller 2 is stable" in finding.remedy


# Starts that only the probes show.


@pytest.mark.parametrize(
    ("ago_ms", "expected"),
    [
        ((700_000, 400_000, 100_000), ["warning controller 2"]),
        ((400_000, 100_000), []),
        ((2_400_000, 1_800_000, 1_200_000, 600_000), ["warning controller 2"]),
        ((1_800_000, 1_200_000, 600_000), []),
    ],
)
def test_a_controller_whose_endpoint_comes_and_goes_restarts(ago_ms: tuple[int, ...], expected: list[str]) -> None:
    quorum = came_back(healthy(), 2, *ago_ms)
    assert lines(RESTARTING, quorum) == expected
    for finding in findings(quorum, RESTARTING):
        assert "It has not registered since: it ends before that." in finding.summary
        assert any("its newest .checkpoint" in step for step in finding.remedy)


def test_a_rolling_restart_as_the_probes_show_it_is_no_loop() -> None:
    quorum = healthy()
    for node in (1, 2, 3):
        quorum = came_back(quorum, node, *(hour * 3_600_000 + node * 60_000 for hour in (4, 3, 2, 1, 0)))
    assert lines(RESTARTING, quorum) == []


def test_a_controller_that_registers_each_time_counts_by_the_log() -> None:
    quorum = came_back(restarting(healthy(), 2, 3), 2, 300_000, 200_000, 100_000)
    (finding,) = findings(quorum, RESTARTING)
    assert "its endpoint" not in finding.summary


# Fencings.


def flap(script: LogScript, node: int, times: int, *, every_ms: int = 30_000, restart: bool = False) -> None:
    """Fences the broker this many times, for two seconds each."""
    for _ in range(times):
        script.broker_change(node, fenced=True)
        script.now_ms += 2_000
        if restart:
            script.broker(node)
        script.broker_change(node, fenced=False)
        script.now_ms += every_ms - 2_000


def test_the_finding_ends_when_the_fencings_leave_the_window() -> None:
    script, replay = with_nodes(brokers=(101,)), machine()
    flap(script, 101, 5)
    assert lines(FLAPPING, read(replay, script)) == ["warning broker 101"]
    # Of the five fencings, at most three are left.
    script.now_ms += 900_000 - 5 * 30_000 + 45_000
    script.noops(1)
    assert lines(FLAPPING, read(replay, script)) == []


def test_two_rolling_restarts_by_controlled_shutdown_are_not_flapping() -> None:
    script, replay = with_nodes(brokers=range(101, 106)), machine()
    for _ in range(2):
        for node in range(101, 106):
            script.broker_change(node, shutdown=True)
            script.broker_change(node, fenced=True)
            script.now_ms += 10_000
            script.broker(node)
            script.broker_change(node, fenced=False)
    quorum = read(replay, script)

    assert lines(FLAPPING, quorum) == []
    assert len(quorum.history.interruptions) == 10
    assert {(one.announced, one.restarted) for one in quorum.history.interruptions} == {(True, True)}


def restarted_in_turn(times: int, *nodes: int) -> Quorum:
    """Each of these controllers was restarted, one after the other, this many times."""
    pairs = [(turn, node) for turn in range(times) for node in nodes]
    starts = tuple(
        controller_start(node, ago_ms=300 + 40_000 * (len(pairs) - at)) for at, (_, node) in enumerate(pairs, 1)
    )
    return with_past(healthy(), starts=starts)


@pytest.mark.parametrize(
    ("times", "nodes", "restarting"),
    [(3, (1, 2, 3), []), (5, (1, 2, 3), []), (6, (1, 2, 3), [1, 2, 3]), (3, (1, 2), [1, 2]), (3, (2,), [2])],
)
def test_rolling_restarts_are_no_restarts_of_a_node(times: int, nodes: tuple[int, ...], restarting: list[int]) -> None:
    quorum = restarted_in_turn(times, *nodes)
    assert [one.subject for one in findings(quorum, RESTARTING)] == [f"controller {node}" for node in restarting]


def test_the_first_node_of_a_third_roll_has_one_start_more_than_the_others() -> None:
    quorum = restarted_in_turn(3, 1, 2, 3)
    assert findings(with_past(quorum, starts=quorum.history.starts[:-2]), RESTARTING) == []


@pytest.mark.parametrize("fenced_now", [False, True])
def test_a_broker_that_restarts_each_time_is_reported_once_as_restarting(fenced_now: bool) -> None:
    script = with_nodes(brokers=(101,))
    flap(script, 101, 5, restart=True)
    if fenced_now:
        # Whether its process restarts is known when it is back.
        script.broker_change(101, fenced=True)
    quorum = read(machine(), script)

    assert lines(FLAPPING, quorum) == []
    (finding,) = findings(quorum, RESTARTING)
    assert (finding.subject, finding.evidence["starts"]) == ("broker 101", 5)


def test_a_process_that_registers_again_before_it_is_fenced_is_a_fencing() -> None:
    """Kafka fences the former incarnation by the registration of the next one."""
    script, replay = with_nodes(brokers=(101,)), machine()
    for _ in range(4):
        script.broker(101)
        script.broker_change(101, fenced=False)
    quorum = read(replay, script)

    assert all(one.restarted and one.ended_offset for one in quorum.history.interruptions)
    assert [one.subject for one in findings(quorum, RESTARTING)] == ["broker 101"]


def test_a_process_that_registers_again_after_a_controlled_shutdown_was_announced() -> None:
    script = with_nodes(brokers=(101,))
    script.broker_change(101, shutdown=True)
    script.broker(101)
    (one,) = read(machine(), script).history.interruptions
    assert one.announced


def test_fencings_survive_a_restart_and_a_snapshot_adds_none() -> None:
    script, replay = with_nodes(brokers=(101,)), machine()
    flap(script, 101, 3)
    read(replay, script)
    restored = again(replay.to_bytes())
    flap(script, 101, 1)
    assert lines(FLAPPING, read(restored, script)) == ["warning broker 101"]

    records = [script.broker(101, fenced=True)]
    script.events.clear()
    script.noops(9)
    assert len(apply(restored, script.snapshot(records)).history.interruptions) == 4


def test_a_flapping_broker_displaces_no_fencing_of_another() -> None:
    script, replay = with_nodes(brokers=(101, 102)), machine()
    flap(script, 102, 1)
    flap(script, 101, OF_A_NODE + 20, every_ms=5_000)
    known = read(replay, script).history.interruptions

    assert [one.id for one in known] == [*ids(102), *ids(101) * OF_A_NODE]


# Two processes.


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
    assert apply(replay, [script.read()]).history.double_registrations == ()
    # The job is started again in between.
    replay = again(replay.to_bytes())
    for one in (first, second, first):
        script.now_ms += 5_000
        script.write(replace(one, at=script.at()))
        script.broker_change(2, fenced=False)
    history = apply(replay, [script.read()]).history

    (found,) = history.double_registrations
    assert (found.kind, found.id, found.returns) == (NodeKind(node), 2, 3)
    assert (found.endpoints, found.other_endpoints) == (first.endpoints, second.endpoints)
    assert found.timestamp_ms - found.first_timestamp_ms == 10_000
    # They alternate, and none of them started again.
    starts = [one.id for one in history.starts] if node == "controller" else []
    assert starts == ([2, 2] if node == "controller" else [])


def test_a_controller_and_a_broker_of_one_id_that_are_doubled_are_two_entries() -> None:
    script = LogScript()
    script.leader(1)
    pairs = [[registered(script, role) for _ in range(2)] for role in ("controller", "broker")]
    for pair in (*pairs, *pairs):
        for one in pair:
            script.write(replace(one, at=script.at()))
            script.broker_change(2, fenced=False)
    found = read(machine(), script).history.double_registrations
    assert [(one.kind, one.id, one.returns) for one in found] == [
        (NodeKind.CONTROLLER, 2, 4),
        (NodeKind.BROKER, 2, 4),
    ]


@pytest.mark.parametrize(
    ("quorum", "expected"),
    [
        (healthy(), []),
        (registered_twice(healthy(), 2), ["critical node 2"]),
        (registered_twice(healthy(), 101, kind=NodeKind.BROKER), ["warning node 101"]),
        (registered_twice(healthy(), 2, ago_ms=300_300), ["critical node 2"]),
        (registered_twice(healthy(), 2, ago_ms=300_301), []),
        # Another directory fetches beside the voter, or beside a broker.
        (observer(healthy(), 2, directory="copyOf2"), ["critical node 2"]),
        (observer(healthy(), 101, directory="copyOf101"), ["warning node 101"]),
        # A replaced disk: the voter does not fetch.
        (observer(voter_not_fetching(healthy(), 2), 2, directory="newDirOf2"), []),
    ],
)
def test_a_node_id_of_two_processes_is_one_finding(quorum: Quorum, expected: list[str]) -> None:
    assert lines(DUPLICATE, quorum) == expected


def test_a_finding_of_two_processes_names_both_directories() -> None:
    (finding,) = findings(observer(healthy(), 2, directory="copyOf2"), DUPLICATE)
    assert f"{key(2, 'copyOf2').directory_id} and {key(2).directory_id} both fetch" in finding.summary


def test_a_row_without_a_directory_is_no_second_process() -> None:
    """A node that answers in an older version of the request has none."""
    quorum = healthy()
    (own,) = (row for row in present(quorum.poll).voters if row.key.id == 2)
    without = replace(own, key=ReplicaKey(id=own.key.id))
    assert lines(DUPLICATE, with_poll(quorum, observers=(*present(quorum.poll).observers, without))) == []
