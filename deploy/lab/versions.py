"""What a Kafka can do that an older one cannot, as far as a lab has to mind it."""

import re

from deploy.lab.errors import LabError

_VERSION = re.compile(r"(\d+)\.(\d+)(?:\.\d+)*")
_DYNAMIC_SINCE = (3, 9)
"""KIP-853: voters in the log, directory ids, DescribeQuorum v2, advertised listeners of controllers."""


def is_dynamic(version: str) -> bool:
    """Whether this Kafka can keep its voters in the log (kraft.version 1) instead of in its configuration.

    Raises:
        LabError: it is no version, such as 4.3.1.
    """
    numbers = _VERSION.fullmatch(version)
    if numbers is None:
        raise LabError(f"{version!r} is no version of Kafka: name one such as 4.3.1")
    return (int(numbers[1]), int(numbers[2])) >= _DYNAMIC_SINCE
