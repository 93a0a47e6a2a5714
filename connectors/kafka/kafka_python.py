"""kafka-python's classes that carry the wire, each imported here and nowhere else.

Two reasons for one door: kafka-python 3.0 reads its schemas in a way that warns of deprecation at import on
Python 3.11 and 3.12 (our tests turn warnings into errors), and FetchSnapshot, which it lacks, is compiled here
from a description of our own.
"""

import logging
import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import errors as kafka_errors
    from kafka.future import Future
    from kafka.net.connection import KafkaConnection
    from kafka.net.sasl.oauth import AbstractTokenProvider
    from kafka.net.selector import NetworkSelector
    from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport
    from kafka.protocol.admin import (
        DescribeClusterRequest,
        DescribeConfigsRequest,
        DescribeQuorumRequest,
        DescribeQuorumResponse,
    )
    from kafka.protocol.api_message import ApiMessage
    from kafka.protocol.consumer import FetchRequest, FetchResponse
    from kafka.protocol.metadata import ApiVersionsRequest

    from connectors.kafka import schemas

    class FetchSnapshotRequest(ApiMessage, load_json=schemas):  # type: ignore[misc, call-arg]
        """FetchSnapshot (KIP-630): a piece of a leader's `.checkpoint`."""

    class FetchSnapshotResponse(ApiMessage, load_json=schemas):  # type: ignore[misc, call-arg]
        """The piece."""


_PINNED = (
    "kafka",
    "kafka.net",
    "kafka.net.connection",
    "kafka.net.transport",
    "kafka.net.selector",
    "kafka.protocol",
    "kafka.protocol.parser",
)


def hush() -> None:
    """Pin kafka-python's loggers, whatever verbosity was asked for.

    At DEBUG they print passwords, tokens and every byte received; at ERROR the parser still prints the whole
    buffer of an answer it cannot decode. What we have to say of a connection, our own `unseen` rows say.
    """
    for name in _PINNED:
        logging.getLogger(name).setLevel(logging.CRITICAL)


hush()

__all__ = [
    "AbstractTokenProvider",
    "ApiVersionsRequest",
    "DescribeClusterRequest",
    "DescribeConfigsRequest",
    "DescribeQuorumRequest",
    "DescribeQuorumResponse",
    "FetchRequest",
    "FetchResponse",
    "FetchSnapshotRequest",
    "FetchSnapshotResponse",
    "Future",
    "KafkaConnection",
    "KafkaSSLTransport",
    "KafkaTCPTransport",
    "NetworkSelector",
    "hush",
    "kafka_errors",
]
