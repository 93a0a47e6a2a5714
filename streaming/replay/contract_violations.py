"""Contracts: which data contracts were broken lately, by what did not decode and by what the audits found."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from connectors.event import Audited, Undecodable
from rules.model.identifiers import Millis
from rules.model.monitoring import ContractViolation

DECODES = "every-record-decodes"
"""The contract that replay itself sees broken."""
REMEMBERED_MS = Millis(3_600_000)
"""No later row mends a broken one: it is remembered this long."""
REMEMBERED = 32
"""How many contracts are remembered to be broken: those found last."""


@dataclass(slots=True, kw_only=True)
class Contracts:
    """What was found broken, a contract once, the one found last at the end."""

    breaches: tuple[ContractViolation, ...] = ()

    def undecodable(self, event: Undecodable, *, sequence: int, now_ms: Millis) -> None:
        """A batch, record or row that does not decode."""
        where = "" if event.offset is None else f"offset {event.offset}: "
        before = sum(each.rows for each in self._of(DECODES))
        self._found(
            ContractViolation(
                contract=DECODES,
                promise="every batch, record and look that is recorded decodes",
                grave=False,
                rows=before + 1,
                first_at_ms=now_ms,
                last_at_ms=now_ms,
                example=f"{where}{event.reason}",
                sequence=sequence,
            )
        )

    def audited(self, event: Audited, now_ms: Millis) -> None:
        """An audit's verdict: what it found broken; what it did not is forgotten only in time."""
        for one in event.broken:
            self._found(
                ContractViolation(
                    contract=one.contract,
                    promise=one.promise,
                    grave=one.grave,
                    rows=one.rows,
                    first_at_ms=now_ms,
                    last_at_ms=now_ms,
                    example=one.example,
                    sequence=one.sequence,
                )
            )

    def forget(self, now_ms: Millis) -> None:
        """Drop what was found too long ago."""
        if any(now_ms - each.last_at_ms > REMEMBERED_MS for each in self.breaches):
            self.breaches = tuple(each for each in self.breaches if now_ms - each.last_at_ms <= REMEMBERED_MS)

    def _found(self, breach: ContractViolation) -> None:
        first = next((each.first_at_ms for each in self._of(breach.contract)), breach.first_at_ms)
        others = (each for each in self.breaches if each.contract != breach.contract)
        self.breaches = (*others, replace(breach, first_at_ms=first))[-REMEMBERED:]

    def _of(self, contract: str) -> Iterable[ContractViolation]:
        return (each for each in self.breaches if each.contract == contract)
