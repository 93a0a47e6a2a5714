"""FetchSnapshot (KIP-630), which kafka-python lacks, compiled from Kafka's own schemas."""

from kafka.protocol.api_message import ApiMessage

from connectors.kafka import schemas


class FetchSnapshotRequest(ApiMessage, load_json=schemas):  # type: ignore[misc, call-arg]
    """Requests a piece of a leader's `.checkpoint`."""


class FetchSnapshotResponse(ApiMessage, load_json=schemas):  # type: ignore[misc, call-arg]
    """The piece."""
