"""Data contracts that the replay itself found violated in the last hour."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from connectors.errors import KraftwatchError
from connectors.observations.log_event import Undecodable
from rules.evaluate import exception_site
from rules.model.identifiers import Millis
from rules.model.monitoring import ContractViolation

DECODES = "every-record-decodes"
APPLIES = "every-row-can-be-applied"
"""A violation of it: the row is skipped, and the state is what it was before the row."""
PASSED_OVER = "no-offset-is-passed-over"
"""A violation of it: the log is applied up to the missing offsets, until it is read again."""
EVALUATES = "every-rule-can-be-evaluated"
RENDERS = "every-status-can-be-rendered"
READS = "every-state-can-be-read"
"""A violation of it: the cluster's state in Spark's checkpoint is damaged, and the cluster starts with a new one."""
PROMISES: Mapping[str, tuple[str, bool]] = {
    DECODES: ("every recorded batch, record and observation can be decoded", False),
    APPLIES: ("every row can be applied to the state, and the state evaluated after it", True),
    PASSED_OVER: ("no offset between two rows of the log is missing", True),
    EVALUATES: ("every rule can be evaluated on every state", False),
    RENDERS: ("every status and alert can be rendered", False),
    READS: ("the stored state of a cluster can be read", True),
}
"""The contracts that the replay checks on every row: the promise, and whether an operator must act now."""
SKIPPED = frozenset({APPLIES, DECODES})
"""Of the rows that violate them, some are skipped."""
AGAIN_MS = Millis(60_000)
"""A rule that fails is counted again after this long: it fails at every evaluation."""
REMEMBERED_MS = Millis(3_600_000)
"""A violation is kept this long: no later row can undo it."""


@dataclass(slots=True, kw_only=True)
class ContractViolations:
    """The newest violation of each contract, oldest first."""

    violations: tuple[ContractViolation, ...] = ()

    def undecodable(self, event: Undecodable, *, sequence: int, now_ms: Millis) -> None:
        """Adds a batch, record or row that cannot be decoded."""
        location = "" if event.offset is None else f"offset {event.offset}: "
        self.failed(DECODES, f"{location}{event.reason}", sequence=sequence, now_ms=now_ms)

    def failed(self, contract: str, example: str, *, sequence: int, now_ms: Millis) -> None:
        """Adds a violation of one of PROMISES, found at the row with this sequence."""
        promise, grave = PROMISES[contract]
        before = self._of(contract)
        found = ContractViolation(
            contract=contract,
            promise=promise,
            grave=grave,
            rows=1 if before is None else before.rows + 1,
            first_at_ms=now_ms if before is None else before.first_at_ms,
            last_at_ms=now_ms,
            example=example,
            sequence=sequence,
        )
        self.violations = (*(violation for violation in self.violations if violation is not before), found)

    def is_new(self, contract: str, example: str, now_ms: Millis) -> bool:
        """Returns whether this violation was not recorded within AGAIN_MS."""
        before = self._of(contract)
        return before is None or before.example != example or now_ms - before.last_at_ms >= AGAIN_MS

    def has(self, contracts: Collection[str]) -> bool:
        """Returns whether one of these contracts was violated."""
        return any(violation.contract in contracts for violation in self.violations)

    def expire(self, now_ms: Millis) -> None:
        """Drops violations older than REMEMBERED_MS."""
        if any(now_ms - violation.last_at_ms > REMEMBERED_MS for violation in self.violations):
            self.violations = tuple(
                violation for violation in self.violations if now_ms - violation.last_at_ms <= REMEMBERED_MS
            )

    def _of(self, contract: str) -> ContractViolation | None:
        return next((violation for violation in self.violations if violation.contract == contract), None)


def failure_reason(error: BaseException) -> str:
    """Returns why something failed, as a text that never quotes a record.

    It is kraftwatch's own message, which never contains a secret; of another exception its type and place only.
    """
    return str(error) if isinstance(error, KraftwatchError) else exception_site(error)
