"""The reason why something failed, as a text that never quotes a record; the event of a row that cannot be decoded."""

from connectors.errors import KraftwatchError
from connectors.log_event import Undecodable
from rules.exception_site import exception_site


def failure_reason(error: BaseException) -> str:
    """Returns kraftwatch's own message, which never contains a secret; of another exception its type and place only."""
    return str(error) if isinstance(error, KraftwatchError) else exception_site(error)


def undecodable_row(payload: bytes, error: Exception) -> Undecodable:
    """Returns the event of a whole row whose decoding raised: the stream continues with it."""
    reason = f"the row cannot be decoded: {failure_reason(error)}"
    return Undecodable(offset=None, reason=reason, length=len(payload))
