"""One decoded row: the number and the first offset of its events, and what its event says if it cannot be decoded."""

from collections.abc import Iterable

import pytest

from connectors.observations.log_event import Undecodable
from connectors.observations.observation import Observation, ObservationKind
from connectors.observations.partition_run import DecodedItem
from rules.model.identifiers import Millis, Offset
from streaming.replay.decoded_row import DecodedRow, decoded_row
from tests.scripts.log_script import LogScript
from tests.unit.streaming.replay.run_script import Script, runs_of, step

ROW = Observation(cluster="prod", kind=ObservationKind.QUORUM, observed_at_ms=5, payload=b"hunter2", sequence=7)


def test_a_row_whose_decoding_raises_has_its_length_and_the_place_of_the_failure() -> None:
    def decode(row: Observation) -> Iterable[DecodedItem]:
        return [dict[str, Undecodable]()[row.payload.decode()]]

    decoded = decoded_row(ROW, decode)

    (event,) = decoded.events
    assert (decoded.sequence, decoded.observed_at_ms) == (7, 5)
    assert isinstance(event, Undecodable)
    assert (event.offset, event.length) == (None, 7)
    assert event.reason.startswith("the row cannot be decoded: KeyError in ")
    assert "hunter2" not in event.reason


def test_memory_is_no_matter_of_a_row() -> None:
    def decode(_: Observation) -> Iterable[DecodedItem]:
        raise MemoryError

    with pytest.raises(MemoryError):
        decoded_row(ROW, decode)


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
