"""The exceptions of kraftwatch. An unhealthy quorum is never an exception: it is a Finding."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rules.formatting import visible

if TYPE_CHECKING:
    from rules.model.monitoring import CertificateFault, DamagedBatch, Reason


class KraftwatchError(Exception):
    """The base class. The message is one sentence that names the object and the fix, and never contains a secret."""


class UsageError(KraftwatchError):
    """Invalid input (option, configuration, file). The CLI prints the message and exits with code 2."""


@contextmanager
def os_errors(what: str, advice: str = "") -> Iterator[None]:
    """Turns an OSError inside into one sentence: `what` cannot be done, the reason of the system, and the advice.

    Raises:
        UsageError: the sentence.
    """
    try:
        yield
    except OSError as problem:
        raise UsageError(f"{what}: {(problem.strerror or str(problem) or 'unusable').lower()}{advice}") from None


class ObservationError(KraftwatchError):
    """A poll, probe, fetch or name lookup failed; the gatherer records the reason as a FailedObservation."""

    def __init__(
        self,
        reason: "Reason",
        detail: str,
        *,
        certificate_fault: "CertificateFault | None" = None,
        late: bool = False,
    ) -> None:
        """`detail` describes the failure and must not contain a secret.

        Args:
            reason: what failed.
            detail: the same for people.
            certificate_fault: why the node's certificate was not accepted, if that is the failure.
            late: whether a node that did not answer in time had just answered on a new connection which versions it
                knows: its process runs.
        """
        # It may name a host that a node reported.
        self.detail = visible(detail)
        super().__init__(f"{reason}: {self.detail}")
        self.reason = reason
        self.certificate_fault = certificate_fault
        self.late = late

    def copy(self) -> "ObservationError":
        """Returns the same failure without the traceback, whose frames hold what the node sent."""
        return ObservationError(self.reason, self.detail, certificate_fault=self.certificate_fault, late=self.late)


class UndecodableError(KraftwatchError):
    """Bytes that cannot be decoded; they are quarantined with their offset and the reason."""


class DamagedLogError(KraftwatchError):
    """A leader's log or snapshot is damaged where it is fetched, and the next sound batch cannot be found."""

    def __init__(self, why: str, damage: "DamagedBatch") -> None:
        super().__init__(why)
        self.damage = damage


class StoreError(KraftwatchError):
    """A database cannot be read or written; the message names the file and the reason."""


class UnavailableStoreError(StoreError):
    """The server of the database does not answer now; a later attempt may succeed."""


class UnwritableStoreError(UnavailableStoreError):
    """A database of this machine cannot be written now: its disk is full, or fails; a later attempt may succeed."""


class OtherTablesError(StoreError, UsageError):
    """The tables of a database are of a newer version of kraftwatch: only a person can decide which one to start."""


class LeaseLostError(StoreError):
    """Another job that shares the store notifies now: nothing was written."""


class JournalError(StoreError):
    """The journal cannot be read or written; the message names the file and the fix."""


class UnwritableJournalError(JournalError):
    """The journal cannot be written now: its disk is full, or fails; a later attempt may succeed."""


class OtherJournalError(JournalError, UsageError):
    """The journal is of another version of kraftwatch: only a person can decide which one to start."""


class JournalInUseError(JournalError):
    """Another process holds the journal's lock."""


class ProcessEndedError(KraftwatchError):
    """A process of the job ended while it started, and gave no reason: it was killed, which no input can change."""
