"""The error codes of Kafka's protocol that kraftwatch tells apart, by Kafka's names (class Errors)."""

from enum import IntEnum
from typing import Final

from kafka import errors as kafka_errors


class ErrorCode(IntEnum):
    """An error code of a response. A response may hold any other number too."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    UNKNOWN_TOPIC_OR_PARTITION = 3
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    CLUSTER_AUTHORIZATION_FAILED = 31
    UNSUPPORTED_SASL_MECHANISM = 33
    ILLEGAL_SASL_STATE = 34
    UNSUPPORTED_VERSION = 35
    SASL_AUTHENTICATION_FAILED = 58
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    SNAPSHOT_NOT_FOUND = 98
    POSITION_OUT_OF_RANGE = 99
    UNKNOWN_TOPIC_ID = 100
    INCONSISTENT_CLUSTER_ID = 104


WRONG_EPOCH: Final = frozenset({ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH})
"""The leader epoch of the request is older or newer than the node's."""
NOT_LEADER: Final = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, *WRONG_EPOCH})
"""The node does not lead, or not in the epoch of the request; it names the leader that it knows."""
_NAMES: Final[dict[int, str]] = {
    **{code: error.message for code, error in kafka_errors.kafka_errors.items()},
    **{each.value: each.name for each in ErrorCode},
}


def error_name(code: int) -> str:
    """Returns Kafka's name of an error code; `error 200` for a code that kafka-python does not know either."""
    return _NAMES.get(code, f"error {code}")
