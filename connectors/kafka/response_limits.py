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

The functions of numbers take the value and its field, such as `Fetch: high_watermark`; -1 becomes None where Kafka
writes -1 for unknown. They raise an ObservationError (INVALID_RESPONSE) that names both. A larger number would overflow
a column of 64 bits or a date later, where it would stop the stream for every cluster.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from connectors.errors import ObservationError
from connectors.kafka.kafka_python import (
    ApiVersionsRequest,
    DescribeClusterRequest,
    DescribeConfigsRequest,
    DescribeQuorumRequest,
    FetchRequest,
    FetchSnapshotRequest,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
)
from rules.model.identifiers import Epoch, Millis, NodeId, Offset
from rules.model.membership import MOST_VOTERS
from rules.model.monitoring import Reason

KIB: Final = 1024
MAX_BATCH_BYTES: Final = 16 * KIB * KIB
"""The largest record batch that is accepted: twice Kafka's own maximum."""
_OVERHEAD_BYTES: Final = 64 * KIB
"""Fields of Fetch and FetchSnapshot beside the records: topic, epochs, the leader's endpoint."""
LOGIN_BYTES: Final = 256 * KIB
_MAX_OFFSET: Final = 2**62
_MAX_MS: Final = 253_402_300_799_999
"""The end of the year 9999."""
_MAX_INT32: Final = 2**31 - 1
_MAX_PORT: Final = 65_535
_UNKNOWN: Final = -1


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

_LIMITS: Final[Mapping[int, ResponseLimits]] = {
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


def limits_of(api_key: int) -> ResponseLimits:
    """Returns the limits of an API that kraftwatch uses.

    Raises:
        KeyError: kraftwatch does not use this API.
    """
    return _LIMITS[api_key]


def max_response_bytes(request: Any) -> int:
    """Returns the largest accepted size of the response to this request, without its length prefix.

    Raises:
        KeyError: kraftwatch does not use this API.
    """
    limit = _LIMITS[request.API_KEY].max_bytes
    match request.API_KEY:
        case FetchRequest.API_KEY:
            return limit + max(int(request.max_bytes), MAX_BATCH_BYTES)
        case FetchSnapshotRequest.API_KEY:
            return limit + int(request.max_bytes)
        case _:
            return limit


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
