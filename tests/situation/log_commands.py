"""The commands for what the metadata log says of its voters and leaders, and for how it is read."""

from collections.abc import Iterable
from functools import partial

from connectors.observations.log_event import LogAdvanced
from connectors.observations.observation import Event
from rules.model.identifiers import Epoch, Offset
from streaming.replay.contract_violations import APPLIES, EVALUATES, READS, RENDERS
from streaming.replay.machine import Machine
from tests.commands import Words, milliseconds, numbers
from tests.scripts.log_script import LogScript
from tests.situation.registry import age, command, full_voter, run
from tests.situation.situation import (
    NOW,
    Situation,
)


@command("append")
def append_(made: Situation, words: Words) -> None:
    """append unclean-election orders-0 102 [since 75s]: a record of the metadata log, which nothing here caused."""
    at_ms, record = age(words, "since"), " ".join(words.rest())
    made.append(at_ms, record)


@command("again")
def again(made: Situation, words: Words) -> None:
    """again 20s 12m [until 3m] producer-ids 101: the record was appended every 20 s for 12 minutes, as by `append`."""
    until_ms = age(words, "until")
    every, lasts, record = milliseconds(words.word()), milliseconds(words.word()), " ".join(words.rest())
    for at_ms in range(until_ms - lasts, until_ms, every):
        made.append(at_ms, record)


@command("unread")
def unread(made: Situation, words: Words) -> None:
    """unread 60s, unread always: the log was last fetched so long ago. See also `unpolled`, `unanswered`."""
    text = words.word()
    made.log_until_ms = 0 if text == "always" else NOW - milliseconds(text)


@command("compact")
def compact(made: Situation, words: Words) -> None:
    """compact 60s [read-until 2h]: of the log up to then a snapshot was read; nothing, or its beginning, before."""
    since, at_ms = words.option("read-until"), NOW - milliseconds(words.word())
    made.snapshot_ms = at_ms
    made.log_gaps.append((0 if since is None else NOW - milliseconds(since), at_ms))
    made.write(at_ms, lambda _: None)


@command("log-gap")
def log_gap(made: Situation, words: Words) -> None:
    """log-gap 3h 600s: the log was not read from three hours ago until ten minutes ago, and then read on."""
    since, until = (NOW - milliseconds(words.word()) for _ in range(2))
    made.log_gaps.append((since, until))
    made.write(until, lambda _: None)


@command("unpolled")
def unpolled(made: Situation, words: Words) -> None:
    """unpolled 60s, unpolled always: DescribeQuorum was last answered so long ago."""
    text = words.word()
    made.polls_until_ms = 0 if text == "always" else NOW - milliseconds(text)


@command("unanswered")
def unanswered(made: Situation, words: Words) -> None:
    """unanswered 14s: both the log and DescribeQuorum."""
    made.log_until_ms = made.polls_until_ms = NOW - milliseconds(words.word())


@command("elected")
def elected(made: Situation, words: Words) -> None:
    """elected 1 2 3 [every 60s] [last 0s] [skipping 0] [by 1,2]: won elections one after the other, `every` apart.

    `by`: those that voted for them.
    """
    every, last = milliseconds(words.option("every") or "60s"), milliseconds(words.option("last") or "0s")
    skipping = words.number("skipping") or 0
    by = words.option("by")
    granted = () if by is None else tuple(numbers(by))
    leaders = [*map(int, words.rest())]
    for back, leader in zip(range(len(leaders) - 1, -1, -1), leaders, strict=True):
        made.write(
            NOW - last - back * every,
            partial(_elect, leader=leader, skipping=skipping, voters=made.voters, granted=granted),
        )


def _elect(log: LogScript, *, leader: int, skipping: int, voters: tuple[int, ...], granted: tuple[int, ...]) -> None:
    log.leader(leader, log.epoch + 1 + skipping, voters=voters, granted=granted)


@command("voter-set")
def voter_set(made: Situation, words: Words) -> None:
    """voter-set 60s 1 2 4-new 3@c3:19093: a VotersRecord with these voters; the directory of N is dirN."""
    at_ms = NOW - milliseconds(words.word())
    voters = tuple(map(full_voter, words.rest()))
    made.write(at_ms, lambda log: log.voters(*voters))


@command("rebuilt")
def rebuilt(made: Situation, words: Words) -> None:
    """rebuilt 60s 3: `rescue apply --lost` made a quorum of these voters."""
    at_ms = NOW - milliseconds(words.word())
    made.rebuild(at_ms, *map(full_voter, words.rest()))


@command("remove-controller")
def remove_controller(made: Situation, words: Words) -> None:
    """remove-controller 2 [since 60s]: the voter was removed, and is still listed as an observer if it fetches."""
    since = words.option("since") or "60s"
    gone = int(words.word())
    run(made, f"voter-set {since} {' '.join(str(node) for node in made.voters if node != gone)}")


@command("removed-again")
def removed_again(made: Situation, words: Words) -> None:
    """removed-again 2 9s 6s 3s: the voter was removed at these times, and added again at once each time."""
    node = int(words.word())
    others = " ".join(str(each) for each in made.voters if each != node)
    whole = " ".join(map(str, made.voters))
    for ago in words.rest():
        run(made, f"voter-set {ago} {others}")
        run(made, f"voter-set {ago} {whole}")


@command("contract")
def contract(made: Situation, words: Words) -> None:
    """contract every-row-can-be-applied [since 20s]: what kraftwatch itself failed to apply, evaluate, render or read.

    What the log holds breaks the others: `append undecodable`, `passed-over`.
    """
    at_ms, contract = age(words, "since", "20s"), words.word()
    assert contract in (APPLIES, EVALUATES, RENDERS, READS), contract
    made.call(at_ms, lambda machine: machine.record_failure(contract, "KeyError in streaming.replay.log, line 57"))


@command("passed-over")
def passed_over(made: Situation, words: Words) -> None:
    """passed-over 12 [since 20s]: a row with so many records was lost, and what follows is not applied."""
    at_ms, count = age(words, "since", "20s"), int(words.word())
    made.log_until_ms = min(made.log_until_ms, at_ms - 1)

    def further(machine: Machine) -> Iterable[Event]:
        base = machine.log.position + 1 + count
        yield LogAdvanced(
            last_offset=Offset(base),
            leader_epoch=Epoch(made.script.epoch),
            high_watermark=Offset(base + 1),
            newest_timestamp_ms=made.script.log_ms,
            base_offset=Offset(base),
        )

    made.steps.append((at_ms, 0, lambda: [further(made.machine)]))


@command("silent")
def silent(made: Situation, words: Words) -> None:
    """silent 31s: the leader answers, and has appended nothing for so long."""
    made.silent_since_ms = NOW - milliseconds(words.word())


@command("stalled")
def stalled(made: Situation, words: Words) -> None:
    """stalled 31s [unknown]: the log grows, and the high watermark has not moved for so long, or is not known since."""
    made.high_watermark_is_known = not words.flag("unknown")
    made.stalled_since_ms = NOW - milliseconds(words.word())
    made.begins_ms = min(made.begins_ms, made.stalled_since_ms)
    made.steps_of_polls(made.stalled_since_ms)


@command("polling")
def polling(made: Situation, words: Words) -> None:
    """polling 30s: DescribeQuorum was answered for the first time so long ago."""
    made.begins_ms = NOW - milliseconds(words.word())
    made.steps_of_polls(made.begins_ms)


@command("clock")
def clock(made: Situation, words: Words) -> None:
    """clock 3h, clock -90s [since 60s]: the leader's clock is so far ahead of the monitor's."""
    made.clock_since_ms = age(words, "since", "60s")
    made.clock_ahead_ms = milliseconds(words.word())
