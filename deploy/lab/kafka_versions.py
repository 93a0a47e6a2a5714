"""Capabilities that depend on the Kafka version, as far as the lab needs them."""

import re

from deploy.lab.lab_errors import LabError

_VERSION = re.compile(r"(\d+)\.(\d+)(?:\.\d+)*")
_DYNAMIC_SINCE = (3, 9)
"""KIP-853: voters in the log, directory ids, DescribeQuorum v2, advertised listeners of controllers."""
_CONTROLLERS_ACCEPT_CLIENTS_SINCE = (3, 7)
"""KIP-919: Kafka's tools and DescribeCluster at the controllers' listener."""


def is_dynamic(version: str) -> bool:
    """Returns whether this Kafka can store its voters in the log (kraft.version 1) instead of its configuration.

    Raises:
        LabError: `version` is no version such as 4.3.1.
    """
    return _release(version) >= _DYNAMIC_SINCE


def controllers_accept_clients(version: str) -> bool:
    """Returns whether controllers answer Kafka's tools and report their cluster id.

    Raises:
        LabError: `version` is no version such as 4.3.1.
    """
    return _release(version) >= _CONTROLLERS_ACCEPT_CLIENTS_SINCE


def _release(version: str) -> tuple[int, int]:
    numbers = _VERSION.fullmatch(version)
    if numbers is None:
        raise LabError(f"{version!r} is not a Kafka version: expected one such as 4.3.1")
    return int(numbers[1]), int(numbers[2])
