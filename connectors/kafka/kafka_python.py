"""The only module that imports kafka-python.

kafka-python 3.0 raises a DeprecationWarning at import on Python 3.11 and 3.12, which the tests turn into an error, so
the import is wrapped here. kafka-python has no FetchSnapshot; this module compiles it from the project's own schema.
"""

import logging
import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import errors as kafka_errors
    from kafka.future import Future
    from kafka.net.connection import KafkaConnection
    from kafka.net.sasl import register_sasl_mechanism
    from kafka.net.sasl.gssapi import SaslMechanismGSSAPI
    from kafka.net.sasl.oauth import AbstractTokenProvider
    from kafka.net.selector import NetworkSelector, Task, TaskState
    from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport
    from kafka.protocol.admin import (
        DescribeClusterRequest,
        DescribeClusterResponse,
        DescribeConfigsRequest,
        DescribeConfigsResponse,
        DescribeQuorumRequest,
        DescribeQuorumResponse,
    )
    from kafka.protocol.api_header import RequestHeader, ResponseClassRegistry
    from kafka.protocol.api_message import ApiMessage
    from kafka.protocol.consumer import FetchRequest, FetchResponse
    from kafka.protocol.metadata import ApiVersionsRequest
    from kafka.protocol.parser import KafkaProtocol
    from kafka.protocol.sasl import SaslAuthenticateRequest, SaslBytesRequest, SaslHandshakeRequest

    from connectors.kafka import schemas

    class FetchSnapshotRequest(ApiMessage, load_json=schemas):  # type: ignore[misc, call-arg]
        """FetchSnapshot (KIP-630): requests a piece of a leader's `.checkpoint`."""

    class FetchSnapshotResponse(ApiMessage, load_json=schemas):  # type: ignore[misc, call-arg]
        """The piece."""


# At DEBUG kafka-python logs passwords, tokens and every received byte; at ERROR its parser still logs the whole buffer
# of a response that it cannot decode. Connection failures are recorded in ObservationFailed events instead.
logging.getLogger("kafka").setLevel(logging.CRITICAL)

__all__ = [
    "AbstractTokenProvider",
    "ApiVersionsRequest",
    "DescribeClusterRequest",
    "DescribeClusterResponse",
    "DescribeConfigsRequest",
    "DescribeConfigsResponse",
    "DescribeQuorumRequest",
    "DescribeQuorumResponse",
    "FetchRequest",
    "FetchResponse",
    "FetchSnapshotRequest",
    "FetchSnapshotResponse",
    "Future",
    "KafkaConnection",
    "KafkaProtocol",
    "KafkaSSLTransport",
    "KafkaTCPTransport",
    "NetworkSelector",
    "RequestHeader",
    "ResponseClassRegistry",
    "SaslAuthenticateRequest",
    "SaslBytesRequest",
    "SaslHandshakeRequest",
    "SaslMechanismGSSAPI",
    "Task",
    "TaskState",
    "kafka_errors",
    "register_sasl_mechanism",
]
