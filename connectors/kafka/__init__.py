"""Kafka client: connection, login, requests and error classification. It sends no request that writes."""

import logging

# At DEBUG kafka-python logs passwords, tokens and every received byte; at ERROR its parser still logs the whole buffer
# of a response that it cannot decode. Connection failures are recorded in ObservationFailed events instead.
logging.getLogger("kafka").setLevel(logging.CRITICAL)
