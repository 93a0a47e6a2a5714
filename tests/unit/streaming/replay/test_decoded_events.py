"""The events of one observation, by themselves or in runs: their number, their first offset, the undecodable ones."""

from connectors.observations.log_event import Undecodable
from connectors.observations.partition_run import DecodedItem
from rules.model.identifiers import Millis, Offset
from streaming.replay.decoded_row import DecodedRow
from tests.unit.streaming.replay.log_script import LogScript
from tests.unit.streaming.replay.test_run_replay import Script, runs_of, step


def undecodable(offset: int) -> Undecodable:
    return Undecodable(offset=Offset(offset), reason="invalid", length=3)


def row_of(*events: DecodedItem) -> DecodedRow:
    return DecodedRow(1, Millis(0), events)


def test_events_of_runs_count_as_those_that_are_by_themselves() -> None:
    run = runs_of(Script(snapshot=False).events([step("set"), step("change"), step("create")]))
    alone: list[DecodedItem] = [undecodable(1), LogScript().leader(1), undecodable(2)]
    observed = row_of(*alone, *run, undecodable(3))

    assert len(run) == 1
    assert observed.event_count == 7
    assert [*observed.undecodable()] == [(0, undecodable(1)), (2, undecodable(2)), (6, undecodable(3))]


def test_the_first_offset_is_that_of_the_first_event_with_one() -> None:
    script = LogScript(offset=7)
    none = Undecodable(offset=None, reason="invalid", length=3)
    (run,) = runs_of(Script(snapshot=False).events([step("set"), step("change")]))

    assert row_of(none).first_offset is None
    assert row_of(none, script.leader(1), run).first_offset == 7
    assert row_of(none, run, script.leader(1)).first_offset == 1
