"""The contract violations of an audit, over all its tables."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from connectors.observation_event import BrokenContract, ObservationsAudited
from rules.finding import Plain, Severity
from streaming.data_quality.contract import Contract, Suite
from streaming.data_quality.observation_contracts import JOURNAL
from streaming.replay.contract_violations import DECODES

EXAMPLES_MAX = 20
"""Example rows for each contract; all rows are counted."""
_EXAMPLE_CHARACTERS = 160
_REPORTED_MAX = 8
"""Most broken contracts in an audit's result, the most severe first: it must fit into one pipe write (4,096 bytes)."""
_FOUND_BY_REPLAY = (DECODES,)


@dataclass(frozen=True, slots=True, kw_only=True)
class ViolatedContract:
    """One contract and the rows that violate it."""

    contract: Contract
    rows: int
    examples: Sequence[Mapping[str, object]]
    """Some of the rows: their keys and the columns that the contract reads."""

    def of(self, cluster: str) -> "ViolatedContract | None":
        """Returns the examples of one cluster; None if there is none. Only rows in the examples are counted."""
        own = [one for one in self.examples if one.get("cluster") in (cluster, JOURNAL)]
        return ViolatedContract(contract=self.contract, rows=len(own), examples=own) if own else None

    def plain(self) -> dict[str, Plain]:
        """Returns the JSON object."""
        contract = self.contract
        return {
            "contract": contract.name,
            "suite": contract.suite.value,
            "severity": contract.severity.value,
            "promise": contract.promise,
            "why": contract.why,
            "source": contract.source,
            "rows": self.rows,
            "examples": [{name: cell(value) for name, value in one.items()} for one in self.examples],
        }


class Violations:
    """Counts rows and collects violated contracts."""

    def __init__(self) -> None:
        self.rows: dict[Suite, int] = dict.fromkeys(Suite, 0)
        self._broken: dict[str, ViolatedContract] = {}

    def add(self, suite: Suite, rows: int, broken: Sequence[ViolatedContract]) -> None:
        """Adds the result of one table."""
        self.rows[suite] += rows
        for one in broken:
            before = self._broken.get(one.contract.name)
            if before is not None:
                examples = (*before.examples, *one.examples)[:EXAMPLES_MAX]
                one = ViolatedContract(contract=one.contract, rows=before.rows + one.rows, examples=examples)
            self._broken[one.contract.name] = one

    @property
    def broken(self) -> Sequence[ViolatedContract]:
        """The violated contracts, the most severe first, then by name."""
        return sorted(self._broken.values(), key=lambda one: (-one.contract.severity.rank, one.contract.name))

    def result_of(self, cluster: str, *, rows: int, first: int, last: int) -> ObservationsAudited:
        """Returns the audit's result for one cluster, without violations that the replay itself reports."""
        found = (one.of(cluster) for one in self.broken if one.contract.name not in _FOUND_BY_REPLAY)
        broken = [_recorded(one) for one in found if one is not None]
        return ObservationsAudited(
            rows=rows, first_sequence=first, last_sequence=last, broken=tuple(broken[:_REPORTED_MAX])
        )


def cell(value: object) -> str | int | None:
    """Returns a cell for JSON and people: Great Expectations turns numbers into texts."""
    if value is None or isinstance(value, int):
        return value
    text = str(value)
    digits = text.removeprefix("-")
    if digits.isdecimal():
        return int(text)
    return None if text in ("<NA>", "None", "nan") else text


def example_of(broken: ViolatedContract) -> str:
    """Returns the newest example row as text."""
    return row_text(broken.examples[-1]) if broken.examples else ""


def row_text(example: Mapping[str, object]) -> str:
    """Returns an example row as text: `row 12, base_offset_of_log 4, next_offset 9`."""
    cells = {name: cell(value) for name, value in example.items() if name != "cluster"}
    return ", ".join(
        f"{'row' if name == 'sequence' else name} {value}" for name, value in cells.items() if value is not None
    )


def _recorded(broken: ViolatedContract) -> BrokenContract:
    newest = broken.examples[-1]
    sequence = cell(newest.get("sequence"))
    return BrokenContract(
        contract=broken.contract.name,
        promise=broken.contract.promise,
        grave=broken.contract.severity is Severity.CRITICAL,
        rows=broken.rows,
        example=example_of(broken)[:_EXAMPLE_CHARACTERS],
        sequence=sequence if isinstance(sequence, int) else None,
    )
