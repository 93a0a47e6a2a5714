"""The reason why something failed, as a text that never quotes a record."""

from connectors.errors import KraftwatchError
from rules.evaluate import exception_site


def failure_reason(error: BaseException) -> str:
    """Returns kraftwatch's own message, which never contains a secret; of another exception its type and place only."""
    return str(error) if isinstance(error, KraftwatchError) else exception_site(error)
