"""Data contracts that were violated in the last hour: reported by undecodable records and by audits."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from connectors.log_event import Undecodable
from connectors.observation_event import ObservationsAudited
from rules.model.identifiers import Millis
from rules.model.monitoring import ContractViolation

DECODES = "every-record-decodes"
"""The contract that replay itself checks."""
REMEMBERED_MS = Millis(3_600_000)
"""A violation is kept this long: no later row can undo it."""
REMEMBERED = 32
"""The maximum number of violated contracts that are kept, the newest ones."""


@dataclass(slots=True, kw_only=True)
class ContractViolations:
    """The newest violation of each contract, oldest first."""

    violations: tuple[ContractViolation, ...] = ()

    def undecodable(self, event: Undecodable, *, sequence: int, now_ms: Millis) -> None:
        """Adds a batch, record or row that cannot be decoded."""
        location = "" if event.offset is None else f"offset {event.offset}: "
        known = sum(each.rows for each in self._of(DECODES))
        self._add(
            ContractViolation(
                contract=DECODES,
                promise="every recorded batch, record and observation can be decoded",
                grave=False,
                rows=known + 1,
                first_at_ms=now_ms,
                last_at_ms=now_ms,
                example=f"{location}{event.reason}",
                sequence=sequence,
            )
        )

    def audited(self, event: ObservationsAudited, now_ms: Millis) -> None:
        """Adds the violations of an audit. A contract that the audit found intact is not removed before it expires."""
        for broken in event.broken:
            self._add(
                ContractViolation(
                    contract=broken.contract,
                    promise=broken.promise,
                    grave=broken.grave,
                    rows=broken.rows,
                    first_at_ms=now_ms,
                    last_at_ms=now_ms,
                    example=broken.example,
                    sequence=broken.sequence,
                )
            )

    def expire(self, now_ms: Millis) -> None:
        """Drops violations older than REMEMBERED_MS."""
        if any(now_ms - each.last_at_ms > REMEMBERED_MS for each in self.violations):
            self.violations = tuple(each for each in self.violations if now_ms - each.last_at_ms <= REMEMBERED_MS)

    def _add(self, violation: ContractViolation) -> None:
        first = next((each.first_at_ms for each in self._of(violation.contract)), violation.first_at_ms)
        others = (each for each in self.violations if each.contract != violation.contract)
        self.violations = (*others, replace(violation, first_at_ms=first))[-REMEMBERED:]

    def _of(self, contract: str) -> Iterable[ContractViolation]:
        return (each for each in self.violations if each.contract == contract)
