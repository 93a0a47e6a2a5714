"""Kafka client: connection, login, requests and error classification. It sends no request that writes."""

import logging
import warnings

# At DEBUG kafka-python logs passwords, tokens and every received byte; at ERROR its parser still logs the whole buffer
# of a response that it cannot decode. Connection failures are recorded as FailedObservation instead.
logging.getLogger("kafka").setLevel(logging.CRITICAL)
# kafka-python 3.0 reads its messages' schemas by a function that Python 3.11 and 3.12 call deprecated.
warnings.filterwarnings("ignore", "(read|open)_text is deprecated", DeprecationWarning)
