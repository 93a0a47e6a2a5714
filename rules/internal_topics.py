"""Kafka's internal topics, whose loss is more than their own: coordinators rebuild their state from them (KIP-704)."""

from collections.abc import Mapping
from typing import Final

HOLDS: Final[Mapping[str, str]] = {
    "__consumer_offsets": "consumer groups may go back to older offsets",
    "__transaction_state": "transactions may be left open or decided twice",
    "__share_group_state": "share groups may deliver records again",
}
"""By name: what may follow when acknowledged records of it are lost."""
