"""The events of one observation, by themselves or in blocks: their number, their first offset, the undecodable ones."""

from connectors.log_event import Undecodable
from rules.model.identifiers import Offset
from streaming.replay.observed_events import ObservedEvent, event_count, first_offset, undecodable_events
from tests.unit.streaming.replay.log_script import LogScript
from tests.unit.streaming.replay.test_block_replay import Script, block_of, step


def undecodable(offset: int) -> Undecodable:
    return Undecodable(offset=Offset(offset), reason="invalid", length=3)


def test_events_of_blocks_count_as_those_that_are_by_themselves() -> None:
    first, *others = Script(snapshot=False).events([step("set"), step("change"), step("create")])
    inside = [first, undecodable(8), *others, undecodable(9)]
    alone: list[ObservedEvent] = [undecodable(1), LogScript().leader(1), undecodable(2)]
    observed = [*alone, block_of(inside, snapshot=False), undecodable(3)]

    assert event_count(observed) == 9
    assert [*undecodable_events(observed)] == [
        (0, undecodable(1)),
        (2, undecodable(2)),
        (4, undecodable(8)),
        (7, undecodable(9)),
        (8, undecodable(3)),
    ]


def test_the_first_offset_is_that_of_the_first_event_with_one() -> None:
    script = LogScript(offset=7)
    none = Undecodable(offset=None, reason="invalid", length=3)
    block = block_of(Script(snapshot=False).events([step("set"), step("change")]), snapshot=False)

    assert first_offset([none]) is None
    assert first_offset([none, script.leader(1), block]) == 7
    assert first_offset([none, block, script.leader(1)]) == 1
