"""AuditResults: what each audit found about each data contract, in the job's database."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Final

from sqlalchemy import delete, func, insert, select

from connectors.store.database import Database
from connectors.store.tables import AUDITS
from rules.finding import Severity
from rules.model.identifiers import Millis

KEEP: Final = 20_000
"""Results that are kept: those of an audit a day for about a year."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractResult:
    """What one audit found about one contract."""

    audited_at_ms: Millis
    """The same for all contracts of an audit."""
    suite: str
    contract: str
    severity: Severity
    checked_rows: int
    """Rows of the suite in this audit."""
    broken_rows: int
    """Those that violate the contract."""
    clusters: tuple[str, ...] = ()
    """Of the example rows: the first 20 that violate it."""
    example: str | None = None
    """The newest example row, as text."""


class AuditResults:
    """The results of all audits; the oldest ones are dropped. Raises StoreError if the database cannot be used."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, results: Sequence[ContractResult]) -> None:
        """Stores the results of one audit."""
        if not results:
            return
        with self._database.transaction() as connection:
            connection.execute(
                insert(AUDITS), [{**asdict(result), "clusters": [*result.clusters]} for result in results]
            )
            newest = connection.scalar(select(func.max(AUDITS.c.number))) or 0
            connection.execute(delete(AUDITS).where(AUDITS.c.number <= newest - KEEP))

    def all(self) -> Iterator[ContractResult]:
        """Yields all results, oldest first."""
        yield from self._read(newest_audit=False)

    def newest(self) -> Sequence[ContractResult]:
        """Returns the results of the newest audit; none before the first one."""
        return [*self._read(newest_audit=True)]

    def _read(self, *, newest_audit: bool) -> Iterator[ContractResult]:
        if not self._database.exists:
            return
        query = select(*(AUDITS.c[field.name] for field in fields(ContractResult))).order_by(AUDITS.c.number)
        if newest_audit:
            query = query.where(AUDITS.c.audited_at_ms == select(func.max(AUDITS.c.audited_at_ms)).scalar_subquery())
        with self._database.reading() as connection:
            for row in connection.execute(query):
                found = {**row._mapping, "severity": Severity(row.severity), "clusters": tuple(row.clusters)}
                yield ContractResult(**found)
