"""What a response may contain: its size, for each request, and its numbers, as Kafka can send them.

The sizes, and where they come from:

- Record batches: `KafkaRaftClient.MAX_BATCH_SIZE_BYTES` is 8 MiB, for the log and for snapshots
  (`internal.metadata.max.batch.size.in.bytes`). Twice as much is accepted.
- Fetch returns at most the requested bytes, or one batch if the first is larger (`LogSegment.read`). FetchSnapshot
  never returns more than the requested bytes.
- All else: DescribeQuorum and DescribeCluster have about 45 bytes for each of up to 5,000 nodes; a Kerberos token with
  many groups reaches 64 KiB. Decoding so many bytes holds up the other clusters by a quarter of a second at most.

`known` and `optional` take a number and its field, such as `Fetch: high_watermark`; -1 becomes None where Kafka writes
-1 for unknown. They raise an ObservationError (INVALID_RESPONSE) that names both. A larger number would overflow a
column of 64 bits or a date later, where it would stop the stream for every cluster.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, NewType, TypeVar

from kafka.protocol.consumer import FetchRequest

from connectors.errors import ObservationError
from connectors.kafka.schemas import FetchSnapshotRequest
from rules.model.identifiers import Epoch, Millis, NodeId, Offset
from rules.model.monitoring import Reason

MAX_BATCH_BYTES: Final = 16 * 1024 * 1024
"""The largest record batch that is accepted: twice Kafka's own maximum."""
MAX_RESPONSE_BYTES: Final = 256 * 1024
"""Of a whole response, without its length; of Fetch and FetchSnapshot besides the records."""
_HOST_CHARACTERS: Final = 255
"""RFC 1035, section 2.3.4: a domain name has at most 255 bytes."""
Port = NewType("Port", int)


def max_response_bytes(request: Any) -> int:
    """Returns the largest accepted size of the response to this request, without its length prefix."""
    match request:
        case FetchRequest():
            return MAX_RESPONSE_BYTES + max(int(request.max_bytes), MAX_BATCH_BYTES)
        case FetchSnapshotRequest():
            return MAX_RESPONSE_BYTES + int(request.max_bytes)
        case _:
            return MAX_RESPONSE_BYTES


Number = TypeVar("Number", bound=int)
_LARGEST: Final[Mapping[Callable[[int], int], int]] = {
    Offset: 2**62,
    Epoch: 2**31 - 1,
    NodeId: 2**31 - 1,
    Millis: 253_402_300_799_999,  # the end of the year 9999
    Port: 65_535,
}


def known(kind: Callable[[int], Number], value: Any, field: str) -> Number:
    """Returns a number of this kind that Kafka always knows; an Offset may be a size in bytes."""
    number, largest = int(value), _LARGEST[kind]
    if not 0 <= number <= largest:
        raise invalid(f"{field} is {number}, which Kafka cannot write: at most {largest} is accepted")
    return kind(number)


def optional(kind: Callable[[int], Number], value: Any, field: str) -> Number | None:
    """Returns a number of this kind; None for -1, and where an older version does not have it."""
    return None if value is None or value == -1 else known(kind, value, field)


def invalid(why: str) -> ObservationError:
    """Returns the error for a response that Kafka does not send; `why` names the API and the field."""
    return ObservationError(Reason.INVALID_RESPONSE, why)


def known_host(value: str | None, field: str) -> str:
    """Returns a host's name that Kafka can write."""
    if value is None or len(value) > _HOST_CHARACTERS:
        why = "missing" if value is None else f"a string of {len(value)} characters"
        raise invalid(f"{field} is {why}, at most {_HOST_CHARACTERS} are accepted")
    return value
