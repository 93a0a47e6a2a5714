"""FetchSnapshot (KIP-630), which kafka-python lacks, compiled from Kafka's own schemas in this folder."""

from kafka.protocol.api_message import ApiMessage


class FetchSnapshotRequest(ApiMessage, load_json=__name__):  # type: ignore[misc, call-arg]
    """Requests a piece of a leader's `.checkpoint`."""


class FetchSnapshotResponse(ApiMessage, load_json=__name__):  # type: ignore[misc, call-arg]
    """The piece."""
