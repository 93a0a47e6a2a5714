"""What the topic has of a cluster, folded from its rows: what counts, what it covers, and whether its log is whole."""

from connectors.observations.observation import Observation, ObservationKind
from connectors.relay.relay_message import Baseline
from connectors.relay.topic_tail import TopicPosition, advanced, extent
from tests.unit.connectors.relay.topic_records import FIRST, NOW_MS, message, poll, records


def snapshot(end: int) -> Observation:
    return Observation(
        cluster="prod",
        kind=ObservationKind.SNAPSHOT,
        observed_at_ms=NOW_MS,
        base_offset=end,
        last_offset=0,
        payload=b"x",
    )


def after(
    before: TopicPosition | None, sequence: int, row: Observation, *, relay: str = "a", baseline: Baseline = FIRST
) -> TopicPosition | None:
    return advanced(before, message(sequence, row, relay, baseline), 3)


def folded(*rows: Observation, before: TopicPosition | None = None, baseline: Baseline = FIRST) -> TopicPosition:
    position = before
    for number, row in enumerate(rows):
        first = baseline.sequence if before is None else before.sequence + 1
        position = after(position, first + number, row, baseline=baseline)
    assert position is not None
    return position


def test_a_row_counts_only_above_the_newest_one() -> None:
    one = folded(records(0, 5))
    taken = after(one, 1_005, poll(NOW_MS + 1), relay="b")

    assert taken is not None
    assert (taken.relay, taken.sequence, taken.partition) == ("b", 1_005, 3)
    assert after(taken, 1_002, poll(NOW_MS + 60_000)) is None
    assert after(taken, 1_005, poll(NOW_MS + 60_000), relay="b") is None, "it is in the topic twice"


def test_the_topic_has_a_poll_that_is_not_newer_and_records_that_are_not_beyond_its_log() -> None:
    position = folded(records(0, 5), poll(NOW_MS + 10))

    assert [position.has(extent(poll(NOW_MS + ms))) for ms in (9, 10, 11)] == [True, True, False]
    assert [position.has(extent(records(2, end, at_ms=NOW_MS + 99))) for end in (5, 6)] == [True, False]
    assert [position.has(extent(snapshot(end))) for end in (5, 6)] == [True, False]
    assert not position.has(extent(records(5, 5, at_ms=NOW_MS + 11))), "an answer without records is a poll"


def test_a_log_is_continued_without_a_missing_offset_or_by_a_snapshot() -> None:
    position = folded(records(0, 5))

    assert [position.continues(extent(records(begin, 9))) for begin in (3, 5, 6)] == [True, True, False]
    assert position.continues(extent(snapshot(100)))


def test_a_baseline_is_whole_once_its_log_is_read_up_to_the_high_watermark() -> None:
    half = folded(records(0, 5, high_watermark=9))
    whole = folded(records(5, 9), before=half)
    behind = folded(records(9, 10, high_watermark=20), before=whole)

    assert [half.usable, whole.usable, behind.usable] == [False, True, True]


def test_a_baseline_that_is_read_again_is_not_whole_and_the_log_of_the_former_one_counts_meanwhile() -> None:
    whole = folded(records(0, 9))
    again = folded(records(0, 4, high_watermark=9), before=whole, baseline=Baseline(sequence=1_001, at_ms=NOW_MS))

    assert (again.usable, again.log_end) == (False, 9)


def test_a_baseline_that_begins_with_a_poll_is_not_whole() -> None:
    whole = folded(records(0, 9))

    assert not folded(poll(NOW_MS), before=whole, baseline=Baseline(sequence=1_001, at_ms=NOW_MS)).usable


def test_a_log_that_was_rewritten_is_not_whole_until_it_is_read() -> None:
    rewritten = folded(records(0, 4, high_watermark=7), before=folded(records(0, 9)))

    assert not rewritten.usable
    assert folded(records(4, 7), before=rewritten).usable


def test_missing_offsets_are_named_until_a_new_baseline() -> None:
    gap = folded(records(7, 9), before=folded(records(0, 5)))
    later = folded(records(9, 12), before=gap)

    assert (gap.gap, later.gap, later.usable) == ("offsets 5 to 6", "offsets 5 to 6", False)
    assert folded(records(0, 12), before=later, baseline=Baseline(sequence=1_003, at_ms=NOW_MS)).usable
