"""The commands for failed observations, lost metadata and damaged batches."""

from rules.model.identifiers import Epoch, NodeId, Offset, SnapshotId
from rules.model.monitoring import (
    DamagedBatch,
    FailedObservation,
    ObservationSource,
    Reason,
)
from tests.commands import Words, milliseconds, numbers
from tests.situation.registry import address, age, command, run
from tests.situation.situation import (
    NOW,
    Situation,
)


@command("fails")
def fails(made: Situation, words: Words) -> None:
    """fails log refused 1,2 [for 20s] [ago 0s] [names 3] [detail WORDS]: attempts fail at these nodes.

    The source is log, quorum, probe or view; the reason is one of `Reason`; `names`: the leader that they report.
    `at HOST:PORT [of 1]` instead of the nodes: at an address that nothing records, and the node that answered there.
    Also the sources `log` and `quorum` are unanswered since then, if the failure is the leader's or the log's: nothing
    else ends it. So is `view` at these nodes.
    """
    text = " ".join(words.rest())
    text, _, detail = text.partition(" detail ")
    words = Words(text)
    lasts, until_ms = milliseconds(words.option("for") or "20s"), age(words, "ago")
    where, of = words.option("at"), words.number("of")
    names = words.option("names")
    source, reason = ObservationSource(words.word()), Reason(words.word())
    places: dict[str, NodeId | None] = {}
    if where is None:
        places = {address(made, node): NodeId(node) for node in numbers(words.word())}
    else:
        places[where] = None if of is None else NodeId(of)
    words.end()
    since_ms = NOW - lasts
    for place, node in places.items():
        failure = FailedObservation(
            source=source,
            endpoint=place,
            reason=reason,
            detail=detail,
            node=node,
            leader_id=None if names is None else NodeId(int(names)),
        )
        made.fail(failure, since_ms=since_ms, until_ms=until_ms)
    if source is ObservationSource.LOG:
        made.log_until_ms = min(made.log_until_ms, since_ms - 1)
    elif source is ObservationSource.QUORUM and address(made, made.leader or max(made.voters)) in places:
        made.polls_until_ms = min(made.polls_until_ms, since_ms - 1)
    elif source is ObservationSource.LEADER_VIEW:
        made.views_until_ms |= {node: since_ms - 1 for node in places.values() if node is not None}


@command("leaderless")
def leaderless(made: Situation, words: Words) -> None:
    """leaderless 1,2 [for 14s]: these controllers answer that they know no leader; the leader answered 14 s ago."""
    lasts_ms = _without_leader(made, words)
    run(made, f"fails log no-leader {words.word()} for {lasts_ms}ms detail no-leader")


@command("all-refuse")
def all_refuse(made: Situation, words: Words) -> None:
    """all-refuse [for 14s]: every controller refuses connections, and the leader answered 14 s ago."""
    lasts_ms = _without_leader(made, words)
    run(made, f"fails log refused {','.join(map(str, made.voters))} for {lasts_ms}ms")


def _without_leader(made: Situation, words: Words) -> int:
    """Ends the leader's answers `for` so long ago; returns for how many ms the failures have lasted since."""
    lasts_ms = milliseconds(words.option("for") or "14s")
    made.log_until_ms = made.polls_until_ms = NOW - lasts_ms
    return lasts_ms - 1


@command("gap")
def gap(made: Situation, words: Words) -> None:
    """gap 5s: the gatherer was started again so long ago."""
    at_ms = NOW - milliseconds(words.word())
    made.observe(
        at_ms,
        FailedObservation(source=ObservationSource.LOG, endpoint="", reason=Reason.INTERRUPTED, detail="started again"),
    )


@command("lose-metadata", "format-all-again")
def lose_metadata(made: Situation, words: Words) -> None:
    """lose-metadata 9300 [since 20s] [by 2], format-all-again: committed records from this offset on, or all, are lost.

    `by`: the controller that reports it, else the leader.
    """
    at_ms, by = age(words, "since", "20s"), words.number("by")
    offset = None if words.command == "format-all-again" else int(words.word())
    leader = by or made.leader or max(made.voters)
    detail = "epoch 1 ends at offset 12" if offset is None else f"the log ends at {offset}, and more was committed"
    failure = FailedObservation(
        source=ObservationSource.LOG, endpoint=address(made, leader), reason=Reason.METADATA_LOST, detail=detail
    )
    made.lose_metadata(at_ms, offset, failure)


@command("rewritten")
def rewritten(made: Situation, words: Words) -> None:
    """rewritten 9300 [since 20s]: a leader of the next epoch writes other records at offsets that were committed."""
    at_ms, offset = age(words, "since", "20s"), int(words.word())
    made.rewrite(at_ms, offset)


@command("damage-log")
def damage_log(made: Situation, words: Words) -> None:
    """damage-log 3 [offsets 40-42] [header] [snapshot 9000-12 position 700] [since 60s]: a controller served it.

    What was damaged; with `header` the checksum matches.
    """
    at_ms, offsets, snapshot = age(words, "since", "60s"), words.option("offsets"), words.option("snapshot")
    position, high_watermark = words.number("position"), words.number("high-watermark")
    header, node = words.flag("header"), int(words.word())
    if snapshot is not None:
        end, _, epoch = snapshot.partition("-")
        damage = DamagedBatch(
            snapshot=SnapshotId(end_offset=Offset(int(end)), epoch=Epoch(int(epoch))), position=position
        )
    else:
        first, _, last = (offsets or "40-42").partition("-")
        damage = DamagedBatch(
            offset=Offset(int(first)),
            last_offset=Offset(int(last)) if last else None,
            epoch=Epoch(7) if last else None,
            outside_checksum=header,
            high_watermark=Offset(9_500 if high_watermark is None else high_watermark),
        )
    made.observe(
        at_ms,
        FailedObservation(
            source=ObservationSource.LOG,
            endpoint=address(made, node),
            reason=Reason.LOG_DAMAGED,
            detail="the CRC-32C does not match: the batch is damaged",
            damage=damage,
        ),
    )
