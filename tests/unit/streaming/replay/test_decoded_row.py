"""A row that cannot be decoded has one event: it says how much is lost and why, and quotes nothing of it."""

from collections.abc import Iterable

import pytest

from connectors.observations.log_event import Undecodable
from connectors.observations.observation import Observation, ObservationKind
from connectors.observations.partition_run import DecodedItem
from streaming.replay.decoded_row import decoded_row

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
