"""A tally: what of the contracts was broken, over all tables that were held against them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from connectors.event import Audited, BrokenContract
from rules.finding import Plain, Severity
from streaming.data_quality.contract import Contract, Suite
from streaming.data_quality.observation_contracts import JOURNAL
from streaming.replay.contract_violations import DECODES

EXAMPLES_MAX = 20
"""Rows that are named of each contract; all are counted."""
_EXAMPLE_CHARACTERS = 160
_VERDICT_MAX = 8
"""Broken contracts that a verdict names, the worst: it travels as one line that a pipe takes whole (4,096 bytes)."""
_SEEN_BY_REPLAY = (DECODES,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """One contract that rows broke."""

    contract: Contract
    rows: int
    examples: Sequence[Mapping[str, object]]
    """Some of the rows: their places, and the columns that the contract reads."""

    def of(self, cluster: str) -> "Broken | None":
        """What of the examples is of one cluster; None when nothing is. Its rows are counted as far as named."""
        own = [one for one in self.examples if one.get("cluster") in (cluster, JOURNAL)]
        return Broken(contract=self.contract, rows=len(own), examples=own) if own else None

    def plain(self) -> dict[str, Plain]:
        """As JSON says it."""
        contract = self.contract
        return {
            "contract": contract.name,
            "suite": contract.suite.value,
            "severity": contract.severity.value,
            "promise": contract.promise,
            "why": contract.why,
            "source": contract.source,
            "rows": self.rows,
            "examples": [{name: said(value) for name, value in one.items()} for one in self.examples],
        }


class Tally:
    """Rows seen and contracts broken."""

    def __init__(self) -> None:
        self.rows: dict[Suite, int] = dict.fromkeys(Suite, 0)
        self._broken: dict[str, Broken] = {}

    def add(self, suite: Suite, rows: int, broken: Sequence[Broken]) -> None:
        """What one table came to."""
        self.rows[suite] += rows
        for one in broken:
            before = self._broken.get(one.contract.name)
            if before is not None:
                examples = (*before.examples, *one.examples)[:EXAMPLES_MAX]
                one = Broken(contract=one.contract, rows=before.rows + one.rows, examples=examples)
            self._broken[one.contract.name] = one

    @property
    def broken(self) -> Sequence[Broken]:
        """The contracts that were broken, the worst first, then by name."""
        worst_first = list(Severity)
        return sorted(
            self._broken.values(), key=lambda one: (worst_first.index(one.contract.severity), one.contract.name)
        )

    def verdict(self, cluster: str, *, rows: int, first: int, last: int) -> Audited:
        """What an audit says of one cluster: of what replay itself sees as it happens, nothing."""
        found = (one.of(cluster) for one in self.broken if one.contract.name not in _SEEN_BY_REPLAY)
        broken = [_told(one) for one in found if one is not None]
        return Audited(rows=rows, first_sequence=first, last_sequence=last, broken=tuple(broken[:_VERDICT_MAX]))


def said(value: object) -> str | int | None:
    """A cell as JSON and people read it: Great Expectations makes texts of numbers."""
    if value is None or isinstance(value, int):
        return value
    text = str(value)
    digits = text.removeprefix("-")
    if digits.isdecimal():
        return int(text)
    return None if text in ("<NA>", "None", "nan") else text


def example_of(broken: Broken) -> str:
    """The newest named row in words."""
    return words(broken.examples[-1]) if broken.examples else ""


def words(example: Mapping[str, object]) -> str:
    """A named row in words: `row 12, base_offset_of_log 4, next_offset 9`."""
    cells = {name: said(value) for name, value in example.items() if name != "cluster"}
    return ", ".join(
        f"{'row' if name == 'sequence' else name} {value}" for name, value in cells.items() if value is not None
    )


def _told(broken: Broken) -> BrokenContract:
    newest = broken.examples[-1]
    sequence = said(newest.get("sequence"))
    return BrokenContract(
        contract=broken.contract.name,
        promise=broken.contract.promise,
        grave=broken.contract.severity is Severity.CRITICAL,
        rows=broken.rows,
        example=example_of(broken)[:_EXAMPLE_CHARACTERS],
        sequence=sequence if isinstance(sequence, int) else None,
    )
