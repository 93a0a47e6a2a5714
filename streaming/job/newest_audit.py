"""NewestAudit: what the newest recorded audit found, as the rules about the job evaluate it.

`kraftwatch data audit --record`, another process, writes the results into the job's store.
"""

import logging
from collections.abc import Callable
from typing import Final

from connectors.errors import StoreError
from connectors.process.wall_clock import steady_ms
from connectors.store.audit_results import AuditResults
from rules.finding import Severity
from rules.model.identifiers import Millis
from rules.model.job_state import AuditedContract, AuditState

log = logging.getLogger(__name__)

READ_EVERY_MS: Final = 30_000


class NewestAudit:
    """Reads the store at most every half minute. While it cannot be read, what was read before stays."""

    def __init__(self, results: AuditResults, steady: Callable[[], Millis] = steady_ms) -> None:
        """Reads nothing yet. `steady` returns milliseconds that only grow."""
        self._results, self._steady = results, steady
        self._read_at: Millis | None = None
        self._state: AuditState | None = None

    def state(self) -> AuditState | None:
        """Returns what was found; None if it could not be read yet."""
        now = self._steady()
        if self._read_at is None or now - self._read_at >= READ_EVERY_MS:
            self._read_at = now
            try:
                self._state = self._read()
            except StoreError as problem:
                log.warning("the results of audits cannot be read: %s", problem)
        return self._state

    def _read(self) -> AuditState:
        results = self._results.newest()
        return AuditState(
            at_ms=results[0].audited_at_ms if results else Millis(0),
            broken=tuple(
                AuditedContract(
                    name=result.contract,
                    suite=result.suite,
                    grave=result.severity is Severity.CRITICAL,
                    rows=result.broken_rows,
                    checked_rows=result.checked_rows,
                    clusters=result.clusters,
                    example=result.example,
                )
                for result in results
                if result.broken_rows
            ),
        )
