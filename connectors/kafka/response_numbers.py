"""The numbers of a response: -1 becomes None where Kafka writes -1 for unknown, and what Kafka cannot write is refused.

Each function takes the value and its field, such as `Fetch: high_watermark`, and raises an ObservationError
(INVALID_RESPONSE) that names both. A larger number would overflow a column of 64 bits or a date later, where it would
stop the stream for every cluster.
"""

from typing import Any, Final

from connectors.errors import ObservationError
from rules.model.identifiers import Epoch, Millis, NodeId, Offset
from rules.model.monitoring import Reason

_MAX_OFFSET: Final = 2**62
_MAX_MS: Final = 253_402_300_799_999
"""The end of the year 9999."""
_MAX_INT32: Final = 2**31 - 1
_MAX_PORT: Final = 65_535
_UNKNOWN: Final = -1


def offset(value: Any, field: str) -> Offset | None:
    """Returns an offset; None for -1."""
    return None if value == _UNKNOWN else Offset(_within(value, field, _MAX_OFFSET))


def known_offset(value: Any, field: str) -> Offset:
    """Returns an offset, or a size in bytes, that Kafka always knows."""
    return Offset(_within(value, field, _MAX_OFFSET))


def epoch(value: Any, field: str) -> Epoch | None:
    """Returns a leader epoch; None for -1."""
    return None if value == _UNKNOWN else known_epoch(value, field)


def known_epoch(value: Any, field: str) -> Epoch:
    """Returns a leader epoch that Kafka always knows."""
    return Epoch(_within(value, field, _MAX_INT32))


def millis(value: Any, field: str) -> Millis | None:
    """Returns a timestamp; None for -1, and where an older version does not have it."""
    return None if value is None or value == _UNKNOWN else Millis(_within(value, field, _MAX_MS))


def node_id(value: Any, field: str) -> NodeId | None:
    """Returns a node id; None for -1."""
    return None if value == _UNKNOWN else known_node_id(value, field)


def known_node_id(value: Any, field: str) -> NodeId:
    """Returns a node id that Kafka always knows."""
    return NodeId(_within(value, field, _MAX_INT32))


def port(value: Any, field: str) -> int:
    """Returns a port."""
    return _within(value, field, _MAX_PORT)


def invalid(why: str) -> ObservationError:
    """Returns the error for a response that Kafka does not send; `why` names the API and the field."""
    return ObservationError(Reason.INVALID_RESPONSE, why)


def _within(value: Any, field: str, largest: int) -> int:
    number = int(value)
    if not 0 <= number <= largest:
        raise invalid(f"{field} is {number}, which Kafka cannot write: at most {largest} is accepted")
    return number
