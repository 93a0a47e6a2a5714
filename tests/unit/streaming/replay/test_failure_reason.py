"""The event of a row that cannot be decoded: it says how much is lost and why, and quotes nothing of it."""

from connectors.errors import UsageError
from connectors.log_event import Undecodable
from streaming.replay.failure_reason import undecodable_row


def _failed(error: Exception) -> Exception:
    try:
        raise error
    except Exception as raised:  # noqa: BLE001 - any exception of a decoder
        return raised


def test_an_undecodable_row_has_its_length_and_the_place_of_the_failure() -> None:
    event = undecodable_row(b"hunter2", _failed(KeyError("hunter2")))

    assert (event.offset, event.length) == (None, 7)
    assert event.reason.startswith("the row cannot be decoded: KeyError in ")
    assert "hunter2" not in event.reason


def test_a_message_of_kraftwatch_is_the_reason() -> None:
    assert undecodable_row(b"", _failed(UsageError("kind 9 is unknown"))) == Undecodable(
        offset=None, reason="the row cannot be decoded: kind 9 is unknown", length=0
    )
