"""The commands for topics: partitions without a leader, unclean elections."""

from tests.commands import Words, milliseconds, numbers
from tests.situation.registry import age, command, run
from tests.situation.situation import (
    SECOND,
    Situation,
)


@command("partitions")
def topic(made: Situation, words: Words) -> None:
    """partitions orders 0,3 [replicas 101,102] [dirs a,b] [since 1d]: a topic; 0-32: 33 partitions."""
    replicas, dirs = words.option("replicas") or "101,102", words.option("dirs")
    at_ms = age(words, "since", "1d")
    topic, numbered = words.word(), _numbers(words.word())
    made.append(at_ms, f"topic {topic}")
    of_directories = f" dirs {dirs}" if dirs else ""
    for number in numbered:
        made.append(at_ms, f"partition {topic}-{number} {replicas}{of_directories}")


def _numbers(text: str) -> list[int]:
    """Returns the numbers of `0,3` or of `0-32`."""
    first, dash, last = text.partition("-")
    return [*range(int(first), int(last) + 1)] if dash else numbers(text)


@command("change")
def change_(made: Situation, words: Words) -> None:
    """change orders 0,3 since 75s isr 101 leader none: the same PartitionChangeRecord for each of them."""
    at_ms = age(words, "since")
    topic, numbered = words.word(), _numbers(words.word())
    fields = " ".join(words.rest())
    for number in numbered:
        made.append(at_ms, f"change {topic}-{number} {fields}")


@command("churn")
def churn(made: Situation, words: Words) -> None:
    """churn orders 0,3 every 5s for 12m [until 3m] [leaders]: broker 102 leaves and joins the ISR of each in turns.

    `leaders`: 101 and 102 lead it in turns.
    """
    values = ("leader 102", "leader 101") if words.flag("leaders") else ("isr 101", "isr 101,102")
    every, lasts = milliseconds(words.option("every") or "5s"), milliseconds(words.option("for") or "12m")
    until_ms = age(words, "until")
    topic, numbered = words.word(), _numbers(words.word())
    for at, at_ms in enumerate(range(until_ms - lasts, until_ms, every)):
        for number in numbered:
            made.append(at_ms, f"change {topic}-{number} {values[at % 2]}")


@command("offline")
def offline(made: Situation, words: Words) -> None:
    """offline orders 0-3 [holders 101] [since 90s] [dirs a]: these have no leader; only the holders may become it."""
    since, holders, dirs = words.option("since") or "90s", words.option("holders") or "101", words.option("dirs")
    topic, numbered = words.word(), words.word()
    replicas = "101" if holders == "none" else holders
    run(made, f"partitions {topic} {numbered} replicas {replicas}{f' dirs {dirs}' if dirs else ''}")
    run(made, f"change {topic} {numbered} since {since} isr {holders} leader none")


@command("unclean")
def unclean(made: Situation, words: Words) -> None:
    """unclean orders 0,3 [leader 102] [since 45s] [replicas 101,102] [recovered]: 101 was in sync and down."""
    since, leader, replicas = (
        words.option("since") or "45s",
        words.option("leader") or "102",
        words.option("replicas") or "101,102",
    )
    recovered = words.flag("recovered")
    topic, numbered = words.word(), words.word()
    others = [node for node in replicas.split(",") if node != leader]
    before = f"{milliseconds(since) + 5 * SECOND}ms"
    run(made, f"partitions {topic} {numbered} replicas {replicas}")
    if others:
        run(made, f"change {topic} {numbered} since {before} isr {others[0]} leader {others[0]}")
    run(made, f"change {topic} {numbered} since {since} isr {leader} leader {leader} recovering yes")
    if recovered:
        run(made, f"change {topic} {numbered} since {since} isr {replicas} recovering no")


@command("emptied")
def emptied(made: Situation, words: Words) -> None:
    """emptied orders 0,3 [replicas 101,102] [since 60s]: 101, the last in sync, came back with directory b, not a."""
    since, replicas = words.option("since") or "60s", words.option("replicas") or "101,102"
    earlier, before = (f"{milliseconds(since) + more * SECOND}ms" for more in (600, 300))
    topic, numbered = words.word(), words.word()
    others = [node for node in replicas.split(",") if node != "101"]
    run(made, "broker 101 dirs a")
    run(made, f"partitions {topic} {numbered} replicas {replicas} dirs {','.join(['a', *('x' for _ in others)])}")
    for node in others:
        run(made, f"fence {node} since {earlier}")
    run(made, f"change {topic} {numbered} since {earlier} isr 101 leader 101")
    run(made, f"fence 101 since {before}")
    run(made, f"change {topic} {numbered} since {before} leader none")
    run(made, f"broker 101 since {since} dirs b incarnation again")
    run(made, f"change {topic} {numbered} since {since} dirs {','.join(['b', *('x' for _ in others)])}")
