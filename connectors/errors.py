"""The one tree of errors. An unhealthy quorum is never an exception: it is a Finding."""

from typing import ClassVar

from rules.model.monitoring import Reason


class KraftwatchError(Exception):
    """The root: one clear sentence naming the thing, the place and what to do. Never holds a secret."""

    code: ClassVar[str] = "kraftwatch"
    retriable: ClassVar[bool] = False


class UsageError(KraftwatchError):
    """Bad input (option, configuration, file): printed as it is, exit code 2."""

    code = "usage"


class UnseenError(KraftwatchError):
    """A look at the outside world failed, for a reason that goes into an `unseen` row."""

    code = "unseen"
    retriable = True

    def __init__(self, reason: Reason, detail: str) -> None:
        """`detail` says what happened in words that hold no secret."""
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


class UndecodableError(KraftwatchError):
    """Bytes that are not what they should be: quarantined with offset and reason."""

    code = "undecodable"


class JournalError(KraftwatchError):
    """The journal cannot be used as it is: says which file, and what to do."""

    code = "journal"


class JournalInUseError(JournalError):
    """Another process holds the journal's lock."""

    code = "journal-in-use"
    retriable = True


class LedgerError(KraftwatchError):
    """The ledger of what was told cannot be read or written: says which file, and what to do."""

    code = "ledger"
