"""Replicas that a broker created again in another log directory: how they are summed, remembered and dropped."""

from typing import TypeAlias

from rules.model.history import EmptiedReplicas
from rules.model.identifiers import DirectoryId, NodeId
from streaming.replay.recent_history import PARTITIONS, STARTS_REMEMBERED_MS, TOPICS
from tests.scripts.log_script import LogScript, again, apply, begun, ids

_Sum: TypeAlias = tuple[str | None, int, tuple[int, ...], tuple[DirectoryId, ...], tuple[NodeId, ...]]
"""Topic, partitions, numbers, lost directories, brokers of other replicas."""


def directory(*names: str) -> tuple[DirectoryId, ...]:
    return tuple(map(DirectoryId, names))


def with_topic(script: LogScript, topic: str, partitions: int, *replicas: int) -> None:
    script.topic(topic)
    for number in range(partitions):
        script.partition(topic, number, *replicas, directories=directory("a", *("x" for _ in replicas[1:])))


def come_back(script: LogScript, name: str) -> None:
    """Broker 101 starts with this log directory only."""
    script.broker(101, fenced=False, log_dirs=directory(name))


def move(script: LogScript, topic: str, numbers: range, name: str, *others: str) -> None:
    for number in numbers:
        script.change(topic, number, directories=directory(name, *others))


def known(*, topic: str = "orders", partitions: int, numbers: range, lost: str, others: tuple[int, ...] = ()) -> _Sum:
    return topic, partitions, tuple(numbers), directory(lost), ids(*others)


def found(emptied: tuple[EmptiedReplicas, ...]) -> list[_Sum]:
    return [(one.topic, one.partitions, one.numbers, one.lost, one.others) for one in emptied]


def test_the_partitions_of_a_topic_are_one_entry_also_over_several_observations_and_a_restart() -> None:
    script, replay = begun()
    come_back(script, "a")
    with_topic(script, "orders", PARTITIONS + 5, 101, 102)
    for number in range(PARTITIONS + 5):
        script.change("orders", number, isr=(101,))
    apply(replay, [script.read()])
    come_back(script, "b")
    move(script, "orders", range(3), "b", "x")
    apply(replay, [script.read()])
    replay = again(replay.to_bytes())
    move(script, "orders", range(3, PARTITIONS + 5), "b", "x")
    emptied = apply(replay, [script.read()]).history.emptied

    expected = known(partitions=PARTITIONS + 5, numbers=range(PARTITIONS), lost="a", others=(102,))
    assert found(emptied) == [expected]
    assert emptied[0].read_timestamp_ms is not None
    assert found(again(replay.to_bytes()).quorum().history.emptied) == [expected]


def test_a_broker_may_report_its_directories_before_it_registers() -> None:
    """After a clean shutdown, as 4.3.1 with the former broker epoch; the directory is that of one of two disks."""
    script, replay = begun()
    script.broker(101, fenced=False, log_dirs=directory("a", "b"))
    with_topic(script, "orders", 2, 101)
    for number in range(2):
        script.change("orders", number, isr=(), elr=(101,), last_known_elr=(101,), leaderless=True)
    move(script, "orders", range(1), "c")
    quorum = apply(replay, [script.read()])
    assert [one.returned(quorum.brokers) for one in quorum.history.emptied] == [True]

    script.broker(101, fenced=False, log_dirs=directory("b", "c"))
    script.change("orders", 0, isr=(101,), elr=(), leader=101, last_known_elr=(), recovering=True)
    move(script, "orders", range(1, 2), "c")
    quorum = apply(replay, [script.read()])

    assert found(quorum.history.emptied) == [known(partitions=2, numbers=range(2), lost="a")]
    assert [one.returned(quorum.brokers) for one in quorum.history.emptied] == [False]
    assert [one.emptied for one in quorum.recovering] == [True]


def test_another_start_with_another_directory_begins_again() -> None:
    """The records are in the first one."""
    script, replay = begun()
    come_back(script, "a")
    with_topic(script, "orders", 2, 101)
    come_back(script, "b")
    move(script, "orders", range(2), "b")
    come_back(script, "c")
    move(script, "orders", range(1), "c")

    assert found(apply(replay, [script.read()]).history.emptied) == [
        known(partitions=1, numbers=range(1), lost="a"),
    ]


def test_a_replica_that_returns_to_its_directory_is_not_emptied_again() -> None:
    """In the same observation, and in a later one: then it is elected as the last leader, with its records."""
    for once in (True, False):
        script, replay = begun()
        come_back(script, "a")
        with_topic(script, "orders", 1, 101)
        come_back(script, "b")
        move(script, "orders", range(1), "b")
        if not once:
            apply(replay, [script.read()])
        come_back(script, "a")
        move(script, "orders", range(1), "a")
        script.change("orders", 0, isr=(), last_known_elr=(101,), leaderless=True)
        script.change("orders", 0, isr=(101,), leader=101, last_known_elr=(), recovering=True)
        quorum = apply(replay, [script.read()])

        assert all(one.returned(quorum.brokers) for one in quorum.history.emptied)
        assert [(one.emptied, one.last_leader) for one in quorum.recovering] == [(False, True)]


def test_the_last_leader_without_its_directory_is_elected_without_its_records() -> None:
    script, replay = begun()
    come_back(script, "a")
    with_topic(script, "orders", 2, 101, 102)
    for number in range(2):
        script.change("orders", number, isr=(), elr=(), last_known_elr=(101,), leaderless=True)
    apply(replay, [script.read()])
    come_back(script, "b")
    move(script, "orders", range(1), "b", "x")
    for number in range(2):
        script.change("orders", number, isr=(101,), leader=101, last_known_elr=(), recovering=True)
    quorum = apply(replay, [script.read()])

    # The other partition was not moved: its directory is only offline, and Kafka would not elect it.
    assert [(one.emptied, one.last_leader) for one in quorum.recovering] == [(True, False), (False, True)]
    assert [(one.elections, one.last_leaders) for one in quorum.history.unclean] == [(2, 1)]


def test_a_snapshot_keeps_what_is_known_and_a_deleted_topic_is_dropped() -> None:
    script, replay = begun()
    come_back(script, "a")
    with_topic(script, "orders", 1, 101)
    with_topic(script, "pay", 1, 101)
    come_back(script, "b")
    move(script, "orders", range(1), "b")
    move(script, "pay", range(1), "b")
    script.remove_topic("pay")
    emptied = apply(replay, [script.read()]).history.emptied
    assert found(emptied) == [known(partitions=1, numbers=range(1), lost="a")]

    script.remove_topic("orders")
    assert apply(replay, [script.read()]).history.emptied == ()


def test_only_so_many_topics_and_only_a_day_are_remembered() -> None:
    script, replay = begun()
    come_back(script, "a")
    for number in range(TOPICS + 1):
        with_topic(script, f"t{number}", 1, 101)
    come_back(script, "b")
    for number in range(TOPICS + 1):
        move(script, f"t{number}", range(1), "b")
    emptied = apply(replay, [script.read()]).history.emptied
    assert (len(emptied), emptied[0].topic) == (TOPICS, "t1")

    script.now_ms += STARTS_REMEMBERED_MS + 1
    come_back(script, "c")
    move(script, "t0", range(1), "c")
    assert [one.topic for one in apply(replay, [script.read()]).history.emptied] == ["t0"]
