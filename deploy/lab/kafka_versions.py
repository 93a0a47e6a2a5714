"""What a Kafka can do that an older one cannot, as far as a lab has to mind it."""

import re

from deploy.lab.lab_errors import LabError

_VERSION = re.compile(r"(\d+)\.(\d+)(?:\.\d+)*")
_DYNAMIC_SINCE = (3, 9)
"""KIP-853: voters in the log, directory ids, DescribeQuorum v2, advertised listeners of controllers."""
_CONTROLLERS_ANSWER_SINCE = (3, 7)
"""KIP-919: Kafka's tools and DescribeCluster at the controllers' listener."""


def is_dynamic(version: str) -> bool:
    """Whether this Kafka can keep its voters in the log (kraft.version 1) instead of in its configuration.

    Raises:
        LabError: it is no version, such as 4.3.1.
    """
    return _release(version) >= _DYNAMIC_SINCE


def tells_its_cluster(version: str) -> bool:
    """Whether its controllers say which cluster they are of.

    Raises:
        LabError: it is no version, such as 4.3.1.
    """
    return _release(version) >= _CONTROLLERS_ANSWER_SINCE


def _release(version: str) -> tuple[int, int]:
    numbers = _VERSION.fullmatch(version)
    if numbers is None:
        raise LabError(f"{version!r} is no version of Kafka: name one such as 4.3.1")
    return int(numbers[1]), int(numbers[2])
