"""What a response may contain: its size and its arrays, for each request, and its numbers, as Kafka can send them.

The numbers, and where they come from:

- Record batches: `KafkaRaftClient.MAX_BATCH_SIZE_BYTES` is 8 MiB, for the log and for snapshots
  (`internal.metadata.max.batch.size.in.bytes`). Twice as much is accepted.
- Fetch returns at most the requested bytes, or one batch if the first is larger (`LogSegment.read`). FetchSnapshot
  never returns more than the requested bytes.
- DescribeQuorum: 1,000 voters and 10,000 observers (brokers, and controllers without a vote) of 45 bytes each are
  495 kB. `RaftUtil.singletonDescribeQuorumResponse` lists the voters as nodes, with their listeners: 2,000 nodes and
  8,000 listeners of 128 bytes are 1 MB more.
- DescribeCluster: 11,000 nodes with a host of up to 255 bytes and a rack. ApiVersions: Kafka 4.3 has fewer than 100
  keys and 10 features. DescribeConfigs: only `node.id` of one node is requested. Login: names of mechanisms, and
  tokens; a Kerberos token with many groups reaches 64 KiB.

`known` and `optional` take a number and its field, such as `Fetch: high_watermark`; -1 becomes None where Kafka writes
-1 for unknown. They raise an ObservationError (INVALID_RESPONSE) that names both. A larger number would overflow a
column of 64 bits or a date later, where it would stop the stream for every cluster.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NewType, TypeVar

from kafka.protocol.admin import DescribeClusterRequest, DescribeConfigsRequest, DescribeQuorumRequest
from kafka.protocol.consumer import FetchRequest
from kafka.protocol.metadata import ApiVersionsRequest
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from connectors.errors import ObservationError
from connectors.kafka.schemas import FetchSnapshotRequest
from rules.model.identifiers import Epoch, Millis, NodeId, Offset
from rules.model.membership import MOST_VOTERS
from rules.model.monitoring import Reason

KIB: Final = 1024
MAX_BATCH_BYTES: Final = 16 * KIB * KIB
"""The largest record batch that is accepted: twice Kafka's own maximum."""
_OVERHEAD_BYTES: Final = 64 * KIB
"""Fields of Fetch and FetchSnapshot beside the records: topic, epochs, the leader's endpoint."""
LOGIN_BYTES: Final = 256 * KIB
Port = NewType("Port", int)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseLimits:
    """The limits of one API's responses."""

    max_bytes: int
    """Of the whole response, without its length. Fetch and FetchSnapshot: besides the records."""
    elements: Mapping[str, int]
    """The largest number of elements of each array in the whole response, by the array's path."""
    built_in_thread_from: int | None = 32 * KIB
    """From this size on the response is decoded in a worker thread; None: never, because it has few elements."""


_ONE_PARTITION: Final = {"responses": 16, "topics": 16, "responses.partitions": 16, "topics.partitions": 16}
"""One partition of one topic is requested."""

LIMITS: Final[Mapping[int, ResponseLimits]] = {
    ApiVersionsRequest.API_KEY: ResponseLimits(
        max_bytes=64 * KIB,
        elements={"api_keys": 1_000, "supported_features": 1_000, "finalized_features": 1_000},
    ),
    SaslHandshakeRequest.API_KEY: ResponseLimits(max_bytes=LOGIN_BYTES, elements={"mechanisms": 100}),
    SaslAuthenticateRequest.API_KEY: ResponseLimits(max_bytes=LOGIN_BYTES, elements={}),
    DescribeQuorumRequest.API_KEY: ResponseLimits(
        max_bytes=2 * KIB * KIB,
        elements={
            **_ONE_PARTITION,
            "topics.partitions.current_voters": MOST_VOTERS,
            "topics.partitions.observers": 10_000,
            "nodes": 2_000,
            "nodes.listeners": 8_000,
        },
    ),
    DescribeClusterRequest.API_KEY: ResponseLimits(max_bytes=4 * KIB * KIB, elements={"brokers": 11_000}),
    DescribeConfigsRequest.API_KEY: ResponseLimits(
        max_bytes=256 * KIB,
        elements={"results": 16, "results.configs": 1_000, "results.configs.synonyms": 1_000},
    ),
    FetchRequest.API_KEY: ResponseLimits(
        max_bytes=_OVERHEAD_BYTES,
        elements={**_ONE_PARTITION, "responses.partitions.aborted_transactions": 16, "node_endpoints": 1_000},
        built_in_thread_from=None,
    ),
    FetchSnapshotRequest.API_KEY: ResponseLimits(
        max_bytes=_OVERHEAD_BYTES,
        elements={**_ONE_PARTITION, "node_endpoints": 1_000},
        built_in_thread_from=None,
    ),
}
"""By the API's key: of all that kraftwatch uses."""


def max_response_bytes(request: Any) -> int:
    """Returns the largest accepted size of the response to this request, without its length prefix.

    Raises:
        KeyError: kraftwatch does not use this API.
    """
    limit = LIMITS[request.API_KEY].max_bytes
    match request.API_KEY:
        case FetchRequest.API_KEY:
            return limit + max(int(request.max_bytes), MAX_BATCH_BYTES)
        case FetchSnapshotRequest.API_KEY:
            return limit + int(request.max_bytes)
        case _:
            return limit


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
