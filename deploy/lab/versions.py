"""What a Kafka can do that an older one cannot, as far as a lab has to mind it."""

from deploy.lab.errors import LabError

_DYNAMIC_SINCE = (3, 9)
"""KIP-853: voters in the log, directory ids, DescribeQuorum v2, advertised listeners of controllers."""


def is_dynamic(version: str) -> bool:
    """Whether this Kafka can keep its voters in the log (kraft.version 1) instead of in its configuration.

    Raises:
        LabError: it is no version, such as 4.3.1.
    """
    try:
        major, minor = map(int, version.split(".")[:2])
    except ValueError:
        raise LabError(f"{version!r} is no version of Kafka: name one such as 4.3.1") from None
    return (major, minor) >= _DYNAMIC_SINCE
