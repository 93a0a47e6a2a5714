"""The event of a row that cannot be decoded: it says how much is lost and why, and quotes nothing of it."""

import pytest

from connectors.errors import UsageError
from connectors.log_event import Undecodable
from streaming.replay.failure_reason import undecodable_row


def test_an_undecodable_row_has_its_length_and_the_place_of_the_failure() -> None:
    with pytest.raises(KeyError) as raised:
        dict[str, int]()["hunter2"]

    event = undecodable_row(b"hunter2", raised.value)

    assert (event.offset, event.length) == (None, 7)
    assert event.reason.startswith("the row cannot be decoded: KeyError in ")
    assert "hunter2" not in event.reason


def test_a_message_of_kraftwatch_is_the_reason() -> None:
    assert undecodable_row(b"", UsageError("kind 9 is unknown")) == Undecodable(
        offset=None, reason="the row cannot be decoded: kind 9 is unknown", length=0
    )
