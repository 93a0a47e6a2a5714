"""The partitions that need a broker's in-sync replica, as sums that changes move."""

from dataclasses import replace
from random import Random

from rules.model.quorum import Quorum
from streaming.replay.machine import Machine
from streaming.replay.needed_replicas import NeededReplicas, OutOfSync, need_of
from tests.scripts.log_commands import append
from tests.scripts.log_script import LogScript, again, apply, begun

TOPICS, BROKERS = ("orders", "payments"), (101, 102, 103, 104)


def needed(quorum: Quorum) -> dict[int, list[str]]:
    """Returns by broker each sum: partitions, in sync of replicas, min.insync.replicas, and which are missing."""
    found: dict[int, list[str]] = {}
    for one in quorum.needed_replicas:
        missing = "".join(f" -{node}x{count}" for node, count in one.missing)
        text = f"{one.partitions}: {one.in_sync}/{one.replicas} min {one.min_isr}{missing}"
        found.setdefault(one.broker, []).append(text + (" eligible" if one.eligible else ""))
    return found


def three_replicas() -> tuple[LogScript, Machine]:
    script, replay = begun()
    for topic in TOPICS:
        script.topic(topic)
        for number in range(3):
            script.partition(topic, number, 101, 102, 103)
    return script, replay


def test_all_partitions_may_need_each_replica_while_min_insync_replicas_is_not_known() -> None:
    script, replay = three_replicas()
    assert needed(apply(replay, [script.read()])) == {node: ["6: 3/3 min None"] for node in (101, 102, 103)}

    append(script, "config orders min-isr 2")
    assert needed(apply(replay, [script.read()])) == {node: ["3: 3/3 min None"] for node in (101, 102, 103)}
    append(script, "config cluster min-isr 1")
    assert needed(apply(replay, [script.read()])) == {}
    append(script, "config orders min-isr none")
    append(script, "config cluster min-isr none")
    assert needed(apply(replay, [script.read()])) == {node: ["6: 3/3 min None"] for node in (101, 102, 103)}


def test_the_configuration_of_a_topic_may_precede_it_in_a_batch() -> None:
    """Kafka 3.3 writes it first (ReplicationControlManager.createTopics)."""
    script, replay = begun()
    append(script, "config orders min-isr 2")
    script.topic("orders")
    script.partition("orders", 0, 101, 102, 103)

    assert needed(apply(replay, [script.read()])) == {}


def test_partitions_that_need_each_in_sync_replica_are_counted_with_those_that_are_missing() -> None:
    script, replay = three_replicas()
    append(script, "config cluster min-isr 2")
    assert needed(apply(replay, [script.read()])) == {}
    script.change("orders", 0, isr=(101, 103))
    script.change("orders", 1, isr=(101,))
    script.change("orders", 2, isr=(101,), elr=(102,))
    quorum = apply(replay, [script.read()])
    assert needed(quorum) == {
        101: ["1: 1/3 min 2 -102x1 -103x1", "1: 1/3 min 2 -102x1 -103x1 eligible", "1: 2/3 min 2 -102x1"],
        103: ["1: 2/3 min 2 -102x1"],
    }
    assert [one.partition for sums in quorum.needed_replicas for one in sums.examples] == [1, 2, 0, 0]
    assert again(replay.to_bytes()).quorum().needed_replicas == quorum.needed_replicas

    script.change("orders", 0, isr=(101, 102, 103))
    script.change("orders", 1, isr=(101,), leaderless=True)
    script.change("orders", 2, isr=(101, 102), elr=())
    assert needed(apply(replay, [script.read()])) == {101: ["1: 2/3 min 2 -103x1"], 102: ["1: 2/3 min 2 -103x1"]}
    script.remove_topic("orders")
    assert needed(apply(replay, [script.read()])) == {}


def test_more_than_there_are_replicas_are_not_needed() -> None:
    script, replay = begun()
    append(script, "config cluster min-isr 2")
    script.topic("small")
    script.partition("small", 0, 101)
    script.partition("small", 1, 101, 102)
    assert needed(apply(replay, [script.read()])) == {101: ["1: 1/1 min 2", "1: 2/2 min 2"], 102: ["1: 2/2 min 2"]}


def test_a_snapshot_is_counted_at_its_end_with_its_configurations() -> None:
    script, replay = three_replicas()
    append(script, "config cluster min-isr 2")
    script.change("orders", 0, isr=(101, 103))
    quorum = apply(replay, [script.read()])
    expected, behind = needed(quorum), out_of_sync(quorum)
    assert behind == {102: 1}
    rows = script.snapshot(script.written)
    _, other = begun()
    for row in rows:
        apply(other, [row])
        other = again(other.to_bytes())
    assert (needed(other.quorum()), out_of_sync(other.quorum())) == (expected, behind)


def test_sums_that_changes_moved_are_those_of_counting_all_partitions() -> None:
    for seed in range(20):
        random = Random(seed)
        script, replay = begun()
        for topic in TOPICS:
            script.topic(topic)
        known = set[tuple[str, int]]()
        for step in range(60):
            topic, number = random.choice(TOPICS), random.randrange(4)
            replicas = tuple(random.sample(BROKERS, 3))
            if (topic, number) not in known:
                known.add((topic, number))
                script.partition(topic, number, *replicas)
            elif random.random() < 0.2:
                of = random.choice(("cluster", *TOPICS))
                append(script, f"config {of} min-isr {random.choice(('1', '2', '3', 'none'))}")
            else:
                isr = replicas[: random.randint(1, 3)]
                script.change(topic, number, replicas=replicas, isr=isr, leader=isr[0])
            if step % 10 == 9:
                quorum = apply(replay, [script.read()])
                counted = all_counted(replay)
                assert needed(quorum) == needed(counted)
                assert out_of_sync(quorum) == out_of_sync(counted)
                if step == 29:
                    replay = again(replay.to_bytes())


def out_of_sync(quorum: Quorum) -> dict[int, int]:
    return {node: one.partitions for node, one in quorum.out_of_sync.items()}


def all_counted(replay: Machine) -> Quorum:
    partitions = replay.log.partitions
    counted, behind = NeededReplicas(), OutOfSync()
    for topic_id, topic in partitions.topics.items():
        for number, held in topic.partitions.items():
            key, need = (topic_id, number), need_of(held, topic.min_isr or partitions.min_isr)
            counted.changed(key, topic.name, (None, None), (need, held))
            behind.changed(key, topic.name, None, held)
    return replace(
        replay.quorum(),
        needed_replicas=counted.current,
        out_of_sync={one.broker: one for one in behind.current},
    )
